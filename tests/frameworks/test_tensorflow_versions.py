"""Tests that older versions of TensorFlow are recorded and unharmed, both with `import strobe` and with the agent. CI has no time for it.

    tests/frameworks/tensorflow_version 2.18.1
    build/venv/bin/python -m pytest tests/frameworks/test_tensorflow_versions.py
"""

import json
import time

import pytest

from tests.integration.test_bootstrap import INJECTED
from tests.support.beside import Pod, await_phase
from tests.support.inproc import Trainer
from tests.support.oracle import window_of
from tests.support.processes import BUILD, ROOT
from tests.support.step_rig import TRY_AGAIN, host_events, recorded_steps

VERSIONS = sorted(path.parent.name for path in BUILD.glob("tensorflow-versions/*/.installed"))


@pytest.fixture
def pod(group, tmp_path, protos, python_package):
    (tmp_path / "strobe/agent").mkdir(parents=True)
    (tmp_path / "strobe/python").symlink_to(python_package)
    return Pod(group, tmp_path)


def start(group, directory, package, version, way):
    """`import`: a line of the program and PYTHONPATH. `agent`: as in pods with GPUs."""
    framework, wrap, path = ("tensorflow", (), package) if way == "import" else ("bare-tensorflow", INJECTED, "")
    python = BUILD / "tensorflow-versions" / version / "bin/python"
    return Trainer(group, directory, path, framework=framework, wrap=wrap,
                   command=[python, ROOT / "tests/e2e/framework_loop.py", framework, directory / "notes.0", directory / "orders.0"])


def traces_itself(trainer, directory):
    trainer.order(f"tf.profiler.experimental.start({str(directory)!r}); time.sleep(0.2); tf.profiler.experimental.stop(); print('traced', flush=True)")
    assert "traced" in trainer.process.output() and list(directory.rglob("*.xplane.pb")), trainer.process.output()


@pytest.mark.skipif(not VERSIONS, reason="build/tensorflow-versions is empty; tests/frameworks/tensorflow_version VERSION installs one")
@pytest.mark.parametrize("way", ["import", "agent"])
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_and_unharmed(pod, group, tmp_path, python_package, version, way):
    trainer = start(group, tmp_path, python_package, version, way)
    announcement = trainer.announced("tensorflow")
    by_server = tuple(int(part) for part in version.split(".")[:2]) >= (2, 21)
    assert announcement["version"].startswith(version) and announcement["channel"] == ("server" if by_server else "session"), announcement
    for run in ("first", "second"):
        manifest = pod.capture("--duration", "500ms", run=run)
        (worker,) = manifest["workers"]
        assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
        noted = {number for number, _, _ in trainer.steps(*window_of(manifest, worker))}
        assert noted and noted <= set(recorded_steps(pod.trace(worker, run), "train")), len(noted)
    traces_itself(trainer, tmp_path / "after")
    worker = pod.worker("--duration", "300ms", "--python-tracer-level", "1", run="python")
    assert worker["outcome"] == "Ok" and any(name.startswith("$framework_loop.py") for name, _, _ in host_events(pod.trace(worker, "python"))), worker
    manifest = pod.capture("--steps", "4", *TRY_AGAIN, run="steps")
    assert manifest["workers"][0]["outcome"] == "Ok" and int(manifest["steps"]["last"]) - int(manifest["steps"]["first"]) == 3, manifest

    cut = pod.begin("--duration", "6s", run="cut")
    await_phase(cut, ": record,")
    time.sleep(1)
    traces_itself(trainer, tmp_path / "during")
    (worker,) = json.loads(cut.communicate(timeout=60)[0])["workers"]
    assert worker["outcome"] == "Truncated" and "a profiler session of its own" in worker["message"], worker
    worker = pod.worker("--duration", "300ms", run="last")
    assert worker["outcome"] == "Ok" and trainer.trains(), worker
    assert "expects an" not in trainer.process.output(), "TensorFlow took every option"

    left = pod.begin("--duration", "30s", run="left")
    await_phase(left, ": record,")
    time.sleep(1)
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(40) == 0, trainer.process.output()
    left.communicate(timeout=60)
    assert pod.left_behind() == []
