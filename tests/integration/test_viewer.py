"""strobe view: its page in Chromium, its data, and XProf's own page with strobe view as the server."""

import http.client
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from tests.support import straggler_run
from tests.support.browser import in_browser
from tests.support.processes import BIN, ROOT, wait_until
from tests.support.stores import Versity, strobe_env
from tests.support.traces import MS, US, PlaneWriter, hlo_proto, write_run
from tests.support.viewer import View


START = 1_790_000_000_000_000_000  # Unix time in ns.


@pytest.fixture(scope="module")
def logdir(tmp_path_factory, protos):
    directory = tmp_path_factory.mktemp("logdir")
    write_run(directory, "2026_11_19_10_00_00", **{"worker-0": {"clock_offset_ns": 7_000_000, "window": (10_000_000, 20_000_000)}})
    write_run(directory, "2026_11_20_10_00_00", **{"worker-0": {}})
    write_run(directory, "2026_11_21_10_00_00", **{
        "worker-0": {},
        # Its clock is 5 ms ahead, and it begins each step 2 ms after worker-0.
        "worker-1": {"late": 2_000_000_000, "clock_offset_ns": 5_000_000, "slow": 1.5},
    })
    return directory


@pytest.fixture(scope="module")
def view(session_group, logdir, tmp_path_factory):
    newest = logdir / "plugins/profile/2026_11_21_10_00_00"  # For a logdir, the page would show the list.
    view = View(session_group, "view", newest, "--cache", tmp_path_factory.mktemp("cache"))
    view.loaded()
    return view


def test_every_feature_of_the_page(view):
    in_browser("viewer.test.mjs", STROBE_VIEW=view.url)


def test_the_feel_of_the_page(view):
    in_browser("feel.test.mjs", STROBE_VIEW=view.url)


def test_going_back_aligning_and_fingers(view):
    in_browser("moves.test.mjs", STROBE_VIEW=view.url)


def test_the_overview_of_a_run(session_group, tmp_path, protos):
    """Its numbers are those of strobe report, whether the report is stored or computed; a hostile report harms nobody."""
    runs = {name: straggler_run.write(tmp_path, name) for name in ("straggler", "stored", "hostile", "broken", "large")}
    done = subprocess.run([BIN / "strobe", "report", runs["straggler"], "--output", "json"], capture_output=True, text=True, timeout=60, check=True)
    witness = json.loads(done.stdout)
    stored = straggler_run.stored(witness)
    for name, report in (("stored", stored), ("hostile", straggler_run.hostile(stored)), ("large", straggler_run.large(stored))):
        (runs[name] / "report.json").write_text(json.dumps(report))
    stored["stragglers"]["stragglers"][0]["longerNs"] = "<script>"
    (runs["broken"] / "report.json").write_text(json.dumps(stored))
    (tmp_path / "witness.json").write_text(done.stdout)
    view = View(session_group, "overview", runs["straggler"], "--cache", "none")
    view.loaded()
    assert view.json("/api/report")["state"] == "none", "it is computed only when it is asked for"
    assert view.json("/api/report?run=stored")["state"] == "stored"
    in_browser("overview.test.mjs", STROBE_VIEW=view.url, STROBE_WITNESS=str(tmp_path / "witness.json"))


def test_the_overview_of_a_job_that_stood_still(session_group, tmp_path):
    """The run holds evidence in place of traces; it says what strobe why and strobe stacks say of the same files."""
    with tarfile.open(ROOT / "tests/golden/hangs/cases.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    verdict, stacks = (json.loads(subprocess.run([BIN / "strobe", command, tmp_path / "w4_gil", "--output", "json"], capture_output=True, text=True,
                                                 timeout=60, check=True).stdout) for command in ("why", "stacks"))
    workers = [{"name": f"llm-{rank}", "files": []} for rank in range(4)] + [{"name": "llm-4", "missing": "its sidecar is gone"}]
    stood = {"format": 1, "captureId": "uid-1", "run": "stood", "headline": verdict["text"].split("\n")[0], "verdict": verdict, "stacks": stacks, "workers": workers}
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    frame = {"file": markup, "line": 1, "name": markup}
    many = [{"ranks": list(range(5000)), "thread": "main", "keepGil": [], "moved": [], "frames": [frame] * 300}]
    many += [{"ranks": [rank], "thread": markup, "keepGil": [rank], "moved": [], "frames": [frame]} for rank in range(299)]
    evidence = {"stood": stood, "broken": stood | {"verdict": markup},
                "hostile": stood | {"verdict": verdict | {"text": markup + "\n"}, "stacks": many, "workers": [{"name": markup, "missing": markup}] * 50}}
    for run, content in evidence.items():
        folder = tmp_path / "logs/plugins/profile" / run
        folder.mkdir(parents=True)
        (folder / "evidence.json").write_text(json.dumps(content))
        (folder / "strobe.json").write_text(json.dumps({"format": 1, "captureId": "uid-1", "result": "Succeeded"}))
    (tmp_path / "witness.json").write_text(json.dumps({"verdict": verdict, "stacks": stacks}))
    view = View(session_group, "stall", tmp_path / "logs/plugins/profile/stood", "--cache", "none")
    assert view.json("/api/report?make=always")["evidence"]["lines"] == verdict["text"].rstrip("\n").split("\n")
    in_browser("stall.test.mjs", STROBE_VIEW=view.url, STROBE_WITNESS=str(tmp_path / "witness.json"))


