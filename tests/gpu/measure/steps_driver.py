"""Programs that use CUDA's driver alone, and know what they launched and when it ran."""

import time

from . import stamps
from .findings import judge
from .kernels import complete_steps, joined_share
from .rig import Rig, told, window_ns

TIMES_BAR_US = 1.0


def _checks(manifest, complete):
    return ((manifest["worker"]["outcome"] == "Ok", told(manifest["worker"])),
            (len(complete.steps) > 0, "no step lies within the window"),
            (complete.wrong == 0, f"in {len(complete.steps)} steps, {complete.launches_missing} launches and {complete.kernels_missing} kernels are missing, "
             f"{complete.kernels_too_many} kernels are too many"))


def _seen(complete, found):
    return f"{complete.kernels} kernels in {len(complete.steps)} steps, {100 * joined_share(found):.2f} % joined to their launch"


def counts(setup):
    """Each step of a program has exactly its launches and kernels."""
    with Rig(setup, "counts") as rig:
        rig.cuda("cuda_program", 200, 20)
        manifest = rig.capture(setup.seconds(2))
        found = rig.recording()
        complete = complete_steps(found, window_ns(manifest), 20, 20)
        return judge(f"{_seen(complete, found)}; planes {', '.join(found.planes)}", *_checks(manifest, complete))


def _stamped(setup, name, per_second, kernels, threads, way, seconds):
    """A recording of kernels that note their own times."""
    with Rig(setup, name) as rig:
        notes = rig.folder / "stamps"
        program = rig.cuda("cuda_stamps", notes, per_second, kernels, threads, way)
        manifest = rig.capture(setup.seconds(seconds))
        program.stop(60)
        complete = complete_steps(rig.recording(), window_ns(manifest), 1 if way == "graph" else kernels, kernels)
        apart = stamps.distances(complete.steps, stamps.read(notes)) if notes.exists() else None
        return manifest, complete, apart


def _times(apart):
    if apart is None:
        return ["no time could be compared", (False, "no kernel has a stamp")]
    text = (f"{apart.kernels} kernels against their own stamps: 99 % of begins within {apart.begin_us:.3f} us, of ends within {apart.end_us:.3f} us; recorded "
            f"{apart.longer_us:.3f} us longer; device clock ticks {apart.tick_ns} ns, drifts {apart.drift_ppm:+.2f} ppm")
    bar = TIMES_BAR_US + apart.tick_ns / 1000
    return [text, (max(apart.begin_us, apart.end_us) <= bar, f"times are not within {bar:.2f} us")]


def times(setup):
    """One by one: when each kernel ran by its own stamps, and by the trace."""
    manifest, complete, apart = _stamped(setup, "times", 200, 20, 1, "calls", 2)
    text, check = _times(apart)
    return judge(text, *_checks(manifest, complete), check)


def graphs(setup):
    """As many kernels as CUDA graphs launch."""
    manifest, complete, apart = _stamped(setup, "graphs", setup.pace, 1000, 2, "graph", 1)
    rate = complete.kernels / (int(manifest["durationNs"]) / 1e9)
    text, check = _times(apart)
    return judge(f"{rate:,.0f} kernels/s in CUDA graphs, {complete.kernels} in {len(complete.steps)} steps; {text}", *_checks(manifest, complete), check,
                 (rate >= setup.rate_bar, f"this machine launched fewer than {setup.rate_bar:,} per second"))


def calls(setup):
    """As many kernels as four threads launch by calls, without a pause."""
    with Rig(setup, "calls") as rig:
        program = rig.cuda("cuda_program", setup.pace, 250, 4)
        manifest = rig.capture(setup.seconds(1))
        program.stop()
        found = rig.recording()
        complete = complete_steps(found, window_ns(manifest), 250, 250)
        rate = complete.kernels / (int(manifest["durationNs"]) / 1e9)
        return judge(f"{rate:,.0f} kernels/s by calls of four threads; {_seen(complete, found)}", *_checks(manifest, complete),
                     (rate >= setup.rate_bar, f"this machine launched fewer than {setup.rate_bar:,} per second"))


def look_back(setup):
    """The steps from before a capture, of a program whose GPU is recorded at all times."""
    with Rig(setup, "look-back", ("--flight-recorder=2s", "--flight-recorder-devices")) as rig:
        rig.cuda("cuda_program", 200, 20)
        time.sleep(10)  # Recording begins five seconds after CUDA.
        manifest = rig.capture(setup.seconds(1))
        begin, _ = window_ns(manifest)
        found = rig.recording()
        complete = complete_steps(found, (begin - 1_900_000_000, begin), 20, 20)
        return judge(f"from before the start: {_seen(complete, found)}", *_checks(manifest, complete))


def beginner(setup):
    """A program that starts CUDA and ends within the capture. CUPTI is armed shortly after CUDA starts, so that the first kernels may be missing."""
    with Rig(setup, "beginner") as rig:
        rig.cuda("cuda_program", 50, 1)  # So that the capture has a program to record from its beginning.
        rig.begin(4)
        time.sleep(2)
        program = rig.cuda("cuda_program", 200, 7, 1, 200)
        said = program.line(60)
        manifest = rig.finish()
        launched = int(said.split()[1])
        steps = sum(len(step.launches) == 7 for step in rig.recording().steps)
        worker = manifest["worker"]
        return judge(f"launched {launched}, steps seen whole {steps} of 200; {told(worker)}", (worker["outcome"] in ("Ok", "LateStart"), "unexpected outcome"),
                     (steps > 0, "nothing of it was seen"))
