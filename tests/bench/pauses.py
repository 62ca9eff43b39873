"""How long a program stands still while its recording ends, with each PyTorch that is here (tests/frameworks/torch_version installs more).

A training loop is captured in turns with the interpreter's lock held meanwhile, as PyTorch's own binding did before 2.14, and as Strobe ends it. Then
two daemons of a gloo group under an idle parent, as inference servers have them, are captured together. Operators are held against the programs' notes.
"""

import statistics

from tests.bench import bars
from tests.bench.inproc import package
from tests.bench.protos import load
from tests.integration.test_serving import Tree, told
from tests.support.beside import Pod
from tests.support.inproc import MS, TORCH_PYTHON, Trainer
from tests.support.processes import BUILD, ROOT, Group
from tests.support.step_rig import host_events

SECONDS, CAPTURES, LAYERS = 2, 6, 25
# From 2.14 on, the binding releases the lock, so that its C++ function is called with it.
HOLD = """
import ctypes
from strobe._inproc import torch_unlocked
ours = torch.autograd.profiler._disable_profiler
def held():
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
        return ours.strobe_original()
    function = ctypes.PyDLL(torch._C.__file__)[torch_unlocked._STOP]
    function.restype = torch_unlocked._Returned
    return torch_unlocked.Recorded(function().words[0])
"""


def pythons():
    """The interpreters, by their version of PyTorch."""
    (newest,) = TORCH_PYTHON.parents[1].glob("lib/python3*/site-packages/torch-*.dist-info")
    versions = {path.parent.name: path.parent / "bin/python" for path in BUILD.glob("torch-versions/*/.installed")}
    versions[newest.name.removeprefix("torch-").removesuffix(".dist-info").split("+")[0]] = TORCH_PYTHON
    return dict(sorted(versions.items(), key=lambda one: [int(part) for part in one[0].split(".")]))


def longest(steps, begin_ns, end_ns):
    """The longest time in milliseconds from one step's end to the next one's, of those that touch the window. Steps are (begin, end)."""
    ends = [end for _, end in steps]
    return max((after - before) / MS for before, after in zip(ends, ends[1:]) if after >= begin_ns and before <= end_ns)


def ended(row, worker):
    """When the recording of a process began and had ended to end."""
    stopped = int(worker["stoppedNs"])
    return stopped, stopped + int(row["stopTookNs"])


class InTurns:
    """Captures of a training loop with one version of PyTorch."""

    def __init__(self, directory, site, python):
        directory.mkdir()
        self.pauses, self.whole, self.events = {"held": [], "ours": []}, 0, []
        with Group(directory / "logs") as group:
            pod = Pod(group, directory)
            command = [python, ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", "0.002"]
            trainer = Trainer(group, directory, site, command=command)
            trainer.announced("torch")
            trainer.order(HOLD)
            for number in range(CAPTURES):
                # Each is first in every other round.
                for way in ("held", "ours")[::1 if number % 2 == 0 else -1]:
                    trainer.order(f"torch.autograd.profiler._disable_profiler = {way}")
                    self.capture(pod, trainer, way, f"{way}-{number}")

    def capture(self, pod, trainer, way, run):
        worker = pod.worker("--duration", f"{SECONDS}s", run=run)
        assert worker["outcome"] == "Ok", worker
        stopped, ended_ns = ended(worker["processes"][0], worker)
        trainer.trains()
        self.pauses[way].append(longest([step[1:] for step in trainer.steps(0, 1 << 63)], stopped, ended_ns))
        found, expected, _ = trainer.compare_operators(host_events(pod.trace(worker, run)), int(worker["startedNs"]), stopped)
        self.whole += found == expected
        self.events.append(sum(found.values()))

    def row(self, version):
        median = {way: statistics.median(pauses) for way, pauses in self.pauses.items()}
        ratio = median["ours"] / median["held"]
        bars.at_most(f"{version}: pause at the end, to that with the lock held", ratio, 0.3)
        bars.at_least(f"{version}: traces with every operator, of all", self.whole / (2 * CAPTURES), 1)
        cells = " | ".join(f"{median[way]:.0f} ({min(self.pauses[way]):.0f} to {max(self.pauses[way]):.0f})" for way in ("held", "ours"))
        return f"| {version} | {statistics.median(self.events):.0f} | {cells} | {ratio:.2f} | {self.whole} of {2 * CAPTURES} |"


def of_two_daemons(directory, site, version, python):
    directory.mkdir()
    pauses, quiet, events = [], [], []
    with Group(directory / "logs") as group:
        tree = Tree(group, directory, site, "tp2", 4, python=python, env={"SERVING_LAYERS": str(LAYERS)})
        for number in range(CAPTURES):
            workers = tree.capture("--duration", f"{SECONDS}s", run=f"r{number}")["workers"]
            assert [told(worker)[1:] for worker in workers] == [(0, "Ok"), (1, "Ok")], workers
            for worker, name in zip(workers, ("VllmWorker-0", "VllmWorker-1")):
                tree.check_iterations(worker, name, LAYERS, run=f"r{number}")
                (row,) = [row for row in worker["processes"] if name in row["name"]]
                stopped, ended_ns = ended(row, worker)
                steps = tree.noted(name)
                pauses.append(longest(steps, stopped, ended_ns))
                quiet.append(longest(steps, stopped - SECONDS * 10**9, stopped - 10**8))
                events.append(int(row["events"]))
    bars.at_most(f"{version}: two daemons of a group, the longest pause at the end, ms", max(pauses), 60)
    return f"| {version} | {statistics.median(events):.0f} | {statistics.median(pauses):.0f} | {max(pauses):.0f} | {max(quiet):.0f} |"


def run(directory):
    load()
    site = package(directory)
    turns = [InTurns(directory / version, site, python).row(version) for version, python in pythons().items()]
    daemons = [of_two_daemons(directory / f"daemons-{version}", site, version, python) for version, python in pythons().items()]
    return "\n".join([
        "### Pauses at the end of a recording of PyTorch\n",
        f"The longest time from one step to the next while a recording of {SECONDS} s ends, of a loop with a step in 3 ms; milliseconds, median (range) of"
        f" {CAPTURES} captures each way, in turns.\n",
        "| PyTorch | operators | with the lock held | as Strobe ends it | ratio (bar 0.3) | traces with every operator |",
        "|---|---|---|---|---|---|", *turns, "",
        f"Two daemons of a gloo group under an idle parent, recorded together, {CAPTURES} captures of {SECONDS} s; milliseconds. Every operator was there.\n",
        "| PyTorch | events of a process | the pause at the end, median | longest (bar 60) | the longest while it was recorded |",
        "|---|---|---|---|---|", *daemons, ""])
