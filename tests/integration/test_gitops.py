"""Argo CD and Flux with the chart, on a real API server: what they do by their own code at the first synchronization, at the next one, and when
the chart has changed. There is no node, so that the test does what a node would do with the chart's job and Deployment."""

import datetime
import json
import subprocess

import pytest

from tests.support.control_plane import Kubectl
from tests.support.processes import BIN, ROOT, TOOLS, wait_until
from tests.support.rights import await_right
from tests.support.secure import ChartOperator, account_kubeconfig

CHART, SPACE = ROOT / "helm/strobe", "strobe-system"
LOGDIRS = ("--set-json", 'logdirs=["gs://b/{namespace}"]')
CRDS = ("profilerequests.strobe.dev", "profilepolicies.strobe.dev", "profileschedules.strobe.dev", "profiletriggers.strobe.dev")
# What the chart's first installation has, without the hooks.
KINDS = "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings"
CLUSTER_KINDS = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,profilepolicies,customresourcedefinitions"


@pytest.fixture(scope="module")
def collector(session_group, plane):
    """Kubernetes' garbage collector, without which nothing ends that is deleted as Argo CD and Helm delete hooks."""
    session_group.start("kube-controller-manager", [
        TOOLS / "kube-controller-manager", "--kubeconfig", plane.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0",
        "--use-service-account-credentials=false", "--controllers=garbage-collector-controller"])


