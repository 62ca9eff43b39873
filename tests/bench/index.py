"""Measures building the viewer's index of a trace, in comparison with a bare walk over the same events by the same scanner.

STROBE_INDEX_EVENTS names other sizes, such as 1000000,100000000.
"""

import os
import subprocess

from tests.bench import bars
from tests.bench.engine import median, timed
from tests.support.processes import BIN

EVENTS = [int(size) for size in os.environ.get("STROBE_INDEX_EVENTS", "1000000,10000000").split(",")]
ROUNDS = 5


def run(directory):
    trace, index = directory / "big.xplane.pb", directory / "big.index.out"
    build = [BIN / "strobe", "convert", trace, "--to", "index", "-o", index]
    rows = []
    for asked in EVENTS:
        subprocess.run([BIN / "make_xspace", str(asked), trace], check=True)
        walks, one, both = [], [], []
        for _ in range(ROUNDS):
            done = subprocess.run(["taskset", "-c", "0", BIN / "walk_events", trace], check=True, capture_output=True, text=True).stdout.split()
            events = int(done[0])  # make_xspace fills whole groups of rows, so it makes slightly more than it is asked for.
            assert events >= asked
            walks.append(float(done[1]))
            one.append(timed("taskset", "-c", "0", *build))
            both.append(timed(*build))
        walk, single, double = median(walks), median([r[0] for r in one]), median([r[0] for r in both])
        peak = (median([r[1] for r in both]) * 1024 * 1024 - trace.stat().st_size) / events
        bars.at_least(f"{events // 1_000_000} M events: speed to a bare walk's", walk / single, 0.6)
        bars.at_most(f"{events // 1_000_000} M events: B per event at the peak", peak, 30)
        rows.append(f"| {events // 1_000_000} M | {events / walk / 1e6:.1f} | {events / single / 1e6:.1f} | {walk / single:.2f} | {events / double / 1e6:.1f} |"
                    f" {index.stat().st_size / events:.1f} | {peak:.0f} |")
        index.unlink()
    return "\n".join([
        "### The viewer's index",
        "`strobe convert --to index`: names, places of all arguments and 0.45 arrows per event are in it; whole commands. The walk reads all events and their integer stats"
        " by the same scanner, and does nothing with them.\n",
        "| events | bare walk, M events/s | one core | ratio (bar 0.6) | two cores | B per event on disk (bar 20) | B per event at the peak, above the mapped file (bar 30) |",
        "|---|---|---|---|---|---|---|", *rows, ""])
