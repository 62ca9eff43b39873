"""Measures captures of the eight processes of one PyTorch job under torchrun, against the way of `dyno gputrace` in the same job.

Both starts are those that PyTorch's profiler wrote into its own files.
"""

import gzip
import statistics
import time

from tests.bench.inproc import package
from tests.bench.protos import load
from tests.support.bare_daemon import BareDaemon, environment, window_start
from tests.support.network import own_network
from tests.support.processes import Group, wait_until
from tests.support.step_rig import host_events
from tests.support.torchrun_rig import TorchrunJob

RANKS, CAPTURES, DURATION_MS = 8, 25, 500


def is_covered(job, manifest, worker, run):
    """Whether the trace has each operator of each step that the program noted within the window, as often as PyTorch's own profiler counted."""
    begin = int(manifest["instantNs"])
    found, expected, _ = job.compare_operators(host_events(job.trace(worker, run)), begin, begin + int(manifest["durationNs"]), worker["rank"])
    return found == expected


def milliseconds(values):
    return f"{statistics.median(values):.2f} / {max(values):.2f}"


def measure(directory, site):
    ours, theirs, ours_wait, theirs_wait, covered, ended_ok, missed = [], [], [], [], 0, 0, 0
    with own_network(), Group(directory / "logs") as group:
        daemon = BareDaemon(directory)
        job = TorchrunJob(group, directory, site, RANKS, pause=0.05, env=environment(directory))
        pids = [announcement["pid"] for announcement in job.rank_announcements()]
        wait_until(lambda: set(pids) <= set(daemon.asked), 30, "all ranks to ask the daemon")
        for i in range(CAPTURES):
            run = f"r{i}"
            asked = time.time()
            manifest, _ = job.capture("--keep-original", run=run, duration=f"{DURATION_MS}ms")
            starts = [window_start(gzip.decompress(path.read_bytes())) for path in job.folder(run).glob("*.pt.trace.json.gz")]
            good = [worker for worker in manifest["workers"] if worker["outcome"] == "Ok"]
            ended_ok += len(good)
            covered += sum(is_covered(job, manifest, worker, run) for worker in good)
            if len(starts) == RANKS:
                ours.append((max(starts) - min(starts)) / 1e6)
                ours_wait.append(int(manifest["instantNs"]) / 1e9 - asked)
            asked, starts = daemon.starts(pids, run, DURATION_MS)
            if starts is None:
                missed += 1
                continue
            theirs.append((max(starts) - min(starts)) / 1e6)
            theirs_wait.append(min(starts) / 1e9 - asked)
        daemon.close()
    return ours, theirs, ours_wait, theirs_wait, covered, ended_ok, missed


def run(directory):
    load()
    ours, theirs, ours_wait, theirs_wait, covered, ended_ok, missed = measure(directory, package(directory))
    ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f} / {max(ours) / max(theirs):.2f}"
    return "\n".join([
        "### Eight PyTorch processes under torchrun, against the way of `dyno gputrace` in the same job\n",
        f"{CAPTURES} captures of {DURATION_MS} ms each way, in turns. The other way: a bare daemon that hands the same start time to each process,"
        " without warm-up, and is asked every second. Starts are those in the files of PyTorch's profiler.\n",
        "| | Strobe | bare daemon | ratio |", "|---|---|---|---|",
        f"| skew of the processes, p50 / max, ms | {milliseconds(ours)} | {milliseconds(theirs)} | {ratio} |",
        f"| request to start, p50, s | {statistics.median(ours_wait):.2f} | {statistics.median(theirs_wait):.2f} |"
        f" {statistics.median(ours_wait) / statistics.median(theirs_wait):.2f} |",
        f"| recorded at all | {len(ours)} of {CAPTURES} | {CAPTURES - missed} of {CAPTURES} | |",
        f"| ended Ok | {ended_ok} of {CAPTURES * RANKS} | | |",
        f"| of these, with every operator of the window, by the programs' own notes | {covered} | | |", ""])
