"""A real JAX training loop with a profiler server: the trainer of demos and tests.

Prints "ready PORT" after the first step, then trains until it is ended.
"""

import argparse
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Uses one thread, because many trainers share a small machine in tests.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def loss(weights, batch, target):
    hidden = jnp.tanh(batch @ weights["w1"])
    return jnp.mean((hidden @ weights["w2"] - target) ** 2)


@jax.jit
def train_step(weights, batch, target):
    gradients = jax.grad(loss)(weights, batch, target)
    return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, weights, gradients)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the profiler server")
    parser.add_argument("--pause-ms", type=float, default=20, help="sleep after each step; 0 = busy")
    parser.add_argument("--size", type=int, default=64, help="width of the model")
    parser.add_argument("--notes", help="file for a line per step: name, step, and its begin and end by the monotonic and the wall clock")
    parser.add_argument("--name", default="train", help="of the steps' annotation")
    parser.add_argument("--stop-file", help="train until this file exists, then end with success")
    args = parser.parse_args()

    jax.profiler.start_server(args.port)
    key = jax.random.PRNGKey(0)
    weights = {
        "w1": jax.random.normal(key, (args.size, args.size)),
        "w2": jax.random.normal(key, (args.size, 1)),
    }
    batch = jax.random.normal(key, (32, args.size))
    target = jnp.ones((32, 1))
    train_step(weights, batch, target)["w1"].block_until_ready()
    print(f"ready {args.port}", flush=True)

    notes = open(args.notes, "a", buffering=1) if args.notes else None
    step = 0
    parent = os.getppid()
    while os.getppid() == parent:  # Ends when its parent process has ended, even if that was killed.
        if args.stop_file and os.path.exists(args.stop_file):
            return
        # Clocks are read outside of the annotation: a step that is in a window by its notes is in it by its annotation too.
        monotonic, wall = time.monotonic_ns(), time.time_ns()
        with jax.profiler.StepTraceAnnotation(args.name, step_num=step):
            weights = train_step(weights, batch, target)
            weights["w1"].block_until_ready()
        if notes:
            notes.write(f"{args.name} {step} {monotonic} {time.monotonic_ns()} {wall} {time.time_ns()}\n")
        step += 1
        if args.pause_ms:
            time.sleep(args.pause_ms / 1000)


if __name__ == "__main__":
    sys.exit(main())
