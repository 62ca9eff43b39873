"""Which workers a request targets, which of them are missing, and which rank each has, on a real API server."""

import json
import re
import time
from concurrent import futures

import pytest

from tests.conftest import read_manifest
from tests.support.agent_rig import AgentRig, events
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import ROOT, high_water, memory, wait_until
from tests.support.rights import await_bindings, user_named
from tests.support.secure import chart_objects, make_pod
from tests.support.tls import issue

FAST = {"attempts": 1, "start": {"readyTimeout": "3s"}}


def job(name, pods, **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"parallelism": pods, "completions": pods, "template": template, **spec}}


def job_request(name, logdir, kind="Job", job="llm", **spec):
    return profile_request(name, logdir, target={"jobRef": {"kind": kind, "name": job}}, **{**FAST, **spec})


def of_job(worker, kubectl, name="llm"):
    return worker.register(kubectl, {"batch.kubernetes.io/job-name": name})


def define(kubectl, group, version, kind, plural):
    """Installs a minimal CRD for a kind of another project."""
    kubectl.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
                   "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                                "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
    kubectl.run("wait", "--for=condition=Established", f"crd/{plural}.{group}", "--timeout=30s")


def test_workers_that_a_job_has_not_created_are_missing(kubectl, operator, make_workers, logdir):
    """A capture of 300 pods of a job with 512 used to end as AllWorkersOk."""
    kubectl.apply(job("llm", 3))
    for worker in make_workers(2):
        of_job(worker, kubectl)
    kubectl.apply(job_request("look", logdir))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Failed")["reason"] == "WorkerMissing", request["status"]
    assert "2/3 workers are present" in condition(request, "Accepted")["message"]
    assert request["status"]["workers"]["expected"] == request["status"]["workers"]["matched"] == 3
    assert request["status"]["outcomes"][0] == {"pod": "(rank 2)", "cause": "WorkerMissing", "message": "the Job should have 3 workers; 2 of them have a pod"}

    kubectl.apply(job_request("most", logdir, minWorkers="60%"))
    request = wait_finished(kubectl, "most")
    assert condition(request, "Succeeded")["reason"] == "EnoughWorkersOk", request["status"]
    assert request["status"]["workers"]["summary"] == "2/3"
    manifest = read_manifest(logdir)
    assert (manifest["job"], manifest["requester"]) == ("Job/llm", ""), "without webhooks nobody knows who asked"
    missing = manifest["workers"][2]
    assert (missing["pod"], missing["rank"], missing["outcome"]) == ("", 2, "WorkerMissing")


def test_workers_that_come_late_are_waited_for(kubectl, operator, make_workers, logdir):
    kubectl.apply(job("llm", 3))
    workers = make_workers(3)
    of_job(workers[0], kubectl)
    kubectl.apply(job_request("look", logdir, start={"readyTimeout": "60s"}))
    wait_until(lambda: "1/3 workers are present" in condition(kubectl.get("profreq", "look"), "Succeeded").get("message", ""), 15, "the wait")
    for worker in workers[1:]:
        of_job(worker, kubectl)
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["reason"] == "AllWorkersOk"
    assert request["status"]["workers"]["summary"] == "3/3"


