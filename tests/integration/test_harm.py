"""A capture that harms its job ends and reports why, and the job continues as before."""

import json
import subprocess
import textwrap
import time

import pytest

from tests.integration.test_unchanged import begin_capture
from tests.support.agent_rig import AgentRig
from tests.support.fragile import Fragile
from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.memory_group import memory_group
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, wait_until

@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path).sidecar()


def inspect(place):
    return json.loads(subprocess.run([BIN / "strobe", "inspect", place, "--output", "json"], check=True, capture_output=True, text=True).stdout)[0]


def test_steps_that_get_too_slow_end_the_capture_and_keep_it(rig, python_package):
    program = Fragile(rig, python_package, slow=80)
    manifest = rig.capture("--delay", "3s", "--abort-slowdown", "100", duration="30s")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Aborted" and "while recorded; captures end when they are 100% slower" in worker["message"], worker
    assert 15 < int(worker["job"]["stepBeforeNs"]) / 1e6 < 40 and int(worker["job"]["stepDuringNs"]) / 1e6 > 70, worker["job"]
    assert int(worker["stoppedNs"]) - int(worker["startedNs"]) < 15e9, "long before the window's end"
    assert int(worker["events"]) > 0 and rig.trace().exists()
    verdict = inspect(rig.trace())["verdict"]
    assert verdict["outcome"] == "Aborted" and any(e.startswith("steps took 8") and "before (+" in e for e in verdict["evidence"]), verdict
    program.trains_as_before()


def test_steps_that_get_a_little_slower_do_not(rig, python_package):
    program = Fragile(rig, python_package, slow=30)
    (worker,) = rig.capture("--delay", "3s", "--guard", "200ms", "--abort-slowdown", "400", duration="1s")["workers"]
    assert worker["outcome"] == "Ok", worker
    assert int(worker["job"]["stepDuringNs"]) > int(worker["job"]["stepBeforeNs"]) > 0, worker["job"]
    program.trains_as_before()


def test_a_trainer_that_runs_short_of_memory_is_let_go(rig, python_package):
    with memory_group(256) as wrap:
        program = Fragile(rig, python_package, slow=100, grow=True, wrap=wrap)
        (worker,) = rig.capture("--delay", "1s", "--abort-memory", "60", duration="30s")["workers"]
        assert worker["outcome"] == "Aborted" and "of its memory limit of 256 MiB; captures end at 60%" in worker["message"], worker
        assert 60 <= worker["job"]["memoryPercent"] < 100, worker["job"]
        assert not list(rig.logdir.rglob("*.xplane.pb")), "nothing is collected of a trainer without memory"
        program.trains_as_before()
        # Once the trainer has recovered, it can be captured again.
        (worker,) = rig.capture("--abort-memory", "90", "--guard", "200ms", run="again", duration="500ms")["workers"]
        assert worker["outcome"] == "Ok" and 0 < worker["job"]["memoryPercent"] < 90, worker
        program.process.popen.kill()
        program.process.popen.wait(10)


def test_a_trainer_that_is_short_of_memory_already_is_not_recorded(rig, python_package):
    with memory_group(256) as wrap:
        program = Fragile(rig, python_package, holds=200, wrap=wrap)
        (worker,) = rig.capture("--delay", "3s", "--abort-memory", "70", "--abort-slowdown", "1000", duration="10s")["workers"]
        assert worker["outcome"] == "Aborted" and int(worker["startedNs"]) == 0, worker
        program.trains_as_before()
        # --abort-memory Never turns the limit off.
        (worker,) = rig.capture("--abort-memory", "Never", "--guard", "200ms", run="again", duration="200ms")["workers"]
        assert worker["outcome"] == "Ok", worker
        program.process.popen.kill()
        program.process.popen.wait(10)


@pytest.mark.parametrize("level", [0, 1])
def test_a_cuda_program_without_annotations_tells_of_its_memory(rig, level):
    with memory_group(8) as wrap:
        program = rig.cuda_program(100, 10, wrap=wrap)
        (worker,) = rig.capture("--delay", "1s", "--host-tracer-level", "0", "--device-tracer-level", str(level), duration="500ms")["workers"]
        assert 0 < worker["job"]["memoryPercent"] < 95, worker
        program.popen.kill()
        program.popen.wait(10)


def test_a_sidecar_that_dies_leaves_no_thread_behind(rig, python_package):
    program = Fragile(rig, python_package)
    capture = rig.begin_capture("--delay", "1s", duration="5s")
    wait_until(lambda: program.agent_threads() == ["strobe-attend"], 10, "somebody to ask for the memory")
    rig.process.popen.kill()
    capture.kill()
    rig.sidecar()  # Has no capture, so it does not ask for the memory.
    program.trains_as_before()


JAX = textwrap.dedent("""
    import os, sys
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax, jax.numpy as jnp, strobe
    jax.profiler.start_server(int(sys.argv[1]))
    step_of = jax.jit(lambda x: jnp.tanh(x @ x))
    def leaf(i):
        return i + 1
    def step(x):
        for i in range(20000):
            leaf(i)
        return step_of(x).block_until_ready()
    x = step(jnp.ones((64, 64)))
    print("ready", flush=True)
    number = 0
    while True:
        with strobe.Trace("train", step_num=number):
            x = step(x)
        number += 1
""")


