"""Annotated programs, recorded through the agent without a profiler server or a framework."""

import json
import shutil
import subprocess
import time

import pytest

from tests.support.agent_rig import AgentRig, events
from tests.support.processes import BIN, wait_until


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


def test_annotations_become_a_trace(rig):
    rig.program(2, 200)
    manifest = rig.sidecar().capture("--host-tracer-level", "2")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    found = events(rig.space())
    names = {name for _, name, *_ in found}
    assert names == {"train", "load", "compute", "masked", "send", "take"}, "verbose scopes were not asked for"
    # Each hand-over is one arrow from producer to consumer.
    sent = [e[4] for e in found if e[1] == "send"]
    taken = [e[4] for e in found if e[1] == "take"]
    assert all(a["_pt"] == 15 for a in sent) and all(a["_ct"] == 15 for a in taken)
    assert len({a["_p"] for a in sent}) == len(sent) and abs(len(sent) - len(taken)) <= 1
    assert len({a["_p"] for a in sent} & {a["_c"] for a in taken}) >= len(sent) - 1
    trains = sorted((e for e in found if e[1] == "train"), key=lambda e: e[2])
    steps = [e[4]["step_num"] for e in trains]
    assert len(steps) > 20 and steps == list(range(steps[0], steps[0] + len(steps))), "each step once"
    assert all(e[4]["_r"] == 1 for e in trains)
    loads = [e for e in found if e[1] == "load"]
    assert loads[0][4] == {"batch": loads[0][4]["batch"], "file": "shard.bin", "hit": 1, "rows": 128}
    assert {line.split("/")[0] for line, *_ in found} == {"trainer-0", "trainer-1"}
    window = (int(manifest["durationNs"]) + 2 * int(manifest["guardNs"])) * 1000
    assert all(0 <= begin <= end <= window for _, _, begin, end, _ in found)
    # Nesting is preserved: each load lies within its step.
    for load in loads:
        assert any(t[2] <= load[2] and load[3] <= t[3] and t[4]["step_num"] == load[4]["batch"] for t in trains)


def test_xprof_opens_it(rig):
    rig.program(1, 100)
    rig.sidecar().capture(duration="500ms")
    from xprof.convert import raw_to_tool_data

    path = str(rig.trace())
    trace, _ = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer@", {})
    trace = json.loads(trace)["traceEvents"]
    names = [event["name"] for event in trace if event.get("ph") == "X"]
    assert names.count("load") > 20
    assert any(name.startswith("train") for name in names)
    overview, _ = raw_to_tool_data.xspace_to_tool_data([path], "overview_page", {})
    assert b"cols" in overview


@pytest.mark.parametrize("flags,recorded", [((), True), (("--host-filter", "17"), True), (("--host-filter", "1"), False)])
def test_a_filter_chooses_among_masked_annotations(rig, flags, recorded):
    rig.program(1, 200)
    rig.sidecar().capture(*flags)
    names = {name for _, name, *_ in events(rig.space())}
    assert ("masked" in names) == recorded and "train" in names, "what carries no mask is always recorded"


def test_the_flight_recorder_reaches_back(rig):
    rig.sidecar(flags=["--flight-recorder", "2s"])
    program = rig.program(1, 100)
    time.sleep(3)
    manifest = rig.capture(duration="100ms")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    space = rig.space()
    assert not space.warnings, space.warnings
    trains = sorted(e[2] for e in events(space) if e[1] == "train")
    window = (int(manifest["durationNs"]) + 2 * int(manifest["guardNs"])) * 1000
    assert 1.8e12 < trains[-1] - trains[0] - window < 2.3e12, "two seconds before the recording"
    steps = sorted(e[4]["step_num"] for e in events(space) if e[1] == "train")
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    rig.process.popen.terminate()
    rig.process.popen.wait(30)
    assert rig.header()["control"] == 0, "programs stop when the sidecar does"
    assert program.popen.poll() is None


def test_a_ring_that_is_too_small_to_reach_back_is_said(rig):
    rig.sidecar(flags=["--flight-recorder", "5s"])
    rig.program(1, 5000, env={"STROBE_RING_KB": "16"})
    time.sleep(2.5)
    (worker,) = rig.capture(duration="100ms")["workers"]
    assert worker["outcome"] in ("Ok", "EventsDropped"), worker
    (warning,) = [w for w in rig.space().warnings if "its rings held only" in w]
    assert "5s were requested" in warning and "STROBE_RING_KB" in warning


def test_nothing_is_recorded_while_nobody_captures(rig):
    program = rig.program(4, 0, 1_000_000)
    program.popen.wait(30)
    assert rig.rings.stat().st_blocks * 512 < 64 << 10, "no ring was begun"


