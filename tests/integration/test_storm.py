"""A short version of `tests.soak.run storm`, which makes 500 captures under random faults, and two separate disasters."""

import shutil
import time
from pathlib import Path

import pytest

from tests.soak.storm import Storm
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import PYTHON
from tests.support.workers import Worker

SEED = 20261121


def test_a_storm_that_is_killed_leaves_no_file_system_behind(group, tmp_path):
    place = tmp_path / "volume"
    place.mkdir()
    code = ("import os, sys, time; from tests.support.mounts import mount_small; mounted = mount_small(sys.argv[1], '1m');"
            "print('ready', mounted, os.path.ismount(sys.argv[1]), flush=True); time.sleep(600)")
    holder = group.start("holder", [PYTHON, "-c", code, place]).wait_for("ready", 30)
    if "ready False" in holder.output():
        pytest.skip("needs to mount a file system")
    assert "ready True True" in holder.output()
    assert str(place) not in Path("/proc/self/mountinfo").read_text(), "only its own processes see it"
    holder.kill()
    place.rmdir()


@pytest.fixture
def own_plane(group, tmp_path):
    """An API server of the test's own, because a storm restarts it."""
    plane = ControlPlane(group, tmp_path / "plane").start()
    Kubectl(plane.kubeconfig).install_crds()
    return plane


@pytest.mark.timeout(500)
def test_captures_end_whatever_happens(group, own_plane, protos, tmp_path):
    print("seed", SEED)
    Kubectl(own_plane.kubeconfig).create_namespace("storm")
    storm = Storm(group, own_plane, Kubectl(own_plane.kubeconfig, "storm"), protos, tmp_path, SEED)
    try:
        storm.run(16)
        wrong, ends = storm.verdict()
    finally:
        storm.stop()
    print("ends", ends, "faults", storm.faults)
    assert not wrong, "\n".join(wrong)
    assert sum(storm.faults.values()) > 10 and len(storm.requests) == 16
    assert storm.steps > 0, "no capture that ended Ok had a noted step in its window"


@pytest.mark.timeout(300)
def test_a_cluster_whose_etcd_was_wiped(group, own_plane, protos, trainers, tmp_path):
    """All objects that the operator knew are gone: it keeps running and carries out new requests."""
    def begin(name):
        kubectl = Kubectl(own_plane.kubeconfig)
        kubectl.run("create", "namespace", "after", check=False)
        kubectl = Kubectl(own_plane.kubeconfig, "after")
        worker.register(kubectl)
        kubectl.apply(profile_request(name, tmp_path / "logdir", run=name))
        return kubectl

    worker = Worker(group, "worker")
    worker.profiler_port = trainers[0].profiler_port
    worker.start_sidecar().wait()
    operator = Operator(group, own_plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    assert condition(wait_finished(begin("first"), "first"), "Succeeded")["status"] == "True"
    own_plane.apiserver.kill()
    own_plane.etcd_process.kill()
    shutil.rmtree(own_plane.dir / "etcd")
    own_plane.start_etcd()
    own_plane.start_apiserver()
    own_plane.wait_ready()
    Kubectl(own_plane.kubeconfig).install_crds()
    assert condition(wait_finished(begin("second"), "second", 90), "Succeeded")["status"] == "True"
    assert operator.process.running()


@pytest.mark.timeout(300)
def test_everything_at_once(group, own_plane, protos, tmp_path):
    """A power cut during a capture: operators, sidecars, trainers and the API server die together and come back."""
    Kubectl(own_plane.kubeconfig).create_namespace("storm")
    kubectl = Kubectl(own_plane.kubeconfig, "storm")
    storm = Storm(group, own_plane, kubectl, protos, tmp_path, SEED)
    try:
        kubectl.apply(*[profile_request(f"r{i}", storm.logdir, target={"pods": [w.name for w in storm.workers]}, run=f"r{i}", duration="2s",
                                        collectTimeout="15s", attempts=2) for i in range(3)])
        storm.requests = [f"r{i}" for i in range(3)]
        kubectl.run("wait", "--for=condition=Started", "profilerequest/r0", "--timeout=30s")
        time.sleep(0.7)
        for process in [own_plane.apiserver, *[o.process for o in storm.operators], *[p for w in storm.workers for p in (w.sidecar, w.trainer, w.program)]]:
            process.signal(9)
        own_plane.apiserver.kill()  # Waits for its end: on a busy machine it may hold its port for seconds.
        time.sleep(1)
        own_plane.start_apiserver()
        own_plane.wait_ready()
        storm.heal()
        for name in storm.requests:
            assert condition(wait_finished(kubectl, name, 120), "Succeeded")["status"] == "True"
        wrong, _ = storm.verdict()
        assert not wrong, "\n".join(wrong)
    finally:
        storm.stop()
