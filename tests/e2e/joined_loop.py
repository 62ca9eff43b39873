"""One of several JAX processes that train together: each step loads its input and then averages over all processes.

Prints "ready PORT" after the first step, then trains until it is ended. The input's sleeps are noted, so that a test knows how much time each
process lost to them.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

WIDTH = 64


def loss(weights, batch):
    return jnp.mean(jnp.tanh(batch @ weights) ** 2)


@jax.jit
def train_step(weights, batch):
    return weights - 0.01 * jax.grad(loss)(weights, batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the profiler server")
    parser.add_argument("--coordinator", required=True, help="host:port at which the processes meet")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--input-ms", type=float, required=True, help="how long each step sleeps for its input")
    parser.add_argument("--notes", required=True, help="file for a line per step: its number, and begin and end of the sleep by the wall clock")
    args = parser.parse_args()

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(args.coordinator, args.processes, args.rank)
    jax.profiler.start_server(args.port)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    over_all, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    batch = jax.make_array_from_process_local_data(over_all, np.ones((32, WIDTH), np.float32))
    weights = jax.make_array_from_process_local_data(everywhere, np.ones((WIDTH, WIDTH), np.float32))
    weights = train_step(weights, batch)
    weights.block_until_ready()
    print(f"ready {args.port}", flush=True)

    notes = open(args.notes, "a", buffering=1)
    step = 0
    parent = os.getppid()
    while os.getppid() == parent:  # Ends when its parent process has ended, even if that was killed.
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            with jax.profiler.TraceAnnotation("next_batch"):
                began = time.time_ns()
                time.sleep(args.input_ms / 1000)
                ended = time.time_ns()
            weights = train_step(weights, batch)
            weights.block_until_ready()
        notes.write(f"{step} {began} {ended}\n")
        step += 1


if __name__ == "__main__":
    sys.exit(main())
