"""Injection is never in the way on a real node: pods start, run and are captured where something about the node or the
namespace is unusual. Run by tests/cluster/inside."""

import json

import pytest

from tests.support.control_plane import Kubectl
from tests.support.installation import CHART, SPACE, as_jane, helm, host_pod, install, node, operator_log, store, training_job  # noqa: F401  Fixtures.
from tests.support.operator import condition, profile_request
from tests.support.processes import wait_until


@pytest.fixture(scope="module")
def installed(node, store):
    Kubectl(node.kubeconfig).run("create", "namespace", SPACE)
    install(node, store)
    return node


@pytest.fixture
def team(installed, store, request):
    """A namespace of the test's own."""
    admin = Kubectl(installed.kubeconfig)
    name = request.node.name.replace("_", "-")[:50]
    admin.run("create", "namespace", name)
    admin.run("create", "rolebinding", "jane", "--clusterrole=strobe-profiler", "--user=jane", "-n", name)
    keys = [f"--from-literal={key}={value}" for key, value in store.env.items()]
    admin.run("create", "secret", "generic", "traces", *keys, "-n", name)
    yield Kubectl(installed.kubeconfig, name)
    admin.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def configured(installed):
    """Installs with other values, and puts the old ones back."""
    changed = []

    def change(*settings):
        changed.append(settings)
        helm(installed, "upgrade", "strobe", CHART, "--reuse-values", *(part for s in settings for part in ("--set", s)), "--wait", "--timeout", "120s")

    yield change
    if changed:
        helm(installed, "upgrade", "strobe", CHART, "--reuse-values", "--set", "injection.mode=native,injection.image.repository=strobe-sidecar,injection.image.pullPolicy=Never",
             "--wait", "--timeout", "120s")
        await_image(Kubectl(installed.kubeconfig), "strobe-sidecar:")


def await_image(kubectl, prefix):
    """The operator of before an upgrade answers for some seconds more."""
    asked = json.dumps(host_pod("asked", ["/bin/true"]))

    def answered():
        pod = kubectl.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=asked).stdout
        sidecars = [c["image"] for c in json.loads(pod)["spec"].get("initContainers", []) if c["name"] == "strobe-sidecar"]
        return sidecars and sidecars[0].startswith(prefix)

    wait_until(answered, 60, "the new operator")


def runs(kubectl, name, container="train"):
    states = kubectl.get("pod", name)["status"].get("containerStatuses", [])
    return any(s["name"] == container and "running" in s["state"] for s in states)


def sidecar_state(kubectl, name):
    states = kubectl.get("pod", name)["status"]
    for state in states.get("initContainerStatuses", []) + states.get("containerStatuses", []):
        if state["name"] == "strobe-sidecar":
            return state
    return {"state": {}}


def test_pods_on_the_hosts_network_share_a_node(installed, team, store):
    """Two pods of a job with the host's network and its DNS, which does not know the operator's Service."""
    job = training_job(installed, "llm")
    spec = job["spec"]["template"]["spec"]
    spec["hostNetwork"] = True
    # The trainers' own profiler servers would collide on the node; they are not needed to capture.
    container = spec["containers"][0]
    container["command"][container["command"].index("--port") + 1] = "0"
    team.apply(job)
    wait_until(lambda: [p["status"]["phase"] for p in team.get("pods")["items"]] == ["Running"] * 2, 90, "both pods on one node")
    pods = [p["metadata"]["name"] for p in team.get("pods")["items"]]
    for pod in pods:
        wait_until(lambda: "serves its operator" in team.run("logs", pod, "-c", "strobe-sidecar").stdout, 60, "enrollment")
    as_jane(team, profile_request("look", f"{store.url}/{team.namespace}", target={"pods": pods}, duration="200ms", source="Agent"))
    wait_until(lambda: condition(team.get("profreq", "look"), "Succeeded")["status"] in ("True", "False"), 90, "the capture's end")
    workers = team.get("profreq", "look")["status"]
    assert not [f for f in workers.get("failures", []) if f.get("outcome") in ("Unreachable", "SidecarMissing")], json.dumps(workers) + operator_log(installed)
    (installed.root / "stop").touch()
    team.run("wait", "--for=condition=Complete", "job/llm", "--timeout=60s", check=False)
    (installed.root / "stop").unlink()


def test_a_sidecar_that_cannot_serve_does_not_hold_the_trainer(installed, team):
    """A variable in the user's Secret that the sidecar cannot parse."""
    team.run("create", "secret", "generic", "odd", "--from-literal=STROBE_UPLOAD_RATE=garbage")
    pod = host_pod("p", ["/bin/sleep", "600"])
    pod["metadata"]["annotations"] = {"strobe.dev/storage-secret": "odd"}
    team.apply(pod)
    wait_until(lambda: runs(team, "p"), 60, "the trainer")
    assert "this pod cannot be captured" in team.run("logs", "p", "-c", "strobe-sidecar").stdout


def test_an_image_that_cannot_be_pulled(installed, team, configured):
    configured("injection.image.repository=registry.invalid/strobe-sidecar")
    await_image(team, "registry.invalid/")
    # An ordinary container: the trainer runs.
    server = host_pod("server", ["/bin/sleep", "600"])
    server["spec"]["restartPolicy"] = "Always"
    server["metadata"]["annotations"] = {"strobe.dev/injection-mode": "container"}
    team.apply(server)
    wait_until(lambda: runs(team, "server"), 60, "the trainer beside an ordinary container")
    assert "waiting" in sidecar_state(team, "server")["state"]
    # A native one holds its pod, which Kubernetes does not let us change, and no other pod after it.
    team.apply(host_pod("first", ["/bin/sleep", "600"]))
    wait_until(lambda: sidecar_state(team, "first")["state"].get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"), 60, "the failed pull")
    assert not runs(team, "first")

    def second():
        team.run("delete", "pod", "second", "--ignore-not-found", "--now")
        team.apply(host_pod("second", ["/bin/sleep", "600"]))
        return "initContainers" not in team.get("pod", "second")["spec"]

    wait_until(second, 60, "the stuck pod to be noticed")
    wait_until(lambda: runs(team, "second"), 60, "the trainer without a sidecar")


def test_a_quota_of_a_real_controller(installed, team):
    team.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"limits.cpu": "2", "limits.memory": "3Gi"}}})
    wait_until(lambda: team.get("resourcequota", "q").get("status", {}).get("used"), 60, "the quota's status")
    for name, injected in (("first", True), ("second", False)):
        pod = host_pod(name, ["/bin/sleep", "600"])
        pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "10m", "memory": "16Mi"}}
        team.apply(pod)
        assert ("initContainers" in team.get("pod", name)["spec"]) == injected, "the quota has 1 CPU for the sidecar of the first pod only"
        wait_until(lambda: runs(team, name), 60, f"{name} to run")
