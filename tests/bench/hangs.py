"""Injects faults into live jobs of gloo ranks, and of two JAX processes, each with its sidecar. Counts how often `strobe why` names class and ranks rightly, and an
innocent rank firmly. It is asked when a sidecar shows the sign, or when processes have ended, as a trigger does it. Needs root.

    build/venv/bin/python -m tests.bench.hangs [--faults sleep,gil] [--runs 5] [--ranks 8] [--torch 2.8.0]
    build/venv/bin/python -m tests.bench.hangs --faults jax-sleep,jax-kill [--runs 5]

Other versions of PyTorch are those that tests/frameworks/torch_version has installed.

There is no peer: others that judge dumps by themselves need NCCL, and a privilege for stacks. `pause` stands still for six seconds, which nothing tells
from a hang until it moves: it is right if its rank is named and the verdict withdrawn afterwards. The pods of gloo ranks
have networks of their own: no other pod reaches that of `cut`, nothing at all reaches that of `unplugged`, and of `link` one other does not, so that
either may be at fault.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.bench import bars
from tests.bench.inproc import package
from tests.integration.test_inproc_xla import JAX as JAX_PACKAGES
from tests.integration.test_inproc_xla import PLAIN_PYTHON
from tests.support.inproc import TORCH_PYTHON
from tests.support.network import Switch, own_network
from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, ROOT, Group
from tests.support.protos import generate
from tests.support.stuck_job import Forks, environments

KINDS = {
    **dict.fromkeys(("sleep", "gil", "spin", "lock", "io", "loader", "swallowed", "middle", "two", "transfer", "async", "rendezvous", "save", "pause"), "host"),
    "sigstop": "silent", **dict.fromkeys(("exit0", "exit", "kill", "raise", "shape"), "gone"), **dict.fromkeys(("skip", "barrier"), "other-branch"),
    **dict.fromkeys(("extra", "other"), "mismatch"), **dict.fromkeys(("cut", "unplugged", "link"), "network"), **dict.fromkeys(("none", "slow"), "progressing")}
# Two JAX processes. No record has their collectives without NCCL, so that nothing tells who took the other branch, and that the job goes on.
JAX = "jax-"
KINDS |= {JAX + fault: kind for fault, kind in {
    **dict.fromkeys(("sleep", "io", "gil"), "host"), "sigstop": "silent", **dict.fromkeys(("exit", "kill", "raise"), "gone"), "branch": "unknown",
    "none": "unknown"}.items()}
TORCH_FAULTS, JAX_FAULTS = ([fault for fault in KINDS if fault.startswith(JAX) == jax] for jax in (False, True))
# Neighbours gather from each other in each step.
NETWORK_FAULTS = {"cut": Switch.cut_off, "unplugged": Switch.take_off, "link": lambda switch, bad: switch.cut_link(bad, bad ^ 1),
                  "lossy": lambda switch, bad: switch.lose(bad, 0.05)}
GO_ON = ("none", "slow", JAX + "none")
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
    confidence: str
    sign_s: float | None  # From the fault to the sign.
    verdict_s: float  # From the question to the verdict.
    withdrawn: bool = True
    text: str = ""

    @property
    def right_kind(self):
        # Stacks that have changed since may tell that a job without records goes on, and need not.
        return self.kind == KINDS[self.fault] or (self.fault in GO_ON and self.kind == "progressing")

    @property
    def right_ranks(self):
        return self.ranks == self.truth

    @property
    def right(self):
        return self.right_kind and self.right_ranks and self.withdrawn

    @property
    def firm(self):
        return self.confidence == "firm"

    @property
    def innocent_firm(self):
        return self.firm and not set(self.ranks) <= set(self.truth)

    @property
    def false_sign(self):
        return self.fault in GO_ON and self.sign_s is not None


@dataclass
class Pods:
    """The sidecars, which stay, and the program that forks the ranks of one job after the other."""
    group: Group
    directory: Path
    ranks: int = 4
    per_pod: int = 1
    python: Path = TORCH_PYTHON
    addresses: list = field(default_factory=list)
    hurt: int | None = None  # Whose network is bad.

    def start(self):
        import grpc
        from strobe.v1 import worker_pb2, worker_pb2_grpc
        site = package(self.directory)
        self.pb, self.describe, self.stubs = worker_pb2, worker_pb2.DescribeRequest(), []
        self.folders = [self.directory / f"pod-{rank // self.per_pod}" for rank in range(self.ranks)]
        self.switch = Switch(self.group, self.ranks // self.per_pod)
        for number, pod in enumerate(dict.fromkeys(self.folders)):
            self.addresses.append(f"{self.switch.address(number)}:{free_port()}")
            pod.mkdir()
            self.group.start(f"sidecar-{number}", [
                *self.switch.inside(number), BIN / "strobe-sidecar", "--listen", self.addresses[-1], "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", pod / "agent",
                "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
            self.stubs.append(worker_pb2_grpc.WorkerStub(grpc.insecure_channel(self.addresses[-1])))
        self.prepare(site)
        return self

    def prepare(self, site):
        self.forks = Forks(self.group, self.directory, site, self.python)

    def begin_rank(self, environment, arguments):
        pod = int(environment["RANK"]) // self.per_pod
        networked = {**environment, "MASTER_ADDR": self.switch.address(0), "GLOO_SOCKET_IFNAME": "eth0"}
        return self.forks.begin(networked, arguments, self.switch.path(pod))

    def begin(self, fault, bad, step):
        """Starts a job; returns once it is stuck, or, without a fault in a program, runs."""
        self.job = [self.begin_rank(environment, [fault.removeprefix(JAX), bad, step]) for environment in environments(self.folders)]
        for rank in self.job:
            rank.wait_for("ready", max(60, 6 * self.ranks))
        if fault.removeprefix(JAX) not in ("none", *NETWORK_FAULTS):
            self.job[bad].wait_for("stuck", 60)
            return
        time.sleep(3)
        if fault in NETWORK_FAULTS:
            self.hurt = bad
            NETWORK_FAULTS[fault](self.switch, bad)

    def await_sign(self, fault):
        """Seconds until a sidecar shows the sign; None if none does, or if processes have ended."""
        began, died = time.monotonic(), None
        while time.monotonic() - began < (HEALTHY_S if fault in GO_ON else PATIENCE_S):
            if any(stub.Describe(self.describe, timeout=20).stall.stalled for rank, stub in enumerate(self.stubs)
                   if (fault, rank) != ("unplugged", self.hurt)):
                return time.monotonic() - began
            if died is None and not all(rank.running() for rank in self.job):
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
        for rank in self.job:
            rank.kill()
        if self.hurt is not None:
            self.switch.repair(self.hurt)
        self.hurt = None


class JaxPods(Pods):
    """Each process of a job imports JAX itself. All are in this program's network, because JAX chooses the interface by the machine's name."""

    def prepare(self, site):
        numbers = count()
        path = ":".join(str(part) for part in (site, JAX_PACKAGES / "newest", JAX_PACKAGES / "common"))
        self.begin_rank = lambda environment, arguments: self.group.start(
            f"jax-{next(numbers)}", [PLAIN_PYTHON, ROOT / "tests/e2e/stuck_jax.py", *arguments], env={"PYTHONPATH": path, **environment})


def one_run(pods, fault, number):
    bad = number % pods.ranks
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
    others = {"two": (bad + 1) % pods.ranks, "link": bad ^ 1}
    truth = [] if KINDS[fault] in ("progressing", "unknown") else sorted({bad, others.get(fault, bad)})
    return Seen(fault, truth, verdict["class"], verdict["ranks"], verdict["confidence"], sign, seconds, withdrawn, verdict["text"])


def row(name, seen):
    signs = [one.sign_s for one in seen if one.sign_s is not None]
    sign = f"{statistics.median(signs):.1f}" if signs else ""
    verdicts = [one.verdict_s for one in seen]
    return (f"| {name} | {len(seen)} | {sum(one.right_kind for one in seen)} | {sum(one.right_ranks for one in seen)} | {sum(one.right for one in seen)} "
            f"| {sum(one.firm for one in seen)} | {sum(one.innocent_firm for one in seen)} | {sign} | {statistics.median(verdicts):.1f} / {max(verdicts):.1f} |")


def cell(seen):
    """How many answers are firm, probable and neither."""
    counted = Counter(one.confidence for one in seen)
    return " / ".join(str(counted[confidence]) for confidence in ("firm", "probably", "cannot tell")) if seen else ""


def table(seen, what):
    by_fault = {fault: [one for one in seen if one.fault == fault] for fault in dict.fromkeys(one.fault for one in seen)}
    answers = sorted({one.kind for one in seen})
    answered = {(truth, answer): [one for one in seen if (KINDS[one.fault], one.kind) == (truth, answer)] for truth in KINDS.values() for answer in answers}
    return "\n".join([
        f"### Stalled jobs: {what}\n", "The sign's seconds begin with the fault, the verdict's with the question (median / most).\n",
        "| fault | runs | class right | ranks right | exactly right | firm | innocents firm | sign, s | verdict, s |", "|---|---|---|---|---|---|---|---|---|",
        *(row(fault, runs) for fault, runs in by_fault.items()), row("all", seen), "",
        "Answers by their class: firm / probably / cannot tell.\n",
        "| truth | " + " | ".join(answers) + " |", "|---" * (len(answers) + 1) + "|",
        *(f"| {kind} | " + " | ".join(cell(answered[kind, answer]) for answer in answers) + " |" for kind in dict.fromkeys(KINDS[one.fault] for one in seen)),
        ""])


def measure(directory, faults, runs, what, kind=Pods, **how):
    protos = BUILD / "bench" / "protos"
    generate(protos)
    seen = []
    with own_network(), Group(directory / "logs") as group:
        pods = kind(group, directory, **how).start()
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
    return table(seen, what)


def of_torch(directory, faults, runs, ranks=4, version=None, per_pod=1):
    python = BUILD / "torch-versions" / version / "bin/python" if version else TORCH_PYTHON
    return measure(directory, faults, runs, f"{ranks} gloo ranks" + (f", PyTorch {version}" if version else ""), ranks=ranks, python=python, per_pod=per_pod)


def of_jax(directory, faults, runs):
    return measure(directory, faults, runs, "two JAX processes", JaxPods, ranks=2)


def run(directory):
    rounds, parts = int(os.environ.get("STROBE_ROUNDS", "1")), []
    for name, judge, faults in (("torch", of_torch, TORCH_FAULTS), ("jax", of_jax, JAX_FAULTS)):
        (directory / name).mkdir()
        parts.append(judge(directory / name, faults, rounds))
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default=",".join(TORCH_FAULTS), help="some of " + ",".join(KINDS))
    parser.add_argument("--runs", type=int, default=1, help="of each fault")
    parser.add_argument("--ranks", type=int, default=4, help="an even number")
    parser.add_argument("--per-pod", type=int, default=1, help="ranks of a pod; faults of networks need 1, and more than 32 networks overflow a kernel's table")
    parser.add_argument("--torch", help="the version, if it is not the tests' own")
    options = parser.parse_args()
    faults = options.faults.split(",")
    if not set(faults) <= set(KINDS):
        sys.exit(f"no fault {', '.join(set(faults) - set(KINDS))}")
    with tempfile.TemporaryDirectory() as directory:
        if set(faults) <= set(JAX_FAULTS):
            print(of_jax(Path(directory), faults, options.runs))
        elif set(faults) <= set(TORCH_FAULTS):
            print(of_torch(Path(directory), faults, options.runs, options.ranks, options.torch, options.per_pod))
        else:
            sys.exit("the faults are of PyTorch and of JAX: name those of one")
    missed = [bar for bar in bars.take() if not bar.reached]
    for bar in missed:
        print(bar.row("hangs"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
