"""Trace files in Chrome's JSON format, as real programs write them: PyTorch, Chromium, Node.js, viztracer, XProf, Perfetto and strobe itself."""

import contextlib
import gzip
import json
import os
import pickle
import re
import subprocess
import urllib.request
import zlib
from collections import Counter, defaultdict

import pytest

from tests.corpus.check import check
from tests.support.perfetto import perfetto
from tests.support.processes import BIN, BUILD, PYTHON, ROOT

TORCH = BUILD / "torch/bin/python"


def strobe(*arguments, check=True):
    done = subprocess.run([BIN / "strobe", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


def space_of(trace, out):
    """The XSpace that strobe makes of a trace file."""
    from tensorflow import xplane_pb2

    strobe("convert", trace, "--to", "xplane", "-o", out)
    return xplane_pb2.XSpace.FromString(out.read_bytes())


def events_of(space):
    """All events as (plane, line, name, begin and length in ps, stats)."""
    for plane in space.planes:
        names = {id: metadata.name for id, metadata in plane.stat_metadata.items()}

        def value(stat, names=names):
            kind = stat.WhichOneof("value")
            return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)

        for line in plane.lines:
            for event in line.events:
                stats = {names[stat.metadata_id]: value(stat) for stat in event.stats}
                yield (plane.name, line, plane.event_metadata[event.metadata_id].name, line.timestamp_ns * 1000 + event.offset_ps,
                       event.duration_ps, stats)


def as_stat(value):
    """How an argument appears as a stat."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return value


def picoseconds(micros):
    whole, _, fraction = str(micros).partition(".")
    return int(whole) * 10**6 + int(fraction.ljust(6, "0"))


def run_torch(folder, mode):
    trace, counts = folder / "rank0.pt.trace.json", folder / "counts"
    subprocess.run([TORCH, ROOT / "tests/e2e/torch_profile.py", trace, counts, mode], check=True, capture_output=True, timeout=120)
    return trace, json.loads(counts.read_text())


@pytest.fixture(scope="module")
def torch_trace(tmp_path_factory, protos):
    """What PyTorch's profiler wrote about all threads of a real training loop, and how often it says that each operator ran."""
    return run_torch(tmp_path_factory.mktemp("threads"), "threads")


@pytest.fixture(scope="module")
def memory_trace(tmp_path_factory, protos):
    """A trace of one thread, with its memory."""
    return run_torch(tmp_path_factory.mktemp("memory"), "memory")


def test_every_operator_that_pytorch_recorded_is_there(torch_trace, tmp_path):
    trace, counts = torch_trace
    ours = Counter(f"ProfilerStep#{stats['step_num']}" if name == "ProfilerStep" else name
                   for _, _, name, _, _, stats in events_of(space_of(trace, tmp_path / "t.xplane.pb"))
                   if stats.get("cat") in ("cpu_op", "user_annotation"))
    records = {name: count for name, count in counts["records"].items() if name in ours}
    assert ours == records and len(ours) > 30 and sum(ours.values()) > 500
    # The summary leaves out operators that only call one of the same name.
    for name, count in counts["summary"].items():
        if name not in ("[memory]", "ProfilerStep*"):
            assert ours[name] >= count > 0, name
    assert sum(count for name, count in ours.items() if name.startswith("ProfilerStep#")) == counts["summary"]["ProfilerStep*"] == 4


def test_no_event_argument_or_time_is_lost(torch_trace, tmp_path):
    trace, _ = torch_trace
    # Decimals as text, so that times are compared exactly.
    file = json.loads(trace.read_text(), parse_float=str)
    written = [event for event in file["traceEvents"] if event["ph"] == "X"]
    space = space_of(trace, tmp_path / "t.xplane.pb")
    zero = min(picoseconds(event["ts"]) for event in file["traceEvents"])
    ours = defaultdict(list)
    for _, _, name, begin, length, stats in events_of(space):
        ours[name, begin, length].append(stats)
    for event in written:
        name, args = event["name"], event.get("args", {})
        if name.startswith("ProfilerStep#"):
            name, args = "ProfilerStep", {**args, "step_num": int(name.partition("#")[2])}
        found = ours[name, picoseconds(event["ts"]) - zero, picoseconds(event["dur"])]
        scalars = {key: as_stat(value) for key, value in args.items() if not isinstance(value, (list, dict, str)) or not value}
        nested = {key: value for key, value in args.items() if isinstance(value, (list, dict)) and value}
        assert any(scalars.items() <= {**stats, **{k: v for k, v in scalars.items() if v == [] or v == {}}}.items() and
                   all(json.loads(stats[key], parse_float=str) == value for key, value in nested.items()) for stats in found if
                   nested.keys() <= stats.keys()), event
    spans = sum(1 for _, line, _, _, length, _ in events_of(space) if line.name != "_counters_")
    assert spans == len(written) + sum(1 for e in file["traceEvents"] if e["ph"] == "i" and e["name"] != "[memory]")
    assert {"/host:CPU", "Task Environment"} == {plane.name for plane in space.planes} and not space.warnings
    threads = {(line.id, line.name) for _, line, _, _, _, stats in events_of(space) if stats.get("cat") == "cpu_op"}
    named = {event["tid"]: event["args"]["name"] for event in file["traceEvents"] if event["name"] == "thread_name"}
    assert len(threads) >= 2 and threads == {(tid, named.get(tid, f"thread {tid}")) for tid, _ in threads}, "Kineto does not name every thread"


def test_memory_becomes_counters(memory_trace, tmp_path):
    trace, _ = memory_trace
    file = json.loads(trace.read_text())["traceEvents"]
    memory = [event["args"] for event in file if event["name"] == "[memory]"]
    space = space_of(trace, tmp_path / "t.xplane.pb")
    counters = [stats for _, line, name, _, _, stats in events_of(space) if line.name == "_counters_" and name == "Total Allocated"]
    assert len(memory) > 100 and [a["Total Allocated"] for a in memory] == [c["Total Allocated"] for c in counters]
    assert all({**a, "finished": str(a["finished"]).lower()}.items() - {("Total Reserved", 0)} <= c.items()
               for a, c in zip(memory, counters, strict=True))


COUNT_FLOPS = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
r, conv = torch.randn, torch.nn.functional.conv2d
with profile(activities=[ProfilerActivity.CPU], with_flops=True) as profiler:
    r(5, 7) @ r(7, 3), torch.addmm(r(3), r(5, 7), r(7, 3)), torch.bmm(r(2, 5, 7), r(2, 7, 3)), torch.baddbmm(r(2, 5, 3), r(2, 5, 7), r(2, 7, 3))
    r(5, 7) * r(5, 7), r(5, 7) + 1.5, r(5, 1) * r(1, 7), torch.tensor(3.0) * 2
    conv(r(2, 6, 12, 11), r(4, 6, 3, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), conv(r(2, 6, 12, 11), r(4, 3, 3, 3), r(4), groups=2)
    conv(r(2, 6, 12, 11), r(4, 6, 3, 3), padding="same"), torch.nn.Linear(8, 4)(r(3, 8)).relu().sum()
profiler.export_chrome_trace(sys.argv[1])
print(json.dumps([[event.name(), event.flops()] for event in profiler.profiler.kineto_results.events() if event.flops()]))
"""


def test_operations_are_counted_as_pytorch_counts_them(tmp_path, protos):
    trace = tmp_path / "flops.json"
    done = subprocess.run([TORCH, "-W", "ignore", "-c", COUNT_FLOPS, trace], check=True, capture_output=True, text=True, timeout=120)
    expected = Counter(map(tuple, json.loads(done.stdout)))
    assert {name for name, _ in expected} == {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "conv2d", "mul", "add")}
    events = events_of(space_of(trace, tmp_path / "flops.xplane.pb"))
    assert Counter((name, stats["flops"]) for _, _, name, _, _, stats in events if "flops" in stats) == expected


def test_steps_and_arrows(torch_trace, tmp_path):
    trace, _ = torch_trace
    file = json.loads(trace.read_text())["traceEvents"]
    space = space_of(trace, tmp_path / "t.xplane.pb")
    ends = Counter(stats["flow"] & 3 for *_, stats in events_of(space) if "flow" in stats)
    assert ends == {2: sum(1 for e in file if e["ph"] == "s"), 1: sum(1 for e in file if e["ph"] == "f")} and ends[1] > 10
    of = {2: {}, 1: {}}  # The sequence numbers of both ends of each arrow.
    for *_, stats in events_of(space):
        if "flow" in stats:
            of[stats["flow"] & 3][stats["flow"] >> 2] = stats["Sequence number"]
    assert of[1] == of[2], "an arrow leads from a forward operator to the backward one with its sequence number"

    (worker,) = json.loads(strobe("inspect", trace, "--output", "json").stdout)
    (steps,) = worker["steps"]
    assert (steps["name"], steps["count"], steps["first"], steps["last"]) == ("ProfilerStep", 4, 2, 5)
    assert worker["worker"] == "rank0" and worker["verdict"]["outcome"] == "Ok" and worker["problems"] == []


def test_compressed_files_and_folders_of_ranks(torch_trace, tmp_path):
    trace, _ = torch_trace
    (tmp_path / "job").mkdir()
    (tmp_path / "job/rank0.pt.trace.json").write_bytes(trace.read_bytes())
    (tmp_path / "job/rank1.pt.trace.json.gz").write_bytes(gzip.compress(trace.read_bytes()))
    (tmp_path / "job/notes.json").write_text("{}")
    first, second = json.loads(strobe("inspect", tmp_path / "job", "--output", "json").stdout)
    assert [first["worker"], second["worker"]] == ["rank0", "rank1"]
    assert first["planes"] == second["planes"] and second["shiftNs"] == 0
    strobe("merge", tmp_path / "job", "-o", tmp_path / "all.xplane.pb")
    # Beside XSpaces, such files are the same traces again.
    strobe("convert", trace, "--to", "xplane", "-o", tmp_path / "job/only.xplane.pb")
    assert [w["worker"] for w in json.loads(strobe("inspect", tmp_path / "job", "--output", "json").stdout)] == ["only"]


def test_the_viewer_shows_it(group, memory_trace):
    trace, _ = memory_trace
    view = group.start("view", [BIN / "strobe", "view", trace, "--listen", "127.0.0.1:0", "--cache", "none"])
    view.wait_for("Ctrl-C ends", 30)
    url = re.search(r"http://\S+", view.output()).group()

    def get(path):
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=60) as answer:
            return json.loads(answer.read())

    while (run := get("/api/run")).get("loading"):
        pass
    written = json.loads(trace.read_text())["traceEvents"]
    memory = sum(1 for e in written if e["name"] == "[memory]")
    assert run["events"] == sum(1 for e in written if e["ph"] in "Xi") + memory, "a memory event is two counters"


def test_xprof_and_perfetto_count_the_same(torch_trace, tmp_path):
    from xprof.convert import raw_to_tool_data

    trace, _ = torch_trace
    events = list(events_of(space_of(trace, tmp_path / "t.xplane.pb")))
    spans = Counter(name for _, line, name, *_ in events if line.name != "_counters_")
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(tmp_path / "t.xplane.pb")], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    # XProf appends the number of a step to its name.
    shown = Counter(re.sub(r"^ProfilerStep .*", "ProfilerStep", e["name"]) for e in json.loads(data)["traceEvents"] if e["ph"] == "X")
    assert {name: count for name, count in shown.items() if name in spans} == spans
    # Perfetto reads the file itself, and drops events that overlap on one thread without being nested.
    (count,), (dropped,), errors = perfetto(
        trace, "select count(*) from slice", "select sum(value) from stats where name = 'slice_drop_overlapping_complete_event'",
        "select name, value from stats where severity = 'error' and value > 0 and name not like 'flow%' and name not like '%overlapping%'")
    assert [count[0] + dropped[0]] == [sum(spans.values())] and errors == []


def span(category, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def arrow_ends(id, launch, work):
    (host, at), (device, then) = launch, work
    end = {"id": id, "cat": "ac2g", "name": "ac2g"}
    return [{"ph": "s", "pid": host, "tid": 900, "ts": at, **end}, {"ph": "f", "bp": "e", "pid": device, "tid": 7, "ts": then, **end}]


def two_launches():
    """An operator, two launches and their kernels, and at the end of the file the arrows, as merged and sorted files have them."""
    spans = [span("cpu_op", "aten::mm", 900, 900, 5e9, 40)]
    ends = []
    for id, (at, then) in enumerate(((5e9 + 5, 5e9 + 100), (5e9 + 20, 5e9 + 500)), 11):
        spans += [span("cuda_runtime", f"launch {id}", 900, 900, at, 10, correlation=id),
                  span("kernel", f"kernel {id}", 0, 7, then, 300, device=0, stream=7, correlation=id)]
        ends += arrow_ends(id, (900, at), (0, then))
    return spans + ends, {(f"launch {id}", f"kernel {id}") for id in (11, 12)}


def graph_launch():
    spans, ends = [span("cuda_runtime", "hipGraphLaunch", 900, 900, 5e9, 10, correlation=7)], []
    for i in range(5):
        begin = 5e9 + 100 * (i + 1)
        spans.append(span("kernel", f"k{i}", 0, 7, begin, 50, device=0, stream=7, correlation=7))
        ends += arrow_ends(7, (900, 5e9), (0, begin))[i > 0:]
    return spans + ends, {("hipGraphLaunch", f"k{i}") for i in range(5)}


def merged_ranks():
    """Two ranks with the same correlation ids. Perfetto's engine takes them for one another's in the file itself."""
    events, arrows = [], set()
    for rank in (0, 1):
        for i in range(3):
            host, device, at, id = f"[TP0{rank}] 900", f"[TP0{rank}] 0", 5e9 + 1000 * i + 5 * rank, 10 + i
            events += [span("cuda_runtime", f"launch {rank} {i}", host, 900, at, 20, correlation=id),
                       span("kernel", f"kernel {rank} {i}", device, 7, at + 100, 300, device=rank, stream=7, correlation=id)]
            events += arrow_ends(id, (host, at), (device, at + 100))
            arrows.add((f"launch {rank} {i}", f"kernel {rank} {i}"))
    return events, arrows


@pytest.mark.parametrize("made", [two_launches, graph_launch, merged_ranks])
def test_arrows_of_the_exports_are_those_of_the_file(made, tmp_path):
    """Counted by Perfetto's engine, which also reads the first file itself."""
    events, expected = made()
    query = "select o.name, i.name from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id"
    trace = tmp_path / "rank0.trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    if made is two_launches:
        assert {tuple(row) for row in perfetto(trace, query)[0]} == expected
    for to, out in (("perfetto", "t.pftrace"), ("chrome", "t.json")):
        strobe("convert", trace, "--to", to, "-o", tmp_path / out)
        rows, (spans,) = perfetto(tmp_path / out, query, "select count(*) from slice")
        assert {tuple(row) for row in rows} == expected and len(rows) == len(expected), to
        assert spans == [sum(1 for event in events if event["ph"] == "X")], "no end of an arrow is an event"


def time_of_report(path):
    (worker,) = json.loads(strobe("report", path, "--output", "json").stdout)["workers"]
    return worker, worker["time"] and {key: round(100 * value / worker["time"]["spanNs"], 1) for key, value in worker["time"].items()}


def test_copies_of_all_vendors_and_devices_of_all_kinds_are_told(tmp_path):
    """Percents that can be added up by hand: each piece of work takes as much as the next."""
    names = ["Cijk_Ailk_Bljk_gemm", "MEMORY_COPY_HOST_TO_DEVICE", "__amd_rocclr_copyBuffer.kd", "__amd_rocclr_fillBufferAligned", "CopyDeviceToDevice"]
    amd = [span("user_annotation", "ProfilerStep#1", 50, 1, 0, 2000)]
    amd += [span("kernel", name, 2, 0, 100 * i, 100, device=2, stream=0, correlation=i) for i, name in enumerate(names, 1)]
    mtia = [span("user_annotation", "ProfilerStep#1", 60, 60, 0, 2000), span("cpu_op", "aten::mm", 60, 60, 10, 500),
            span("mtia_ccp_events", "fc", 9, 801, 100, 1200, stream=108), span("mtia_ccp_events", "dma_request", 9, 801, 1500, 200, direction="DEVICE_TO_HOST")]
    for events, compute, copies in ((amd, 5, 20), (mtia, 60, 10)):
        trace = tmp_path / "rank0.trace.json"
        trace.write_text(json.dumps({"traceEvents": events}))
        _, percents = time_of_report(trace)
        assert (percents["computeNs"], percents["exposedCopiesNs"], percents["idleNs"]) == (compute, copies, 100 - compute - copies)
    # A device of which nothing is told: the host's operators are not shown as the job's work.
    trace.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "Gaudi"}], "traceEvents": mtia[:2]}))
    worker, percents = time_of_report(trace)
    assert percents is None and worker["knows"]["deviceUntold"] and not worker["knows"]["hostDevice"]
    assert "Some traces have a device, but not what ran on it" in strobe("report", trace).stdout


