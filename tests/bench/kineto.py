"""Measures reading trace files as PyTorch's Kineto writes them, in comparison with Python's JSON reader and Perfetto's engine."""

import os
import subprocess
import time

from tests.bench import bars
from tests.bench.engine import median
from tests.support.perfetto import perfetto
from tests.support.processes import BIN, PYTHON

EVENTS = 1_000_000
LARGE = 1 << 30  # Bytes of the file that only we read.
OPERATORS = ["aten::empty", "aten::linear", "aten::addmm", "aten::relu", "autograd::engine::evaluate_function: AddmmBackward0"]
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >(int)"
HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85899345920, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
  ],
  "displayTimeUnit": "ms", "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
PYTHON_COUNT = """
import json, sys, time
began = time.perf_counter()
events = json.load(open(sys.argv[1]))["traceEvents"]
count = sum(1 for e in events if e["ph"] == "X")
print(count, time.perf_counter() - began)
"""
XPROF_COUNT = """
import json, sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
print(sum(1 for e in json.loads(data)["traceEvents"] if e["ph"] == "X" and e["name"] in set(sys.argv[2:])))
"""


def event(i):
    """Five of eight events are operators with shapes, one is a launch, one its arrow and one its kernel."""
    ts = f"{4_000_000_000 + i * 3}.{i % 1000:03}"
    if i % 8 < 5:
        return f"""  {{
    "ph": "X", "cat": "cpu_op", "name": "{OPERATORS[i % 8]}", "pid": 1234, "tid": {1234 + i // 1000 % 3},
    "ts": {ts}, "dur": 2.{i * 7 % 1000:03},
    "args": {{
      "External id": {i},"Sequence number": {i // 3}, "Fwd thread id": 0, "Record function id": 0, "Input type": ["float", "float"], "Input Dims": [[{i % 64}, 128], [128, 10]], "Ev Idx": {i}
    }}
  }}"""
    if i % 8 == 5:
        return f"""  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1234, "tid": 1234,
    "ts": {ts}, "dur": 1.{i * 7 % 1000:03},
    "args": {{
      "External id": {i}, "cbid": 211, "correlation": {i}
    }}
  }}"""
    if i % 8 == 6:
        return f"""  {{
    "ph": "s", "id": {i - 1}, "pid": 1234, "tid": 1234, "ts": {4_000_000_000 + (i - 1) * 3}.{(i - 1) % 1000:03},
    "cat": "ac2g", "name": "ac2g"
  }}"""
    return f"""  {{
    "ph": "X", "cat": "kernel", "name": "{KERNEL}", "pid": 0, "tid": 7,
    "ts": {ts}, "dur": 1.{i * 7 % 1000:03},
    "args": {{
      "External id": {i - 2}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {i - 2}, "registers per thread": 16,
      "shared memory": 0, "blocks per SM": 0.037037, "warps per SM": 0.148148, "grid": [{i % 50 + 1}, 1, 1], "block": [128, 1, 1],
      "est. achieved occupancy %": 0
    }}
  }}"""


def write(path, events=None, size=None):
    """Writes so many events, or a file of so many bytes. Returns the number of spans."""
    count = 0
    with open(path, "w") as file:
        file.write(HEAD)
        while count < events if events else file.tell() < size:
            file.write((",\n" if count else "") + ",\n".join(event(i) for i in range(count, count + 10_000)))
            count += 10_000
        file.write('\n  ],\n  "traceName": "bench"\n}\n')
    return count, count - count // 8


def read(*arguments):
    """Runs our reader. Returns the numbers that it prints: events, bytes read and written, seconds, KiB."""
    done = subprocess.run([BIN / "read_trace_json", *arguments], capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    events, size, written, seconds, memory = done.stdout.split()
    return int(events), int(size), int(written), float(seconds), int(memory) / 1024


def count_with_perfetto(trace):
    """How many spans Perfetto's engine finds, with those that it drops because they overlap, and the seconds it takes."""
    began = time.perf_counter()
    found = perfetto(trace, "select count(*) from slice", "select sum(value) from stats where name = 'slice_drop_overlapping_complete_event'",
                     timeout=600)
    return sum(rows[0][0] for rows in found), time.perf_counter() - began


def run(directory):
    trace, space, large = directory / "m.json", directory / "m.xplane.pb", directory / "large.json"
    events, spans = write(trace, events=EVENTS)
    ours = [read(trace, space) for _ in range(7)]
    assert {run[0] for run in ours} == {events}
    seconds, memory = median([run[3] for run in ours]), max(run[4] - run[2] / 2**20 for run in ours)
    count, python = subprocess.run([PYTHON, "-c", PYTHON_COUNT, trace], capture_output=True, text=True, check=True).stdout.split()
    theirs, engine = count_with_perfetto(trace)
    xprof = int(subprocess.run([PYTHON, "-c", XPROF_COUNT, space, *OPERATORS, "cudaLaunchKernel", KERNEL], capture_output=True, text=True,
                               check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}).stdout.split()[-1])
    assert spans == int(count) == theirs == xprof, (spans, count, theirs, xprof)
    size = trace.stat().st_size
    trace.unlink()
    write(large, size=LARGE)
    big = read(large)
    bars.at_least("M events/s", events / seconds / 1e6, 1.5)
    bars.at_most("MiB beside the result, large file", big[4] - big[2] / 2**20, 64)
    rows = [
        f"| ours, a file of {EVENTS:,} events | {seconds:.2f} | {events / seconds / 1e6:.2f} | {size / seconds / 1e6:.0f} | {memory:.0f} |",
        f"| ours, a file of {big[1] / 2**30:.1f} GiB | {big[3]:.2f} | {big[0] / big[3] / 1e6:.2f} | {big[1] / big[3] / 1e6:.0f} | {big[4] - big[2] / 2**20:.0f} |",
        f"| peer: Python's json.load, counting only | {float(python):.2f} | {events / float(python) / 1e6:.2f} | {size / float(python) / 1e6:.0f} | |",
        f"| peer: Perfetto's engine (WebAssembly) | {engine:.2f} | {events / engine / 1e6:.2f} | {size / engine / 1e6:.0f} | |",
    ]
    return "\n".join([
        f"### Reading PyTorch's trace files\nOne core; seconds of the processor for ours, of the clock for peers; {size / 1e6:.0f} MB. Python, Perfetto "
        f"and XProf count the same {spans:,} spans. Python takes {float(python) / seconds:.1f} times as long, Perfetto {engine / seconds:.1f} times.\n",
        "| | seconds | M events/s (bar 1.5) | MB/s | memory beside the result, MiB (bar 64) |", "|---|---|---|---|---|", *rows, ""])