def test_pythons_tracer_on_a_real_jax_trainer(group, tmp_path, protos, python_package):
    """A real slowdown: the framework's Python tracer makes each call more expensive."""
    rig, port = AgentRig(group, tmp_path), free_port()
    trainer = rig.start([PYTHON, "-c", JAX, port], {"PYTHONPATH": str(python_package)})
    rig.sidecar(framework=f"localhost:{port}")
    began = time.monotonic()
    (worker,) = rig.capture("--delay", "2s", "--abort-slowdown", "30", "--python-tracer-level", "1", duration="40s")["workers"]
    assert worker["outcome"] == "Aborted", worker
    assert time.monotonic() - began < 40 and trainer.popen.poll() is None
    before, during = int(worker["job"]["stepBeforeNs"]), int(worker["job"]["stepDuringNs"])
    assert before > 0 and (during > 1.3 * before or "none has ended" in worker["message"]), worker
    assert any(p == "/host:CPU" for p in worker["planes"]) and rig.trace().stat().st_size > 10_000
    # The session has ended in the trainer too.
    (worker,) = rig.capture("--guard", "200ms", run="again", duration="300ms")["workers"]
    assert worker["outcome"] == "Ok", worker


SLOWER = """
def rest(*_):
    if rested < 400:  # As the profiler does only while it records.
        globals()["rested"] += 1
        time.sleep(0.06)
rested = 0
sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(rest)
"""
GROWS = """
held = []
def grow(*_):
    if len(held) < 400:
        held.append(bytearray(b"x") * (4 << 20))
sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(grow)
"""


@pytest.fixture
def beside(group, tmp_path):
    """A sidecar beside a trainer of this directory, whose framework announces itself."""
    def start(trainer):
        port = free_port()
        trainer.announced()
        wait_until(lambda: len(trainer.told_steps().get("ProfilerStep", ())) > 10, 20, "a few steps")
        group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", f"127.0.0.1:{free_port()}",
                                "--agent-dir", trainer.agent, "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        return f"127.0.0.1:{port}"

    return start


@pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")
def test_steps_of_a_program_that_nobody_changed_are_compared(group, tmp_path, python_package, beside):
    """Its last steps before the capture are known at once, so that the capture need not wait for some."""
    trainer = Trainer(group, tmp_path, python_package)
    address = beside(trainer)
    under_way = begin_capture(address, tmp_path, "30s", "--abort-slowdown", "100")
    trainer.order(SLOWER, wait=False)
    manifest = json.loads(under_way.communicate(timeout=90)[0])
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Aborted" and "while recorded; captures end when they are 100% slower" in worker["message"], worker
    assert 15 < int(worker["job"]["stepBeforeNs"]) / 1e6 < 80 and int(worker["job"]["stepDuringNs"]) / 1e6 > 60, (worker["job"], worker["message"])
    assert int(worker["events"]) > 0 and trainer.trains()


@pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")
def test_a_program_that_nobody_changed_tells_of_its_memory(group, tmp_path, python_package, beside):
    with memory_group(1024) as wrap:
        trainer = Trainer(group, tmp_path, python_package, wrap=wrap)
        address = beside(trainer)
        under_way = begin_capture(address, tmp_path, "30s", "--abort-memory", "70")
        trainer.order(GROWS, wait=False)
        (worker,) = json.loads(under_way.communicate(timeout=90)[0])["workers"]
        assert worker["outcome"] == "Aborted" and "of its memory limit of 1024 MiB; captures end at 70%" in worker["message"], (worker["message"], worker["job"])
        assert 70 <= worker["job"]["memoryPercent"] < 100, worker["job"]
        trainer.process.popen.kill()
        trainer.process.popen.wait(10)


CGROUPS = {
    "2": {"proc/self/cgroup": "0::/pod/trainer", "sys/fs/cgroup/pod/memory.max": "400", "sys/fs/cgroup/pod/memory.current": "380",
          "sys/fs/cgroup/pod/memory.stat": "anon 5\ninactive_file 20\n", "sys/fs/cgroup/pod/trainer/memory.max": "max",
          "sys/fs/cgroup/pod/trainer/memory.current": "380"},
    "1": {"proc/self/cgroup": "3:cpu:/x\n2:memory:/pod", "sys/fs/cgroup/memory/memory.limit_in_bytes": str((1 << 63) - 4096),
          "sys/fs/cgroup/memory/memory.usage_in_bytes": "7", "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "400",
          "sys/fs/cgroup/memory/pod/memory.usage_in_bytes": "380", "sys/fs/cgroup/memory/pod/memory.stat": "total_inactive_file 20"},
}


@pytest.mark.parametrize("version", CGROUPS)
def test_the_python_package_reads_cgroups_as_the_agent_does(tmp_path, python_package, version):
    for name, text in CGROUPS[version].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    code = f"import strobe._inproc.memory as m; print(m.Memory({str(tmp_path)!r}).closest(), m.Memory('/nowhere').closest())"
    done = subprocess.run([PYTHON, "-c", code], env={"PYTHONPATH": str(python_package)}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[0] == "(360, 400) None"
