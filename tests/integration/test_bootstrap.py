"""Programs on which nothing was set but what GPU pods have anyway: the agent in CUDA_INJECTION64_PATH. A library loads it as CUDA's driver does."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.test_inproc import check_operators
from tests.integration.test_inproc_xla import check_steps, jax_trainer
from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, wait_until

AGENT = BIN / "libstrobe_agent.so"
PLAIN_PYTHON = Path(sys.base_prefix) / "bin/python3"
INJECTED = ["env", f"LD_PRELOAD={BIN / 'load_injection.so'}", f"CUDA_INJECTION64_PATH={AGENT}"]


def thread_names(pid):
    return sorted(Path(f"/proc/{pid}/task/{task}/comm").read_text().strip() for task in os.listdir(f"/proc/{pid}/task"))


@pytest.fixture
def installed(tmp_path, python_package):
    """What the sidecar installs beside every trainer."""
    (tmp_path / "strobe/agent").mkdir(parents=True)
    (tmp_path / "strobe/python").symlink_to(python_package)
    return tmp_path


def injected(group, directory, framework, **more):
    if framework == "jax":
        return jax_trainer(group, directory, None, "newest", wrap=INJECTED, **more)
    return Trainer(group, directory, "", framework=framework, wrap=INJECTED, **more)


def failed(directory):
    """What processes left for the sidecar's log."""
    return [path.read_text() for path in (directory / "strobe/agent").glob("*.failed")]


@pytest.mark.parametrize("framework", ["torch", "jax", "bare-tensorflow"])
def test_each_framework_is_recorded_without_pythonpath(group, installed, protos, framework):
    if framework == "torch" and not TORCH_PYTHON.exists():
        pytest.skip("build/torch is missing; tools/setup test installs it")
    trainer = injected(group, installed, framework)
    announcement = trainer.announced(framework.removeprefix("bare-"))
    assert announcement["pid"] == trainer.process.pid
    # The agent's thread ends soon after it has started the service, which has threads of its own.
    wait_until(lambda: "strobe-python" not in thread_names(trainer.process.pid), 10, "the end of the agent's thread")
    assert thread_names(trainer.process.pid).count("strobe-inproc") == 1
    client = trainer.client()
    client.capture(framework=announcement["framework"])
    done = client.until("done")
    if framework == "torch":
        assert check_operators(trainer, done)
    else:
        check_steps(trainer, (trainer.agent / done["file"]).read_bytes(), done["started_ns"], done["stopped_ns"])
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(40) == 0, trainer.process.output()
    assert not list(trainer.agent.glob("*.process")) and not failed(installed)


def test_both_ways_meet_in_one_service(group, installed, python_package):
    trainer = jax_trainer(group, installed, python_package, "newest", wrap=INJECTED)
    trainer.announced()
    time.sleep(1.5)  # The agent's thread looks once a second.
    assert thread_names(trainer.process.pid).count("strobe-inproc") == 1 and len(trainer.announcements()) == 1
    assert not failed(installed)


@pytest.mark.parametrize("off", [{"STROBE_BOOTSTRAP": "OFF"}, {"STROBE_DISABLE": "steps,in-process"}])
def test_it_can_be_switched_off(group, installed, off):
    trainer = injected(group, installed, "jax", env=off)
    time.sleep(2)
    assert trainer.announcements() == [] and "strobe-python" not in thread_names(trainer.process.pid)


def test_a_program_without_python_has_no_thread_for_it(group, installed):
    process = group.start("program", [*INJECTED, "sh", "-c", "echo ready; exec sleep 60"], env={"STROBE_DIR": str(installed / "strobe")})
    process.wait_for("ready", 10)
    time.sleep(0.2)
    assert "strobe-python" not in thread_names(process.pid)


def test_a_program_without_a_framework_is_left_alone(group, installed):
    code = "import sys, time; time.sleep(3); print('ready', [name for name in sys.modules if 'strobe' in name], flush=True)"
    process = group.start("program", [*INJECTED, PLAIN_PYTHON, "-c", code], env={"STROBE_DIR": str(installed / "strobe")}).wait_for("ready", 20)
    assert "ready []" in process.output()
    assert process.popen.wait(10) == 0 and not failed(installed)
    assert not list((installed / "strobe/agent").glob("*.process"))


