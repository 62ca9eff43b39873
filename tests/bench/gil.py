"""Measures captures of eight unchanged JAX programs, and of eight with TensorFlow and `import strobe`, whose every step holds Python's lock for
18 ms in a call of C, against the same programs with a profiler server that was started by hand."""

import statistics

from tests.bench import bars
from tests.bench.inproc import package
from tests.bench.protos import load
from tests.bench.skew import DURATION, capture
from tests.support.inproc import Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, Group
from tests.support.step_rig import recorded_steps

WORKERS, ROUNDS, CAPTURES_EACH = 8, 5, 8
CAPTURES = ROUNDS * CAPTURES_EACH
# Functions of a PyDLL run without releasing Python's lock.
HOLD = "import ctypes\nwithout = train\ndef train(number):\n    ctypes.PyDLL(None).usleep(18000)\n    without(number)\n"


START_SERVER = {"jax": "jax.profiler.start_server", "tensorflow": "tf.profiler.experimental.server.start"}


class Worker(Trainer):
    """A program and its sidecar. `package` is empty for a program without Strobe, which gets a server instead."""

    def __init__(self, group, directory, package, framework):
        directory.mkdir(parents=True)
        # TensorFlow has no plugins that it loads by itself, so that its program imports Strobe's package.
        loop = framework if package or framework == "jax" else f"bare-{framework}"
        command = [PYTHON, ROOT / "tests/e2e/framework_loop.py", loop, directory / "notes.0", directory / "orders.0", "0"]
        super().__init__(group, directory, package, framework=framework, command=command)
        self.server, port = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        self.file = f"127.0.0.1_{port}.xplane.pb"
        if package:
            self.announced(framework)
        else:
            self.order(f"{START_SERVER[framework]}({self.server})")
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
    """The captures of one of the two kinds of programs."""

    def __init__(self, package, framework):
        self.package, self.framework = package, framework
        self.late, self.skew, self.ok, self.covered = [], [], 0, 0

    def measure(self, directory):
        """Captures a new group of programs several times."""
        with Group(directory / "logs") as group:
            workers = [Worker(group, directory / str(i), self.package, self.framework) for i in range(WORKERS)]
            for i in range(CAPTURES_EACH):
                self.capture(workers, directory / "logdir", f"r{i}")

    def capture(self, workers, logdir, run):
        manifest = capture(workers, logdir, run)
        asked = int(manifest["instantNs"]) - int(manifest["guardNs"])
        starts = [int(row["startedNs"]) for row in manifest["workers"]]
        if all(starts):
            self.late += [(start - asked) / 1e6 for start in starts]
            self.skew.append((max(starts) - min(starts)) / 1e6)
        for worker, row in zip(workers, manifest["workers"]):
            if row["outcome"] == "Ok":
                self.ok += 1
                self.covered += is_covered(worker, manifest, logdir / "plugins/profile" / run / worker.file)

    def row(self, name):
        late, skew = (f"{statistics.median(values):.2f} / {max(values):.2f}" for values in (self.late, self.skew))
        return f"| {name} | {late} | {skew} | {self.ok} of {CAPTURES * WORKERS} | {self.covered} |"


def tell_bars(name, ours, by_hand):
    bars.at_most(f"{name}: start after it was asked for, p50, ms", statistics.median(ours.late), 0.3)
    bars.at_most(f"{name}: skew, p50, to that of servers started by hand", statistics.median(ours.skew) / statistics.median(by_hand.skew), 1)
    bars.at_least(f"{name}: windows with every step, of all", ours.covered / (CAPTURES * WORKERS), 1)


def run(directory):
    load()
    site, rows = package(directory), []
    for framework, written, ours in (("jax", "JAX", "unchanged, with Strobe's package"),
                                     ("tensorflow", "TensorFlow", "with Strobe's package and `import strobe`")):
        sides = [Side(site, framework), Side("", framework)]
        for number in range(ROUNDS):
            # One group at a time: sixteen programs would be more than the machine has room for. Each is first in every other round.
            for side in sides if number % 2 == 0 else sides[::-1]:
                side.measure(directory / f"{framework}-{number}-{'ours' if side.package else 'theirs'}")
        rows += [side.row(f"{written}, {name}") for side, name in zip(sides, (ours, "server started by hand"))]
        tell_bars(written, *sides)
    return "\n".join([
        "### Eight JAX and eight TensorFlow programs that hold Python's lock for 18 ms in each step\n",
        f"{CAPTURES} captures of {DURATION} each way, of {ROUNDS} groups of programs in turns; milliseconds, p50 / max, from the traces' own start times.\n",
        "| programs | start after it was asked for | skew | ended Ok | of these, with every step of the window, by the programs' own notes |",
        "|---|---|---|---|---|", *rows, ""])
