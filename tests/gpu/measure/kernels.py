"""What a trace says of kernels, and how two of them, or one and the truth, differ. Values in, values out."""

import json
from collections import Counter, defaultdict
from typing import NamedTuple

from . import xspace

WANTED = {"kernel_details", "correlation_id", "step_num"}
LAUNCHES = ("cuLaunchKernel", "cuGraphLaunch")  # Also with endings, such as Ex and _ptsz.


class Kernel(NamedTuple):
    name: str
    begin_ps: int
    end_ps: int
    correlation: int


class Step(NamedTuple):
    number: int
    begin_ps: int
    end_ps: int
    launches: list  # Correlations.


class Recording(NamedTuple):
    kernels: list  # In the order of their begins.
    steps: list
    launched: set  # Correlations of all events of the host.
    start_ns: int  # Unix time of the trace's zero.
    planes: list
    complaints: list


def _kernels(space):
    found = []
    for plane in space.planes:
        if plane.name.startswith("/device:GPU:"):
            # Other lines repeat the events of the streams.
            streams = [line for line in plane.lines if line.name.startswith("Stream")] or plane.lines
            found += [Kernel(e.name, e.begin_ps, e.end_ps, e.stats.get("correlation_id", 0))
                      for line in streams for e in line.events if "kernel_details" in e.stats or e.name == "CUDA graph"]
    return sorted(found, key=lambda kernel: kernel.begin_ps)


def _steps(host):
    """Steps named "train", each with the launches that it contains."""
    found = []
    for line in host.lines:
        launches = sorted((e.begin_ps, e.stats.get("correlation_id")) for e in line.events if e.name.startswith(LAUNCHES))
        trains = sorted((e.begin_ps, e.end_ps, int(e.stats["step_num"])) for e in line.events if e.name == "train" and "step_num" in e.stats)
        at = 0
        for begin, end, number in trains:
            while at < len(launches) and launches[at][0] < begin:
                at += 1
            inside = []
            while at < len(launches) and launches[at][0] <= end:
                inside.append(launches[at][1])
                at += 1
            found.append(Step(number, begin, end, inside))
    return found


def recording(path):
    space = xspace.parse(path.read_bytes(), WANTED)
    launched = {event.stats["correlation_id"] for plane in space.planes if plane.name.startswith("/host")
                for line in plane.lines for event in line.events if "correlation_id" in event.stats}
    start = space.plane("Task Environment").stats.get("profile_start_time", 0)
    return Recording(_kernels(space), _steps(space.plane("/host:CPU")), launched, start, [plane.name for plane in space.planes],
                     space.errors + space.warnings)


def kineto_kernels(path):
    """The kernels in a trace file of PyTorch's own profiler."""
    events = json.loads(path.read_text())["traceEvents"]
    found = [Kernel(e["name"], round(e["ts"] * 1e6), round((e["ts"] + e["dur"]) * 1e6), e["args"].get("correlation", 0))
             for e in events if e.get("cat") == "kernel"]
    return sorted(found, key=lambda kernel: kernel.begin_ps)


class Complete(NamedTuple):
    """The kernels of each step that lies within the window."""

    steps: list  # (number, kernels in the order of their begins)
    launches_missing: int
    kernels_missing: int
    kernels_too_many: int

    @property
    def kernels(self):
        return sum(len(kernels) for _, kernels in self.steps)

    @property
    def wrong(self):
        return self.launches_missing + self.kernels_missing + self.kernels_too_many


def complete_steps(found, window_ns, launches, kernels):
    """`window_ns` is begin and end in Unix time. Each step launches by `launches` calls `kernels` kernels."""
    begin, end = ((at - found.start_ns) * 1000 for at in window_ns)
    by_launch = defaultdict(list)
    for kernel in found.kernels:
        by_launch[kernel.correlation].append(kernel)
    steps, lost_launches, lost, surplus = [], 0, 0, 0
    for step in sorted(found.steps):
        if step.begin_ps < begin or step.end_ps > end:
            continue
        inside = sorted((kernel for launch in step.launches for kernel in by_launch[launch]), key=lambda kernel: kernel.begin_ps)
        lost_launches += max(launches - len(step.launches), 0)
        lost += max(kernels - len(inside), 0)
        surplus += max(len(inside) - kernels, 0)
        steps.append((step.number, inside))
    return Complete(steps, lost_launches, lost, surplus)


def joined_share(found):
    """How many of the kernels have the call that launched them in the trace."""
    return sum(kernel.correlation in found.launched for kernel in found.kernels) / max(len(found.kernels), 1)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class SameWork(NamedTuple):
    """Two recordings of the same steps."""

    ours: int
    theirs: int
    differing: dict  # name -> (ours, theirs), of names that were seen differently often
    median_us: float  # The median difference between the two recorded durations of a kernel.
    worst_percent_us: float


def same_work(ours, theirs):
    """Matches the kernels of each name in the order of their begins."""
    counts, other = Counter(k.name for k in ours), Counter(k.name for k in theirs)
    differing = {name: (counts[name], other[name]) for name in sorted(counts | other) if counts[name] != other[name]}
    durations = defaultdict(lambda: ([], []))
    for side, kernels in enumerate((ours, theirs)):
        for kernel in kernels:
            durations[kernel.name][side].append((kernel.end_ps - kernel.begin_ps) / 1e6)
    differences = [abs(a - b) for a_side, b_side in durations.values() for a, b in zip(a_side, b_side)] or [0.0]
    return SameWork(len(ours), len(theirs), differing, quantile(differences, 0.5), quantile(differences, 0.99))
