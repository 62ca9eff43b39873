"""Strobe on a real node, installed with real Helm: what a user does from the first command to the last. Run by
tests/cluster/inside; needs a machine that can run a node."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request

import pytest

from tests.support.control_plane import Kubectl
from tests.support.installation import (  # noqa: F401  Fixtures.
    SPACE, NodeStore, annotated_pod, as_jane, captured, helm, host_pod, install, metric, node, operator_log, profiled_namespace, store, training_job, upgrade,
)
from tests.support.node import V4, V6, has_ipv6
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import BIN, wait_until
from tests.support.viewing import Viewing, grant_viewing, viewers
from tests.support.xprof import XProf

# Dual-stack, as clusters with IPv6 usually are.
FAMILIES = (V4, V6) if has_ipv6() else (V4,)
VIEWER = "strobe-viewer:0.1.0"
RUNS_PREFIX = "plugins/profile/"


@pytest.fixture(scope="module")
def installed(node, store):
    Kubectl(node.kubeconfig).create_namespace(SPACE)
    # All of Strobe's pods run under the restricted Pod Security Standard.
    Kubectl(node.kubeconfig).run("label", "namespace", SPACE, "pod-security.kubernetes.io/enforce=restricted")
    install(node, store, "--set", "replicaCount=2")
    return node


@pytest.fixture(scope="module")
def team(installed, store):
    """A namespace with an ordinary user, jane, who may profile there."""
    return profiled_namespace(installed, store, "ml")


def test_the_installation_answers(installed):
    assert "Succeeded" in helm(installed, "test", "strobe", "--timeout", "60s").stdout
    # With the rights of its ClusterRole, the operator has judged the chart's policy.
    Kubectl(installed.kubeconfig).run("wait", "--for=condition=Ready", "profpol/strobe", "--timeout=60s")


def test_a_job_is_captured_and_completes(installed, team, store, tmp_path):
    node = installed
    team.apply(training_job(node, "llm"))
    wait_until(lambda: len([p for p in team.get("pods", "-l", "job-name=llm")["items"] if p["status"]["phase"] == "Running"]) == 2, 60, "two pods")
    pods = team.get("pods", "-l", "job-name=llm")["items"]
    for pod in pods:
        assert len(pod["status"]["podIPs"]) == len(FAMILIES)
        assert pod["spec"]["initContainers"][-1]["restartPolicy"] == "Always"
        assert pod["metadata"]["labels"]["strobe.dev/injected"] == "true"
    for pod in pods:
        wait_until(lambda: "ready 9012" in team.run("logs", pod["metadata"]["name"], "-c", "train", check=False).stdout, 90, "training")
    as_jane(team, profile_request("first-look", f"{store.url}/ml", target={"jobRef": {"kind": "Job", "name": "llm"}}, duration="1s", start={"guard": "1s"}))
    waited = team.run("wait", "--as=jane", "--for=condition=Succeeded", "profreq/first-look", "--timeout=90s", check=False)
    request = team.get("profreq", "first-look")
    assert waited.returncode == 0, json.dumps(request.get("status"), indent=1) + operator_log(node) + team.run("logs", pods[0]["metadata"]["name"], "-c", "strobe-sidecar").stdout
    assert request["status"]["workers"]["ok"] == 2
    assert condition(request, "Synchronized")["status"] == "True"
    assert "jane" in request["metadata"]["annotations"]["strobe.dev/requester"]
    assert metric(node, "strobe_enrollments_total", result="ok") >= 2
    assert metric(node, "strobe_injections_total", namespace="ml", result="injected") == 2

    # XProf opens the run.
    run = request["status"]["run"]
    copied = subprocess.run([BIN / "strobe", "cp", run, tmp_path / "logs"], capture_output=True, text=True, env={**os.environ, **store.env})
    assert copied.returncode == 0, copied.stderr
    xprof = XProf(node.group, tmp_path / "logs")
    (name,) = xprof.wait_for_runs()
    hosts = sorted(h["hostname"] for h in json.loads(xprof.get("hosts", run=name, tag="trace_viewer@")))
    assert hosts == sorted(p["metadata"]["name"] for p in pods)
    assert json.loads(xprof.get("data", run=name, tag="trace_viewer@", host=hosts[0]))["traceEvents"]

    # The trainer can load the agent and the Python package that the sidecar installed for it.
    pod = pods[0]["metadata"]["name"]
    assert "libstrobe_agent.so" in team.run("exec", pod, "-c", "train", "--", "ls", "/var/strobe/lib").stdout
    assert "__init__.py" in team.run("exec", pod, "-c", "train", "--", "ls", "/var/strobe/python/strobe").stdout

    # The job completes although its sidecars are still running.
    (node.root / "stop").touch()
    team.run("wait", "--for=condition=Complete", "job/llm", "--timeout=60s")
    (node.root / "stop").unlink()


@pytest.fixture(scope="module")
def documented_role(team):
    grant_viewing(team, "jane")


def test_a_run_is_viewed_in_the_cluster(installed, team, documented_role):
    code, err = Viewing(team, "first-look", user="joe").end(signal.SIGCONT)
    assert code == 1 and 'User "joe" cannot get resource "profilerequests"' in err
    viewing = Viewing(team, "first-look")
    address = viewing.address()

    def workers():
        with urllib.request.urlopen(address + "api/run", timeout=30) as answer:
            return json.load(answer).get("workers")  # Absent while the run is read.

    assert len(wait_until(workers, 30, "the run to be read")) == 2
    (pod,) = [item for item in viewers(team) if item["kind"] == "Pod"]
    assert pod["spec"]["serviceAccountName"] == "default" and pod["spec"]["automountServiceAccountToken"] is False
    # It listens on the pod's loopback interface only.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((pod["status"]["podIP"], 6016), timeout=10)
    code, err = viewing.end()
    assert code == 0, err
    wait_until(lambda: not viewers(team), 60, "the viewer's removal")

    # What keeps a viewer from running is told, and nothing is left of it.
    for arguments, words in [
        (("first-look", "--image=registry.invalid/strobe:1"), "ErrImageNeverPull"),
        (("first-look", "--service-account=nobody"), 'serviceaccount "nobody" not found'),
        (("s3://no-such-bucket/logs",), "NotFound"),
    ]:
        code, err = Viewing(team, *arguments).end(signal.SIGCONT)
        assert code == 1 and words in err, (arguments, err)
    wait_until(lambda: not viewers(team), 60, "the viewers' removal")


def test_three_pods_of_a_fleet_convert_a_logdir(installed, team, store):
    """The runs are copies of the captured one. A pod is evicted, unless it has ended before; the Job makes up for it."""
    runs = f"logs/fleet/{RUNS_PREFIX}"
    captured_run = {key: store.read(key) for key in store.objects() if key.startswith(f"logs/ml/{RUNS_PREFIX}") and key.endswith(".xplane.pb")}
    for number in range(9):
        for key, trace in captured_run.items():
            store.write(f"{runs}copy-{number}/{key.rpartition('/')[2]}", trace)
    printed = subprocess.run([BIN / "strobe", "fleet", f"{store.url}/fleet", "--to", "parquet", "--out", f"s3://{store.bucket}/tables", "--workers", "3",
                              "--image", VIEWER, "--secret", "traces", "--memory", "1Gi", "--disk", "256Mi", "--cpu", "50m"],
                             capture_output=True, text=True, check=True).stdout
    team.run("label", "namespace", team.namespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    team.run("apply", "-f", "-", stdin=printed)
    chosen = ("pods", "-l", "app.kubernetes.io/name=strobe-fleet")
    wait_until(lambda: len(team.get(*chosen)["items"]) == 3, 60, "three pods")
    victim = team.get(*chosen)["items"][0]["metadata"]["name"]
    team.run("create", "--raw", f"/api/v1/namespaces/{team.namespace}/pods/{victim}/eviction", "-f", "-", check=False,
             stdin=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim, "namespace": team.namespace}}))
    team.run("wait", "--for=condition=Complete", "job/strobe-fleet", "--timeout=120s")
    status = team.get("job", "strobe-fleet")["status"]
    assert status["completedIndexes"] == "0-2" and not status.get("failedIndexes"), status
    rows = [json.loads(store.read(key)) for key in store.objects() if key.startswith("tables/runs/")]
    assert sorted(row["run"] for row in rows) == [f"copy-{number}" for number in range(9)]
    assert all(row["state"] == "done" and row["workers"] == len(captured_run) for row in rows), rows
    assert sum(key.startswith("tables/events/") for key in store.objects()) == 9 * len(captured_run)
    team.run("delete", "job", "strobe-fleet")
    team.run("label", "namespace", team.namespace, "pod-security.kubernetes.io/enforce-")


@pytest.fixture(scope="module")
def killed_viewers(installed, team, documented_role):
    """Commands that were killed at different times of their life. Returns how many viewers they left."""
    viewings = [Viewing(team, "first-look") for _ in range(3)]
    viewings[0].address()
    for viewing in viewings:
        viewing.end(signal.SIGKILL)
    return len([item for item in viewers(team) if item["kind"] == "Job"])


def test_a_killed_command_cannot_remove_its_viewer(killed_viewers):
    assert killed_viewers >= 1  # test_nothing_is_left_of_killed_commands waits for their end.


def test_a_stranger_cannot_reach_a_sidecar(installed, team, store):
    team.apply(host_pod("victim", ["/bin/sleep", "600"]))
    team.run("wait", "--for=condition=Ready", "pod/victim", "--timeout=60s")
    address = team.get("pod", "victim")["status"]["podIP"]
    wait_until(lambda: "serves its operator" in team.run("logs", "victim", "-c", "strobe-sidecar").stdout, 30, "enrollment")
    refused = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"{address}:9470", "--logdir", "/tmp/x",
                              "--duration", "100ms"], capture_output=True, text=True)
    assert refused.returncode != 0
    page = team.raw("/api/v1/namespaces/ml/pods/victim:9472/proxy/metrics")
    assert re.search(r'strobe_sidecar_refused_peers_total{reason="handshake"} [1-9]', page)
    # The trainer's container cannot see the sidecar's secrets.
    assert team.run("exec", "victim", "-c", "train", "--", "ls", "/var/run/secrets/strobe", check=False).returncode != 0
    # There is nothing to record in it, and the log of its sidecar is shown to a user who asks why.
    as_jane(team, profile_request("nothing", f"{store.url}/ml", target={"pods": ["victim"]}, attempts=1, start={"readyTimeout": "0s"}))
    assert wait_finished(team, "nothing")["status"]["outcomes"][0]["cause"] == "NoSource"
    shown, err = Viewing(team, "nothing", command="logs").process.communicate(timeout=60)
    assert "victim" in shown and "serves its operator" in shown, (shown, err)
    team.run("delete", "pod", "victim", "--wait=false")


def test_restricted_pods_are_injected(installed, team):
    admin = Kubectl(installed.kubeconfig)
    admin.create_namespace("secure")
    admin.run("label", "namespace", "secure", "pod-security.kubernetes.io/enforce=restricted", "strobe.dev/inject=true")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{"name": "c", "image": "strobe-operator:0.1.0", "imagePullPolicy": "Never", "command": ["/opt/strobe/bin/strobe-operator", "--help"],
                                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}],
                    "restartPolicy": "Never"}}
    kubectl = Kubectl(installed.kubeconfig, "secure")
    kubectl.apply(pod)
    # The pod has no label of its own: its namespace's label causes the injection. The pod also runs.
    assert kubectl.get("pod", "p")["metadata"]["labels"]["strobe.dev/injected"] == "true"
    wait_until(lambda: kubectl.get("pod", "p")["status"]["phase"] == "Succeeded", 60, "the pod's end")
    pod["metadata"] = {"name": "out", "labels": {"strobe.dev/inject": "false"}}
    kubectl.apply(pod)
    assert "initContainers" not in kubectl.get("pod", "out")["spec"]
    kubectl.run("delete", "pod", "--all", "--wait=false")


def test_a_volume_is_written_as_the_user_to_whom_it_belongs(installed, team):
    """As with NFS, the volume's owner does not change when it is mounted."""
    team.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": "disk"}, "spec": {"allowedLogdirs": ["/data"]}})
    ways = {"stranger": (0o755, {}, {}), "owner": (0o755, {"strobe.dev/user": "1000:1000"}, {}), "member": (0o775, {}, {"securityContext": {"fsGroup": 2000}})}
    for name, (mode, annotations, spec) in ways.items():
        place = installed.root / f"data-{name}"
        place.mkdir()
        place.chmod(mode)
        os.chown(place, 1000, 2000)
        pod = annotated_pod(name, {"strobe.dev/logdir-volume": "data:/data", **annotations}, **spec)
        pod["spec"]["volumes"].append({"name": "data", "hostPath": {"path": str(place)}})
        team.apply(pod)
    verdict, status = captured(team, "/data/logs", "stranger")
    assert verdict == "False" and "UploadDenied: cannot create /data/logs: Permission denied" in status, status
    for name, owner in (("owner", 1000), ("member", 65532)):
        verdict, status = captured(team, "/data/logs", name)
        assert verdict == "True", status
        (trace,) = (installed.root / f"data-{name}").glob("logs/plugins/profile/*/*.xplane.pb")
        assert trace.stat().st_uid == owner
    team.run("delete", "pod", *ways, "--wait=false")


