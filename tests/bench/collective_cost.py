"""Measures what the plugin of NCCL costs the program's thread per collective, against a plugin that does nothing, in one harness."""

import json
import os
import statistics
import subprocess

from tests.bench import bars
from tests.support.processes import BIN

CALLS, ROUNDS = 100_000, 7
FAKES = BIN / "fakes/nccl"


def cost(plugin, env):
    out = subprocess.run([BIN / "nccl_harness", "--calls", str(CALLS), "--no-transfers"], check=True, capture_output=True, text=True,
                         env={**os.environ, "NCCL_PROFILER_PLUGIN": str(plugin), **env})
    return json.loads(out.stdout)["median_ns"]


def run(directory):
    agent = BIN / "libstrobe_agent.so"
    ways = {
        "no plugin": ("none", {}),
        "peer: a plugin that does nothing": (FAKES / "nccl_empty.so", {}),
        "Strobe's": (agent, {"STROBE_DIR": str(directory)}),
        "Strobe's, in front of one that does nothing": (agent, {"STROBE_DIR": str(directory), "STROBE_NCCL_CHAIN": str(FAKES / "nccl_empty.so")}),
        "Strobe's, switched off": (agent, {"STROBE_DIR": str(directory), "STROBE_DISABLE": "collectives"}),
    }
    # In turns, so that what else the machine does meets all of them.
    measured = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (plugin, env) in ways.items():
            measured[name].append(cost(plugin, env))
    median = {name: statistics.median(values) for name, values in measured.items()}
    empty = median["peer: a plugin that does nothing"]
    bars.at_most("a collective with the plugin of NCCL, less the empty one, us", (median["Strobe's"] - empty) / 1000, 0.5)
    bars.at_most("the same before another plugin, us", (median["Strobe's, in front of one that does nothing"] - empty) / 1000, 0.7)
    lines = ["### A collective with the plugin of NCCL", "",
             "Nanoseconds of the program's thread per collective in a harness that calls the plugin as NCCL does; medians.", "",
             "| | ns | more than the empty plugin |", "|---|---|---|"]
    lines += [f"| {name} | {value:.0f} | {value - empty:.0f} |" for name, value in median.items()]
    return "\n".join(lines) + "\n"
