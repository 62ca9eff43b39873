"""Real Spark reads the tables of strobe convert --to parquet: each row, the partitions' odd names, and the documented queries, as DuckDB does."""

import json
import math
import os
import re
import subprocess
from collections import Counter
from datetime import datetime

import duckdb
import pytest

from tests.integration.test_tables import ODD, QUERIES, convert, expected, gpu_run, table  # noqa: F401
from tests.support.processes import BUILD, ROOT

SPARK_PYTHON = BUILD / "spark/bin/python"
TABLES = ("events", "stats", "steps", "collectives", "workers")
TYPES = {"BIGINT": "bigint", "VARCHAR": "string", "DOUBLE": "double"}
# docs/reference/tables.md says what Spark writes differently.
IN_SPARK = {" // ": " div ", "make_timestamp_ns(ended_ns)": "timestamp_micros(ended_ns div 1000)"}
# Folders and groups of rows that Spark need not read, by their names and their statistics.
SELECTIVE = (
    f"SELECT run, worker, count(*), sum(duration_ps) FROM events WHERE worker = '{ODD}' AND name = 'train' GROUP BY run, worker",
    "SELECT run, worker, count(*) FROM events WHERE start_ns >= (SELECT max(start_ns) - 1000000 FROM events WHERE run = '2026 run') GROUP BY run, worker",
    "SELECT count(*), sum(end_ns - start_ns) FROM collectives WHERE rank = 1 AND step = 3",
    "SELECT count(*) FROM stats WHERE run = '2026'",
)

pytestmark = pytest.mark.skipif(not SPARK_PYTHON.exists(), reason="build/spark is missing; tools/setup test installs it")


def make_different(trace):
    """Shifts and stretches a trace's events, so that two workers never tie and each question has one answer."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    for plane in space.planes:
        for line in plane.lines:
            line.timestamp_ns += 12_345
            for number, event in enumerate(line.events):
                event.duration_ps += 1_000 + 7 * number
    trace.write_bytes(space.SerializeToString())


def lengthen_host_work(trace):
    """Lengthens a trace of gpu_trace, whose ranks do equal work on the host and begin their first step at one instant."""
    content = json.loads(trace.read_text())
    for event in content["traceEvents"]:
        if event["name"] == "ProfilerStep#0":
            event["ts"] -= 1
            event["dur"] += 1
        if event.get("cat") in ("cpu_op", "cuda_runtime") or event["name"].startswith("enumerate"):
            event["dur"] += 1
    trace.write_text(json.dumps(content))


def whole(query):
    """The query without its limit: which of several equal rows are the last ones is not said."""
    return re.sub(r"\s+LIMIT \d+\s*$", "", query)


def for_spark(query):
    for ours, theirs in IN_SPARK.items():
        query = query.replace(ours, theirs)
    return query


def plain(value):
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def alike(found, truth):
    return math.isclose(found, truth, rel_tol=1e-6, abs_tol=1e-9) if isinstance(truth, float) and found is not None else found == truth


def ordered(rows):
    return sorted(rows, key=lambda row: [f"{value:.6g}" if isinstance(value, float) else repr(value) for value in row])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def tables(directory, gpu_run, jax_trace, protos):  # noqa: F811
    """The tables of two runs of two workers each."""
    folder = directory / "logs/plugins/profile/2026 run"
    folder.mkdir(parents=True)
    for worker in ("w1", ODD):
        (folder / f"{worker}.xplane.pb").write_bytes(jax_trace.read_bytes())
    make_different(folder / f"{ODD}.xplane.pb")
    lengthen_host_work(gpu_run / "rank1.trace.json")
    for place in (folder, gpu_run):
        code, said = convert(place, "--to", "parquet", "-o", directory / "tables")
        assert code == 0, said
    return directory / "tables"


@pytest.fixture(scope="module")
def duck(tables):
    with duckdb.connect() as connection:
        for name in TABLES:
            start = ", make_timestamp_ns(start_ns) AS start" if name in ("events", "steps", "collectives") else ""
            connection.execute(f"CREATE VIEW {name}_files AS {table(tables, name).sql_query()}")
            connection.execute(f"CREATE VIEW {name} AS SELECT *{start} FROM {name}_files")
        yield connection


@pytest.fixture(scope="module")
def spark(directory, tables):
    """What Spark found; it is asked once, because it takes seconds to start."""
    orders, answers = directory / "orders.json", directory / "answers.json"
    orders.write_text(json.dumps({"directory": str(tables), "tables": TABLES, "queries": [whole(for_spark(query)) for query in (*QUERIES, *SELECTIVE)]}))
    # Java ends with the process that started it, and that one with the test.
    done = subprocess.run(["setpriv", "--pdeathsig", "KILL", SPARK_PYTHON, ROOT / "tests/e2e/spark_tables.py", orders, answers], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1"}, cwd=directory)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(answers.read_text())


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_each_row_as_duckdb_does(spark, duck, name):
    names, types = zip(*((row[0], row[1]) for row in duck.execute(f"DESCRIBE {name}_files").fetchall()))
    schema = spark["schemas"][name]
    assert schema == {column: TYPES[kind] for column, kind in zip(names, types)}
    theirs = [dict(zip(schema, row)) for row in spark["rows"][name]]
    found = Counter(tuple(row[column] for column in names) for row in theirs)
    assert found == Counter(duck.execute(f"SELECT * FROM {name}_files").fetchall()) and found
    workers = {(row["run"], row["worker"]) for row in theirs}
    assert {("gpu run", "rank0"), ("gpu run", "rank1")} <= workers
    assert name == "collectives" or {("2026 run", "w1"), ("2026 run", ODD)} <= workers


def test_spark_counts_and_sums_what_the_reader_of_xspaces_sees(spark, directory):
    names = list(spark["schemas"]["events"])
    for worker in ("w1", ODD):
        truth = [event for event, _ in expected(directory / f"logs/plugins/profile/2026 run/{worker}.xplane.pb")]
        rows = [dict(zip(names, row)) for row in spark["rows"]["events"] if dict(zip(names, row))["worker"] == worker]
        assert len(rows) == len(truth) > 300
        for number, column in enumerate(("plane", "line_id", "name", "start_ns", "duration_ps")):
            assert Counter(row[column] for row in rows) == Counter(event[number] for event in truth), column


@pytest.mark.parametrize("number", range(len(QUERIES) + len(SELECTIVE)))
def test_spark_answers_as_duckdb_does(spark, duck, number):
    query = (*QUERIES, *SELECTIVE)[number]
    ours = ordered([plain(value) for value in row] for row in duck.execute(whole(query)).fetchall())
    theirs = ordered(spark["answers"][number])
    assert len(theirs) == len(ours) and ours
    for found, truth in zip(theirs, ours):
        assert len(found) == len(truth) and all(map(alike, found, truth)), (found, truth)


def test_few_words_differ_in_spark():
    """The documents say which queries Spark takes as they are."""
    changed = [number + 1 for number, query in enumerate(QUERIES) if for_spark(query) != query]
    assert changed == [6, 8]
