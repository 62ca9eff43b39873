"""The viewer's tables against own computations, torch.profiler's key_averages() and strobe report, and its tab in Chromium."""

import json
import subprocess
from collections import defaultdict

import pytest

from tests.support import gpu_trace
from tests.support.browser import in_browser
from tests.support.processes import BIN, BUILD, ROOT
from tests.support.traces import write_run
from tests.support.viewer import View

TORCH = BUILD / "torch/bin/python"
ODD = 3  # The rank of which one kernel takes longer.
US = 1_000_000  # In ps.


def table_of(view, table, worker=None, run=""):
    query = f"/api/table?table={table}" + ("" if worker is None else f"&worker={worker}") + (f"&run={run}" if run else "")
    answer = view.json(query)
    assert (answer["table"], answer["worker"], answer["leftOut"] if table != "memory" else 0) == (table, worker, 0)
    return answer


def by_name(answer):
    rows = {row["name"]: row for row in answer["rows"]}
    assert len(rows) == len(answer["rows"])
    return rows


# ---- What PyTorch's own profiler says of the same recording ----------------------------------------


@pytest.fixture(scope="module")
def torch_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    for mode in ("plain", "memory"):
        subprocess.run([TORCH, "-W", "ignore", ROOT / "tests/e2e/torch_profile.py", folder / f"{mode}.pt.trace.json", folder / f"{mode}.json", mode],
                       check=True, capture_output=True, timeout=120)
    return folder


def test_operators_are_those_of_key_averages(session_group, torch_run):
    view = View(session_group, "plain", torch_run / "plain.pt.trace.json", "--cache", "none")
    view.loaded()
    ours = by_name(table_of(view, "operators", 0))
    theirs = json.loads((torch_run / "plain.json").read_text())["averages"]
    assert len(theirs) > 30 and "ProfilerStep*" in theirs and "forward (annotated)" in theirs
    for name, (count, total_us, self_us) in theirs.items():
        row = ours[name]
        assert row["count"] == count, name
        # The trace has whole nanoseconds.
        assert abs(row["totalPs"] - total_us * US) <= 2000 * count, (name, row, total_us)
        assert abs(row["selfPs"] - self_us * US) <= 4000 * count, (name, row, self_us)
    assert {name for name, row in ours.items() if row["kind"] != "runtime"} <= set(theirs), "nothing is listed that is no operator"


def test_memory_is_that_of_the_traces_own_records(session_group, torch_run):
    view = View(session_group, "memory", torch_run / "memory.pt.trace.json", "--cache", "none")
    view.loaded()
    events = json.loads((torch_run / "memory.pt.trace.json").read_text())["traceEvents"]
    records = sorted((event for event in events if event.get("name") == "[memory]" and event["args"]["Device Type"] == 0), key=lambda e: e["ts"])
    totals = [record["args"]["Total Allocated"] for record in records]
    curves = [row for row in table_of(view, "memory", 0)["rows"] if row["counter"] == "Total Allocated"]
    (curve,) = curves
    assert (curve["values"], curve["peak"], curve["last"]) == (len(records), max(totals), totals[-1])
    assert max(value for _, value in curve["points"]) == max(totals)
    alive = {}
    for record in records[:totals.index(max(totals)) + 1]:
        size = record["args"]["Bytes"]
        if size > 0:
            alive[record["args"]["Addr"]] = size
        else:
            alive.pop(record["args"]["Addr"], None)
    assert sorted((one["bytes"] for one in curve["alive"]), reverse=True) == sorted(alive.values(), reverse=True)[:200]
    assert curve["aliveBytes"] == sum(alive.values())
    assert any(one["by"] for one in curve["alive"]), "some of them are allocated by an operator that was recorded"


def test_modules_have_the_times_of_their_calls(session_group, torch_run):
    view = View(session_group, "modules", torch_run / "memory.pt.trace.json", "--cache", "none")
    view.loaded()
    events = json.loads((torch_run / "memory.pt.trace.json").read_text())["traceEvents"]
    calls = defaultdict(list)
    for event in events:
        if event.get("cat") == "python_function" and event["name"].startswith("nn.Module: "):
            calls[event["name"]].append(event["dur"])
    rows = by_name(table_of(view, "modules", 0))
    assert set(rows) == set(calls) and "nn.Module: Linear_0" in rows
    for name, lengths in calls.items():
        assert rows[name]["count"] == len(lengths)
        assert abs(rows[name]["totalPs"] - sum(lengths) * US) <= 2000 * len(lengths)
        assert rows[name]["devicePs"] == 0


