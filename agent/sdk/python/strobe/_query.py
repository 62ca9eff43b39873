"""`strobe query`: SQL over the traces of a run, by DuckDB."""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ._bin import path_of

TABLES = ("events", "stats", "steps", "collectives", "workers")
_CANNOT_READ, _WRONG_INPUT = 1, 2  # Exit codes, as those of the other commands.
_EXAMPLES = """Examples:
  strobe query /nfs/logs "SELECT name, count(*) AS n, sum(duration_ps)/1e9 AS ms FROM events
    GROUP BY name ORDER BY ms DESC LIMIT 10"
  strobe query gs://bucket/logs/plugins/profile/RUN "SELECT worker, avg(duration_ps)/1e9 AS ms
    FROM steps GROUP BY worker" --output csv
  strobe convert /nfs/logs --to parquet -o tables && strobe query tables "DESCRIBE events"
The tables are events, stats, steps, collectives and workers; docs/reference/tables.md describes
their columns and has twelve queries.
Exit code: 0 answered, 1 the traces cannot be read, 2 a flag or the SQL is wrong."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "strobe query",
        description="Query the traces of a run with SQL.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "place",
        help="a trace, a run or a logdir (then its newest run), also gs://, s3:// and az://; or a "
        "directory of tables, which strobe convert --to parquet wrote",
    )
    parser.add_argument(
        "sql", help="one SELECT of DuckDB's SQL, or - to read it from standard input"
    )
    parser.add_argument(
        "--output",
        choices=("table", "json", "csv"),
        default="table",
        help="[table]; json is one object per line",
    )
    parser.add_argument(
        "--storage-config", default="", help="YAML file with options of the object stores"
    )
    return parser


def _has_tables(place: Path) -> bool:
    return (place / "events").is_dir() and (place / "workers").is_dir()


def _convert(place: str, storage_config: str, sql: str, directory: str) -> int:
    """Writes the tables of a place.

    The stats, which are most of the work, only if the SQL names them.
    """
    command = [
        path_of("strobe"),
        "convert",
        place,
        "--to",
        "parquet",
        "--out",
        directory,
        "--quiet",
    ]
    command += ["--storage-config", storage_config] if storage_config else []
    command += [] if "stats" in sql.lower() else ["--no-stats"]
    return subprocess.run(command, stdin=subprocess.DEVNULL).returncode


def _open(directory: Path):
    """Opens a connection with a view per table. It reads these files and writes none."""
    import duckdb

    connection = duckdb.connect(":memory:")
    for table in TABLES:
        if (directory / table).is_dir():
            files = str(directory / table / "**" / "*.parquet").replace("'", "''")
            start = (
                ", make_timestamp_ns(start_ns) AS start"
                if table in ("events", "steps", "collectives")
                else ""
            )
            # All values of partitions are texts: a run called 2026 is no number.
            connection.execute(
                f"CREATE VIEW {table} AS SELECT *{start} FROM read_parquet('{files}', "
                "hive_partitioning = true, hive_types_autocast = false)"
            )
    if (directory / "runs").is_dir():  # From strobe fleet.
        rows = str(directory / "runs" / "*" / "run.json").replace("'", "''")
        connection.execute(f"CREATE VIEW runs AS SELECT * FROM read_json('{rows}')")
    return connection


def _print(connection, sql: str, output: str) -> None:
    if output == "table":
        relation = connection.sql(sql)
        if relation is not None:
            relation.show(
                max_rows=10_000,
                max_width=os.get_terminal_size().columns if sys.stdout.isatty() else 250,
            )
        return
    answer = connection.execute(sql)
    names = [column[0] for column in answer.description or ()]
    if output == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
    while rows := answer.fetchmany(10_000):
        if output == "csv":
            writer.writerows(rows)
            continue
        for row in rows:
            print(json.dumps(dict(zip(names, row)), default=str))


def main(arguments: list[str]) -> int:
    parsed = _parser().parse_args(arguments)
    sql = sys.stdin.read() if parsed.sql == "-" else parsed.sql
    try:
        import duckdb
    except ImportError:
        print("strobe query: DuckDB is missing; pip install 'duckdb>=1.1'", file=sys.stderr)
        return _WRONG_INPUT
    with tempfile.TemporaryDirectory(prefix="strobe-query-") as made:
        directory = Path(parsed.place)
        if not _has_tables(directory):
            directory = Path(made)
            if _convert(parsed.place, parsed.storage_config, sql, made):
                return _CANNOT_READ  # The command has said why.
        try:
            _print(_open(directory), sql, parsed.output)
        except duckdb.Error as error:
            print(f"strobe query: {error}", file=sys.stderr)
            return _WRONG_INPUT
        except BrokenPipeError:
            sys.stderr.close()  # As after `| head`; otherwise Python would complain at exit.
    return 0
