"""What a job shows while it stands still: the evidence of real PyTorch processes (gloo), through a real sidecar, and what the court says of it."""

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.test_inproc_xla import jax_trainer
from tests.support.evidence import COLLECTIVES, STACKS, evidence_file, faulthandler_stacks, order, stacks
from tests.support.inproc import TORCH_PYTHON
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, wait_until

AGENT = BIN / "libstrobe_agent.so"
PYTHONS = {"the tests' own": PYTHON, **{path.parents[1].name: path for path in sorted((Path.home() / ".pyenv/versions").glob("3.*/bin/python3"))
                                        if (3, 9) <= tuple(int(part) for part in path.parents[1].name.split(".")[:2] if part.isdigit()) <= (3, 14)}}


def known_stacks(group, tmp_path, python, mode):
    process = group.start("known", [python, ROOT / "tests/e2e/known_stacks.py", AGENT, tmp_path, mode], env={"PYTHONPATH": ""}).wait_for("ready", 30)
    return process, evidence_file(tmp_path)


@pytest.mark.parametrize("version", PYTHONS)
def test_stacks_are_those_of_faulthandler(group, tmp_path, version):
    """faulthandler runs in the interpreter, with its lock."""
    _, path = known_stacks(group, tmp_path, PYTHONS[version], "wait")
    wait_until(lambda: order(path) and list(stacks(path).values())[-1][1][0][2] == "wait_here", 20, "the main thread to wait")
    truth, found = faulthandler_stacks((tmp_path / "truth").read_text()), stacks(path)
    assert set(truth) <= set(found) and len(truth) == 4
    for thread, frames in truth.items():
        heading, read = found[thread]
        assert " proven" in heading and " state S" in heading, heading
        if frames[-1][2] != "<module>":
            assert read == frames, heading
        else:
            assert [name for _, _, name in read] == ["wait_here", "<module>"], read
    assert list(found)[-1] == next(thread for thread, frames in truth.items() if frames[-1][2] == "<module>"), "the main thread is the last"
    assert stacks(path, "b") == found


@pytest.mark.parametrize("version", PYTHONS)
def test_a_thread_that_keeps_the_lock_is_named(group, tmp_path, version):
    """Nobody gets the interpreter's lock any more, and the order is answered all the same."""
    _, path = known_stacks(group, tmp_path, PYTHONS[version], "gil")
    wait_until(lambda: order(path) and list(stacks(path).values())[-1][1][0][2] == "hold_gil", 20, "the main thread to keep the lock")
    holders = [frames for heading, frames in stacks(path).values() if "HOLDS-GIL" in heading]
    assert [frames[0][2] for frames in holders] == ["hold_gil"]


@pytest.mark.parametrize("version", PYTHONS)
def test_many_orders_harm_nothing(group, tmp_path, version):
    """Threads that run all the time: whatever is read, the program goes on, and a stack that is said to be proven is a possible one."""
    process, path = known_stacks(group, tmp_path, PYTHONS[version], "busy")
    for _ in range(40):
        order(path, between_ms=0)
        for heading, frames in stacks(path).values():
            names = [name for _, _, name in frames]
            if " proven" in heading and "spin" in names:
                at = names.index("spin")
                assert names[:at] in (["recurse_briefly"] * at, ["is_set"]), names
    assert process.running(), process.output()


def test_what_is_not_known_is_refused(tmp_path):
    code = f"""
import ctypes
agent = ctypes.CDLL({str(AGENT)!r})
agent.strobe_evidence_start.restype = agent.strobe_evidence_check.restype = ctypes.c_char_p
print(agent.strobe_evidence_start({str(tmp_path).encode()!r}, b"1-1", 8), agent.strobe_evidence_check(b"<module>"))
"""
    said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert said == "None b'this version of Python is not known'\n"
    header = next(tmp_path.glob("*.evidence")).read_bytes()
    assert b"this version of Python is not known" in header[24:152] and header[152] == 0


def test_a_jax_program_shows_its_stacks(group, tmp_path, python_package):
    trainer = jax_trainer(group, tmp_path, python_package, "newest")
    trainer.announced()
    path = evidence_file(trainer.agent)
    order(path)
    _, main = list(stacks(path).values())[-1]
    assert any(file.endswith("framework_loop.py") for file, _, _ in main), main
    for _ in range(50):
        order(path, between_ms=0)
    assert trainer.trains()


