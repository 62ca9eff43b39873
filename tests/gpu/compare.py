"""Prints the report of tests/gpu/run. Does not use tests/support, because its dependencies may be missing on GPU machines."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
GENERATION = os.environ["STROBE_CUDA_GENERATION"]
ENV = {**os.environ, "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), "CUDA_INJECTION64_PATH": str(BIN / "libstrobe_agent.so"),
       "STROBE_CUPTI": os.environ.get("STROBE_CUPTI", str(ROOT / f"build/cuda/{GENERATION}/lib/libcupti.so.{GENERATION}"))}

# Runs steps of a fixed size, dominated by a matrix product, and prints the mean time of a step.
JAX_PROGRAM = """
import os, sys, time
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x) / 2 + jnp.sin(x))
x = jnp.ones((2048, 2048), jnp.bfloat16)
x = step(x).block_until_ready()
print("ready", flush=True)
mode, seconds = sys.argv[1], float(sys.argv[2])
if mode == "profile":
    jax.profiler.start_trace(sys.argv[3])
steps, began = 0, time.perf_counter()
while time.perf_counter() - began < seconds:
    x = step(x)
    steps += 1
    if steps % 50 == 0:
        x.block_until_ready()
x.block_until_ready()
took = time.perf_counter() - began
if mode == "profile":
    jax.profiler.stop_trace()
print(f"step {took / steps * 1e6:.3f} us, {steps} steps", flush=True)
"""


def protos(directory):
    """Generates xplane_pb2 with the protoc that the build uses, and imports it."""
    subprocess.run(["protoc", f"-I{ROOT}/proto", f"--python_out={directory}", f"{ROOT}/proto/tensorflow/xplane.proto"], check=True)
    # Imports it by its path, because another installed package may have the same name.
    spec = importlib.util.spec_from_file_location("xplane_pb2", directory / "tensorflow/xplane_pb2.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernels(xplane, path):
    """How often each kernel ran, by name; counts only events with kernel_details. Also returns the trace's errors and warnings."""
    space = xplane.XSpace.FromString(Path(path).read_bytes())
    found = Counter()
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU:"):
            continue
        details = {id for id, stat in plane.stat_metadata.items() if stat.name == "kernel_details"}
        for line in plane.lines:
            for event in line.events:
                if any(stat.metadata_id in details for stat in event.stats):
                    found[plane.event_metadata[event.metadata_id].name] += 1
    return found, list(space.errors) + list(space.warnings)


class Rig:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.env = {**ENV, "STROBE_DIR": str(self.directory / "strobe")}
        (self.directory / "strobe").mkdir()
        self.sidecar = subprocess.Popen([BIN / "strobe-sidecar", "--listen", "127.0.0.1:9479", "--framework", "localhost:1", "--agent-dir",
                                         self.directory / "strobe/agent", "--worker-name", "w", "--insecure-plaintext"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def capture(self, run, duration):
        command = [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", "127.0.0.1:9479", "--logdir", self.directory / "logs", "--run", run,
                   "--duration", duration, "--quiet", "--output", "json", "--attempts", "1"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def worker(self, capture):
        out, _ = capture.communicate(timeout=180)
        return json.loads(out)["workers"][0]

    def trace(self, run):
        (path,) = (self.directory / "logs/plugins/profile" / run).glob("*.xplane.pb")
        return path


def start(command, env):
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "ready"
    return process


def step_us(process):
    return float(process.stdout.read().split()[1])


def main():
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.splitlines()[0]
    print(f"# The agent on a real GPU\n{gpu}, CUDA generation {GENERATION}, {os.cpu_count()} CPU cores, {time.strftime('%Y-%m-%d', time.gmtime())}\n")
    with tempfile.TemporaryDirectory() as directory:
        xplane = protos(Path(tempfile.mkdtemp(dir=directory)))
        rig = Rig(directory)
        time.sleep(1)
        try:
            # 1. A program that counts its own launches. A program without CUDA runs beside it, so that the capture has one to record from the start.
            idle = start([BIN / "annotated_program", "1", "1"], rig.env)
            capture = rig.capture("driver", "4s")
            time.sleep(2)
            program = subprocess.Popen([BIN / "cuda_program", "200", "20", "2", "200"], env=rig.env, stdout=subprocess.PIPE, text=True)
            said = program.communicate(timeout=60)[0]
            worker = rig.worker(capture)
            idle.kill()
            found, notes = kernels(xplane, rig.trace("driver"))
            launched = int(said.split("launched ")[1].split()[0])
            print(f"## A CUDA program that ends within the capture\nlaunched {launched} kernels, Strobe saw {sum(found.values())} "
                  f"({100 * sum(found.values()) / launched:.1f} %; the agent arms shortly after CUDA starts). Outcome {worker['outcome']}. {notes or ''}\n")

            # 2. JAX: the same loop, recorded for two seconds by its own profiler and by Strobe.
            jax = [sys.executable, "-c", JAX_PROGRAM]
            plain = {key: value for key, value in ENV.items() if key != "CUDA_INJECTION64_PATH"}
            own = Path(directory) / "own"
            steps_own = int(start([*jax, "profile", "2", str(own)], plain).stdout.read().split()[3])
            (path,) = own.rglob("*.xplane.pb")
            theirs, _ = kernels(xplane, path)
            program = start([*jax, "plain", "6"], rig.env)
            worker = rig.worker(rig.capture("jax", "2s"))
            program.wait()
            ours, notes = kernels(xplane, rig.trace("jax"))
            print("## JAX, kernels per kind, for two seconds of the same loop\n| kernel | Strobe | JAX's profiler |\n|---|---|---|")
            for name in sorted(set(ours) | set(theirs), key=lambda n: -max(ours[n], theirs[n]))[:12]:
                print(f"| `{name[:60]}` | {ours[name]} | {theirs[name]} |")
            print(f"\nOutcome {worker['outcome']} {worker.get('message', '')} {notes or ''}; JAX's own trace had {steps_own} steps. The kinds are the same: "
                  f"{'yes' if set(ours) == set(theirs) else 'NO: ' + ', '.join(sorted(set(ours) ^ set(theirs)))[:300]}\n")

            # 3. The overhead of recording.
            costs = {"alone": [], "agent loaded, nobody records": [], "Strobe records": [], "JAX's profiler records": []}
            for turn in range(5):
                costs["alone"].append(step_us(start([*jax, "plain", "3"], plain)))
                costs["agent loaded, nobody records"].append(step_us(start([*jax, "plain", "3"], rig.env)))
                program = start([*jax, "plain", "3"], rig.env)
                capture = rig.capture(f"cost{turn}", "4s")
                costs["Strobe records"].append(step_us(program))
                rig.worker(capture)
                costs["JAX's profiler records"].append(step_us(start([*jax, "profile", "3", str(Path(directory) / f"cost{turn}")], plain)))
            base = statistics.median(costs["alone"])
            print("## Time of a step, medians of five\n| | microseconds | overhead |\n|---|---|---|")
            for name, values in costs.items():
                print(f"| {name} | {statistics.median(values):.1f} | {100 * (statistics.median(values) / base - 1):+.1f} % |")
        finally:
            rig.sidecar.terminate()
            rig.sidecar.wait(30)


if __name__ == "__main__":
    main()
