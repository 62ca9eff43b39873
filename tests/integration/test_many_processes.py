"""A pod of 64 real PyTorch processes: each its outcome and its trace, within the sidecar's memory limit, and nothing is left behind."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.beside import Pod
from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.memory_group import memory_group
from tests.support.processes import ROOT, cpu_seconds, high_water, wait_until
from tests.support.step_rig import host_events

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")

NUMBER, LIMIT_MIB = 64, 512


@pytest.fixture
def pod(group, tmp_path, protos):
    pod = Pod(group, tmp_path)
    pod.sidecar.stop()
    with memory_group(LIMIT_MIB) as wrap:
        pod.start_sidecar(wrap)
        yield pod
        pod.sidecar.stop()


def files(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def check_each(pod, trainer, manifest, run, missing=()):
    """Each process is a worker; those that recorded have every operator of their steps, as often as PyTorch's own profiler counted."""
    workers = manifest["workers"]
    assert [worker["localRank"] for worker in workers] == list(range(NUMBER)), [worker["name"] for worker in workers]
    good = [worker for worker in workers if worker["outcome"] == "Ok"]
    for worker in workers:
        # Sixty-four threads may want a processor at the same instant.
        assert worker["outcome"] in (("Ok", "LateStart") if worker["localRank"] not in missing else ("WorkerLost", "NoSource")), worker
    for worker in good:
        found, expected, _ = trainer.compare_operators(host_events(pod.trace(worker, run)), int(worker["startedNs"]), int(worker["stoppedNs"]),
                                                       worker["localRank"])
        assert found == expected, worker["name"]
    assert len(good) > (NUMBER - len(missing)) * 3 / 4, [(worker["name"], worker["outcome"], worker["message"]) for worker in workers]
    return workers


def test_sixty_four_processes(pod, group, tmp_path, python_package):
    notes, orders = tmp_path / "notes", tmp_path / "orders"
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, ROOT / "tests/e2e/torch_forks.py", NUMBER, notes, orders, "0.2"])
    wait_until(lambda: len(trainer.announcements()) == NUMBER, 60, "all announcements")
    wait_until(lambda: all(Path(f"{notes}.{rank}").exists() for rank in range(NUMBER)), 60, "all first steps")
    wait_until(lambda: all(trainer.steps(0, 1 << 63, rank) for rank in range(NUMBER)), 60, "a step of each")
    idle, before = files(pod.sidecar.pid), cpu_seconds(pod.sidecar.pid)
    began = time.monotonic()
    manifest = pod.capture("--duration", "1500ms", "--guard", "500ms", run="all")
    took = time.monotonic() - began
    check_each(pod, trainer, manifest, "all")
    # A quarter of them is killed while all record.
    pids = {announcement["local_rank"]: announcement["pid"] for announcement in trainer.announcements()}
    lost = range(0, NUMBER, 4)

    def kill():
        time.sleep(2)
        for rank in lost:
            os.kill(pids[rank], signal.SIGKILL)

    manifest = pod.capture("--duration", "5s", "--guard", "500ms", run="killed", meanwhile=kill)
    check_each(pod, trainer, manifest, "killed", lost)
    assert manifest["result"] == "Failed", "a pod counts if all its workers do"
    # The next capture is of those that are left.
    manifest = pod.capture("--duration", "300ms", "--guard", "500ms", run="left")
    assert [worker["localRank"] for worker in manifest["workers"]] == [rank for rank in range(NUMBER) if rank not in lost]
    assert len(trainer.announcements()) == NUMBER - len(lost)
    assert pod.sidecar.running(), "it stayed within its memory limit"
    assert files(pod.sidecar.pid) <= idle + 4
    assert pod.left_by_captures() == []
    print(f"a capture of {NUMBER} processes took {took:.1f} s; the sidecar's peak {high_water(pod.sidecar.pid):.0f} MiB, "
          f"{cpu_seconds(pod.sidecar.pid) - before:.2f} s of processor time for three captures, {idle} open files")
