"""What Strobe's part of an unmodified PyTorch or JAX program costs, and how exactly it starts: python -m tests.bench.inproc [import] [step] [start] [skew] [evidence]

Prints a table of medians. `import`: the import of PyTorch and the first use of JAX's backend, in turns with and without. `step`: what a step
costs that does nothing else, in turns with and without. `start`: lateness of 20 captures of a busy PyTorch program. `skew`: 20 captures of two
ranks under torchrun. `evidence`: what a step of 10 ms costs beside the thread for evidence while nobody asks it, in turns without and with, and by how
much an order delays a step.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import bars
from tests.support.evidence import AGENT, COLLECTIVES, STACKS, cpu_ns, evidence_file, order
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

# Takes how often to multiply in a step, then a number of steps per line; answers with their begins and ends. It has threads with deep stacks, and the
# Flight Recorder is full.
_STEPS_OF_10_MS = """
import json, sys, threading, time
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
def wait(depth):
    return wait(depth - 1) if depth else threading.Event().wait()
for _ in range(4):
    threading.Thread(target=wait, args=(40,), daemon=True).start()
a, small = torch.ones(128, 128), torch.ones(4)
def step(count):
    begin = time.monotonic_ns()
    for _ in range(count):
        torch.mm(a, a)
    torch.distributed.all_reduce(small)
    return begin, time.monotonic_ns()
for _ in range(2500):
    step(0)
begin, end = step(1000)
print(int(1000 * 10e6 / (end - begin)), flush=True)
count = int(sys.stdin.readline())
for line in sys.stdin:
    print(json.dumps([step(count) for _ in range(int(line))]), flush=True)
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


def interval(differences):
    """The median, and the bounds of its 95 % interval by resampling."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(differences, k=len(differences))) for _ in range(2000))
    return statistics.median(differences), medians[50], medians[1949]


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


class Steps:
    """A program that takes steps of 10 ms when it is asked to."""

    def __init__(self, site, directory, disabled=""):
        directory.mkdir()
        env = {**os.environ, "PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore", "STROBE_DIR": str(directory), "STROBE_AGENT": str(AGENT),
               "STROBE_DISABLE": disabled, "TORCH_FR_BUFFER_SIZE": "2000"}
        command = ["setpriv", "--pdeathsig", "KILL", TORCH_PYTHON, "-c", _STEPS_OF_10_MS, directory / "store"]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = int(self.process.stdout.readline())

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)

    def run(self, count):
        """The begins and ends of so many steps."""
        self.ask(count)
        return json.loads(self.process.stdout.readline())


def milliseconds(steps):
    return [(end - begin) / MS for begin, end in steps]


def measure_evidence(site, directory, turns=60, orders=100):
    without, asked = Steps(site, directory / "without", "evidence"), Steps(site, directory / "with")
    for program in (without, asked):
        program.ask(without.count)
    path, differences = evidence_file(directory / "with/agent"), []
    time.sleep(2)
    began, ran = time.monotonic_ns(), cpu_ns(asked.process.pid, "strobe-evidence")
    for number in range(turns):
        # Each is first in every other turn.
        medians = {program: statistics.median(milliseconds(program.run(30))) for program in (without, asked)[::1 if number % 2 == 0 else -1]}
        differences.append(100 * (medians[asked] / medians[without] - 1))
    share = 100 * (cpu_ns(asked.process.pid, "strobe-evidence") - ran) / (time.monotonic_ns() - began)
    more, low, high = interval(differences)

    rows = [f"| a PyTorch step of 10 ms beside the thread for evidence, {turns} turns | the thread runs for {share:.3f}% of the time; steps take "
            f"{more:+.3f}% ({low:+.3f} to {high:+.3f}) longer | 0.1% |"]
    bars.at_most("the thread for evidence while nobody asks, percent of a processor", share, 0.1)
    for what, wants in (("stacks", STACKS), ("stacks and collectives", STACKS | COLLECTIVES)):
        delays, without_order, used = delayed(asked, path, wants, orders)
        later = statistics.median(delays) - statistics.median(without_order)
        bars.at_most(f"an order for {what}: the slowest step meanwhile, to that of as long without one, p50, ms later", later, 5)
        rows.append(f"| the slowest of the steps during an order for {what}, {orders} orders, later than usual | {quantiles(delays)}; as long without an "
                    f"order {quantiles(without_order)}; the thread ran for {used:.2f} ms | 5 ms |")
    for program in (without, asked):
        program.process.kill()
        program.process.communicate()
    return rows


def quantiles(values):
    ordered = sorted(values)
    return f"p50 {statistics.median(ordered):.2f} ms, p90 {ordered[int(len(ordered) * 0.9)]:.2f} ms, max {ordered[-1]:.2f} ms"


def delayed(program, path, wants, orders):
    """By how many milliseconds the slowest step during an order was slower than the median, for each order; the same of times as long without one; and how
    long the thread ran for an order."""
    given, free = [], []
    with ThreadPoolExecutor(1) as thread:
        stopped = False

        def train():
            steps = []
            while not stopped:
                steps += program.run(20)
            return steps

        running = thread.submit(train)
        used = cpu_ns(program.process.pid, "strobe-evidence")
        for _ in range(orders):
            began = time.monotonic_ns()
            order(path, wants, between_ms=20)
            given.append((began, time.monotonic_ns()))
            time.sleep((given[-1][1] - began) / 1e9 + 0.02)
            free.append((given[-1][1] + 20 * MS, time.monotonic_ns()))
        used = (cpu_ns(program.process.pid, "strobe-evidence") - used) / orders / MS
        stopped = True
        steps = running.result()
    usual = statistics.median(end - begin for begin, end in steps)

    def slowest(windows):
        touched = [[end - begin for begin, end in steps if begin <= last and first <= end] for first, last in windows]
        return [(max(times) - usual) / MS for times in touched if times]

    return slowest(given), slowest(free), used


_MEASURES = {"import": measure_import, "step": measure_step, "start": measure_start, "skew": measure_skew, "evidence": measure_evidence}


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