# ---- A GPU's kernels, computed by hand ---------------------------------------------------------------


@pytest.fixture(scope="module")
def gpu_run(tmp_path_factory):
    """Four ranks, of which one computes longer. All times are whole microseconds."""
    logs = tmp_path_factory.mktemp("gpu")
    folder = logs / "plugins/profile/run"
    folder.mkdir(parents=True)
    made = []
    for rank in range(4):
        trace = gpu_trace.make(0)  # The ranks are equal but for the odd one.
        trace["distributedInfo"].update(rank=rank, world_size=4)
        for event in trace["traceEvents"]:
            if event.get("cat") == "cpu_op":
                event["args"]["Input Dims"] = [[8, 16], [16, event["args"]["External id"] % 2]]
            if event.get("cat") == "kernel" and event["name"].startswith("gemm_"):
                event["args"].update(grid=[8, 1, 1], block=[128, 1, 1], **{
                    "registers per thread": 32, "shared memory": 1024, "est. achieved occupancy %": 20 if event["dur"] < 30 else 60})
            if rank == ODD and event["name"] == "gemm_4":
                event["name"] = "gemm_0"  # So that gemm_0 takes longer there, and gemm_4 is missing.
        (folder / f"rank{rank}.trace.json").write_text(json.dumps(trace))
        made.append([event for event in trace["traceEvents"] if event["ph"] == "X"])
    return folder, made


@pytest.fixture(scope="module")
def gpu_view(session_group, gpu_run):
    view = View(session_group, "gpu", gpu_run[0], "--cache", "none")
    view.loaded()
    return view


def on_device(events):
    return [event for event in events if event["cat"] in ("kernel", "gpu_memcpy")]


def test_kernels_are_summed_as_by_hand(gpu_view, gpu_run):
    for rank, events in enumerate(gpu_run[1]):
        answer = table_of(gpu_view, "kernels", rank)
        rows, lengths = by_name(answer), defaultdict(list)
        for event in on_device(events):
            lengths[event["name"]].append(event["dur"])
        assert set(rows) == set(lengths)
        assert answer["devicePs"] == sum(map(sum, lengths.values())) * US
        for name, all_of in lengths.items():
            row = rows[name]
            assert (row["count"], row["totalPs"], row["selfPs"], row["maxPs"]) == (len(all_of), sum(all_of) * US, sum(all_of) * US, max(all_of) * US)
            assert row["launchedBy"] == "aten::op"
        gemm = rows["gemm_2"]
        assert (gemm["kind"], gemm["grid"], gemm["block"], gemm["registers"]) == ("kernel", "8,1,1", "128,1,1", "32")
        weighted = sum(length * (20 if length < 30 else 60) for length in lengths["gemm_2"]) / sum(lengths["gemm_2"])
        assert gemm["occupancy"] == pytest.approx(weighted)
        assert rows[gpu_trace.COPY]["kind"] == "copy" and rows[gpu_trace.NCCL]["kind"] == "communication"


def test_kernels_are_those_of_strobe_report(gpu_view, gpu_run):
    done = subprocess.run([BIN / "strobe", "report", gpu_run[0], "--output", "json"], capture_output=True, text=True, timeout=120, check=True)
    for rank, worker in enumerate(json.loads(done.stdout)["workers"]):
        rows = by_name(table_of(gpu_view, "kernels", rank))
        ops = {op["name"]: op for op in worker["ops"] if op["name"] in rows}
        assert set(ops) == set(rows)
        for name, op in ops.items():
            assert (op["count"], op["totalNs"] * 1000, op["selfNs"] * 1000) == (rows[name]["count"], rows[name]["totalPs"], rows[name]["selfPs"])
        steps = table_of(gpu_view, "steps", rank)["rows"]
        assert [step["number"] for step in steps] == [step["number"] for step in worker["steps"]]
        for ours, theirs in zip(steps, worker["steps"], strict=True):
            assert ours["totalPs"] == (theirs["endNs"] - theirs["beginNs"]) * 1000
            assert ours["computePs"] == theirs["time"]["computeNs"] * 1000
            assert ours["exposedCommunicationPs"] == theirs["time"]["exposedCommunicationNs"] * 1000
            assert ours["inputPs"] == theirs["host"]["inputStallNs"] * 1000


