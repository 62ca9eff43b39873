"""Tests that take too long to run on every commit. Run them by hand after `make everything setup`:

    build/venv/bin/python -m tests.soak.run storm [--captures 500] [--seed N]   captures under random faults
    build/venv/bin/python -m tests.soak.run good [--captures 200]               captures of JAX that must all succeed
    build/venv/bin/python -m tests.soak.run soak [--minutes 30]                 captures in a loop: does anything grow?
    build/venv/bin/python -m tests.soak.run upgrade --older COMMIT [--rollback] that commit's operator, CRDs and chart are replaced by these, and back

Exits with 0 if all checks passed, and prints those that failed.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.soak import upgrade
from tests.soak.noting import NotingWorker, held_against_notes
from tests.soak.storm import Storm
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import Group, memory, status_of
from tests.support.protos import generate
from tests.support.workers import start_workers


def make_plane(group, directory):
    plane = ControlPlane(group, directory / "plane").start()
    admin = Kubectl(plane.kubeconfig)
    admin.install_crds()
    admin.run("create", "namespace", "soak")
    return plane, Kubectl(plane.kubeconfig, "soak")


def generate_protos(directory):
    protos = directory / "protos"
    protos.mkdir()
    return generate(protos)


def storm(group, directory, options):
    print("seed", options.seed, flush=True)
    plane, kubectl = make_plane(group, directory)
    raging = Storm(group, plane, kubectl, generate_protos(directory), directory, options.seed)
    try:
        raging.run(options.captures)
        wrong, ends = raging.verdict()
    finally:
        raging.stop()
    print("faults", raging.faults, "\nends", ends, "\nnoted steps that were looked for", raging.steps)
    return wrong


def one_capture(kubectl, name, logdir, duration="50ms"):
    kubectl.apply(profile_request(name, logdir, run=name, attempts=1, duration=duration, start={"guard": "200ms"}))
    return wait_finished(kubectl, name)


def good(group, directory, options):
    """Captures workers with both sources, JAX's own profiler and the agent. All must succeed, and the traces must contain all noted steps."""
    plane, kubectl = make_plane(group, directory)
    generate_protos(directory)
    workers = [NotingWorker(group, i, directory).start_trainer().start_sidecar() for i in range(2)]
    for worker in workers:
        worker.wait().register(kubectl)
    Operator(group, plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    wrong, began, steps = [], time.monotonic(), 0
    for i in range(options.captures):
        ended = one_capture(kubectl, f"good-{i}", directory / "logdir", duration="250ms")
        end = condition(ended, "Succeeded")
        if end["reason"] != "AllWorkersOk":
            wrong.append(f"capture {i}: {end['reason']}: {end['message']}")
        lost, wanted = held_against_notes(directory / "logdir/plugins/profile" / f"good-{i}", workers)
        wrong += [f"capture {i}: {line}" for line in lost]
        steps += wanted
    for worker in workers:
        worker.unmount()
    print(f"{options.captures} captures in {time.monotonic() - began:.0f} s, {len(wrong)} not good; {steps} noted steps looked for")
    return wrong + ([] if steps else ["nothing was noted"])


def footprint(pid):
    """Resident MiB, descriptors, threads."""
    return memory(pid, "VmRSS"), len(os.listdir(f"/proc/{pid}/fd")), int(status_of(pid)["Threads"])


def soak(group, directory, options):
    plane, kubectl = make_plane(group, directory)
    workers = start_workers(group, 2)
    for worker in workers:
        worker.register(kubectl)
    operator = Operator(group, plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
    watched = {"operator": operator.process, "sidecar": workers[0].sidecar}
    samples, wrong, captures = {name: [] for name in watched}, [], 0
    end = time.monotonic() + options.minutes * 60
    sampled = 0
    while time.monotonic() < end:
        name = f"soak-{captures}"
        ended = one_capture(kubectl, name, directory / "logdir")
        if condition(ended, "Succeeded")["reason"] != "AllWorkersOk":
            wrong.append(f"{name}: {[(o['cause'], o['message']) for o in ended['status']['outcomes']]}")
        kubectl.run("delete", "profilerequest", name)
        captures += 1
        if time.monotonic() - sampled > options.minutes * 60 / 30:
            sampled = time.monotonic()
            for who, process in watched.items():
                samples[who].append(footprint(process.pid))
            print(captures, {who: f"{s[-1][0]:.1f} MiB, {s[-1][1]} fds, {s[-1][2]} threads" for who, s in samples.items()}, flush=True)
    for who, series in samples.items():
        third = len(series) // 3
        # Ignores the first third as warm-up, and compares the last third with the second.
        before, after = series[third:2 * third], series[2 * third:]
        for index, (what, slack) in enumerate((("MiB resident", 2.0), ("descriptors", 2), ("threads", 2))):
            growth = statistics.median(s[index] for s in after) - statistics.median(s[index] for s in before)
            print(f"{who}: {what} grew by {growth:.1f} in the last third")
            if growth > slack:
                wrong.append(f"{who} grows: {growth:.1f} {what}")
    print(captures, "captures")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["storm", "good", "soak", "upgrade"])
    parser.add_argument("--captures", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--rollback", action="store_true")
    parser.add_argument("--older", default="HEAD~100", help="the commit that upgrade begins with")
    options = parser.parse_args()
    options.captures = options.captures or {"storm": 500, "good": 200}.get(options.what, 0)
    with tempfile.TemporaryDirectory(prefix="strobe-soak-") as directory, Group(Path(directory) / "logs") as group:
        wrong = {"storm": storm, "good": good, "soak": soak, "upgrade": upgrade.run}[options.what](group, Path(directory), options)
    print("\n".join(wrong) or "all held")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
