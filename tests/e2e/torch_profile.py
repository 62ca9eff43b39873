"""Trains for a few steps under PyTorch's own profiler: torch_profile.py TRACE COUNTS threads|memory|plain

Writes Kineto's trace to TRACE, and to COUNTS how often each operator ran, as the profiler itself has counted it: every record, and its summary,
which leaves out operators that only call one of the same name. PyTorch does not record memory when it records all threads.
"averages" has the count, total and self time of each operator, in us; in the plain mode there are no stacks, of which these times depend."""

import json
import sys
import threading
from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

trace, counts, mode = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    with record_function("forward (annotated)"):
        loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def save(prof):
    prof.export_chrome_trace(trace)
    with open(counts, "w") as file:
        records = Counter(event.name() for event in prof.profiler.kineto_results.events())
        averages = prof.key_averages()
        json.dump({"records": records, "summary": {average.key: average.count for average in averages},
                   "averages": {average.key: [average.count, average.cpu_time_total, average.self_cpu_time_total] for average in averages}}, file)


step()
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=mode != "plain", profile_memory=mode == "memory", with_flops=True,
             schedule=schedule(wait=1, warmup=1, active=4), on_trace_ready=save,
             experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=mode == "threads")) as prof:
    for _ in range(6):
        other = threading.Thread(target=lambda: torch.ones(8, 8) @ torch.ones(8, 8))
        other.start()
        step()
        other.join()
        prof.step()