def shifted_worker(random, late_ns):
    """Events of any length on four rows and what they are, one event through the whole time, and a row that is empty there."""
    from tensorflow import xplane_pb2

    rows = {"long": [(0, 300 * MS)], "empty": [(0, 1)]}
    for row, longest in (("kernels", 22), ("short", 14), ("back to back", 26)):
        at, events = 0, rows.setdefault(row, [])
        while at < 300 * MS and len(events) < 4000:
            length = 1 << random.randrange(longest) if row == "short" else random.randrange(1, 1 << random.randrange(1, longest + 8))
            events.append((at, at + length))
            at += length + (0 if row == "back to back" else random.randrange(1 << random.randrange(1, 28)))
    space = xplane_pb2.XSpace()
    gpu = PlaneWriter(space, "/device:GPU:0")
    for i, (row, events) in enumerate(rows.items()):
        gpu.line(row, id=i + 1)
        for k, (begin, end) in enumerate(events):
            gpu.event(f"{row} {k % 3}", begin, end - begin)
    host = PlaneWriter(space, "/host:CPU")
    host.line("host", id=7).event("only on the host", MS, MS)
    environment = PlaneWriter(space, "Task Environment")
    environment.add_stats(environment.plane, {"profile_start_time": START + late_ns})
    return space, rows


def clock_worker(late_ns=0, error_ns=1000):
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    device = PlaneWriter(space, "/device:TPU:0").line("Steps")
    host = PlaneWriter(space, "/host:CPU").line("python")
    for i in range(8):
        device.event(str(i), i * 20 * MS, 20 * MS)
        host.event("train", i * 20 * MS, 12 * MS, step_num=i, _r=1)
    environment = PlaneWriter(space, "Task Environment")
    environment.add_stats(environment.plane, {"profile_start_time": START + late_ns})
    strobe = PlaneWriter(space, "Strobe")
    strobe.add_stats(strobe.plane, {"clock_offset_ns": 0, "clock_error_ns": error_ns})
    return space


