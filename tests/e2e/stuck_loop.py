"""A rank of a gloo job with tensor-, data- and pipeline-parallel ranks, of which one misbehaves. It knows nothing of Strobe:

    stuck_loop.py FAULT RANK STEP      FAULT: "none", or one of those in faults.py and `Rank`
    stuck_loop.py --jobs FIFO          forks a rank for each line {"log": PATH, "env": {}, "arguments": [FAULT, RANK, STEP], "network": PATH},
                                       so that PyTorch is imported once for many jobs; each begins as if it had imported PyTorch itself, in
                                       the network namespace if one is named

Prints "ready" before the first step and "stuck" before the fault.
"""

import ctypes
import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from faults import WHILE_LOADING, load_batch_slowly, read_from_a_pipe


class Rank:
    # Where a step goes wrong, beside while it loads its batch, and how.
    BEHIND_GATHER = {"middle": load_batch_slowly, "two": load_batch_slowly, "transfer": load_batch_slowly}
    BEFORE_LOSS = {"async": load_batch_slowly}
    AT_THE_END = {"rendezvous": load_batch_slowly, "save": read_from_a_pipe}
    # The seconds of each step, and of each twentieth one, for which the others wait; "saves" has them wait in a barrier.
    LINGERS, PAUSES = {"slow": 1, "uneven": 2.5}, {"evaluates": 4, "saves": 4}
    # "skip", "extra", "other" and "shape" launch something else than the others; "barrier" has the others launch one more.

    def __init__(self, fault, bad_rank, bad_step):
        torch.set_num_threads(1)
        self.fault, self.bad_rank, self.bad_step = fault, bad_rank, bad_step
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", timeout=timedelta(seconds=300))
        pairs = [dist.new_group([first, first + 1], group_desc="TP") for first in range(0, self.world, 2)]
        replicas = [dist.new_group(list(range(first, self.world, 2)), group_desc="DP") for first in (0, 1)]
        self.pair, self.replica = pairs[self.rank // 2], replicas[self.rank % 2]
        self.model = torch.nn.Linear(64, 64)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.number = 0

    def is_due(self, fault):
        """Whether this rank shall misbehave in this way now."""
        who = (self.bad_rank, (self.bad_rank + 1) % self.world) if fault == "two" else (self.bad_rank,)
        return fault == self.fault and self.rank in who and self.number == self.bad_step

    def may_fail(self, faults):
        for fault, act in faults.items():
            if self.is_due(fault):
                print("stuck", flush=True)
                act()

    def says_stuck(self, fault):
        if self.is_due(fault):
            print("stuck", flush=True)
            return True
        return False

    def gather(self, values):
        if self.says_stuck("skip"):
            return
        if self.says_stuck("extra"):
            dist.all_reduce(values, group=self.pair)
        dist.all_gather([torch.empty_like(values) for _ in range(2)], values, group=self.pair)

    def hand_on(self):
        """On each second step, the first of a pair hands something to the other."""
        if self.number % 2 == 0:
            value = torch.ones(8)
            if self.rank % 2 == 0:
                dist.send(value, self.rank + 1)
            else:
                dist.recv(value, self.rank - 1)

    def reduce(self, gradient):
        if self.says_stuck("other"):
            dist.broadcast(gradient, src=self.rank % 2, group=self.replica)
        elif self.says_stuck("shape"):
            dist.all_reduce(gradient[:32].clone(), group=self.replica)
        else:
            dist.all_reduce(gradient, group=self.replica)

    def pause(self):
        if self.rank == self.bad_rank and self.number >= self.bad_step and self.number % 20 == 0:
            print("stuck", flush=True)
            time.sleep(self.PAUSES[self.fault])

    def end(self):
        self.may_fail(self.AT_THE_END)
        if self.fault == "saves" and self.number >= self.bad_step and self.number % 20 == 0:
            self.pause()
            dist.barrier()
        if self.number != self.bad_step:
            return
        if self.fault == "rendezvous":
            dist.new_group(list(range(self.world)), group_desc="late")
        if self.fault == "save" or self.fault == "barrier" and not self.says_stuck("barrier"):
            dist.barrier()

    def step(self):
        self.may_fail(WHILE_LOADING)
        if self.rank == self.bad_rank and self.number >= self.bad_step and self.fault in self.LINGERS:
            self.says_stuck(self.fault)
            time.sleep(self.LINGERS[self.fault])
        if self.fault == "evaluates":
            self.pause()
        self.optimizer.zero_grad()
        self.model(torch.ones(4, 64)).sum().backward()
        self.gather(self.model.weight.grad)
        self.may_fail(self.BEHIND_GATHER)
        self.hand_on()
        self.reduce(self.model.weight.grad)
        self.may_fail(self.BEFORE_LOSS)
        dist.all_reduce(torch.ones(1), async_op=True).wait()
        self.end()
        self.optimizer.step()
        self.number += 1
        time.sleep(0.02)


def train(arguments):
    parent = os.getppid()
    fault, bad_rank, bad_step = arguments
    rank = Rank(fault, int(bad_rank), int(bad_step))
    print("ready", flush=True)
    while os.getppid() == parent:
        rank.step()


def begin_job(job):
    log = os.open(job["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None)
    pr_set_pdeathsig = 1  # One that stands still must not outlive this.
    libc.prctl(pr_set_pdeathsig, signal.SIGKILL)
    if job["network"]:
        with open(job["network"]) as network:
            any_kind = 0
            if libc.setns(network.fileno(), any_kind) != 0:
                sys.exit("its network cannot be entered")
    os.environ.update(job["env"])
    print(f"pid {os.getpid()}", flush=True)
    import strobe_bootstrap
    strobe_bootstrap.torch()
    train(job["arguments"])


def run_jobs(fifo):
    import torch._dynamo  # noqa: F401  The first optimizer of a process imports it, which takes longer than all else.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    with open(fifo) as lines:
        for line in lines:
            if os.fork() == 0:
                begin_job(json.loads(line))
                return


if __name__ == "__main__":
    if sys.argv[1] == "--jobs":
        run_jobs(sys.argv[2])
    else:
        train(sys.argv[1:])
