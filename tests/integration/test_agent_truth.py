"""A capture through the agent reports what each program really did. The programs' own notes are the reference."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.support import oracle
from tests.support.agent_rig import AgentRig
from tests.support.mounts import small_file_system
from tests.support.processes import BIN, wait_until


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


@pytest.fixture
def notes(tmp_path):
    return lambda name="notes.txt": oracle.read_notes(tmp_path / name)


def rows(worker):
    """Outcome and message by process."""
    return {row["name"]: (row["outcome"], row["message"]) for row in worker["processes"]}


def finish(capture, timeout=60):
    out, _ = capture.communicate(timeout=timeout)
    manifest = json.loads(out)
    (worker,) = manifest["workers"]
    return manifest, worker


def recording(rig):
    """Waits until the rig's programs are switched on."""
    wait_until(lambda: any(rig.header(path)["control"] for path in (rig.dir / "agent").glob("*.rings")), 20, "recording")


def test_every_noted_step_of_the_window_is_in_the_trace(rig, notes):
    rig.noting()
    manifest = rig.sidecar().capture(duration="1s")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert wanted > 50 and not lost, (wanted, lost)
    assert all(count == 1 for count in oracle.steps_of(rig.space()).values()), "and each of them once"


def stopped_sidecar(rig, duration, freeze_at, freeze_for, *flags, then=lambda: None):
    """A capture whose sidecar is stopped `freeze_at` seconds after it was armed, for `freeze_for` seconds. `then` is called before it goes on."""
    rig.guard = []
    rig.sidecar(flags=["--log-level", "debug"])
    capture = rig.begin_capture("--delay", "1s", *flags, duration=duration)
    wait_until(lambda: "armed" in rig.process.output(), 20, "armed")
    time.sleep(freeze_at)
    rig.process.signal(signal.SIGSTOP)
    time.sleep(freeze_for)
    then()
    rig.process.signal(signal.SIGCONT)
    return capture


def test_a_sidecar_stopped_over_the_start_does_not_claim_the_window(rig, notes):
    rig.noting()
    manifest, worker = finish(stopped_sidecar(rig, "2s", 0.5, 1.7))
    assert worker["outcome"] == "LateStart" and not worker["coversWindow"], worker
    assert "after the instant" in worker["message"]
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert wanted > 100 and lost, "the trace is what the outcome says"
    late = int(worker["startedNs"]) - oracle.window_of(manifest, worker)[0]
    assert 0.2e9 < late < 2.2e9 and int(worker["latenessNs"]) >= late, worker
    # From the reported start on, nothing is missing.
    found = oracle.steps_of(rig.space())
    end = oracle.window_of(manifest, worker)[1]
    assert all(found[note.process, note.step] for note in oracle.within(notes(), int(worker["startedNs"]), end))


def test_a_program_that_died_while_its_sidecar_was_stopped_is_not_ok(rig, notes):
    """It stepped through the window, unrecorded, and was killed before the sidecar looked again."""
    program = rig.noting()
    manifest, worker = finish(stopped_sidecar(rig, "300ms", 0.5, 2, then=lambda: program.kill()))
    wanted = len(oracle.within(notes(), *oracle.window_of(manifest, worker)))
    assert wanted > 20 and worker["outcome"] == "LateStart" and not worker["coversWindow"], (wanted, worker)


def test_a_late_recording_is_discarded_when_that_was_asked(rig):
    rig.noting()
    _, worker = finish(stopped_sidecar(rig, "2s", 0.5, 1.7, "--on-late-start", "Discard"))
    assert worker["outcome"] == "LateStart" and "discarded as requested" in worker["message"], worker
    assert not list(rig.logdir.rglob("*.xplane.pb"))


def test_lateness_is_learned_from(rig):
    """The next capture gets a longer guard, because this one was late."""
    rig.noting()
    manifest, _ = finish(stopped_sidecar(rig, "2s", 0.5, 1.7))
    assert int(rig.capture(run="next")["guardNs"]) > int(manifest["guardNs"]), manifest