def test_a_suspended_job_waits(kubectl, operator, make_workers, logdir):
    kubectl.apply(job("llm", 1, suspend=True))
    kubectl.apply(job_request("look", logdir, start={"readyTimeout": "0s"}))
    wait_until(lambda: condition(kubectl.get("profreq", "look"), "Succeeded")["reason"] == "JobSuspended", 15, "that it is seen")
    of_job(*make_workers(1), kubectl)
    kubectl.run("patch", "job", "llm", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    assert condition(wait_finished(kubectl, "look"), "Succeeded")["status"] == "True"


def test_expected_workers_says_it_for_a_selector(kubectl, operator, make_workers, logdir):
    make_workers(2, kubectl)
    kubectl.apply(profile_request("unknown", logdir))
    message = condition(wait_finished(kubectl, "unknown"), "Accepted")["message"]
    assert message == "2 workers are present; the expected number is not known: target.expectedWorkers is not set"
    target = {"selector": {"matchLabels": {"app": "train"}}, "expectedWorkers": 16}
    kubectl.apply(profile_request("look", logdir, target=target, minWorkers=2, **FAST))
    assert wait_finished(kubectl, "look")["status"]["workers"]["summary"] == "2/16"
    for bad in (0, 10001):
        refused = kubectl.run("apply", "-f", "-", stdin=json.dumps(profile_request("bad", logdir, target={**target, "expectedWorkers": bad})), check=False)
        assert "target.expectedWorkers" in refused.stderr


def test_a_multi_slice_jobset_is_numbered_slice_by_slice(kubectl, operator, make_workers, logdir):
    """Four slices of two hosts each. A host's completion index repeats in each slice, so that it alone would give two workers one rank; and a
    host that is missing is named by its rank in the whole job."""
    define(kubectl, "jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    kubectl.apply({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "llm"}, "spec": {"replicatedJobs": [
        {"name": "slice", "replicas": 4, "template": {"spec": {"parallelism": 2, "completions": 2}}}]}})
    # (slice, host) of each worker that has a pod; five hosts have none.
    places = [(3, 1), (0, 1), (2, 0)]
    for worker, (piece, host) in zip(make_workers(3), places, strict=True):
        worker.register(kubectl, {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/replicatedjob-name": "slice",
                                  "jobset.sigs.k8s.io/job-index": str(piece), "jobset.sigs.k8s.io/job-global-index": str(piece),
                                  "batch.kubernetes.io/job-completion-index": str(host)})
    kubectl.apply(job_request("look", logdir, kind="JobSet", minWorkers=3))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Accepted")["message"] == "3/8 workers are present"
    assert request["status"]["workers"]["summary"] == "3/8" and condition(request, "Succeeded")["reason"] == "EnoughWorkersOk"
    workers = read_manifest(logdir)["workers"]
    assert {w["pod"]: w["rank"] for w in workers if w["pod"]} == {"worker-0": 7, "worker-1": 1, "worker-2": 4}
    assert [w["rank"] for w in workers] == list(range(8)) and {w["outcome"] for w in workers if not w["pod"]} == {"WorkerMissing"}


def plural_of(kind):
    return kind.lower() + "s"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "tests/golden/jobs").glob("*.json")))
def test_pods_are_found_as_their_controllers_make_them(kubectl, operator, logdir, name):
    """The objects and pods are recordings of the real controllers; see tests/controllers/record.py."""
    recorded = json.loads((ROOT / f"tests/golden/jobs/{name}.json").read_text())
    for made in recorded["objects"]:
        group, _, version = made["apiVersion"].partition("/")
        if group != "batch":
            define(kubectl, group, version, made["kind"], plural_of(made["kind"]))
    for made in [*recorded["objects"], *recorded["pods"]]:
        metadata = made["metadata"]
        # Their owners have other UIDs here. A job's own pod template lacks nothing without its status.
        for foreign in ("namespace", "finalizers"):
            metadata.pop(foreign, None)
        for owner in metadata.get("ownerReferences", []):
            owner["uid"] = "00000000-0000-0000-0000-000000000000"
    kubectl.apply(*recorded["objects"], *recorded["pods"])
    kubectl.apply(profile_request("look", logdir, target={"jobRef": recorded["jobRef"]}, **FAST))
    if not recorded["pods"]:
        wait_until(lambda: condition(kubectl.get("profreq", "look"), "Succeeded").get("reason") == "JobSuspended", 15, "that it is seen")
        assert f"0/{recorded['workers']} workers are present" in condition(kubectl.get("profreq", "look"), "Succeeded")["message"]
        return
    # The pods are not injected, so that the request can only tell how many there are.
    wait_until(lambda: condition(kubectl.get("profreq", "look"), "Accepted").get("message", "").startswith(f"none of {recorded['workers']} pods can"),
               15, "the workers to be found")


@pytest.fixture
def limited(plane, kubectl, group, tmp_path):
    """An operator with the chart's own rights, except the right to read jobs."""
    issue(plane.dir, kubectl.namespace, f"/CN={kubectl.namespace}", server=False)
    kubeconfig = tmp_path / "limited.kubeconfig"
    plane.write_kubeconfig(kubeconfig, kubectl.namespace)
    (role,) = [o for o in chart_objects("--set", "rbac.readJobs=false") if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "strobe-operator"]
    role["metadata"]["name"] = f"operator-{kubectl.namespace}"
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role["metadata"]["name"]},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
               "subjects": [user_named(kubectl.namespace)]}
    kubectl.apply(role, binding)
    await_bindings(kubectl, role, binding)
    return Operator(group, kubeconfig, flags=["--no-leader-election"], config={"watch": {"namespace": kubectl.namespace}}).start().wait_ready()