def test_operators_have_the_device_time_of_what_they_launched(gpu_view, gpu_run):
    answer = table_of(gpu_view, "operators", 1)
    work = {event["args"]["correlation"]: event["dur"] for event in on_device(gpu_run[1][1])}
    operator = by_name(answer)["aten::op"]
    assert answer["joinsLaunches"] and operator["deviceSelfPs"] == operator["devicePs"] == sum(work.values()) * US
    launches = [event for event in gpu_run[1][1] if event["name"] == "cudaLaunchKernel"]
    assert operator["count"] == len(launches) and operator["selfPs"] == len(launches) * (9 - 5) * US
    assert (operator["shapes"], operator["shapesDiffer"]) == ("[[8, 16], [16, 1]]", True)
    assert by_name(answer)["ProfilerStep*"]["devicePs"] == sum(work.values()) * US


def test_operations_of_xla_have_their_category_and_rates(session_group, tmp_path, protos):
    write_run(tmp_path, "tpu", **{"worker-0": {}, "worker-1": {}})
    view = View(session_group, "tpu", tmp_path, "--cache", "none")
    view.loaded()
    for worker, times in ((0, 5), (None, 10)):
        fusion = by_name(table_of(view, "kernels", worker))["fusion.1"]
        assert (fusion["category"], fusion["flops"], fusion["accessedBytes"]) == ("fusion", times * 6_000_000_000, times * 1_500_000)
        assert by_name(table_of(view, "kernels", worker))["dot.2"]["flops"] is None


def test_collectives_have_bandwidth_and_exposed_time(gpu_view, gpu_run):
    for rank, events in enumerate(gpu_run[1]):
        (row,) = table_of(gpu_view, "communication", rank)["rows"]
        calls = [event for event in events if event["name"] == gpu_trace.NCCL]
        total = sum(event["dur"] for event in calls)
        busy = set()  # Microseconds in which something computes.
        for event in events:
            if event["cat"] == "kernel" and event["name"] != gpu_trace.NCCL:
                busy.update(range(event["ts"], event["ts"] + event["dur"]))
        exposed = sum(at not in busy for event in calls for at in range(event["ts"], event["ts"] + event["dur"]))
        assert (row["group"], row["ranks"], row["count"], row["bytes"]) == ("0 default_pg", 2, len(calls), 4096 * len(calls))
        assert (row["totalPs"], row["exposedPs"]) == (total * US, exposed * US)
        assert row["algorithmBytesPerS"] == pytest.approx(4096 * len(calls) / (total * 1e-6))
        assert row["busBytesPerS"] == pytest.approx(row["algorithmBytesPerS"] * 2 * (2 - 1) / 2)


def test_all_ranks_are_summed_and_the_odd_one_is_named(gpu_view, gpu_run):
    rows = by_name(table_of(gpu_view, "kernels"))
    one = [by_name(table_of(gpu_view, "kernels", rank)) for rank in range(4)]
    for name, row in rows.items():
        having = [worker[name] for worker in one if name in worker]
        assert row["workers"] == len(having)
        for field in ("count", "totalPs", "selfPs"):
            assert row[field] == sum(each[field] for each in having), (name, field)
        assert row["maxPs"] == max(each["maxPs"] for each in having)
    assert rows["gemm_0"]["odd"]["worker"] == ODD and rows["gemm_0"]["odd"]["totalPs"] == one[ODD]["gemm_0"]["totalPs"]
    assert rows["gemm_4"]["odd"]["worker"] == ODD and rows["gemm_4"]["odd"]["totalPs"] == 0, "it is missing there"
    assert rows[gpu_trace.NCCL]["odd"] is None


def test_a_kernel_leads_to_its_launch_and_what_is_around_it(gpu_view):
    hit = gpu_view.json("/api/find?q=gemm_2&limit=1")["hits"][0]
    event = gpu_view.json(f"/api/event?row={hit['row']}&track={hit['track']}&ordinal={hit['ordinal']}")
    assert [(link["what"], link["name"]) for link in event["chain"]][:2] == [("launch", "cudaLaunchKernel"), ("operator", "aten::op")]
    assert event["chain"][-1]["what"] == "annotation" and event["chain"][-1]["name"].startswith("ProfilerStep#")


# ---- The page --------------------------------------------------------------------------------------


def test_the_tables_of_the_page(gpu_view, session_group, torch_run, gpu_run):
    witness = {table: {"all": table_of(gpu_view, table), "one": table_of(gpu_view, table, 1)} for table in ("kernels", "operators", "steps")}
    (gpu_run[0].parent / "witness.json").write_text(json.dumps(witness))
    memory = View(session_group, "memory page", torch_run / "memory.pt.trace.json", "--cache", "none")
    memory.loaded()
    xprof = View(session_group, "xprof link", gpu_run[0], "--cache", "none", "--xprof", "http://127.0.0.1:9/")
    xprof.loaded()
    in_browser("tables.test.mjs", STROBE_VIEW=gpu_view.url, STROBE_MEMORY=memory.url, STROBE_LINKED=xprof.url,
               STROBE_WITNESS=str(gpu_run[0].parent / "witness.json"))


