"""The Helm chart without a node: what it renders, which values it refuses and which rights it requests."""

import json
import subprocess

import pytest
import yaml

from tests.support.control_plane import Kubectl
from tests.support.processes import BIN, ROOT, TOOLS
from tests.support.secure import chart_objects

CHART = ROOT / "helm" / "strobe"
EVERYTHING = ["--set", "replicaCount=2,networkPolicy.enabled=true,flowSchema.enabled=true,metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true",
              "--set", "policy.maxDuration=30s,policy.maxConcurrent=2,policy.minInterval=1m,policy.maxBytesPerWorker=2147483648",
              "--set-json", 'logdirs=["gs://b/{namespace}","/mnt/logs"]', "--set-json", 'extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x-{{ .Release.Name }}"}}]']


# The kinds whose objects say how many workers a job should have; operator/objects/job_json.cc reads them.
JOB_KINDS = ["jobs", "statefulsets", "replicasets", "daemonsets", "jobsets", "leaderworkersets", "pytorchjobs", "tfjobs", "jaxjobs", "mpijobs",
             "xgboostjobs", "paddlejobs", "rayclusters", "rayjobs", "rayservices", "workloads"]


def helm(*arguments):
    return subprocess.run([TOOLS / "helm", *map(str, arguments)], capture_output=True, text=True)


def test_the_same_values_make_the_same_bytes():
    renders = {helm("template", "s", CHART, *EVERYTHING).stdout for _ in range(2)}
    assert len(renders) == 1 and len(renders.pop()) > 10_000
    assert helm("lint", "--strict", CHART).returncode == 0


@pytest.mark.parametrize("setting", ["nothing=1", "image.repositry=x", "replicaCount=many", "webhook.port=99999", "webhook.timeoutSeconds=60",
                                     "policy.maxDuration=soon", "log.level=loud", "tls.settle=1", "injection.cpu=lots", "workers=0"])
def test_values_that_are_refused(setting):
    done = helm("template", "s", CHART, "--set", setting)
    assert done.returncode != 0 and setting.split("=")[0].split(".")[-1] in done.stderr, done.stderr


def test_logdirs_are_looked_at():
    for bad in ("s3://key@bucket", "http://x", "relative", "gs://b?x=y"):
        assert helm("template", "s", CHART, "--set-json", f'logdirs=["{bad}"]').returncode != 0