def test_every_scope_is_recorded_or_counted(rig):
    """Eight threads make ten million scopes each, far faster than the sidecar can read them."""
    threads, scopes = 8, 10_000_000
    rig.program(1, 20)  # A program must exist when the capture is planned.
    rig.sidecar()
    capture = rig.begin_capture("--host-tracer-level", "1", duration="12s")
    time.sleep(1)
    program = rig.program(threads, 0, scopes, "exact").wait_for("made", 60)
    assert f"made {threads * scopes}" in program.output()
    (worker,) = json.loads(capture.communicate(timeout=60)[0])["workers"]
    assert worker["outcome"] == "EventsDropped", worker
    # The first program shares the sidecar's memory with this one, and may lose events at its end.
    row = max((row for row in worker["processes"] if row["outcome"] == "EVENTS_DROPPED"), key=lambda row: int(row["dropped"]))
    missing, made = int(row["dropped"]), int(row["dropped"]) + int(row["events"])
    (trace,) = json.loads(subprocess.run([BIN / "strobe", "inspect", rig.trace(), "--plane", "/host:CPU", "--output", "json"], check=True,
                                         capture_output=True, text=True).stdout)
    (host,) = trace["planes"]
    found = next(kind["count"] for kind in host["kinds"] if kind["name"] == "compute")
    assert made == threads * scopes, "none is missing that was not counted, none counted twice"
    others = sum(int(other["events"]) for other in worker["processes"] if other is not row)
    assert 0 <= found + missing - threads * scopes <= others, "the first program's are there too"
    assert host["lines"] == threads + 1


def test_a_killed_program_leaves_what_it_recorded(rig):
    program = rig.program(1, 1000)
    rig.sidecar()
    capture = rig.begin_capture(duration="3s")
    wait_until(lambda: rig.rings.stat().st_blocks * 512 > 64 << 10, 10, "recording")
    time.sleep(1)
    program.kill()
    killed_ns = time.time_ns()
    (worker,) = json.loads(capture.communicate(timeout=30)[0])["workers"]
    assert worker["outcome"] == "WorkerLost" and "without exiting normally" in worker["message"], worker
    found = events(rig.space())
    last = max(end for _, _, _, end, _ in found) // 1000 + int(worker["startedNs"])
    # The program makes 1000 scopes a second. The tolerance of 1 s allows for a busy machine that delays the program.
    assert 0 <= killed_ns - last < 1_000_000_000, (killed_ns - last) / 1e6
    assert len(found) > 100


def test_nobody_removes_files_of_others_from_a_directory_of_the_agent(rig):
    rig.program(1, 100)
    assert rig.rings.parent.stat().st_mode & 0o7777 == 0o1777


def test_a_program_whose_files_are_limited_has_smaller_rings(rig):
    """Files larger than the limit raise SIGXFSZ, which ended programs that load the agent."""
    program = rig.program(1, 100, wrap=["bash", "-c", 'ulimit -f 100000; exec "$@"', "limited"])
    assert rig.rings.stat().st_size < 100_000 << 10
    with open(rig.rings, "rb") as file:
        assert int.from_bytes(file.read(24)[20:], "little") == 64, "max_rings of agent/wire/layout.h"
    assert program.running()


@pytest.mark.parametrize("variable, folder", [("CUDA_INJECTION64_PATH", "elsewhere"), ("STROBE_DIR", "strobe/lib")])
def test_a_program_shares_the_agent_that_cuda_loads(rig, tmp_path, variable, folder):
    """CUPTI refuses the second of two agents in a process. CUDA's driver loads that of the pod in $STROBE_DIR/lib, or one that the user chose."""
    (tmp_path / folder).mkdir()
    agent = shutil.copy(BIN / "libstrobe_agent.so", tmp_path / folder)
    program = rig.program(1, 100, env={"CUDA_INJECTION64_PATH": agent} if variable == "CUDA_INJECTION64_PATH" else None)
    with open(f"/proc/{program.pid}/maps") as maps:
        assert {line.split()[-1] for line in maps if "libstrobe_agent" in line} == {str(agent)}


def test_the_sidecar_may_be_restarted(rig):
    rig.program(1, 200)
    rig.sidecar().capture(run="one")
    rig.process.kill()
    manifest = rig.sidecar().capture(run="two")
    assert manifest["workers"][0]["outcome"] == "Ok"
    assert len(events(rig.space("two"))) > 50


def test_with_a_framework_both_are_in_one_trace(rig, trainers):
    rig.program(1, 200)
    manifest = rig.sidecar(framework=f"localhost:{trainers[0].profiler_port}").capture()
    assert manifest["workers"][0]["outcome"] == "Ok", manifest
    planes = [p.name for p in rig.space().planes]
    assert "/host:CPU" in planes and "/host:CPU [agent]" in planes
    assert {name for _, name, *_ in events(rig.space(), "/host:CPU [agent]")} >= {"train", "load"}


def test_without_a_program_it_says_so(rig):
    worker = rig.sidecar().capture()["workers"][0]
    assert worker["outcome"] == "NoSource", worker


def test_several_programs_are_told_apart(rig):
    rig.program(1, 200)
    rig.program(1, 200)
    rig.sidecar().capture()
    lines = {line for line, *_ in events(rig.space())}
    assert len(lines) == 2 and all(line.startswith("annotated_progr") for line in lines)
