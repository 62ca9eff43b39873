"""What an upgrade meets: requests that an earlier version stored, and sidecars of the release before. The CRDs are upgraded before the operator, as the
chart does it."""

import json

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.older_peer import OlderWorker
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import wait_until
from tests.tools.check_protocol import PRESENT, described, problems, release_problems

# What the API server filled in before levels had names and limits could be left out.
STORED = {"tracers": {"host": 2, "hostFilter": 0, "device": 1, "python": 0}, "abortWhen": {"memoryPercent": 95, "slowdownPercent": 0},
          "attempts": 1, "minWorkers": "100%", "onLateStart": "Keep", "source": "Auto", "reclaimPolicy": "Retain"}
# A busy machine does not make these captures late.
WIDE = {"guard": "500ms"}


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
    kubectl.apply(profile_request("old", logdir, start=WIDE, **STORED))
    kubectl.install_crds()
    wait_until(lambda: "Unsupported value" in kubectl.run(
        "apply", "-f", "-", stdin=json.dumps(profile_request("new", logdir, **STORED)), check=False).stderr, 20, "the CRD's rules")
    Operator(group, kubectl.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    request = wait_finished(kubectl, "old")
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    kubectl.run("delete", "profreq", "old", "--timeout=30s")


# What sidecars could do without when they recorded their first traces.
FIRST = {"DescribeResponse": ["spool_free_bytes", "lead_ns", "containers", "steps"], "Source": ["ranks"], "ClockPong": ["wall_less_monotonic_ns"],
         "CapturePlan": ["abort_memory_percent", "abort_slowdown_percent", "container", "framework_servers", "wall_less_monotonic_ns", "ranks",
                         "local_ranks", "one_trace", "steps", "first_step", "step_loop", "steps_by_ns"],
         "Report": ["job", "processes", "processes_left_out", "workers", "rank", "steps"], "CancelRequest": ["keep"]}


@pytest.fixture
def older(group, kubectl, trainers):
    made = []

    def make(without=None):
        made.append(OlderWorker(group, "worker-0", trainers[0].profiler_port, without))
        return made[-1].register(kubectl)

    yield make
    for worker in made:
        worker.stop()


@pytest.mark.parametrize("without", [None, FIRST], ids=["recorded", "first"])
def test_pods_of_an_earlier_release_stay_capturable(group, kubectl, older, logdir, without):
    """They keep their sidecar until they end. It knows no newer field of a plan, and its answers have none."""
    worker = older(without)
    Operator(group, kubectl.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    kubectl.apply(profile_request("look", logdir, run="look", start=WIDE))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["reason"] in ("AllWorkersOk", "EnoughWorkersOk"), request["status"]
    assert condition(request, "Synchronized")["status"] == "True", request["status"]
    assert list((logdir / "plugins/profile/look").glob("*.xplane.pb")) and (logdir / "plugins/profile/look/strobe.json").exists()
    assert worker.dropped > 0 or without is None
    headline = "not decidable: no trace is summed up: its sidecar is too old to make reports"
    assert request["status"]["report"] == {"headline": headline}, request["status"]


def test_a_sidecar_that_knows_no_steps_is_not_taken_to_have_recorded_them(group, kubectl, older, logdir):
    older(FIRST)
    Operator(group, kubectl.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    kubectl.apply(profile_request("look", logdir, run="look", attempts=1, steps=3, start=WIDE))
    request = wait_finished(kubectl, "look")
    assert "it is a window of time, because worker-0 reports no steps" in condition(request, "Synchronized")["message"], request["status"]
    assert "steps" not in request["status"]


def test_a_change_of_the_protocol_that_an_earlier_release_does_not_understand_is_found():
    def change(edit):
        files = described(PRESENT)
        worker = next(file for file in files.file if file.name.endswith("worker.proto"))
        edit({message.name: message for message in worker.message_type}, worker)
        return [*problems(described(PRESENT), files)]

    def drop(messages, _):
        del messages["Report"].field[3]

    def retype(messages, _):
        messages["CapturePlan"].field[3].type = 5

    def rename(messages, _):
        messages["ProcessReport"].field[0].name = "title"

    def reuse(messages, _):
        messages["ReclaimRequest"].field.add(name="x", number=1, type=9, label=1)

    def renumber(_, worker):
        worker.enum_type[1].value[1].number = 99

    def lose(_, worker):
        del worker.service[0].method[0]

    def add(messages, worker):
        messages["Report"].field.add(name="more", number=1000, type=9, label=1)
        worker.enum_type[1].value.add(name="MORE", number=1000)
        worker.service[0].method.add(name="More", input_type=".strobe.v1.Report", output_type=".strobe.v1.Report")

    assert change(lambda *_: None) == [] and change(add) == []
    for edit, words in [(drop, "field 4 (string message) is gone"), (retype, "field 4 was int64 duration_ns and is int32 duration_ns"),
                        (rename, "field 1 was string name and is string title"), (reuse, "a number that was reserved"),
                        (renumber, "value 1 was OK and is gone"), (lose, "method Describe is gone")]:
        (found,) = change(edit)
        assert words in found
    assert not [*release_problems("0.1.4", "0.2.0")] and not [*release_problems("0.9.0", "1.0.0")]
    assert [*release_problems("0.1.0", "0.3.0")] and [*release_problems("0.2.0", "0.1.0")]
