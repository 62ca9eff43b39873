"""One of N workers is dead, busy, slow or dying, or has a wrong clock: each outcome is right, the other workers' traces
are kept, and nothing hangs."""

import json
import re
import shutil
import signal
import subprocess
import time

import pytest

from tests.conftest import read_manifest
from tests.support.operator import await_event, condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.viewer import View
from tests.support.workers import Worker, hold_session, mark_running


def outcomes(request):
    return {o["pod"]: o["cause"] for o in request["status"].get("outcomes", [])}


def test_a_dead_sidecar_fails_the_capture_unless_min_workers_allows_it(kubectl, operator, make_workers, logdir):
    workers = make_workers(2, kubectl)
    workers[1].sidecar.kill()
    kubectl.apply(profile_request("strict", logdir, run="strict", attempts=1, start={"readyTimeout": "0s"}))
    request = wait_finished(kubectl, "strict")
    assert condition(request, "Failed")["reason"] == "Unreachable"
    assert outcomes(request)["worker-1"] == "Unreachable"
    kubectl.apply(profile_request("lenient", logdir, run="lenient", minWorkers=1))
    request = wait_finished(kubectl, "lenient")
    assert condition(request, "Succeeded")["reason"] == "EnoughWorkersOk"
    assert request["status"]["workers"]["summary"] == "1/2"
    assert condition(request, "Synchronized")["status"] == "False"
    assert list((logdir / "plugins/profile/lenient").glob("worker-0.xplane.pb"))


def test_a_trainer_without_profiler_server_is_no_source(kubectl, operator, make_workers, group, logdir):
    make_workers(1, kubectl)
    bare = Worker(group, "worker-1", 1).start_sidecar().wait().register(kubectl)
    assert not bare.trainer
    kubectl.apply(profile_request("look", logdir, minWorkers="50%"))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "True"
    assert outcomes(request) == {"worker-1": "NoSource"}


def test_a_profiler_server_that_is_started_late_is_waited_for(kubectl, operator, group, logdir):
    late = Worker(group, "late").start_sidecar().wait().register(kubectl)
    kubectl.apply(profile_request("look", logdir, attempts=1, start={"readyTimeout": "2m"}))
    kubectl.run("wait", '--for=jsonpath={.status.conditions[?(@.type=="Succeeded")].reason}=WaitingForReadiness', "profilerequest/look", "--timeout=10s")
    assert "nothing is listening" in condition(kubectl.get("profilerequest", "look"), "Succeeded")["message"]
    late.start_trainer()
    request = wait_finished(kubectl, "look", 120)
    assert condition(request, "Succeeded")["status"] == "True" and request["status"]["attempt"] == 1


def test_requests_for_the_same_workers_take_turns(kubectl, operator, make_workers, logdir):
    """They run in the order of creation, none fails because of another, and each reports its place in the queue."""
    make_workers(2, kubectl)
    kubectl.apply(profile_request("first", logdir, run="first", attempts=1, start={"delay": "8s"}))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/first", "--timeout=10s")
    for name in ("second", "third"):
        kubectl.apply(profile_request(name, logdir, run=name, attempts=1))
        kubectl.run("wait", '--for=jsonpath={.status.conditions[?(@.type=="Accepted")].reason}=WaitingForWorkers', f"profilerequest/{name}", "--timeout=10s")
        time.sleep(1.1)  # creationTimestamp has a resolution of one second.
    places = {name: kubectl.get("profilerequest", name)["status"]["queuePosition"] for name in ("second", "third")}
    assert places == {"second": 1, "third": 2}
    starts = []
    for name in ("first", "second", "third"):
        request = wait_finished(kubectl, name)
        assert condition(request, "Succeeded")["status"] == "True", request["status"]
        assert request["status"]["attempt"] == 1 and "queuePosition" not in request["status"]
        starts.append(request["status"]["startTime"])
    assert starts == sorted(starts)


