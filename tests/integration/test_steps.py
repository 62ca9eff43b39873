"""Captures that begin at a training step: the same steps on all workers, by the programs' own notes."""

import json
import re
import subprocess
import time
from collections import Counter

import pytest

from tests.support.inproc import TORCH_PYTHON, told_steps
from tests.support.operator import condition, profile_request
from tests.support.oracle import read_notes
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.step_rig import TRY_AGAIN, Job, host_events, recorded_steps

PACES = (80, 100, 120, 150, 180, 220, 260, 300)  # Steps per second of eight ranks.


@pytest.fixture
def job(group, tmp_path, protos):
    return Job(group, tmp_path)


def check_same_steps(job, manifest, count, run="r"):
    """Each worker has exactly the steps that the manifest names, where and as long as the program noted them."""
    assert manifest["result"] == "Succeeded" and manifest["synchronized"] and "steps" in manifest, (manifest["message"], manifest["stderr"])
    steps = manifest["steps"]
    first, last = int(steps["first"]), int(steps["last"])
    assert last - first + 1 == count and steps["loop"] == "main"
    begins = []
    for rank, worker in zip(job.ranks, manifest["workers"]):
        assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
        assert (int(worker["steps"]["first"]), int(worker["steps"]["last"])) == (first, last)
        noted = {note.step: note for note in read_notes(rank.notes)}
        found = recorded_steps(job.trace(rank, run), "main")
        for number in range(first, last + 1):
            begin, end = found[number]
            note = noted[number]
            assert note.wall_begin - 50_000 <= begin and end <= note.wall_end + 50_000, (number, note, begin, end)
        # Not the note: between it and the annotation, a busy machine may take the processor from the program.
        begins.append(found[first][0])
    # How far apart the ranks began the first step is the job's own, and is told as that.
    assert abs(int(steps["spreadNs"]) - (max(begins) - min(begins))) <= 1_000_000 + max(0, int(steps["spreadErrorNs"]))
    assert manifest["skewKnown"] is False and int(manifest["skewNs"]) == 0
    return first


def test_eight_ranks_of_different_pace_record_the_same_steps(job):
    job.ranks_with_barriers(PACES, 10, "jitter=30")
    job.wait_for_step(5)
    firsts = []
    for i in range(20):
        manifest = job.capture("--steps", "5", run=f"r{i}")
        firsts.append(check_same_steps(job, manifest, 5, f"r{i}"))
    assert firsts == sorted(firsts)


def test_ranks_that_never_wait_for_one_another_record_the_same_steps(job):
    """The step is chosen for the fastest rank. The slower one reaches it later, and is waited for."""
    for pace in (60, 90):
        job.rank(pace, "jitter=50")
    time.sleep(3)
    manifest = job.capture("--steps", "5")
    check_same_steps(job, manifest, 5)
    assert int(manifest["steps"]["spreadNs"]) > 500_000_000


def test_the_first_step_can_be_chosen(job):
    for pace in (60, 90):
        job.rank(pace)
    job.wait_for_step(10)
    assert check_same_steps(job, job.capture("--steps", "3", "--at-step", "*50", run="multiple"), 3, "multiple") % 50 == 0
    # As far ahead as the machine needs: a step that comes too soon, or has passed, is refused.
    for ahead in (150, 600, 2400):
        at = job.step() + ahead
        manifest = job.capture("--steps", "2", "--at-step", at, run=f"number-{ahead}")
        if not re.search("has passed|comes too soon", manifest["message"]):
            break
    assert check_same_steps(job, manifest, 2, f"number-{ahead}") == at


def test_a_step_that_has_passed_is_refused_by_name(job):
    for pace in (50, 100):
        job.rank(pace)
    job.wait_for_step(30)
    manifest = job.capture("--steps", "2", "--at-step", "3")
    assert manifest["result"] == "Failed"
    assert re.search(r"127.0.0.1:[0-9]+: step 3 has passed; the worker is at step [0-9]+", manifest["message"]), manifest["message"]
    manifest = job.capture("--steps", "2", "--at-step", "100000000")
    assert re.search(r"would reach step 100000000 only in .*; at most 55m", manifest["message"]), manifest["message"]


