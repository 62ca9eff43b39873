"""Measures building the viewer's index of a trace, in comparison with a bare walk over the same events by the same scanner.

STROBE_INDEX_EVENTS names other sizes, such as 1000000,100000000. From 100 M events on, it is also measured how long the first picture takes, and
whether the index can be built with 1 GiB of memory.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.bench import bars
from tests.bench.engine import median, timed
from tests.bench.viewer import browser
from tests.support.memory_group import memory_group
from tests.support.processes import BIN, BUILD

EVENTS = [int(size) for size in os.environ.get("STROBE_INDEX_EVENTS", "1000000,10000000").split(",")]
LARGE = 100_000_000
LIMIT_MIB = 1024


def bare_walk(trace, *prefix):
    """The number of events and the seconds."""
    events, seconds = subprocess.run([*prefix, BIN / "walk_events", trace], check=True, capture_output=True, text=True).stdout.split()[:2]
    return int(events), float(seconds)


def first_pictures(trace, directory, rounds):
    """Seconds from starting `strobe view` without an index until Chromium has drawn events."""
    seconds = []
    for i in range(rounds):
        cache = directory / f"cache-{i}"
        seconds.append(browser("paint", BIN / "strobe", trace, cache)["seconds"])
        shutil.rmtree(cache, ignore_errors=True)  # The viewer may not have ended yet.
    return seconds


def forget(path):
    """Drops a file's pages from memory, so that they count where it is read next."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def under_limit(trace):
    """The walk's seconds and the build's, each under the limit; None for one that the kernel has killed."""
    # On a disk: files in memory count in the group, and cannot be dropped.
    with tempfile.TemporaryDirectory(prefix="strobe-bench-", dir=BUILD / "bench") as place, memory_group(LIMIT_MIB) as prefix:
        on_disk = Path(place) / trace.name
        shutil.copy(trace, on_disk)
        forget(on_disk)
        walk = bare_walk(on_disk, *prefix)[1]
        forget(on_disk)
        try:
            return walk, timed(*prefix, BIN / "strobe", "convert", on_disk, "--to", "index", "-o", Path(place) / "index")[0]
        except AssertionError:
            return walk, None


def large(trace, name, events, double, directory):
    """The row of a trace that is larger than the memory which a viewer may have."""
    paints = first_pictures(trace, directory, 3)
    walk, built = under_limit(trace)
    bars.at_most(f"{name} events: first picture, cold, s", statistics.median(paints), 20)
    bars.at_least(f"{name} events: index built with {LIMIT_MIB} MiB", int(built is not None), 1)
    return (f"| {name} | {statistics.median(paints):.1f} ({min(paints):.1f} to {max(paints):.1f}) | {double:.1f} | "
            f"{f'{built:.1f}' if built else 'killed (missed)'} | {walk:.1f} |")


def run(directory):
    trace, index = directory / "big.xplane.pb", directory / "big.index.out"
    build = [BIN / "strobe", "convert", trace, "--to", "index", "-o", index]
    rows, large_rows = [], []
    for asked in EVENTS:
        subprocess.run([BIN / "make_xspace", str(asked), trace], check=True)
        walks, one, both = [], [], []
        for _ in range(5 if asked < LARGE else 3):
            events, walked = bare_walk(trace, "taskset", "-c", "0")
            assert events >= asked  # make_xspace fills whole groups of rows, so it makes slightly more than it is asked for.
            walks.append(walked)
            one.append(timed("taskset", "-c", "0", *build))
            both.append(timed(*build))
        walk, single, double = median(walks), median([r[0] for r in one]), median([r[0] for r in both])
        peak = (median([r[1] for r in both]) * 1024 * 1024 - trace.stat().st_size) / events
        name = f"{events // 1_000_000} M"
        bars.at_least(f"{name} events: speed to a bare walk's", walk / single, 0.6)
        bars.at_most(f"{name} events: B per event at the peak", peak, 30)
        rows.append(f"| {name} | {events / walk / 1e6:.1f} | {events / single / 1e6:.1f} | {walk / single:.2f} | {events / double / 1e6:.1f} |"
                    f" {index.stat().st_size / events:.1f} | {peak:.0f} |")
        index.unlink()
        if asked >= LARGE:
            large_rows.append(large(trace, name, events, double, directory))
    lines = [
        "### The viewer's index",
        "`strobe convert --to index`: names, places of all arguments and 0.45 arrows per event are in it; whole commands. The walk reads all events and their integer stats"
        " by the same scanner, and does nothing with them.\n",
        "| events | bare walk, M events/s | one core | ratio (bar 0.6) | two cores | B per event on disk (bar 20) | B per event at the peak, above the mapped file (bar 30) |",
        "|---|---|---|---|---|---|---|", *rows, ""]
    if large_rows:
        lines += [
            "### A trace that is larger than the memory\n",
            "The first picture: seconds from starting `strobe view` without an index until Chromium has drawn events, medians (range). With"
            f" {LIMIT_MIB} MiB: the whole program in a memory cgroup, once, from a file that is not in memory to an index on the same disk.\n",
            f"| events | first picture (bar 20) | index, two cores, s | index with {LIMIT_MIB} MiB, s (bar: it ends) | peer: bare walk with {LIMIT_MIB} MiB, s |",
            "|---|---|---|---|---|", *large_rows, ""]
    return "\n".join(lines)
