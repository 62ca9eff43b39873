"""The chart's objects in a real API server, with an operator that has only the rights of the chart: installed by hand or by GitOps, applied again,
and restricted to one namespace."""

import json
import subprocess

import pytest

from tests.support.control_plane import Kubectl
from tests.support.operator import await_reasons, condition, profile_request, wait_finished
from tests.support.processes import BIN, ROOT, TOOLS, wait_until
from tests.support.rights import await_bindings
from tests.support.secure import ChartOperator, SecureSidecar, account_kubeconfig, chart_objects

# Argo CD applies in both ways, Flux and Helm 4 on the server.
WAYS = {"server-side": ("--server-side", "--force-conflicts", "--field-manager=argocd-controller"), "client-side": ()}
PULL = ["--set", "injection.image.registry=registry.example,viewer.image.registry=registry.example", "--set-json", 'injection.imagePullSecrets=[{"name":"registry"}]']
STORE = ["--set", "injection.storage.secret=traces,injection.storage.caBundle.configMap=ca,injection.ephemeralStorage=3Gi,injection.metricsPort=9100",
         "--set-json", 'injection.env=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"},{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"k","key":"id"}}}]']


@pytest.fixture
def start(group, plane, kubectl):
    """Starts an operator with the chart's objects, applied with `flags`."""
    started = []

    def start(*values, flags=WAYS["server-side"], reachable=False):
        operator = ChartOperator(group, plane, kubectl, *values)
        if reachable:
            operator.lead_webhooks_here()
        started.append(operator)
        return operator.apply(*flags).start().wait_ready()

    yield start
    for operator in started:
        operator.process.kill()
        operator.remove()


def live(operator):
    """All of the chart's objects as they are in the API server, by kind and name."""
    lists = map(json.loads, operator.each_space("get", "-o", "json"))
    return {(o["kind"], o["metadata"]["name"]): o for found in lists for o in found["items"]}


@pytest.mark.parametrize("way", WAYS)
def test_applying_again_changes_nothing(start, way):
    """What the operator writes into the chart's objects is no drift: the next application neither changes nor removes it."""
    operator = start("--set-json", 'logdirs=["gs://b/{namespace}"]', *PULL, *STORE, flags=WAYS[way])
    bundles = lambda objects: [w["clientConfig"].get("caBundle") for o in objects.values() for w in o.get("webhooks", [])]  # noqa: E731
    wait_until(lambda: all(bundles(live(operator))), 30, "the operator's certificate in the webhooks")
    before = live(operator)
    assert before["Secret", "strobe-authority"]["data"]["ca.key"] and len(before) > 15
    operator.apply(*WAYS[way])
    after = live(operator)
    changed = [key for key in before if before[key]["metadata"]["resourceVersion"] != after[key]["metadata"]["resourceVersion"]]
    assert changed == []
    # A new version of the chart changes the webhooks, and the certificate stays.
    for o in operator.objects:
        for webhook in o.get("webhooks", []):
            webhook["timeoutSeconds"] = 7
    operator.apply(*WAYS[way])
    later = live(operator)
    assert bundles(later) == bundles(before)
    assert {w["timeoutSeconds"] for o in later.values() for w in o.get("webhooks", [])} == {7}


def test_a_capture_with_the_rights_in_one_namespace(start, group, plane, kubectl, trainers, tmp_path, logdir):
    operator = start("--set", f"watchNamespace={kubectl.namespace}", "--set-json", f'logdirs=["{logdir}"]', reachable=True)
    sidecar = SecureSidecar(group, operator, "worker-0", trainers[0].profiler_port, tmp_path / "w0").start().wait()
    kubectl.apply(profile_request("look", logdir, ttlAfterFinished="1s"), profile_request("kept", logdir, reclaimPolicy="Delete"))
    request = wait_finished(kubectl, "kept")
    assert condition(request, "Succeeded")["status"] == "True", json.dumps(request["status"]) + operator.process.output()[-3000:]
    wait_until(lambda: kubectl.run("get", "profreq", "look", check=False).returncode != 0, 30, "the deletion after its time")
    kubectl.run("delete", "profreq", "kept", "--timeout=30s")
    assert not list(logdir.glob("plugins/profile/kept*/*.xplane.pb")), "the run is reclaimed"
    await_reasons(kubectl, "CaptureArmed", "CaptureSucceeded")
    assert "forbidden" not in operator.process.output().lower()
    assert sidecar.process.running()
    # A request in another namespace is left alone, because the webhooks are not called for it and the operator does not see it.
    other = Kubectl(plane.kubeconfig, "default")
    other.apply(profile_request("elsewhere", logdir))
    assert "requester" not in str(other.get("profreq", "elsewhere")["metadata"].get("annotations"))
    other.run("delete", "profreq", "elsewhere")


