"""Measures memory and CPU time of an idle sidecar, in comparison with a bare gRPC server in the same run."""

import time

from tests.support.processes import BIN, Group, cpu_seconds, memory
from tests.support.workers import Worker

SECONDS = 30


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
        lines.append("| bar | 8 | 32 | 0.1 |")
    return "\n".join(lines) + "\n"
