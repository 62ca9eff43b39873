"""Measures what a JAX program pays for Strobe while nobody captures: time of its steps, processor time, wake-ups and memory.

The same program runs without Strobe, a second time without (which shows the noise), beside a sidecar with a flight recorder, and beside one that also
looks for signs because a trigger asks for them. All of them are there for the whole time, and train in turns of a second. STROBE_CYCLES says how often.
"""

import json
import os
import random
import socket
import statistics
import time
from pathlib import Path

from tests.bench import bars, chart_operator, protos
from tests.bench.inproc import interval, package
from tests.support.beside import Pod
from tests.support.processes import BIN, PYTHON, ROOT, Group, context_switches, cpu_seconds
from tests.support.secure import SecureSidecar
from tests.support.sign_rig import create_trigger, runs_of, sign_trigger

PERIOD = 0.1
STEPS = 11  # A turn has so many; the first one is not counted.
CYCLES = int(os.environ.get("STROBE_CYCLES", "20"))
MEMORY_ROUNDS = 4
FILLS_A_RING = 15_000  # Steps.
LOOK_BACK = ("--flight-recorder", "30s")
KINDS = {"strobe": "`strobe.Trace`", "jax": "`StepTraceAnnotation` of JAX"}
CONDITIONS = {"without": "without Strobe", "again": "without Strobe, again: the noise", "recorder": "agent, sidecar, flight recorder",
              "signs": "the same, and a trigger that asks for signs"}


class Program:
    """A program that trains when it is asked to."""

    def __init__(self, group, directory, name, kind, package=None):
        """With the `package` it has Strobe, and its STROBE_DIR is in the directory."""
        self.name = name
        path = directory / f"{name}.turns"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(180)
        env = {"STROBE_DIR": str(directory / "strobe"), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), "PYTHONPATH": str(package)} if package else {}
        # Without Strobe there is nothing that Strobe's annotation could be, so that a step has none.
        annotation = kind if package or kind == "jax" else "none"
        self.process = group.start(name, [PYTHON, ROOT / "tests/e2e/turn_loop.py", path, annotation], env=env)
        self.listener = listener
        self.turns = None

    def begin(self):
        self.connection, _ = self.listener.accept()
        self.turns = self.connection.makefile("rw")
        return self

    def train(self, steps=STEPS, period=PERIOD):
        switches = context_switches(self.process.pid)
        self.turns.write(f"{steps} {period}\n")
        self.turns.flush()
        told = json.loads(self.turns.readline())
        return {"wall": statistics.median(told["work"]) / 1e3, "cpu": told["cpu"] / (steps - 1) / 1e3, "active": told["active"],
                "switches": (context_switches(self.process.pid) - switches) / steps}

    def memory(self):
        """KiB of anonymous memory, of pages of ring files, and of pages of Strobe's libraries."""
        found, where = {"anonymous": 0, "rings": 0, "libraries": 0}, ""
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            head, _, rest = line.partition(" ")
            if not head.endswith(":"):
                parts = line.split(None, 5)
                where = parts[5] if len(parts) > 5 else ""
            elif head == "Rss:":
                resident = int(rest.split()[0])
            elif head == "Anonymous:":
                anonymous = int(rest.split()[0])
                found["anonymous"] += anonymous
                if where.endswith(".rings"):
                    found["rings"] += resident - anonymous
                elif "strobe" in Path(where).name or "/strobe/" in where:
                    found["libraries"] += resident - anonymous
        return found

    def end(self):
        self.process.kill()
        self.listener.close()


class Rig:
    """The operator with its trigger, and for each kind of annotation a program in each condition, with the sidecars."""

    def __init__(self, group, directory):
        self.group, self.directory = group, directory
        self.site = package(directory)
        logdir = directory / "logdir"
        logdir.mkdir()
        self.operator, self.kubectl = chart_operator.start(group, directory, logdir)
        create_trigger(self.kubectl, sign_trigger("signs", logdir, {"stepsSlower": {"percent": 50, "steps": 10}}, {"attempts": 1}))
        self.sidecars, self.programs = {}, {}
        for index, kind in enumerate(KINDS):
            for condition in CONDITIONS:
                folder = directory / f"{kind}-{condition}"
                (folder / "strobe").mkdir(parents=True)
                if condition == "recorder":
                    self.sidecars[kind, condition] = Pod(group, folder, *LOOK_BACK).sidecar
                elif condition == "signs":
                    sidecar = SecureSidecar(group, self.operator, f"{kind}-signs", 1, folder, index=index, labels={"batch.kubernetes.io/job-name": kind},
                                            flags=["--agent-dir", folder / "strobe/agent", *LOOK_BACK])
                    self.sidecars[kind, condition] = sidecar.start().wait().process
                self.programs[kind, condition] = self.program(f"{kind}-{condition}", kind, condition)
        for program in self.programs.values():
            program.begin()

    def program(self, name, kind, condition):
        return Program(self.group, self.directory / f"{kind}-{condition}", name, kind, self.site if condition in ("recorder", "signs") else None)

    def measure(self):
        """What each turn of each program took: lists by (kind, condition)."""
        order, turns = list(self.programs), {key: [] for key in self.programs}
        for program in self.programs.values():
            program.train()
        for cycle in range(CYCLES):
            random.Random(cycle).shuffle(order)
            for key in order:
                turns[key].append(self.programs[key].train())
        for key in (("strobe", "recorder"), ("strobe", "signs")):
            assert all(turn["active"] for turn in turns[key]), f"{key}: nothing was recorded"
        return turns

    def memories(self):
        """What each of several fresh programs holds, without Strobe and with all of it."""
        found = {(kind, condition): [] for kind in KINDS for condition in ("without", "signs")}
        for number in range(MEMORY_ROUNDS):
            for kind in KINDS:
                programs = {condition: self.program(f"memory-{kind}-{condition}-{number}", kind, condition) for condition in ("without", "signs")}
                for condition, program in programs.items():
                    program.begin().train(FILLS_A_RING, 0)
                    found[kind, condition].append(program.memory())
                for program in programs.values():
                    program.end()
        return found

    def sign_comes(self):
        """What came of slow steps: if they start a capture, the sidecar has looked for signs. It needs 30 looks with steps before."""
        program, before = self.programs["strobe", "signs"], len(runs_of(self.kubectl, "signs"))
        program.train(100)
        began = time.monotonic()
        while len(runs_of(self.kubectl, "signs")) == before:
            if time.monotonic() - began > 60:
                return "not captured"
            program.train(5, 3 * PERIOD)
        return f"captured {time.monotonic() - began:.0f} s after they began"