def test_the_readme_is_of_these_values():
    done = subprocess.run([ROOT / "tools/chart_readme", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_schema_knows_every_value_and_no_other():
    def keys(value, prefix=""):
        for key, inner in value.items():
            yield prefix + key
            if isinstance(inner, dict):
                yield from keys(inner, f"{prefix}{key}.")

    def known(schema, prefix=""):
        for key, inner in schema.get("properties", {}).items():
            yield prefix + key
            yield from known(inner, f"{prefix}{key}.")

    schema = json.loads((CHART / "values.schema.json").read_text())
    values = set(keys(yaml.safe_load((CHART / "values.yaml").read_text())))
    free = ("resources.", "namespaceSelector.", "metrics.dashboard.labels.")
    assert {v for v in values if not v.startswith(free)} == set(known(schema)) - {"global"}


def test_the_api_server_takes_every_object(plane):
    kubectl = Kubectl(plane.kubeconfig)
    for space in ("strobe-system", "strobe-system-authority"):
        kubectl.run("create", "namespace", space, check=False)
    objects = [o for o in chart_objects(*EVERYTHING) if "monitoring.coreos.com" not in o["apiVersion"]]
    assert len(objects) > 25
    for space in ("strobe-system", "strobe-system-authority"):
        of_space = [o for o in objects if o["metadata"].get("namespace", "strobe-system") == space]
        assert of_space
        done = kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", space, "-f", "-", stdin="\n---\n".join(map(json.dumps, of_space)), check=False)
        assert done.returncode == 0, done.stderr


def test_the_operator_understands_its_configuration(tmp_path):
    for arguments in ([], ["--set", "tls.enabled=false"], ["--set", "webhook.certManager=true"], ["--set", "watchNamespace=ml,injection.user=0"]):
        (config,) = [o for o in chart_objects(*arguments) if o["kind"] == "ConfigMap" and "data" in o]
        file = tmp_path / "operator.yaml"
        file.write_text(config["data"]["operator.yaml"])
        done = subprocess.run([BIN / "strobe-operator", "--config", file, "--kubeconfig", "/nowhere"], capture_output=True, text=True)
        # The configuration was accepted; only the kubeconfig is missing.
        assert done.returncode == 1 and "kubeconfig /nowhere" in done.stdout + done.stderr, done.stderr


def test_the_operator_may_do_no_more_than_it_must():
    """The operator's complete rights. A change to this list needs a change to SECURITY.md."""
    rules = {}
    for o in chart_objects():
        if o["kind"] in ("ClusterRole", "Role") and o["metadata"]["name"] in ("strobe-operator", "strobe-operator-authority"):
            where = o["kind"] if o["kind"] == "ClusterRole" else f"Role in {o['metadata']['namespace']}:"
            for rule in o["rules"]:
                for resource in rule["resources"]:
                    rules[f"{where} {resource}{' ' + ','.join(rule['resourceNames']) if 'resourceNames' in rule else ''}"] = sorted(rule["verbs"])
    assert rules == {
        "ClusterRole profilerequests": ["delete", "get", "list", "patch", "watch"],
        "ClusterRole profilerequests/status": ["patch"],
        "ClusterRole profilepolicies": ["get", "list"],
        "ClusterRole pods": ["get", "list"],
        "ClusterRole namespaces": ["get"],
        "ClusterRole resourcequotas": ["list"],
        "ClusterRole limitranges": ["list"],
        "ClusterRole events": ["create", "patch"],
        "ClusterRole subjectaccessreviews": ["create"],
        "ClusterRole tokenreviews": ["create"],
        **{f"ClusterRole {kind}": ["get"] for kind in JOB_KINDS},
        "ClusterRole mutatingwebhookconfigurations strobe": ["get", "update"],
        "ClusterRole validatingwebhookconfigurations strobe": ["get", "update"],
        "Role in strobe-system-authority: secrets strobe-authority": ["get", "patch"],
        "Role in strobe-system: configmaps strobe-operator-state": ["get", "patch"],
        "Role in strobe-system: services strobe-operator": ["get"],
        "Role in strobe-system: leases": ["create"],
        "Role in strobe-system: leases strobe-operator": ["get", "update"],
    }


def test_jobs_are_read_only_where_that_is_wanted():
    (role,) = [o for o in chart_objects("--set", "rbac.readJobs=false") if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "strobe-operator"]
    assert not {r for rule in role["rules"] for r in rule["resources"]} & set(JOB_KINDS)


def test_every_pod_of_the_chart_is_restricted():
    for o in chart_objects(*EVERYTHING):
        template = o["spec"]["template"]["spec"] if o["kind"] in ("Deployment", "Job") else o["spec"] if o["kind"] == "Pod" else None
        for container in (template or {}).get("containers", []):
            security = container["securityContext"]
            assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]} and security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_operator_that_watches_one_namespace_is_asked_about_no_other():
    """Two operators that watch different namespaces must not stamp each other's requests."""
    for o in chart_objects("--set", "watchNamespace=ml"):
        for webhook in o.get("webhooks", []):
            assert {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["ml"]} in webhook["namespaceSelector"]["matchExpressions"], webhook["name"]


def test_only_what_is_created_depends_on_the_webhooks():
    """Objects that exist already can be changed and deleted while the operator is down."""
    found = {(w["name"].split(".")[0], w["failurePolicy"]): w["rules"][0]["operations"] for o in chart_objects() for w in o.get("webhooks", [])}
    assert {name: operations for (name, policy), operations in found.items() if policy == "Fail"} == {"stamp-requests": ["CREATE"], "check-requests": ["CREATE"]}
    assert found[("keep-requests", "Ignore")] == ["UPDATE"]


def test_the_values_for_client_certificates(tmp_path):
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"webhook": {"clientAuthority": pem, "clientNames": ["kube-apiserver"]}}))
    (config,) = [o for o in chart_objects("--values", str(values)) if o["kind"] == "ConfigMap" and "operator.yaml" in o.get("data", {})]
    assert config["data"]["client-authority.crt"] == pem
    webhook = yaml.safe_load(config["data"]["operator.yaml"])["webhook"]
    assert webhook["clientAuthority"] == "/etc/strobe/client-authority.crt" and webhook["clientNames"] == ["kube-apiserver"]


def test_a_package_carries_the_crds_and_no_sample(tmp_path):
    assert helm("package", CHART, "--destination", tmp_path).returncode == 0
    (package,) = tmp_path.glob("*.tgz")
    names = subprocess.run(["tar", "tf", package], capture_output=True, text=True).stdout.split()
    assert [n for n in names if "/crds/" in n] == ["strobe/crds/profilepolicies.yaml", "strobe/crds/profilerequests.yaml"]


def test_images_are_the_same_each_time_and_small(tmp_path):
    for kind in ("operator", "sidecar"):
        archives = [tmp_path / f"{kind}-{i}.tar" for i in range(2)]
        for archive in archives:
            done = subprocess.run([ROOT / "tools/image", kind, archive], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr  # tools/image fails if the image is larger than 60 MiB.
        assert archives[0].read_bytes() == archives[1].read_bytes()