def deep_rank():
    """One rank of a GPU whose Python frames lie in five others that last as long as the recording, and are deep at its end, with memory and a
    process without a name."""
    trace = gpu_trace.make(0)
    trace["distributedInfo"].update(rank=0, world_size=1)
    events = trace["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    begin, last = min(event["ts"] for event in spans) - 20, max(event["ts"] + event["dur"] for event in spans)
    end = last + 100
    frames = [{"ph": "X", "cat": "python_function", "name": f"app/main.py({depth}): outer_{depth}", "pid": 100, "tid": 100, "ts": begin + depth,
               "dur": end - begin - 2 * depth, "args": {}} for depth in range(5)]
    frames += [{"ph": "X", "cat": "python_function", "name": f"app/end.py({depth}): inner_{depth}", "pid": 100, "tid": 100, "ts": last + 10 + depth,
                "dur": 60 - 2 * depth, "args": {}} for depth in range(16)]
    memory = [{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": begin + 10 + i * (end - begin) // 20,
               "args": {"Total Allocated": (i + 1) << 20, "Total Reserved": 32 << 20, "Bytes": 1 << 20, "Addr": i, "Device Id": 0, "Device Type": 1}}
              for i in range(20)]
    other = {"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": 2, "tid": 0, "ts": begin + 50, "dur": 40}
    trace["traceEvents"] = [*events, *frames, *memory, other]
    return trace


def test_one_rank_with_deep_stacks(session_group, tmp_path):
    (tmp_path / "rank0.trace.json").write_text(json.dumps(deep_rank()))
    view = View(session_group, "deep", tmp_path / "rank0.trace.json", "--cache", "none")
    view.loaded()
    in_browser("stacks.test.mjs", STROBE_VIEW=view.url)


def by_step(trace):
    """The own time of each name on the device, in us of a step, and the begin and length of each step, in us."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    steps = sorted((event["ts"], event["dur"], int(event["name"].split("#")[1])) for event in events if event["name"].startswith("ProfilerStep#"))
    begins = [begin for begin, _, _ in steps]
    lengths = [following - begin for begin, following in zip(begins, begins[1:], strict=False)] + [steps[-1][1]]
    sums = defaultdict(float)
    for event in on_device(events):
        sums[event["name"]] += event["dur"] / len(steps)
    return sums, [number for _, _, number in steps], begins, lengths


def test_two_runs_and_two_workers_side_by_side(gpu_view, session_group, gpu_run, tmp_path):
    made = {"before": gpu_trace.make(0), "after": gpu_trace.make(1, per_step=80)}
    for run, trace in made.items():
        folder = tmp_path / "plugins/profile" / run
        folder.mkdir(parents=True)
        trace["distributedInfo"].update(rank=0, world_size=1)
        (folder / "rank0.trace.json").write_text(json.dumps(trace))
    view = View(session_group, "two runs", tmp_path, "--cache", "none")
    (a, numbers, begins_a, lengths_a), (b, _, begins_b, lengths_b) = map(by_step, made.values())
    rows = gpu_view.json("/api/run")["rows"]
    stream = next(number for number, row in enumerate(rows) if row["worker"] == 0 and row["name"].startswith("Stream #7"))
    work = [hit for hit in gpu_view.json(f"/api/events?rows={stream}&limit=1000")["hits"] if hit["durationPs"] > 20 * US]
    other = next(hit for hit in work if hit["name"] != work[0]["name"])  # In the same step.
    witness = {
        "kernels": [[name, a.get(name, 0), b.get(name, 0)] for name in {*a, *b}],
        "meanStep": [sum(lengths_a) / len(lengths_a), sum(lengths_b) / len(lengths_b)],
        "steps": [[number] for number in numbers], "begins": list(zip(begins_a, begins_b, strict=True)),
        "stream": rows[stream]["name"], "events": [{key: hit[key] for key in ("name", "beginPs", "durationPs")} for hit in (work[0], other, work[-1])]}
    (tmp_path / "witness.json").write_text(json.dumps(witness))
    in_browser("compare.test.mjs", STROBE_VIEW=view.url, STROBE_RANKS=gpu_view.url, STROBE_WITNESS=str(tmp_path / "witness.json"))
