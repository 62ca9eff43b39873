"""A pod with several processes: each is a worker with a rank, an outcome, a trace and a start of its own. Real PyTorch under torchrun."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from tests.support.inproc import TORCH_PYTHON
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import BIN, wait_until
from tests.support.step_rig import host_events
from tests.support.torchrun_rig import TorchrunJob
from tests.support.workers import mark_running

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


@pytest.fixture(scope="module")
def shared_job(session_group, tmp_path_factory, python_package):
    return TorchrunJob(session_group, tmp_path_factory.mktemp("job"), python_package, 4)


@pytest.fixture
def job(group, tmp_path, python_package):
    return TorchrunJob(group, tmp_path, python_package, 2)


def capture(job, *flags, run="r", duration="1s"):
    return job.capture("--guard", "300ms", *flags, run=run, duration=duration)


def folder(job, run="r"):
    return job.folder(run)


def check_rank(job, worker, run="r"):
    """The worker's file has the operators of each complete step of its own rank, as often as PyTorch's profiler counted, by the rank's notes."""
    found, expected, _ = job.compare_operators(host_events(job.trace(worker, run)), int(worker["startedNs"]), int(worker["stoppedNs"]), worker["rank"])
    assert found == expected


def test_each_rank_is_a_worker(shared_job, protos):
    job = shared_job
    manifest, done = capture(job)
    workers = manifest["workers"]
    base = job.address.replace(":", "_")
    assert [(w["rank"], w["localRank"], w["outcome"]) for w in workers] == [(i, i, "Ok") for i in range(job.ranks)], done.stderr
    assert [w["name"] for w in workers] == [f"{base}.{i}" for i in range(job.ranks)]
    assert sorted(p.name for p in folder(job).iterdir() if p.suffix == ".pb") == [f"{base}.{i}.xplane.pb" for i in range(job.ranks)]
    for worker in workers:
        check_rank(job, worker)
        assert worker["coversWindow"] and int(worker["startedNs"]) > 0
        (row,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
        assert row["rank"]["rank"] == worker["rank"] and row["rank"]["worldSize"] == job.ranks
    starts = [int(w["startedNs"]) for w in workers]
    assert int(manifest["skewNs"]) == max(starts) - min(starts), "the skew counts every process"
    table = subprocess.run([BIN / "strobe", "inspect", job.root / "logdir"], capture_output=True, text=True, check=True).stdout
    assert all(f"{base}.{i}" in table for i in range(job.ranks)), table
    assert not list((job.root / "spool").glob("*.xplane.pb")), "the store has them all"
    assert job.trains()


def test_xprof_lists_the_ranks_as_hosts(shared_job, protos):
    job = shared_job
    capture(job, run="xprof")
    from xprof.convert import raw_to_tool_data

    paths = sorted(str(path) for path in folder(job, "xprof").glob("*.xplane.pb"))
    data, _ = raw_to_tool_data.xspace_to_tool_data(paths, "overview_page", {})
    assert data, "XProf reads all of them as one session"
    names = raw_to_tool_data.xspace_to_tool_names(paths)
    assert "trace_viewer@" in names or "trace_viewer" in names, names


def test_only_the_ranks_that_are_asked_for(shared_job, protos):
    job = shared_job
    manifest, _ = capture(job, "--local-ranks", "0,2", run="local")
    assert [w["rank"] for w in manifest["workers"]] == [0, 2]
    manifest, _ = capture(job, "--ranks", "3", run="one", duration="1s")
    assert [(w["rank"], w["name"].endswith(".3")) for w in manifest["workers"]] == [(3, True)], "it is named as beside the others"
    check_rank(job, manifest["workers"][0], "one")
    manifest, _ = capture(job, "--ranks", "17", run="none")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "NoSource" and worker["message"].startswith("no process with rank 17: ")


def register(kubectl, job, name="train-0"):
    """The job's pod at the API server: the second of its job, whose first is not there."""
    port = int(job.address.rsplit(":", 1)[1])
    kubectl.apply({"apiVersion": "v1", "kind": "Pod",
                   "metadata": {"name": name, "labels": {"app": "train", "batch.kubernetes.io/job-completion-index": "1"}},
                   "spec": {"nodeName": "node", "containers": [
                       {"name": "trainer", "image": "scratch", "command": ["torchrun", "--nproc-per-node=4", "train.py"]},
                       {"name": "strobe-sidecar", "image": "scratch", "ports": [{"name": "strobe", "containerPort": port}]}]}})
    mark_running(kubectl, name)


def test_the_operator_tells_of_every_process(shared_job, kubectl, operator, protos):
    job = shared_job
    register(kubectl, job)
    kubectl.apply(profile_request("all", job.root / "logdir", run="all"))
    status = wait_finished(kubectl, "all")["status"]
    assert status["workers"] == {"matched": 4, "armed": 4, "ok": 4, "empty": 0, "failed": 0, "summary": "4/4"}, status
    manifest = json.loads((folder(job, "all") / "strobe.json").read_text())
    assert [(w["pod"], w["name"], w["rank"], w["localRank"]) for w in manifest["workers"]] == [("train-0", f"train-0.{i}", i, i) for i in range(4)]
    # The pod's rank is 1, so that the ranks of the job's processes in it are 4 to 7. The test's processes count from 0.
    kubectl.apply(profile_request("ranks", job.root / "logdir", run="ranks", attempts=1,
                                  target={"selector": {"matchLabels": {"app": "train"}}, "workers": {"policy": "Sample", "ranks": [5]}}))
    request = wait_finished(kubectl, "ranks")
    assert "no process with rank 5: " in condition(request, "Succeeded")["message"]
    kubectl.apply(profile_request("local", job.root / "logdir", run="local-2", target={
        "selector": {"matchLabels": {"app": "train"}}, "workers": {"localRanks": [2]}}))
    assert wait_finished(kubectl, "local")["status"]["workers"]["summary"] == "1/1"
    assert [p.name for p in folder(job, "local-2").glob("*.xplane.pb")] == ["train-0.2.xplane.pb"]


def test_a_rank_that_is_killed_is_told_and_those_that_torchrun_starts_again_are_recorded(group, tmp_path, python_package, protos):
    # PyTorch 2.15 itself cannot start a group of gloo's again on one machine: the second life connects to the first one's addresses.
    job = TorchrunJob(group, tmp_path, python_package, 2, flags=["--max-restarts", "1"], env={"COLLECTIVES": "none"})
    before = {announcement["rank"]: announcement["pid"] for announcement in job.rank_announcements()}
    results = {}
    thread = threading.Thread(target=lambda: results.update(all=capture(job, "--delay", "3s", duration="3s")))
    thread.start()
    time.sleep(4)
    os.kill(before[1], signal.SIGKILL)  # torchrun ends the others too, a moment later, and starts all of them again.
    thread.join()
    manifest, done = results["all"]
    workers = {w["rank"]: w for w in manifest["workers"]}
    assert set(workers) == set(range(job.ranks)), "a rank that died is a worker still"
    assert workers[1]["outcome"] != "Ok" and workers[1]["message"], done.stderr
    assert manifest["result"] == "Failed", "a pod counts if all its workers do"

    def again():
        return {a["rank"] for a in job.rank_announcements() if a["pid"] not in before.values()} == set(before)

    wait_until(again, 60, "the ranks' second life")
    # Before its first step, each rank counts its operators with a profiler session of its own.
    assert all(job.trains(rank) for rank in range(job.ranks))
    manifest, done = capture(job, run="again")
    assert [(w["rank"], w["outcome"]) for w in manifest["workers"]] == [(0, "Ok"), (1, "Ok")], done.stderr
    for worker in manifest["workers"]:
        check_rank(job, worker, "again")


def test_traces_that_their_store_refuses_are_kept_and_delivered(job, protos):
    """The sidecar is restarted between recording and upload: each rank's trace is delivered by the next one."""
    # A folder that looks as if it could be written to, and accepts nothing.
    link = folder(job)
    link.parent.mkdir(parents=True)
    link.symlink_to(job.root)
    manifest, _ = capture(job, "--collect-timeout", "3s")
    assert {w["outcome"] for w in manifest["workers"]} == {"UploadFailed"}, manifest["workers"]
    assert len(list((job.root / "spool").glob("*@*.xplane.pb"))) == job.ranks
    link.unlink()
    job.sidecar.stop()
    port = job.address.rsplit(":", 1)[1]
    command = [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--agent-dir", job.root / "strobe/agent", "--spool-dir", job.root / "spool",
               "--insecure-plaintext"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(list(folder(job).glob("*.xplane.pb"))) == job.ranks if folder(job).exists() else False, 60, "the traces to arrive")
        for worker in manifest["workers"]:
            check_rank(job, worker)
    finally:
        process.terminate()
        process.wait(30)


# Each rank waits for its input, by an annotation that the report knows, and notes how long.
WAITING = """
import torch as torch_
without_input, waited = train, []
def train():
    with torch_.profiler.record_function("next_batch"):
        began = time.time_ns()
        time.sleep({seconds})
        waited.append([began, time.time_ns()])
    without_input()
"""


def test_a_rank_that_waits_for_its_input_is_said_to_hold_up_the_others(shared_job, tmp_path):
    for rank in range(4):
        shared_job.order(WAITING.format(seconds=0.022 if rank == 2 else 0.002), rank=rank)
    manifest, _ = capture(shared_job, run="slow", duration="2s")
    for rank in range(4):
        shared_job.order(f"json.dump(waited, open({str(tmp_path / str(rank))!r}, 'w'))\ntrain = without_input", rank=rank)
    told = subprocess.run([BIN / "strobe", "report", folder(shared_job, "slow"), "--output", "json"], capture_output=True, text=True, check=True).stdout
    told = json.loads(told)["stragglers"]
    assert told["headline"].startswith("rank 2 holds up 3 others by ") and told["headline"].endswith(": input"), told
    begin = int(manifest["instantNs"])
    window = (begin, begin + int(manifest["durationNs"]))
    noted = [[end - begin for begin, end in json.loads((tmp_path / str(rank)).read_text()) if window[0] <= begin and end <= window[1]] for rank in range(4)]
    means = [sum(waits) / len(waits) for waits in noted]
    (straggler,) = told["stragglers"]
    assert straggler["causes"][0]["cause"] == "input" and straggler["persistent"]
    assert straggler["causes"][0]["ns"] == pytest.approx(means[2] - sorted(means)[1], rel=0.05), (told, means)
    assert told["collectives"][0]["mostOftenLast"] == straggler["worker"] and told["collectives"][0]["timesLast"] > told["steps"] / 2
