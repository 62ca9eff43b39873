"""What Strobe's part of an unmodified PyTorch or JAX program costs, and how exactly it starts: python -m tests.bench.inproc [import] [step] [start] [skew]

Prints a table of medians. `import`: the import of PyTorch and the first use of JAX's backend, in turns with and without. `step`: what a step
costs that does nothing else, in turns with and without. `start`: lateness of 20 captures of a busy PyTorch program. `skew`: 20 captures of two
ranks under torchrun.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import bars
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
    rows = []
    for name, (python, code) in _TIMED.items():
        without, with_us = (seconds * 1000 for seconds in in_turns(site, directory, python, code, rounds))
        bars.at_most(f"`{name}`: more, ms", with_us - without, 10)
        rows.append(f"| `{name}` | {without:.1f} ms without, {with_us:.1f} ms with, {with_us - without:+.1f} ms | 10 ms |")
    return rows


def measure_step(site, directory, rounds=10):
    rows = []
    for name, (python, code) in _STEP.items():
        without, with_us = in_turns(site, directory, python, code + _TIME_STEP, rounds)
        more = with_us - without
        bars.at_most(f"{name}: more, percent of a step of 10 ms", 100 * more / 10e6, 0.1)
        rows.append(f"| {name} | {without:.0f} ns without, {with_us:.0f} ns with, {more:+.0f} ns, {more / 10e6:.4%} of a step of 10 ms | 0.1% |")
    return rows


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
    bars.at_most("start of a busy PyTorch program, p50, ms late", statistics.median(late), 0.3)
    seen = f"p50 {statistics.median(late):.2f} ms late, max {late[-1]:.2f} ms"
    return [f"| start of {captures} captures of a busy PyTorch program | {seen} | p50 0.3 ms |"]


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
    seen = f"p50 {statistics.median(skew):.2f} ms, max {skew[-1]:.2f} ms; latest start {worst:.2f} ms"
    return [f"| skew of two ranks, {captures} captures | {seen} | |"]


_MEASURES = {"import": measure_import, "step": measure_step, "start": measure_start, "skew": measure_skew}


def run(root, chosen=tuple(_MEASURES)):
    site, rows = package(root), []
    for name in chosen:
        directory = root / name
        directory.mkdir()
        rows += _MEASURES[name](site, directory)
    return "\n".join(["### Programs that nobody changed\n", "| what | seen | bar |", "|---|---|---|", *rows, ""])


def main():
    with tempfile.TemporaryDirectory() as root:
        print(run(Path(root), sys.argv[1:] or tuple(_MEASURES)))


if __name__ == "__main__":
    main()