def test_the_rights_end_at_the_watched_namespace(start, kubectl):
    operator = start("--set", f"watchNamespace={kubectl.namespace}")

    def may(verb, resource, space):
        return operator.admin.run("auth", "can-i", verb, resource, "-n", space, f"--as={operator.USER}", check=False).stdout.strip() == "yes"

    for verb, resource in (("list", "pods"), ("patch", "profilerequests.strobe.dev"), ("create", "events.events.k8s.io"), ("get", "jobs.batch")):
        assert may(verb, resource, kubectl.namespace) and not may(verb, resource, "default"), (verb, resource)
    assert not may("get", "secrets", kubectl.namespace) and not may("get", "namespaces/default", "default")
    rules = [r for o in chart_objects("--set", f"watchNamespace={kubectl.namespace}") if o["kind"] == "ClusterRole"
             and o["metadata"]["name"].startswith("strobe-operator") for rule in o["rules"] for r in rule["resources"]]
    assert rules == ["profilepolicies", "profilepolicies/status", "namespaces", "subjectaccessreviews", "tokenreviews", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"]


def test_the_samples_fit_together(start, plane):
    """The sample request is admitted where the sample policy applies, and refused in other places."""
    start(reachable=True)
    admin, samples = Kubectl(plane.kubeconfig), ROOT / "helm/strobe/crds/samples"
    admin.create_namespace("ml")
    admin.run("label", "namespace", "ml", "team=ml")
    admin.run("apply", "-f", samples / "profilepolicy.yaml")
    ask = ["create", "--dry-run=server", "-f", samples / "profilerequest.yaml"]
    wait_until(lambda: "failed calling webhook" not in admin.run(*ask, check=False).stderr, 30, "the webhooks")
    admin.run(*ask, "-n", "ml")
    assert "no ProfilePolicy" in admin.run(*ask, check=False).stderr
    for kind in ("profileschedule", "profiletrigger"):
        admin.run("create", "--dry-run=server", "-f", samples / f"{kind}.yaml", "-n", "ml")
    admin.run("delete", "-f", samples / "profilepolicy.yaml")


def test_injected_pods_get_what_the_values_say(start, kubectl):
    start(*PULL, *STORE, reachable=True)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"strobe.dev/inject": "true"}},
           "spec": {"serviceAccountName": "default", "containers": [{"name": "train", "image": "jax"}], "imagePullSecrets": [{"name": "mine"}]}}
    wait_until(lambda: "initContainers" in json.loads(kubectl.run("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod)).stdout)["spec"],
               30, "the webhooks")
    kubectl.apply(pod)
    spec = kubectl.get("pod", "p")["spec"]
    (sidecar,) = spec["initContainers"]
    assert spec["imagePullSecrets"] == [{"name": "mine"}, {"name": "registry"}]
    assert sidecar["image"].startswith("registry.example/strobe-sidecar:")
    assert kubectl.get("pod", "p")["metadata"]["annotations"]["strobe.dev/viewer-image"].startswith("registry.example/strobe-viewer:")
    variables = {e["name"]: e for e in sidecar["env"]}
    assert variables["HTTPS_PROXY"]["value"] == "http://proxy:3128"
    assert variables["KEY"]["valueFrom"]["secretKeyRef"] == {"name": "k", "key": "id", "optional": True}
    assert variables["STROBE_STORAGE_CA_BUNDLE"]["value"] == "/etc/strobe/storage-ca/ca.crt"
    assert next(v for v in spec["volumes"] if v["name"] == "strobe-storage-ca")["configMap"]["optional"] is True
    assert sidecar["envFrom"] == [{"secretRef": {"name": "traces", "optional": True}}]
    assert sidecar["resources"]["requests"]["ephemeral-storage"] == "3Gi"
    assert {p["name"]: p["containerPort"] for p in sidecar["ports"]}["strobe-metrics"] == 9100


@pytest.fixture
def hook(plane):
    """Runs the program of a hook's job with the rights that the hook has, and no others."""
    rights = []

    def kubectl(right):
        return Kubectl(plane.kubeconfig, right["metadata"].get("namespace", "default"))

    def run(name, *values):
        objects = [o for o in chart_objects(*values) if o["metadata"]["name"] == name]
        (job,) = [o for o in objects if o["kind"] == "Job"]
        rights.extend(o for o in objects if "Role" in o["kind"])
        for right in rights:
            kubectl(right).apply(right)
        await_bindings(Kubectl(plane.kubeconfig), *rights)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        place = ["--dir", ROOT / "helm/strobe/crds"] if container["args"] == ["apply-crds"] else []
        done = subprocess.run([BIN / "strobe-operator", "--kubeconfig", account_kubeconfig(plane, name), *container["args"], *place],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    yield run
    for right in rights:
        kubectl(right).run("delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(right), check=False)


def crd_versions(admin):
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in admin.get("crds")["items"]}


def test_the_crds_job_and_gitops_do_not_fight(plane, hook):
    """Argo CD runs the job before each synchronization, also before the first, and applies the CRDs itself too."""
    admin = Kubectl(plane.kubeconfig)
    admin.run("delete", "crd", "profilerequests.strobe.dev", "profilepolicies.strobe.dev", "profileschedules.strobe.dev", "profiletriggers.strobe.dev", "--timeout=60s")

    def synchronize(*flags):
        hook("strobe-crds")
        admin.run("apply", *flags, "-f", ROOT / "helm/strobe/crds")
        return crd_versions(admin)

    assert set(crd_versions(admin)) == set()
    synchronize()
    admin.install_crds()  # Waits until they are established.
    for flags in WAYS.values():
        synchronize(*flags)
        assert synchronize(*flags) == synchronize(*flags)


@pytest.mark.parametrize("watched", [False, True])
def test_the_deletion_jobs_let_go_of_requests(kubectl, plane, hook, logdir, watched):
    values = ["--set", f"watchNamespace={kubectl.namespace}"] if watched else []
    held = {**profile_request("held", logdir), "metadata": {"name": "held", "finalizers": ["strobe.dev/capture"]}}
    kubectl.apply(held)
    if watched:  # Once, because the job gives the operator, which is not there, 20 seconds.
        hook("strobe-pre-delete", *values)
        assert kubectl.get("profreq", "held")["spec"]["cancel"] is True
    assert "removed the finalizer from 1 ProfileRequests" in hook("strobe-post-delete", *values)
    assert "finalizers" not in kubectl.get("profreq", "held")["metadata"]
    kubectl.run("delete", "profreq", "held", "--timeout=10s")


def test_no_second_operator_is_installed_for_a_namespace_that_has_one(plane):
    """Each stamped the other's requests and refused those that the other had stamped last."""
    def helm(release, *arguments, check=True):
        done = subprocess.run([TOOLS / "helm", "--kubeconfig", plane.kubeconfig, "--namespace", f"of-{release}", *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done

    def install(release, *values, check=True):
        return helm(release, "install", release, ROOT / "helm/strobe", "--create-namespace", "--no-hooks", *values, check=check)

    admin, installed = Kubectl(plane.kubeconfig), []
    for name in ("of-ml", "of-web"):
        admin.run("create", "namespace", name)
    try:
        install("first")
        installed.append("first")
        for values in ([], ["--set", "watchNamespace=of-ml"]):
            refused = install("second", *values, check=False)
            assert refused.returncode != 0, refused.stdout
            assert "the operator first-strobe-operator in namespace of-first already serves all namespaces" in refused.stderr, refused.stderr
        helm("first", "upgrade", "first", ROOT / "helm/strobe", "--no-hooks", "--set", "watchNamespace=of-ml")
        for values in ([], ["--set", "watchNamespace=of-ml"]):
            refused = install("second", *values, check=False)
            assert refused.returncode != 0 and "already serves of-ml" in refused.stderr, refused.stderr
        install("second", "--set", "watchNamespace=of-web")
        installed.append("second")
    finally:
        for release in installed:
            helm(release, "uninstall", release, "--no-hooks", check=False)


def test_an_upgrade_from_an_older_chart_keeps_its_values_and_gets_new_ones(plane, tmp_path):
    """The command that docs/how-to/install.md gives. With --reuse-values Helm leaves out the defaults of values that the older chart did not have."""
    older = tmp_path / "older"
    (older / "templates").mkdir(parents=True)
    (older / "Chart.yaml").write_text("apiVersion: v2\nname: strobe\nversion: 0.0.1\n")
    (older / "values.yaml").write_text("logdirs: []\nreplicaCount: 1\n")

    def helm(*arguments, check=True):
        done = subprocess.run([TOOLS / "helm", "--kubeconfig", plane.kubeconfig, "--namespace", "upgrades", *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done

    helm("install", "strobe", older, "--create-namespace", "--set-json", 'logdirs=["gs://kept"]', "--set", "replicaCount=3")
    refused = helm("upgrade", "strobe", ROOT / "helm/strobe", "--reuse-values", "--no-hooks", check=False)
    assert refused.returncode != 0 and "upgrade with --reset-then-reuse-values" in refused.stderr, refused.stderr
    helm("upgrade", "strobe", ROOT / "helm/strobe", "--reset-then-reuse-values", "--no-hooks", "--set", "image.tag=new")
    kubectl = Kubectl(plane.kubeconfig, "upgrades")
    deployment = kubectl.get("deployment", "strobe-operator")["spec"]
    assert deployment["replicas"] == 3
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["image"] == "strobe-operator:new" and container["securityContext"]["runAsNonRoot"] is True
    assert kubectl.get("profilepolicy", "strobe")["spec"]["allowedLogdirs"] == ["gs://kept"]
    assert "metricsPort: 9472" in kubectl.get("configmap", "strobe-operator")["data"]["operator.yaml"]
    helm("uninstall", "strobe", "--no-hooks")