def test_a_sidecar_stopped_over_the_end_loses_nothing_in_silence(rig, notes):
    rig.noting()
    manifest, worker = finish(stopped_sidecar(rig, "1s", 1.4, 2))
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert wanted > 50
    assert worker["outcome"] == "Ok" and not lost, (worker, lost)


def test_a_wall_clock_set_in_mid_window_changes_nothing(rig, notes, tmp_path):
    """The sidecar's wall clock jumps; the program's does not, and the window stays where it was."""
    shift = tmp_path / "shift"
    shift.write_bytes(bytes(8))
    rig.noting()
    rig.sidecar(env={"LD_PRELOAD": str(BIN / "clock_shift.so"), "CLOCK_SHIFT_FILE": str(shift)})
    capture = rig.begin_capture(duration="2s")
    recording(rig)
    time.sleep(0.5)
    with open(shift, "r+b") as file:
        file.write((3_600_000_000_000).to_bytes(8, "little"))
    manifest, worker = finish(capture)
    assert worker["outcome"] == "Ok", worker
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert wanted > 100 and not lost, (wanted, len(lost))


def test_a_second_sidecar_is_refused_and_silences_nobody(rig, notes):
    rig.noting()
    rig.sidecar()
    capture = rig.begin_capture(duration="2s")
    recording(rig)
    second = subprocess.run([BIN / "strobe-sidecar", "--listen", "127.0.0.1:0", "--framework", "localhost:1", "--agent-dir", rig.dir / "agent",
                             "--insecure-plaintext"], capture_output=True, text=True, timeout=30)
    assert second.returncode == 1 and "another sidecar serves the programs" in second.stderr, second.stderr
    manifest, worker = finish(capture)
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert worker["outcome"] == "Ok" and wanted > 100 and not lost, (worker, len(lost))


def test_two_sidecars_never_record_one_program_at_once(rig, notes, group):
    """One sidecar serves the whole directory; the other serves one program, as strobe.server.start does."""
    rig.noting()
    rig.sidecar()
    guest = AgentRig.__new__(AgentRig)
    guest.__dict__.update(rig.__dict__, port=rig.port + 1, logdir=rig.logdir.parent / "guest")
    # The guest serves its parent and the parent's descendants: this process and the program.
    guest.process = group.start("guest", [
        BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{guest.port}", "--framework", "localhost:1", "--agent-dir", rig.dir / "agent",
        "--agent-only-parent", "--worker-name", "guest", "--insecure-plaintext"]).wait_for("serves", 10)
    assert guest.capture(run="alone")["workers"][0]["outcome"] == "Ok"
    for first, second in ((rig, guest), (guest, rig)):
        capture = first.begin_capture(duration="3s")
        recording(rig)
        (other,) = second.capture(duration="100ms", run=f"other-{second.port}")["workers"]
        assert other["outcome"] == "Busy" and "another sidecar records this process: capture" in other["message"], other
        manifest, worker = finish(capture)
        lost, wanted = oracle.missing(notes(), manifest, worker, first.space())
        assert worker["outcome"] == "Ok" and wanted > 100 and not lost, (worker, len(lost))


def test_forked_children_that_come_and_go_are_no_loss(rig, notes):
    rig.noting("fork=60")
    manifest = rig.sidecar().capture(duration="2s")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok", worker
    assert len(worker["processes"]) > 5, "children that recorded something have rows of their own"
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    children = {note.process for note in oracle.within(notes(), *oracle.window_of(manifest, worker)) if note.process != "main"}
    assert wanted > 100 and len(children) > 5 and not lost, (wanted, len(children), lost[:5])


def test_children_that_record_nothing_leave_nothing_behind(rig):
    rig.noting("fork=20")
    time.sleep(2)
    assert len(list((rig.dir / "agent").glob("*.rings*"))) == 1


