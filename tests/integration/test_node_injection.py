"""Injection is never in the way on a real node: pods start, run and are captured where something about the node or the
namespace is unusual. The node, its pods, Services and the store have only addresses of IPv6, where the machine has IPv6. Run by
tests/cluster/inside."""

import base64
import json
import socket
import urllib.error
import urllib.request

import pytest

from tests.support.control_plane import Kubectl
from tests.support.installation import (  # noqa: F401  Fixtures.
    CHART, SPACE, annotated_pod, as_jane, captured, helm, host_pod, install, metric, node, operator_log, profiled_namespace, store, training_job, upgrade,
)
from tests.support.node import HOST, V4, V6, has_ipv6, in_url
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import wait_until
from tests.support.registry import Registry

FAMILIES = (V6 if has_ipv6() else V4,)
SIDECAR = "strobe-sidecar:0.1.0"


@pytest.fixture(scope="module")
def installed(node, store):
    Kubectl(node.kubeconfig).create_namespace(SPACE)
    install(node, store)
    return node


@pytest.fixture
def team(installed, store, request):
    """A namespace of the test's own."""
    name = request.node.name.replace("_", "-")[:50]
    team = profiled_namespace(installed, store, name)
    yield team
    team.run("delete", "namespace", name, "--wait=false")


def runs(kubectl, name, container="train"):
    states = kubectl.get("pod", name)["status"].get("containerStatuses", [])
    return any(s["name"] == container and "running" in s["state"] for s in states)


def sidecar_state(kubectl, name):
    states = kubectl.get("pod", name)["status"]
    for state in states.get("initContainerStatuses", []) + states.get("containerStatuses", []):
        if state["name"] == "strobe-sidecar":
            return state
    return {"state": {}}


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_capture_on_an_ipv6_pod_network(installed, team, store):
    for name in ("six-0", "six-1"):
        team.apply(annotated_pod(name, {"strobe.dev/storage-secret": "traces"}))
    verdict, status = captured(team, f"{store.url}/{team.namespace}", "six-0", "six-1")
    assert verdict == "True" and json.loads(status)["workers"]["ok"] == 2, status + operator_log(installed)
    assert len([key for key in store.objects() if team.namespace in key and key.endswith(".xplane.pb")]) == 2
    assert metric(installed, "strobe_enrollments_total", result="ok") >= 2
    admin = Kubectl(installed.kubeconfig)
    pods = admin.get("pods", "-A")["items"]
    addresses = [ip["ip"] for pod in pods for ip in pod["status"].get("podIPs", [])]
    addresses += [ip for service in admin.get("services", "-A")["items"] for ip in service["spec"]["clusterIPs"]]
    addresses += [a["address"] for a in admin.get("node", "node")["status"]["addresses"] if a["type"] == "InternalIP"]
    assert len(addresses) >= 6 and all(":" in address for address in addresses), addresses


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


def test_a_quota_of_a_real_controller(installed, team):
    team.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"limits.cpu": "2", "limits.memory": "3Gi"}}})
    wait_until(lambda: team.get("resourcequota", "q").get("status", {}).get("used"), 60, "the quota's status")
    for name, injected in (("first", True), ("second", False)):
        pod = host_pod(name, ["/bin/sleep", "600"])
        pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "10m", "memory": "16Mi"}}
        team.apply(pod)
        assert ("initContainers" in team.get("pod", name)["spec"]) == injected, "the quota has 1 CPU for the sidecar of the first pod only"
        wait_until(lambda: runs(team, name), 60, f"{name} to run")


PROXY = r"""
daemon off; master_process off; worker_processes 1; pid /tmp/pid; error_log stderr;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path /tmp/b; proxy_temp_path /tmp/p; fastcgi_temp_path /tmp/f; uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server {
    listen [::]:4180;
    auth_basic Strobe; auth_basic_user_file /etc/proxy/users;
    location / {
      proxy_pass http://127.0.0.1:8081;
      proxy_set_header Host $host; proxy_set_header Authorization "";
      proxy_set_header X-Forwarded-User $remote_user; proxy_set_header X-Forwarded-Groups "";
    }
  }
}
"""


@pytest.fixture
def viewer(installed, team, store):
    """The chart's viewers behind nginx with passwords. Asks for a path as a user, and returns status and body."""
    admin = Kubectl(installed.kubeconfig, SPACE)
    admin.run("create", "secret", "generic", "viewer-reads", *(f"--from-literal={key}={value}" for key, value in store.env.items()))
    passwords = "".join(f"{user}:{{PLAIN}}{user}-password\n" for user in ("jane", "stranger"))
    admin.run("create", "configmap", "proxy", f"--from-literal=nginx.conf={PROXY}", f"--from-literal=users={passwords}")
    host = ("usr", "lib", "lib64", "bin")
    values = {
        "enabled": True, "hosts": ["strobe.example.com"], "logdirs": [{"url": f"{store.url}/{team.namespace}", "namespace": team.namespace}],
        "storage": {"secret": "viewer-reads"},
        "extraVolumes": [*({"name": name, "hostPath": {"path": f"/{name}"}} for name in host), {"name": "proxy", "configMap": {"name": "proxy"}},
                         {"name": "scratch", "emptyDir": {}}],
        "proxy": {"image": HOST, "args": ["/usr/sbin/nginx", "-e", "stderr", "-p", "/tmp", "-c", "/etc/proxy/nginx.conf"],
                  "volumeMounts": [*({"name": name, "mountPath": f"/{name}", "readOnly": True} for name in host),
                                   {"name": "proxy", "mountPath": "/etc/proxy"}, {"name": "scratch", "mountPath": "/tmp"}]}}
    helm(installed, "upgrade", "strobe", CHART, "--reuse-values", "--set-json", f"viewer={json.dumps(values)}", "--wait", "--timeout", "120s")
    address = in_url(admin.get("service", "strobe-web")["spec"]["clusterIP"])

    def ask(path, user=None, **headers):
        login = {"Authorization": "Basic " + base64.b64encode(f"{user}:{user}-password".encode()).decode()} if user else {}
        asked = urllib.request.Request(f"http://{address}{path}", headers={"Host": "strobe.example.com", **login, **headers})
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    yield ask
    # The next tests move the sidecar's image, which is the viewer's too, into a registry that this namespace cannot read.
    helm(installed, "upgrade", "strobe", CHART, "--reuse-values", "--set", "viewer.enabled=false", "--wait", "--timeout", "120s")


