"""A rank of a gloo job with a group of tensor-parallel ranks, of which one stops. It knows nothing of Strobe: stuck_loop.py FAULT RANK STEP

FAULT: "none", or a name below. Prints "ready" before the first step and "stuck" before the fault.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

fault, bad_rank, bad_step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", timeout=timedelta(seconds=300))
pairs = [dist.new_group([first, first + 1], group_desc="TP") for first in range(0, world, 2)]
pair = pairs[rank // 2]
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def load_batch_slowly():
    time.sleep(100_000)


def keep_the_lock():
    ctypes.PyDLL(None).sleep(100_000)


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def spin():
    while True:
        pass


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def leave():
    os._exit(1)


FAULTS = {"sleep": load_batch_slowly, "gil": keep_the_lock, "lock": wait_for_a_lock, "spin": spin, "sigstop": stop, "exit": leave}
parent = os.getppid()
print("ready", flush=True)
step = 0
while os.getppid() == parent:
    if rank == bad_rank and step == bad_step and fault in FAULTS:
        print("stuck", flush=True)
        FAULTS[fault]()
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    gathered = [torch.empty(8) for _ in range(2)]
    dist.all_gather(gathered, model.bias.grad, group=pair)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    step += 1
    time.sleep(0.02)
