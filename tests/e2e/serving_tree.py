"""Processes as inference servers and actors have them, which know nothing of Strobe: serving_tree.py TREE NOTES

| tree | processes; those in parentheses import PyTorch and run nothing |
|---|---|
| uni | (server) > EngineCore |
| tp2 | (server) > (EngineCore) > VllmWorker-0, VllmWorker-1, which are daemons of multiprocessing |
| idle | as tp2, and no request comes |
| workers_only | as tp2, and only the workers have Strobe's part, as where the agent brings it |
| dp2 | (server) > EngineCore_DP0, EngineCore_DP1, each rank 0 of 1; (ApiServer_0), (ApiServer_1) |
| forked | (server) > EngineCore, by fork |
| prefork | (server) > model, by fork, which joins no process group |
| actors | (driver) > raylet, which imports nothing > two trainers that are local rank 0 each, and a rollout without a group |
| vllm | as tp2, with classes of vLLM's shape (tests/e2e/engines): EngineCore schedules, the workers run |
| vllm_uni | (server) > EngineCore, which schedules and runs |
| vllm_idle | as vllm, and no request comes before the file NOTES.load is there |
| sglang | (server) > scheduler, with classes of SGLang's shape |

What runs the model writes NOTES.NAME, a line for each iteration: its begin and end by the wall clock and, of the last four, its requests and tokens. An
iteration calls tanh once, or SERVING_LAYERS times where it infers. Prints "ready" once all are there.
"""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import time
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "engines"))

# Told by the parent, which may have ended before this process can ask.
PARENT = int(os.environ.get("SERVING_PARENT", 0)) or os.getppid()


def set_title(text):
    """Overwrites the command that /proc tells, as setproctitle does."""
    with open("/proc/self/stat") as stat:
        start, end = (int(field) for field in stat.read().rsplit(")", 1)[1].split()[45:47])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text.encode(), min(len(text), end - start - 1))


def is_there(notes, name):
    Path(f"{notes}.there.{name}").touch()


def join(notes, group, rank, world):
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{notes}.store.{group}", rank=rank, world_size=world)


def parent_lives():
    """The parent of multiprocessing's children is known even if it has ended by now."""
    parent = multiprocessing.parent_process()
    return os.getppid() == (PARENT if parent is None else parent.pid)


def iterate(notes, name, step):
    """Calls step() until the parent has ended."""
    with open(f"{notes}.{name}", "w", buffering=1) as file:
        is_there(notes, name)
        while parent_lives():
            begin = time.time_ns()
            step()
            file.write(f"{begin} {time.time_ns()}\n")
            time.sleep(0.005)  # Nothing runs here, so that an iteration's operators are told from the next one's.


def infer(notes, name, world=1):
    import torch

    model, state, layers = torch.nn.Linear(64, 64), torch.zeros(4, 64), range(int(os.environ.get("SERVING_LAYERS", 1)))
    with torch.inference_mode():
        def step():
            for _ in layers:
                state.copy_(torch.tanh(model(state)))
            if world > 1:
                torch.distributed.all_reduce(state)
        iterate(notes, name, step)


def train(notes, name):
    import torch

    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        torch.tanh(model(torch.ones(4, 64))).sum().backward()
        optimizer.step()
    iterate(notes, name, step)


def wait(notes, name):
    """A process that imports PyTorch and runs nothing."""
    import torch  # noqa: F401

    is_there(notes, name)
    while parent_lives():
        time.sleep(0.05)


def work(notes, name, group="all", rank=0, world=1, serves=True):
    join(notes, group, rank, world)
    infer(notes, name, world) if serves else wait(notes, name)


def engine(notes, serves):
    switch = os.environ.pop("STROBE_BOOTSTRAP", None)
    for rank in range(2):
        name = f"VllmWorker-{rank}"
        spawn(work, name, (notes, name, "all", rank, 2, serves), daemon=True)
    os.environ.update({"STROBE_BOOTSTRAP": switch} if switch else {})
    wait(notes, "EngineCore")


def actor(notes, name, rank):
    set_title(f"actor::{name}")
    if rank is None:
        return infer(notes, name)
    join(notes, "trainers", rank, 2)
    train(notes, name)


VLLM = types.SimpleNamespace(kv_transfer_config=types.SimpleNamespace(kv_role="kv_consumer"))


def requests_for(serves, there):
    """The next requests, so that three are there once serves()."""
    number = 0
    while True:
        new = []
        while len(new) + there() < 3 and serves():
            number += 1
            new.append((f"r{number}", 16 + number % 32, 10))
        yield new


class VllmModel:
    """Runs batches with a worker of vLLM's shape, and notes them."""

    def __init__(self, notes, name):
        from vllm.v1.worker.worker_base import WorkerWrapperBase

        self.wrapper = WorkerWrapperBase(VLLM)
        self.wrapper.init_device()
        self.file = open(f"{notes}.{name}", "w", buffering=1)

    def run(self, batch):
        begin = time.time_ns()
        if self.wrapper.execute_model(batch) is None:
            self.wrapper.sample_tokens(None)
        self.file.write(f"{begin} {time.time_ns()} {len(batch.num_scheduled_tokens)} {batch.total_num_scheduled_tokens}\n")