def test_a_job_that_may_not_be_read_is_captured_and_said_to_be_of_unknown_size(limited, kubectl, make_workers, logdir):
    kubectl.apply(job("llm", 3))
    of_job(*make_workers(1), kubectl)
    kubectl.apply(job_request("look", logdir))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert f"the operator may not read Job {kubectl.namespace}/llm" in condition(request, "Accepted")["message"]
    assert "expected" not in request["status"]["workers"]
    # It also holds for a kind whose API is not installed.
    kubectl.run("label", "pod", "worker-0", "ray.io/cluster=llm", "ray.io/node-type=worker")
    kubectl.apply(job_request("ray", logdir, kind="RayCluster"))
    assert "may not read RayCluster" in condition(wait_finished(kubectl, "ray"), "Accepted")["message"]


def test_a_kind_that_is_not_installed_is_of_unknown_size(kubectl, operator, make_workers, logdir):
    make_workers(1)[0].register(kubectl, {"leaderworkerset.sigs.k8s.io/name": "llm"})
    kubectl.apply(job_request("look", logdir, kind="LeaderWorkerSet"))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "True"
    assert "there is no LeaderWorkerSet" in condition(request, "Accepted")["message"]


def test_a_selector_that_no_list_takes_is_refused_at_once(kubectl, operator, logdir):
    """A request like this used to be admitted; every list then failed with status 400, and the request never got a status."""
    kubectl.apply(profile_request("spaces", logdir, selector={"app": "my app"}),
                  profile_request("long", logdir, target={"jobRef": {"kind": "Job", "name": "a" * 64}}))
    request = wait_finished(kubectl, "spaces", 15)
    assert condition(request, "Failed")["reason"] == "InvalidSpec"
    assert 'target.selector.matchLabels: the value "my app" must' in condition(request, "Failed")["message"]
    assert "target.jobRef.name" in condition(wait_finished(kubectl, "long", 15), "Failed")["message"]
    kubectl.run("delete", "profreq", "spaces", "long", "--timeout=15s")