def test_a_store_with_a_private_authority(installed, team):
    store = NodeStore(installed, installed.root / "private").start()
    keys = [f"--from-literal={name}={value}" for name, value in store.env.items() if not name.startswith("STROBE_")]
    team.run("create", "secret", "generic", "private", *keys)
    team.run("create", "configmap", "store-ca", f"--from-file={store.ca}")
    team.apply(annotated_pod("without-ca", {"strobe.dev/storage-secret": "private"}))
    verdict, status = captured(team, f"{store.url}/ml", "without-ca")
    assert verdict == "False" and "for a private CA set ca_bundle" in status, status
    upgrade(installed, "--set", "injection.storage.secret=private,injection.storage.caBundle.configMap=store-ca")
    team.apply(annotated_pod("with-ca"))
    verdict, status = captured(team, f"{store.url}/ml", "with-ca")
    assert verdict == "True", status
    assert [key for key in store.objects() if key.endswith(".xplane.pb")]
    team.run("delete", "pod", "with-ca", "without-ca", "--wait=false")


def test_nothing_is_left_of_killed_commands(team, killed_viewers):
    wait_until(lambda: not viewers(team), 150, "the end of viewers without a command")


def test_an_upgrade_keeps_requests(installed, team, store):
    before = team.get("profreq", "first-look")
    upgrade(installed, "--set", "advanced.maxConcurrentReconciles=3")
    after = team.get("profreq", "first-look")
    assert after["metadata"]["uid"] == before["metadata"]["uid"] and after["status"] == before["status"]
    # The new operators keep the authority of the old ones: the refusal comes from an operator, not from a broken webhook.
    refused = team.run("create", "--as=mallory", "-f", "-", stdin=json.dumps(profile_request("no", f"{store.url}/ml")), check=False)
    assert "Forbidden" in refused.stderr or "may not profile" in refused.stderr


