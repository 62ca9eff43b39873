"""Makes the .txt.gz files of this folder from the published tables; README.md describes both.

    python compact.py TRACE.parquet MICROSECONDS OUT.txt.gz

Needs DuckDB. Times are rounded to this many microseconds.
"""

import gzip
import itertools
import sys

import duckdb

LETTERS = {
    "params-all-gather": "a",
    "forward-compute": "f",
    "backward-compute": "b",
    "forward-send": "s",
    "forward-recv": "r",
    "backward-send": "S",
    "backward-recv": "R",
    "gc": "g",
    "layernorm-grads-all-reduce": "l",
    "embedding-grads-all-reduce": "e",
    "grads-reduce-scatter": "x",
    "optimizer-clip-main-grad": "c",
    "optimizer": "o",
}
QUERY = "SELECT step, dp_rank, stage, optype, seq_id, start_ts, duration FROM read_parquet(?) ORDER BY step, dp_rank, stage, start_ts, seq_id, optype"


def lines(rows, unit):
    yield f"unit_ns {unit * 1000}"
    for step, workers in itertools.groupby(rows, key=lambda row: row[0]):
        yield f"step {step}"
        for (replica, stage), operations in itertools.groupby(workers, key=lambda row: row[1:3]):
            previous, tokens, seen = 0, [], {}
            for _, _, _, name, order, begin, duration in operations:
                if order != seen.get(name, 0):
                    raise ValueError(f"step {step}, {replica}/{stage}: {name} {order} does not follow the order of time")
                seen[name] = order + 1
                start, end = round(begin * 1e6 / unit), round((begin + duration) * 1e6 / unit)
                tokens.append(f"{LETTERS[name]}{start - previous},{end - start}")
                previous = end
            yield f"{replica} {stage} {' '.join(tokens)}"


def main():
    rows = duckdb.execute(QUERY, [sys.argv[1]]).fetchall()
    with open(sys.argv[3], "wb") as file, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as out:
        out.writelines(f"{line}\n".encode() for line in lines(rows, int(sys.argv[2])))


if __name__ == "__main__":
    main()
