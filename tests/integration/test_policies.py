"""The status of ProfilePolicies on a real API server."""

import json

from tests.support.control_plane import Kubectl
from tests.support.operator import condition
from tests.support.processes import wait_until
from tests.support.secure import allow


def ready(kubectl: Kubectl, reason):
    """Waits until the condition Ready of the namespace's policy has the reason, and returns the policy."""
    def seen():
        policy = kubectl.get("profilepolicy", kubectl.namespace)
        told = condition(policy, "Ready")
        return policy if told["reason"] == reason and told["observedGeneration"] == policy["metadata"]["generation"] else None

    return wait_until(seen, 30, f"Ready with the reason {reason}")


def test_the_condition_ready_follows_the_spec(kubectl, operator):
    name = kubectl.namespace
    allow(kubectl, "/logs", maxConcurrent=2, maxBytesPerWorker="512Mi", defaultLogdir="/logs/{namespace}",
          automatic={"coolDown": "10m", "capturesPerDay": 48, "dutyCycle": "0.5%", "bytesPerDay": "20Gi", "maxConcurrent": 1, "keep": {"runs": 50, "for": "720h"}})
    kubectl.run("wait", "--for=condition=Ready", f"profpol/{name}", "--timeout=30s")
    valid = ready(kubectl, "Valid")
    assert valid["status"]["observedGeneration"] == valid["metadata"]["generation"]
    heading, row = kubectl.run("get", "profpol", name).stdout.splitlines()
    assert heading.split() == ["NAME", "READY", "LOGDIRS", "MAXDURATION", "MAXCONCURRENT", "AGE"]
    assert row.split()[:2] == [name, "True"]
    wide = kubectl.run("get", "profpol", name, "-o", "wide").stdout
    assert "512Mi" in wide and "/logs/{namespace}" in wide

    allow(kubectl, "s3://localhost/logs", defaultLogdir="s3://localhost/logs")
    broken = condition(ready(kubectl, "InvalidLogdir"), "Ready")
    assert broken["status"] == "False" and "allowedLogdirs[0]: logdir s3://localhost/logs names a host" in broken["message"]

    # The schema does not know the rules of labels.
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": name},
                   "spec": {"namespaceSelector": {"matchLabels": {"bad key": "x"}}, "allowedLogdirs": ["/logs"]}})
    unusable = condition(ready(kubectl, "InvalidSpec"), "Ready")
    assert "namespaceSelector.matchLabels" in unusable["message"] and "allows nothing" in unusable["message"]
    assert unusable["lastTransitionTime"] == broken["lastTransitionTime"], "it was not ready before either"


def test_a_status_is_written_once_and_by_one_manager(kubectl, operator):
    allow(kubectl, "/logs")
    first = ready(kubectl, "Valid")
    kubectl.run("label", "profpol", kubectl.namespace, "seen=true")
    allow(kubectl, "/logs", maxDuration="1s")
    second = ready(kubectl, "Valid")
    assert second["status"]["conditions"][0]["lastTransitionTime"] == first["status"]["conditions"][0]["lastTransitionTime"]
    shown = json.loads(kubectl.run("get", "profpol", kubectl.namespace, "-o", "json", "--show-managed-fields").stdout)
    assert [entry["manager"] for entry in shown["metadata"]["managedFields"] if entry.get("subresource") == "status"] == ["strobe-operator"]


def test_the_schema_refuses_with_a_sentence(kubectl):
    for spec, words in [({"maxDuration": "soon"}, "maxDuration must be a duration, written such as 30s or 5m"),
                        ({"minInterval": "5"}, "minInterval must be a duration"),
                        ({"maxConcurrent": 0}, "spec.maxConcurrent"),
                        ({"maxBytesPerWorker": 0}, "maxBytesPerWorker must be a quantity of at least 1Ki"),
                        ({"maxBytesPerWorker": "2GiB"}, "leave it out for no limit"),
                        ({"sidecar": {"runAsUser": 0}}, "spec.sidecar.runAsUser"),
                        ({"sidecar": {"runAsGroup": 1000}}, "runAsGroup needs runAsUser"),
                        ({"sidecar": {}}, "spec.sidecar"),
                        ({"automatic": {}}, "spec.automatic"),
                        ({"automatic": {"coolDown": "5s"}}, "coolDown must be whole seconds, minutes or hours between 10s and 24h"),
                        ({"automatic": {"capturesPerDay": 0}}, "spec.automatic.capturesPerDay"),
                        ({"automatic": {"dutyCycle": "0%"}}, "dutyCycle must be above 0%"),
                        ({"automatic": {"bytesPerDay": "-1"}}, "bytesPerDay must be a positive quantity"),
                        ({"automatic": {"maxConcurrent": 0}}, "spec.automatic.maxConcurrent"),
                        ({"automatic": {"keep": {}}}, "spec.automatic.keep"),
                        ({"automatic": {"keep": {"runs": 0}}}, "spec.automatic.keep.runs"),
                        ({"automatic": {"keep": {"for": "30s"}}}, "for must be whole seconds, minutes or hours, at least 1m"),
                        ({"defaultLogdir": "/logs2"}, "defaultLogdir must be one of allowedLogdirs or below one")]:
        policy = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": kubectl.namespace},
                  "spec": {"allowedLogdirs": ["/logs"], **spec}}
        done = kubectl.run("apply", "-f", "-", stdin=json.dumps(policy), check=False)
        assert done.returncode != 0 and words in done.stderr, (spec, done.stderr)
