"""What one namespace may have of Strobe's objects (docs/reference/profilepolicy.md), and that it takes nothing from another one."""

import json

import pytest

from tests.support.control_plane import Kubectl
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import wait_until
from tests.support.rights import grant, user_named
from tests.support.secure import ChartOperator, SecureSidecar, grant_creating

PLURALS = {"ProfileRequest": "profilerequests", "ProfileSchedule": "profileschedules", "ProfileTrigger": "profiletriggers"}


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]').lead_webhooks_here()
    yield operator.apply("--server-side").start().wait_ready()
    operator.process.kill()
    operator.remove()


@pytest.fixture
def mallory(plane, kubectl, operator):
    """kubectl in the namespace of a user who may create what any user may, in that namespace only."""
    name = f"{kubectl.namespace}-mallory"
    kubectl.create_namespace(name)
    space = Kubectl(plane.kubeconfig, name)
    grant(space, "mallory", [{"apiGroups": ["strobe.dev"], "resources": list(PLURALS.values()), "verbs": ["create", "get", "patch"]},
                             {"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"]}], user_named("mallory"))
    return space


def made(kind, name, logdir, **metadata):
    capture = {"target": {"pods": ["nobody"]}, "logdir": str(logdir), "duration": "100ms", "start": {"readyTimeout": "1h"}}
    spec = {"ProfileRequest": {**capture, "attempts": 1},
            "ProfileSchedule": {"interval": "5s", "concurrencyPolicy": "Allow", "template": {"spec": capture}},
            "ProfileTrigger": {"alerts": {"matchLabels": {"alertname": "Slow"}}, "template": {"spec": capture}}}[kind]
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def await_webhooks(kubectl, logdir):
    wait_until(lambda: kubectl.create(made("ProfileRequest", "try", logdir), dry_run=True).returncode == 0, 30, "the webhooks")


def entries(field, count):
    if field == "finalizers":
        return [f"example.com/{i}" for i in range(count)]
    if field == "ownerReferences":
        return [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"} for i in range(count)]
    return {f"k{i}": "" for i in range(count)}


@pytest.mark.parametrize("kind", PLURALS)
def test_the_metadata_of_an_object_is_bounded(operator, mallory, logdir, kind):
    await_webhooks(mallory, logdir)
    for field, most in (("labels", 64), ("annotations", 60), ("finalizers", 16), ("ownerReferences", 16)):
        # Webhooks of this operator and of kubectl add annotations of their own.
        refused = mallory.create(made(kind, "large", logdir, **{field: entries(field, most + 5)}), user="mallory")
        assert refused.returncode != 0 and f"metadata.{field} has" in refused.stderr, refused.stderr
        name = f"fits-{field.lower()}"
        mallory.create(made(kind, name, logdir, **{field: entries(field, most)}), user="mallory", check=True)
        grown = mallory.run("patch", PLURALS[kind], name, "--type=merge", "--as=mallory", "-p",
                            json.dumps({"metadata": {field: entries(field, most + 5)}}), check=False)
        assert grown.returncode != 0 and f"metadata.{field} has" in grown.stderr, grown.stderr
        mallory.run("patch", PLURALS[kind], name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))


def test_a_namespace_that_has_all_it_may_have_delays_no_other(operator, group, kubectl, mallory, trainers, tmp_path, logdir):
    """Objects as large and as many as a user may create, while another namespace's capture begins."""
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profilerequests", profile=True)
    SecureSidecar(group, operator, "worker-0", trainers[0].profiler_port, tmp_path / "w0").start().wait()
    # Kubernetes itself does not bound the labels of pods.
    labels = {"app": "train", "strobe.dev/inject": "true"} | {f"{i:x}": "" for i in range(20_000)}
    for i in range(6):
        mallory.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}", "labels": labels},
                        "spec": {"serviceAccountName": "default", "containers": [{"name": "t", "image": "t"}]}}, check=True)
    for i in range(8):
        mallory.create(profile_request(f"large-{i}", logdir, start={"readyTimeout": "1h"}), user="mallory", check=True)
        named = {"pods": [f"{'n' * 240}-{i}-{j}" for j in range(1000)]}
        mallory.create(profile_request(f"named-{i}", logdir, target=named, start={"readyTimeout": "1h"}), user="mallory", check=True)
    for kind in ("ProfileSchedule", "ProfileTrigger"):
        made_objects = [made(kind, f"s{i}", logdir) for i in range(201)]
        told = mallory.create(*made_objects, user="mallory")
        assert told.stderr.count("and may have 200") == 1, told.stderr[-1000:]
    wait_until(lambda: len(mallory.get("profilerequests")["items"]) > 60, 60, "runs of the schedules")

    for i in range(3):
        kubectl.create(profile_request(f"look-{i}", logdir, attempts=1), user="jane", check=True)
        wait_until(lambda i=i: condition(kubectl.get("profilerequest", f"look-{i}"), "Accepted")["status"] == "True", 3, "the start of a capture")
        ended = condition(wait_finished(kubectl, f"look-{i}"), "Succeeded")
        assert ended["status"] == "True", ended
    assert operator.process.running()
    kept = [run for run in mallory.get("profilerequests")["items"] if "strobe.dev/schedule" in run["metadata"].get("labels", {})]
    assert len(kept) <= 205, "at most 200 have not finished; each of four threads may add one"
