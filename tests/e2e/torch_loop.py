"""A real PyTorch training loop that knows nothing of Strobe, alone or under torchrun (gloo).

With COLLECTIVES=none the processes of torchrun do not talk to each other. With OPERATORS=none it does not profile itself.

Writes NOTES.RANK, a line of JSON per step: number, begin and end by the wall clock. Its first line has the operators of one step, counted by
PyTorch's own profiler. Prints "ready" before the first step. Runs the Python code in ORDERS.RANK between steps, then removes that file.
"""

import collections
import json
import os
import sys
import time

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
notes_path, orders = (f"{path}.{os.environ.get('RANK', 0)}" for path in sys.argv[1:3])
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02

distributed = "WORLD_SIZE" in os.environ and os.environ.get("COLLECTIVES") != "none"
if distributed:
    torch.distributed.init_process_group("gloo")

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(32, 64)


def train():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    if distributed:
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
    optimizer.step()


def count_operators():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        train()
    # profile.events() leaves out operators that call one of the same name.
    return collections.Counter(event.name() for event in profile.profiler.kineto_results.events() if event.name().startswith("aten::"))


for _ in range(3):  # The first steps differ from the others.
    train()
operators = {} if os.environ.get("OPERATORS") == "none" else count_operators()
notes = open(notes_path, "w", buffering=1)
notes.write(json.dumps(operators) + "\n")
print("ready", flush=True)
step = 0
parent = os.getppid()
while os.getppid() == parent:
    begin = time.time_ns()
    train()
    notes.write(json.dumps([step, begin, time.time_ns()]) + "\n")
    step += 1
    time.sleep(pause)  # Nothing runs here, so that a step's operators are told from the next one's.
    if os.path.exists(orders):
        with open(orders) as file:
            code = file.read()
        exec(code, globals())
        os.unlink(orders)
        print("did it", flush=True)