def test_the_viewer_of_the_chart(installed, team, store, viewer):
    team.apply(annotated_pod("p", {"strobe.dev/storage-secret": "traces"}))
    verdict, status = captured(team, f"{store.url}/{team.namespace}", "p")
    assert verdict == "True", status
    run = f"{team.namespace}/{json.loads(status)['run'].rpartition('/')[2]}"
    wait_until(lambda: run in json.loads(viewer("/api/runs", "jane")[1])["runs"], 60, "the run in jane's list")
    code, manifest = viewer(f"/api/manifest?run={run}", "jane")
    assert code == 200 and [worker["name"] for worker in json.loads(manifest)["manifest"]["workers"]] == ["p"], manifest
    # Nobody else sees it, whatever he sends, and nobody gets past the proxy.
    assert json.loads(viewer("/api/runs", "stranger")[1])["runs"] == []
    assert viewer(f"/api/manifest?run={run}", "stranger", **{"X-Forwarded-User": "jane"})[0] == 404
    assert viewer("/api/runs")[0] == 401
    pods = Kubectl(installed.kubeconfig, SPACE).get("pods", "-l", "app.kubernetes.io/component=viewer")["items"]
    assert len(pods) == 2
    for pod in pods:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((pod["status"]["podIP"], 8081), timeout=10)


@pytest.fixture(scope="module")
def private(installed):
    """From now on, the sidecar's image is in a registry that demands credentials. Belongs to the last tests."""
    registry = Registry(installed).start().take(SIDECAR)
    upgrade(installed, "--set", f"injection.image.registry={registry.name},injection.image.pullPolicy=Always",
            "--set-json", 'injection.imagePullSecrets=["registry"]')
    return registry


def test_a_registry_that_demands_credentials(installed, team, private, store):
    team.apply(private.secret("registry"))
    team.apply(annotated_pod("p", {"strobe.dev/storage-secret": "traces"}))
    verdict, status = captured(team, f"{store.url}/{team.namespace}", "p")
    assert verdict == "True", status
    assert team.get("pod", "p")["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert sidecar_state(team, "p")["image"] == f"{private.name}/{SIDECAR}"
    pulled = [e["message"] for e in team.get("events")["items"] if e["reason"] == "Pulled" and private.name in e["message"]]
    assert pulled and "Successfully pulled image" in pulled[0], pulled
    assert private.pulled(), "the registry has sent the image's layer"


def told_of(team, logdir, pod):
    """What a capture of a pod that cannot be captured says."""
    as_jane(team, profile_request(f"of-{pod}", logdir, target={"pods": [pod]}, start={"readyTimeout": "1s"}))
    request = wait_finished(team, f"of-{pod}", 60)
    assert condition(request, "Succeeded")["status"] == "False"
    return json.dumps(request["status"])


def test_an_image_that_cannot_be_pulled(team, private, store):
    """This namespace lacks the Secret for the registry."""
    # An ordinary container: the trainer runs.
    server = host_pod("server", ["/bin/sleep", "600"])
    server["spec"]["restartPolicy"] = "Always"
    server["metadata"]["annotations"] = {"strobe.dev/injection-mode": "container"}
    team.apply(server)
    wait_until(lambda: runs(team, "server"), 60, "the trainer beside an ordinary container")
    # A native one holds its pod, which Kubernetes does not let us change, and no other pod after it.
    team.apply(host_pod("first", ["/bin/sleep", "600"]))
    for pod in ("server", "first"):
        wait_until(lambda: sidecar_state(team, pod)["state"].get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff"), 60, "the failed pull")
        told = told_of(team, f"{store.url}/{team.namespace}", pod)
        assert "container strobe-sidecar does not run: " in told and "ImagePull" in told, told
    assert not runs(team, "first")

    def second():
        team.run("delete", "pod", "second", "--ignore-not-found", "--now")
        team.apply(host_pod("second", ["/bin/sleep", "600"]))
        return "initContainers" not in team.get("pod", "second")["spec"]

    wait_until(second, 150, "the stuck pod to be noticed, which must have waited for a minute")
    wait_until(lambda: runs(team, "second"), 60, "the trainer without a sidecar")
    told = told_of(team, f"{store.url}/{team.namespace}", "second")
    assert "SidecarMissing" in told and "pod first of this namespace waits for its sidecar" in told, told
    # With the Secret, and without the stuck pod, pods get sidecars again.
    team.apply(private.secret("registry"))
    team.run("delete", "pod", "first", "--now")

    def third():
        team.run("delete", "pod", "third", "--ignore-not-found", "--now")
        team.apply(host_pod("third", ["/bin/sleep", "600"]))
        return "initContainers" in team.get("pod", "third")["spec"]

    wait_until(third, 60, "the stuck pod's end to be noticed")
    wait_until(lambda: runs(team, "third"), 60, "the trainer with a sidecar")