@pytest.fixture
def admin(plane, collector):
    """kubectl for the release's namespace, in a cluster without Strobe."""
    everything = Kubectl(plane.kubeconfig)
    everything.run("delete", "crd", *CRDS, "--timeout=60s", "--ignore-not-found")
    everything.run("create", "namespace", SPACE, check=False)
    yield Kubectl(plane.kubeconfig, SPACE)
    everything.run("delete", CLUSTER_KINDS, "-l", "app.kubernetes.io/instance=strobe", "--timeout=20s", check=False)  # There may be no CRDs.
    # Namespaces stay, because there is no controller that could remove them.
    for space in (SPACE, f"{SPACE}-authority"):
        for made in everything.get(f"{KINDS},jobs", "-l", "app.kubernetes.io/instance=strobe", "-n", space)["items"]:
            if made["metadata"].get("finalizers"):  # Argo CD holds its hooks by one.
                everything.run("patch", made["kind"], made["metadata"]["name"], "-n", space, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        everything.run("delete", f"{KINDS},jobs", "-l", "app.kubernetes.io/instance=strobe", "-n", space, "--cascade=background", "--timeout=20s")


def found(admin, *what):
    done = admin.run("get", *what, "-o", "json", "--ignore-not-found")
    return json.loads(done.stdout) if done.stdout else None


def versions(admin):
    """The resource version of everything of Strobe's."""
    lists = [admin.get(KINDS, "-A", "-l", "app.kubernetes.io/instance=strobe"), admin.get(CLUSTER_KINDS, "-l", "app.kubernetes.io/instance=strobe"),
             admin.get("crd", *CRDS)]
    return {(o["kind"], o["metadata"]["name"]): o["metadata"]["resourceVersion"] for made in lists for o in made["items"]}


def run_job(admin, plane):
    """Does what a node does with the job of the CRDs: runs its program with the rights of its account, and says that it is complete."""
    job = wait_until(lambda: found(admin, "job", "strobe-crds"), 60, "the job")
    spec = job["spec"]["template"]["spec"]
    await_right(admin, "create", "customresourcedefinitions.apiextensions.k8s.io", user=f"system:serviceaccount:{SPACE}:{spec['serviceAccountName']}", namespace="")
    done = subprocess.run([BIN / "strobe-operator", "--kubeconfig", account_kubeconfig(plane, spec["serviceAccountName"]), *spec["containers"][0]["args"],
                           "--dir", ROOT / "helm/strobe/crds"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ends = [{"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now} for kind in ("SuccessCriteriaMet", "Complete")]
    admin.run("patch", "job", "strobe-crds", "--subresource=status", "--type=merge", "-p", json.dumps(
        {"status": {"startTime": now, "completionTime": now, "succeeded": 1, "ready": 0, "uncountedTerminatedPods": {}, "conditions": ends}}))
    return job


def run_deployment(admin):
    """Does what the Deployment's controller does: says that all replicas of the newest generation are there."""
    deployment = admin.get("deployment", "strobe-operator")
    replicas = deployment["spec"]["replicas"]
    admin.run("patch", "deployment", "strobe-operator", "--subresource=status", "--type=merge", "-p", json.dumps({"status": {
        "observedGeneration": deployment["metadata"]["generation"], "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
        "readyReplicas": replicas, "conditions": [{"type": "Available", "status": "True"}]}}))


@pytest.fixture
def operate(group, plane, kubectl):
    """Starts the operator of a chart that is installed. Waits until it has written its certificate into the webhooks."""
    def operate(admin, *values):
        operator = ChartOperator(group, plane, kubectl, *values).start().wait_ready()
        wait_until(lambda: all(w["clientConfig"].get("caBundle") for kind in ("mutating", "validating")
                               for w in admin.get(f"{kind}webhookconfiguration", "strobe")["webhooks"]), 30, "the operator's certificate")
        return operator

    return operate


def test_flux_sees_no_drift(plane, admin, operate, tmp_path):
    """Flux's helm-controller installs and upgrades with Helm's own code, and then compares what Helm has stored with what applying it on the server
    would make. kubectl diff does the same comparison."""
    def helm(*arguments):
        command = [TOOLS / "helm", "--kubeconfig", plane.kubeconfig, "--namespace", SPACE, *arguments]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def drift():
        stored = helm("get", "manifest", "strobe").communicate()[0]
        # Not Kubectl, because the objects are of several namespaces.
        done = subprocess.run([TOOLS / "kubectl", "--kubeconfig", plane.kubeconfig, "diff", "--server-side", "--force-conflicts",
                               "--field-manager=helm-controller", "-f", "-"], input=stored, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    # Flux's artifact is the packaged chart.
    subprocess.run([TOOLS / "helm", "package", CHART, "--destination", tmp_path], check=True, capture_output=True)
    (package,) = tmp_path.glob("*.tgz")
    install = helm("install", "strobe", package, *LOGDIRS)
    assert install.wait(60) == 0, install.stdout.read()
    assert admin.get("jobs")["items"] == [], "CRDs are installed by Helm itself"
    operate(admin, *LOGDIRS)
    assert drift() == ""
    before = versions(admin)
    upgrade = helm("upgrade", "strobe", package, *LOGDIRS)
    run_job(admin, plane)
    assert upgrade.wait(60) == 0, upgrade.stdout.read()
    assert drift() == "" and admin.get("jobs")["items"] == []
    after = versions(admin)
    # The job has become an owner of the CRDs' fields.
    assert {kind for kind, name in before if before[kind, name] != after.get((kind, name))} <= {"CustomResourceDefinition"}
    # What somebody else changes is drift.
    admin.run("scale", "deployment", "strobe-operator", "--replicas=7")
    assert "-  replicas: 7" in drift()
    uninstall = helm("uninstall", "strobe", "--no-hooks")
    assert uninstall.wait(60) == 0


class Argo:
    """Argo CD with automated synchronization (tests/cluster/argo)."""

    def __init__(self, group, plane, directory):
        self.group, self.file = group, directory / "strobe.yaml"
        self.command = [TOOLS / "argo-sync", plane.kubeconfig, SPACE, self.file]

    def begin(self, *values):
        """Renders the chart as Argo CD's repository server does, with CRDs and hooks, and begins to synchronize."""
        self.file.write_text(subprocess.run([TOOLS / "helm", "template", "strobe", CHART, "--namespace", SPACE, "--include-crds", *values],
                                            check=True, capture_output=True, text=True).stdout)
        self.process = self.group.start("argo", self.command)

    def waits(self, condition, what):
        return wait_until(lambda: condition() or not self.process.running() and pytest.fail(f"argo-sync ended: {self.process.output()[-3000:]}"), 60, what)

    def end(self):
        wait_until(lambda: not self.process.running(), 90, "the end of the synchronization")
        assert self.process.popen.returncode == 0, self.process.output()[-3000:]
        return json.loads([line for line in self.process.output().splitlines() if line.startswith('{"outOfSync"')][-1])


@pytest.fixture
def argo(group, plane, admin, tmp_path):
    argo = Argo(group, plane, tmp_path)
    yield argo
    argo.process.kill()


@pytest.mark.skipif(not (TOOLS / "argo-sync").exists(), reason="tests/cluster/argo/build has not built Argo CD's engine")
def test_argo_cds_order_of_hooks(argo, plane, admin, operate):
    argo.begin(*LOGDIRS)
    # The job runs before anything else exists, even the CRDs, and with the rights that hooks before it have given it.
    job = argo.waits(lambda: found(admin, "job", "strobe-crds"), "the job")
    assert found(admin, "deployment", "strobe-operator") is None
    run_job(admin, plane)
    argo.waits(lambda: found(admin, "deployment", "strobe-operator"), "the Deployment")
    run_deployment(admin)
    first = argo.end()
    assert first["phase"] == "Succeeded", first
    steps = [(step["phase"], step["object"]) for step in first["steps"]]
    rights = [("PreSync", f"{kind}/strobe-crds") for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")]
    assert set(steps[:3]) == set(rights) and steps[3] == ("PreSync", "Job/strobe-crds"), steps
    assert {phase for phase, _ in steps[4:]} == {"Sync"} and ("Sync", "Deployment/strobe-operator") in steps and len(steps) > 20
    # Everything of the hooks is gone, and no other hook of the chart has run.
    for kind in ("jobs", "serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings"):
        wait_until(lambda kind=kind: not [o for o in admin.get(kind, "-A")["items"] if "helm.sh/hook" in o["metadata"].get("annotations", {})],
                   30, f"the garbage collector with {kind}")
    # What the operator writes is no drift: nothing is synchronized, and no hook runs.
    operate(admin, *LOGDIRS)
    before = versions(admin)
    argo.begin(*LOGDIRS)
    assert argo.end() == {"outOfSync": []}
    assert versions(admin) == before and len(before) > 15
    # A new version of the chart: the job runs once more, and the rest follows.
    argo.begin(*LOGDIRS, "--set", "image.tag=new")
    assert run_job(admin, plane)["metadata"]["uid"] != job["metadata"]["uid"]
    argo.waits(lambda: "strobe-operator:new" in json.dumps(admin.get("deployment", "strobe-operator")["spec"]), "the new image")
    run_deployment(admin)
    second = argo.end()
    assert second["phase"] == "Succeeded" and second["outOfSync"] == ["Deployment/strobe-operator"], second
    wait_until(lambda: not admin.get("jobs")["items"], 30, "the garbage collector")
