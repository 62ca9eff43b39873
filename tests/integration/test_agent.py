"""Programs that annotate themselves, recorded through the agent: no profiler server, no framework."""

import json
import subprocess
import time

import pytest

from tests.support.processes import BIN, free_port, wait_until


@pytest.fixture
def rig(group, tmp_path):
    """A program with the agent, and a sidecar beside it that sees the same directory."""

    class Rig:
        def __init__(self):
            self.dir = tmp_path / "strobe"
            self.dir.mkdir()
            self.port = free_port()
            self.logdir = tmp_path / "logdir"
            self.programs = []

        def program(self, *arguments, env=None):
            self.programs.append(group.start(f"program-{len(self.programs)}", [BIN / "annotated_program", *arguments], env={
                "STROBE_DIR": str(self.dir), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), **(env or {})}).wait_for("ready", 10))
            return self.programs[-1]

        def sidecar(self, framework="localhost:1", flags=()):
            self.process = group.start(f"sidecar-{time.monotonic_ns()}", [
                BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{self.port}", "--framework", framework, "--agent-dir", self.dir / "agent",
                "--worker-name", "w0", "--insecure-plaintext", *flags]).wait_for("serves", 10)
            return self

        def capture(self, *flags, run="r", duration="300ms"):
            result = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{self.port}", "--logdir", self.logdir,
                                     "--duration", duration, "--run", run, "--quiet", "--output", "json", "--attempts", "1", *flags],
                                    capture_output=True, text=True, timeout=60)
            return json.loads(result.stdout)

        def begin_capture(self, *flags, duration):
            return subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{self.port}", "--logdir", self.logdir,
                                     "--duration", duration, "--run", "r", "--quiet", "--output", "json", "--attempts", "1", *flags],
                                    stdout=subprocess.PIPE, text=True)

        def space(self, protos, run="r"):
            from tensorflow import xplane_pb2

            (path,) = (self.logdir / "plugins/profile" / run).glob("*.xplane.pb")
            return xplane_pb2.XSpace.FromString(path.read_bytes())

    return Rig()


def events(space, plane="/host:CPU"):
    """(line, name, begin ps, end ps, args) of every event of a plane."""
    (found,) = [p for p in space.planes if p.name == plane]
    out = []
    for line in found.lines:
        for event in line.events:
            args = {}
            for stat in event.stats:
                kind = stat.WhichOneof("value")
                value = getattr(stat, kind)
                args[found.stat_metadata[stat.metadata_id].name] = found.stat_metadata[value].name if kind == "ref_value" else value
            out.append((line.name, found.event_metadata[event.metadata_id].name, event.offset_ps, event.offset_ps + event.duration_ps, args))
    return out


def test_annotations_become_a_trace(rig, protos):
    rig.program(2, 200)
    manifest = rig.sidecar().capture("--host-tracer-level", "2")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    found = events(rig.space(protos))
    names = {name for _, name, *_ in found}
    assert names == {"train", "load", "compute", "masked", "send", "take"}, "verbose scopes were not asked for"
    # Each hand-over is one arrow.
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
    # Scopes nest as they did: each load within its step.
    for load in loads:
        assert any(t[2] <= load[2] and load[3] <= t[3] and t[4]["step_num"] == load[4]["batch"] for t in trains)


def test_xprof_opens_it(rig, protos):
    rig.program(1, 100)
    rig.sidecar().capture(duration="500ms")
    from xprof.convert import raw_to_tool_data

    (path,) = map(str, (rig.logdir / "plugins/profile/r").glob("*.xplane.pb"))
    trace, _ = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer@", {})
    trace = json.loads(trace)["traceEvents"]
    names = [event["name"] for event in trace if event.get("ph") == "X"]
    assert names.count("load") > 20
    assert any(name.startswith("train") for name in names)
    overview, _ = raw_to_tool_data.xspace_to_tool_data([path], "overview_page", {})
    assert b"cols" in overview


@pytest.mark.parametrize("mask,recorded", [(0, True), (1 << 4 | 1, True), (1, False)])
def test_a_filter_chooses_among_masked_annotations(rig, protos, mask, recorded):
    rig.program(1, 200)
    rig.sidecar().capture("--host-filter", str(mask))
    names = {name for _, name, *_ in events(rig.space(protos))}
    assert ("masked" in names) == recorded and "train" in names, "what carries no mask is always recorded"


