"""strobe inspect and strobe convert, against the readers that people use: XProf, and Perfetto's own engine."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.agent_rig import AgentRig
from tests.support.perfetto import perfetto
from tests.support.processes import BIN
from tests.support.traces import worker_trace


def strobe(*arguments, check=True):
    done = subprocess.run([BIN / "strobe", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture
def space_of(protos):
    def read(path):
        from tensorflow import xplane_pb2

        return xplane_pb2.XSpace.FromString(path.read_bytes())

    return read


def spans(chrome):
    """The number of events by (name, begin, length), times in ps."""
    return Counter((e["name"], round(e["ts"] * 1e6), round(e["dur"] * 1e6)) for e in chrome["traceEvents"] if e["ph"] == "X")


def test_chrome_json_has_every_event_that_xprof_shows(jax_trace, tmp_path):
    from xprof.convert import raw_to_tool_data

    strobe("convert", jax_trace, "--to", "chrome", "-o", tmp_path / "t.json")
    ours = spans(json.loads((tmp_path / "t.json").read_text()))
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(jax_trace)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    theirs = spans(json.loads(data))
    # At load XProf adds events of its own (regions of thread pools, steps), appends a step's number to its name, and gives events
    # without a length one picosecond.
    names = {name for name, *_ in ours}
    known = Counter((name, begin, max(length, 1)) for name, begin, length in ours.elements())
    shown = Counter((name, begin, max(length, 1)) for name, begin, length in theirs.elements() if name in names)
    assert sum(ours.values()) > 300
    assert not shown - known, "none of XProf's is missing from ours"
    hidden = Counter(name for name, *_ in (known - shown).elements())
    assert set(hidden) <= {"train", "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"}, hidden


def test_perfettos_engine_reads_the_native_export(jax_trace, tmp_path, space_of):
    out = tmp_path / "t.pftrace"
    strobe("convert", jax_trace, "--to", "perfetto", "-o", out)
    expected = sum(len(line.events) for plane in space_of(jax_trace).planes for line in plane.lines)
    (count,), errors, (train,), arguments = [*perfetto(
        out, "select count(*) from slice", "select name, value from stats where severity = 'error' and value > 0",
        "select count(*) from slice where name = 'train'",
        "select distinct a.display_value from args a join slice s using (arg_set_id) where a.key = 'debug.step_num'")]
    assert count == [expected] and errors == [] and train == [20]
    assert sorted(int(value) for (value,) in arguments) == list(range(20))


def test_perfettos_engine_reads_the_json_too(jax_trace, tmp_path, space_of):
    strobe("convert", jax_trace, "-o", tmp_path / "t.json.gz")
    with gzip.open(tmp_path / "t.json.gz", "rt") as file:
        (tmp_path / "t.json").write_text(file.read())
    expected = sum(len(line.events) for plane in space_of(jax_trace).planes for line in plane.lines)
    (count,), errors = perfetto(tmp_path / "t.json", "select count(*) from slice", "select name, value from stats where severity = 'error' and value > 0")
    assert count == [expected] and errors == []


def test_what_all_events_of_a_name_share_reaches_the_exports(tmp_path, protos):
    """TPUs store an operation's category and figures once per name; a report of the JSON says what one of the XPlane says."""
    trace = tmp_path / "worker.xplane.pb"
    trace.write_bytes(worker_trace().SerializeToString())
    (tmp_path / "json").mkdir()
    strobe("convert", trace, "--to", "chrome", "-o", tmp_path / "json" / "worker.trace.json")
    strobe("convert", trace, "--to", "perfetto", "-o", tmp_path / "t.pftrace")
    rows, errors = perfetto(
        tmp_path / "t.pftrace",
        "select s.name, a.key, a.display_value, count(*) from args a join slice s using (arg_set_id) "
        "where a.key in ('debug.hlo_category', 'debug.flops') group by 1, 2, 3 order by 2",
        "select name, value from stats where severity = 'error' and value > 0")
    assert rows == [["fusion.1", "debug.flops", "6000000000", 5], ["fusion.1", "debug.hlo_category", "fusion", 5]] and errors == []
    of_xplane, of_json = (json.loads(strobe("report", path, "--output", "json").stdout)["workers"][0] for path in (trace, tmp_path / "json" / "worker.trace.json"))
    assert of_json["time"]["computeNs"] > 0 and of_json["time"] == of_xplane["time"]
    for worker in (of_xplane, of_json):
        tpu = next(device for device in worker["devices"] if device["name"] == "/device:TPU:0")
        assert (tpu["flops"], tpu["bytesAccessed"]) == (5 * 6_000_000_000, 5 * 1_500_000)


