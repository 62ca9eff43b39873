"""Measures how far apart the workers of one job start. All of them run on one machine and share its clock."""

import json
import math
import os
import statistics
import subprocess
import time

from tests.bench import bars
from tests.bench.protos import load
from tests.support.processes import BIN, PYTHON, Group, memory
from tests.support.workers import Worker, start_workers

DURATION = "200ms"
CROWD_PAUSE_MS = 100  # Every window has a step, and 64 workers leave most of two cores idle.


def capture(workers, logdir, run, *flags):
    addresses = ",".join(w.address for w in workers)
    result = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--quiet", "--output", "json", "--workers", addresses,
                             "--logdir", logdir, "--duration", DURATION, "--run", run, "--attempts", "1", *flags],
                            capture_output=True, text=True, timeout=120)
    return json.loads(result.stdout)


def raw_skew_us(manifest):
    """The skew of the starts in the manifest, without corrections by clock offsets: the workers share a clock."""
    starts = [int(w["startedNs"]) for w in manifest["workers"]]
    return (max(starts) - min(starts)) / 1000 if min(starts) else float("nan")


class Floor:
    """The baseline: a bare gRPC client that only sends the same start time to each server."""

    def __init__(self, workers):
        grpc, self.pb, self.xplane = load()
        self.calls = []
        for worker in workers:
            channel = grpc.insecure_channel(f"localhost:{worker.profiler_port}", options=[("grpc.max_receive_message_length", -1)])
            self.calls.append(channel.unary_unary("/tensorflow.ProfilerService/Profile",
                                                  request_serializer=self.pb.ProfileRequest.SerializeToString,
                                                  response_deserializer=self.pb.ProfileResponse.FromString))

    def starts(self, lead_s, duration_ms=210):
        instant = time.time_ns() + int(lead_s * 1e9)
        futures = []
        for i, call in enumerate(self.calls):
            request = self.pb.ProfileRequest(session_id=f"floor-{instant}-{i}", emit_xspace=True)
            request.opts.version = 1
            request.opts.host_tracer_level = 2
            request.opts.device_tracer_level = 1
            request.opts.start_timestamp_ns = instant
            request.opts.duration_ms = duration_ms
            request.opts.raise_error_on_start_failure = True
            futures.append(call.future(request, timeout=60))
        return [self.profile_start(future.result().xspace) for future in futures], instant

    def profile_start(self, data):
        space = self.xplane.XSpace.FromString(data)
        plane = next(p for p in space.planes if p.name == "Task Environment")
        names = {m.id: m.name for m in plane.stat_metadata.values()}
        return next(s.uint64_value for s in plane.stats if names[s.metadata_id] == "profile_start_time")


def stats(values):
    return statistics.median(values), max(values)


def in_turns(workers, logdir, label, captures, lead_s, bar):
    """Captures with ours and with the bare client, in turns, and tells the bars. Returns the row of the table."""
    floor = Floor(workers)
    ours, bare, covered, guards = [], [], 0, set()
    for i in range(captures):
        manifest = capture(workers, logdir, f"r{i}")
        skew = raw_skew_us(manifest)
        if math.isfinite(skew):  # Otherwise a worker recorded nothing, and its window is not covered.
            ours.append(skew)
        covered += all(w["coversWindow"] for w in manifest["workers"])
        guards.add(round(int(manifest["guardNs"]) / 1e6))
        starts, _ = floor.starts(lead_s)
        bare.append((max(starts) - min(starts)) / 1000)
    (o50, omax), (b50, bmax) = stats(ours), stats(bare)
    bars.at_most(f"skew of {label}, p50, to the bare client's", o50 / b50, bar)
    bars.at_least(f"windows covered, {label}", covered, captures)
    return (f"| {label} | {o50:.0f} / {omax:.0f} | {b50:.0f} / {bmax:.0f} | {o50 / b50:.2f} / {omax / bmax:.2f} | "
            f"{covered} of {captures} | {min(guards)}-{max(guards)} ms |")


def table(title, captures, bar, rows):
    return "\n".join([f"### {title}", "", f"{captures} captures of {DURATION} each way, in turns; microseconds, from the traces' own start times.", "",
                      f"| load | ours p50 / max | bare client p50 / max | ratio p50 / max (bar {bar}) | windows covered | guard |",
                      "|---|---|---|---|---|---|", *rows, ""])


def against_the_floor(directory, captures=20):
    rows, bar = [], 1.3
    for label, pause in (("8 light loops (20 ms pause per step)", 20), ("8 busy loops", 0)):
        with Group(directory / f"logs-{pause}") as group:
            workers = start_workers(group, 8, pause_ms=pause)
            rows.append(in_turns(workers, directory / f"logdir-{pause}", label, captures, 0.6, bar))
    return table("Skew of eight JAX workers against a bare client in the same run", captures, bar, rows)


