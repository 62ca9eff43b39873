"""Who holds up a job, by the evidence of real PyTorch processes (gloo) and through a real sidecar."""

import time

import pytest

from tests.support.processes import wait_until
from tests.support.stuck_job import Forks, StuckJob, needs_torch


@pytest.fixture(scope="module")
def forks(session_group, tmp_path_factory, python_package):
    return Forks(session_group, tmp_path_factory.mktemp("forks"), python_package)


@pytest.fixture
def stuck_job(group, tmp_path, python_package, protos, forks):
    made = []

    def make(fault):
        made.append(StuckJob(group, tmp_path, python_package, fault, step=100, forks=forks))
        return made[-1]

    yield make
    for rank in (rank for job in made for rank in job.ranks):
        rank.kill()


@needs_torch
@pytest.mark.parametrize(("fault", "kind", "line"), [
    ("sleep", "host", "load_batch_slowly"), ("gil", "host", "keep_the_lock"), ("lock", "host", "wait_for_a_lock"), ("spin", "host", "spin"),
    ("sigstop", "silent", None)])
def test_the_rank_that_holds_up_the_others_is_named(stuck_job, fault, kind, line):
    job = stuck_job(fault)
    job.groups_are_told()
    time.sleep(1)  # The others run into their next collective.
    began = time.monotonic()
    response = job.evidence()
    assert time.monotonic() - began < 20
    found = job.verdict(response)
    assert (found["class"], found["ranks"]) == (kind, [job.BAD]), (found["text"], list(response.notes))
    if line is not None:
        assert line in found["text"], found["text"]


@needs_torch
def test_a_rank_that_ends_is_named_after_all_have_died(stuck_job):
    """The others die by an exception within milliseconds, and nothing stands still."""
    job = stuck_job("exit")
    wait_until(lambda: not any(process.running() for process in job.ranks), 60, "the end of all ranks")
    response = job.evidence()
    names = {file.name for file in response.files}
    assert {f"{rank}.groups" for rank in range(job.RANKS)} <= names, names
    found = job.verdict(response)
    assert (found["class"], found["ranks"]) == ("gone", [job.BAD]), found["text"]
