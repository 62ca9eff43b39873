"""Measures the cost of an annotation in nanoseconds, while it is recorded and while it is not."""

import json
import os
import subprocess
import sys

from tests.bench import bars
from tests.support.processes import BIN, BUILD, PYTHON, ROOT

PYTHON_PROGRAM = """
import glob, json, mmap, os, statistics, struct, tempfile, threading, time
import jax, strobe

def cost(body, scopes=200_000, rounds=7):
    taken = []
    for _ in range(rounds):
        began = time.perf_counter_ns()
        body(scopes)
        taken.append((time.perf_counter_ns() - began) / scopes)
    return statistics.median(taken)

def empty(n):
    for i in range(n): pass
def ours(n):
    T = strobe.Trace
    for i in range(n):
        with T("step"): pass
def ours_step(n):
    T = strobe.Trace
    for i in range(n):
        with T("step", step_num=i): pass
def ours_prepared(n):
    step = strobe.scope("step")
    for i in range(n):
        with step: pass
def jax_scope(n):
    T = jax.profiler.TraceAnnotation
    for i in range(n):
        with T("step"): pass
def jax_step(n):
    T = jax.profiler.StepTraceAnnotation
    for i in range(n):
        with T("step", step_num=i): pass

def floor(n):
    lock = threading.Lock()
    for i in range(n):
        with lock: pass

bodies = (ours, ours_prepared, ours_step, jax_scope, jax_step, floor)
loop = cost(empty)
result = {"off": {b.__name__: cost(b) - loop for b in bodies}}
for path in glob.glob(os.environ["STROBE_DIR"] + "/agent/*.rings"):
    with open(path, "r+b") as file:  # The control word; see agent/wire/README.md.
        mmap.mmap(file.fileno(), 4096)[256:260] = struct.pack("I", 3)
assert strobe.active()
result["on"] = {b.__name__: cost(b) - loop for b in (ours, ours_prepared, ours_step)}
options = jax.profiler.ProfileOptions()
options.python_tracer_level = 0  # It would slow every call down, ours as well.
with tempfile.TemporaryDirectory() as logdir:
    jax.profiler.start_trace(logdir, profiler_options=options)
    result["on"].update({b.__name__: cost(b, 20_000) - loop for b in (jax_scope, jax_step)})
    jax.profiler.stop_trace()
print(json.dumps(result))
"""


def run(directory):
    env = {**os.environ, "STROBE_DIR": str(directory)}
    cpp = json.loads(subprocess.run([BIN / "annotation_cost"], env={**env, "STROBE_AGENT": str(BIN / "libstrobe_agent.so")}, check=True,
                                    capture_output=True, text=True).stdout)
    subprocess.run([ROOT / "tools/wheel"], check=True)
    site = directory / "site"
    (wheel,) = (BUILD / "wheels").glob("*.whl")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", site, wheel], check=True)
    for rings in (directory / "agent").glob("*.rings"):
        rings.unlink()
    out = subprocess.run([PYTHON, "-c", PYTHON_PROGRAM], env={**env, "PYTHONPATH": str(site)}, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr[-2000:])
    python = json.loads(out.stdout.splitlines()[-1])
    subprocess.run([ROOT / "tests/peers/build"], check=True)
    tracy = {mode: json.loads(subprocess.run([BUILD / f"peers/tracy_cost_{mode}"], check=True, capture_output=True, text=True).stdout) for mode in ("off", "on")}
    bars.at_most("TraceMe, nobody records, ns", max(cpp["off"], 0), 1.5)
    bars.at_most("TraceMe, recorded, less two time stamps, ns", cpp["on"] - 2 * cpp["one_time_stamp"], 3)
    bars.at_most("strobe.scope, nobody records, ns", python["off"]["ours_prepared"], 60)
    bars.at_most("strobe.Trace to jax's, nobody records", python["off"]["ours"] / python["off"]["jax_scope"], 0.5)
    bars.at_most("strobe.Trace to jax's, recorded", python["on"]["ours"] / python["on"]["jax_scope"], 0.5)
    lines = ["### An annotation", "", "Nanoseconds per scope, medians; the empty loop is taken off. One time stamp costs "
             f"{cpp['one_time_stamp']:.1f} ns on this machine.", "",
             "| C++ | nobody records | bar | somebody records | bar |", "|---|---|---|---|---|",
             f"| `TraceMe(\"step\")` | {max(cpp['off'], 0):.2f} | 1.5 | {cpp['on']:.1f} | 20 |",
             f"| with two int metadata | {cpp['off_two_ints']:.2f} | | {cpp['on_two_ints']:.1f} | 60 |",
             f"| peer: Tracy's `ZoneScopedN` (tracy-client-sys 0.30.1) | {tracy['off']['zone']:.2f} | | {tracy['on']['zone']:.1f} | |",
             f"| with two `ZoneValue`s | {tracy['off']['zone_two_values']:.2f} | | {tracy['on']['zone_two_values']:.1f} | |",
             f"| peer: a queue behind a mutex | | | {cpp['mutex_queue']:.1f} | |", "",
             "| Python | nobody records | bar | somebody records | bar |", "|---|---|---|---|---|",
             f"| `strobe.Trace(\"step\")` | {python['off']['ours']:.0f} | 80 | {python['on']['ours']:.0f} | 250 |",
             f"| `with` over `strobe.scope(\"step\")`, made once | {python['off']['ours_prepared']:.0f} | 60 | {python['on']['ours_prepared']:.0f} | |",
             f"| peer: `jax.profiler.TraceAnnotation` | {python['off']['jax_scope']:.0f} | | {python['on']['jax_scope']:.0f} | |",
             f"| `strobe.Trace(\"step\", step_num=i)` | {python['off']['ours_step']:.0f} | | {python['on']['ours_step']:.0f} | |",
             f"| peer: `jax.profiler.StepTraceAnnotation` | {python['off']['jax_step']:.0f} | | {python['on']['jax_step']:.0f} | |",
             f"| floor: `with lock:`, a built-in object that is there already | {python['off']['floor']:.0f} | | | |"]
    return "\n".join(lines) + "\n"