def test_the_page_shows_what_is(session_group, tmp_path, protos):
    """Each pixel by the events themselves, on clocks that are shifted by no whole slot; missing workers; wrong clocks; own names."""
    import random

    runs = {name: tmp_path / "plugins" / "profile" / name for name in ("shifted", "missing", "clocks", "torch")}
    for folder in runs.values():
        folder.mkdir(parents=True)
    rng, made = random.Random(39), []
    for i, late_ns in enumerate((0, 777, 12_345_679, 1_048_577)):
        space, rows = shifted_worker(rng, late_ns)
        (runs["shifted"] / f"w{i}.xplane.pb").write_bytes(space.SerializeToString())
        made.append({"name": f"w{i}", "shiftPs": late_ns * 1000, "rows": rows})
    (tmp_path / "made.json").write_text(json.dumps({"workers": made}))
    (runs["missing"] / "demo-train-0.xplane.pb").write_bytes(clock_worker().SerializeToString())
    outcomes = ("Ok", "WorkerLost", "WorkerLost", "Unreachable")
    (runs["missing"] / "strobe.json").write_text(json.dumps({"format": 1, "run": "missing", "result": "Partial", "workers": [
        {"name": f"demo-train-{i}", "outcome": outcome, "message": "" if outcome == "Ok" else "it was evicted"} for i, outcome in enumerate(outcomes)]}))
    for i, (late_ns, error_ns) in enumerate(((0, 1000), (86_400_000_000_000, 1000), (0, 2_000_000_000), (0, 1000))):
        (runs["clocks"] / f"w{i}.xplane.pb").write_bytes(clock_worker(late_ns, error_ns).SerializeToString())
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": 1e6 + 10_000 * i, "dur": 8_000} for i in range(12)]
    events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1e6 + 10_000 * i + 10, "dur": 50} for i in range(12)]
    (runs["torch"] / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    view = View(session_group, "truth", tmp_path, "--cache", "none")
    in_browser("truth.test.mjs", STROBE_VIEW=view.url, STROBE_MADE=str(tmp_path / "made.json"))
    found = view.json("/api/find?run=torch&q=ProfilerStep%236")
    assert (found["total"], [hit["name"] for hit in found["hits"]]) == (1, ["ProfilerStep#6"])


def large_job(launches):
    """Two GPUs that run the same kernels, their launches, a pool of threads, and the HLO of a module."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    for device in range(2):
        gpu = PlaneWriter(space, f"/device:GPU:{device}")
        for stream in range(4):
            gpu.line(f"Stream #{stream}(Compute)", id=stream)
            for i in range(stream, launches, 4):
                gpu.event(f"kernel_{i % 7}", i * 100 * US, 50 * US, correlation_id=2 * i + device + 1, shape=f"f32[{i}]",
                          hlo_op="fusion.3", hlo_module="jit_step", program_id=12, tf_op="model/dense/dot:MatMul")
    host = PlaneWriter(space, "/host:CPU")
    host.line("python", id=1)
    for i in range(launches):
        for device in range(2):
            host.event("cudaLaunchKernel", i * 100 * US - (1 + device) * 20 * US, 10 * US, correlation_id=2 * i + device + 1)
    for thread in (11, -12):
        host.line(f"tf_XLAEigen/{thread}", id=abs(thread)).event("task", 0, MS)
    host.line("grpc/7", id=7).event("call", 0, MS)
    proto = hlo_proto("jit_step", [(1, "p.0", "parameter", []), (2, "p.1", "parameter", []), (3, "fusion.3", "fusion", [1, 2]),
                                   (4, "<b>&", "negate", [3]), (5, "add.5", "add", [3, 4])])
    metadata = PlaneWriter(space, "/host:metadata")
    kind = metadata.plane.event_metadata[12]
    kind.id, kind.name = 12, "jit_step(12)"
    kind.stats.add(metadata_id=metadata.stat_id("Hlo Proto"), bytes_value=proto)
    return space


def test_flows_arguments_pools_and_graphs(session_group, tmp_path, protos):
    trace = tmp_path / "job.xplane.pb"
    trace.write_bytes(large_job(10_000).SerializeToString())
    view = View(session_group, "job", trace, "--cache", "none", "--xprof", "http://localhost:8791/")
    run = view.loaded()
    assert {r["name"]: r["pool"] for r in run["rows"] if r["plane"] == "/host:CPU"} == {
        "python": "", "grpc/7": "", "tf_XLAEigen/11": "tf_XLAEigen", "tf_XLAEigen/-12": "tf_XLAEigen"}
    rows = f"0-{len(run['rows']) - 1}"
    whole = view.json(f"/api/arrows?rows={rows}&level=0&limit=20000")
    assert whole["total"] == whole["drawn"] == len(whole["bundles"]) == 20_000
    few = view.json(f"/api/arrows?rows={rows}&level=0&limit=100")
    assert few["total"] == few["drawn"] == 20_000 == sum(count for *_, count in few["bundles"]) and len(few["bundles"]) <= 100
    assert {r["plane"] for r in run["rows"] if r["name"] == "Framework Name Scope"} == {"/device:GPU:0", "/device:GPU:1"}
    in_browser("data.test.mjs", STROBE_VIEW=view.url)


def test_every_xla_op_of_a_real_trace_has_its_graph(session_group, jax_trace):
    view = View(session_group, "jaxgraph", jax_trace, "--cache", "none")
    view.loaded()
    seen = set()
    for hit in view.json("/api/find?q=jit_&in=all&limit=2000")["hits"]:
        event = view.json(f"/api/event?row={hit['row']}&track={hit['track']}&ordinal={hit['ordinal']}")
        if "hlo" not in event or event["hlo"]["instruction"] in seen:
            continue
        hlo = event["hlo"]
        assert hlo["held"], hlo
        seen.add(hlo["instruction"])
        graph = view.json("/api/graph?" + urllib.parse.urlencode({key: hlo[key] for key in ("worker", "module", "program", "instruction")}))
        centre = graph["nodes"][0]
        assert centre["name"] == hlo["instruction"] and centre["id"] == graph["centre"] and graph["missing"] == 0
        assert f"%{centre['name']} = {centre['shape']} {centre['opcode']}(" in centre["text"]
        assert len([edge for edge in graph["edges"] if edge[1] == centre["id"]]) == centre["operands"]
    assert any("dot" in name or "fusion" in name for name in seen), seen


def test_xprofs_own_page_works_against_this_server(view):
    xprof = Path(importlib.util.find_spec("xprof").origin).parent / "static"
    in_browser("xprof_page.test.mjs", STROBE_VIEW=view.url, STROBE_XPROF=str(xprof))


def spans(data):
    """The number of events by (thread, name, begin, length), times in ps."""
    names = {}
    for event in data["traceEvents"]:
        if event.get("name") in ("process_name", "thread_name"):
            names[event["name"], event["pid"], event.get("tid", 0)] = event["args"]["name"]
    return Counter((names["thread_name", e["pid"], e["tid"]], e["name"], round(e["ts"] * 1e6), round(e["dur"] * 1e6))
                   for e in data["traceEvents"] if e.get("ph") == "X")


def test_xprofs_questions_get_xprofs_answers(session_group, tmp_path, jax_trace):
    from xprof.convert import raw_to_tool_data

    view = View(session_group, "jax", jax_trace, "--cache", "none")
    run, = view.json("/data/plugin/profile/runs")
    assert view.json(f"/data/plugin/profile/run_tools?run={run}") == ["trace_viewer@"]
    host, = (h["hostname"] for h in view.json(f"/data/plugin/profile/hosts?run={run}&tag=trace_viewer@"))
    ours = view.json(f"/data/plugin/profile/data?run={run}&tag=trace_viewer@&host={host}&resolution=0")
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(jax_trace)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    theirs = json.loads(data)
    assert set(theirs) - {"tasks", "stackFrames", "mpmdPipelineView"} <= set(ours)
    names = {name for _, name, *_ in spans(ours)}
    missing = Counter({event: n for event, n in (spans(theirs) - spans(ours)).items() if event[1] in names})
    assert not missing, "every event that XProf shows under a name of the trace, on the same thread, at the same picosecond"
    shown = spans(ours)
    assert sum(shown.values()) > 300

    # The details of one event, requested as XProf's page does.
    event = next(e for e in ours["traceEvents"] if e.get("ph") == "X" and e["name"].startswith("a <b>"))
    query = urllib.parse.urlencode({"run": run, "tag": "trace_viewer@", "host": host, "event_name": event["name"],
                                    "start_time_ms": event["ts"] / 1e3, "duration_ms": event["dur"] / 1e3, "unique_id": event["args"]["uid"]})
    detailed = [e for e in view.json(f"/data/plugin/profile/data?{query}")["traceEvents"] if e.get("ph") == "X"]
    assert detailed[0]["args"]["key"] == "value"
    found = view.json(f"/data/plugin/profile/data?run={run}&tag=trace_viewer@&host={host}&search_prefix=a%20%3Cb")
    assert sum(e.get("ph") == "X" for e in found["traceEvents"]) == 20
    # Fewer bins give fewer events: only the longest of each bin.
    few = view.json(f"/data/plugin/profile/data?run={run}&tag=trace_viewer@&host={host}&resolution=50")
    assert few["filteredByVisibility"] and few["returnedEventsSize"] < sum(shown.values())
    assert view.refused(f"/data/plugin/profile/data?run={run}&tag=trace_viewer@&host=nobody")[0] == 404


def test_steps_of_a_gpu_are_those_that_xprof_derives(session_group, tmp_path, protos):
    from tensorflow import xplane_pb2
    from xprof.convert import raw_to_tool_data

    space = xplane_pb2.XSpace()
    gpu, host = PlaneWriter(space, "/device:GPU:0"), PlaneWriter(space, "/host:CPU")
    gpu.line("Stream #13(Compute)", id=13)
    host.line("python", id=4711)
    for i in range(3):
        host.event("train", i * 10 * MS, 9 * MS, step_num=i, _r=1)
        for k in range(5):
            host.event("cudaLaunchKernel", i * 10 * MS + MS + k * 100 * US, 50 * US, correlation_id=5 * i + k + 1, device_id=0)
            gpu.event(f"kernel_{k}", i * 10 * MS + (2 + k) * MS, 800 * US, correlation_id=5 * i + k + 1, hlo_module="jit_step", hlo_op=f"op.{k}")
    trace = tmp_path / "gpu.xplane.pb"
    trace.write_bytes(space.SerializeToString())
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(trace)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    theirs = {event: n for event, n in spans(json.loads(data)).items() if event[0] == "Steps"}
    view = View(session_group, "gpu", trace, "--cache", "none")
    ours = spans(view.json("/data/plugin/profile/data?tag=trace_viewer@&host=ALL_HOSTS&resolution=0"))
    assert len(theirs) == 3 and theirs == {event: n for event, n in ours.items() if event[0] == "Steps"}
    assert {line for line, *_ in ours} == {"Steps", "XLA Modules", "XLA Ops", "Launch Stats", "Stream #13(Compute)", "python"}
    # A derived event has details too, and its row belongs to its device.
    row, = (i for i, r in enumerate(view.loaded()["rows"]) if r["name"] == "Launch Stats")
    event = view.json(f"/api/event?row={row}&track=0&ordinal=0")
    assert event["plane"] == "/device:GPU:0" and {"name": "num_launches", "value": 5} in event["args"]


TPU_LINES = ["Steps", "XLA Modules", "XLA Ops", "XLA TraceMe", "Framework Name Scope", "Framework Ops", "Source code", "Scalar unit",
             "TensorCore Sync Flags", "Host Offload", "Host Offload 1"]


def test_every_documented_row_of_a_tpu_is_shown(session_group, tmp_path, protos):
    """A made trace: no TPU is here. XProf's own answer for it has the same rows."""
    from tensorflow import xplane_pb2
    from xprof.convert import raw_to_tool_data

    space = xplane_pb2.XSpace()
    for core in range(2):
        tpu = PlaneWriter(space, f"/device:TPU:{core}")
        for number, line in enumerate(reversed(TPU_LINES)):  # In no order that means anything.
            tpu.line(line, id=number).event(f"in {line}", number * MS, MS)
        sparse = PlaneWriter(space, f"/device:TPU:{core} SparseCore 0")
        for number, line in enumerate(("Sparse Core Modules", "Sparse Core Ops", "XLA TraceMe")):
            sparse.line(line, id=number).event(f"sparse in {line}", number * MS, MS)
    PlaneWriter(space, "/host:CPU").line("python", id=1).event("train", 0, 20 * MS, step_num=0, _r=1)
    trace = tmp_path / "tpu.xplane.pb"
    trace.write_bytes(space.SerializeToString())
    view = View(session_group, "tpu", trace, "--cache", "none")
    rows = view.loaded()["rows"]
    for core in range(2):
        shown = [row["name"] for row in rows if row["plane"] == f"/device:TPU:{core}"]
        assert sorted(shown) == sorted(TPU_LINES) and shown[:3] == ["Steps", "XLA Modules", "XLA Ops"], shown
        assert {row["name"] for row in rows if row["plane"] == f"/device:TPU:{core} SparseCore 0"} == {"Sparse Core Modules", "Sparse Core Ops", "XLA TraceMe"}
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(trace)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    theirs = Counter({event: n for event, n in spans(json.loads(data)).items() if event[1].startswith(("in ", "sparse in "))})
    ours = Counter({event: n for event, n in spans(view.json("/data/plugin/profile/data?tag=trace_viewer@&host=ALL_HOSTS&resolution=0")).items()
                    if event[1].startswith(("in ", "sparse in "))})
    assert sum(ours.values()) == 2 * (len(TPU_LINES) + 3)
    # XProf writes events of its own into the line Steps.
    assert {event for event in ours if event[0] != "Steps"} == set(theirs), (ours - theirs, theirs - ours)


def test_64_workers_on_one_timeline(session_group, tmp_path, protos):
    folder = write_run(tmp_path, "run", **{f"w{i:02}": {"late": i * MS // 10, "clock_offset_ns": i * 1_000_000} for i in range(64)})
    view = View(session_group, "sixtyfour", folder, "--cache", "none")
    run = view.loaded()
    assert len(run["workers"]) == 64 and len(run["rows"]) == 640
    assert {w["shiftPs"] for w in run["workers"]} == {0}, "what their clocks are apart is taken out"
    step = view.json("/api/steps")["steps"][0]
    assert (step["firstToBegin"], step["lastToBegin"], step["beginSpreadPs"]) == (0, 63, 63 * MS // 10)
    assert view.json("/api/find?q=fusion.1")["total"] == 64 * 5


def test_each_process_of_a_pod_has_its_rows(session_group, tmp_path, protos):
    """On the timeline by the name of its file, and in the run's details by its name in the manifest."""
    folder = write_run(tmp_path, "run", **{"llm-0.0": {}, "llm-0.1": {"late": 2 * MS}})
    (folder / "strobe.json").write_text(json.dumps({"format": 1, "run": "run", "result": "Succeeded", "workers": [
        {"name": f"llm-0/{i}", "pod": "llm-0", "rank": 8 + i, "localRank": i, "outcome": outcome} for i, outcome in enumerate(("Ok", "LateStart"))]}))
    view = View(session_group, "processes", tmp_path, "--cache", "none")
    run = view.loaded()
    assert [worker["name"] for worker in run["workers"]] == ["llm-0.0", "llm-0.1"] and run["warnings"] == []
    first, second = ([(row["plane"], row["name"]) for row in run["rows"] if row["worker"] == i] for i in range(2))
    assert first == second and len(first) == 10
    step = view.json("/api/steps")["steps"][0]
    assert (step["firstToBegin"], step["lastToBegin"], step["beginSpreadPs"]) == (0, 1, 2 * MS)
    shown = view.json("/api/manifest?run=run")["manifest"]["workers"]
    assert [(worker["name"], worker["pod"], worker["rank"], worker["outcome"]) for worker in shown] == [
        ("llm-0/0", "llm-0", 8, "Ok"), ("llm-0/1", "llm-0", 9, "LateStart")]


def test_what_is_asked_wrongly_is_refused_in_one_sentence(view):
    for path, code, words in [
        ("/nothing", 404, "no such page"),
        ("/../../etc/passwd", 404, "no such page"),
        ("/api/tiles?rows=x", 400, "rows: write up to 1024 numbers, such as 3,5-9"),
        ("/api/tiles?rows=0-9999999", 400, "rows: write up to"),
        ("/api/tiles?rows=0&slots=99999", 400, "slots: 99999 is not from 1 to 4096"),
        ("/api/tiles?rows=0&level=56&slots=4096", 400, "slots: the window is longer than any trace"),
        ("/api/tiles?rows=0&begin=1e9", 400, 'begin: "1e9" is not a valid integer'),
        ("/api/run?run=../../x", 404, "there is no run ../../x"),
        ("/api/find?q=", 400, "q: write 1 to 1000 bytes"),
        ("/api/find?regex=1&q=(a", 400, "Invalid regular expression: missing )"),
        ("/api/event?row=99999&track=0&ordinal=0", 404, "no such event"),
        ("/api/event?row=0&track=0&ordinal=999999", 404, "no such event"),
        ("/api/select?tracks=1:2", 400, "tracks: write up to"),
        ("/api/select?events=1:2", 400, "events: write up to"),
        ("/api/events?rows=0&after=1:2", 400, "after: write row:track:ordinal"),
        ("/api/events?rows=0&after=99999:0:0", 404, "after: there is no such event"),
        ("/api/activity?slots=1", 400, "slots: 1 is not from 16 to 4096"),
        ("/api/arrows?rows=0&begin=5&end=4", 400, "end: lies before begin"),
        ("/api/arrows?rows=0&limit=999999", 400, "limit: 999999 is not from 1 to 20000"),
        ("/api/find?q=x&in=dreams", 400, "in: write names, texts or all"),
        ("/api/find?q=x&order=dreams", 400, "order: write start or duration"),
        ("/api/find?q=x&slots=9999", 400, "slots: 9999 is not from 0 to 4096"),
        ("/api/graph?worker=0&module=jit_step&instruction=x", 404, "does not hold the HLO of jit_step"),
        ("/api/graph?worker=9&module=jit_step", 404, "no such worker"),
        ("/api/table?table=dreams", 404, "table: write one of kernels, operators,"),
        ("/api/table?table=kernels&worker=x", 400, 'worker: "x" is not a valid integer'),
        ("/api/table?table=kernels&worker=2", 404, "worker: there is no such worker"),
        ("/api/graph?limit=0", 400, "limit: 0 is not from 1 to 1000"),
        ("/data/plugin/profile/data?tag=overview_page", 404, "only tag=trace_viewer@"),
    ]:
        status, body = view.refused(path)
        assert (status, words in body) == (code, True), (path, status, body)
    # Rows that do not exist are left out.
    assert view.get("/api/tiles?rows=5000-5100")[:2] == b"\x01\x00"


def test_pages_from_elsewhere_get_nothing(view, session_group, logdir):
    """A page from a foreign host name that resolves to this machine must not read the traces (DNS rebinding)."""
    for name in ("evil.example", "127.evil.example.", "localhost.evil.example"):
        status, body = view.refused("/api/runs", Host=name)
        assert status == 403 and "--allow-host" in body, name
    for site in ("cross-site", "same-site"):
        for path in ("/api/perfetto", "/api/runs", "/data/plugin/profile/runs"):
            assert view.refused(path, **{"Sec-Fetch-Site": site})[0] == 403, (site, path)
    host = view.url.split("/")[2]
    for name in ("localhost", "127.0.0.1", "[::1]:80", host):
        assert view.get("/api/runs", Host=name)
    allowed = View(session_group, "allowed", logdir, "--cache", "none", "--allow-host", "traces.example")
    assert allowed.get("/api/runs", Host="traces.example:443")
    with urllib.request.urlopen(view.url) as page:
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy
        assert page.headers["X-Content-Type-Options"] == "nosniff"


def test_hostile_questions_end_no_server(view):
    import random

    random.seed(seed := random.randrange(1 << 30))
    print("seed", seed)
    words = ["run", "rows", "begin", "end", "level", "slots", "q", "regex", "row", "track", "ordinal", "at", "slop", "limit", "from",
             "tracks", "tag", "host", "resolution", "start_time_ms", "end_time_ms", "unique_id", "event_name", "backwards",
             "events", "bands", "after", "file", "make", "table", "worker", "order"]
    values = ["", "0", "-1", "1", "0-9", "9223372036854775807", "-9223372036854775808", "1e308", "nan", "0:0-4294967295", "ALL_HOSTS",
              "trace_viewer@", "%00", "%ff%fe", "4.4.4", "(((((", "a" * 1200, "2305843009213693952", "56", "4096", "worker-0", ".*", "always", "kernels", "memory", "duration"]
    paths = ["api/runs", "api/run", "api/catalog", "api/manifest", "api/file", "api/perfetto", "api/tiles", "api/event", "api/events", "api/find", "api/select", "api/arrows", "api/steps", "api/activity", "api/report", "api/table", "api/kinds",
             "data/plugin/profile/data", "data/plugin/profile/hosts"]
    server = view.url.split("/")[2]
    for _ in range(1500):
        query = "&".join(f"{random.choice(words)}={random.choice(values)}" for _ in range(random.randrange(6)))
        if random.random() < 0.5:
            query += "&rows=0-20&tracks=0:0-9&row=0&track=0&ordinal=0&q=e&tag=trace_viewer@&host=ALL_HOSTS"
        connection = http.client.HTTPConnection(server, timeout=30)
        connection.request("GET", f"/{random.choice(paths)}?{query}", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 400, 404), (query, answer.status)
        connection.close()
    assert view.process.running()


def test_a_trace_is_read_once_and_damage_is_told(session_group, logdir, tmp_path):
    run = logdir / "plugins/profile/2026_11_20_10_00_00"
    for _ in range(2):
        View(session_group, "cached", run, "--cache", tmp_path / "cache").loaded()
    index, = (tmp_path / "cache").iterdir()
    trace = tmp_path / "cut.xplane.pb"
    whole = (run / "worker-0.xplane.pb").read_bytes()
    trace.write_bytes(whole[:-5])
    at_once = subprocess.run([BIN / "strobe", "view", trace, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
    assert (at_once.returncode, at_once.stdout) == (1, "") and "cut: damaged or cut at byte" in at_once.stderr
    trace.write_bytes(whole)
    view = View(session_group, "damaged", trace, "--cache", "none")
    view.loaded()
    (tmp_path / "next").write_bytes(whole[:-5])
    os.replace(tmp_path / "next", trace)

    def refusal():
        try:
            view.get("/api/run")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    status, body = wait_until(refusal, 20, "the damage")
    assert status == 500 and "cut: damaged or cut at byte" in body
    # An index beside the trace is used only if it belongs to this trace.
    copy = tmp_path / "beside" / "w.xplane.pb"
    copy.parent.mkdir()
    copy.write_bytes((run / "worker-0.xplane.pb").read_bytes())
    subprocess.run([BIN / "strobe", "convert", copy, "--to", "index", "-o", copy.parent / "w.index", "--quiet"], check=True)
    assert View(session_group, "beside", copy, "--cache", "none").loaded()["warnings"] == []
    copy.write_bytes((logdir / "plugins/profile/2026_11_21_10_00_00/worker-1.xplane.pb").read_bytes())
    assert "is the index of another trace" in View(session_group, "stale", copy, "--cache", "none").loaded()["warnings"][0]


def test_runs_in_object_storage(session_group, logdir, tmp_path):
    server = Versity(session_group, tmp_path / "s3")
    (tmp_path / "s3").mkdir(exist_ok=True)
    server.start()
    run = "plugins/profile/2026_11_21_10_00_00"

    def store(worker):
        server.write(f"logs/{run}/{worker}.xplane.pb", (logdir / run / f"{worker}.xplane.pb").read_bytes())

    store("worker-0")
    view = View(session_group, "s3", f"s3://{server.bucket}/logs", "--cache", "none", env=strobe_env(server))
    runs = view.json("/api/runs")
    assert (runs["place"], runs["runs"], runs["opensList"]) == (f"s3://{server.bucket}/logs", ["2026_11_21_10_00_00"], False)
    before = view.loaded()
    assert [w["name"] for w in before["workers"]] == ["worker-0"]
    store("worker-1")
    after = wait_until(lambda: (run := view.loaded())["version"] != before["version"] and run, 20, "the second worker's trace")
    assert [w["name"] for w in after["workers"]] == ["worker-0", "worker-1"]
    question = "/api/event?row=0&track=0&ordinal=0&version="
    assert view.json(question + after["version"])
    assert view.refused(question + before["version"]) == (409, "the run has other traces than when this page opened it; reload the page\n")


def test_mistakes_on_the_command_line_are_explained(tmp_path):
    def strobe(*arguments):
        return subprocess.run([BIN / "strobe", "view", *map(str, arguments)], capture_output=True, text=True, timeout=30)

    assert "has no runs; strobe capture makes one" in strobe(tmp_path).stderr
    done = strobe(tmp_path / "nothing.xplane.pb")
    assert done.returncode in (1, 2) and "nothing.xplane.pb" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (tmp_path / "a.xplane.pb").write_bytes(b"")
        done = strobe(tmp_path / "a.xplane.pb", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert done.returncode == 1 and "--listen 127.0.0.1:0 picks a free port" in done.stderr


@pytest.mark.parametrize("what", ["trace", "index"])
def test_a_file_that_is_truncated_while_it_is_shown_is_told_and_read_anew(group, tmp_path, what):
    """Trainers can write to the logdir's volume. Truncation used to end the viewer with SIGBUS."""
    trace, cache, good = tmp_path / "big.xplane.pb", tmp_path / "cache", tmp_path / "good"
    subprocess.run([BIN / "make_xspace", "300000", good], check=True)
    shutil.copyfile(good, trace)
    view = View(group, "view", trace, "--cache", cache)
    run = view.loaded()
    questions = ["/api/event?row=0&track=1&ordinal=2000", "/api/find?q=kernel", "/api/tiles?rows=0-20&level=30&slots=512", "/api/steps",
                 f"/api/select?tracks=0:0-1&begin={run['beginPs']}&end={run['endPs']}", f"/data/plugin/profile/data?run={run['run']}&tag=trace_viewer@&host=big"]
    for question in questions:
        view.get(question)
    victim = trace if what == "trace" else next(cache.glob("*.index"))
    os.truncate(victim, 5000)
    code, body = view.refused(questions[0])
    assert code == 500 and ("was changed" in body), body
    if what == "trace":
        # The truncated file is not a valid trace, so every answer is an error.
        for question in questions:
            deadline = time.monotonic() + 60
            while (refused := view.refused(question))[0] == 503:
                assert time.monotonic() < deadline
            assert refused[0] == 500, refused
        shutil.copyfile(good, trace)
    view.loaded()
    for question in questions:
        view.get(question)
    assert view.process.running()


def test_slow_questions_of_xprof_keep_nobody_else_waiting(group, tmp_path):
    """Four such questions used to occupy all of the viewer's threads."""
    trace = tmp_path / "big.xplane.pb"
    subprocess.run([BIN / "make_xspace", "200000", trace], check=True)
    view = View(group, "view", trace, "--cache", tmp_path / "cache")
    run = view.loaded()["run"]
    slow = f"/data/plugin/profile/data?run={run}&tag=trace_viewer@&host=big&resolution=0"  # Asks for every event.
    answers, tiles = [], 0

    def ask():
        try:
            answers.append(len(view.get(slow)))
        except urllib.error.HTTPError as error:
            answers.append((error.code, error.headers["Retry-After"]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(answers) < 2:  # Two are answered at a time; the others still wait for their turn.
        view.get("/api/tiles?rows=0-20&level=30&slots=512")
        tiles += 1
    assert tiles > 5, "tiles are answered while two conversions run and two wait"
    more = [threading.Thread(target=ask) for _ in range(30)]
    for thread in more:
        thread.start()
    for thread in threads + more:
        thread.join()
    refused = [a for a in answers if isinstance(a, tuple)]
    assert refused and set(refused) == {(503, "5")}
    assert len({a for a in answers if a not in refused}) == 1, "whoever was taken got the same"