def test_uninstalling_leaves_what_the_keep_policy_says(installed, team):
    admin = Kubectl(installed.kubeconfig)
    helm(installed, "uninstall", "strobe", "--wait", "--timeout", "60s")
    left = []
    for kind in ("clusterroles", "clusterrolebindings", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "profilepolicies"):
        left += [f"{kind}/{o['metadata']['name']}" for o in admin.get(kind)["items"] if "strobe" in o["metadata"]["name"]]
    for kind in ("deployments", "services", "secrets", "configmaps", "serviceaccounts", "roles", "rolebindings", "jobs", "poddisruptionbudgets"):
        left += [f"{kind}/{o['metadata']['name']}" for o in admin.get(kind, "-n", SPACE)["items"] if "strobe" in o["metadata"]["name"]]
    # Kept for the next installation: the policies, and the authority that running pods trust.
    assert left == ["profilepolicies/strobe"]
    assert set(admin.get("secret", "strobe-authority", "-n", f"{SPACE}-authority")["data"]) == {"ca.crt", "ca.key"}
    crds = [o["metadata"]["name"] for o in admin.get("crds")["items"]]
    assert crds == ["profilepolicies.strobe.dev", "profilerequests.strobe.dev", "profileschedules.strobe.dev", "profiletriggers.strobe.dev"]
    assert team.get("profreq", "first-look")["status"]["workers"]["ok"] == 2
    # Pods start without Strobe.
    team.apply(host_pod("later", ["/bin/true"]))
    wait_until(lambda: team.get("pod", "later")["status"]["phase"] == "Succeeded", 60, "a pod without Strobe")
