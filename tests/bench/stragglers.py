"""Measures the report over the digests of 2,000 workers, and over two published jobs whose answers are known.

The program that gave the published answers is timed in the same run if it is given; see straggler_analysis.py.
"""

import subprocess

from tests.bench import bars, straggler_analysis
from tests.bench.engine import median
from tests.bench.straggler_analysis import DATA
from tests.support.processes import BIN

JOBS = ((2000, 10, 20), (2000, 20, 40))  # Workers, steps, calls in a step.
ROUNDS = 3


def measure(*arguments):
    """Medians of the seconds for merging and reporting; the largest peak in MiB; operations; seconds for the slowdown of each part; headline."""
    merging, reporting, peaks, parts = [], [], [], []
    for _ in range(ROUNDS):
        line = subprocess.run([BIN / "merge_digests", *arguments], check=True, capture_output=True, text=True).stdout
        merge, report, peak, operations, of_parts, headline = line.strip().split(" ", 5)
        merging.append(float(merge))
        reporting.append(float(report))
        peaks.append(int(peak) / 1024)
        parts.append(float(of_parts))
    if arguments[0] == "read":
        bars.at_most("2,000 digests: seconds", median(merging) + median(reporting), 2)
        bars.at_most("2,000 digests: MiB", max(peaks), 256)
    return f"{median(merging):.2f} s | {median(reporting):.2f} s | {max(peaks):.0f} MiB | {int(operations):,} | {median(parts):.2f} s | {headline} |"


def run(directory):
    rows = []
    for workers, steps, calls in JOBS:
        digests = directory / f"{workers}-{steps}-{calls}"
        digests.mkdir()
        subprocess.run([BIN / "merge_digests", "write", digests, str(workers), str(steps), str(calls)], check=True)
        size = sum(path.stat().st_size for path in digests.iterdir()) / workers / 1024
        rows.append(f"| {workers:,} digests of {size:.0f} KiB: {steps} steps with {calls} collectives | {measure('read', digests)}")
    for name, what in (("AR", "published job AR: 16 workers of 64 ranks, 44 steps"), ("ST", "published job ST: 8 ranks, 32 steps")):
        rows.append(f"| {what} | {measure('job', DATA / f'{name}.txt.gz')}")
    return "\n".join(["### Who holds up the others\n",
                      "| input | read and merged | report | peak of the process | operations | slowdown of each part, not in the report | headline |",
                      "|---|---|---|---|---|---|---|", *rows, "", straggler_analysis.table(directory)])
