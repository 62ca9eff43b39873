"""The outcome table, row by row: a deliberate fault ends as exactly that outcome in the request's status, in its
event, in the operator's metrics and in the output of `strobe inspect`. A good worker runs beside the faulty one and
stays Ok, except where the fault affects the whole capture (ALL_FAIL)."""

import json
import os
import subprocess
import threading
import time
from concurrent import futures

import pytest

from tests.support.agent_rig import AgentRig
from tests.support.fragile import Fragile
from tests.support.memory_group import memory_group
from tests.support.metrics import total
from tests.support.operator import Operator, await_event, condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import BIN
from tests.support.workers import Worker, hold_session

FAKES = BIN / "fakes"


@pytest.fixture(scope="module")
def cluster_operator(session_group, plane):
    return Operator(session_group, plane.kubeconfig, name="outcomes-operator", flags=["--no-leader-election"]).start().wait_ready()


class Scene:
    """A good worker, a place for a faulty one, and the request that captures both."""

    def __init__(self, group, kubectl, operator, trainers, tmp_path):
        self.group, self.kubectl, self.operator, self.trainers, self.dir = group, kubectl, operator, trainers, tmp_path
        self.logdir = tmp_path / "logdir"
        self.logdir.mkdir()
        # With time to arm, however busy the machine is.
        self.spec = {"attempts": 1, "minWorkers": 1, "duration": "300ms", "start": {"guard": "200ms", "delay": "600ms"}}
        self.during = None  # Called once the workers are armed.
        good = Worker(group, "good")
        good.profiler_port = trainers[0].profiler_port
        self.good = good.start_sidecar().wait().register(kubectl)

    def bad(self, **options):
        """A real JAX worker, which has no fault yet."""
        worker = Worker(self.group, "bad", 1, **options)
        worker.profiler_port = self.trainers[1].profiler_port
        return worker

    def started(self, worker, limits=None):
        worker.start_sidecar().wait()
        self.register(worker, limits)
        return worker

    def register(self, worker, limits=None):
        pod = worker.pod()
        if limits:
            pod["spec"]["containers"][0]["resources"] = {"limits": limits}
        self.kubectl.apply(pod)
        self.patch_status({"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]})

    def patch_status(self, status):
        self.kubectl.set_status("pod", "bad", status)

    def programs(self):
        """A worker that only the agent records; returns the rig that starts its programs."""
        rig = AgentRig(self.group, self.dir)
        worker = self.bad(sidecar_flags=["--agent-dir", rig.dir / "agent"])
        worker.profiler_port = free_port()  # Nothing listens there.
        self.started(worker)
        return rig

    def framework(self, profile, service="tensorflow.ProfilerService", **options):
        """A gRPC server in place of the trainer's profiler server."""
        import grpc

        server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Profile": grpc.unary_unary_rpc_method_handler(profile)})])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        worker = self.bad(**options)
        worker.profiler_port = port
        self.started(worker)
        return server

    def run(self):
        self.kubectl.apply(profile_request("look", self.logdir, run="look", **self.spec))
        if self.during:
            self.kubectl.run("wait", "--for=condition=Started", "profilerequest/look", "--timeout=20s")
            self.during()
        return wait_finished(self.kubectl, "look", 90)

    def inspected(self):
        result = subprocess.run([BIN / "strobe", "inspect", self.logdir, "--output", "json"], capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return {worker["worker"]: worker["verdict"] for worker in json.loads(result.stdout)}


@pytest.fixture
def scene(group, kubectl, cluster_operator, trainers, protos, python_package, tmp_path):
    scene = Scene(group, kubectl, cluster_operator, trainers, tmp_path)
    scene.python_package = python_package
    return scene


def no_sidecar(scene):
    scene.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "labels": {"app": "train"}},
                         "spec": {"containers": [{"name": "trainer", "image": "trainer"}]}})


def no_pod(scene):
    scene.spec["target"] = {"pods": ["good", "bad"]}


def sidecar_killed(scene):
    scene.started(scene.bad()).sidecar.kill()


def session_held(scene):
    scene.started(scene.bad())
    return hold_session(scene.trainers[1].profiler_port, 4000).join


def wrong_port(scene):
    worker = scene.bad()
    worker.profiler_port = free_port()
    scene.started(worker)


def started_late(scene):
    """The capture gives up before the worker has a profiler server."""
    worker = Worker(scene.group, "bad", 1)
    scene.started(worker)
    scene.spec |= {"minWorkers": 2, "start": {"readyTimeout": "1s"}}


