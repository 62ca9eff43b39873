"""What a sidecar costs while nothing happens, against a bare gRPC server in the same run."""

import os
import time

from tests.support.processes import BIN, Group
from tests.support.workers import Worker

SECONDS = 30


def memory(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
    return {key: int(status[key].split()[0]) / 1024 for key in ("RssAnon", "VmRSS")}


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
            used = memory(pid)
            lines.append(f"| {name} | {used['RssAnon']:.1f} | {used['VmRSS']:.1f} | {(cpu_seconds(pid) - before) / SECONDS * 100:.2f} |")
        lines.append("| bar | 8 | 32 | 0.1 |")
    return "\n".join(lines) + "\n"
