"""A process of a JAX job of two, of which one misbehaves. It knows nothing of Strobe: stuck_jax.py FAULT PROCESS STEP

FAULT is one of those in faults.py, "branch" or "none". Prints "ready" before the first step and "stuck" before the fault.
"""

import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from faults import WHILE_LOADING  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

fault, bad_process, bad_step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
own, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", processes, own)
mesh = Mesh(np.array(jax.devices()), "data")
batch = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), np.ones((8, 64), np.float32))
everywhere = NamedSharding(mesh, PartitionSpec())
loss = jax.jit(lambda x: jnp.tanh(x @ x.T).sum(), out_shardings=everywhere)
evaluate = jax.jit(lambda x: (x * 2).max(axis=0), out_shardings=everywhere)


def is_due(number):
    return own == bad_process and number == bad_step


def train(number):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        if is_due(number):
            print("stuck", flush=True)
            if fault == "branch":
                evaluate(batch).block_until_ready()
            elif fault != "none":
                WHILE_LOADING[fault]()
        loss(batch).block_until_ready()
    time.sleep(0.02)


def main():
    parent = os.getppid()
    for compiled in (loss, evaluate):
        compiled(batch).block_until_ready()
    print("ready", flush=True)
    number = 0
    while os.getppid() == parent:
        train(number)
        number += 1


main()
