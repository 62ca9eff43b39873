"""A PyTorch program that trains with two pipeline stages of two replicas, and profiles itself as its users do. Run it under torchrun (gloo).

    torch_pipeline.py FOLDER [SLOW_RANK]

Writes FOLDER/rankN.trace.json. The second stage has three times as many layers. SLOW_RANK sleeps in each step before it trains.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

STAGES, REPLICAS, STEPS, SLEEP = 2, 2, 10, 0.08
WIDTH, BATCH, MICROBATCHES = 128, 32, 4

torch.set_num_threads(1)
torch.manual_seed(0)
folder, slow = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (STAGES, REPLICAS), mesh_dim_names=("pp", "dp"))
stage_index = mesh.get_local_rank("pp")
replicas = mesh.get_group("dp")

layers = [layer for _ in range(2 if stage_index == 0 else 6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers)
# Told here, because PyTorch finds shapes out by sending objects, for which it needs NumPy.
part = torch.zeros(BATCH // MICROBATCHES, WIDTH, requires_grad=True)
stage = PipelineStage(model, stage_index, STAGES, torch.device("cpu"), input_args=part.detach() if stage_index == 0 else part, output_args=part,
                      group=mesh.get_group("pp"))
schedule = ScheduleGPipe(stage, n_microbatches=MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch, target = torch.randn(BATCH, WIDTH), torch.zeros(BATCH, WIDTH)


def train():
    if rank == slow:
        time.sleep(SLEEP)
    optimizer.zero_grad()
    if stage_index == 0:
        schedule.step(batch)
    else:
        schedule.step(target=target)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=replicas)
    optimizer.step()


train()  # The first step prepares the transfers.
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                            schedule=torch.profiler.schedule(wait=0, warmup=1, active=STEPS, repeat=1),
                            on_trace_ready=lambda profile: profile.export_chrome_trace(f"{folder}/rank{rank}.trace.json")) as profile:
    for _ in range(STEPS + 1):
        train()
        profile.step()
dist.barrier()
dist.destroy_process_group()
