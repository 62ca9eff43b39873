"""Removing Strobe in any order leaves nothing stuck, and the next installation can capture the pods that still run. Uses a
real node and real Helm; run by tests/cluster/inside."""

import json

import pytest

from tests.support.control_plane import Kubectl
from tests.support.installation import SPACE, annotated_pod, as_jane, helm, install, node, operator_log, store  # noqa: F401  Fixtures.
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import BIN, wait_until
from tests.support.rights import await_right

CRDS = ("profilerequests.strobe.dev", "profilepolicies.strobe.dev", "profileschedules.strobe.dev", "profiletriggers.strobe.dev")
TRAINERS = ("busy", "armed", "reclaimed", "idle")


@pytest.fixture(scope="module")
def team(node, store):
    """A namespace with trainers that run through all tests, injected by the first installation."""
    admin = Kubectl(node.kubeconfig)
    admin.create_namespace("ml")
    set_up(node, store)
    keys = [f"--from-literal={name}={value}" for name, value in store.env.items()]
    admin.run("create", "secret", "generic", "traces", *keys, "-n", "ml")
    kubectl = Kubectl(node.kubeconfig, "ml")
    for name in TRAINERS:
        # The programs are annotated with the SDK; the idle pod has no program that could be recorded.
        program = ["/bin/sleep", "100000"] if name == "idle" else [str(BIN / "annotated_program"), "1", "50"]
        pod = annotated_pod(name, {"strobe.dev/storage-secret": "traces"})
        pod["spec"]["containers"][0]["command"] = program
        kubectl.apply(pod)
    kubectl.run("wait", "--for=condition=Ready", *(f"pod/{name}" for name in TRAINERS), "--timeout=120s")
    return kubectl


def set_up(node, store):
    admin = Kubectl(node.kubeconfig)
    admin.run("create", "namespace", SPACE, check=False)
    install(node, store, "--set", "policy.maxConcurrent=4")
    admin.run("create", "rolebinding", "jane", "--clusterrole=strobe-profiler", "--user=jane", "-n", "ml", check=False)
    await_right(admin, "profile", "pods", user="jane", namespace="ml")


def request(name, logdir, trainer, **spec):
    return profile_request(name, logdir, target={"pods": [trainer]}, source="Agent", tracers={"device": "Disabled"}, **spec)


def reason(team, name):
    return condition(team.get("profreq", name), "Succeeded")["reason"]


def twenty_requests(team, logdir):
    """Creates requests in every state that a request can be in."""
    done = [request(f"done-{i}", logdir, "busy", reclaimPolicy="Delete" if i > 3 else "Retain") for i in range(1, 7)]
    as_jane(team, *done)
    for one in done:
        ended = condition(wait_finished(team, one["metadata"]["name"], 120), "Succeeded")
        assert ended["status"] == "True", ended
    as_jane(team, request("refused-1", logdir, "busy", minWorkers=5), request("refused-2", logdir, "busy", minWorkers=5, reclaimPolicy="Delete"),
            request("cancelled", logdir, "busy", cancel=True), request("nobody-1", logdir, "nobody"),
            request("nobody-2", logdir, "nobody", reclaimPolicy="Delete"))
    as_jane(team, request("armed", logdir, "armed", start={"delay": "50m"}), request("armed-reclaimed", logdir, "reclaimed", start={"delay": "50m"}, reclaimPolicy="Delete"))
    for name in ("armed", "armed-reclaimed"):
        wait_until(lambda: reason(team, name) == "Armed", 60, name)
    as_jane(team, request("queued-1", logdir, "armed"), request("queued-2", logdir, "armed", reclaimPolicy="Delete"))
    for name in ("queued-1", "queued-2"):
        wait_until(lambda: reason(team, name) == "WaitingForWorkers", 60, name)
    as_jane(team, request("recording", logdir, "busy", duration="9m"), request("unready", logdir, "idle", start={"readyTimeout": "1h"}))
    wait_until(lambda: reason(team, "recording") == "Recording", 60, "a recording")
    wait_until(lambda: reason(team, "unready") == "WaitingForReadiness", 60, "a wait for a profiler")
    as_jane(team, *(request(f"limited-{i}", logdir, "busy", reclaimPolicy="Delete" if i == 3 else "Retain") for i in range(1, 4)))
    for i in range(1, 4):
        wait_until(lambda: reason(team, f"limited-{i}") == "WaitingForPolicy", 60, "a wait for the policy")
    assert len(team.get("profreq")["items"]) == 20