def share(microseconds):
    return f"{microseconds / (PERIOD * 1e6):+.4%}"


def time_row(turns, kind, condition):
    ours, base = turns[kind, condition], turns[kind, "without"]
    wall, cpu, switches = (statistics.median(turn[what] for turn in ours) for what in ("wall", "cpu", "switches"))
    row = f"| {KINDS[kind]} | {CONDITIONS[condition]} | {wall / 1e3:.3f} | {cpu / 1e3:.3f} | {switches:.1f} |"
    if condition == "without":
        return row + " | | | |"
    for what in ("wall", "cpu"):
        median, low, high = interval([mine[what] - theirs[what] for mine, theirs in zip(ours, base)])
        row += f" {median:+.0f} ({low:+.0f} to {high:+.0f}) | {share(median)} |"
        if condition != "again":
            bars.at_most(f"{KINDS[kind]}, {CONDITIONS[condition]}: {what}, percent of a step", 100 * median / (PERIOD * 1e6), 0.1)
    return row


def memory_row(found, kind):
    cells, total = [], 0
    for part in ("anonymous", "rings", "libraries"):
        without, with_all = (sorted(memory[part] / 1024 for memory in found[kind, condition]) for condition in ("without", "signs"))
        more = statistics.median(with_all) - statistics.median(without)
        total += more
        cells.append(f"{more:.2f} (noise {without[-1] - without[0]:.2f})" if part == "anonymous" else f"{more:.2f}")
    bars.at_most(f"{KINDS[kind]}: MiB together", total, 2)
    return f"| {KINDS[kind]} | {' | '.join(cells)} | {total:.2f} |"


def run(directory):
    protos.load()
    with Group(directory / "logs") as group:
        rig = Rig(group, directory)
        began, used = time.monotonic(), {key: cpu_seconds(sidecar.pid) for key, sidecar in rig.sidecars.items()}
        turns = rig.measure()
        seconds = time.monotonic() - began
        sidecars = {key: (cpu_seconds(sidecar.pid) - used[key]) / seconds for key, sidecar in rig.sidecars.items()}
        false = len(runs_of(rig.kubectl, "signs"))
        found = rig.memories()
        of_slow_steps = rig.sign_comes()
        rig.operator.process.kill()
    rows = [time_row(turns, kind, condition) for kind in KINDS for condition in CONDITIONS]
    return "\n".join([
        "### A trainer while nobody captures\n",
        f"Eight JAX programs with steps of {PERIOD * 1e3:.0f} ms, of which nearly all is sleep. They train in turns of {STEPS} steps, {CYCLES} turns each; the first step"
        " of a turn is not counted. Medians of the turns; differences to the same program without Strobe in the same cycle (95 % interval of the"
        " median). Wall: a step without its sleep. CPU: all threads of the process. Bar: 0.1 %, which is 100 us.\n",
        "| steps annotated by | with | wall, ms | CPU, ms | wake-ups | wall: more, us | of a step | CPU: more, us | of a step |",
        "|---|---|---|---|---|---|---|---|---|", *rows, "",
        f"Sidecars used {', '.join(f'{part:.2%}' for part in sidecars.values())} of a core. The trigger started {false} captures meanwhile; afterwards steps that took"
        f" three times as long were {of_slow_steps}.\n",
        "| steps annotated by | anonymous memory: more, MiB | pages of ring files | pages of Strobe's libraries | together (bar 2) |\n|---|---|---|---|---|\n"
        + "\n".join(memory_row(found, kind) for kind in KINDS),
        f"\nMedians of {MEMORY_ROUNDS} fresh programs with everything whose rings are full, and without Strobe; the noise is the range of the programs without.\n"])
