"""A pod with several unchanged JAX processes, and one of TensorFlow: each is a worker with an outcome, a trace and steps of its own.

The agent brings Strobe's part into them, as in pods with GPUs. Each process is its own JAX job, so that they need no coordinator.
"""

import json
import time

import pytest

from tests.integration.test_bootstrap import INJECTED
from tests.support.beside import Pod, framework_rows
from tests.support.inproc import Trainer
from tests.support.operator import WIDE_GUARD, condition, profile_request, wait_finished
from tests.support.oracle import window_of
from tests.support.processes import wait_until
from tests.support.step_rig import recorded_steps
from tests.support.workers import Worker

FRAMEWORKS = ["jax"] * 4 + ["bare-tensorflow"]
RANKS = range(len(FRAMEWORKS))
FIRST = 10  # The rank of the pod's first process in its job.


@pytest.fixture
def pod(group, tmp_path, protos, python_package, kubectl):
    """A pod of the API server. `pod.trainers` are its processes, by local rank."""
    pod = Pod(group, tmp_path)
    (tmp_path / "strobe/python").symlink_to(python_package)
    worker = Worker(group, "train-0")
    worker.port = int(pod.address.rpartition(":")[2])
    worker.register(kubectl)
    pod.trainers = [start(group, tmp_path, rank) for rank in RANKS]
    wait_until(lambda: len(pod.trainers[0].announcements()) == len(RANKS), 60, "all announcements")
    return pod


def start(group, directory, rank):
    """A program that was given its ranks, and names its steps after itself."""
    own = directory / f"rank-{rank}"
    own.mkdir()
    (own / "strobe").symlink_to(directory / "strobe")
    ranks = {"LOCAL_RANK": str(rank), "JAX_PROCESS_ID": str(FIRST + rank), "JAX_NUM_PROCESSES": "20", "LOOP": f"train-{rank}"}
    return Trainer(group, own, "", framework=FRAMEWORKS[rank], wrap=INJECTED, env=ranks)


def manifest_of(directory, run):
    """The capture's manifest, with its workers in the order of their local ranks."""
    manifest = json.loads((directory / "logdir/plugins/profile" / run / "strobe.json").read_text())
    assert [(w["pod"], w["name"], w["rank"], w["localRank"]) for w in manifest["workers"]] == \
        [("train-0", f"train-0.{rank}", FIRST + rank, rank) for rank in RANKS]
    return manifest


def check_steps(pod, manifest, run, rank):
    """The worker's file has each step of the window that its own process noted, and no step of another process."""
    worker, trace = manifest["workers"][rank], pod.logdir / f"plugins/profile/{run}/train-0.{rank}.xplane.pb"
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    noted = {number for number, _, _ in pod.trainers[rank].steps(*window_of(manifest, worker))}
    assert noted and noted <= set(recorded_steps(trace, f"train-{rank}")), (rank, len(noted))
    assert not any(recorded_steps(trace, f"train-{other}") for other in RANKS if other != rank)


def test_each_process_is_a_worker_and_the_loss_of_one_costs_the_others_nothing(pod, operator, kubectl, tmp_path):
    announced = {a["local_rank"]: a for a in pod.trainers[0].announcements()}
    assert {rank: (a["framework"], a["channel"]) for rank, a in announced.items()} == \
        {rank: (FRAMEWORKS[rank].removeprefix("bare-"), "server") for rank in RANKS}
    assert [announced[rank]["pid"] for rank in RANKS] == [trainer.process.pid for trainer in pod.trainers]
    assert all(a["address"].startswith("127.0.0.1:") for a in announced.values()) and len({a["address"] for a in announced.values()}) == len(RANKS)

    kubectl.apply(profile_request("all", pod.logdir, run="all", duration="500ms"))
    status = wait_finished(kubectl, "all")["status"]
    assert status["workers"]["summary"] == "5/5" and "outcomes" not in status, status
    manifest = manifest_of(tmp_path, "all")
    for rank in RANKS:
        check_steps(pod, manifest, "all", rank)
        (row,) = framework_rows(manifest["workers"][rank]).values()
        assert row["name"] == announced[rank]["address"] and row["outcome"] == "OK", row
    folder = pod.logdir / "plugins/profile/all"
    assert sorted(path.name for path in folder.glob("*.pb")) == [f"train-0.{rank}.xplane.pb" for rank in RANKS]

    kubectl.apply(profile_request("some", pod.logdir, run="some", target={
        "selector": {"matchLabels": {"app": "train"}}, "workers": {"localRanks": [1, 3]}}))
    assert wait_finished(kubectl, "some")["status"]["workers"]["summary"] == "2/2"
    assert sorted(path.name for path in pod.logdir.glob("plugins/profile/some/*.pb")) == ["train-0.1.xplane.pb", "train-0.3.xplane.pb"]

    # One is killed while all record.
    kubectl.apply(profile_request("killed", pod.logdir, run="killed", duration="3s", attempts=1, start={"guard": WIDE_GUARD}))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/killed", "--timeout=30s")
    time.sleep(1.5)
    pod.trainers[2].process.kill()
    request = wait_finished(kubectl, "killed")
    assert condition(request, "Succeeded")["status"] == "False", "a pod counts if all its workers do"
    (lost,) = request["status"]["outcomes"]
    assert lost["pod"] == "train-0/2" and lost["cause"] == "WorkerLost" and announced[2]["address"] in lost["message"], lost
    assert "train-0/2" in condition(request, "Succeeded")["message"], request
    assert request["status"]["workers"]["summary"] == "4/5"
    manifest = manifest_of(tmp_path, "killed")
    assert manifest["workers"][2]["outcome"] == "WorkerLost"
    for rank in RANKS:
        if rank != 2:
            check_steps(pod, manifest, "killed", rank)
            assert pod.trainers[rank].trains()
    wait_until(lambda: len(pod.trainers[0].announcements()) == len(RANKS) - 1, 20, "the lost one to be forgotten")
    assert pod.left_by_captures() == []
