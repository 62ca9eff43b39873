"""What an upgrade meets: requests that an earlier version stored. The CRDs are upgraded before the operator, as the chart does it."""

import json

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import wait_until

# What the API server filled in before levels had names and limits could be left out.
STORED = {"tracers": {"host": 2, "hostFilter": 0, "device": 1, "python": 0}, "abortWhen": {"memoryPercent": 95, "slowdownPercent": 0},
          "attempts": 1, "minWorkers": "100%", "onLateStart": "Keep", "source": "Auto", "reclaimPolicy": "Retain"}


def as_before(crd):
    """The CRD without its rules, so that requests of an earlier form can be stored."""
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"apiVersion": crd["apiVersion"], "kind": crd["kind"], "metadata": {"name": crd["metadata"]["name"]}, "spec": crd["spec"]}


@pytest.fixture
def kubectl(group, tmp_path):
    """An API server of the test's own, because its CRDs change."""
    plane = ControlPlane(group, tmp_path / "plane").start()
    kubectl = Kubectl(plane.kubeconfig)
    kubectl.install_crds()
    return kubectl


def test_requests_of_an_earlier_version_are_captured_and_deleted(group, kubectl, make_workers, logdir):
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-",
                stdin=json.dumps(as_before(kubectl.get("crd", "profilerequests.strobe.dev"))))
    make_workers(1, kubectl)
    kubectl.apply(profile_request("old", logdir, **STORED))
    kubectl.install_crds()
    wait_until(lambda: "Unsupported value" in kubectl.run(
        "apply", "-f", "-", stdin=json.dumps(profile_request("new", logdir, **STORED)), check=False).stderr, 20, "the CRD's rules")
    Operator(group, kubectl.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    request = wait_finished(kubectl, "old")
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    kubectl.run("delete", "profreq", "old", "--timeout=30s")
