"""Programs that are not a job of a launcher: inference servers, whose front ends import PyTorch and run nothing, and actors. Real PyTorch."""

import json
import subprocess

import pytest

from tests.support.beside import default
from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, wait_until
from tests.support.step_rig import host_events, recorded_steps

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")

MS = 1_000_000


class Tree(Trainer):
    """A tree of tests/e2e/serving_tree.py under one sidecar."""

    def __init__(self, group, directory, package, tree, announced, python=TORCH_PYTHON, env=None):
        self.port = free_port()
        self.root, self.address = directory, f"127.0.0.1:{self.port}"
        group.start(f"sidecar-{self.port}", [
            BIN / "strobe-sidecar", "--listen", self.address, "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", directory / "strobe/agent",
            "--spool-dir", directory / "spool", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        super().__init__(group, directory, package, command=[python, ROOT / "tests/e2e/serving_tree.py", tree, directory / "notes"], env=env)
        wait_until(lambda: len(self.announcements()) == announced, 30, f"{announced} announcements")

    def command(self, *flags, attempts=3, run="r"):
        return [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", self.address, "--logdir", self.root / "logdir",
                "--run", run, *default(flags, "--duration", "1s"), "--guard", "1s", "--attempts", str(attempts), "--output", "json", *flags]

    def capture(self, *flags, **options):
        """Captures; returns the manifest. The outcomes are final at the first attempt, although three are allowed."""
        done = subprocess.run(self.command(*flags, **options), capture_output=True, text=True, timeout=180)
        assert done.stdout, done.stderr
        manifest = json.loads(done.stdout)
        assert manifest["attempt"] == 1, done.stderr
        return manifest

    def names_of(self, names):
        """The processes' row names, by the names that the tree gives them; None is the server itself."""
        pids = {a["title"]: a["pid"] for a in self.announcements()}
        return {f"{'serving_tree.py' if name is None else name} {pids[name]}" for name in names}

    def files(self):
        return sorted(path.name for path in (self.root / "logdir/plugins/profile/r").glob("*.xplane.pb"))

    def base(self):
        return self.address.replace(":", "_")

    def noted(self, name):
        """The iterations of a process: (begin, end, ...)."""
        return [tuple(map(int, line.split())) for line in (self.root / f"notes.{name}").read_text().splitlines()[:-1]]

    def check_iterations(self, worker, name, layers=1, run="r"):
        """The file of a worker has each iteration of its process, as the process noted them."""
        begin, end = int(worker["startedNs"]), int(worker["stoppedNs"])
        whole = [noted for noted in self.noted(name) if begin <= noted[0] and noted[1] <= end]
        assert len(whole) > 10, "the window has few iterations"
        first, last = whole[0][0] - MS // 4, whole[-1][1] + MS // 4
        events = host_events(self.root / f"logdir/plugins/profile/{run}/{worker['name']}.xplane.pb")
        assert sum(event == "aten::tanh" and first <= started and ended <= last for event, started, ended in events) == len(whole) * layers


def recorded(worker):
    """The names of the rows of a worker's processes that were recorded."""
    return {row["name"] for row in worker["processes"] if not row.get("note", "").startswith("left out: ")}


def left_out(worker):
    """Name and reason of the others."""
    return {row["name"]: row["note"] for row in worker["processes"] if row.get("note", "").startswith("left out: ")}


def told(worker):
    return worker["name"], worker.get("rank"), worker["outcome"]


def test_a_server_whose_engine_runs_the_model(group, tmp_path, python_package, protos):
    tree = Tree(group, tmp_path, python_package, "uni", 2)
    (worker,) = tree.capture()["workers"]
    assert told(worker) == (tree.base(), 0, "Ok"), worker
    assert recorded(worker) == tree.names_of(["EngineCore"])
    (reason,) = left_out(worker).values()
    assert "it started processes of the job" in reason and set(left_out(worker)) == tree.names_of([None])
    tree.check_iterations(worker, "EngineCore")


def test_workers_that_are_daemons_of_multiprocessing(group, tmp_path, python_package, protos):
    """They were taken for workers of data loaders, and the idle server was recorded instead, three times."""
    tree = Tree(group, tmp_path, python_package, "tp2", 4)
    workers = tree.capture()["workers"]
    assert [told(w) for w in workers] == [(f"{tree.base()}.{rank}", rank, "Ok") for rank in (0, 1)], workers
    assert [recorded(w) for w in workers] == [tree.names_of([f"VllmWorker-{rank}"]) for rank in (0, 1)]
    assert set(left_out(workers[0])) == tree.names_of([None, "EngineCore"]) and not left_out(workers[1])
    for rank in (0, 1):
        tree.check_iterations(workers[rank], f"VllmWorker-{rank}")
    table = subprocess.run([BIN / "strobe", "inspect", tmp_path / "logdir"], capture_output=True, text=True, check=True).stdout
    assert "left out: it started processes of the job" in table


def test_replicas_of_equal_rank_have_files_of_their_own(group, tmp_path, python_package, protos):
    tree = Tree(group, tmp_path, python_package, "dp2", 5)
    workers = tree.capture()["workers"]
    assert [told(w) for w in workers] == [(f"{tree.base()}.{replica}", 0, "Ok") for replica in (0, 1)], workers
    assert tree.files() == [f"{tree.base()}.{replica}.xplane.pb" for replica in (0, 1)]
    assert [recorded(w) for w in workers] == [tree.names_of([f"EngineCore_DP{replica}"]) for replica in (0, 1)]
    reasons = left_out(workers[0])
    assert set(reasons) == tree.names_of([None, "ApiServer_0", "ApiServer_1"])
    assert sum("it ran nothing" in reason for reason in reasons.values()) == 2, reasons
    for replica in (0, 1):
        tree.check_iterations(workers[replica], f"EngineCore_DP{replica}")


def test_a_server_without_requests(group, tmp_path, python_package):
    """The outcome is that of the workers, and names them."""
    tree = Tree(group, tmp_path, python_package, "idle", 4)
    manifest = tree.capture(attempts=1)
    assert [w["outcome"] for w in manifest["workers"]] == ["NoHostEvents"] * 2
    assert set(left_out(manifest["workers"][0])) == tree.names_of([None, "EngineCore"])
    assert "VllmWorker-0" in manifest["workers"][0]["message"]


@pytest.mark.parametrize("tree, name, reason", [("forked", "EngineCore", "it started processes of the job"), ("prefork", "model", "it ran nothing")])
def test_a_forked_process_that_only_infers_is_found(group, tmp_path, python_package, protos, tree, name, reason):
    """It had no service, and its idle parent was recorded."""
    tree = Tree(group, tmp_path, python_package, tree, 2)
    (worker,) = tree.capture()["workers"]
    assert worker["outcome"] == "Ok", worker
    assert recorded(worker) == tree.names_of([name])
    assert set(left_out(worker)) == tree.names_of([None]) and reason in str(left_out(worker))
    tree.check_iterations(worker, name)


def test_workers_that_alone_announced_themselves(group, tmp_path, python_package, protos):
    """As where only the agent, which comes with CUDA, brings Strobe's part. The capture ended as NoSource."""
    tree = Tree(group, tmp_path, python_package, "workers_only", 2)
    workers = tree.capture()["workers"]
    assert [told(w) for w in workers] == [(f"{tree.base()}.{rank}", rank, "Ok") for rank in (0, 1)], workers
    assert [recorded(w) | set(left_out(w)) for w in workers] == [tree.names_of([f"VllmWorker-{rank}"]) for rank in (0, 1)]


def test_actors_of_equal_local_rank_beside_a_rollout_and_a_driver(group, tmp_path, python_package, protos):
    tree = Tree(group, tmp_path, python_package, "actors", 4)
    workers = tree.capture()["workers"]
    assert [told(w) for w in workers] == [(f"{tree.base()}.{rank}", rank, "Ok") for rank in (0, 1)], workers
    assert recorded(workers[0]) == tree.names_of(["actor::Trainer_0", "actor::Rollout"])
    assert recorded(workers[1]) == tree.names_of(["actor::Trainer_1"])
    assert set(left_out(workers[0])) == tree.names_of([None])
    (rollout,) = [row for row in workers[0]["processes"] if "Rollout" in row["name"]]
    assert rollout["outcome"] == "OK" and int(rollout["events"]) > 10
    tree.check_iterations(workers[1], "Trainer_1")
    assert tree.files() == [f"{tree.base()}.{rank}.xplane.pb" for rank in (0, 1)]


def iterations_in(tree, worker, name):
    """The iterations that a process noted and that lie in the window: (begin, end, requests, tokens)."""
    begin, end = int(worker["startedNs"]), int(worker["stoppedNs"])
    return [one for one in tree.noted(name) if begin <= one[0] and one[1] <= end]


def check_engine(tree, worker, name):
    """Each iteration of the window, by the engine's own notes, is one step, and the counts are those of the notes. Returns the steps' numbers."""
    noted = iterations_in(tree, worker, name)
    steps = recorded_steps(tree.root / f"logdir/plugins/profile/r/{worker['name']}.xplane.pb", "engine")
    assert len(noted) > 10, "the window has few iterations"
    numbers = []
    for begin, end, _, _ in noted:
        within = [number for number, (first, last) in steps.items() if begin - MS // 4 <= first and last <= end + MS // 4]
        assert len(within) == 1, (begin, end, within)
        numbers += within
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "numbers count up"
    (row,) = [row for row in worker["processes"] if name in row["name"] or "scheduler" in row["name"]]
    told = row["engine"]
    # At both ends, one more may have begun or ended outside of the window.
    assert len(noted) <= int(told["iterations"]) <= len(noted) + 2
    tokens = sum(one[3] for one in noted)
    assert tokens <= int(told["prefillTokens"]) + int(told["decodeTokens"]) <= tokens + 200
    assert row["note"].startswith(f"{told['iterations']} iterations (")
    return numbers


def engines_told(tree, count):
    """Waits until so many processes have announced an engine."""
    wait_until(lambda: sum(a.get("engine") is not None for a in tree.announcements()) == count, 30, f"{count} engines")


def test_iterations_of_vllms_engine_are_steps(group, tmp_path, python_package, protos):
    tree = Tree(group, tmp_path, python_package, "vllm", 4)
    engines_told(tree, 3)
    wait_until(lambda: any(a["engine"]["schedules"] for a in tree.announcements() if a.get("engine")), 30, "the scheduler")
    workers = tree.capture()["workers"]
    assert [told(w)[1:] for w in workers] == [(0, "Ok"), (1, "Ok")], workers
    assert recorded(workers[0]) == tree.names_of(["VllmWorker-0", "EngineCore"]), "the scheduler is a companion"
    assert set(left_out(workers[0])) == tree.names_of([None])
    first, second = (check_engine(tree, workers[rank], f"VllmWorker-{rank}") for rank in (0, 1))
    common = sorted(set(first) & set(second))
    assert len(common) > 10, "both ranks count the same iterations"
    assert workers[0]["steps"]["loop"] == "engine"
    rows = {row["name"].split()[0]: row for row in workers[0]["processes"]}
    assert rows["VllmWorker-0"]["engine"]["program"] == "vllm 0.32.0"
    assert (rows["VllmWorker-0"]["role"], rows["VllmWorker-0"]["roleFrom"]) == ("decode", "kv_transfer_config: kv_consumer")
    assert "iterations" not in rows["EngineCore"]["engine"] and int(rows["EngineCore"]["engine"]["running"]) > 0
    events = [name for name, _, _ in host_events(tmp_path / f"logdir/plugins/profile/r/{workers[0]['name']}.xplane.pb")]
    assert "engine.schedule" in events
    check_report(tree, workers[0], "VllmWorker-0", first)


def check_report(tree, worker, name, numbers):
    """The report sums up iterations by their batches, whose sizes are those of the engine's own notes."""
    def report(*flags):
        return subprocess.run([BIN / "strobe", "report", tree.root / "logdir", *flags], capture_output=True, text=True, check=True).stdout

    (digest,) = [one for one in json.loads(report("--output", "json"))["workers"] if one["worker"] == worker["name"]]
    batches = {step["number"]: step["batch"] for step in digest["steps"] if step["loop"] == "engine"}
    for number, (_, _, requests, tokens) in zip(numbers, iterations_in(tree, worker, name)):
        batch = batches[number]
        assert (batch["prefillRequests"] + batch["decodeRequests"], batch["prefillTokens"] + batch["decodeTokens"]) == (requests, tokens), number
    text = report()
    assert text.startswith("decode ") and "of the time between iterations, most of it: scheduling" in text, text
    assert "BATCH" in text and "BETWEEN ITERATIONS" in text


@pytest.mark.parametrize("tree, name, role", [("vllm_uni", "EngineCore", "decode"), ("sglang", "scheduler", "prefill")])
def test_an_engine_in_one_process(group, tmp_path, python_package, protos, tree, name, role):
    server = Tree(group, tmp_path, python_package, tree, 2)
    engines_told(server, 1)
    (worker,) = server.capture()["workers"]
    assert told(worker)[2] == "Ok", worker
    check_engine(server, worker, name)
    (row,) = [row for row in worker["processes"] if "engine" in row]
    assert row["role"] == role and int(row["engine"]["running"]) > 0
    assert int(row["engine"]["prefills"]) > 0 and int(row["engine"]["requests"]) > 1


def test_an_engine_without_requests_says_so(group, tmp_path, python_package):
    tree = Tree(group, tmp_path, python_package, "vllm_idle", 4)
    engines_told(tree, 3)
    manifest = tree.capture(attempts=1)
    assert [w["outcome"] for w in manifest["workers"]] == ["NoHostEvents"] * 2
    assert "NoRequests: no request ran in the window: 0 iterations" in manifest["workers"][0]["message"]


def test_a_capture_waits_until_requests_run(group, tmp_path, python_package, protos):
    tree = Tree(group, tmp_path, python_package, "vllm_idle", 4)
    engines_told(tree, 3)
    flags = ("--min-running-requests", "3", "--ready-timeout", "60s", "--progress", "json")
    waiting = subprocess.Popen(tree.command(*flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    events = iter(waiting.stderr.readline, "")
    assert any("NoRequests: 0 of 3 requests run or wait in its server; send load to it" in json.loads(event).get("waitsFor", "") for event in events)
    (tmp_path / "notes.load").touch()
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    workers = json.loads(out)["workers"]
    assert [told(w)[1:] for w in workers] == [(0, "Ok"), (1, "Ok")], workers
    for rank in (0, 1):
        check_engine(tree, workers[rank], f"VllmWorker-{rank}")

    few = tree.capture("--min-running-requests", "4", "--ready-timeout", "1s", run="few")["workers"]
    assert {(w["outcome"], w["message"]) for w in few} == {("NoSource", "NoRequests: 3 of 4 requests run or wait in its server; send load to it")}


GROUP_OF_THE_PARENT = """
import os, sys, time, torch
torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
time.sleep(1.5)  # Until the service is there.
top = os.getpid()
if os.fork() == 0:
    if os.fork() == 0:  # As programs that become daemons.
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    while os.path.exists(f"/proc/{top}"):
        time.sleep(0.05)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_forked_child_is_no_member_of_its_parents_group(group, tmp_path, python_package):
    """It would tell its parent's rank. The child of a child is found too; one that does nothing with PyTorch announces nothing."""
    program = tmp_path / "forks.py"
    program.write_text(GROUP_OF_THE_PARENT)
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, program, tmp_path / "store"])
    wait_until(lambda: len(trainer.announcements()) == 2, 30, "two announcements")
    told = {a["pid"] == trainer.process.pid: (a["joined"], a["rank"]) for a in trainer.announcements()}
    assert told == {True: (True, 0), False: (False, None)}


LATE = """
import sys, time, torch
if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
    print("joined", flush=True)
    sys.stdin.readline()
"""


def test_a_process_that_joins_late_tells_so_at_once(tmp_path, python_package):
    """A server takes minutes to start, and nobody asks a daemon that has not joined."""
    program = tmp_path / "late.py"
    program.write_text(LATE)
    agent = tmp_path / "strobe/agent"
    (tmp_path / "strobe").mkdir()
    process = subprocess.Popen([TORCH_PYTHON, "-c", "import strobe_bootstrap; strobe_bootstrap._load(); import strobe._inproc.service as s; s._SECONDS_OF_RANKS = -1;"
                                "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')", program, tmp_path / "store"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={"PYTHONPATH": str(python_package), "STROBE_DIR": str(tmp_path / "strobe"), "PYTHONWARNINGS": "ignore"})
    try:
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: list(agent.glob("*.process")), 20, "the announcement")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "joined\n"
        wait_until(lambda: all(json.loads(path.read_text())["joined"] for path in agent.glob("*.process")), 20, "joined")
    finally:
        process.kill()
        process.communicate()
