"""The notes of tests/e2e/cuda_stamps.cc: when each kernel ran by the device's own clock, and how far a profiler's times are from that."""

import math
import struct
from typing import NamedTuple

from .kernels import quantile


class Stamps(NamedTuple):
    threads: int
    kernels: int  # How many a step launches.
    noted: list  # For each thread, begin and end of its kernels in turns.


def read(path):
    data = path.read_bytes()
    line, at = data.index(b"\n"), 0
    threads, kernels = map(int, data[:line].split())
    at, noted = line + 1, []
    for _ in range(threads):
        line = data.index(b"\n", at)
        count = int(data[at:line]) * kernels * 2
        noted.append(struct.unpack_from(f"<{count}Q", data, line + 1))
        at = line + 1 + count * 8
    return Stamps(threads, kernels, noted)


class Distances(NamedTuple):
    """How far the recorded times are from the noted ones, after the offset and the drift of the device's clock are taken away."""

    kernels: int
    begin_us: float  # 99 % of the begins are nearer.
    end_us: float
    longer_us: float  # Median of what a recorded kernel lasts longer than between its own stamps.
    tick_ns: int  # How long a tick of the device's clock is.
    drift_ppm: float


def _slope(points):
    """Returns the slope of the line through the medians of the first and the last tenth."""
    tenth = max(len(points) // 10, 1)
    (x0, y0), (x1, y1) = ((quantile([x for x, _ in part], 0.5), quantile([y for _, y in part], 0.5)) for part in (points[:tenth], points[-tenth:]))
    return (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0


def _spread_us(points, slope):
    """99 % of the residuals are within this distance of their median."""
    residuals = [y - slope * x for x, y in points]
    middle = quantile(residuals, 0.5)
    return quantile([abs(value - middle) for value in residuals], 0.99) / 1000


def distances(steps, stamps):
    """`steps` is what kernels.complete_steps found; None if no kernel of it has a stamp. Only steps that are whole can be matched."""
    begins, ends, longer, tick = [], [], [], 0
    zero = None
    for number, kernels in steps:
        step, thread = divmod(number, stamps.threads)
        noted, first = stamps.noted[thread], step * stamps.kernels
        if len(kernels) != stamps.kernels or 2 * (first + stamps.kernels) > len(noted):
            continue
        for i, kernel in enumerate(kernels):
            begin, end = noted[2 * (first + i)], noted[2 * (first + i) + 1]
            zero = begin if zero is None else zero
            begins.append((begin - zero, kernel.begin_ps / 1000 - (begin - zero)))
            ends.append((end - zero, kernel.end_ps / 1000 - (end - zero)))
            longer.append((kernel.end_ps - kernel.begin_ps) / 1000 - (end - begin))
            tick = math.gcd(tick, begin - zero, end - zero)
    if not begins:
        return None
    begins.sort()
    slope = _slope(begins)
    return Distances(len(begins), _spread_us(begins, slope), _spread_us(ends, slope), quantile(longer, 0.5) / 1000, tick, slope * 1e6)
