"""Measures what recording a million kernels per second costs the launching thread and the agent's own, by mode, on the fake driver and CUPTI."""

import json
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from tests.bench import bars
from tests.support.ports import free_port
from tests.support.processes import BIN

STEPS_PER_SECOND, KERNELS_PER_STEP, SECONDS, ROUNDS = 1000, 1000, 3.0, 5
BARS = {"Launches": 5, "Kernels": 2}  # Percent of a core, of all threads of the agent together; Kernels is the cheapest mode.


def start(directory, tool=None, steps=int(STEPS_PER_SECOND * SECONDS), per_second=STEPS_PER_SECOND, kernels=KERNELS_PER_STEP, mode="Launches"):
    env = {**os.environ, "EMPTY_CLIENT": mode, "LD_LIBRARY_PATH": f"{BIN}/fakes:{BIN}/fakes/12", "FAKE_CUDA_KERNEL_NS": "400", "STROBE_DIR": str(directory)}
    if tool is not None:
        env["CUDA_INJECTION64_PATH"] = str(tool)
    return subprocess.Popen([BIN / "cuda_program", str(per_second), str(kernels), "1", str(steps)], env=env, stdout=subprocess.PIPE, text=True)


def other_threads(process, times):
    """Updates `times` with the processor seconds of the process's threads, by thread name, until the process ends. By schedstat, which counts
    nanoseconds; stat's ticks are as long as what is measured."""
    while process.poll() is None:
        for task in (os.listdir(f"/proc/{process.pid}/task") if os.path.isdir(f"/proc/{process.pid}") else []):
            folder = Path("/proc", str(process.pid), "task", task)
            try:
                times[(folder / "comm").read_text().strip()] = int((folder / "schedstat").read_text().split()[0]) / 1e9
            except (OSError, IndexError):
                continue
        time.sleep(0.02)


def measure(process):
    times = {}
    other_threads(process, times)
    launched, took, seconds = re.search(r"launched (\d+) in ([\d.]+) s, ([\d.]+) s", process.stdout.read()).groups()
    return int(launched), float(took), float(seconds), times.get("cupti-worker", 0), times.get("strobe-device", 0)


def capture(directory, port, run, mode):
    """Records a program from its start; what it took, events of the trace and records that are counted as missing."""
    recording = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{port}", "--logdir", directory / "logs",
                                  "--duration", f"{SECONDS + 3}s", "--run", run, "--quiet", "--output", "json", "--attempts", "1",
                                  "--device-tracer-level", mode], stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    measured = measure(start(directory, BIN / "libstrobe_agent.so"))
    report = json.loads(recording.communicate(timeout=120)[0])["workers"][0]
    missing = re.search(r"(\d+) of \d+ records are missing", report.get("message", ""))
    return measured, (report["events"], int(missing.group(1)) if missing else 0)


def run(directory):
    off, delivered = [], {}
    armed, empty = {mode: [] for mode in BARS}, {mode: [] for mode in BARS}
    port = free_port()
    sidecar = subprocess.Popen([BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", "localhost:1", "--agent-dir", directory / "agent",
                                "--worker-name", "w", "--insecure-plaintext"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    idle = start(directory, BIN / "libstrobe_agent.so", steps=10**9, per_second=1, kernels=1)  # Gives each capture a program to record from its start.
    try:
        for round in range(ROUNDS):
            off.append(measure(start(directory)))
            for mode in BARS:
                empty[mode].append(measure(start(directory, BIN / "empty_client.so", mode=mode)))
                measured, delivered[mode] = capture(directory, port, f"r{round}-{mode}", mode)
                armed[mode].append(measured)
    finally:
        idle.kill()
        sidecar.terminate()
        sidecar.wait(10)

    def core(rows, *indices):
        return statistics.median(100 * sum(row[index] for index in indices) / row[1] for row in rows)

    lines = []
    for mode, bar in BARS.items():
        rows, client = armed[mode], empty[mode]
        launching, own = core(rows, 2) - core(client, 2), core(rows, 3, 4) - core(client, 3)
        bars.at_most(f"percent of a core, launching thread, {mode}", launching, 5)
        bars.at_most(f"percent of a core, the agent's threads, {mode}", own, bar)
        rate = statistics.median(launched / took for launched, took, *_ in rows)
        events, missing = delivered[mode]
        lines.append(f"| empty client, {mode} | {core(client, 2):.1f} | | | | |")
        lines.append(f"| {mode} | {core(rows, 2):.1f} | {launching:.1f} | {own:.1f} (bar {bar}) | {rate / 1e6:.2f} M | {events}, {missing} missing |")
    return "\n".join([
        f"### A million kernels a second\n"
        f"One thread launches {KERNELS_PER_STEP} kernels each millisecond on the fake driver; {ROUNDS} rounds each way, in turns; percent of one\n"
        f"core, medians. The empty client gives CUPTI buffers and takes them back unread: what CUPTI, here the fake, costs by itself; the\n"
        f"agent's share is what goes beyond that.\n",
        "| | launching thread | the agent's share of it | the agent's and CUPTI's threads, its share | kernels a second | last round's events |",
        "|---|---|---|---|---|---|",
        f"| nobody records | {core(off, 2):.1f} | | | | |", *lines, ""])
