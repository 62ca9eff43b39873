"""Measures captures of eight unchanged JAX programs whose every step holds Python's lock for 18 ms in a call of C, against the same programs
with a profiler server that was started by hand."""

import statistics

from tests.bench.inproc import package
from tests.bench.protos import load
from tests.bench.skew import DURATION, capture
from tests.support.inproc import Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, Group
from tests.support.step_rig import recorded_steps

WORKERS, CAPTURES = 8, 25
# Functions of a PyDLL run without releasing Python's lock.
HOLD = "import ctypes\nwithout = train\ndef train(number):\n    ctypes.PyDLL(None).usleep(18000)\n    without(number)\n"


class Worker(Trainer):
    """A program and its sidecar. `package` is empty for a program without Strobe, which gets a server instead."""

    def __init__(self, group, directory, package):
        directory.mkdir(parents=True)
        command = [PYTHON, ROOT / "tests/e2e/framework_loop.py", "jax", directory / "notes.0", directory / "orders.0", "0"]
        super().__init__(group, directory, package, framework="jax", command=command)
        self.server, port = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        self.file = f"127.0.0.1_{port}.xplane.pb"
        if package:
            self.announced("jax")
        else:
            self.order(f"jax.profiler.start_server({self.server})")
        self.order(HOLD)
        group.start(f"sidecar-{port}", [
            BIN / "strobe-sidecar", "--listen", self.address, "--framework", f"127.0.0.1:{self.server}", "--agent-dir", self.agent,
            "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)


def is_covered(worker, manifest, path):
    """Whether the trace has each step that the program noted within the window."""
    begin = int(manifest["instantNs"])
    expected = {step[0] for step in worker.steps(begin, begin + int(manifest["durationNs"]))}
    return bool(expected) and expected <= set(recorded_steps(path, "train"))


class Side:
    """The captures of one of the two groups of programs."""

    def __init__(self, group, directory, package):
        self.workers = [Worker(group, directory / str(i), package) for i in range(WORKERS)]
        self.logdir = directory / "logdir"
        self.late, self.skew, self.ok, self.covered = [], [], 0, 0

    def capture(self, run):
        manifest = capture(self.workers, self.logdir, run)
        asked = int(manifest["instantNs"]) - int(manifest["guardNs"])
        starts = [int(row["startedNs"]) for row in manifest["workers"]]
        if all(starts):
            self.late += [(start - asked) / 1e6 for start in starts]
            self.skew.append((max(starts) - min(starts)) / 1e6)
        for worker, row in zip(self.workers, manifest["workers"]):
            if row["outcome"] == "Ok":
                self.ok += 1
                self.covered += is_covered(worker, manifest, self.logdir / "plugins/profile" / run / worker.file)

    def row(self, name):
        late, skew = (f"{statistics.median(values):.2f} / {max(values):.2f}" for values in (self.late, self.skew))
        return f"| {name} | {late} | {skew} | {self.ok} of {CAPTURES * WORKERS} | {self.covered} |"


def run(directory):
    load()
    # One group at a time: sixteen programs would be more than the machine has room for.
    sides = {}
    for name, site in (("unchanged, with Strobe's package", package(directory)), ("server started by hand", "")):
        with Group(directory / "logs" / name[:4].strip()) as group:
            side = sides[name] = Side(group, directory / name[:4], site)
            for i in range(CAPTURES):
                side.capture(f"r{i}")
    return "\n".join([
        "### Eight JAX programs that hold Python's lock for 18 ms in each step\n",
        f"{CAPTURES} captures of {DURATION} each way; milliseconds, p50 / max, from the traces' own start times.\n",
        "| programs | start after it was asked for | skew | ended Ok | of these, with every step of the window, by the programs' own notes |",
        "|---|---|---|---|---|", *(side.row(name) for name, side in sides.items()), ""])