class StuckJob:
    RANKS, BAD = 4, 2

    def __init__(self, group, directory, package, fault, step=20):
        self.dir = directory / "strobe"
        self.dir.mkdir()
        port, address = free_port(), f"127.0.0.1:{free_port()}"
        self.sidecar = group.start("sidecar", [BIN / "strobe-sidecar", "--listen", address, "--framework", f"127.0.0.1:{free_port()}", "--agent-dir",
                                               self.dir / "agent", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        self.ranks = [group.start(f"rank-{rank}", [TORCH_PYTHON, ROOT / "tests/e2e/stuck_loop.py", fault, str(self.BAD), str(step)], env={
            "PYTHONPATH": str(package), "STROBE_DIR": str(self.dir), "STROBE_AGENT": str(AGENT), "PYTHONWARNINGS": "ignore", "RANK": str(rank),
            "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"})
            for rank in range(self.RANKS)]
        for process in self.ranks:
            process.wait_for("ready", 120)
        if fault != "none":
            self.ranks[self.BAD].wait_for("stuck", 60)
        self.tmp = directory
        import grpc
        from strobe.v1 import worker_pb2, worker_pb2_grpc
        self.pb, self.stub = worker_pb2, worker_pb2_grpc.WorkerStub(grpc.insecure_channel(address))

    def groups_are_told(self):
        wait_until(lambda: len(list((self.dir / "agent").glob("*.groups"))) == self.RANKS, 30, "all groups")

    def evidence(self, **request):
        return self.stub.ReadEvidence(self.pb.ReadEvidenceRequest(**request), timeout=60)

    def verdict(self, response):
        folder = self.tmp / f"evidence-{time.monotonic_ns()}"
        folder.mkdir()
        for file in response.files:
            (folder / file.name).write_bytes(file.content)
        done = subprocess.run([BIN / "strobe", "why", folder, "--output", "json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (done.stderr, [file.name for file in response.files], list(response.notes))
        return json.loads(done.stdout)


needs_torch = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


@needs_torch
@pytest.mark.parametrize(("fault", "kind", "line"), [
    ("sleep", "host", "load_batch_slowly"), ("gil", "host", "keep_the_lock"), ("lock", "host", "wait_for_a_lock"), ("spin", "host", "spin"),
    ("sigstop", "silent", None)])
def test_the_rank_that_holds_up_the_others_is_named(group, tmp_path, python_package, protos, fault, kind, line):
    job = StuckJob(group, tmp_path, python_package, fault, step=150)
    job.groups_are_told()
    time.sleep(1)  # The others run into their next collective.
    began = time.monotonic()
    response = job.evidence()
    assert time.monotonic() - began < 20
    found = job.verdict(response)
    assert (found["class"], found["ranks"]) == (kind, [job.BAD]), (found["text"], list(response.notes))
    if line is not None:
        assert line in found["text"], found["text"]
    if fault == "sigstop":
        os.kill(job.ranks[job.BAD].pid, signal.SIGCONT)


@needs_torch
def test_a_rank_that_ends_is_named_after_all_have_died(group, tmp_path, python_package, protos):
    """The others die by an exception within milliseconds, and nothing stands still."""
    job = StuckJob(group, tmp_path, python_package, "exit", step=150)
    wait_until(lambda: not any(process.running() for process in job.ranks), 60, "the end of all ranks")
    response = job.evidence()
    names = {file.name for file in response.files}
    assert {f"{rank}.groups" for rank in range(job.RANKS)} <= names, names
    found = job.verdict(response)
    assert (found["class"], found["ranks"]) == ("gone", [job.BAD]), found["text"]


@needs_torch
def test_a_job_that_runs_names_nobody_and_is_not_delayed(group, tmp_path, python_package, protos):
    job = StuckJob(group, tmp_path, python_package, "none")
    job.groups_are_told()
    found = job.verdict(job.evidence(between_looks_ns=500_000_000))
    assert found["class"] == "progressing" and found["ranks"] == [], found["text"]
    for _ in range(20):
        job.evidence(between_looks_ns=1_000_000, kinds=[job.pb.EVIDENCE_STACKS, job.pb.EVIDENCE_COLLECTIVES])
    assert all(process.running() for process in job.ranks)
    stall = job.stub.Describe(job.pb.DescribeRequest(), timeout=30).stall
    assert not stall.stalled, stall
    check_requests(job)


@needs_torch
def test_hundreds_of_orders_harm_no_job(group, tmp_path, python_package, protos):
    """Stacks and the Flight Recorder's dumps of ranks that compute and communicate all the time: they go on, and what is said to be proven is possible."""
    job = StuckJob(group, tmp_path, python_package, "none")
    job.groups_are_told()
    paths = sorted((job.dir / "agent").glob("*.evidence"))
    assert len(paths) == job.RANKS

    def torment(path):
        proven = 0
        for _ in range(100):
            order(path, STACKS | COLLECTIVES, between_ms=0)
            heading, frames = list(stacks(path).values())[-1]
            if " proven" in heading:
                proven += 1
                assert frames[-1][0].endswith("stuck_loop.py") and frames[-1][2] == "<module>", frames
        return proven

    with ThreadPoolExecutor(job.RANKS) as threads:
        proven = list(threads.map(torment, paths))
    assert all(process.running() for process in job.ranks)
    assert all(proven), "ranks that wait for each other sleep most of the time"
    found = job.verdict(job.evidence(between_looks_ns=500_000_000))
    assert found["class"] == "progressing", found["text"]


def check_requests(job):
    import grpc
    for wrong in (1, 65535, (64 << 20) + 1):
        with pytest.raises(grpc.RpcError) as refused:
            job.evidence(max_bytes=wrong)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    response = job.evidence(max_bytes=65536, between_looks_ns=1_000_000)
    assert sum(len(file.content) for file in response.files) <= 65536
    assert not response.notes, "nothing is missing: gloo has no RAS"


@needs_torch
def test_a_standstill_is_described(group, tmp_path, python_package, protos):
    job = StuckJob(group, tmp_path, python_package, "sleep", step=60)

    def stall():
        return job.stub.Describe(job.pb.DescribeRequest(), timeout=30).stall

    wait_until(lambda: stall().stalled, 20, "the sign")
    assert time.time_ns() - stall().since_ns > 3_000_000_000 and 0 < stall().usual_step_ns < 3_000_000_000