def remove_chart(node):
    helm(node, "uninstall", "strobe", "--wait", "--timeout", "120s")


def remove_namespace(node):
    Kubectl(node.kubeconfig).run("delete", "namespace", SPACE, "--timeout=120s")


def remove_crds(node):
    Kubectl(node.kubeconfig).run("delete", "crd", *CRDS, "--timeout=120s")


def remove_requests(node):
    Kubectl(node.kubeconfig, "ml").run("delete", "profilerequests", "--all", "--timeout=120s")


def remove_what_is_left_of_the_chart(node):
    """The cleanup that docs/how-to/install.md describes for a namespace that was deleted with the release in it."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings"
    Kubectl(node.kubeconfig).run("delete", kinds, "-l", "app.kubernetes.io/instance=strobe")


ORDERS = {
    "chart": (remove_chart, remove_namespace, remove_requests, remove_crds),
    "namespace": (remove_namespace, remove_what_is_left_of_the_chart, remove_requests, remove_crds),
    "crds": (remove_crds, remove_chart, remove_namespace),
    "requests": (remove_requests, remove_chart, remove_namespace, remove_crds),
    "only the chart": (remove_chart,),
}


def finished(team):
    """The status of each request that has ended."""
    return {o["metadata"]["name"]: o["status"] for o in team.get("profreq")["items"] if condition(o, "Succeeded")["status"] in ("True", "False")}


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_is_stuck_and_a_new_installation_works(order, node, store, team):
    """There are 20 requests, in every state; the test's parameter says what is removed first."""
    admin = Kubectl(node.kubeconfig)
    try:
        twenty_requests(team, f"{store.url}/ml")
    except RuntimeError as error:
        raise AssertionError(f"{error}\n{operator_log(node)}") from error
    for step in ORDERS[order]:
        try:
            step(node)
        except RuntimeError as error:
            left = admin.run("get", "profilerequests,namespaces,crds", "-A", "-o", "wide", check=False).stdout
            raise AssertionError(f"{step.__name__}: {error}\n{left}\n{operator_log(node)}") from error
    kept = remove_requests not in ORDERS[order] and remove_crds not in ORDERS[order]
    ended = finished(team) if kept else {}
    assert not kept or set(ended) >= {f"done-{i}" for i in range(1, 7)}
    terminating = [o["metadata"]["name"] for kind in ("namespaces", "crds") for o in admin.get(kind)["items"] if "deletionTimestamp" in o["metadata"]]
    assert terminating == []
    assert any("strobe.dev" in o["metadata"]["name"] for o in admin.get("crds")["items"]) == (remove_crds not in ORDERS[order])
    # The next installation captures the same pods, which still have their first sidecars.
    set_up(node, store)
    for trainer in ("busy", "armed", "reclaimed"):
        as_jane(team, request(f"again-{trainer}", f"{store.url}/ml", trainer, start={"readyTimeout": "2m"}))
    for trainer in ("busy", "armed", "reclaimed"):
        again = wait_finished(team, f"again-{trainer}", 180)
        assert condition(again, "Succeeded")["status"] == "True", json.dumps(again["status"], indent=1) + operator_log(node) + team.run(
            "logs", trainer, "-c", "strobe-sidecar", "--tail=20", check=False).stdout
    # The captures that ended before the removal keep their statuses, and their requests can be deleted.
    now = finished(team)
    assert {name: now.get(name) for name in ended} == ended
    remove_requests(node)