def vllm_worker(notes, name, rank, pipe):
    join(notes, "all", rank, 2)
    model = VllmModel(notes, name)
    is_there(notes, name)
    while parent_lives():
        if pipe.poll(0.05):
            model.run(pipe.recv())
            pipe.send(None)


def vllm_engine(notes, workers, tree):
    import torch  # noqa: F401
    import vllm.v1.worker.worker_base  # noqa: F401  As its executors do, which run no model here.
    from vllm.v1.core.sched.scheduler import Request, Scheduler

    scheduler, pipes = Scheduler(VLLM), []
    if workers == 0:
        join(notes, "all", 0, 1)
        model = VllmModel(notes, "EngineCore")
    for rank in range(workers):
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        spawn(vllm_worker, f"VllmWorker-{rank}", (notes, f"VllmWorker-{rank}", rank, theirs), daemon=True)
        pipes.append(ours)
    is_there(notes, "EngineCore")
    load = Path(f"{notes}.load")
    for new in requests_for(lambda: tree != "vllm_idle" or load.exists(), lambda: len(scheduler.running) + len(scheduler.waiting)):
        if not parent_lives():
            return
        scheduler.waiting += [Request(*request) for request in new]
        if not (scheduler.running or scheduler.waiting):
            time.sleep(0.05)
            continue
        batch = scheduler.schedule()
        for pipe in pipes:
            pipe.send(batch)
        for pipe in pipes:
            pipe.recv()
        if not pipes:
            model.run(batch)
        scheduler.update_from_output(batch, None)
        time.sleep(0.005)


def sglang_scheduler(notes, name):
    set_title("sglang::scheduler")
    join(notes, "all", 0, 1)
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.managers.scheduler import Scheduler

    scheduler = Scheduler("prefill")
    with open(f"{notes}.{name}", "w", buffering=1) as file:
        is_there(notes, name)
        for new in requests_for(lambda: True, lambda: len(scheduler.running) + len(scheduler.waiting_queue)):
            if not parent_lives():
                return
            scheduler.waiting_queue += [Req(*request) for request in new]
            batch = scheduler.get_next_batch_to_run()
            begin = time.time_ns()
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
            file.write(f"{begin} {time.time_ns()} {len(batch.reqs)} {batch.extend_num_tokens or len(batch.reqs)}\n")
            time.sleep(0.005)


def spawn(target, name, arguments, method="spawn", daemon=False):
    multiprocessing.get_context(method).Process(target=target, args=arguments, name=name, daemon=daemon).start()


def start(tree, notes):
    """Starts the tree's processes; returns the names of those that must be there."""
    if tree in ("tp2", "idle", "workers_only"):
        spawn(engine, "EngineCore", (notes, tree != "idle"))
        return ["EngineCore", "VllmWorker-0", "VllmWorker-1"]
    if tree in ("vllm", "vllm_idle"):
        spawn(vllm_engine, "EngineCore", (notes, 2, tree))
        return ["EngineCore", "VllmWorker-0", "VllmWorker-1"]
    if tree == "vllm_uni":
        spawn(vllm_engine, "EngineCore", (notes, 0, tree))
        return ["EngineCore"]
    if tree == "sglang":
        spawn(sglang_scheduler, "scheduler", (notes, "scheduler"))
        return ["scheduler"]
    if tree == "dp2":
        for replica in range(2):
            spawn(work, f"EngineCore_DP{replica}", (notes, f"EngineCore_DP{replica}", replica))
            spawn(wait, f"ApiServer_{replica}", (notes, f"ApiServer_{replica}"))
        return ["EngineCore_DP0", "EngineCore_DP1", "ApiServer_0", "ApiServer_1"]
    if tree == "actors":
        subprocess.Popen([sys.executable, __file__, "raylet", notes], env={**os.environ, "SERVING_PARENT": str(os.getpid())})
        return ["Trainer_0", "Trainer_1", "Rollout"]
    if tree == "prefork":
        spawn(infer, "model", (notes, "model"), method="fork")
        return ["model"]
    spawn(work, "EngineCore", (notes, "EngineCore"), method="fork" if tree == "forked" else "spawn")
    return ["EngineCore"]


def raylet(notes):
    ranks = {"Trainer_0": 0, "Trainer_1": 1, "Rollout": None}
    for name, rank in ranks.items():
        told = {} if rank is None else {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
        subprocess.Popen([sys.executable, __file__, "actor", notes, name, str(rank)], env={**os.environ, **told, "SERVING_PARENT": str(os.getpid())})
    while parent_lives():
        time.sleep(0.05)


if __name__ == "__main__":
    what, at = sys.argv[1:3]
    if what == "raylet":
        raylet(at)
    elif what == "actor":
        actor(at, sys.argv[3], None if sys.argv[4] == "None" else int(sys.argv[4]))
    else:
        if what == "workers_only":
            os.environ["STROBE_BOOTSTRAP"] = "off"
        import torch  # noqa: F401

        expected = start(what, at)
        while not all(Path(f"{at}.there.{name}").exists() for name in expected):
            time.sleep(0.02)
        print("ready", flush=True)
        wait(at, "server")
