"""A run of four workers on GPUs, of which one computes longer in each step, and reports to store beside it."""

import json

from tests.support.traces import HOSTILE, MS, US, PlaneWriter

WORKERS, STEPS, SLOW = 4, 12, 2
STEP = 20 * MS
COMPUTE, MORE, TRANSFER = 8 * MS, 4 * MS, MS
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def worker_trace(rank):
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    gpu = PlaneWriter(space, "/device:GPU:0")
    gpu.line("Stream #13(Compute)")
    for i in range(STEPS):
        begin = i * STEP + MS
        # A step varies by less than a percent, as real ones do at least.
        arrival = begin + COMPUTE + (MORE if rank == SLOW else 0) + (7 * rank + 11 * i) % 5 * 20 * US
        last = begin + COMPUTE + MORE + (7 * SLOW + 11 * i) % 5 * 20 * US
        gpu.event("gemm", begin, arrival - begin - MS)
        gpu.event(HOSTILE, arrival - MS, MS)
        gpu.event(NCCL, arrival, last + TRANSFER - arrival)
    host = PlaneWriter(space, "/host:CPU")
    host.line("python", id=1)
    for i in range(STEPS):
        host.event("train", i * STEP, STEP - MS, step_num=i, _r=1)
    environment = PlaneWriter(space, "Task Environment")
    environment.add_stats(environment.plane, {"profile_start_time": 1_790_000_000_000_000_000})
    strobe = PlaneWriter(space, "Strobe")
    strobe.add_stats(strobe.plane, {"rank": rank, "clock_offset_ns": 0, "clock_error_ns": 40_000})
    return space


def write(logdir, name):
    folder = logdir / "plugins" / "profile" / name
    folder.mkdir(parents=True)
    for rank in range(WORKERS):
        (folder / f"worker-{rank}.xplane.pb").write_bytes(worker_trace(rank).SerializeToString())
    return folder


def stored(witness):
    """A report.json that says what `strobe report --output json` says."""
    stragglers = witness["stragglers"]
    workers = [{key: worker.get(key) for key in ("worker", "rank", "clockErrorNs", "time", "hostTime")} | {"steps": len(worker["steps"])}
               for worker in witness["workers"]]
    steps = [{"number": number, "workers": WORKERS, "meanNs": stragglers["stepNs"], "mostOwnTime": f"worker-{SLOW}", "ownNs": 12_000_000}
             for number in range(STEPS - 1)]
    return {"format": 1, "captureId": "uid-1", "run": "stored", "headline": stragglers["headline"],
            "figures": {"stepSeconds": stragglers["stepNs"] / 1e9, "stragglerSeconds": stragglers["heldUp"]["ns"] / 1e9, "exposedCommunicationRatio": 0.2},
            "stragglers": stragglers, "steps": steps, "ops": [{"name": "gemm", "kind": "compute", "count": 48, "selfNs": 336_000_000, "workers": 4}],
            "workers": workers, "workersLeftOut": 0, "missing": [], "missingWorkers": 0}


def hostile(report):
    """The report with markup in each name."""
    return json.loads(json.dumps(report).replace("worker-1", json.dumps(HOSTILE)[1:-1]).replace("gemm", "<script>alert(1)</script>"))


def large(report):
    """A report of 2,000 workers and 1,000 steps, as the operator bounds it."""
    workers = [report["workers"][0] | {"worker": f"trainer-{i}", "rank": i} for i in range(2000)]
    waits = [{"worker": f"trainer-{i}", "calls": 900, "last": i, "waitedNs": 1_000_000 * (2000 - i), "madeWaitNs": 5_000_000 * i} for i in range(2000)]
    waited = [[(row * 31 + column * 17) % 100 * 100_000 for column in range(128)] for row in range(64)]
    errors = [[None if row % 9 == 0 else 4_000_000 if row % 7 == 0 else 200_000 for _ in range(128)] for row in range(64)]
    wait_map = {"workers": [f"trainer-{i}" for i in range(64)], "steps": list(range(128)), "waitedNs": waited, "errorNs": errors,
                "workersLeftOut": 1936, "stepsLeftOut": 872}
    late = report["stragglers"]["stragglers"][0]
    others = [late | {"worker": f"trainer-{i}", "verdict": verdict, "heldUp": None, "clockErrorNs": 2_000_000}
              for i, verdict in enumerate(("NobodyWaits", "WithinClockErrors", "ClockNotMeasured", "NoCalls"))]
    stragglers = report["stragglers"] | {"workers": 2000, "steps": 999, "waits": waits, "waitMap": wait_map, "late": 31, "notDecided": others,
                                         "stragglers": [late | {"worker": "trainer-1999"}], "unknown": ["the clocks of 7 workers are not measured"]}
    steps = [{"number": i, "workers": 2000, "meanNs": 19_000_000 + i % 13 * 300_000, "mostOwnTime": "trainer-1999" if i % 3 else "trainer-5", "ownNs": 12_000_000}
             for i in range(1000)]
    missing = [{"worker": f"trainer-{2000 + i}", "why": "its sidecar is gone"} for i in range(20)]
    return report | {"run": "large", "stragglers": stragglers, "workers": workers, "steps": steps, "missing": missing, "missingWorkers": 32}
