"""What strobe report tells of a job's parallelism: a real pipeline of PyTorch (torch.distributed.pipelining over gloo, four processes), which profiles
itself without Strobe. 60 s."""

import json
import subprocess

import pytest

from tests.support.inproc import TORCH_PYTHON
from tests.support.processes import BIN, ROOT

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")

SLOW = 3  # In the second stage, and the second replica.


def trained(folder, *arguments):
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_pipeline.py", folder, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("pipeline"), SLOW)


def report(place):
    done = subprocess.run([BIN / "strobe", "report", place, "--output", "json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_traces_tell_groups_and_stages(run):
    told = report(run)
    workers = {worker["rank"]: worker for worker in told["workers"]}
    assert sorted(workers) == [0, 1, 2, 3]
    for rank, worker in workers.items():
        # PyTorch itself wrote which groups the process is in; the witness is the trace's text.
        trace = json.loads((run / f"rank{rank}.trace.json").read_text())
        written = {(f"{group['pg_name']} {group['pg_desc']}", tuple(group["ranks"])) for group in trace["distributedInfo"]["pg_config"]}
        assert {(group["name"], tuple(group["ranks"])) for group in worker["groups"]} == written
        (pipeline,) = (group for group in worker["groups"] if group["name"].endswith("mesh_pp"))
        assert pipeline["ranks"] == [rank % 2, rank % 2 + 2]
    stages = told["stragglers"]["stages"]
    assert [(stage["stage"], stage["workers"]) for stage in stages] == [(0, 2), (1, 2)]


def test_a_slow_rank_is_compared_with_its_own_stage(run):
    """The second stage has three times as much to do, so that both of its ranks would be late among all four."""
    stragglers = report(run)["stragglers"]
    late = {entry["worker"] for entry in stragglers["stragglers"] + stragglers["notDecided"]}
    assert f"rank{SLOW}" in late and late <= {f"rank{SLOW}", "rank0", "rank1"}, stragglers["headline"]
    assert "rank2" not in late


def test_time_is_told_by_group(run):
    groups = report(run)["stragglers"]["groups"]
    assert groups and all(group["calls"] > 0 and group["inCallsNs"] > 0 for group in groups), groups
    table = subprocess.run([BIN / "strobe", "report", run], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "STAGE" in table and "OWN TIME A STEP" in table, table