def test_busy_names_the_holder(kubectl, operator, make_workers, logdir):
    worker, = make_workers(1, kubectl)
    holder = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", logdir,
                               "--run", "holder", "--duration", "4s", "--quiet"], stdout=subprocess.PIPE)
    time.sleep(1)
    kubectl.apply(profile_request("hasty", logdir, run="hasty", attempts=1, start={"readyTimeout": "0s"}))
    request = wait_finished(kubectl, "hasty")
    assert condition(request, "Failed")["reason"] == "Busy"
    assert "cli-" in request["status"]["outcomes"][0]["message"]
    # A request that may wait says what it waits for, and then succeeds.
    kubectl.apply(profile_request("patient", logdir, run="patient", attempts=1))
    kubectl.run("wait", '--for=jsonpath={.status.conditions[?(@.type=="Succeeded")].reason}=WaitingForReadiness', "profilerequest/patient", "--timeout=10s")
    assert "worker-0: Busy: capture cli-" in condition(kubectl.get("profilerequest", "patient"), "Succeeded")["message"]
    assert condition(wait_finished(kubectl, "patient"), "Succeeded")["status"] == "True"
    assert holder.wait(20) == 0


def test_a_profiler_session_held_by_somebody_else_is_busy(kubectl, operator, make_workers, trainers, protos, logdir):
    make_workers(2, kubectl)
    thread = hold_session(trainers[1].profiler_port, 4000)
    kubectl.apply(profile_request("look", logdir, minWorkers=1))
    finished = wait_finished(kubectl, "look")
    thread.join()
    assert outcomes(finished) == {"worker-1": "Busy"}
    assert condition(finished, "Succeeded")["status"] == "True"


@pytest.mark.parametrize("victim", ["sidecar", "trainer"])
def test_a_worker_that_dies_while_it_records_is_lost(victim, kubectl, operator, make_workers, group, logdir):
    make_workers(1, kubectl)
    doomed = Worker(group, "worker-1", 1).start_trainer().start_sidecar().wait().register(kubectl)
    kubectl.apply(profile_request("look", logdir, duration="2s", minWorkers=1))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/look", "--timeout=10s")
    time.sleep(1.2)
    getattr(doomed, victim).kill()
    # The loss is known soon, not only at the deadline a minute later.
    request = wait_finished(kubectl, "look", 50)
    assert outcomes(request) == {"worker-1": "WorkerLost"}
    assert condition(request, "Succeeded")["status"] == "True"
    assert [w["outcome"] for w in read_manifest(logdir)["workers"]] == ["Ok", "WorkerLost"]


def test_a_sidecar_that_stops_answering_does_not_hang_anything(kubectl, operator, make_workers, logdir):
    workers = make_workers(2, kubectl)
    workers[1].sidecar.signal(signal.SIGSTOP)
    kubectl.apply(profile_request("look", logdir, minWorkers=1))
    request = wait_finished(kubectl, "look", 40)
    assert outcomes(request) == {"worker-1": "Unreachable"}
    assert condition(request, "Succeeded")["status"] == "True"


def test_a_slow_sidecar_is_waited_for(kubectl, operator, make_workers, logdir):
    """The sidecar is stopped for 1.5 s during preflight, and the capture waits for it."""
    workers = make_workers(2, kubectl)
    workers[1].sidecar.signal(signal.SIGSTOP)
    kubectl.apply(profile_request("look", logdir, start={"guard": "500ms"}))
    time.sleep(1.5)
    workers[1].sidecar.signal(signal.SIGCONT)
    request = wait_finished(kubectl, "look", 30)
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert request["status"]["workers"]["summary"] == "2/2"


def test_a_pod_without_sidecar_is_not_passed_over(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "labels": {"app": "train"}},
                   "spec": {"containers": [{"name": "trainer", "image": "trainer"}]}})
    kubectl.apply(profile_request("look", logdir, attempts=1))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Failed")["reason"] == "SidecarMissing"
    assert outcomes(request) == {"bare": "SidecarMissing", "worker-0": "Cancelled"}