def json_counts(path):
    """An independent count: spans by name, events without a duration, and values of counters."""
    text = (gzip.open if path.name.endswith(".gz") else open)(path, "rt").read()
    file = json.loads(text)
    return Counter((e["name"], e["ph"]) for e in (file if isinstance(file, list) else file["traceEvents"]) if e.get("ph") in ("X", "B", "i", "I"))


@contextlib.contextmanager
def written_by_chromium(folder):
    out = folder / "chromium.json"
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
                    "--trace-startup=-*,toplevel,blink,v8,cc", "--trace-startup-format=json", f"--trace-startup-file={out}",
                    "--trace-startup-duration=1", "--dump-dom", "data:text/html,<script>for(let i=0;i<1e5;i++);</script>"],
                   capture_output=True, timeout=90, check=True)
    yield out


@contextlib.contextmanager
def written_by_node(folder):
    out = folder / "node.json"
    subprocess.run(["node", "--trace-events-enabled", f"--trace-event-file-pattern={out}", "-e",
                    "for (let i = 0; i < 3; i++) require('fs').readFileSync('/dev/null')"], check=True, timeout=60)
    yield out


@contextlib.contextmanager
def written_by_viztracer(folder):
    program, out = folder / "program.py", folder / "viztracer.json"
    program.write_text("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(10)\n")
    subprocess.run([PYTHON.parent / "viztracer", "-o", out, program], check=True, capture_output=True, timeout=60)
    yield out


