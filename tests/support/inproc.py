"""Unmodified trainers with Strobe's in-process part, and a client of its session socket (agent/sdk/python/strobe/_inproc/README.md)."""

import collections
import fcntl
import json
import os
import socket
import struct
import time

from tests.support.processes import BUILD, PYTHON, ROOT, wait_until

TORCH_PYTHON = BUILD / "torch/bin/python"
MS = 1_000_000
# What processes leave behind on purpose, for the day when their job stands still; the sidecar removes it.
LEFT_AS_EVIDENCE = (".evidence", ".groups", ".exception")


def torch_package():
    """PyTorch's directory, with its headers (include) and libraries (lib)."""
    (package,) = (BUILD / "torch/lib").glob("python3*/site-packages/torch")
    return package


def records_memory():
    """Whether this PyTorch has the fix of its issue 166121: memory of all threads needs a reporter for the whole process."""
    return b"GlobalMemoryReportingInfo" in (torch_package() / "lib/libc10.so").read_bytes()


ReportedStep = collections.namedtuple("ReportedStep", "number began_ns ended_ns")  # Wall-clock time; the end is None while it runs.


def told_steps(announcement):
    """The last steps of each loop in the file that an announcement names (StepFile in agent/wire/layout.h), oldest first."""
    content = announcement.with_name(json.loads(announcement.read_text())["steps"]).read_bytes()
    offset = time.time_ns() - time.monotonic_ns()
    loops = {}
    for loop in struct.iter_unpack("<QQ48s48q", content[8:-24]):
        begun, name, marks = loop[1], loop[2], loop[3:]
        if begun:
            steps = [ReportedStep(number, began + offset, ended + offset if ended else None)
                     for number, began, ended in (marks[n % 16 * 3:][:3] for n in range(max(0, begun - 16), begun))]
            loops[name.rstrip(b"\0").decode()] = steps
    return loops


class Trainer:
    """Runs a training loop of tests/e2e with PYTHONPATH and STROBE_DIR, and nothing else."""

    def __init__(self, group, directory, package, framework="torch", command=None, env=None, wrap=()):
        self.dir = directory / "strobe"
        self.dir.mkdir(exist_ok=True)
        self.agent = self.dir / "agent"
        self.notes, self.orders = directory / "notes", directory / "orders"
        if framework == "torch":
            command = command or [TORCH_PYTHON, ROOT / "tests/e2e/torch_loop.py", self.notes, self.orders]
        else:
            command = command or [PYTHON, ROOT / "tests/e2e/framework_loop.py", framework, f"{self.notes}.0", f"{self.orders}.0"]
        self.process = group.start(f"trainer-{directory.name}", [*wrap, *command], env={
            "PYTHONPATH": str(package), "STROBE_DIR": str(self.dir), "PYTHONWARNINGS": "ignore", **(env or {})}).wait_for("ready", 90)

    def announcements(self):
        return [json.loads(path.read_text()) for path in sorted(self.agent.glob("*.process"))] if self.agent.exists() else []

    def announced(self, framework=None):
        """Waits for the announcement of the process, or of one framework in it."""
        def found():
            return [a for a in self.announcements() if framework in (None, a["framework"])]
        return wait_until(found, 20, "the announcement")[0]

    def client(self, announcement=None):
        return Client(self.agent / (announcement or self.announced())["socket"])

    def order(self, code, rank=0, wait=True):
        """Runs code in the trainer's main thread."""
        path = self.orders.with_name(f"{self.orders.name}.{rank}")
        path.with_suffix(".new").write_text(code)
        path.with_suffix(".new").rename(path)
        if wait:
            wait_until(lambda: not path.exists() or not self.process.running(), 60, "the order to be done")

    def operators(self, rank=0):
        with open(f"{self.notes}.{rank}") as notes:
            return json.loads(notes.readline())

    def steps(self, begin_ns, end_ns, rank=0):
        """Steps that began and ended in a window: [number, begin, end]."""
        with open(f"{self.notes}.{rank}") as notes:
            lines = notes.read().splitlines()
        steps = [json.loads(line) if line.startswith("[") else [int(part) for part in line.split()] for line in lines if not line.startswith("{")]
        return [step for step in steps if len(step) == 3 and begin_ns <= step[1] and step[2] <= end_ns]

    def compare_operators(self, events, begin_ns, end_ns, rank=0):
        """How often each operator is among the events (name, begin, end) during the complete steps of a window, how often PyTorch's own profiler
        counted it, and the number of those steps."""
        steps = self.steps(begin_ns, end_ns, rank)
        assert steps, "no complete step in the window"
        first, last = steps[0][1] - MS // 4, steps[-1][2] + MS // 4
        found = collections.Counter(name for name, begin, end in events if name.startswith("aten::") and first <= begin and end <= last)
        return found, {name: count * len(steps) for name, count in self.operators(rank).items()}, len(steps)

    def trains(self, rank=0):
        """Whether it goes on."""
        before = time.time_ns()
        wait_until(lambda: self.steps(before, 1 << 63, rank) or not self.process.running(), 30, "another step")
        assert self.process.running(), self.process.output()
        return True

    def told_steps(self):
        """Returns told_steps() of the only announcement."""
        (path,) = self.agent.glob("*.process")
        return told_steps(path)

    def names(self):
        """The files in the agent directory but announcements, what they name, evidence, and the agent's own."""
        known = (".process", ".sock", ".steps", ".rings", *LEFT_AS_EVIDENCE)
        return sorted(p.name for p in self.agent.iterdir() if p.suffix not in known and p.name not in ("orders", "failures"))


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        directory = os.open(path.parent, os.O_RDONLY)  # Test directories have names too long for a Unix socket.
        try:
            self.socket.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
        self.lines = self.socket.makefile("rb")

    def send(self, data):
        try:
            self.socket.sendall(data)
        except BrokenPipeError:
            pass  # Refused before it asked; the answer says why.
        return self

    def ask(self, **fields):
        return self.send(json.dumps(fields).encode() + b"\n")

    def capture(self, ahead_ms=200, duration_ms=300, **more):
        start = time.time_ns() + ahead_ms * MS
        self.ask(op="capture", id="test", start_ns=start, duration_ns=duration_ms * MS, **more)
        return start

    def read(self):
        """The next answer; None at the end."""
        line = self.lines.readline()
        return json.loads(line) if line else None

    def until(self, state):
        """Reads until an answer with this state."""
        seen = []
        while (answer := self.read()) is not None:
            seen.append(answer)
            if answer["state"] == state:
                return answer
        raise AssertionError(f"{state} did not come: {seen}")

    def last(self):
        answers = []
        while (answer := self.read()) is not None:
            answers.append(answer)
        assert answers, "no answer"
        return answers[-1]

    def close(self):
        self.lines.close()
        self.socket.close()


def is_locked(path):
    """Whether the program of this announcement lives."""
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True


def kineto_events(path):
    """(name, begin, end) in Unix nanoseconds of a Kineto trace's operators."""
    trace = json.loads(path.read_text())
    base = trace["baseTimeNanoseconds"]
    return [(e["name"], base + round(e["ts"] * 1000), base + round((e["ts"] + e["dur"]) * 1000))
            for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
