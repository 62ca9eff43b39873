"""Measures what recording a million kernels per second costs the launching thread, on the fake driver and CUPTI."""

import json
import os
import re
import statistics
import subprocess
import time

from tests.bench import bars
from tests.support.ports import free_port
from tests.support.processes import BIN

STEPS_PER_SECOND, KERNELS_PER_STEP, SECONDS, ROUNDS = 1000, 1000, 1.0, 5


def start(directory, tool=None, steps=int(STEPS_PER_SECOND * SECONDS), per_second=STEPS_PER_SECOND, kernels=KERNELS_PER_STEP):
    env = {**os.environ, "LD_LIBRARY_PATH": f"{BIN}/fakes:{BIN}/fakes/12", "FAKE_CUDA_KERNEL_NS": "400", "STROBE_DIR": str(directory)}
    if tool is not None:
        env["CUDA_INJECTION64_PATH"] = str(tool)
    return subprocess.Popen([BIN / "cuda_program", str(per_second), str(kernels), "1", str(steps)], env=env, stdout=subprocess.PIPE, text=True)


def other_threads(process, times):
    """Updates `times` with the processor seconds of the process's threads, by thread name, until the process ends."""
    tick = os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        for task in (os.listdir(f"/proc/{process.pid}/task") if os.path.isdir(f"/proc/{process.pid}") else []):
            try:
                with open(f"/proc/{process.pid}/task/{task}/stat") as file:
                    name, rest = re.match(r"\d+ \((.*)\) (.*)", file.read()).groups()
            except OSError:
                continue
            fields = rest.split()
            times[name] = (int(fields[11]) + int(fields[12])) / tick
        time.sleep(0.02)


def measure(process):
    times = {}
    other_threads(process, times)
    launched, took, seconds = re.search(r"launched (\d+) in ([\d.]+) s, ([\d.]+) s", process.stdout.read()).groups()
    return int(launched), float(took), float(seconds), times.get("cupti-worker", 0)


def run(directory):
    off, empty, armed, delivered = [], [], [], []
    port = free_port()
    sidecar = subprocess.Popen([BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", "localhost:1", "--agent-dir", directory / "agent",
                                "--worker-name", "w", "--insecure-plaintext"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    idle = start(directory, BIN / "libstrobe_agent.so", steps=10**9, per_second=1, kernels=1)  # Gives each capture a program to record from its start.
    rates = []
    try:
        for round in range(ROUNDS):
            off.append(measure(start(directory)))
            empty.append(measure(start(directory, BIN / "empty_client.so")))
            capture = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{port}", "--logdir", directory / "logs",
                                        "--duration", f"{SECONDS + 3}s", "--run", f"r{round}", "--quiet", "--output", "json", "--attempts", "1"],
                                       stdout=subprocess.PIPE, text=True)
            time.sleep(2)
            armed.append(measure(start(directory, BIN / "libstrobe_agent.so")))
            report = json.loads(capture.communicate(timeout=120)[0])["workers"][0]
            missing = re.search(r"(\d+) of \d+ records are missing", report.get("message", ""))
            delivered.append((report["events"], int(missing.group(1)) if missing else 0))
    finally:
        idle.kill()
        sidecar.terminate()
        sidecar.wait(10)
    rates = [launched / took for launched, took, *_ in armed]

    def core(rows, index=2):
        return statistics.median(100 * row[index] / row[1] for row in rows)

    events, missing = delivered[-1]
    bars.at_most("percent of a core, launching thread", core(armed) - core(empty), 5)
    bars.at_most("percent of a core, CUPTI's thread", core(armed, 3) - core(empty, 3), 5)
    return "\n".join([
        f"### A million kernels a second\n"
        f"One thread launches {KERNELS_PER_STEP} kernels each millisecond on the fake driver; {ROUNDS} rounds each way, in turns; percent of one\n"
        f"core, medians. The empty client gives CUPTI buffers and takes them back unread: what CUPTI, here the fake, costs by itself.\n",
        "| | launching thread | CUPTI's own thread |", "|---|---|---|",
        f"| nobody records | {core(off):.1f} | |",
        f"| empty client | {core(empty):.1f} | {core(empty, 3):.1f} |",
        f"| armed | {core(armed):.1f} | {core(armed, 3):.1f} |",
        f"| the agent's share (bar 5) | {core(armed) - core(empty):.1f} | {core(armed, 3) - core(empty, 3):.1f} |", "",
        f"Kernels per second: {statistics.median(rates) / 1e6:.2f} M. Last round: {events} events in the trace, {missing} records counted as missing.", ""])