@pytest.mark.parametrize("writer", [written_by_chromium, written_by_node, written_by_viztracer])
def test_files_of_other_programs(writer, tmp_path, protos):
    with writer(tmp_path) as trace:
        counts = json_counts(trace)
        space = space_of(trace, tmp_path / "t.xplane.pb")
    unread = [warning for warning in space.warnings if "could not be read" in warning]
    assert sum(counts.values()) > 20 and not unread
    names = {name for name, _ in counts}
    ours = Counter(name for _, line, name, *_, stats in events_of(space) if name in names and not line.name.startswith("async ")
                   and line.name != "_counters_" and "ph" not in stats and "flow" not in stats)
    theirs = Counter()
    for (name, _), count in counts.items():
        theirs[name] += count
    # Arrows and other phases may share the name of a span, and spans may have an arrow.
    assert all(ours[name] <= theirs[name] for name in names)
    with_arrows = Counter(name for _, line, name, *_, stats in events_of(space) if name in names and not line.name.startswith("async "))
    assert all(with_arrows[name] >= theirs[name] for name in names)


def test_xprofs_and_our_own_json_come_back_as_planes(jax_trace, tmp_path, protos):
    from xprof.convert import raw_to_tool_data

    (original,) = json.loads(strobe("inspect", jax_trace, "--output", "json").stdout)
    strobe("convert", jax_trace, "-o", tmp_path / "t.json.gz")
    (again,) = json.loads(strobe("inspect", tmp_path / "t.json.gz", "--output", "json").stdout)
    planes = {plane["name"]: sum(kind["count"] for kind in plane["kinds"]) for plane in original["planes"]}
    assert {plane["name"]: sum(kind["count"] for kind in plane["kinds"]) for plane in again["planes"] if plane["kinds"]} == {
        name: count for name, count in planes.items() if count}
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(jax_trace)], "trace_viewer", {})
    (tmp_path / "xprof.trace.json.gz").write_bytes(gzip.compress(data if isinstance(data, bytes) else data.encode()))
    counts = Counter(name for name, _ in json_counts(tmp_path / "xprof.trace.json.gz").elements())
    ours = Counter(name for _, _, name, *_ in events_of(space_of(tmp_path / "xprof.trace.json.gz", tmp_path / "x.xplane.pb")))
    assert ours == counts and sum(counts.values()) > 100


