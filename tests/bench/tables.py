"""Measures strobe convert --to parquet, and a question of DuckDB to the tables.

The peer is Arrow's writer, which is given the finished columns of the same table in memory: it reads no trace.
"""

import shutil
import subprocess
import time

import duckdb
import pyarrow.parquet

from tests.bench import bars
from tests.bench.engine import median, timed
from tests.support.processes import BIN

SIZES = (1_000_000, 10_000_000)
QUESTION = "SELECT name, count(*), sum(duration_ps) FROM read_parquet('{}') GROUP BY name"


def on_one_core(*command):
    return timed("taskset", "-c", "1", *command)


def clock(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(directory, events):
    trace, out = directory / "big.xplane.pb", directory / "tables"
    subprocess.run([BIN / "make_xspace", str(events), trace], check=True)
    ours = [on_one_core(BIN / "strobe", "convert", trace, "--to", "parquet", "--no-stats", "--quiet", "-o", out) for _ in range(5)]
    with_stats = on_one_core(BIN / "strobe", "convert", trace, "--to", "parquet", "--quiet", "-o", out)[0]
    (file,) = out.glob("events/*/*/events.parquet")
    pyarrow.set_cpu_count(1)
    columns = pyarrow.parquet.ParquetFile(file).read()
    assert columns.num_rows >= events
    theirs = [clock(lambda: pyarrow.parquet.write_table(columns, directory / "peer.parquet", compression="zstd")) for _ in range(3)]
    duckdb.execute("SET threads = 1")
    asked = median([clock(lambda: duckdb.execute(QUESTION.format(file)).fetchall()) for _ in range(5)])
    seconds = median([run[0] for run in ours])
    if events == max(SIZES):
        bars.at_least("M events/s", columns.num_rows / seconds / 1e6, 3)
        bars.at_most("seconds of GROUP BY name", asked, 0.5)
    bars.at_most(f"B per event at {events // 1_000_000} M", file.stat().st_size / columns.num_rows, 12)
    row = (f"| {events // 1_000_000} M | {columns.num_rows / seconds / 1e6:.1f} | {file.stat().st_size / columns.num_rows:.1f} | {with_stats:.1f} "
           f"| {max(run[1] for run in ours) - trace.stat().st_size / 2**20:.0f} | {columns.num_rows / median(theirs) / 1e6:.1f} "
           f"| {(directory / 'peer.parquet').stat().st_size / columns.num_rows:.1f} | {asked:.2f} |")
    shutil.rmtree(out)
    return row


def run(directory):
    rows = [measure(directory, events) for events in SIZES]
    return "\n".join([
        "### Traces as Parquet tables\n",
        "`strobe convert --to parquet --no-stats` on one core, whole command, median of 5. Peer: Arrow's writer (pyarrow, zstd, one core) of the same"
        " columns in memory, without reading a trace. The question is `GROUP BY name` over all events, DuckDB on one core.\n",
        "| events | M events/s (bar 3) | B per event (bar 12) | with stats, s | peak above the mapped file, MiB | peer: M rows/s | peer: B per row | question, s (bar 0.5) |",
        "|---|---|---|---|---|---|---|---|", *rows, ""])