def test_a_container_that_a_pod_does_not_have_is_an_outcome(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    target = {"selector": {"matchLabels": {"app": "train"}}, "container": "learner"}
    kubectl.apply(profile_request("look", logdir, target=target, attempts=1, start={"readyTimeout": "0s"}))
    request = wait_finished(kubectl, "look", 60)
    assert condition(request, "Failed")["reason"] == "WorkerMissing"
    assert "the pod has no container learner" in condition(request, "Failed")["message"]
    kubectl.apply(profile_request("right", logdir, target={**target, "container": "trainer"}))
    assert condition(wait_finished(kubectl, "right"), "Succeeded")["status"] == "True"
    assert read_manifest(logdir)["workers"][0]["container"] == "trainer"


@pytest.fixture
def two_containers(group, tmp_path, protos):
    """A pod whose two trainers share the agent directory, started as injection would start them."""
    import grpc
    from strobe.v1 import worker_pb2, worker_pb2_grpc

    rig = AgentRig(group, tmp_path)
    rig.program(1, 100, env={"STROBE_CONTAINER": "actor"})
    rig.program(3, 100, env={"STROBE_CONTAINER": "learner"})
    rig.untagged = rig.program(1, 100)
    rig.sidecar(flags=["--containers", "actor,learner"])
    return rig, worker_pb2_grpc.WorkerStub(grpc.insecure_channel(f"127.0.0.1:{rig.port}")), worker_pb2


def plan_for(pb, rig, container, run="r", **fields):
    now = time.time_ns()
    return pb.CapturePlan(capture_id=f"c-{now}", instant_ns=now + 1_000_000_000, duration_ns=300_000_000, guard_ns=500_000_000, logdir=str(rig.logdir),
                          run=run, worker="w0", deadline_ns=now + 60_000_000_000, tracers=pb.Tracers(host=2), container=container, **fields)


def test_programs_of_one_container_alone_are_recorded(two_containers):
    rig, stub, pb = two_containers
    assert list(stub.Describe(pb.DescribeRequest(), timeout=5).containers) == ["actor", "learner"]
    plan = plan_for(pb, rig, "learner")
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    *_, report = stub.Watch(pb.WatchRequest(capture_id=plan.capture_id), timeout=30)
    assert report.outcome == pb.PROFILER_START_FAILED, report
    assert "does not say in which container" in report.message, "it may be one of those that were asked for"
    assert len({line for line, *_ in events(rig.space())}) == 3, "the threads of the one program in it"
    rig.untagged.stop()
    plan = plan_for(pb, rig, "learner", run="again")
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    *_, report = stub.Watch(pb.WatchRequest(capture_id=plan.capture_id), timeout=30)
    assert report.outcome == pb.OK, report


def test_a_container_that_cannot_be_told_apart_is_refused(two_containers):
    rig, stub, pb = two_containers
    for plan, words in ((plan_for(pb, rig, "proxy"), "cannot distinguish the programs of container proxy"),
                        (plan_for(pb, rig, "learner", source=pb.SOURCE_FRAMEWORK), "share its ports")):
        refused = stub.Arm(pb.ArmRequest(plan=plan), timeout=5)
        assert not refused.accepted and refused.refusal == pb.NO_SOURCE and words in refused.message


def test_a_worker_that_sends_reports_without_end_costs_the_operator_little(group, kubectl, operator, make_workers, protos, logdir):
    """A stream used to have no back-pressure: each report was parsed, copied and queued."""
    import grpc
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    sent = []

    class Flood(worker_pb2_grpc.WorkerServicer):
        def Describe(self, request, context):
            return pb.DescribeResponse(version="x", protocol=1, worker="flood", sources=[pb.Source(address="a", ready=True)])

        def ProbeClock(self, pings, context):
            for ping in pings:
                yield pb.ClockPong(sequence=ping.sequence, received_ns=time.time_ns(), sent_ns=time.time_ns())

        def Arm(self, request, context):
            self.plan = request.plan
            return pb.ArmResponse(accepted=True, report=pb.Report(capture_id=request.plan.capture_id, state=pb.ARMED, plan=request.plan))

        def Watch(self, request, context):
            report = pb.Report(capture_id=request.capture_id, state=pb.RECORDING, plan=self.plan, message="x" * 200_000)
            while context.is_active():
                sent.append(1)
                yield report

        def Cancel(self, request, context):
            return pb.CancelResponse(known=True)

    port = free_port()
    server = grpc.server(futures.ThreadPoolExecutor(8))
    worker_pb2_grpc.add_WorkerServicer_to_server(Flood(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        make_workers(1, kubectl)
        make_pod(kubectl, "flood", port, index=1)
        before = high_water(operator.process.pid)
        kubectl.apply(profile_request("look", logdir, attempts=1, minWorkers=1, start={"guard": "500ms"}))
        request = wait_finished(kubectl, "look")
    finally:
        server.stop(0)
    assert condition(request, "Succeeded")["reason"] == "EnoughWorkersOk", request["status"]
    (flood,) = request["status"]["outcomes"]
    assert flood["cause"] == "WorkerLost" and "more than 64 reports" in flood["message"]
    assert len(sent) < 1000, "the stream was ended"
    assert high_water(operator.process.pid) < before + 64
    assert memory(operator.process.pid, "VmRSS") > 0


def test_requests_that_wait_for_their_pods_ask_little(group, kubectl, plane, proxy, tmp_path, logdir):
    """A hundred waiting requests cause at most 25 API calls per second."""
    operator = Operator(group, proxy.kubeconfig(tmp_path / "proxied"), flags=["--no-leader-election"],
                        config={"watch": {"namespace": kubectl.namespace}}).start().wait_ready()
    kubectl.apply(*[profile_request(f"r{i}", logdir, selector={"app": f"nobody-{i}"}, start={"readyTimeout": "10m"}) for i in range(100)])
    wait_until(lambda: sum(condition(r, "Succeeded")["reason"] == "NoTargets" for r in kubectl.get("profreq")["items"]) == 100, 60, "that all wait")

    def asked():
        return sum(int(float(n)) for n in re.findall(r'rest_client_requests_total\{[^}]*\} (\S+)', operator.page("/metrics")))

    before = asked()
    time.sleep(10)
    # Each request is reconciled every 5 s, with one list: about 200 calls in 10 s.
    assert asked() - before <= 250