def test_a_failure_is_a_line_in_the_sidecars_log(group, tmp_path):
    (tmp_path / "strobe/agent").mkdir(parents=True)  # Without the Python package.
    trainer = injected(group, tmp_path, "jax")
    wait_until(lambda: failed(tmp_path), 10, "the failure")
    port = free_port()
    sidecar = group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--agent-dir", trainer.agent, "--insecure-plaintext"])
    sidecar.wait_for("strobe-sidecar serves", 20)
    for run in ("first", "second"):
        subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{port}", "--logdir", tmp_path / "logdir",
                        "--run", run, "--duration", "100ms", "--attempts", "1"], capture_output=True, timeout=60)
    lines = [line for line in sidecar.output().splitlines() if "strobe_bootstrap.py" in line]
    assert len(lines) == 1 and "No such file or directory" in lines[0] and str(trainer.process.pid) in lines[0], sidecar.output()
    # The file stays as long as the process runs, by which captures know that it is not recorded.
    assert trainer.trains() and failed(tmp_path)
    trainer.process.kill()
    subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{port}", "--logdir", tmp_path / "logdir",
                    "--run", "third", "--duration", "100ms", "--attempts", "1"], capture_output=True, timeout=60)
    assert not failed(tmp_path)


def test_a_python_that_cannot_run_it_is_told(group, installed):
    (installed / "strobe/python").unlink()
    (installed / "strobe/python").mkdir()
    (installed / "strobe/python/strobe_bootstrap.py").write_text("this is no Python\n")
    trainer = injected(group, installed, "jax")
    wait_until(lambda: failed(installed), 10, "the failure")
    assert "this version of Python cannot run it" in failed(installed)[0]
    # A package that is not whole.
    (installed / "strobe/python/strobe_bootstrap.py").write_text((Path(__file__).parents[2] / "agent/sdk/python/strobe_bootstrap.py").read_text())
    for path in (installed / "strobe/agent").glob("*.failed"):
        path.unlink()
    second = installed / "second"
    second.mkdir()
    (second / "strobe").symlink_to(installed / "strobe")
    other = injected(group, second, "jax")
    wait_until(lambda: failed(installed), 10, "the failure")
    assert "FileNotFoundError" in failed(installed)[0]
    assert trainer.trains() and other.trains()
    assert "strobe" not in other.process.output() and "Traceback" not in other.process.output()


BLOCKED = textwrap.dedent("""
    import threading
    def train():
        import jax
        jax.devices()
        print("ready", flush=True)
        threading.Event().wait()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()  # From here on, the main thread runs no Python code.
""")


def test_a_main_thread_that_runs_no_python_is_not_waited_for(group, installed):
    group.start("program", [*INJECTED, PYTHON, "-c", BLOCKED], env={"STROBE_DIR": str(installed / "strobe"), "JAX_PLATFORMS": "cpu"}).wait_for("ready", 60)
    wait_until(lambda: list((installed / "strobe/agent").glob("*.process")), 20, "the announcement")
    assert not failed(installed)


RACE = textwrap.dedent("""
    import ctypes, random, sys, threading, time, types
    sys.modules["torch"] = types.ModuleType("torch")  # The service begins, and waits for ever for it to become usable.
    agent = ctypes.PyDLL(sys.argv[1])
    time.sleep(random.random() * 0.01)
    agent.InitializeInjection()
    time.sleep(random.random() * 0.02)
    sys.exit(7)
""")


def test_programs_may_end_at_any_time(installed):
    """60 exits that race with each phase of the bootstrap."""
    def run(_):
        return subprocess.run([PLAIN_PYTHON, "-c", RACE, AGENT], env={**os.environ, "STROBE_DIR": str(installed / "strobe")},
                              capture_output=True, text=True, timeout=60)

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(run, range(60)))
    assert {(end.returncode, end.stdout, end.stderr) for end in ended} == {(7, "", "")}
    assert not failed(installed)


def test_a_forked_child_has_no_service(group, installed):
    trainer = injected(group, installed, "jax")
    trainer.announced()
    trainer.order("child = os.fork()\nif child == 0:\n    import threading; os._exit(len(threading.enumerate()))\n"
                  "print('child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)")
    assert "child 1" in trainer.process.output() and len(trainer.announcements()) == 1


def test_two_frameworks_in_one_process(group, installed):
    trainer = Trainer(group, installed, "", framework="bare-tensorflow", wrap=INJECTED)
    trainer.announced("tensorflow")
    trainer.order("import jax; jax.devices()")
    assert trainer.announced("jax")["pid"] == trainer.announced("tensorflow")["pid"]
    assert PYTHON.exists() and trainer.trains()