@pytest.mark.parametrize("told_by", ["annotation", "launcher", "itself"])
def test_a_process_that_did_not_announce_itself_is_missed(told_by, kubectl, operator, group, logdir, tmp_path, python_package):
    """A pod with three JAX processes used to end as AllWorkersOk, expected 2, if Strobe's part was in two of them only. It may be known by the pod's
    annotation, by what the launcher told the others, or because Strobe's part could not start in it and said so."""
    port, agent = free_port(), tmp_path / "strobe/agent"
    group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", agent,
                            "--spool-dir", tmp_path / "spool", "--worker-name", "worker-0", "--insecure-plaintext"]).wait_for("serves", 20)
    broken = tmp_path / "broken"
    shutil.copytree(python_package, broken)
    (broken / "strobe/_inproc/__init__.py").unlink()
    trainers = []
    for rank in range(3):
        env = {"PYTHONPATH": str(python_package), "STROBE_DIR": str(tmp_path / "strobe"), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3"}
        if told_by == "launcher":
            env.update(STROBE_CONTAINER="trainer", LOCAL_WORLD_SIZE="3")
        if rank == 2:
            env.update({"PYTHONPATH": str(broken)} if told_by == "itself" else {"STROBE_BOOTSTRAP": "off"})
        command = [PYTHON, ROOT / "tests/e2e/framework_loop.py", "jax", tmp_path / f"notes.{rank}", tmp_path / f"orders.{rank}", "0.02"]
        trainers.append(group.start(f"trainer-{rank}", command, env=env))
    for trainer in trainers:
        trainer.wait_for("ready", 60)
    wait_until(lambda: len(list(agent.glob("*.process"))) == 2, 30, "two announcements")
    annotations = {"strobe.dev/processes": "3"} if told_by == "annotation" else {}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker-0", "labels": {"app": "train"}, "annotations": annotations},
                   "spec": {"containers": [{"name": "trainer", "image": "trainer"}],
                            "initContainers": [{"name": "strobe-sidecar", "image": "sidecar", "restartPolicy": "Always",
                                                "ports": [{"name": "strobe", "containerPort": port}]}]}})
    mark_running(kubectl, "worker-0")
    kubectl.apply(profile_request("look", logdir, duration="500ms", attempts=1, start={"guard": "500ms"}))
    request = wait_finished(kubectl, "look")
    workers = read_manifest(logdir)["workers"]
    if told_by == "itself":
        assert condition(request, "Failed")["reason"] == "ProfilerStartFailed", request["status"]
        (row,) = [row for worker in workers for row in worker["processes"] if row["outcome"] != "OK"]
        assert row["name"] == f"process {trainers[2].pid}" and "FileNotFoundError" in row["message"]
        return
    assert condition(request, "Failed")["reason"] == "WorkerMissing", request["status"]
    assert condition(request, "Failed")["message"].startswith("2 of 3 workers Ok, 0 of 1 pods complete, at least 1 wanted")
    assert request["status"]["workers"]["summary"] == "2/3"
    assert outcomes(request) == {"worker-0/2": "WorkerMissing"}
    assert [(w["name"], w["rank"], w["outcome"]) for w in workers] == [("worker-0.0", 0, "Ok"), ("worker-0.1", 1, "Ok"), ("worker-0.2", 2, "WorkerMissing")]
    assert sorted(path.name for path in logdir.rglob("*.xplane.pb")) == ["worker-0.0.xplane.pb", "worker-0.1.xplane.pb"]
    # With all three, nobody is missed.
    trainers[2].kill()
    command = [PYTHON, ROOT / "tests/e2e/framework_loop.py", "jax", tmp_path / "notes.3", tmp_path / "orders.3", "0.02"]
    group.start("third", command, env={**env, "STROBE_BOOTSTRAP": ""}).wait_for("ready", 60)
    wait_until(lambda: len(list(agent.glob("*.process"))) == 3, 30, "three announcements")
    kubectl.apply(profile_request("again", logdir, run="again", duration="500ms", start={"guard": "500ms"}))
    request = wait_finished(kubectl, "again")
    assert condition(request, "Succeeded")["reason"] == "AllWorkersOk", request["status"]
    assert request["status"]["workers"]["summary"] == "3/3"