def test_a_rank_that_tells_no_steps_makes_it_a_window_of_time(job):
    job.rank(100)
    job.rank(80)
    silent = job.silent()
    done = job.run_capture("--steps", "5", "--duration", "400ms", run="r")
    manifest = json.loads(done.stdout)
    assert manifest["result"] == "Succeeded" and "steps" not in manifest
    assert int(manifest["durationNs"]) == 400_000_000
    assert manifest["skewKnown"], "it is a window of time like any other"
    table = job.run_capture("--steps", "5", "--duration", "400ms", "--output", "table", run="t").stdout
    assert f"it is a window of time, because {silent.name} reports no steps" in table, table


def test_windows_of_time_tell_the_steps_that_all_ranks_have(job):
    for pace in (80, 100):
        job.rank(pace)
    job.wait_for_step(5)
    manifest = job.capture("--duration", "600ms")
    steps = {}
    for rank, worker in zip(job.ranks, manifest["workers"]):
        begin = int(manifest["instantNs"]) + int(worker["clockOffsetNs"])
        complete = [note.step for note in read_notes(rank.notes)
                    if begin <= note.wall_begin and note.wall_end <= begin + 600_000_000]
        first, last = int(worker["steps"]["first"]), int(worker["steps"]["last"])
        assert first <= complete[0] and complete[-1] <= last
        steps[rank.name] = first, last
    common = max(first for first, _ in steps.values()), min(last for _, last in steps.values())
    if common[0] <= common[1]:
        assert (int(manifest["steps"]["first"]), int(manifest["steps"]["last"])) == common
    else:
        assert "steps" not in manifest


def test_steps_that_do_not_end_in_time_are_told(job):
    rank = job.rank(50)
    job.wait_for_step(5)
    process = job.begin_capture("--steps", "40")
    job.wait_until_recording()
    rank.process.signal(19)  # SIGSTOP: a collective that hangs, for example.
    time.sleep(1)
    rank.process.kill()
    out, _ = process.communicate(timeout=120)
    (worker,) = json.loads(out)["workers"]
    assert worker["outcome"] in ("LateStart", "WorkerLost"), worker


def test_inspect_tells_the_steps(job):
    job.rank(100)
    job.wait_for_step(5)
    manifest = job.capture("--steps", "4")
    first = int(manifest["steps"]["first"])
    shown = subprocess.run([BIN / "strobe", "inspect", job.trace(job.ranks[0])], capture_output=True, text=True, check=True).stdout
    assert f"complete: steps {first} to {first + 3} of main, asked for {first} to {first + 3}" in shown, shown
    assert "verdict: Ok" in shown


def test_a_request_records_the_same_steps_of_its_pods(job, kubectl, operator):
    job.ranks_with_barriers((80, 100, 120), 10)
    for rank in job.ranks:
        rank.register(kubectl)
    job.wait_for_step(5)
    kubectl.apply(profile_request("aligned", job.logdir, steps=5, start={"step": {"multipleOf": 20}}, run="r"))
    seen = ""
    while condition(request := kubectl.get("profreq", "aligned"), "Succeeded")["status"] not in ("True", "False"):
        seen = seen or condition(request, "Started").get("message", "")
        time.sleep(0.1)
    status = request["status"]
    assert "skew" not in status and status["steps"]["loop"] == "main", status
    first = status["steps"]["first"]
    assert first % 20 == 0 and status["steps"]["last"] == first + 4
    synchronized = condition(request, "Synchronized")
    assert synchronized["reason"] == "AllCoverSteps"
    assert f"every recording has steps {first} to {first + 4} of main" in synchronized["message"] and "the job's own" in synchronized["message"]
    assert f"begins at step {first} of main, expected at 20" in seen
    for rank in job.ranks:
        found = recorded_steps(job.logdir / f"plugins/profile/r/rank-{rank.number}.xplane.pb", "main")
        noted = {note.step: note for note in read_notes(rank.notes)}
        for number in range(first, first + 5):
            assert noted[number].wall_begin - 50_000 <= found[number][0] and found[number][1] <= noted[number].wall_end + 50_000


def wait_for_told_steps(ranks, number):
    """Waits until the framework in each rank's program tells this step. Before that, a capture becomes a window of time."""
    def told(rank):
        for path in rank.dir.glob("strobe/agent/*.process"):
            return any(steps[-1].number >= number for steps in told_steps(path).values())
        return False
    wait_until(lambda: all(told(rank) for rank in ranks), 60, f"step {number} of all ranks to be told")


