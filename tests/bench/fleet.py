"""Measures what strobe fleet costs for each gigabyte of traces, from which docs/how-to/read-a-run.md calculates the cost of a petabyte.

The peer only parses the same traces, with Python's protobuf classes (upb): what a converter in Python would spend before it begins to work.
"""

import json
import multiprocessing
import os
import shutil
import subprocess

from tests.support import gpu_trace
from tests.support.processes import BIN, PYTHON

EVENTS = 10_000_000  # 290 MB.
GPU_STEPS, GPU_RANKS = 2000, 4
PARSE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tensorflow import xplane_pb2
began = os.times()
for path in sys.argv[2:]:
    xplane_pb2.XSpace.FromString(open(path, "rb").read())
ended = os.times()
print(ended.user + ended.system - began.user - began.system)
"""


def cost(*command):
    """Seconds of processor time, and the peak of memory in MiB."""
    process = subprocess.Popen(["taskset", "-c", "1", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def write_gpu_trace(path, rank):
    path.write_text(json.dumps(gpu_trace.make(rank, steps=GPU_STEPS)))


def make_runs(directory):
    """Two logdirs: one run of large traces with short stats, and one of PyTorch's traces of GPUs with all that Kineto tells."""
    synthetic, gpu = (directory / name / "plugins/profile/run" for name in ("synthetic", "gpu"))
    for folder in (synthetic, gpu):
        folder.mkdir(parents=True)
    subprocess.run([BIN / "make_xspace", str(EVENTS), synthetic / "w0.xplane.pb"], check=True)
    for rank in range(GPU_RANKS):
        source = directory / "rank.trace.json"
        # In a process of its own, because a child's peak of memory is at least what its parent had when it was started.
        maker = multiprocessing.get_context("spawn").Process(target=write_gpu_trace, args=(source, rank))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        subprocess.run([BIN / "strobe", "convert", source, "--to", "xplane", "--quiet", "-o", gpu / f"w{rank}.xplane.pb"], check=True)
        source.unlink()
    return {"large lines, 1 to 2 stats an event": synthetic, "PyTorch on GPUs, four ranks": gpu}


def measure(directory, name, run, protos):
    traces = sorted(run.glob("*.xplane.pb"))
    gigabytes = sum(path.stat().st_size for path in traces) / 1e9
    largest = max(path.stat().st_size for path in traces) / 2**20
    rows = []
    for flags in ((), ("--no-stats",)):
        out, runs = directory / "tables", []
        for _ in range(3):
            shutil.rmtree(out, ignore_errors=True)
            runs.append(cost(BIN / "strobe", "fleet", run.parents[2], "--to", "parquet", "--out", out, "--quiet", "--scratch", directory, *flags))
        (row,) = (json.loads(path.read_text()) for path in out.glob("runs/*/run.json"))
        seconds, memory = sorted(runs)[1]
        rows.append(f"| {name} | {'no' if flags else 'yes'} | {gigabytes:.2f} | {row['events'] / 1e6:.1f} | {seconds / gigabytes:.1f} | "
                    f"{row['table_bytes'] / row['trace_bytes']:.2f} | {memory - largest:.0f} | {{}} |")
    parsed = subprocess.run([PYTHON, "-c", PARSE, str(protos), *map(str, traces)], capture_output=True, text=True, check=True).stdout
    return [row.format(f"{float(parsed) / gigabytes:.1f}" if i == 0 else "") for i, row in enumerate(rows)]


def run(directory):
    from tests.support.protos import generate

    protos = generate(directory / "protos")
    rows = [row for name, run in make_runs(directory).items() for row in measure(directory, name, run, protos)]
    return "\n".join([
        "### What a gigabyte of traces costs\n",
        "`strobe fleet --to parquet` on one core, whole command, median of 3: tables, digests and reports, written to memory. Peer: Python's protobuf classes (upb)"
        " parse the same traces, and do nothing with them.\n",
        "| traces | stats | GB | M events | CPU s per GB | tables, B per B | peak above the largest trace, MiB | peer: CPU s per GB |",
        "|---|---|---|---|---|---|---|---|", *rows, ""])
