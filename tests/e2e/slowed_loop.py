"""A JAX training loop that annotates its steps with Strobe's annotations: slowed_loop.py NOTES SLOW HOLD PERIOD [NOISE].

Each step takes PERIOD seconds. While the file SLOW exists, it takes so many times as long as the file says. From when the file HOLD exists, it
holds so many MiB of memory. Notes each step as train_loop.py does.

With NOISE, the steps of a healthy job differ: the logarithm of their length has that standard deviation, one step in 200 takes three times as
long (input that came late), now and then four in a row do, and every 500 steps one takes twenty times as long (a checkpoint).
"""

import os
import random
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import strobe  # noqa: E402


@jax.jit
def train_step(weights):
    return jnp.tanh(weights @ weights)


def told(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def healthy(step, chance, deviation):
    """How many times the period a step of a healthy job takes."""
    if not deviation:
        return 1
    if step % 500 == 499:
        return 20
    if chance.random() < 0.005 or step % 1200 in range(700, 704):
        return 3
    return chance.lognormvariate(0, deviation)


def main():
    notes_path, slow, hold, period = *sys.argv[1:4], float(sys.argv[4])
    deviation, chance = float(sys.argv[5]) if len(sys.argv) > 5 else 0, random.Random(notes_path)
    held = []
    weights = train_step(jnp.ones((64, 64))).block_until_ready()
    notes = open(notes_path, "a", buffering=1)
    print("ready", flush=True)
    step, parent = 0, os.getppid()
    while os.getppid() == parent:
        factor = float(told(slow) or 1) * healthy(step, chance, deviation)
        if not held and told(hold):
            held.append(bytearray(b"x") * (int(told(hold)) << 20))
        monotonic, wall = time.monotonic_ns(), time.time_ns()
        with strobe.Trace("train", step_num=step):
            weights = train_step(weights).block_until_ready()
            time.sleep(max(0, period * factor - (time.monotonic_ns() - monotonic) / 1e9))
        notes.write(f"train {step} {monotonic} {time.monotonic_ns()} {wall} {time.time_ns()}\n")
        step += 1


main()
