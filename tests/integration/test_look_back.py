"""Captures that reach back before their start, held against what the programs noted themselves."""

import time

import pytest

from tests.support import oracle
from tests.support.agent_rig import AgentRig

SECOND = 1_000_000_000


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


def test_a_capture_asks_how_far_to_reach_back(rig):
    """Not only by the sidecar's flag. Where nobody recorded before, the manifest says so."""
    rig.sidecar(flags=["--flight-recorder", "1s"])
    rig.noting("rank=0")
    time.sleep(4)
    manifest = rig.capture("--look-back", "3s", duration="100ms", run="long")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and int(manifest["lookBackNs"]) == int(worker["reachedBackNs"]) == 3 * SECOND, worker
    begin = int(manifest["instantNs"]) - int(manifest["guardNs"]) - 3 * SECOND
    noted = oracle.within(oracle.read_notes(rig.dir.parent / "notes.txt"), begin, int(manifest["instantNs"]))
    found = oracle.steps_of(rig.space("long"))
    assert len(noted) > 50 and not [note for note in noted if found[note.process, note.step] == 0], "every step that the program noted is there"
    (worker,) = rig.capture("--look-back", "1m", duration="100ms", run="longer")["workers"]
    assert 4 * SECOND < int(worker["reachedBackNs"]) < 60 * SECOND, "since the program began"
    rig.process.stop()
    rig.sidecar()
    (worker,) = rig.capture("--look-back", "3s", duration="100ms", run="none")["workers"]
    assert worker["outcome"] == "Ok" and worker["reachedBackNs"] == "0", worker


def test_what_a_killed_program_did_last_can_be_looked_back_at(rig):
    rig.sidecar(flags=["--flight-recorder", "1s"])
    program = rig.noting("rank=0")
    time.sleep(3)
    program.kill()
    killed = time.time_ns()
    time.sleep(2)
    manifest = rig.capture("--look-back", "20s", duration="100ms", run="crash")
    (worker,) = manifest["workers"]
    (row,) = [row for row in worker["processes"] if row["source"] == "SOURCE_AGENT"]
    assert worker["outcome"] == row["outcome"].title() == "Ok", worker
    assert "had ended before the capture, not by its own exit; its last record ended" in row["message"], row
    noted = oracle.within(oracle.read_notes(rig.dir.parent / "notes.txt"), killed - 2 * SECOND, killed)
    found = oracle.steps_of(rig.space("crash"))
    assert len(noted) > 50 and not [note for note in noted if found[note.process, note.step] == 0], "its last two seconds"
    # A capture that is not asked to reach back finds nobody, and takes nothing away.
    (worker,) = rig.capture(run="nobody")["workers"]
    assert worker["outcome"] == "NoSource", worker
    rig.noting("rank=0", notes="second.txt")
    (worker,) = rig.capture("--look-back", "20s", duration="100ms", run="again")["workers"]
    assert worker["outcome"] == "Ok" and len([row for row in worker["processes"] if row["source"] == "SOURCE_AGENT"]) == 2, worker
    assert all(oracle.steps_of(rig.space("again"))[note.process, note.step] for note in noted)
