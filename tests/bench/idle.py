"""Measures memory and CPU time of a sidecar: idle, in comparison with a bare gRPC server in the same run, and while it is armed and records."""

import time

from tests.bench import bars
from tests.support.agent_rig import AgentRig
from tests.support.processes import BIN, Group, cpu_seconds, memory
from tests.support.workers import Worker

SECONDS = 30
SLICE = 16  # Seconds that are measured while it is armed, and again while it records; each takes 20 s.


def cpu_over(pid, seconds):
    """Percent of one core."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began) * 100


def busy(group, directory):
    """Rows for a sidecar beside an annotated program of 200 steps a second, and beside a JAX program with a profiler server, which records by itself."""
    trainer = Worker(group, "trainer").start_trainer().wait()
    rows = []
    for name, framework in (("beside an annotated program, 1,200 scopes a second", "localhost:1"), ("beside JAX's profiler server", f"localhost:{trainer.profiler_port}")):
        home = directory / name.split()[-1]
        home.mkdir()
        rig = AgentRig(group, home)
        if framework == "localhost:1":
            rig.program("1", "200")
        sidecar = rig.sidecar(framework).process
        time.sleep(2)
        begun = time.monotonic()
        capture = rig.begin_capture("--delay", "22s", duration="20s")
        time.sleep(2)
        armed = cpu_over(sidecar.pid, SLICE)
        time.sleep(max(0, begun + 24 - time.monotonic()))
        recording = cpu_over(sidecar.pid, SLICE)
        assert capture.wait(60) == 0, capture.stdout.read()
        bars.at_most(f"percent of a core, armed, {name}", armed, 0.5)
        bars.at_most(f"percent of a core, recording, {name}", recording, 0.5)
        rows.append(f"| {name} | {armed:.2f} | {recording:.2f} |")
    return rows


def run(directory):
    with Group(directory / "logs") as group:
        worker = Worker(group, "idle", sidecar_flags=["--spool-dir", directory / "spool"]).start_sidecar().wait()
        bare = group.start("bare", [BIN / "bare_grpc_server"])
        bare.wait_for("serves", 10)
        time.sleep(2)
        rows = []
        for name, pid in (("strobe-sidecar", worker.sidecar.pid), ("bare gRPC server", bare.pid)):
            rows.append([name, pid, cpu_seconds(pid)])
        time.sleep(SECONDS)
        lines = ["### An idle sidecar", "", f"After start, over {SECONDS} s; MiB and percent of one core.", "",
                 "| | RssAnon | RSS | CPU |", "|---|---|---|---|"]
        for name, pid, before in rows:
            lines.append(f"| {name} | {memory(pid, 'RssAnon'):.1f} | {memory(pid, 'VmRSS'):.1f} | {(cpu_seconds(pid) - before) / SECONDS * 100:.2f} |")
        bars.at_most("RssAnon, MiB", memory(worker.sidecar.pid, "RssAnon"), 8)
        bars.at_most("RSS, MiB", memory(worker.sidecar.pid, "VmRSS"), 32)
        lines.append("| bar | 8 | 32 | 0.1 |")
        lines += ["", f"Percent of one core that a sidecar takes besides the framework, over {SLICE} s (bar 0.5):", "",
                  "| | armed, waiting | recording |", "|---|---|---|", *busy(group, directory)]
    return "\n".join(lines) + "\n"
