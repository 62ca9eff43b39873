"""Makes traces of a training loop on a GPU as PyTorch's Kineto writes them, and asks Meta's HolisticTraceAnalysis about them.

    python -m tests.support.gpu_trace FOLDER     writes the traces of two ranks
    python -m tests.support.gpu_trace --record   writes HolisticTraceAnalysis's answers to tests/golden/hta.json; needs it installed

It is no part of the tests' requirements, because it needs Jupyter."""

import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden/hta.json"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPY = "Memcpy HtoD (Pinned -> Device)"
RANKS, STEPS = 2, 6


def kinds(rng):
    """Stream, name, category and length in us of some work."""
    dice = rng.random()
    if dice < 0.1:
        return 20, NCCL, "kernel", rng.randrange(50, 400)
    if dice < 0.2:
        return 24, COPY, "gpu_memcpy", rng.randrange(5, 120)
    return 7, f"gemm_{rng.randrange(9)}", "kernel", rng.randrange(2, 60)


def make(rank, steps=STEPS, per_step=60):
    """A rank's trace: compute, collectives and copies on streams of their own, each launched by the host, which waits for the device at the end
    of each step. All times are whole microseconds, because HolisticTraceAnalysis cuts others."""
    rng = random.Random(rank)
    named = {"ph": "M", "name": "process_name", "pid": 100, "ts": 1_000_000, "args": {"name": "python"}}
    events, correlation, host, free = [], 0, 1_000_000, {7: 0, 20: 0, 24: 0}

    def add(category, name, pid, tid, ts, length, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": length, "args": args})

    for step in range(steps):
        begin = host
        add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 100, host + 1, 200 + 10 * step)
        host += 220 + 10 * step
        for _ in range(per_step):
            correlation += 1
            stream, name, category, length = kinds(rng)
            add("cpu_op", "aten::op", 100, 100, host, 9, **{"External id": correlation})
            add("cuda_runtime", "cudaLaunchKernel", 100, 100, host + 2, 5, correlation=correlation)
            start = max(host + 6, free[stream] + 1)
            free[stream] = start + length
            extra = {"bytes": 1 << 20} if category == "gpu_memcpy" else {}
            if name == NCCL:
                extra = {"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": f"{list(range(RANKS))}",
                         "Group size": RANKS, "In msg nelems": 1024, "dtype": "Float", "Collective name": "allreduce"}
            add(category, name, 0, stream, start, length, device=0, stream=stream, correlation=correlation, **extra)
            host += rng.randrange(10, 25)
        host = max(host, *free.values()) + 3
        add("user_annotation", f"ProfilerStep#{step}", 100, 100, begin, host - begin)
    events.sort(key=lambda event: (event["ts"], -event["dur"]))  # As Kineto writes them.
    return {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS},
            "baseTimeNanoseconds": 1790000000000000000, "traceEvents": [named, *events]}


def write(folder):
    """Writes the traces of all ranks into the folder. Returns their SHA-256, by which a record names them."""
    whole = hashlib.sha256()
    for rank in range(RANKS):
        text = json.dumps(make(rank))
        whole.update(text.encode())
        (Path(folder) / f"rank{rank}.trace.json").write_text(text)
    return whole.hexdigest()


def record():
    from importlib.metadata import version

    from hta.trace_analysis import TraceAnalysis

    with tempfile.TemporaryDirectory() as folder:
        traces = write(folder)
        analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
        times = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
        overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
    ranks = [{**{column: float(times.loc[rank, f"{column}(us)"]) for column in ("idle_time", "compute_time", "non_compute_time", "kernel_time")},
              "comp_comm_overlap_pctg": float(overlap.loc[rank, "comp_comm_overlap_pctg"])} for rank in range(RANKS)]
    GOLDEN.write_text(json.dumps({"HolisticTraceAnalysis": version("HolisticTraceAnalysis"), "traces": traces, "ranks": ranks}, indent=2) + "\n")


if __name__ == "__main__":
    record() if sys.argv[1] == "--record" else write(sys.argv[1])
