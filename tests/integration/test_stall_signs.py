"""Jobs that run while evidence of them is read: they are not delayed or harmed, and nobody is named; and the sign of one that stands still."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.evidence import COLLECTIVES, STACKS, order, stacks
from tests.support.processes import wait_until
from tests.support.stuck_job import StuckJob, needs_torch


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