def test_the_flight_recorder_reaches_back(rig, protos):
    rig.sidecar(flags=["--flight-recorder", "2s"])
    program = rig.program(1, 100)
    time.sleep(3)
    manifest = rig.capture(duration="100ms")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    space = rig.space(protos)
    assert not space.warnings, space.warnings
    trains = sorted(e[2] for e in events(space) if e[1] == "train")
    assert 1.8e12 < trains[-1] - trains[0] < 2.4e12, "two seconds before, a tenth of one after"
    steps = sorted(e[4]["step_num"] for e in events(space) if e[1] == "train")
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    rig.process.popen.terminate()
    rig.process.popen.wait(30)
    (rings,) = (rig.dir / "agent").glob("*.rings")
    with open(rings, "rb") as file:
        assert int.from_bytes(file.read(132)[128:132], "little") == 0, "programs stop when the sidecar does"
    assert program.popen.poll() is None


def test_a_ring_that_is_too_small_to_reach_back_is_said(rig, protos):
    rig.sidecar(flags=["--flight-recorder", "5s"])
    rig.program(1, 5000, env={"STROBE_RING_KB": "16"})
    time.sleep(2.5)
    (worker,) = rig.capture(duration="100ms")["workers"]
    assert worker["outcome"] in ("Ok", "EventsDropped"), worker
    (warning,) = [w for w in rig.space(protos).warnings if "its rings held only" in w]
    assert "of the 5s wanted" in warning and "STROBE_RING_KB" in warning


def test_nothing_is_recorded_while_nobody_captures(rig):
    program = rig.program(4, 0, 1_000_000)
    program.popen.wait(30)
    (rings,) = (rig.dir / "agent").glob("*.rings")
    assert rings.stat().st_blocks * 512 < 64 << 10, "no ring was begun"


def test_every_scope_is_recorded_or_counted(rig, protos):
    """Eight threads make ten million scopes in all, as fast as they can, and far faster than anybody reads."""
    threads, scopes = 8, 1_250_000
    rig.program(1, 20)  # So that there is something to record when the capture is planned.
    rig.sidecar()
    capture = rig.begin_capture("--host-tracer-level", "1", duration="5s")
    time.sleep(1)
    program = rig.program(threads, 0, scopes, "exact").wait_for("made", 30)
    assert f"made {threads * scopes}" in program.output()
    (worker,) = json.loads(capture.communicate(timeout=60)[0])["workers"]
    assert worker["outcome"] == "EventsDropped", worker
    missing, made = [int(word) for word in worker["message"].split() if word.isdigit()][:2]
    found = [e for e in events(rig.space(protos)) if e[1] == "compute"]
    others = made - threads * scopes  # Of the first program.
    assert 0 < others < 1000, "none is missing that was not counted, none counted twice"
    assert len(found) + missing == threads * scopes
    assert len({line for line, *_ in found}) == threads


def test_a_killed_program_leaves_what_it_recorded(rig, protos):
    program = rig.program(1, 1000)
    rig.sidecar()
    capture = rig.begin_capture(duration="3s")
    (rings,) = (rig.dir / "agent").glob("*.rings")
    wait_until(lambda: rings.stat().st_blocks * 512 > 64 << 10, 10, "recording")
    time.sleep(1)
    program.kill()
    killed_ns = time.time_ns()
    (worker,) = json.loads(capture.communicate(timeout=30)[0])["workers"]
    assert worker["outcome"] == "WorkerLost" and "ended while it was recorded" in worker["message"], worker
    found = events(rig.space(protos))
    last = max(end for _, _, _, end, _ in found) // 1000 + int(worker["startedNs"])
    # A thousand scopes a second: the last one before the kill is there, unless the program itself was kept waiting.
    assert 0 <= killed_ns - last < 1_000_000_000, (killed_ns - last) / 1e6
    assert len(found) > 100


def test_the_sidecar_may_be_restarted(rig, protos):
    rig.program(1, 200)
    rig.sidecar().capture(run="one")
    rig.process.kill()
    manifest = rig.sidecar().capture(run="two")
    assert manifest["workers"][0]["outcome"] == "Ok"
    assert len(events(rig.space(protos, "two"))) > 50


def test_with_a_framework_both_are_in_one_trace(rig, protos, trainers):
    rig.program(1, 200)
    manifest = rig.sidecar(framework=f"localhost:{trainers[0].profiler_port}").capture()
    assert manifest["workers"][0]["outcome"] == "Ok", manifest
    planes = [p.name for p in rig.space(protos).planes]
    assert "/host:CPU" in planes and "/host:CPU [agent]" in planes
    assert {name for _, name, *_ in events(rig.space(protos), "/host:CPU [agent]")} >= {"train", "load"}


def test_without_a_program_it_says_so(rig):
    worker = rig.sidecar().capture()["workers"][0]
    assert worker["outcome"] == "NoSource", worker


def test_several_programs_are_told_apart(rig, protos):
    rig.program(1, 200)
    rig.program(1, 200)
    rig.sidecar().capture()
    lines = {line for line, *_ in events(rig.space(protos))}
    assert len(lines) == 2 and all(line.startswith("annotated_progr") for line in lines)
