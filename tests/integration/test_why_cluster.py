"""Evidence of a job that stands still, on a real API server with the real operator. Stand-ins for the sidecars tell what jobs with known faults left behind."""

import json
import os
import subprocess
import tarfile
import time
from concurrent import futures
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.operator import await_reasons, condition, wait_finished
from tests.support.metrics import total
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, TOOLS, wait_until
from tests.support.secure import make_pod
from tests.support.viewer import View
from tests.support.workers import Worker

PATH = {"PATH": f"{BIN}:{TOOLS}:{os.environ['PATH']}", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hangs")
    with tarfile.open(ROOT / "tests/golden/hangs/cases.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder


class StandIns:
    """Sidecars of a job's pods, each of one rank of a case. They write as real ones do."""

    def __init__(self, case, ranks, local=False, more_bytes=0):
        import grpc
        from strobe.v1 import worker_pb2 as pb
        from strobe.v1 import worker_pb2_grpc

        outer = self
        self.began = time.time_ns() - 10**10
        self.stalled, self.asked, self.servers, self.ports = True, [], [], []

        class Sidecar(worker_pb2_grpc.WorkerServicer):
            def __init__(self, rank):
                name = lambda path: f"0{path.name[len(str(rank)):]}" if local else path.name  # noqa: E731
                self.files = [pb.EvidenceFile(name=name(path), content=path.read_bytes()) for path in sorted(case.glob(f"{rank}.*"))]
                if more_bytes:
                    self.files.append(pb.EvidenceFile(name=f"{rank}.log", content=b"x" * more_bytes))

            def Describe(self, request, context):
                began = outer.began if outer.stalled else time.time_ns()
                return pb.DescribeResponse(version="x", protocol=1, worker="w", sources=[pb.Source(address="a", ready=True)], stall=pb.Stall(stalled=outer.stalled),
                                           steps=[pb.StepPace(loop="train", process="p", began_ns=began, period_ns=10**8)])

            def ProbeClock(self, pings, context):
                for ping in pings:
                    yield pb.ClockPong(sequence=ping.sequence, received_ns=time.time_ns(), sent_ns=time.time_ns())

            def ReadEvidence(self, request, context):
                outer.asked.append((time.monotonic(), request))
                return pb.ReadEvidenceResponse(files=self.files, notes=["a note"], looked_at_ns=time.time_ns())

            def Publish(self, request, context):
                run = Path(urlsplit(request.logdir).path) / "plugins/profile" / request.run
                written = {f"evidence/{request.evidence_worker}/{file.name}": file.content for file in request.evidence_files}
                written |= {name: content for name, content in (("evidence.json", request.evidence), ("strobe.json", request.manifest)) if content}
                for name, content in written.items():
                    (run / name).parent.mkdir(parents=True, exist_ok=True)
                    (run / name).write_bytes(content)
                return pb.PublishResponse(url=f"file://{run}/strobe.json", evidence_url=f"file://{run}/evidence.json" if request.evidence else "",
                                          evidence_written=len(request.evidence_files))

        for rank in ranks:
            server = grpc.server(futures.ThreadPoolExecutor(4))
            worker_pb2_grpc.add_WorkerServicer_to_server(Sidecar(rank), server)
            self.ports.append(server.add_insecure_port("127.0.0.1:0"))
            server.start()
            self.servers.append(server)

    def stop(self):
        for server in self.servers:
            server.stop(0)


@pytest.fixture
def stand_ins(protos, cases):
    made = []

    def make(case, ranks=range(4), **options):
        made.append(StandIns(cases / case, ranks, **options))
        return made[-1]

    yield make
    for job in made:
        job.stop()


def make_job(kubectl, ports):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer"}]}}
    kubectl.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llm"},
                   "spec": {"parallelism": len(ports), "completions": len(ports), "completionMode": "Indexed", "template": template}})
    for rank, port in enumerate(ports):
        make_pod(kubectl, f"llm-{rank}", port, {"batch.kubernetes.io/job-name": "llm"}, rank)


def evidence_request(name, logdir, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": name},
            "spec": {"target": {"jobRef": {"kind": "Job", "name": "llm"}}, "logdir": str(logdir), "record": "Evidence", **spec}}


def run_folder(request):
    return Path(urlsplit(request["status"]["run"]).path)


