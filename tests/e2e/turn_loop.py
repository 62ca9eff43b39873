"""A JAX training loop that trains when it is its turn: turn_loop.py SOCKET ANNOTATION. ANNOTATION is none, strobe (`strobe.Trace`) or jax
(`jax.profiler.StepTraceAnnotation`).

A line over the Unix socket, `STEPS PERIOD`, asks for so many steps of PERIOD seconds each, most of which is sleep. The answer is a line of JSON:
`work`, the nanoseconds of each step but the first without its sleep; `cpu`, the nanoseconds of processor time that the whole process used in
these steps; and `active`, whether Strobe's annotations are recorded.
"""

import contextlib
import json
import os
import socket
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

if sys.argv[2] == "strobe":
    import strobe


@jax.jit
def train_step(weights):
    for _ in range(2):
        weights = jnp.tanh(weights @ weights)
    return weights


def scope(number):
    if sys.argv[2] == "strobe":
        return strobe.Trace("train", step_num=number)
    if sys.argv[2] == "jax":
        return jax.profiler.StepTraceAnnotation("train", step_num=number)
    return contextlib.nullcontext()


def train(weights, first, steps, period):
    """Returns the weights and each step's time without its sleep."""
    work = []
    for number in range(first, first + steps):
        began = time.perf_counter_ns()
        with scope(number):
            weights = train_step(weights).block_until_ready()
            worked = time.perf_counter_ns()
            time.sleep(max(0, period - (worked - began) / 1e9))
            awake = time.perf_counter_ns()
        work.append(worked - began + time.perf_counter_ns() - awake)
    return weights, work


def main():
    weights = train_step(jnp.full((64, 64), 0.01)).block_until_ready()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    done = 0
    with connection.makefile("rw") as turns:
        for line in turns:
            steps, period = int(line.split()[0]), float(line.split()[1])
            weights, _ = train(weights, done, 1, period)  # The caches are cold.
            began = time.process_time_ns()
            weights, work = train(weights, done + 1, steps - 1, period)
            used = time.process_time_ns() - began
            done += steps
            turns.write(json.dumps({"work": work, "cpu": used, "active": sys.argv[2] == "strobe" and strobe.active()}) + "\n")
            turns.flush()


main()
