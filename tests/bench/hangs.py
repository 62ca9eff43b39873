"""Injects faults into live jobs of four gloo ranks, each with its sidecar, and counts how often `strobe why` names class and ranks rightly, and an innocent
rank firmly. It is asked when a sidecar shows the sign, or when processes have ended, as a trigger does it.

    build/venv/bin/python -m tests.bench.hangs [--faults sleep,gil] [--runs 5]

There is no peer: others that judge dumps by themselves need NCCL, and a privilege for stacks. `pause` stands still for six seconds, which nothing tells
from a hang until it moves: it is right if its rank is named and the verdict withdrawn afterwards. A link that is cut is not among the faults, because
it needs networks of their own.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import bars
from tests.bench.inproc import package
from tests.support.inproc import TORCH_PYTHON
from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, ROOT, Group, wait_until
from tests.support.protos import generate

RANKS = 4
KINDS = {
    **dict.fromkeys(("sleep", "gil", "spin", "lock", "io", "loader", "swallowed", "middle", "two", "transfer", "async", "rendezvous", "save", "pause"), "host"),
    "sigstop": "silent", **dict.fromkeys(("exit0", "exit", "kill", "raise", "shape"), "gone"), **dict.fromkeys(("skip", "barrier"), "other-branch"),
    **dict.fromkeys(("extra", "other"), "mismatch"), **dict.fromkeys(("none", "slow"), "progressing")}
# How long to wait for the sign. Jobs that go on must not show it for as long.
PATIENCE_S, HEALTHY_S, PAUSE_S = 15, 5, 6
DEAD_FOR_S = 1  # From the first death to the question: the others need a moment to die.


@dataclass
class Seen:
    """What was answered in one run."""
    fault: str
    truth: list
    kind: str
    ranks: list
    firm: bool
    sign_s: float | None  # From the fault to the sign.
    verdict_s: float  # From the question to the verdict.
    withdrawn: bool = True
    text: str = ""

    @property
    def right_kind(self):
        return self.kind == KINDS[self.fault]

    @property
    def right_ranks(self):
        return self.ranks == self.truth

    @property
    def right(self):
        return self.right_kind and self.right_ranks and self.withdrawn

    @property
    def innocent_firm(self):
        return self.firm and not set(self.ranks) <= set(self.truth)

    @property
    def false_sign(self):
        return KINDS[self.fault] == "progressing" and self.sign_s is not None


@dataclass
class Pods:
    """The sidecars, which stay, and the program that forks the ranks of one job after the other."""
    group: Group
    directory: Path
    addresses: list = field(default_factory=list)
    job: int = 0

    def start(self):
        import grpc
        from strobe.v1 import worker_pb2, worker_pb2_grpc
        site = package(self.directory)
        self.describe, self.stubs = worker_pb2.DescribeRequest(), []
        for rank in range(RANKS):
            self.addresses.append(f"127.0.0.1:{free_port()}")
            pod = self.directory / f"pod-{rank}"
            pod.mkdir()
            self.group.start(f"sidecar-{rank}", [
                BIN / "strobe-sidecar", "--listen", self.addresses[-1], "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", pod / "agent",
                "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
            self.stubs.append(worker_pb2_grpc.WorkerStub(grpc.insecure_channel(self.addresses[-1])))
        fifo = self.directory / "jobs"
        os.mkfifo(fifo)
        self.group.start("forks", [TORCH_PYTHON, ROOT / "tests/e2e/stuck_loop.py", "--jobs", fifo],
                         env={"PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}).wait_for("ready", 120)
        self.orders = open(fifo, "w", buffering=1)
        return self

    def begin(self, fault, bad, step):
        """Starts a job; returns once it is stuck, or, without a fault, runs."""
        self.job += 1
        port = free_port()
        self.logs = [self.directory / f"{self.job}-{rank}.log" for rank in range(RANKS)]
        for rank, log in enumerate(self.logs):
            env = {"STROBE_DIR": str(self.directory / f"pod-{rank}"), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), "RANK": str(rank), "LOCAL_RANK": "0",
                   "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
            self.orders.write(json.dumps({"log": str(log), "env": env, "arguments": [fault, bad, step]}) + "\n")
        try:
            wait_until(lambda: all(self.says(rank, "ready") for rank in range(RANKS)), 60, "the ranks' start")
        except TimeoutError as error:
            raise RuntimeError("\n".join(log.read_text()[-2000:] for log in self.logs if log.exists())) from error
        self.pids = [int(log.read_text().split("pid ")[1].split()[0]) for log in self.logs]
        if fault == "none":
            time.sleep(3)
        else:
            wait_until(lambda: self.says(bad, "stuck"), 60, "the fault")

    def says(self, rank, word):
        return self.logs[rank].exists() and word in self.logs[rank].read_text()

    def lives(self, rank):
        return Path(f"/proc/{self.pids[rank]}").exists()

    def await_sign(self, fault):
        """Seconds until a sidecar shows the sign; None if none does, or if processes have ended."""
        began, died = time.monotonic(), None
        while time.monotonic() - began < (HEALTHY_S if KINDS[fault] == "progressing" else PATIENCE_S):
            if any(stub.Describe(self.describe, timeout=20).stall.stalled for stub in self.stubs):
                return time.monotonic() - began
            if died is None and not all(map(self.lives, range(RANKS))):
                died = time.monotonic()
            if died is not None and time.monotonic() - died > DEAD_FOR_S:
                return None
            time.sleep(0.1)
        return None

    def why(self):
        began = time.monotonic()
        done = subprocess.run([BIN / "strobe", "why", "--insecure-plaintext", "--workers", ",".join(self.addresses), "--output", "json"],
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return time.monotonic() - began, json.loads(done.stdout)

    def end(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until(lambda: not any(map(self.lives, range(RANKS))), 20, "the job's end")


def one_run(pods, fault, number):
    bad = number % RANKS
    # Pairs hand something on in even steps only.
    pods.begin(fault, bad, 30 if fault == "transfer" else 31)
    began = time.monotonic()
    try:
        sign = pods.await_sign(fault)
        seconds, verdict = pods.why()
        withdrawn = True
        if fault == "pause":
            time.sleep(max(0, began + PAUSE_S + 2 - time.monotonic()))
            withdrawn = pods.why()[1]["class"] == "progressing"
    finally:
        pods.end()
    truth = [] if KINDS[fault] == "progressing" else sorted({bad, (bad + 1) % RANKS}) if fault == "two" else [bad]
    return Seen(fault, truth, verdict["class"], verdict["ranks"], verdict["confidence"] == "firm", sign, seconds, withdrawn, verdict["text"])


def row(name, seen):
    signs = [one.sign_s for one in seen if one.sign_s is not None]
    sign = f"{statistics.median(signs):.1f}" if signs else ""
    verdicts = [one.verdict_s for one in seen]
    return (f"| {name} | {len(seen)} | {sum(one.right_kind for one in seen)} | {sum(one.right_ranks for one in seen)} | {sum(one.right for one in seen)} "
            f"| {sum(one.firm for one in seen)} | {sum(one.innocent_firm for one in seen)} | {sign} | {statistics.median(verdicts):.1f} / {max(verdicts):.1f} |")


def table(seen):
    by_fault = {fault: [one for one in seen if one.fault == fault] for fault in dict.fromkeys(one.fault for one in seen)}
    answers = sorted({one.kind for one in seen})
    counted = Counter((KINDS[one.fault], one.kind) for one in seen)
    return "\n".join([
        f"### Stalled jobs of {RANKS} gloo ranks\n", "The sign's seconds begin with the fault, the verdict's with the question (median / most).\n",
        "| fault | runs | class right | ranks right | exactly right | firm | innocents firm | sign, s | verdict, s |", "|---|---|---|---|---|---|---|---|---|",
        *(row(fault, runs) for fault, runs in by_fault.items()), row("all", seen), "",
        "| truth | " + " | ".join(answers) + " |", "|---" * (len(answers) + 1) + "|",
        *(f"| {kind} | " + " | ".join(str(counted[kind, answer] or "") for answer in answers) + " |" for kind in dict.fromkeys(KINDS[one.fault] for one in seen)),
        ""])


def measure(directory, faults, runs):
    protos = BUILD / "bench" / "protos"
    generate(protos)
    seen = []
    with Group(directory / "logs") as group:
        pods = Pods(group, directory).start()
        for number in range(runs):
            for at, fault in enumerate(faults):
                one = one_run(pods, fault, number + at)
                seen.append(one)
                print(f"{fault}: {'right' if one.right else 'WRONG'}, {one.kind} {one.ranks} of {one.truth}{', firm' if one.firm else ''}, "
                      f"{one.verdict_s:.1f} s", flush=True)
                if not one.right or one.innocent_firm:
                    print(one.text, flush=True)
    bars.at_least("stalled jobs judged exactly rightly, share", sum(one.right for one in seen) / len(seen), 0.95)
    bars.at_most("innocent ranks named firmly, runs", sum(one.innocent_firm for one in seen), 0)
    bars.at_most("jobs that go on and are said to stand still, runs", sum(one.false_sign for one in seen), 0)
    bars.at_most("from the question to the verdict, median, s", statistics.median(one.verdict_s for one in seen), 6)
    return table(seen)


def run(directory):
    return measure(directory, list(KINDS), int(os.environ.get("STROBE_ROUNDS", "1")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default=",".join(KINDS), help="some of " + ",".join(KINDS))
    parser.add_argument("--runs", type=int, default=1, help="of each fault")
    options = parser.parse_args()
    faults = options.faults.split(",")
    if not set(faults) <= set(KINDS):
        sys.exit(f"no fault {', '.join(set(faults) - set(KINDS))}")
    with tempfile.TemporaryDirectory() as directory:
        print(measure(Path(directory), faults, options.runs))
    missed = [bar for bar in bars.take() if not bar.reached]
    for bar in missed:
        print(bar.row("hangs"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
