"""Counts what signs capture while four real JAX workers run as a healthy job does, with its noise, and then how often a slowed worker is captured with its onset.

There is no peer: no other operator captures by what its workers see. STROBE_ROUNDS and STROBE_CLEAN_MINUTES say how much is run.
"""

import os
import random
import time

from tests.bench import bars, chart_operator, protos
from tests.bench.inproc import package
from tests.support.processes import Group, wait_until
from tests.support.sign_rig import SlowableWorker, create_trigger, finished, holds_onset, runs_of, sign_trigger, warm_up

RANKS = 4
ROUNDS = int(os.environ.get("STROBE_ROUNDS", "50"))
CLEAN_MINUTES = float(os.environ.get("STROBE_CLEAN_MINUTES", "10"))
NOISE = 0.15


def one_round(kubectl, workers, number):
    """Returns (seconds from the onset to the request, whether the onset is in the capture)."""
    before = len(runs_of(kubectl, "signs"))
    worker = random.Random(number).choice(workers)
    onset = worker.slow_down(3)
    try:
        runs = wait_until(finished(kubectl, "signs", before + 1), 60, "the capture")
    except (AssertionError, TimeoutError):
        return None, False
    finally:
        worker.recover()
    run = runs[before]
    worker_named = worker.name in run["metadata"]["annotations"].get("strobe.dev/sign", "")
    created = time.mktime(time.strptime(run["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    held = len(runs) == before + 1 and worker_named and holds_onset(run, worker, onset)
    return created - onset.wall_begin / 1e9, held


def run(directory):
    protos.load()
    site = package(directory)
    logdir = directory / "logdir"
    logdir.mkdir()
    with Group(directory / "logs") as group:
        operator, kubectl = chart_operator.start(group, directory, logdir)
        create_trigger(kubectl, sign_trigger("signs", logdir, {"stepsSlower": {"percent": 50, "steps": 10}}))
        workers = [SlowableWorker(group, operator, site, f"worker-{i}", directory, i, noise=NOISE) for i in range(RANKS)]
        for worker in workers:
            worker.start()
        warm_up(workers)
        clean_until = time.monotonic() + CLEAN_MINUTES * 60
        while time.monotonic() < clean_until:
            time.sleep(5)
        false = len(runs_of(kubectl, "signs"))
        found = []
        for number in range(ROUNDS):
            found.append(one_round(kubectl, workers, number))
            time.sleep(12)
        extra = len(runs_of(kubectl, "signs")) - false - sum(seconds is not None for seconds, _ in found)
        operator.process.kill()
    latencies = sorted(seconds for seconds, _ in found if seconds is not None) or [0]
    bars.at_least("captured with the onset, of all rounds", sum(held for _, held in found) / max(ROUNDS, 1), 1)
    bars.at_most("captures in clean running", false, 0)
    return "\n".join([
        "### Captures by the sidecars' own signs\n",
        f"{RANKS} JAX workers with steps of 50 ms and the noise of a healthy job (see tests/e2e/slowed_loop.py) on this machine, sidecars, operator and a real API server. In each round one worker's steps become three times as"
        " long; the trigger asks for steps that are 50% slower ten times in a row, and looks back 30 s.\n",
        "| rounds | captured with the onset in the capture | bar | onset to request, p50 | max | captures in clean running | minutes | other captures |",
        "|---|---|---|---|---|---|---|---|",
        f"| {ROUNDS} | {sum(held for _, held in found)} | all | {latencies[len(latencies) // 2]:.1f} s | {latencies[-1]:.1f} s | {false} | {CLEAN_MINUTES:g} | {extra} |", ""])