WILD = ROOT / "tests/fuzz/corpus/trace_json"


def read_by_python(path):
    data = path.read_bytes()
    file = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return file if isinstance(file, list) else file["traceEvents"]


@pytest.mark.parametrize("name", [
    "args-list.json", "ascend-trace_view.json", "async-by-name.json", "compact.trace.json", "empty-member.json.gz", "equal-begin.json",
    "gzip-named.json", "id2-local.json", "indented.trace.json", "list-then-brace.trace.json", "list-then-newline.trace.json",
    "lost-times.json", "lost-times-year.trace.json", "members.json.gz", "negative-times.json", "pid1.trace.json", "plain.json.gz",
    "process-0.json"])
def test_files_as_the_field_has_them(name, tmp_path, protos):
    """Names and lengths of all spans, counted by Python's json. Times of 0 are lost ones in PyTorch's files."""
    file = [event for event in read_by_python(WILD / name) if not (name.startswith("lost-times") and event["ts"] == 0)]
    begun, counts = {}, Counter()
    for event in sorted((e for e in file if "ts" in e), key=lambda e: float(e["ts"])):
        key = str((event["pid"], event.get("tid"), event.get("name") if event["ph"] in "be" else None, event.get("id"), event.get("id2")))
        if event["ph"] in "Bb":
            begun.setdefault(key, []).append(event)
        elif event["ph"] in "Ee":
            begin = begun[key].pop()
            counts[begin["name"], round(float(event["ts"]) * 1e6) - round(float(begin["ts"]) * 1e6)] += 1
        elif event["ph"] == "X":
            counts[re.sub("#.*", "", event["name"]), round(float(event["dur"]) * 1e6)] += 1
    space = space_of(WILD / name, tmp_path / "t.xplane.pb")
    ours = Counter((name, length) for _, line, name, _, length, stats in events_of(space) if line.name != "_counters_" and "ph" not in stats)
    assert ours == counts and sum(counts.values()) > 0
    lost = [warning for warning in space.warnings if "no time" in warning]
    assert lost == (["30 events could not be read: no time, or an impossible one"] if name.startswith("lost-times") else [])