def strobe(*arguments, code=0):
    done = subprocess.run([BIN / "strobe", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_the_rank_that_holds_up_the_job_is_named(operator, kubectl, stand_ins, logdir, group):
    job = stand_ins("w4_gil", more_bytes=1 << 20)  # More than any other answer may have.
    make_job(kubectl, job.ports)
    kubectl.apply(evidence_request("why", logdir))
    request = wait_finished(kubectl, "why")
    status = request["status"]
    assert condition(request, "Succeeded")["status"] == "True", status
    assert condition(request, "Started")["reason"] == "EvidenceOnly"
    stall = status["stall"]
    assert (stall["class"], stall["confidence"]) == ("Host", "Firm"), stall
    assert stall["verdict"].startswith("rank 2 (llm-2) holds up 3 others"), stall
    (culprit,) = stall["culprits"]
    assert (culprit["rank"], culprit["pod"]) == (2, "llm-2") and "culprit_gil" in culprit["line"]
    assert any("culprit_gil" in line for line in stall["stacks"])
    assert (condition(request, "Stalled")["status"], condition(request, "Stalled")["reason"]) == ("True", "Host")
    assert condition(request, "Stalled")["message"] == stall["verdict"]
    # All were asked at the same moment.
    times = [at for at, _ in job.asked]
    assert len(times) == 4 and max(times) - min(times) < 5

    folder = run_folder(request)
    told = json.loads((folder / "evidence.json").read_text())
    assert told["verdict"]["class"] == "host" and told["verdict"]["ranks"] == [2]
    assert [worker["pod"] for worker in told["workers"]] == [f"llm-{i}" for i in range(4)]
    assert json.loads((folder / "strobe.json").read_text())["result"] == "Succeeded"
    # What is kept in the run is judged in the same way by everybody.
    again = json.loads(strobe("why", folder / "evidence", "--output", "json"))
    assert (again["class"], again["confidence"], again["ranks"]) == ("host", "firm", [2]), again
    shown = View(group, "view", folder, "--cache", "none").json("/api/report")["evidence"]
    assert shown["lines"][0] == told["headline"] == stall["verdict"] and sum(len(stack["ranks"]) for stack in shown["stacks"]) == 4
    await_reasons(kubectl, "JobStalled")
    assert total(operator.page("/metrics"), "strobe_stall_verdicts_total", **{"class": "Host", "confidence": "Firm", "namespace": kubectl.namespace}) == 1


def test_a_verdict_is_withdrawn_when_the_job_moves_again(operator, kubectl, stand_ins, logdir):
    job = stand_ins("w4_sleep")
    make_job(kubectl, job.ports)
    kubectl.apply(evidence_request("why", logdir))
    request = wait_finished(kubectl, "why")
    assert condition(request, "Stalled")["status"] == "True", request["status"]
    verdict = request["status"]["stall"]["verdict"]
    job.stalled = False
    wait_until(lambda: condition(kubectl.get("profreq", "why"), "Stalled")["status"] == "False", 60, "the withdrawal")
    request = kubectl.get("profreq", "why")
    assert condition(request, "Stalled")["reason"] == "JobMoves"
    assert request["status"]["stall"]["verdict"] == verdict, "what was said stays"
    await_reasons(kubectl, "StallWithdrawn")


def test_nobody_is_firmly_named_while_a_worker_tells_nothing(operator, kubectl, stand_ins, logdir):
    job = stand_ins("w4_gil", ranks=[0, 1, 3])
    make_job(kubectl, [*job.ports[:2], free_port(), job.ports[2]])
    kubectl.apply(evidence_request("why", logdir, attempts=1))
    request = wait_finished(kubectl, "why")
    stall = request["status"]["stall"]
    assert stall["confidence"] != "Firm", stall
    assert not {c["rank"] for c in stall.get("culprits", [])} - {2}, "the silent rank is at fault"
    assert any("Nothing came from llm-2" in line for line in stall["details"]), stall
    assert [(o["pod"], o["cause"]) for o in request["status"]["outcomes"]] == [("llm-2", "Unreachable")]
    assert condition(request, "Succeeded")["reason"] == "EnoughWorkersOk"


def test_a_job_that_moves_and_a_healthy_one_are_not_stalled(operator, kubectl, stand_ins, logdir):
    job = stand_ins("w4_slow")
    make_job(kubectl, job.ports)
    kubectl.apply(evidence_request("why", logdir))
    request = wait_finished(kubectl, "why")
    assert request["status"]["stall"]["class"] == "Progressing" and "culprits" not in request["status"]["stall"]
    assert condition(request, "Stalled")["status"] == "False"


def test_a_job_that_moves_without_collectives_is_not_asked_for_them(operator, kubectl, stand_ins, logdir, cases):
    (cases / "alone").mkdir()
    for look in "ab":  # It sleeps at the same line in both looks.
        (cases / "alone" / f"0.{look}.stacks").write_text('Thread 1 (idle): "MainThread"\n    train (a.py:1)\n')
    (cases / "alone/0.processes.json").write_text(
        json.dumps({"world": 1, "process_states": {"0": "S"}, "moves": ["step 8 of train began between the two looks"]}))
    job = stand_ins("alone", ranks=[0])
    make_job(kubectl, job.ports)
    kubectl.apply(evidence_request("why", logdir))
    stall = wait_finished(kubectl, "why")["status"]["stall"]
    assert stall["class"] == "Progressing", stall
    assert stall["verdict"] == "the job moves, and nobody holds it up: step 8 of train began between the two looks"


def test_processes_that_know_only_their_local_rank(operator, kubectl, stand_ins, logdir):
    job = stand_ins("w4_lock", local=True)
    make_job(kubectl, job.ports)
    kubectl.apply(evidence_request("why", logdir))
    stall = wait_finished(kubectl, "why")["status"]["stall"]
    assert [c["pod"] for c in stall["culprits"]] == ["llm-2"], stall


def test_the_plugin_answers(operator, kubectl, stand_ins, tmp_path, logdir):
    job = stand_ins("w4_gil")
    make_job(kubectl, job.ports)
    connection = [f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={kubectl.namespace}", f"--cache-dir={tmp_path / 'cache'}", f"--logdir={logdir}"]

    def plugin(*arguments, code=0):
        done = subprocess.run([TOOLS / "kubectl", "strobe", *arguments, *connection], env=PATH, capture_output=True, text=True, timeout=90)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout

    said = plugin("why", "job/llm")
    assert said.startswith("rank 2 (llm-2) holds up 3 others") and "\nFirm: Flight Recorder of 4 ranks" in said, said
    told = json.loads(plugin("why", "job/llm", "--output=json"))
    assert told["class"] == "Host" and told["culprits"][0]["pod"] == "llm-2"
    stacks = plugin("stacks", "job/llm").splitlines()
    assert stacks[0].startswith("rank") and any("culprit_gil" in line for line in stacks), stacks
    names = [item["metadata"]["name"] for item in kubectl.get("profreq")["items"]]
    assert len(names) == 3 and all(name.startswith("why-llm-") for name in names)
    assert {item["spec"]["ttlAfterFinished"] for item in kubectl.get("profreq")["items"]} == {"24h"}


def test_sidecars_without_a_cluster(stand_ins):
    job = stand_ins("w4_gil")
    workers = ",".join(f"127.0.0.1:{port}" for port in job.ports)
    said = strobe("why", "--workers", workers, "--insecure-plaintext")
    assert said.startswith("rank 2 ") and "\nFirm: " in said, said
    told = subprocess.run([BIN / "strobe", "why", "--workers", workers, "--insecure-plaintext"], capture_output=True, text=True, timeout=120)
    assert told.stderr.splitlines() == [f"127.0.0.1:{port}: a note" for port in job.ports], "a sentence, not a file that was left out"
    assert "culprit_gil" in strobe("stacks", "--workers", workers, "--insecure-plaintext")
    strobe("why", "--workers", workers, code=2)
    strobe("why", code=2)
    strobe("why", "--workers", f"127.0.0.1:{free_port()}", "--insecure-plaintext", code=1)


def test_a_real_sidecar_writes_evidence_into_the_run(group, protos, logdir):
    import grpc
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    sidecar = Worker(group, "w0").start_sidecar().wait()
    stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(sidecar.address))
    file = pb.EvidenceFile(name="0.a.stacks", content=b"Thread 1")
    request = pb.PublishRequest(logdir=str(logdir), run="run", evidence_files=[file], evidence_worker="llm-0")
    for _ in range(2):  # An operator that starts again repeats it.
        answer = stub.Publish(request, timeout=10)
        assert answer.evidence_written == 1 and not answer.url
    folder = logdir / "plugins/profile/run"
    assert (folder / "evidence/llm-0/0.a.stacks").read_bytes() == b"Thread 1"
    evidence, manifest = b'{"format": 1, "captureId": "u-1"}', b'{"format": 1, "captureId": "u-1"}'
    answer = stub.Publish(pb.PublishRequest(logdir=str(logdir), run="run", manifest=manifest, evidence=evidence), timeout=10)
    assert answer.evidence_url.endswith("/run/evidence.json") and (folder / "evidence.json").read_bytes() == evidence
    for name, worker in (("../0.a.stacks", "llm-0"), ("0.a.stacks", "..")):
        with pytest.raises(grpc.RpcError) as refused:
            stub.Publish(pb.PublishRequest(logdir=str(logdir), run="run", evidence_files=[pb.EvidenceFile(name=name)], evidence_worker=worker), timeout=10)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    reclaimed = stub.Reclaim(pb.ReclaimRequest(capture_id="u-1", logdir=str(logdir), run="run"), timeout=10)
    assert (reclaimed.deleted, reclaimed.left) == (3, 0) and not list(folder.rglob("*.*"))


@pytest.mark.parametrize("change, words", [
    ({"steps": 3}, "evidence is read at once"),
    ({"lookBack": "1s"}, "evidence is read at once"),
    ({"start": {"delay": "1s"}}, "evidence is read at once"),
    ({"maxSkew": "1ms"}, "evidence is read at once"),
    ({"duration": "5s"}, "evidence takes no time"),
    ({"preflightOnly": True}, "preflightOnly applies to traces"),
    ({"record": "Everything"}, "record"),
])
def test_what_evidence_does_not_take_is_refused(kubectl, logdir, change, words):
    done = kubectl.create(evidence_request("why", logdir, **change))
    assert done.returncode != 0 and words in done.stderr, done.stderr


def test_what_is_recorded_cannot_be_changed(kubectl, logdir):
    kubectl.apply(evidence_request("why", logdir))
    done = kubectl.run("patch", "profreq", "why", "--type=merge", "-p", json.dumps({"spec": {"record": "Trace"}}), check=False)
    assert "record is immutable" in done.stderr