def test_a_killed_program_is_lost_whatever_its_children_do(rig):
    program = rig.noting("fork=100")
    rig.sidecar()
    capture = rig.begin_capture(duration="2s")
    recording(rig)
    time.sleep(0.8)
    program.kill()
    _, worker = finish(capture)
    assert worker["outcome"] == "WorkerLost", worker
    assert f"noting_program {program.pid}" in worker["message"]


def test_a_daemon_is_recorded_under_its_own_name(rig, notes):
    program = rig.noting("daemon")
    wait_until(lambda: not program.running(), 10, "the parent's end")
    pid = int(program.output().split()[1])
    try:
        wait_until(notes, 10, "steps")
        manifest = rig.sidecar().capture(duration="500ms")
    finally:
        os.kill(pid, signal.SIGTERM)
    (worker,) = manifest["workers"]
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert worker["outcome"] == "Ok" and wanted > 20 and not lost, (worker, lost)
    assert [row["name"] for row in worker["processes"]] == [f"noting_program {pid}"]


def test_a_program_that_closes_all_descriptors_is_recorded(rig, notes):
    rig.noting("close")
    manifest = rig.sidecar().capture(duration="1s")
    (worker,) = manifest["workers"]
    lost, wanted = oracle.missing(notes(), manifest, worker, rig.space())
    assert worker["outcome"] == "Ok" and wanted > 50 and not lost, (worker, lost)


def test_an_exec_is_no_death(rig, notes):
    rig.noting(per_second=100)  # Runs through the whole capture.
    rig.sidecar()
    capture = rig.begin_capture(duration="3s")
    recording(rig)
    rig.noting("exec", "rank=second", per_second=100, notes="second.txt")
    manifest, worker = finish(capture)
    assert worker["outcome"] == "Ok", worker
    assert any("exec" in message for _, message in rows(worker).values()), rows(worker)
    lost, wanted = oracle.missing(notes("second.txt"), manifest, worker, rig.space())
    assert wanted > 50 and {note.process for note in notes("second.txt")} == {"second", "second-again"}
    assert not lost, "both are recorded from their first step on"


def test_a_process_without_a_ring_file_is_told(rig, notes):
    rig.noting()
    rig.sidecar()
    # The address space is too small for the ring file.
    limited = rig.group.start("limited", ["prlimit", f"--as={80 << 20}", BIN / "noting_program", rig.dir.parent / "limited.txt", 100], env={
        "STROBE_DIR": str(rig.dir), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), "STROBE_RING_KB": "65536"}).wait_for("ready", 20)
    wait_until(lambda: notes("limited.txt"), 10, "steps")
    (worker,) = rig.capture()["workers"]
    if worker["outcome"] != "Ok":
        assert worker["outcome"] == "ProfilerStartFailed" and "1 of 2 processes" in worker["message"], worker
        assert f"noting_program {limited.pid}" in worker["message"] and "no address space" in worker["message"]
    else:
        assert len(worker["processes"]) == 2, "it found room for a smaller file"
    limited.kill()
    assert rig.capture(run="again")["workers"][0]["outcome"] == "Ok", "who is gone is no loss"


@pytest.fixture
def small_volume(tmp_path):
    """A file system of one megabyte, as a pod's memory volume may be."""
    place = tmp_path / "volume"
    place.mkdir()
    with small_file_system(place, "1m") as mounted:
        if not mounted:
            pytest.skip("needs to mount a file system")
        yield place