def framework_fails(scene):
    import grpc

    server = scene.framework(lambda _, context: context.abort(grpc.StatusCode.INTERNAL, "the tracer would not start"))
    return lambda: server.stop(None)


def no_guard(scene):
    scene.started(scene.bad())
    # A worker that is told to start at the instant always starts slightly later.
    scene.spec["start"] = {"guard": "0s"}
    scene.spec["minWorkers"] = 1


def idle_device(scene):
    rig = scene.programs()
    rig.program(1, 100)
    rig.cuda_program(0.01, 1)
    time.sleep(1)  # Its only step within 100 s is over.


def idle_program(scene):
    scene.programs().program(1, 0.01)
    time.sleep(0.5)


def no_tracer(scene):
    scene.started(scene.bad())
    scene.spec["tracers"] = {"host": "Disabled", "device": "Disabled"}


def no_device_plane(scene):
    scene.started(scene.bad(), limits={"nvidia.com/gpu": "1"})


def cupti(fault, *arguments):
    def produce(scene):
        scene.programs().cuda_program(*(arguments or (100, 10)), cupti=fault)

    return produce


def no_cupti(scene):
    scene.programs().cuda_program(100, 5, env={"LD_LIBRARY_PATH": str(FAKES)})


def no_profiler_service(scene):
    server = scene.framework(lambda *_: b"", service="somebody.elses.Service")
    return lambda: server.stop(None)


def too_large(scene):
    scene.started(scene.bad())
    scene.spec["maxBytesPerWorker"] = 1000


def no_room(scene):
    spool = scene.dir / "spool"
    scene.started(scene.bad(sidecar_flags=["--spool-dir", spool, "--spool-size", "1KB"]))


def as_nobody(command):
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]


def with_full_logdir(logdir):
    def wrap(command):
        script = f'mount -t tmpfs -o size=4k none "{logdir}" && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *command]

    return wrap


def denied(scene):
    os.chmod(scene.logdir, 0o755)
    for parent in scene.logdir.parents:  # Opens the parents, so that only the logdir itself denies access.
        if parent.stat().st_uid == os.getuid() and len(parent.parts) > 2:
            os.chmod(parent, parent.stat().st_mode | 0o011)
    scene.started(scene.bad(wrap=as_nobody))


def full(scene):
    scene.started(scene.bad(wrap=with_full_logdir(scene.logdir)))


def killed_while_it_records(scene):
    worker = Worker(scene.group, "bad", 1).start_trainer().start_sidecar().wait()
    scene.register(worker)
    scene.spec["duration"] = "2s"

    def kill():
        time.sleep(1.2)
        worker.trainer.kill()
        # The status that the kubelet would report.
        scene.patch_status({"containerStatuses": [{
            "name": "trainer", "image": "trainer", "imageID": "", "ready": False, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}}]})

    scene.during = kill


def cancelled(scene):
    scene.started(scene.bad())
    scene.spec["start"] = {"delay": "1m"}
    scene.during = lambda: scene.kubectl.run("patch", "profilerequest", "look", "--type=merge", "-p", '{"spec":{"cancel":true}}')


def never_answers(scene):
    wakes = threading.Event()
    server = scene.framework(lambda *_: wakes.wait(60))
    scene.spec["collectTimeout"] = "2s"

    def release():
        wakes.set()
        server.stop(None)

    return release


def steps_get_slow(scene):
    Fragile(scene.programs(), scene.python_package, slow=400)  # Also on a busy machine twice as slow as before.
    scene.spec |= {"start": {"delay": "2s"}, "duration": "4s", "abortWhen": {"slowdownPercent": 100}}


def short_of_memory(scene):
    limit = memory_group(256)
    Fragile(scene.programs(), scene.python_package, slow=100, grow=True, wrap=limit.__enter__())
    scene.spec |= {"duration": "6s", "abortWhen": {"memoryPercent": 50}}
    return lambda: limit.__exit__(None, None, None)


def too_large_for_the_sidecar(scene):
    from tensorflow import profiler_service_pb2 as pb

    limit, answer = memory_group(128), pb.ProfileResponse(xspace=bytes(100 << 20)).SerializeToString()
    server = scene.framework(lambda *_: answer, wrap=lambda command: [*limit.__enter__(), *command])

    def release():
        limit.__exit__(None, None, None)
        server.stop(None)

    return release


