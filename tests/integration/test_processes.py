"""A worker with several processes: each has a row with its outcome, the worst row is the worker's outcome, and what the others recorded is kept."""

import json
import subprocess
import time

import pytest

from tests.soak.storm import Clock
from tests.support.agent_rig import AgentRig
from tests.support.ports import free_port
from tests.support.processes import BIN
from tests.support.workers import Worker


def inspect(place):
    result = subprocess.run([BIN / "strobe", "inspect", place, "--output", "json"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def rows_of(worker):
    return {row["name"]: row for row in worker["processes"]}


def tagged(space, tag):
    return [plane.name for plane in space.planes if plane.name.endswith(f"[{tag}]")]


@pytest.fixture
def lost(group, tmp_path):
    """A trainer of the test's own, which the test kills between arming and the start."""
    return Worker(group, "lost").start_trainer().wait()


def capture_while(rig, trainer, **options):
    """Kills the trainer during the delay of a capture; returns the worker's entry of the manifest."""
    capture = rig.begin_capture("--delay", "3s", duration="500ms", **options)
    time.sleep(1.5)
    trainer.trainer.kill()
    out, _ = capture.communicate(timeout=60)
    return json.loads(out)["workers"][0]


def test_processes_that_all_record_are_all_told(group, trainers, tmp_path, protos):
    addresses = [f"localhost:{trainer.profiler_port}" for trainer in trainers.first(2)]
    rig = AgentRig(group, tmp_path).sidecar(",".join(addresses))
    (worker,) = rig.capture("--guard", "500ms")["workers"]
    assert worker["outcome"] == "Ok", worker
    rows = rows_of(worker)
    assert set(rows) == set(addresses)
    for address, row in rows.items():
        assert row["outcome"] == "OK" and row["source"] == "SOURCE_FRAMEWORK" and int(row["events"]) > 0
        assert int(row["startedNs"]) <= int(worker["startedNs"]) < int(worker["stoppedNs"]) <= int(row["stoppedNs"])
        assert tagged(rig.space(), address)
    (seen,) = inspect(rig.logdir)
    assert {row["name"] for row in seen["processes"]} == set(addresses)
    table = subprocess.run([BIN / "strobe", "inspect", rig.trace()], capture_output=True, text=True, check=True).stdout
    assert "PROCESS" in table and all(address in table for address in addresses), "also of the file alone"


def test_a_server_that_is_gone_at_the_start_costs_the_other_nothing(group, trainers, lost, tmp_path, protos):
    here, gone = f"localhost:{trainers[0].profiler_port}", f"localhost:{lost.profiler_port}"
    rig = AgentRig(group, tmp_path).sidecar(f"{gone},{here}")
    worker = capture_while(rig, lost)
    assert worker["outcome"] == "NoSource", worker
    assert worker["message"].startswith("1 of 2 processes were recorded as requested;") and gone in worker["message"]
    assert tagged(rig.space(), here) and not tagged(rig.space(), gone)
    rows = rows_of(worker)
    assert rows[here]["outcome"] == "OK" and rows[gone]["outcome"] == "NO_SOURCE" and int(rows[gone]["startedNs"]) == 0
    (seen,) = inspect(rig.logdir)
    assert seen["verdict"]["outcome"] == "NoSource"
    assert [row["outcome"] for row in seen["processes"]] == ["NoSource", "Ok"], "worst first"


def test_and_so_where_the_agent_records_too(group, trainers, lost, tmp_path, protos):
    """The framework's traces used to be discarded, and the capture ended as Ok with the agent's events alone."""
    here, gone = f"localhost:{trainers[0].profiler_port}", f"localhost:{lost.profiler_port}"
    rig = AgentRig(group, tmp_path)
    rig.program(1, 100)
    rig.sidecar(f"{gone},{here}")
    worker = capture_while(rig, lost)
    assert worker["outcome"] == "NoSource" and gone in worker["message"], worker
    assert tagged(rig.space(), here) and tagged(rig.space(), "agent")
    assert rows_of(worker)[here]["outcome"] == "OK"


def test_the_only_server_may_be_missing_where_the_agent_records(group, tmp_path):
    """Injection names localhost:9012 in every pod, even if no profiler server runs there."""
    rig = AgentRig(group, tmp_path)
    rig.program(1, 100)
    rig.sidecar(f"localhost:{free_port()}")
    (worker,) = rig.capture()["workers"]
    assert worker["outcome"] == "Ok", worker


def test_several_servers_are_all_waited_for(group, trainers, tmp_path):
    rig = AgentRig(group, tmp_path)
    rig.program(1, 100)
    missing = f"localhost:{free_port()}"
    rig.sidecar(f"localhost:{trainers[0].profiler_port},{missing}")
    (worker,) = rig.capture()["workers"]
    assert worker["outcome"] == "NoSource" and missing in worker["message"], worker


# Seconds from the capture's request until the wall clock is set, and by how many seconds. The start is at 3 s, the stop 1.6 s later.
STEPS = {"before the start, forward": (1.5, 3600), "before the start, back": (1.5, -3600), "while it records, forward": (3.8, 3600), "while it records, back": (3.8, -3600)}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.replace(" ", "-").replace(",", ""))
def test_a_wall_clock_that_is_set_moves_no_start(group, trainers, tmp_path, protos, step):
    """The other worker's clock is not changed. The reported start is the real one."""
    after, by = STEPS[step]
    clock = Clock(tmp_path / "clock")
    shifted = Worker(group, "shifted", trainer_env=clock.env, sidecar_env=clock.env).start_trainer().start_sidecar().wait()
    steady = Worker(group, "steady")
    steady.profiler_port = trainers[0].profiler_port
    steady.start_sidecar().wait()
    logdir = tmp_path / "logdir"
    capture = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"{shifted.address},{steady.address}", "--logdir", logdir, "--delay", "3s",
                                "--guard", "500ms", "--duration", "600ms", "--run", "r", "--quiet", "--attempts", "1", "--output", "json"], stdout=subprocess.PIPE, text=True)
    time.sleep(after)
    clock.step(by)
    out, _ = capture.communicate(timeout=60)
    manifest = json.loads(out)
    told, other = ([w for w in manifest["workers"] if w["name"].endswith(str(worker.port))][0] for worker in (shifted, steady))
    assert other["outcome"] == "Ok", manifest
    assert any("wall clock was set" in note for note in told["notes"]), told
    assert abs(int(told["latenessNs"])) < 1e9 and int(manifest["skewNs"]) < 1e9, manifest
    meanwhile = after > 3
    assert told["outcome"] == ("LateStart" if meanwhile else "Ok"), told
    assert not meanwhile or "wall clock was set" in told["message"]
    seen = {worker["worker"]: worker for worker in inspect(logdir)}
    assert seen[told["name"]]["verdict"]["outcome"] == told["outcome"], seen[told["name"]]["verdict"]
    assert abs(seen[told["name"]]["shiftNs"] - seen[other["name"]]["shiftNs"]) < 1e9, "the files by themselves line up"