def notes_of(rank):
    """Returns {step: (begin, end)} and, for PyTorch, how often a step calls each operator; else None."""
    (path,) = rank.dir.glob("notes.*")
    lines = path.read_text().splitlines()
    steps = [json.loads(line) if line.startswith("[") else [int(part) for part in line.split()] for line in lines if not line.startswith("{")]
    return {step[0]: step[1:] for step in steps if len(step) == 3}, json.loads(lines[0]) if lines[0].startswith("{") else None


@pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")
def test_unchanged_pytorch_programs_begin_at_the_optimizers_step(job, python_package):
    rendezvous = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for number, pause in enumerate((0.004, 0.006)):  # They wait for each other's gradients.
        job.start(lambda rank, pause=pause: [TORCH_PYTHON, ROOT / "tests/e2e/torch_loop.py", rank.dir / "notes", rank.dir / "orders", pause],
                  env={"PYTHONPATH": str(python_package), "PYTHONWARNINGS": "ignore", "RANK": str(number), **rendezvous})
    ranks = job.wait()
    wait_for_told_steps(ranks, 10)
    for i in range(5):
        manifest = job.capture("--steps", "4", *TRY_AGAIN, run=f"r{i}")
        assert manifest["result"] == "Succeeded" and "steps" in manifest, (manifest["message"], manifest["stderr"])
        first, last = int(manifest["steps"]["first"]), int(manifest["steps"]["last"])
        assert last == first + 3 and manifest["steps"]["loop"] == "ProfilerStep"
        for rank, worker in zip(ranks, manifest["workers"]):
            assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
            path = job.trace(rank, manifest["run"])
            assert set(recorded_steps(path, "ProfilerStep")) >= set(range(first, last + 1))
            # PyTorch's own profiler counted a step's operators; four optimizers' steps came before the first one that is noted.
            notes, operators = notes_of(rank)
            begin, end = notes[first - 4][0], notes[last - 4][1]
            found = Counter(name for name, at, until in host_events(path) if name.startswith("aten::") and begin <= at and until <= end)
            assert found == {name: 4 * count for name, count in operators.items()}
            # It began at the boundary, within the optimizer's step before.
            assert not [name for name, at, _ in host_events(path) if name.startswith("aten::") and at < notes[first - 5][1]]


@pytest.mark.parametrize(("framework", "loop"), [("jax", "train"), ("tensorflow", "Überschüssige Größen der nächsten großen Übung prüfen")])
def test_unchanged_jax_and_tensorflow_programs_begin_at_their_annotations(job, python_package, framework, loop):
    for pause in (0.004, 0.005):
        job.start(lambda rank, pause=pause: [PYTHON, ROOT / "tests/e2e/framework_loop.py", framework, rank.dir / "notes.0", rank.dir / "orders.0", pause],
                  env={"PYTHONPATH": str(python_package), "LOOP": loop})
    ranks = job.wait()
    wait_for_told_steps(ranks, 10)
    told = loop.encode()[:48].decode(errors="ignore")  # Programs tell names of 48 bytes at most.
    for i in range(3):
        manifest = job.capture("--steps", "4", *TRY_AGAIN, run=f"r{i}")
        assert manifest["result"] == "Succeeded" and "steps" in manifest, (manifest["message"], manifest["stderr"])
        first, last = int(manifest["steps"]["first"]), int(manifest["steps"]["last"])
        assert last == first + 3 and manifest["steps"]["loop"] == told
        for rank, worker in zip(ranks, manifest["workers"]):
            assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
            notes, _ = notes_of(rank)
            found = recorded_steps(job.trace(rank, manifest["run"]), loop)
            for number in range(first, last + 1):
                assert notes[number][0] - 50_000 <= found[number][0] and found[number][1] <= notes[number][1] + 50_000
            assert first - 1 not in found, "it began at the boundary"


@pytest.mark.parametrize("flags,complaint", [
    (["--at-step", "5"], "--at-step needs --steps"),
    (["--steps", "3", "--at-step", "soon"], '--at-step "soon" must be next'),
    (["--steps", "3", "--at-step", "*0"], '--at-step "*0" must be next'),
    (["--steps", "3", "--delay", "1s"], "--steps cannot be combined with --delay or --max-skew"),
    (["--steps", "3", "--host-tracer-level", "Disabled"], "--steps needs --host-tracer-level Critical, Info or Verbose"),
])
def test_wrong_flags_are_named(tmp_path, flags, complaint):
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", "localhost:1", "--logdir", tmp_path, *flags],
                          capture_output=True, text=True)
    assert done.returncode == 2 and complaint in done.stderr, done.stderr