def test_a_full_directory_hides_nobody(group, small_volume, protos, tmp_path):
    """A worker is not Ok if one of its processes could not be recorded, and a full volume ends no process with SIGBUS."""
    rig = AgentRig(group, small_volume)
    rig.logdir = tmp_path / "logdir"
    rig.sidecar()
    first = rig.noting(notes="../first.txt")
    (small_volume / "filler").write_bytes(bytes((1 << 20) - (200 << 10)))
    try:
        (small_volume / "more").write_bytes(bytes(1 << 20))
    except OSError:
        pass
    rig.capture(run="before")  # A capture clears the records of failed programs; their space must stay reserved on a full volume.
    second = rig.noting(notes="../second.txt")
    manifest = rig.capture()
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "ProfilerStartFailed", worker
    assert f"noting_program {second.pid}" in worker["message"] and "No space left" in worker["message"], worker
    assert "of 2 processes were recorded as requested" in worker["message"]
    assert first.running() and second.running() and rig.process.running(), "nobody was ended by SIGBUS"
    second.kill()
    (small_volume / "more").unlink()
    (small_volume / "filler").unlink()
    time.sleep(0.2)  # A thread without a ring tries again ten times a second.
    manifest = rig.capture(run="again")
    assert manifest["workers"][0]["outcome"] == "Ok", manifest


def test_a_program_of_another_version_is_told(rig):
    rig.noting()
    with open(rig.rings, "r+b") as file:
        file.seek(8)
        file.write((3).to_bytes(4, "little"))
    rig.noting(notes="second.txt")
    (worker,) = rig.sidecar().capture()["workers"]
    assert worker["outcome"] == "VersionMismatch" and "version 3" in worker["message"], worker
    assert len(worker["processes"]) == 2


def test_a_child_that_found_no_room_and_ended_is_told(group, small_volume, protos, tmp_path):
    rig = AgentRig(group, small_volume)
    rig.logdir = tmp_path / "logdir"
    rig.sidecar()
    rig.noting("fork=100", notes="../notes.txt")
    capture = rig.begin_capture(duration="2s")
    recording(rig)
    end = time.monotonic() + 1.5
    with open(small_volume / "filler", "ab", buffering=0) as filler:
        while time.monotonic() < end:  # Also fills the space that files of ended children free.
            try:
                filler.write(bytes(1 << 12))
            except OSError:
                time.sleep(0.005)
    _, worker = finish(capture)
    assert worker["outcome"] == "ProfilerStartFailed" and "No space left" in worker["message"], worker


# A trainer that damages its own ring file must not end its sidecar.

@pytest.mark.parametrize("field", ["claimed", "head", "both"])
def test_a_forged_ring_ends_neither_sidecar_nor_capture(rig, notes, field):
    rig.noting()
    rig.sidecar()
    capture = rig.begin_capture(duration="1s")
    recording(rig)
    time.sleep(0.3)
    with open(rig.rings, "r+b", buffering=0) as file:
        end = time.monotonic() + 0.4
        while time.monotonic() < end:  # The program's next record overwrites the forged numbers.
            for at, name in ((4096, "claimed"), (4104, "head")):
                if field in (name, "both"):
                    os.pwrite(file.fileno(), (2**64 - 8).to_bytes(8, "little"), at)
    manifest, worker = finish(capture)
    assert rig.process.running()
    if worker["outcome"] == "Ok":  # The sidecar did not read the ring while a forged number was in it.
        assert not oracle.missing(notes(), manifest, worker, rig.space())[0]
    else:
        assert worker["outcome"] == "ProfilerStartFailed" and "ring file is damaged" in worker["message"], worker


def test_a_program_that_truncates_its_file_ends_nobody(rig, notes):
    victim = rig.noting()
    rig.noting(notes="second.txt")
    rig.sidecar()
    capture = rig.begin_capture(duration="1s")
    victims = next(path for path in (rig.dir / "agent").glob(f"{victim.pid}-*.rings"))
    wait_until(lambda: rig.header(victims)["control"] > 0, 20, "recording")
    os.truncate(victims, 4096)
    manifest, worker = finish(capture)
    assert rig.process.running()
    assert worker["outcome"] in ("ProfilerStartFailed", "WorkerLost"), worker
    lost, wanted = oracle.missing(notes("second.txt"), manifest, worker, rig.space())
    assert wanted > 50 and not lost, "the other program has its part"