# Outcome, fault, words of the message. If both workers end this way, there is no trace to inspect.
ROWS = [
    ("SidecarMissing", no_sidecar, "no container strobe-sidecar"),
    ("WorkerMissing", no_pod, "no such pod"),
    ("Unreachable", sidecar_killed, "no answer at 127.0.0.1"),
    ("Busy", session_held, ""),
    ("Busy", cupti("enable:1=26"), "DCGM"),
    ("Busy", cupti("subscribe=39"), "another profiler holds CUPTI"),
    ("NoSource", wrong_port, "nothing is listening"),
    ("NoSource", started_late, "nothing is listening"),
    ("ProfilerStartFailed", framework_fails, "the tracer would not start"),
    ("ProfilerStartFailed", cupti("register=1"), "registering buffers with CUPTI"),
    ("LateStart", no_guard, "after the instant"),
    ("NoDeviceActivity", idle_device, "in a window of 300ms"),
    ("NoHostEvents", idle_program, "in a window of 300ms"),
    ("NoHostEvents", no_tracer, "tracers.host is Disabled"),
    ("DeviceTraceMissing", no_device_plane, "no /device: plane"),
    ("PermissionDenied", cupti("enable:10=35"), "INSUFFICIENT_PRIVILEGES"),
    ("CuptiUnavailable", no_cupti, "STROBE_CUPTI"),
    ("VersionMismatch", no_profiler_service, ""),
    ("VersionMismatch", cupti("enable:10=14"), "NOT_COMPATIBLE"),
    ("EventsDropped", cupti("late_ms=3", 0, 500), "are missing"),
    ("Truncated", too_large, "the limit is 1000"),
    ("Truncated", too_large_for_the_sidecar, "what remains of the sidecar's memory limit"),
    ("SpoolFull", no_room, "spool"),
    ("UploadDenied", denied, "denied"),
    ("UploadFailed", full, "space"),
    ("WorkerLost", killed_while_it_records, "container trainer was OOMKilled (exit code 137)"),
    ("Cancelled", cancelled, "spec.cancel was set"),
    ("DeadlineExceeded", never_answers, ""),
    ("Aborted", steps_get_slow, "captures end when they are 100% slower"),
    ("Aborted", short_of_memory, "of its memory limit of 256 MiB"),
]
ALL_FAIL = {started_late, no_guard, no_tracer, too_large, cancelled}


@pytest.mark.parametrize("outcome,fault,words", ROWS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ROWS)])
def test_a_fault_ends_as_its_outcome_everywhere(scene, outcome, fault, words):
    cleanup = fault(scene)
    try:
        request = scene.run()
    finally:
        if cleanup:
            cleanup()
    told = {o["pod"]: o for o in request["status"]["outcomes"]}
    assert told["bad"]["cause"] == outcome, told["bad"]
    assert words in told["bad"]["message"], told
    assert fault in ALL_FAIL or "good" not in told, told
    counts = {c["cause"]: c["workers"] for c in request["status"]["causes"]}
    assert counts == {cause: sum(o["cause"] == cause for o in told.values()) for cause in {o["cause"] for o in told.values()}}

    said = "spec.cancel was set" if outcome == "Cancelled" else f": {outcome}: "
    await_event(scene.kubectl, lambda event: event["regarding"]["name"] == "look" and said in event["note"], "the event of the end")

    metrics = scene.operator.page("/metrics")
    counted = total(metrics, "strobe_worker_outcomes_total", namespace=scene.kubectl.namespace, cause=outcome)
    assert counted == (2 if "good" in told and told["good"]["cause"] == outcome else 1)

    if request["status"].get("run") and list(scene.logdir.rglob("*.xplane.pb")):
        verdicts = scene.inspected()
        assert verdicts["bad"]["outcome"] == outcome, verdicts
        assert words in verdicts["bad"]["message"]
        assert verdicts["bad"]["remedy"] and verdicts["bad"]["evidence"]
        assert fault in ALL_FAIL or verdicts["good"]["outcome"] == "Ok", verdicts
    if fault not in ALL_FAIL:
        assert condition(request, "Succeeded")["reason"] == "EnoughWorkersOk"
        assert scene.operator.process.running()


def test_every_outcome_has_its_row():
    names = {entry["name"] for entry in json.loads(subprocess.run([BIN / "strobe", "outcomes", "--output", "json"], capture_output=True, text=True, check=True).stdout)}
    assert names - {"Ok", "Unknown"} == {row[0] for row in ROWS}


def test_good_captures_end_in_nothing_else(scene):
    """A short version of `tests.soak.run good`, which makes 200 captures."""
    scene.started(scene.bad())
    for i in range(12):
        scene.kubectl.apply(profile_request(f"good-{i}", scene.logdir, run=f"good-{i}", attempts=1, duration="50ms", start={"guard": "200ms"}))
        request = wait_finished(scene.kubectl, f"good-{i}")
        assert condition(request, "Succeeded")["reason"] == "AllWorkersOk", request["status"]
