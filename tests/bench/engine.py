"""Measures reading and exporting a large trace, in comparison with XProf's conversion of the same file."""

import os
import subprocess
import time

from tests.bench import bars
from tests.support.processes import BIN, PYTHON

EVENTS = 1_000_000
XPROF = """
import sys, time
from xprof.convert import raw_to_tool_data
began = time.perf_counter()
raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer@", {"trace_viewer_options": {"resolution": "8000"}})
print(time.perf_counter() - began)
"""


def timed(*command):
    began = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def median(runs):
    return sorted(runs)[len(runs) // 2]


def run(directory):
    trace = directory / "big.xplane.pb"
    subprocess.run([BIN / "make_xspace", str(EVENTS), trace], check=True)
    size = trace.stat().st_size / 1e6
    rows = []
    for name, out, command in (("strobe inspect", None, ["inspect", trace]), ("strobe convert --to chrome", "t.json", ["convert", trace]),
                               ("strobe convert --to perfetto", "t.pftrace", ["convert", trace, "--to", "perfetto"])):
        runs = [timed(BIN / "strobe", *command, *(["-o", directory / out] if out else [])) for _ in range(5)]
        seconds, memory = median([r[0] for r in runs]), median([r[1] for r in runs])
        written = (directory / out).stat().st_size / 1e6 if out else 0
        if out:
            bars.at_least(f"{name}: MB/s written", written / seconds, 100)
        if out == "t.pftrace":
            bars.at_most(f"{name}: bytes per event", written * 1e6 / EVENTS, 45)
        rows.append(f"| {name} | {seconds:.2f} | {EVENTS / seconds / 1e6:.1f} | {written / seconds:.0f} | {written * 1e6 / EVENTS:.0f} | {memory:.0f} |"
                    if out else f"| {name} | {seconds:.2f} | {EVENTS / seconds / 1e6:.1f} | | | {memory:.0f} |")
    xprof = []
    for _ in range(3):
        for stale in directory.glob("*SSTABLE*"):
            stale.unlink()
        out = subprocess.run([PYTHON, "-c", XPROF, trace], capture_output=True, text=True, check=True).stdout
        xprof.append(float(out.splitlines()[-1]))
    rows.append(f"| peer: XProf, conversion for its trace viewer | {median(xprof):.2f} | {EVENTS / median(xprof) / 1e6:.1f} | | | |")
    return "\n".join([f"### Reading and exporting a trace\n{EVENTS:,} events on 64 rows with 1 to 2 stats each, {size:.0f} MB; medians; ours whole commands on one core.\n",
                      "| | seconds | M events/s | MB/s written (bar 100) | bytes per event (Perfetto: bar 45) | RSS, MiB |", "|---|---|---|---|---|---|", *rows, ""])