@pytest.mark.parametrize("name, read, lost", [
    ("lost-quote.json", 3, "malformed JSON, 118 bytes from byte 220 on"), ("windows-paths.json", 4, "malformed JSON"),
    ("cut.json.gz", 2, "the file is cut"), ("bare-inf-nan.json", 6, None), ("xpu.trace.json", 5, None), ("nan-times.json", 3, None), ("garbage.json.gz", 6, None)])
def test_what_is_missing_of_a_damaged_file_is_told(name, read, lost):
    """Python's json reads none of them."""
    (worker,) = json.loads(strobe("inspect", WILD / name, "--output", "json").stdout)
    assert sum(plane["events"] for plane in worker["planes"]) == read
    assert worker["verdict"]["outcome"] == ("EventsDropped" if lost else "Ok"), worker["verdict"]
    assert (lost or "") in worker["verdict"].get("message", "")


@pytest.mark.parametrize("changes", [{"indent": 2}, {"separators": (",", ":")}, {"indent": "\t", "sort_keys": True}, {"sort_keys": True}],
                         ids=["indented", "compact", "tabs", "sorted"])
def test_white_space_and_the_order_of_keys_change_nothing(torch_trace, changes, tmp_path):
    trace, _ = torch_trace
    shown = []
    for path, how in ((tmp_path / "job.json", {}), (tmp_path / "other/job.json", changes)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(json.loads(trace.read_text()), **how))
        shown.append(json.loads(strobe("inspect", path, "--output", "json").stdout))
    assert shown[0] == shown[1]


