"""Measures captures of the two and of the eight processes of PyTorch jobs under torchrun, against the way of `dyno gputrace` in the same job.

Starts are those that PyTorch's profiler wrote into its own files, and those of the first operator in them: Kineto notes the start of a
recording of its own before it switches operators on, and that of a session, as ours, after it. So that there is an operator at any time, a thread
of each process runs one every fifth of a millisecond.
"""

import gzip
import random
import statistics
import time
from dataclasses import dataclass, field

from tests.bench import bars
from tests.bench.inproc import package
from tests.bench.protos import load
from tests.support.bare_daemon import BareDaemon, environment, starts_of
from tests.support.network import own_network
from tests.support.processes import Group, wait_until
from tests.support.step_rig import host_events
from tests.support.torchrun_rig import TorchrunJob

JOBS, CAPTURES, DURATION_MS = (2, 8), 25, 500
REST = 2  # Seconds in which a process finishes what the other way left it to do.
PROBE = "aten::neg_"  # An operator that the job does not run.
RUN_PROBE = """
import threading
def probe(value=torch.zeros(1)):
    while True:
        value.neg_()
        time.sleep(0.0002)
threading.Thread(target=probe, daemon=True).start()
"""


def is_covered(job, manifest, worker, run):
    """Whether the trace has each operator of each step that the program noted within the window, as often as PyTorch's own profiler counted."""
    begin = int(manifest["instantNs"])
    events = [event for event in host_events(job.trace(worker, run)) if event[0] != PROBE]
    found, expected, _ = job.compare_operators(events, begin, begin + int(manifest["durationNs"]), worker["rank"])
    return found == expected


def spread(moments):
    return (max(moments) - min(moments)) / 1e6


def milliseconds(values):
    return f"{statistics.median(values):.2f} / {max(values):.2f}"


@dataclass
class Way:
    """The captures that one way made."""
    noted: list = field(default_factory=list)  # Skews of the noted starts, ms.
    first: list = field(default_factory=list)  # Skews of the first recorded operators, ms.
    waits: list = field(default_factory=list)  # From the request to the start, s.

    def add(self, starts, wait):
        self.noted.append(spread([begin for begin, _ in starts]))
        self.first.append(spread([operator for _, operator in starts]))
        self.waits.append(wait)


def measure(directory, site, ranks):
    """Captures a job both ways, in random order. Returns both, the windows that ended Ok, and those of them with every operator."""
    ours, theirs, ended_ok, covered = Way(), Way(), 0, 0
    with own_network(), Group(directory / "logs") as group:
        daemon = BareDaemon(directory)
        job = TorchrunJob(group, directory, site, ranks, pause=0.05, env=environment(directory))
        pids = [announcement["pid"] for announcement in job.rank_announcements()]
        wait_until(lambda: set(pids) <= set(daemon.asked), 30, "all ranks to ask the daemon")
        for rank in range(ranks):
            job.order(RUN_PROBE, rank)
        order = [ours, theirs] * CAPTURES
        random.shuffle(order)
        for number, way in enumerate(order):
            run = f"r{number}"
            if way is ours:
                asked = time.time()
                manifest, _ = job.capture("--keep-original", run=run, duration=f"{DURATION_MS}ms")
                starts = [starts_of(gzip.decompress(path.read_bytes())) for path in job.folder(run).glob("*.pt.trace.json.gz")]
                good = [worker for worker in manifest["workers"] if worker["outcome"] == "Ok"]
                ended_ok += len(good)
                covered += sum(is_covered(job, manifest, worker, run) for worker in good)
                if len(starts) == ranks:
                    ours.add(starts, int(manifest["instantNs"]) / 1e9 - asked)
            else:
                asked, starts = daemon.starts(pids, run, DURATION_MS)
                if starts is not None:
                    theirs.add(starts, min(begin for begin, _ in starts) / 1e9 - asked)
            time.sleep(REST)
        daemon.close()
    return ours, theirs, ended_ok, covered


def ratios(ours, theirs):
    """Returns the ratio of the medians and that of the largest."""
    return statistics.median(ours) / statistics.median(theirs), max(ours) / max(theirs)


def row(name, ours, theirs):
    return f"| {name} | {milliseconds(ours)} | {milliseconds(theirs)} | {' / '.join(f'{part:.2f}' for part in ratios(ours, theirs))} |"


# Both skews of eight processes to the bare daemon's, p50 and largest, as measured on 2026-11-26. The largest of 25 differs much from run to run.
KNOWN = {2: {"first": (1, 1), "noted": (1, 1)}, 8: {"first": (4.43, 30), "noted": (5.29, 30)}}


def tell_bars(ranks, ours, theirs, covered):
    for name, how in (("first recorded operators", "first"), ("noted starts", "noted")):
        for part, value, before in zip(("p50", "largest"), ratios(getattr(ours, how), getattr(theirs, how)), KNOWN[ranks][how]):
            bars.at_most(f"{ranks} processes: skew of the {name}, {part}, to the bare daemon's", value, 1, known=before)
    bars.at_most(f"{ranks} processes: request to start, p50, s", statistics.median(ours.waits), 1)
    bars.at_least(f"{ranks} processes: windows with every operator, of all", covered / (CAPTURES * ranks), 1)


def table(ranks, ours, theirs, ended_ok, covered):
    return [
        f"**{ranks} processes**\n",
        "| | Strobe | bare daemon | ratio |", "|---|---|---|---|",
        row("skew of the first recorded operators, p50 / max, ms", ours.first, theirs.first),
        row("skew of the noted starts, p50 / max, ms", ours.noted, theirs.noted),
        f"| request to start, p50, s | {statistics.median(ours.waits):.2f} | {statistics.median(theirs.waits):.2f} |"
        f" {statistics.median(ours.waits) / statistics.median(theirs.waits):.2f} |",
        f"| recorded at all | {len(ours.noted)} of {CAPTURES} | {len(theirs.noted)} of {CAPTURES} | |",
        f"| ended Ok | {ended_ok} of {CAPTURES * ranks} | | |",
        f"| of these, with every operator of the window, by the programs' own notes | {covered} | | |", ""]


def run(directory):
    load()
    site, out = package(directory), []
    for ranks in JOBS:
        place = directory / str(ranks)
        place.mkdir()
        ours, theirs, ended_ok, covered = measure(place, site, ranks)
        tell_bars(ranks, ours, theirs, covered)
        out += table(ranks, ours, theirs, ended_ok, covered)
    return "\n".join([
        "### PyTorch processes under torchrun, against the way of `dyno gputrace` in the same job\n",
        f"{CAPTURES} captures of {DURATION_MS} ms each way, in random order. The other way: a bare daemon that hands the same start time to each process,"
        " without warm-up, and is asked every second. Starts are those in the files of PyTorch's profiler.\n", *out])
