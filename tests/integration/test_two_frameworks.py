"""Two frameworks in one process: the one that trains is recorded whatever the other one does, and where both run, the trace holds both."""

import time

import pytest

from tests.integration.test_inproc_xla import JAX
from tests.support.beside import Pod, await_none, framework_rows
from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.processes import BUILD, PYTHON, ROOT
from tests.support.step_rig import TRY_AGAIN, host_events, recorded_steps

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")

WITH_JAX = (JAX / "newest", JAX / "common")
(WITH_TENSORFLOW,) = (BUILD / "venv/lib").glob("python3*/site-packages")
USE_JAX = "import jax; jax.devices()"
# A thread that runs PyTorch's operators; nothing of it is a step.
RUN_TORCH = """
import threading, torch
torch.set_num_threads(1)
runs = True
def run_torch():
    while runs:
        torch.mm(torch.ones(8, 8), torch.ones(8, 8))
        time.sleep(0.002)
thread = threading.Thread(target=run_torch, daemon=True)
thread.start()
"""
# PyTorch ends a program in which such a thread runs with SIGABRT.
EXIT = "runs = False\nif 'thread' in globals():\n    thread.join()\nsys.exit(0)"
REFUSE_ALL_THREADS = """
import torch
def refuse(**options):
    raise TypeError
torch._C._profiler._ExperimentalConfig = refuse
"""
ONE_STEP = "p = torch.nn.Parameter(torch.zeros(1)); p.grad = torch.zeros(1); torch.optim.SGD([p], lr=0.1).step()"


@pytest.fixture
def pod(group, tmp_path, protos):
    return Pod(group, tmp_path)


@pytest.fixture
def start(group, tmp_path, python_package):
    """Starts a program in which `trains` trains, and then brings in the second framework."""
    def start(trains, second, order, python=TORCH_PYTHON, paths=WITH_JAX):
        loop = ["torch_loop.py", tmp_path / "notes", tmp_path / "orders"] if trains == "torch" else \
            ["framework_loop.py", trains, tmp_path / "notes.0", tmp_path / "orders.0"]
        path = ":".join(str(part) for part in (python_package, *paths))
        trainer = Trainer(group, tmp_path, path, framework=trains, command=[python, ROOT / "tests/e2e" / loop[0], *loop[1:]])
        trainer.announced(trains)
        trainer.order(order)
        trainer.announced(second)
        return trainer
    return start


def has_noted_steps(trainer, manifest, trace):
    """Whether the trace has each step that the program noted within the window."""
    begin = int(manifest["instantNs"])
    expected = {step[0] for step in trainer.steps(begin, begin + int(manifest["durationNs"]))}
    return bool(expected) and expected <= set(recorded_steps(trace, "train"))


def names(trace):
    return {name for name, _, _ in host_events(trace)}


def test_a_jax_program_that_imports_pytorch(pod, start, tmp_path):
    trainer = start("jax", "torch", "import torch")
    manifest = pod.capture("--duration", "500ms", run="idle")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    rows = framework_rows(worker)
    assert set(rows) == {"server", "torch"} and rows["torch"]["outcome"] == "OK", rows
    assert has_noted_steps(trainer, manifest, pod.trace(worker, "idle"))
    # JAX alone tells its steps, and begins at one.
    manifest = pod.capture("--steps", "4", *TRY_AGAIN, run="steps")
    (worker,), steps = manifest["workers"], manifest.get("steps")
    assert worker["outcome"] == "Ok" and steps and steps["loop"] == "train" and int(steps["last"]) - int(steps["first"]) == 3, (worker["message"], manifest)
    assert int(steps["first"]) - 1 not in recorded_steps(pod.trace(worker, manifest["run"]), "train"), "it began at the boundary"
    # Both run: the trace holds both. One of them records Python calls.
    trainer.order(RUN_TORCH)
    manifest = pod.capture("--duration", "500ms", "--python-tracer-level", "1", run="both")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok", worker
    note = framework_rows(worker)["torch"]["note"]
    assert "only by another framework of the process" in note, note
    trace = pod.trace(worker, "both")
    assert "aten::mm" in names(trace) and has_noted_steps(trainer, manifest, trace)


def test_the_programs_own_trace_ends_only_its_frameworks_part(pod, start, tmp_path):
    trainer = start("jax", "torch", RUN_TORCH)
    worker = pod.worker("--duration", "4s", meanwhile=lambda: trainer.order(
        f"time.sleep(1.5); jax.profiler.start_trace({str(tmp_path / 'own')!r}); jax.profiler.stop_trace()"))
    assert worker["outcome"] == "Truncated" and "a profiler session of its own" in worker["message"], worker
    row = framework_rows(worker)["torch"]
    assert row["outcome"] == "OK" and int(row["stoppedNs"]) - int(row["startedNs"]) > 3.5e9, row
    assert list((tmp_path / "own").rglob("*.xplane.pb")) and trainer.trains()
    # The program ends while both record.
    pod.worker("--duration", "4s", run="end", meanwhile=lambda: (time.sleep(1), trainer.order(EXIT, wait=False)))
    assert trainer.process.popen.wait(30) == 0, trainer.process.output()
    assert pod.left_behind() == []