def of_a_crowd(directory, captures=20):
    """The skew of as many light workers as the machine has room for: STROBE_CROWD, 64 unless it says otherwise."""
    count, bar = int(os.environ.get("STROBE_CROWD", "64")), 1.2
    label = f"{count} light loops ({CROWD_PAUSE_MS} ms pause per step)"
    with Group(directory / "logs") as group:
        workers = []
        while len(workers) < count:  # A few at a time, because a program that imports JAX needs more memory than one that trains.
            workers += start_workers(group, min(8, count - len(workers)), f"worker-{len(workers)}", pause_ms=CROWD_PAUSE_MS)
        print(f"  {count} trainers of {statistics.median(memory(w.trainer.pid, 'VmRSS') for w in workers):.0f} MiB, with what they share", flush=True)
        time.sleep(5)
        row = in_turns(workers, directory / "logdir", label, captures, 2, bar)
    return table(f"Skew of {count} light JAX workers on one machine", captures, bar, [row])


_STOCK = """
import sys, tensorflow as tf
addresses, logdir = sys.argv[1:]
options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, delay_ms=1000)
print("ready", flush=True)
for line in sys.stdin:
    tf.profiler.experimental.client.trace(addresses, logdir + "/" + line.strip(), 200, options=options)
    print("done", flush=True)
"""


def against_stock_client(directory, captures=10):
    """Compares with tf.profiler.experimental.client.trace on the same two workers."""
    _, _, xplane = load()
    with Group(directory / "logs") as group:
        workers = start_workers(group, 2)
        floor = Floor(workers)
        addresses = ",".join(f"grpc://localhost:{w.profiler_port}" for w in workers)
        stock = subprocess.Popen([PYTHON, "-c", _STOCK, addresses, directory / "stock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        assert stock.stdout.readline() == "ready\n"
        ours, theirs, early = [], [], 0
        for i in range(captures):
            ours.append(raw_skew_us(capture(workers, directory / "logdir", f"r{i}")))
            began = time.time_ns()
            stock.stdin.write(f"r{i}\n")
            stock.stdin.flush()
            while stock.stdout.readline() not in ("done\n", ""):
                pass
            starts = [floor.profile_start(path.read_bytes()) for path in (directory / "stock" / f"r{i}").rglob("*.xplane.pb")]
            if len(starts) == 2:
                theirs.append((max(starts) - min(starts)) / 1000)
                early += min(starts) - began < 900_000_000
        stock.stdin.close()
        stock.wait()
    (o50, omax), (t50, tmax) = stats(ours), stats(theirs)
    bars.at_least("skew of client.trace, p50, to ours", t50 / o50, 5)
    bars.at_least("skew of client.trace, largest, to ours", tmax / omax, 5)
    return "\n".join(["### Skew of two JAX workers against tf.profiler.experimental.client.trace", "",
                      f"{captures} captures each way, in turns, both asked for a delay; microseconds.", "",
                      "| | p50 / max | delay honoured |", "|---|---|---|",
                      f"| strobe capture | {o50:.0f} / {omax:.0f} | {captures} of {captures} |",
                      f"| client.trace (TensorFlow 2.21) | {t50:.0f} / {tmax:.0f} | {len(theirs) - early} of {len(theirs)} |",
                      f"| ratio (bar 5 x) | {t50 / o50:.1f} x / {tmax / omax:.1f} x | |", ""])


def with_a_shifted_clock(directory, captures=20):
    """Compares two workers with correct clocks to two of which one has a wall clock that is 11.56 s ahead."""
    shift_ns = 11_560_000_000
    rows = []
    for label, environment in (("both clocks right", {}),
                               ("one clock +11.56 s", {"LD_PRELOAD": str(BIN / "clock_shift.so"), "CLOCK_SHIFT_NS": str(shift_ns)})):
        with Group(directory / f"logs-{len(rows)}") as group:
            first = Worker(group, "right", 0).start_trainer().start_sidecar()
            second = Worker(group, "other", 1, trainer_env=environment, sidecar_env=environment).start_trainer().start_sidecar()
            workers = [first.wait(), second.wait()]
            skews, offsets, covered = [], [], 0
            for i in range(captures):
                manifest = capture(workers, directory / f"logdir-{len(rows)}", f"r{i}")
                right, other = manifest["workers"]
                true_shift = shift_ns if environment else 0
                skews.append(abs(int(other["startedNs"]) - true_shift - int(right["startedNs"])) / 1000)
                offsets.append(abs(int(other["clockOffsetNs"]) - true_shift) / 1000)
                covered += all(w["coversWindow"] for w in manifest["workers"])
                error = int(other["clockErrorNs"]) / 1000
            rows.append((label, *stats(skews), *stats(offsets), error, covered))
    lines = ["### A worker whose clock is wrong", "", f"{captures} captures of two workers each; microseconds. The true offset is known, because the test sets it.", "",
             "| | skew p50 / max | measured offset off by p50 / max | claimed error (last) | windows covered |", "|---|---|---|---|---|"]
    lines += [f"| {label} | {s50:.0f} / {smax:.0f} | {f50:.1f} / {fmax:.1f} | +-{error:.1f} | {covered} of {captures} |"
              for label, s50, smax, f50, fmax, error, covered in rows]
    return "\n".join(lines) + "\n"


