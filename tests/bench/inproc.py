"""What Strobe's part of an unmodified PyTorch or JAX program costs, and how exactly it starts: python -m tests.bench.inproc [import] [step] [start] [skew]

Prints medians. `import`: the import of PyTorch and the first use of JAX's backend, in turns with and without. `step`: what a step costs that
does nothing else, in turns with and without. `start`: lateness of 20 captures of a busy PyTorch program. `skew`: 20 captures of two ranks
under torchrun.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.inproc import MS, TORCH_PYTHON, Trainer
from tests.support.processes import BUILD, PYTHON, ROOT, Group, wait_until

_TIMED = {
    "import torch": (TORCH_PYTHON, "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"),
    "jax.devices()": (PYTHON, "import jax, time; t = time.perf_counter(); jax.devices(); print(time.perf_counter() - t)"),
}

# Prints the median nanoseconds of a step that does as little as a step can, after Strobe's part had time to find the framework.
_STEP = {
    "PyTorch, optimizer.step()": (TORCH_PYTHON, """
import torch
torch.set_num_threads(1)
parameter = torch.nn.Parameter(torch.zeros(1))
parameter.grad = torch.zeros(1)
optimizer = torch.optim.SGD([parameter], lr=0.1)
def step(number):
    optimizer.step()
"""),
    "JAX, StepTraceAnnotation": (PYTHON, """
import jax
jax.devices()
def step(number):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        pass
"""),
}
_TIME_STEP = """
import statistics, time
time.sleep(2)
times = []
for block in range(200):
    begin = time.perf_counter_ns()
    for number in range(100):
        step(number)
    times.append((time.perf_counter_ns() - begin) / 100)
print(statistics.median(times))
"""


def package(directory):
    target = directory / "site"
    subprocess.run([ROOT / "tools/wheel"], check=True)
    (wheel,) = (BUILD / "wheels").glob("*.whl")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", target, wheel], check=True)
    return target


def in_turns(site, directory, python, code, rounds):
    """Medians of what a program prints, without Strobe's package and with it."""
    printed = {"": [], str(site): []}
    for _ in range(rounds + 1):
        for path, numbers in printed.items():
            env = {**os.environ, "PYTHONPATH": path, "STROBE_DIR": str(directory), "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
            numbers.append(float(subprocess.run([python, "-c", code], env=env, check=True, capture_output=True, text=True).stdout))
    return (statistics.median(numbers[1:]) for numbers in printed.values())


def measure_import(site, directory, rounds=20):
    for name, (python, code) in _TIMED.items():
        without, with_us = (seconds * 1000 for seconds in in_turns(site, directory, python, code, rounds))
        print(f"{name}: {without:.1f} ms without, {with_us:.1f} ms with, {with_us - without:+.1f} ms")


def measure_step(site, directory, rounds=10):
    for name, (python, code) in _STEP.items():
        without, with_us = in_turns(site, directory, python, code + _TIME_STEP, rounds)
        more = with_us - without
        print(f"{name}: {without:.0f} ns without, {with_us:.0f} ns with, {more:+.0f} ns, {more / 10e6:.4%} of a step of 10 ms")


def started(clients, start):
    for client in clients:
        client.ask(op="capture", start_ns=start, duration_ns=100 * MS)
    done = [client.until("done") for client in clients]
    for client in clients:
        client.close()
    return [(answer["started_ns"] - start) / 1e6 for answer in done]


def measure_start(site, directory, captures=20):
    with Group(directory / "logs") as group:
        trainer = Trainer(group, directory, site, command=[TORCH_PYTHON, ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", "0"])
        trainer.announced()
        late = sorted(started([trainer.client()], time.time_ns() + 300 * MS)[0] for _ in range(captures))
        print(f"start of {captures} captures of a busy PyTorch program: p50 {statistics.median(late):.2f} ms late, max {late[-1]:.2f} ms")


def measure_skew(site, directory, captures=20):
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", "0"]
    with Group(directory / "logs") as group:
        trainer = Trainer(group, directory, site, command=command)
        wait_until(lambda: len(trainer.announcements()) == 3, 60, "three announcements")
        ranks = [a for a in trainer.announcements() if not a["is_launcher"]]
        late = [started([trainer.client(a) for a in ranks], time.time_ns() + 300 * MS) for _ in range(captures)]
        skew = sorted(abs(first - second) for first, second in late)
        worst = max(max(pair) for pair in late)
        print(f"skew of two ranks, {captures} captures: p50 {statistics.median(skew):.2f} ms, max {skew[-1]:.2f} ms; latest start {worst:.2f} ms")


def main():
    chosen = sys.argv[1:] or ["import", "step", "start", "skew"]
    with tempfile.TemporaryDirectory() as root:
        site = package(Path(root))
        for name in chosen:
            directory = Path(root) / name
            directory.mkdir()
            {"import": measure_import, "step": measure_step, "start": measure_start, "skew": measure_skew}[name](site, directory)


if __name__ == "__main__":
    main()