def test_a_pytorch_program_that_used_jax(pod, start):
    trainer = start("torch", "jax", USE_JAX)
    worker = pod.worker("--duration", "500ms", run="time")
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    row = framework_rows(worker)["torch"]
    found, expected, steps = trainer.compare_operators(host_events(pod.trace(worker, "time")), int(row["startedNs"]), int(row["stoppedNs"]))
    assert found == expected and steps > 10
    manifest = pod.capture("--steps", "4", *TRY_AGAIN, run="steps")
    (worker,), steps = manifest["workers"], manifest.get("steps")
    assert worker["outcome"] == "Ok" and steps and steps["loop"] == "ProfilerStep" and int(steps["last"]) - int(steps["first"]) == 3, manifest
    assert set(recorded_steps(pod.trace(worker, manifest["run"]), "ProfilerStep")) >= set(range(int(steps["first"]), int(steps["last"]) + 1))
    # A forked child has none of it.
    trainer.order("child = os.fork()\nif child == 0:\n    os._exit(0)\nprint('child', os.waitpid(child, 0)[1], flush=True)")
    assert "child 0" in trainer.process.output() and len(trainer.announcements()) == 2
    worker = pod.worker("--duration", "4s", run="killed", meanwhile=lambda: (time.sleep(1), trainer.process.kill()))
    assert worker["outcome"] in ("WorkerLost", "NoSource"), worker
    await_none(pod)
    assert pod.left_behind() == []


def test_a_pytorch_that_cannot_be_recorded_costs_a_jax_program_nothing(pod, start):
    """As PyTorch before 2.7. A program that trains with it is refused by name."""
    trainer = start("jax", "torch", REFUSE_ALL_THREADS)
    manifest = pod.capture("--duration", "300ms", run="aside")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and has_noted_steps(trainer, manifest, pod.trace(worker, "aside")), worker
    assert "2.7 records all" in framework_rows(worker)["torch"]["note"]
    trainer.order(ONE_STEP)
    worker = pod.worker("--duration", "300ms", run="trains")
    assert worker["outcome"] == "VersionMismatch" and "2.7 records all" in worker["message"], worker


def test_pytorch_takes_no_devices_from_a_jax_that_uses_them(pod, start):
    """CUPTI has one subscriber, and PyTorch's profiler becomes it wherever there is CUDA. This machine has no GPU, so JAX is made to say so."""
    trainer = start("jax", "torch", "import torch\nfrom jax._src import xla_bridge\nxla_bridge._backends['cuda'] = xla_bridge._backends['cpu']")
    manifest = pod.capture("--duration", "300ms", run="aside")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and has_noted_steps(trainer, manifest, pod.trace(worker, "aside")), worker
    assert "jax records the devices" in framework_rows(worker)["torch"]["note"] and "profiler_start" not in trainer.process.output()
    trainer.order(ONE_STEP)
    worker = pod.worker("--duration", "300ms", run="trains")
    assert worker["outcome"] == "Busy" and "jax records the devices" in worker["message"], worker


@pytest.mark.parametrize("second", ["torch", "jax"])
def test_a_tensorflow_program_beside_another_framework(pod, start, second):
    trainer = start("tensorflow", "torch", RUN_TORCH, paths=[WITH_TENSORFLOW]) if second == "torch" else start("tensorflow", "jax", USE_JAX, PYTHON, [])
    manifest = pod.capture("--duration", "500ms", run="time")
    (worker,), trace = manifest["workers"], pod.trace(manifest["workers"][0], "time")
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    assert has_noted_steps(trainer, manifest, trace) and (second != "torch" or "aten::mm" in names(trace))
    manifest = pod.capture("--steps", "4", *TRY_AGAIN, run="steps")
    (worker,), steps = manifest["workers"], manifest.get("steps")
    assert worker["outcome"] == "Ok" and steps and steps["loop"] == "train" and int(steps["last"]) - int(steps["first"]) == 3, (worker["message"], manifest)
    worker = pod.worker("--duration", "300ms", "--python-tracer-level", "1", run="python")
    assert worker["outcome"] == "Ok" and trainer.trains(), worker
    trainer.order(EXIT, wait=False)
    assert trainer.process.popen.wait(30) == 0, trainer.process.output()