def peak_of(*command):
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024


def test_a_file_that_is_cut_anywhere_is_read_up_to_there(torch_trace, tmp_path):
    whole = torch_trace[0].read_bytes()
    events = []
    for place in range(0, len(whole), len(whole) // 40):
        part = tmp_path / "cut.json"
        part.write_bytes(whole[:place])
        done = strobe("inspect", part, "--output", "json", check=False)
        if done.returncode != 0:
            assert "DataLoss" in done.stderr and not events, "only without any event"
            assert place == 0 or "cut before its first event, so that nothing can be shown; copy the file again" in done.stderr
            continue
        (worker,) = json.loads(done.stdout)
        (cut,) = (problem for problem in worker["problems"] if problem.startswith("warning: the file is cut: its end is missing, and "))
        events.append(sum(plane["events"] for plane in worker["planes"]))
        assert re.search(r"the \d+ events? before it (were|was) read and (are|is) shown; copy the file again" if events[-1] else "no event came before", cut), cut
    assert len(events) > 30 and events == sorted(events)


def test_a_text_of_two_gibibytes_takes_little_memory(tmp_path):
    """Compressed, so that no test has to write it."""
    with gzip.open(tmp_path / "huge.json.gz", "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents":[{"ph":"X","name":"before","pid":1,"tid":1,"ts":1,"dur":1},{"ph":"X","name":"')
        for _ in range(2 << 10):
            file.write(b"x" * (1 << 20))
        file.write(b'","pid":1,"tid":1,"ts":2,"dur":1},{"ph":"X","name":"after","pid":1,"tid":1,"ts":3,"dur":1}]}')
    _, bare = peak_of(BIN / "strobe", "--help")
    code, peak = peak_of(BIN / "strobe", "inspect", tmp_path / "huge.json.gz")
    assert code == 0 and peak - bare < 64, f"{peak} MiB, {bare} without a trace"
    out = strobe("inspect", tmp_path / "huge.json.gz").stdout
    assert "before" in out and "after" in out and "1 event could not be read: more than 2 MiB" in out


def packet(*fields):
    """A packet of a Perfetto trace: numbers below 128, and texts."""

    def varint(number):
        return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])

    content = b"".join(varint(f << 3) + bytes([v]) if isinstance(v, int) else varint(f << 3 | 2) + bytes([len(v)]) + v for f, v in fields)
    return b"\x0a" + bytes([len(content)]) + content


PERFETTO = packet((10, 1), (60, b"\x08\x01")) + packet((8, 100), (10, 1), (11, b"\x48\x01\x58\x01"))
EVENT = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2}'
FILES_THAT_ARE_NO_TRACE = {
    "README.md": ((ROOT / "README.md").read_bytes(), "this is text, neither JSON nor an XSpace"),
    "empty.json": (b"", "the file is empty"),
    "picture.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "this is a picture (PNG)"),
    "perfetto.pftrace": (PERFETTO, "this is a Perfetto trace, not an XSpace; https://ui.perfetto.dev opens it"),
    "perfetto.xplane.pb": (PERFETTO, "this is a Perfetto trace"),
    "perfetto.json.gz": (gzip.compress(PERFETTO), "within the compression by gzip, this is a Perfetto trace"),
    "space.xplane.pb.gz": (gzip.compress(b"\x0a\x0b\x12\x09/host:CPU"), "this is an XSpace compressed by gzip; gunzip it first"),
    "events.json.zst": (b"\x28\xb5\x2f\xfd\x24\0\1\0\0", "compressed by zstd"),
    "events.json": (b"\x28\xb5\x2f\xfd\x24\0\1\0\0", "compressed by zstd"),
    "zlib.json.gz": (zlib.compress(b"[" + EVENT + b"]"), "compressed by zlib"),
    "app.cpuprofile": (b'{"nodes":[{"id":1,"callFrame":{"functionName":"f"}}],"samples":[1],"timeDeltas":[0]}', "only samples (a CPU profile of V8)"),
    "samples.json": (b'{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"x"}},{"ph":"P","name":"sample","pid":1,"tid":1,"ts":5}]}', "only samples"),
    "frames.json": (b'{"traceEvents":[],"stackFrames":{"1":{"name":"f"}},"samples":[{"cpu":0,"tid":1,"ts":1.0,"name":"cycles","sf":1,"weight":1}]}', "only samples"),
    "stacks.txt": (b"main;train;step 42\nmain;train;load 7\n", "only samples (collapsed stacks)"),
    "perf.txt": (b"python 42 [000] 1234.567890:  10101 cycles:\n\tffff native_write_msr\n\n", "only samples (the text of perf script)"),
    "profile.speedscope.json": (b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[]}', "https://www.speedscope.app opens it"),
    "snapshot.pickle": (pickle.dumps({"segments": []}, protocol=4), "pickle of Python"),
}


@pytest.mark.parametrize("name, content", [
    ("trace", EVENT), ("events.txt", EVENT), ("trace.gz", gzip.compress(EVENT)), ("trace.json.gz.1", gzip.compress(EVENT)),
    ("padded.json.gz", gzip.compress(EVENT) + bytes(5000)), ("plain.json.gz", EVENT)])
def test_what_the_file_holds_decides_and_not_its_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if content[:1] != b"{" else b"[" + content + b"]")
    if content[:2] == b"\x1f\x8b":
        (tmp_path / name).write_bytes(gzip.compress(b"[" + EVENT + b"]") + content[len(gzip.compress(EVENT)):])
    shown = strobe("inspect", tmp_path / name, "--output", "json")
    worker, = json.loads(shown.stdout)
    assert sum(plane["events"] for plane in worker["planes"]) == 1 and shown.stderr == ""


