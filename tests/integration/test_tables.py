"""strobe convert --to parquet and strobe query: the tables hold what TensorFlow's own reader of XSpaces sees, read by DuckDB and Arrow."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import duckdb
import pytest
from pyarrow import dataset

from tests.support import gpu_trace
from tests.support.processes import BIN, PYTHON, ROOT

QUERIES = re.findall(r"```sql\n(.+?)```", (ROOT / "docs/reference/tables.md").read_text(), re.DOTALL)
ODD = "rank 0=a%2Fb:9012"  # All of it would change a path or a partition's name.


@pytest.fixture
def run(jax_trace, tmp_path):
    """A run of two workers with the same trace."""
    folder = tmp_path / "logs/plugins/profile/2026 run"
    folder.mkdir(parents=True)
    for worker in ("w1", ODD):
        shutil.copy(jax_trace, folder / f"{worker}.xplane.pb")
    return folder


@pytest.fixture(scope="module")
def gpu_run(tmp_path_factory):
    """Two ranks with a GPU each, and collectives between them."""
    folder = tmp_path_factory.mktemp("gpu") / "gpu run"
    folder.mkdir()
    gpu_trace.write(folder)
    return folder


def convert(*arguments):
    done = subprocess.run([BIN / "strobe", "convert", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def table(directory, name):
    return duckdb.sql(f"SELECT * FROM read_parquet('{directory}/{name}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)")


def count(directory, name):
    return len(table(directory, name).select("run").fetchall())


def expected(path):
    """Events as (plane, line id, name, begin in ns, length in ps), and their stats, as TensorFlow's classes read them."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    (zero,) = {stat.uint64_value for plane in space.planes if plane.name == "Task Environment" for stat in plane.stats
               if plane.stat_metadata[stat.metadata_id].name == "profile_start_time"}
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                stats = Counter((plane.stat_metadata[stat.metadata_id].name, value(plane, stat)) for stat in event.stats)
                yield (plane.name, line.id, plane.event_metadata[event.metadata_id].name,
                       zero + line.timestamp_ns + event.offset_ps // 1000, event.duration_ps), stats


def value(plane, stat):
    kind = stat.WhichOneof("value")
    return plane.stat_metadata[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind) if kind else None


def test_the_tables_hold_every_event_step_and_stat(run, tmp_path, protos):
    out = tmp_path / "tables"
    assert convert(run, "--to", "parquet", "-o", out)[0] == 0
    rows = table(out, "events")
    theirs = list(expected(run / "w1.xplane.pb"))
    for worker in ("w1", ODD):
        found = rows.filter(f"worker = '{worker}' AND run = '2026 run'").select("plane, line_id, name, start_ns, duration_ps").fetchall()
        assert Counter(found) == Counter(event for event, _ in theirs) and len(found) > 300
    stats = duckdb.sql("SELECT e.plane, e.line_id, e.name, e.start_ns, e.duration_ps, s.name, coalesce(s.text, s.integer::VARCHAR, s.number::VARCHAR) "
                       f"FROM ({rows.sql_query()}) e JOIN ({table(out, 'stats').sql_query()}) s ON s.event = e.id AND s.worker = e.worker WHERE e.worker = 'w1'")
    of_events = Counter()
    for event, found in theirs:
        for (name, _), times in found.items():
            of_events[*event, name] += times
    assert Counter(row[:6] for row in stats.fetchall()) == of_events and of_events
    steps = table(out, "steps").filter("worker = 'w1'").order("step").fetchall()
    assert [(row[0], row[1]) for row in steps] == [("train", number) for number in range(20)]
    assert count(out, "collectives") == 0, "the program had none, and its table is there"
    assert table(out, "workers").select("worker, events").order("worker").fetchall() == [(ODD, len(theirs)), ("w1", len(theirs))]


def test_a_run_that_is_written_again_replaces_itself_and_others_stay(run, tmp_path):
    out = tmp_path / "tables"
    for _ in range(2):
        assert convert(run, "--to", "parquet", "--no-stats", "-o", out)[0] == 0
    once = count(out, "events")
    shutil.copytree(run, run.parent / "second")
    assert convert(run.parent / "second", "--to", "parquet", "--no-stats", "-o", out)[0] == 0
    assert count(out, "events") == 2 * once and not (out / "stats").exists()
    assert {path.suffix for path in out.rglob("*") if path.is_file()} == {".parquet"}, "nothing unfinished is left"


@pytest.fixture
def query(python_package):
    def ask(*arguments, code=0, text=None):
        done = subprocess.run([PYTHON, python_package / "bin/strobe", "query", *map(str, arguments)], capture_output=True, text=True, input=text, timeout=120, env={**os.environ, "PYTHONPATH": str(python_package)})
        assert done.returncode == code, done.stderr
        return done
    return ask


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_the_queries_of_the_docs_have_answers(run, gpu_run, query, number):
    place = gpu_run if re.search("/device:|collectives", QUERIES[number]) else run  # The test machine has no device.
    answer = query(place, QUERIES[number], "--output", "json")
    assert [json.loads(line) for line in answer.stdout.splitlines()], answer.stdout


def test_there_are_twelve_queries():
    assert len(QUERIES) == 12


def made_calls(rank):
    """What a rank's trace was made of: step, call in it, begin and end in ns, of each collective."""
    trace = gpu_trace.make(rank)
    spans = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep")}
    calls = []
    for event in trace["traceEvents"]:
        if event["name"] != gpu_trace.NCCL:
            continue
        (step,) = (int(name.partition("#")[2]) for name, (begin, end) in spans.items() if begin <= event["ts"] < end)
        begin = trace["baseTimeNanoseconds"] + event["ts"] * 1000
        calls.append((step, sum(call[0] == step for call in calls), begin, begin + event["dur"] * 1000))
    return calls


def test_collectives_are_those_of_the_traces(gpu_run, tmp_path):
    assert convert(gpu_run, "--to", "parquet", "--no-stats", "-o", tmp_path)[0] == 0
    rows = table(tmp_path, "collectives")
    for rank in range(gpu_trace.RANKS):
        truth = made_calls(rank)
        of_rank = rows.filter(f"rank = {rank}").order("call")
        assert of_rank.select("step, call_in_step, start_ns, end_ns").fetchall() == truth and len(truth) > 20
        assert of_rank.select("call").fetchall() == [(number,) for number in range(len(truth))]
    assert rows.select("communicator, ranks, size, kind, name, bytes, device, sequence").distinct().fetchall() == [
        ("0 default_pg", "0,1", 2, "all-reduce", gpu_trace.NCCL.partition("(")[0], 4096, "/device:GPU:0", None)]
    told = table(tmp_path, "workers").select("collectives, collectives_left_out").fetchall()
    assert sorted(told) == sorted((len(made_calls(rank)), 0) for rank in range(gpu_trace.RANKS))


def test_the_query_for_the_last_arrival_is_right(gpu_run, query):
    (sql,) = (text for text in QUERIES if "waited_ms" in text)
    ranks = [{call[:2]: call[2] for call in made_calls(rank)} for rank in range(2)]
    waits = {"rank0": [], "rank1": []}
    for call in ranks[0].keys() & ranks[1].keys():
        late = ranks[1][call] - ranks[0][call]
        waits[f"rank{int(late > 0)}"].append(abs(late) / 1e6)
    found = [json.loads(line) for line in query(gpu_run, sql, "--output", "json").stdout.splitlines()]
    assert {row["last"]: (row["calls"], round(row["waited_ms"], 6)) for row in found} == {
        worker: (len(times), round(sum(times), 6)) for worker, times in waits.items() if times}


def test_query_answers_people_and_machines(run, query, tmp_path):
    sql = "SELECT worker, count(*) AS n FROM events WHERE name = 'train' GROUP BY worker ORDER BY worker"
    assert [json.loads(line) for line in query(run, sql, "--output", "json").stdout.splitlines()] == [{"worker": ODD, "n": 20}, {"worker": "w1", "n": 20}]
    assert list(csv.reader(io.StringIO(query(run.parents[2], "-", "--output", "csv", text=sql).stdout))) == [["worker", "n"], [ODD, "20"], ["w1", "20"]]
    assert convert(run, "--to", "parquet", "-o", tmp_path / "tables")[0] == 0
    shown = query(tmp_path / "tables", sql).stdout
    assert ODD in shown and "20" in shown
    assert list((tmp_path / "tables").rglob("*.parquet")), "tables that were there stay"


def test_query_asks_what_a_fleet_has_written(run, query, tmp_path):
    logs = tmp_path / "many"
    for name in ("one", "two"):
        shutil.copytree(run, logs / "plugins/profile" / name)
    subprocess.run([BIN / "strobe", "fleet", logs, "--out", tmp_path / "tables", "--no-stats", "--quiet"], check=True, timeout=60)
    sql = "SELECT runs.run, state, count(*) AS n FROM steps JOIN runs USING (run) GROUP BY ALL ORDER BY runs.run"
    rows = [json.loads(line) for line in query(tmp_path / "tables", sql, "--output", "json").stdout.splitlines()]
    assert rows == [{"run": name, "state": "done", "n": 40} for name in ("one", "two")]


def test_what_is_wrong_is_said_in_one_line(run, query, tmp_path):
    assert "Catalog Error" in query(run, "SELECT * FROM nothing", code=2).stderr
    assert "there is no file or directory" in query(tmp_path / "none", "SELECT 1", code=1).stderr
    code, said = convert(run, "--to", "parquet", "-o", "-")
    assert code == 2 and "give a directory" in said
    (tmp_path / "file").write_text("")
    code, said = convert(run, "--to", "parquet", "-o", tmp_path / "file")
    assert code == 1 and "cannot make the directory" in said
    done = subprocess.run([BIN / "strobe", "query", run, "SELECT 1"], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'duckdb>=1.1'" in done.stderr


def test_a_damaged_trace_leaves_no_part_of_its_table(run, tmp_path):
    whole = (run / "w1.xplane.pb").read_bytes()
    (run / "w1.xplane.pb").write_bytes(whole[:-3])
    code, said = convert(run, "--to", "parquet", "-o", tmp_path / "tables")
    assert code == 1 and "the trace of w1 is damaged" in said
    assert not [path for path in (tmp_path / "tables").rglob("*") if path.is_file() and "worker=w1" in str(path)]


def test_names_that_are_no_utf8_and_times_beyond_reason_are_kept_readable(tmp_path, protos):
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.event_metadata[1].id, plane.event_metadata[1].name = 1, "NAME"
    plane.stat_metadata[2].id, plane.stat_metadata[2].name = 2, "big"
    line = plane.lines.add(id=-1, timestamp_ns=2**62)
    line.events.add(metadata_id=1, offset_ps=2**62, duration_ps=5).stats.add(metadata_id=2, uint64_value=2**64 - 1)
    line.events.add(metadata_id=1, num_occurrences=7, duration_ps=9)
    (tmp_path / "odd.xplane.pb").write_bytes(space.SerializeToString().replace(b"NAME", b"N\xff\x00E"))
    assert convert(tmp_path / "odd.xplane.pb", "--to", "parquet", "-o", tmp_path / "tables")[0] == 0
    rows = table(tmp_path / "tables", "events").select("name, duration_ps, occurrences").fetchall()
    assert sorted(rows) == [("N\ufffd\x00E", 5, None), ("N\ufffd\x00E", 9, 7)]
    assert table(tmp_path / "tables", "stats").select("name, text, integer").fetchall() == [("big", str(2**64 - 1), None)]


def test_arrow_reads_them_as_well(run, tmp_path):
    assert convert(run, "--to", "parquet", "-o", tmp_path / "tables")[0] == 0
    found = dataset.dataset(tmp_path / "tables/events", partitioning="hive").to_table(columns=["worker", "name", "start_ns"])
    assert found.num_rows == count(tmp_path / "tables", "events")
