"""Measures summing up a trace (strobe report, and the sidecar's digest), in comparison with XProf's overview of the same file."""

import os
import subprocess

from tests.bench import bars, kineto
from tests.bench.engine import median
from tests.support.processes import BIN, PYTHON

EVENTS = 1_000_000
XPROF = """
import sys, time
from xprof.convert import raw_to_tool_data
began = time.perf_counter()
raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {})
print(time.perf_counter() - began)
"""


def ours(trace):
    """Events, bytes of the digest, seconds of the processor and MiB of added memory."""
    runs = [list(map(float, subprocess.run([BIN / "digest_trace", trace], capture_output=True, text=True, check=True).stdout.split()))
            for _ in range(7)]
    return int(runs[0][0]), int(runs[0][1]), median([run[2] for run in runs]), max(run[3] for run in runs) / 1024


def xprof(trace):
    def once():
        for stale in trace.parent.glob("*SSTABLE*"):
            stale.unlink()
        out = subprocess.run([PYTHON, "-c", XPROF, trace], capture_output=True, text=True, check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        return float(out.stdout.splitlines()[-1])

    return median([once() for _ in range(3)])


def run(directory):
    many, torch, json = directory / "big.xplane.pb", directory / "torch.xplane.pb", directory / "torch.json"
    subprocess.run([BIN / "make_xspace", str(EVENTS), many], check=True)
    kineto.write(json, events=EVENTS)
    subprocess.run([BIN / "strobe", "convert", json, "--to", "xplane", "-o", torch], check=True, capture_output=True)
    rows = []
    for name, trace in (("four GPUs, 64 rows", many), ("as PyTorch writes it", torch)):
        events, size, seconds, memory = ours(trace)
        theirs = xprof(trace)
        bars.at_most(f"{name}: seconds", seconds, 0.2)
        bars.at_most(f"{name}: added MiB", memory, 20)
        bars.at_most(f"{name}: KiB", size / 1024, 256)
        rows.append(f"| {name} | {events:,} | {seconds:.3f} | {memory:.0f} | {size / 1024:.0f} | {theirs:.2f} | {theirs / seconds:.0f} |")
    return "\n".join([
        "### Summing up a trace\nSeconds of one core for ours, of the clock for XProf's overview page, which computes a part of the same; medians. "
        "Memory is what is added while the trace is in memory.\n",
        "| trace | events | seconds (bar 0.2) | added memory, MiB (bar 20) | digest, KiB (bar 256) | peer: XProf, seconds | XProf / ours |",
        "|---|---|---|---|---|---|---|", *rows, ""])