def test_ties_and_overlaps_are_all_kept(tmp_path, protos):
    """The events that others lose: XProf's table the 257th of a tie, Perfetto those that overlap on one track."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.event_metadata[1].id, plane.event_metadata[1].name = 1, "tie"
    plane.event_metadata[2].id, plane.event_metadata[2].name = 2, "overlap"
    for thread in range(100):
        line = plane.lines.add(id=thread, name=f"thread {thread}")
        for _ in range(600):
            line.events.add(metadata_id=1, offset_ps=5_000_000, duration_ps=0)
    line = plane.lines.add(id=1000, name="async")
    for i in range(200):
        line.events.add(metadata_id=2, offset_ps=i * 1_000_000, duration_ps=10_000_000)
    path = tmp_path / "ties.xplane.pb"
    path.write_bytes(space.SerializeToString())
    strobe("convert", path, "-o", tmp_path / "t.json")
    names = Counter(e["name"] for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X")
    assert names == {"tie": 60_000, "overlap": 200}
    strobe("convert", path, "--to", "perfetto", "-o", tmp_path / "t.pftrace")
    rows, errors = perfetto(tmp_path / "t.pftrace", "select name, count(*), sum(dur) from slice group by name order by name",
                            "select name, value from stats where severity = 'error' and value > 0")
    assert rows == [["overlap", 200, 200 * 10_000], ["tie", 60_000, 0]] and errors == []


def test_workers_come_onto_one_clock(tmp_path, protos):
    from tensorflow import xplane_pb2

    def trace(worker, start_ns, offset_ns):
        space = xplane_pb2.XSpace()
        host = space.planes.add(name="/host:CPU")
        host.event_metadata[1].id, host.event_metadata[1].name = 1, "at the same moment"
        # 2,000,000,000,500,000 ns on a correct clock.
        host.lines.add(name="main").events.add(metadata_id=1, offset_ps=(2_000_000_000_500_000 + offset_ns - start_ns) * 1000, duration_ps=1000)
        for name, stats in (("Task Environment", {"profile_start_time": start_ns}), ("Strobe", {"clock_offset_ns": offset_ns})):
            plane = space.planes.add(name=name)
            for id, (key, value) in enumerate(stats.items(), 1):
                plane.stat_metadata[id].id, plane.stat_metadata[id].name = id, key
                plane.stats.add(metadata_id=id, int64_value=value)
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / f"run/{worker}.xplane.pb").write_bytes(space.SerializeToString())

    trace("right", 2_000_000_000_000_000, 0)
    trace("ahead", 2_000_000_000_000_000 + 11_560_000_000 - 300_000, 11_560_000_000)
    strobe("convert", tmp_path / "run", "-o", tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["ts"] for e in events if e["ph"] == "X"] == [800, 800], "from the earlier of the two starts"
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["ahead /host:CPU", "right /host:CPU"]
    assert "begins 300us after the first" in strobe("inspect", tmp_path / "run").stdout

    # Merged into one XSpace, for XProf and other readers.
    strobe("merge", tmp_path / "run", "-o", tmp_path / "all.xplane.pb")
    merged = xplane_pb2.XSpace.FromString((tmp_path / "all.xplane.pb").read_bytes())
    hosts = [p for p in merged.planes if p.lines]
    assert [p.name for p in hosts] == ["/host:CPU [ahead]", "/host:CPU [right]"] and len({p.id for p in hosts}) == 2
    moments = {line.timestamp_ns * 1000 + line.events[0].offset_ps for p in hosts for line in p.lines}
    assert moments == {800_000_000}
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([str(tmp_path / "all.xplane.pb")], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    assert [e["ts"] for e in json.loads(data)["traceEvents"] if e.get("ph") == "X"] == [800, 800]


def test_statistics_come_as_a_table_or_as_json(jax_trace, tmp_path):
    import csv

    strobe("convert", jax_trace, "--to", "stats", "-o", tmp_path / "stats.csv")
    strobe("convert", jax_trace, "--to", "stats", "-o", tmp_path / "stats.json")
    table = list(csv.DictReader((tmp_path / "stats.csv").read_text().splitlines()))
    (worker,) = json.loads((tmp_path / "stats.json").read_text())
    kinds = {(plane["name"], kind["name"]): kind["count"] for plane in worker["planes"] for kind in plane["kinds"]}
    assert kinds == {(row["plane"], row["event"]): int(row["count"]) for row in table} and len(kinds) > 5


@pytest.mark.parametrize("name, to", [("t.pftrace", "perfetto"), ("t.csv.gz", "stats"), ("t.xplane.pb", "xplane"), ("t.index", "index"), ("t.json", "chrome"), ("t", "chrome")])
def test_the_files_name_chooses_the_format(jax_trace, tmp_path, name, to):
    (tmp_path / "given").mkdir()
    strobe("convert", jax_trace, "-o", tmp_path / name)
    strobe("convert", jax_trace, "--to", to, "-o", tmp_path / "given" / name)
    assert (tmp_path / name).read_bytes() == (tmp_path / "given" / name).read_bytes()
    strobe("convert", jax_trace, "--to", "chrome", "-o", tmp_path / name)  # --to decides.
    assert ((tmp_path / name).read_bytes() == (tmp_path / "given" / name).read_bytes()) == (to == "chrome")


def test_inspect_says_why_a_trace_is_empty(jax_trace, tmp_path):
    """Works for the trace of any profiler, without a cluster."""
    (good,) = json.loads(strobe("inspect", jax_trace, "--output", "json").stdout)
    assert good["verdict"]["outcome"] == "Ok"
    (missing,) = json.loads(strobe("inspect", jax_trace, "--output", "json", "--expect-device").stdout)
    assert missing["verdict"]["outcome"] == "DeviceTraceMissing" and "tracers.device" in missing["verdict"]["remedy"]
    (tmp_path / "empty.xplane.pb").write_bytes(b"")
    table = strobe("inspect", tmp_path / "empty.xplane.pb").stdout
    assert "verdict: NoHostEvents" in table and "what to do: Capture while the job trains" in table


def test_inspect_tells_what_a_capture_holds(group, tmp_path, protos):
    rig = AgentRig(group, tmp_path)
    rig.cuda_program(100, 10)
    rig.sidecar().capture()
    table = strobe("inspect", rig.logdir).stdout
    assert "/device:GPU:0" in table and "add_floats(float*, int)" in table
    assert "verdict: Ok" in table and "asked for" in table
    (worker,) = json.loads(strobe("inspect", rig.logdir, "--output", "json").stdout)
    assert worker["verdict"]["outcome"] == "Ok" and worker["verdict"]["remedy"] == ""
    (steps,) = worker["steps"]
    assert steps["name"] == "train" and steps["last"] - steps["first"] + 1 == steps["count"] > 20
    gpu = next(p for p in worker["planes"] if p["name"] == "/device:GPU:0")
    kernels = next(k for k in gpu["kinds"] if k["name"].startswith("add_floats"))
    assert kernels["totalPs"] == kernels["selfPs"] and abs(kernels["totalPs"] / kernels["count"] - 5e6) < 1e6
    only = strobe("inspect", rig.logdir, "--plane", "GPU", "--top", "1").stdout
    assert "/host:CPU" not in only and "more kinds" in only
    rows = strobe("convert", rig.logdir, "--to", "stats", "-o", "-").stdout.splitlines()
    assert rows[0].startswith("worker,plane,event,count") and any('"add_floats(float*, int)"' in row for row in rows)


def test_what_cannot_be_read_or_written_is_said(tmp_path, jax_trace):
    (tmp_path / "text").write_text("no trace")
    (tmp_path / "cut.xplane.pb").write_bytes(jax_trace.read_bytes()[:-7])
    (tmp_path / "empty").mkdir()
    for place, code, words in (("text", 1, "this is text, neither JSON nor an XSpace"), ("cut.xplane.pb", 1, "cut: "), ("empty", 1, "has no runs"), ("none", 1, "there is no file or directory relative/none")):
        done = strobe("inspect", tmp_path / place if place != "none" else "relative/none", check=False)
        assert done.returncode == code and words in done.stderr, done.stderr
    done = strobe("convert", jax_trace, "-o", tmp_path / "no/such/folder/t.json", check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr
    # A pipe is written to, not replaced by a file.
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    strobe("convert", jax_trace, "-o", tmp_path / "pipe")
    assert json.loads(reader.communicate(timeout=30)[0])["traceEvents"] and (tmp_path / "pipe").is_fifo()
    assert not [p for p in tmp_path.iterdir() if "partial" in p.name], "nothing half-written is left"


def test_a_damaged_worker_does_not_hide_the_others(tmp_path, jax_trace, space_of):
    """One truncated trace used to hide the whole run."""
    folder = tmp_path / "run"
    folder.mkdir()
    for worker in "ab":
        shutil.copy(jax_trace, folder / f"{worker}.xplane.pb")
    (folder / "c.xplane.pb").write_bytes(jax_trace.read_bytes()[:-7])
    told = "c is not shown: damaged or cut at byte"

    def with_warning(*arguments):
        done = strobe(*arguments)
        assert done.stderr.count(told) == 1, done.stderr
        return done.stdout

    assert "verdict: WorkerLost, damaged or cut" in with_warning("inspect", folder)
    workers = {worker["worker"]: worker for worker in json.loads(with_warning("inspect", folder, "--output", "json"))}
    assert list(workers) == ["a", "b", "c"] and workers["a"]["planes"] and not workers["c"]["planes"]
    assert workers["c"]["problems"][0].startswith("error: damaged or cut")
    assert "Missing workers:\n  c is not shown" in with_warning("report", folder)
    (missing,) = json.loads(with_warning("report", folder, "--output", "json"))["missing"]
    assert missing["worker"] == "c" and missing["why"].startswith("damaged or cut")
    assert "c is not shown" in with_warning("report", folder, folder / "a.xplane.pb")
    assert {row.split(",")[0] for row in with_warning("convert", folder, "--to", "stats", "-o", "-").splitlines()[1:]} == {'"a"', '"b"'}
    with_warning("convert", folder, "--to", "stats", "-o", tmp_path / "stats.json")
    assert [worker.get("problem", "")[:7] for worker in json.loads((tmp_path / "stats.json").read_text())] == ["", "", "damaged"]
    with_warning("merge", folder, "-o", tmp_path / "all.xplane.pb")
    assert any(text.startswith(told) for text in space_of(tmp_path / "all.xplane.pb").warnings)
    # JSON that is no trace is left out too. What is named itself fails, and so does a run without a good trace.
    jsons = tmp_path / "jsons"
    jsons.mkdir()
    (jsons / "good.trace.json").write_text('[{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":1}]')
    (jsons / "bad.trace.json").write_text("no trace")
    assert "bad is not shown: " in strobe("inspect", jsons).stderr
    (jsons / "good.trace.json").unlink()
    for place in (folder / "c.xplane.pb", jsons, jsons / "bad.trace.json"):
        for command in (["inspect", place], ["report", place], ["convert", place, "-o", tmp_path / "none.json"]):
            assert strobe(*command, check=False).returncode == 1, command


def test_a_damaged_event_leaves_out_only_its_worker(tmp_path, jax_trace, space_of):
    """It was found only while it was written, and ended the conversion of the whole run."""
    from tensorflow import xplane_pb2

    folder = tmp_path / "run"
    folder.mkdir()
    for worker in "ab":
        shutil.copy(jax_trace, folder / f"{worker}.xplane.pb")
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/host:CPU")
    plane.event_metadata[1].name, plane.stat_metadata[2].name = "op", "note"
    plane.lines.add(name="thread").events.add(metadata_id=1).stats.add(metadata_id=2, str_value="some text")
    damaged = bytearray(space.SerializeToString())
    damaged[damaged.index(b"some text") - 1] = 0x7F  # The text's length.
    (folder / "c.xplane.pb").write_bytes(damaged)
    for to, out in (("chrome", "t.json"), ("chrome", "-"), ("perfetto", "t.pftrace"), ("stats", "-"), ("xplane", "all.xplane.pb")):
        done = strobe("convert", folder, "--to", to, "-o", out if out == "-" else tmp_path / out)
        assert done.stderr.count("c is not shown: damaged or cut at byte") == 1, (to, done.stderr)
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) > 300
    assert not [plane.name for plane in space_of(tmp_path / "all.xplane.pb").planes if plane.name.endswith("[c]")]
    assert strobe("convert", folder / "c.xplane.pb", "-o", tmp_path / "none.json", check=False).returncode == 1


def test_a_reader_that_has_gone_is_no_failure(jax_trace):
    process = subprocess.Popen([BIN / "strobe", "convert", jax_trace, "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(1) == b"{"
    process.stdout.close()
    assert process.wait(timeout=60) == 0 and process.stderr.read() == b""


def test_standard_output_by_its_name_is_written_and_not_replaced(tmp_path, jax_trace):
    with open(tmp_path / "t.json", "w") as out:
        subprocess.run([BIN / "strobe", "convert", jax_trace, "-o", "/dev/stdout"], stdout=out, timeout=60, check=True)
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"] and os.path.islink("/dev/stdout")


def test_a_pipe_in_a_runs_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.trace.json")
    done = strobe("convert", tmp_path, "-o", tmp_path / "t.json", check=False)
    assert done.returncode != 0 and "is not a regular file" in done.stderr


@pytest.fixture(scope="module")
def big_trace(tmp_path_factory):
    """Large enough that reading it takes a while."""
    trace = tmp_path_factory.mktemp("big") / "big.xplane.pb"
    subprocess.run([BIN / "make_xspace", "2000000", trace], check=True)
    return trace


def maps(process, path):
    try:
        return str(path) in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("keep", [0, 12_345, -1], ids=["nothing-left", "a-little-left", "one-byte-less"])
@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--output", "json"], ["convert", "--to", "chrome", "-o", "OUT"], ["convert", "--to", "perfetto", "-o", "OUT"],
                                     ["convert", "--to", "stats", "-o", "-"], ["convert", "--to", "index", "-o", "OUT"], ["merge", "-o", "OUT"]], ids=lambda c: "-".join(c[:3]))
def test_a_trace_that_is_truncated_while_it_is_read_is_an_error(big_trace, tmp_path, command, keep):
    """The writer of the trace may truncate it at any time, because the volume is shared. This used to end the command with SIGBUS."""
    trace, out = tmp_path / "t.xplane.pb", tmp_path / "out"
    shutil.copyfile(big_trace, trace)
    process = subprocess.Popen([BIN / "strobe", command[0], trace, *(str(out) if part == "OUT" else part for part in command[1:])],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not maps(process, trace):
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    os.truncate(trace, keep if keep >= 0 else trace.stat().st_size + keep)
    process.send_signal(signal.SIGCONT)
    told, errors = process.communicate(timeout=120)
    assert process.returncode == 1, (process.returncode, told[-500:], errors)
    assert "was changed while it was read" in errors
    assert not out.exists() and list(tmp_path.iterdir()) == [trace], "nothing half made is left"
    assert "verdict" not in told