def test_a_worker_whose_clock_is_wrong_is_aligned(kubectl, operator, make_workers, group, logdir):
    """The clock is 11.56 s ahead: the capture is still synchronized, and status and manifest give the offset and its error."""
    make_workers(1, kubectl)
    shift = {"LD_PRELOAD": str(BIN / "clock_shift.so"), "CLOCK_SHIFT_NS": "11560000000"}
    shifted = Worker(group, "worker-1", 1, trainer_env=shift, sidecar_env=shift).start_trainer().start_sidecar().wait().register(kubectl)
    assert shifted
    # A wide guard, so that a busy machine does not make the capture late.
    kubectl.apply(profile_request("look", logdir, duration="500ms", start={"guard": "500ms"}))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert condition(request, "Synchronized")["status"] == "True", request["status"]
    assert request["status"]["clock"]["pod"] == "worker-1"
    assert request["status"]["clock"]["offset"] == "11.6s"
    manifest = read_manifest(logdir)
    right, wrong = manifest["workers"]
    offset, error = int(wrong["clockOffsetNs"]), int(wrong["clockErrorNs"])
    assert abs(offset - 11_560_000_000) <= error < 50_000_000
    assert abs(int(wrong["startedNs"]) - offset - int(right["startedNs"])) < 1_000_000_000
    assert int(manifest["skewNs"]) < 1_000_000_000
    assert wrong["coversWindow"] and right["coversWindow"]


def test_the_worker_that_holds_up_the_others_is_named(kubectl, operator, group, logdir, tmp_path):
    """Two JAX processes train together. One sleeps longer for its input: the headline says so, with the time that the processes noted themselves."""
    coordinator = f"127.0.0.1:{free_port()}"
    workers = [Worker(group, f"joined-{i}", i) for i in range(2)]
    for worker, milliseconds in zip(workers, (2, 40)):
        worker.notes = tmp_path / worker.name
        worker.start_joined_trainer(coordinator, 2, milliseconds).start_sidecar()
    for worker in workers:
        worker.wait().register(kubectl)
    kubectl.apply(profile_request("look", logdir, duration="3s", start={"guard": "500ms"}))
    request = wait_finished(kubectl, "look")
    headline = request["status"]["report"]["headline"]
    assert headline.startswith("rank 1 holds up the other by ") and headline.endswith(": input"), headline
    assert headline in kubectl.run("get", "profreq", "look", "-o", "wide").stdout
    await_event(kubectl, lambda event: event["reason"] == "JobReport" and event["note"] == headline, "the event with the headline")
    report_file, = logdir.glob("plugins/profile/*/report.json")
    report = json.loads(report_file.read_text())
    assert report["headline"] == headline and [w["worker"] for w in report["workers"]] == ["joined-0", "joined-1"]
    manifest = read_manifest(logdir)
    begin = int(manifest["instantNs"])
    window = (begin, begin + int(manifest["durationNs"]))
    sleeps = []
    for worker in workers:
        noted = [tuple(map(int, line.split())) for line in worker.notes.read_text().splitlines()]
        inside = [ended - began for _, began, ended in noted if window[0] <= began and ended <= window[1]]
        sleeps.append(sum(inside) / len(inside))
    straggler, = report["stragglers"]["stragglers"]
    assert straggler["causes"][0]["cause"] == "input"
    assert straggler["causes"][0]["ns"] == pytest.approx(sleeps[1] - sleeps[0], rel=0.05), (report["stragglers"], sleeps)
    assert straggler["heldUp"]["ns"] == pytest.approx(sleeps[1] - sleeps[0], rel=0.05), (report["stragglers"], sleeps)
    metrics = operator.page("/metrics")
    told = re.search(rf'strobe_capture_straggler_seconds_sum{{namespace="{kubectl.namespace}"}} (\S+)', metrics)
    assert float(told[1]) == pytest.approx(report["figures"]["stragglerSeconds"])
    # The viewer shows it, and computes the same from the traces when it is gone.
    view = View(group, "view", report_file.parent, "--cache", "none")
    view.loaded()
    shown = view.json("/api/report?make=always")
    assert shown["state"] == "stored" and shown["compares"] and shown["report"]["headline"] == headline
    report_file.unlink()
    while (computed := view.json("/api/report?make=always"))["state"] == "computing":
        pass
    again, = computed["report"]["stragglers"]["stragglers"]
    assert computed["state"] == "computed" and again["worker"] == straggler["worker"] == "joined-1"
    assert again["heldUp"]["ns"] == pytest.approx(straggler["heldUp"]["ns"], rel=0.01)


def test_a_logdir_that_cannot_be_written_is_told_in_the_stores_words(kubectl, operator, make_workers):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("look", "/proc/strobe", attempts=1))
    request = wait_finished(kubectl, "look")
    assert condition(request, "Failed")["reason"] in ("UploadFailed", "UploadDenied")
    assert "/proc/strobe" in request["status"]["outcomes"][0]["message"]
