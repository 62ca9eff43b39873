"""Unchanged programs that are killed, fork or call exec in the middle of a capture, and sidecars that are restarted in each phase of one.

Each capture has its outcome, nothing is left behind, the program goes on, and the next capture is as good as the first.
"""

import time

import pytest

from tests.integration.test_inproc_xla import jax_trainer
from tests.support.beside import Pod, await_none, await_phase
from tests.support.inproc import TORCH_PYTHON, Trainer, is_locked
from tests.support.processes import wait_until

# The program's own profiler, used for a moment.
OWN = {
    "torch": "own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]); own.start(); own.stop()",
    "jax": "jax.profiler.start_trace({place!r}); jax.profiler.stop_trace()",
    "tensorflow": "tf.profiler.experimental.start({place!r}); tf.profiler.experimental.stop()",
}
PHASES = {"idle": None, "waiting": ": delay,", "recording": ": record,", "stopped": ": collect,"}
WAYS = ["torch", "jax-server", "jax-session", "tensorflow"]


@pytest.fixture
def pod(group, tmp_path, protos):
    return Pod(group, tmp_path)


@pytest.fixture(params=WAYS)
def trainer(request, group, tmp_path, python_package):
    if request.param == "torch" and not TORCH_PYTHON.exists():
        pytest.skip("build/torch is missing; tools/setup test installs it")
    if request.param.startswith("jax"):
        trainer = jax_trainer(group, tmp_path, python_package, "newest" if request.param == "jax-server" else "0.8.3")
    else:
        trainer = Trainer(group, tmp_path, python_package, framework=request.param)
    trainer.framework = request.param.partition("-")[0]
    assert trainer.announced(trainer.framework)["channel"] == ("session" if request.param in ("torch", "jax-session") else "server")
    return trainer


def profiles_itself(trainer, place):
    """Its own profiler works, which it does not while another session is there, or is stuck."""
    trainer.order(OWN[trainer.framework].format(place=str(place)) + f"; print('own {place.name}', flush=True)")
    assert f"own {place.name}" in trainer.process.output(), trainer.process.output()


def test_a_sidecar_may_be_restarted_in_each_phase(pod, trainer, tmp_path):
    for phase, told in PHASES.items():
        capture = None
        if told is not None:
            capture = pod.begin("--delay", "5s" if phase == "waiting" else "0s", "--duration", "1s" if phase == "stopped" else "30s", run=f"cut-{phase}")
            await_phase(capture, told)
            time.sleep(0.5 if phase == "recording" else 0)
        pod.sidecar.kill()
        profiles_itself(trainer, tmp_path / phase)
        if capture is not None:
            capture.kill()  # It would wait for the worker.
            capture.communicate()
        pod.start_sidecar()
        worker = pod.worker("--duration", "1s", "--guard", "500ms", run=f"after-{phase}")
        assert worker["outcome"] == "Ok", (phase, worker)
        assert trainer.trains()
    wait_until(lambda: not pod.left_by_captures(), 10, "all traces to be gone")


def test_forks_exec_and_a_kill_during_a_capture(pod, trainer):
    """Children come and go and the recording is whole; after an exec or a kill it is lost. After an exec there is a new process."""
    # JAX's own destructors crash or hang in forked children that end by sys.exit, without Strobe too.
    fork = "for _ in range(5):\n    child = os.fork()\n    if child == 0:\n        os._exit(0)\n    print('child', os.waitpid(child, 0)[1], flush=True)"
    worker = pod.worker("--duration", "2s", "--guard", "500ms", run="fork", meanwhile=lambda: (time.sleep(0.7), trainer.order(fork)))
    assert worker["outcome"] == "Ok" and trainer.process.output().count("child 0") == 5, (worker, trainer.process.output())
    before = trainer.announced()
    again = "os.unlink(orders); os.execv(sys.executable, [sys.executable, *sys.argv])"
    worker = pod.worker("--duration", "2s", run="exec", meanwhile=lambda: (time.sleep(1), trainer.order(again)))
    assert worker["outcome"] in ("WorkerLost", "NoSource"), worker
    wait_until(lambda: trainer.process.output().count("ready") == 2, 60, "the new program")
    # Its announcement has the name of the one before, which nobody locks any more.
    wait_until(lambda: all(is_locked(file) for file in trainer.agent.glob("*.process")) and trainer.announcements(), 60, "the new program's announcement")
    assert trainer.announced(trainer.framework)["pid"] == before["pid"] and trainer.trains()
    worker = pod.worker("--duration", "1s", "--guard", "500ms", run="after")
    assert worker["outcome"] == "Ok", worker
    manifest = pod.capture("--duration", "300s", run="killed", meanwhile=lambda: (time.sleep(1), trainer.process.kill()))
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "WorkerLost" and worker["message"], worker
    assert time.time_ns() < int(manifest["instantNs"]) + int(manifest["durationNs"]), "nobody is left, so it need not wait for the end of its window"
    await_none(pod)
    assert pod.left_behind() == []
