"""Runs the steps one after the other and prints their table."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

from . import steps_collectives, steps_driver, steps_frameworks, steps_machine, steps_modes
from .findings import FAILED, MISSED, NOT_HAD, Finding, table
from .outputs import leave, note
from .place import cupti_of, find, python_with
from .processes import Failed, NotHad

BUDGET_SECONDS, MAX_SECONDS = 450, 560  # All steps together may take so long, and at most so long; packing takes a few seconds more.
LEAST_SECONDS = 10  # A step that has less is not begun.


def _steps():
    """Name, function and most seconds, in their order: what the issue asks for most comes first."""
    of = partial
    f, m = steps_frameworks, steps_modes
    return [
        ("machine", steps_machine.machine, 60), ("package", steps_machine.package, 30),
        ("counts", steps_driver.counts, 40), ("times", steps_driver.times, 40), ("graphs", steps_driver.graphs, 60), ("calls", steps_driver.calls, 60),
        ("look-back", steps_driver.look_back, 40),
        ("jax-agent", of(f.agent, framework="jax"), 80), ("jax-framework", of(f.framework, name="jax"), 100),
        ("torch-framework", of(f.framework, name="torch"), 100), ("torch-agent", of(f.agent, framework="torch"), 80),
        ("jax-small", of(f.small, framework="jax"), 70), ("torch-small", of(f.small, framework="torch"), 80),
        ("two-ranks", steps_collectives.two_ranks, 120),
        ("permission", steps_machine.permission, 30), ("beginner", steps_driver.beginner, 30), ("mig", steps_machine.mig, 20), ("mps", steps_machine.mps, 40),
        ("jax-look-back", of(f.look_back, framework="jax"), 90), ("torch-look-back", of(f.look_back, framework="torch"), 90),
        ("jax-cost", of(f.cost, framework="jax"), 110), ("torch-cost", of(f.cost, framework="torch"), 120),
        ("jax-two-profilers", of(f.two_profilers, framework="jax"), 70), ("torch-two-profilers", of(f.two_profilers, framework="torch"), 80),
        # The following do not fit beside the others and have a run of their own.
        ("torch-kernels", m.torch_kernels, 90), ("torch-modes", of(m.modes, framework="torch"), 200), ("jax-modes", of(m.modes, framework="jax"), 200),
        ("fifty", m.fifty, 150), ("torch-after", of(m.after, framework="torch"), 90), ("jax-after", of(m.after, framework="jax"), 70),
    ]


GROUPS = {"modes": ("machine", "torch-kernels", "torch-modes", "jax-modes", "fifty", "torch-after", "jax-after")}


class Setup:
    """What the steps have in common. In a rehearsal, which needs no GPU, frameworks may run on the processor and windows are short."""

    def __init__(self, folder):
        self.folder, self.place = folder, find()
        self.rows, self.figures, self.step = [], {}, ""
        self.rehearsal = "STROBE_GPU_REHEARSAL" in os.environ
        # A machine that runs other tests begins to record late, and is not asked for speed.
        self.flags = ("--guard", "1s") if self.rehearsal else ()
        self.pace, self.rate_bar = (20, 1000) if self.rehearsal else (0, 200_000)
        self.patience = 4 if self.rehearsal else 1
        self.trainer = {"STROBE_GPU_MODEL": "2,64,32", "JAX_PLATFORMS": "cpu"} if self.rehearsal else {}
        self.pythons = {name: python_with(name) for name in ("jax", "torch")}
        generation = (steps_machine.driver_version() or 12000) // 1000
        self.cuda = {}
        found = next((path for python in self.pythons.values() if python and (path := cupti_of(python, generation))), None)
        if found and "STROBE_CUPTI" not in os.environ:
            self.cuda["STROBE_CUPTI"] = found
        self.until = 0.0

    def seconds(self, wanted):
        return min(wanted, 0.5) if self.rehearsal else wanted

    def left(self):
        """Seconds that the step may still take."""
        return self.until - time.monotonic()

    def note(self, figures):
        """What the step knows so far, which remains if it does not come to its end."""
        self.figures[self.step] = figures
        note(self.rows, self.figures)


class Stopped(BaseException):
    """The run was asked to end: what is known is packed."""


def _out_of_time(*_):
    raise Failed("took too long and was ended")


def _stop(*_):
    raise Stopped


def run_step(setup, function, seconds):
    """Raises nothing but Stopped, whatever the step meets."""
    if seconds < LEAST_SECONDS:
        return Finding(NOT_HAD, "no time was left")
    setup.until = time.monotonic() + seconds
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(setup)
    except NotHad as reason:
        return Finding(NOT_HAD, str(reason))
    except Failed as reason:
        known = setup.figures.get(setup.step)
        return Finding(FAILED, f"{reason}; known so far: {json.dumps(known)}" if known else str(reason))
    except Exception as error:
        traceback.print_exc()
        return Finding(FAILED, f"{type(error).__name__}: {error}"[:300])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def take(setup, name, function, seconds):
    """Adds the step's row."""
    setup.step, began = name, time.monotonic()
    finding = run_step(setup, function, seconds)
    setup.rows.append((name, time.monotonic() - began, finding))
    note(setup.rows, setup.figures)
    print(f"{name}: {finding.result} ({setup.rows[-1][1]:.0f} s) {finding.text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description="Measures Strobe on this machine's GPU.")
    steps = _steps()
    parser.add_argument("--steps", help="comma list of: " + ", ".join([*GROUPS, *(name for name, *_ in steps)]))
    parser.add_argument("--seconds", type=int, default=BUDGET_SECONDS, help=f"no step is begun or goes on after these (default %(default)s, at most {MAX_SECONDS})")
    arguments = parser.parse_args()
    known = [name for name, *_ in steps]
    wanted = {step for word in arguments.steps.split(",") for step in GROUPS.get(word, [word])} if arguments.steps else set(known)
    unknown = wanted - set(known)
    if unknown:
        parser.error(f"--steps: there is no {', '.join(sorted(unknown))}")
    if steps_machine.driver_version() is None:
        parser.exit(2, "tests/gpu/run: there is no libcuda.so.1 here; this needs a machine with an NVIDIA GPU and its driver\n")
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.signal(signal.SIGTERM, _stop)
    with tempfile.TemporaryDirectory(prefix="sg", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # Programs of other users have their folders in there.
        setup = Setup(Path(directory))
        end = time.monotonic() + setup.patience * min(arguments.seconds, MAX_SECONDS)
        try:
            for name, function, most in steps:
                if name in wanted:
                    take(setup, name, function, min(setup.patience * most, end - time.monotonic()))
        except Stopped:
            setup.rows.append((setup.step, 0, Finding(FAILED, "the run was ended from outside")))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Packing ends soon.
        report = f"# Strobe on a GPU, {time.strftime('%Y-%m-%d', time.gmtime())}\n\n{table(setup.rows)}\n"
        leave(report, setup.rows, setup.figures, setup.folder)
    print(report)
    return 1 if any(finding.result in (FAILED, MISSED) for *_, finding in setup.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