def test_json_files_of_a_folder_that_are_not_named_as_traces(tmp_path):
    """HTA and torchtitan write such names. What holds no events is left out, and better names are preferred."""
    for rank in range(3):
        events = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "filler": "x" * 100_000, "traceEvents": [json.loads(EVENT)]}
        text = json.dumps(events).encode()
        (tmp_path / f"rank-{rank}.json.gz").write_bytes(gzip.compress(text)) if rank else (tmp_path / "rank0_trace.json").write_bytes(text)
    (tmp_path / "config.json").write_text('{"lr": 1e-4, "note": "traceEvents"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    workers = json.loads(strobe("inspect", tmp_path, "--output", "json").stdout)
    assert [(w["worker"], sum(p["events"] for p in w["planes"])) for w in workers] == [("rank-1", 1), ("rank-2", 1), ("rank0_trace", 1)]
    (tmp_path / "best.trace.json").write_bytes(b"[" + EVENT + b"]")
    assert [w["worker"] for w in json.loads(strobe("inspect", tmp_path, "--output", "json").stdout)] == ["best"]


def test_what_is_no_trace_is_said(tmp_path):
    for content in (b"", b"hello", b"{}", b'{"a": [1, 2]}', b"\x1f\x8b\x08\x00garbage", bytes(range(256)) * 10):
        (tmp_path / "t.json").write_bytes(content)
        done = strobe("inspect", tmp_path / "t.json", check=False)
        assert done.returncode == 1 and "DataLoss" in done.stderr and "t.json" in done.stderr, content
    for name, words in FILES_THAT_ARE_NO_TRACE.items():
        content, why = words
        (tmp_path / name).write_bytes(content)
        for command in (["inspect"], ["report"], ["view", "--listen", "127.0.0.1:0"], ["convert", "--to", "stats", "-o", "-"]):
            done = strobe(command[0], tmp_path / name, *command[1:], check=False)
            assert done.returncode == 1 and (done.stdout == "" or command[0] == "view"), (name, command, done.stdout)
            assert why in done.stderr and name.split(".")[0] in done.stderr, (name, command, done.stderr)
    # What a profiler writes that has recorded nothing.
    (tmp_path / "empty.xplane.pb").touch()
    assert "verdict: NoHostEvents" in strobe("inspect", tmp_path / "empty.xplane.pb").stdout
    (tmp_path / "folder").mkdir()
    for command in ("inspect", "view", "report"):
        done = strobe(command, tmp_path / "folder", check=False)
        assert done.returncode == 1 and "has no runs" in done.stderr, (command, done.stderr)
    (tmp_path / "folder/package.json").write_text('{"name": "x"}')
    assert "none of its 1 .json files is a trace" in strobe("view", tmp_path / "folder", check=False).stderr
    done = strobe("inspect", tmp_path / "none.json", check=False)
    assert done.returncode == 1 and "NotFound" in done.stderr


@pytest.mark.parametrize("name", ["animation", "load", "response"])
def test_traces_that_chromium_wrote_and_a_package_ships(name, tmp_path, protos):
    """Spans in an own computation and in Perfetto's engine; tests/corpus does the same for published traces of GPUs."""
    found = check(BUILD / f"tools/corpus/node_modules/bigrig/test/data/{name}.json", tmp_path)
    assert found.problems == [] and found.figures
