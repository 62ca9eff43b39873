"""Thousands of orders to the evidence thread of programs whose threads run all the time, with each Python that is here:

    build/venv/bin/python -m tests.soak.evidence [--orders 10000] [--idle-seconds 60] [--frameworks [--seconds 300] [--python PATH]]

Says how many stacks were proven, how many of those are impossible (the program's call graph is known) and what the thread costs while nobody asks.
With --frameworks, of a job of four PyTorch ranks and of a JAX program, which train meanwhile; the ranks dump their Flight Recorders too. With --python, only
of ranks of this interpreter, which has PyTorch. Exits with 0 if no program died and no proven stack is wrong.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.inproc import package
from tests.integration.test_inproc_xla import jax_trainer
from tests.support.evidence import AGENT, COLLECTIVES, PYTHONS, STACKS, cpu_ns, evidence_file, order, stacks
from tests.support.inproc import TORCH_PYTHON
from tests.support.processes import BUILD, ROOT, Group
from tests.support.protos import generate
from tests.support.stuck_job import StuckJob


def is_possible(names):
    """Whether the names, innermost first, are a stack of `spin` in tests/e2e/known_stacks.py."""
    inner = names[:names.index("spin")]
    return inner in ([], ["is_set"]) or set(inner) == {"recurse_briefly"} and len(inner) <= 6


def soak(group, directory, version, orders, idle_seconds):
    folder = directory / version.replace(" ", "-")
    folder.mkdir()
    process = group.start(f"known-{folder.name}", [PYTHONS[version], ROOT / "tests/e2e/known_stacks.py", AGENT, folder, "busy"],
                          env={"PYTHONPATH": ""}).wait_for("ready", 60)
    path = evidence_file(folder)
    proven = wrong = seen = 0
    for _ in range(orders):
        order(path, between_ms=0)
        for heading, frames in stacks(path).values():
            names = [name for _, _, name in frames]
            if "spin" not in names:
                continue
            seen += 1
            if " proven" in heading:
                proven += 1
                wrong += not is_possible(names)
        if not process.running():
            break
    died = not process.running()
    before = 0 if died else cpu_ns(process.pid, "strobe-evidence")
    time.sleep(0 if died else idle_seconds)
    share = 0 if died or not idle_seconds else (cpu_ns(process.pid, "strobe-evidence") - before) / (idle_seconds * 1e9)
    print(f"{version}: {orders} orders, {seen} stacks of running threads, {proven} proven, {wrong} of those wrong, idle {share:.5%} of a processor"
          f"{', THE PROGRAM DIED: ' + process.output() if died else ''}", flush=True)
    return not died and not wrong


def torment(path, program, orders, seconds):
    """Returns how many orders were answered, how many stacks of the main thread were proven, and how many of those do not begin in the program's file."""
    proven = wrong = answered = 0
    until = time.monotonic() + seconds
    while answered < orders and time.monotonic() < until:
        order(path, STACKS | COLLECTIVES, between_ms=0)
        answered += 1
        heading, frames = list(stacks(path).values())[-1]
        if " proven" in heading:
            proven += 1
            wrong += not (frames[-1][0].endswith(program) and frames[-1][2] == "<module>")
    return answered, proven, wrong


def tell(name, counts, alive):
    answered, proven, wrong = (sum(column) for column in zip(*counts))
    print(f"{name}: {answered} orders, {proven} stacks proven, {wrong} of those wrong{'' if alive else ', A PROGRAM DIED'}", flush=True)
    return alive and not wrong


def soak_frameworks(group, directory, orders, seconds, python):
    site = package(directory)
    generate(BUILD / "bench" / "protos")
    job = StuckJob(group, directory, site, "none", python=python or TORCH_PYTHON)
    job.groups_are_told()
    with ThreadPoolExecutor(job.RANKS) as threads:
        counts = list(threads.map(lambda path: torment(path, "stuck_loop.py", orders, seconds), sorted((job.dir / "agent").glob("*.evidence"))))
    good = tell("PyTorch", counts, all(rank.running() for rank in job.ranks))
    for rank in job.ranks:
        rank.stop()
    if python:
        return good
    folder = directory / "jax"
    folder.mkdir()
    trainer = jax_trainer(group, folder, site, "newest")
    trainer.announced()
    counts = [torment(evidence_file(trainer.agent), "framework_loop.py", orders, seconds)]
    return tell("JAX", counts, trainer.trains()) and good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=10_000)
    parser.add_argument("--idle-seconds", type=int, default=60)
    parser.add_argument("--frameworks", action="store_true")
    parser.add_argument("--seconds", type=int, default=300, help="at most, for each framework")
    parser.add_argument("--python")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Group(Path(directory) / "logs") as group:
        if options.frameworks:
            return 0 if soak_frameworks(group, Path(directory), options.orders, options.seconds, options.python) else 1
        good = [soak(group, Path(directory), version, options.orders, options.idle_seconds) for version in PYTHONS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
