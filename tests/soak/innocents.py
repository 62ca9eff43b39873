"""Asks jobs that go on for verdicts, again and again, and counts those that name an innocent rank firmly:

    build/venv/bin/python -m tests.soak.innocents [--seconds 600] [--ranks 4]

The pods of one question are looked at in different moments, as on a busy cluster, and some of them tell nothing. One rank of a job may be slow ("slow",
"uneven"), lose packets ("lossy"), evaluate alone or save alone while the others wait: it is what they wait for, and no other is. Exits with 0 if no innocent rank was named
firmly, nobody was in a job that is healthy or slow, and none of these showed the sign of a stall.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

from tests.bench.hangs import Pods
from tests.support.network import own_network
from tests.support.processes import BIN, BUILD, Group
from tests.support.protos import generate

# Names of tests/e2e/stuck_loop.py and of NETWORK_FAULTS: nobody stands still, or a rank pauses for seconds, again and again.
GO_ON, PAUSE = ("none", "slow", "uneven", "lossy"), ("evaluates", "saves")
JOB_S, MOST_DELAY_S, UNTOLD = 60, 3, 0.1


def look(pods, dice):
    """What the sidecars tell: often one of them later than the others, and with another time between the looks in each question."""
    between, delays = dice.choice((50, 300, 1000)), [0.0] * pods.ranks
    delays[dice.randrange(pods.ranks)] = dice.choice((0, dice.uniform(0, MOST_DELAY_S)))

    def read(stub, delay):
        time.sleep(delay)
        return stub.ReadEvidence(pods.pb.ReadEvidenceRequest(between_looks_ns=between * 1_000_000), timeout=60).files

    with ThreadPoolExecutor(pods.ranks) as threads:
        told = list(threads.map(read, pods.stubs, delays))
    return [files for files in told if dice.random() >= UNTOLD] or told


def judge(files_of_pods):
    with tempfile.TemporaryDirectory() as folder:
        for number, files in enumerate(files_of_pods):
            pod = Path(folder) / f"pod-{number}"
            pod.mkdir()
            for file in files:
                (pod / file.name).write_bytes(file.content)
        done = subprocess.run([BIN / "strobe", "why", folder, "--output", "json"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


class Counts:
    def __init__(self):
        self.answers, self.wrong = Counter(), []

    def add(self, kind, bad, verdict, sign):
        self.answers[kind, verdict["class"], verdict["confidence"]] += 1
        allowed = {bad} if kind in PAUSE else set()
        if verdict["confidence"] == "firm" and not set(verdict["ranks"]) <= allowed or sign and kind in GO_ON:
            self.wrong.append((kind, bad, sign, verdict["text"]))
            print(f"WRONG, {kind} by rank {bad}{', it shows the sign' if sign else ''}: {verdict['text']}", flush=True)

    def of(self, kind):
        return ", ".join(f"{count} {answer} {confidence}" for (of, answer, confidence), count in sorted(self.answers.items()) if of == kind)


def soak(pods, seconds, counts, dice):
    until, kinds = time.monotonic() + seconds, cycle((*GO_ON, *PAUSE))
    while time.monotonic() < until:
        kind, bad = next(kinds), dice.randrange(pods.ranks)
        pods.begin(kind, bad, 0 if kind == "uneven" else 20)
        try:
            job_until = min(until, time.monotonic() + JOB_S)
            while time.monotonic() < job_until:
                verdict = judge(look(pods, dice))
                sign = any(stub.Describe(pods.describe, timeout=20).stall.stalled for stub in pods.stubs)
                counts.add(kind, bad, verdict, sign)
        finally:
            pods.end()
        print(f"{kind}: {counts.of(kind)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--ranks", type=int, default=4, help="an even number")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generate(BUILD / "bench" / "protos")
    counts = Counts()
    with own_network(), tempfile.TemporaryDirectory() as directory, Group(Path(directory) / "logs") as group:
        soak(Pods(group, Path(directory), options.ranks).start(), options.seconds, counts, random.Random(options.seed))
    print(f"{sum(counts.answers.values())} verdicts, {len(counts.wrong)} wrong")
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
