"""JAX and PyTorch programs that know nothing of Strobe: what is recorded, what it costs, and what happens beside their own profilers."""

import random
import statistics
import time
from pathlib import Path

from .findings import judge, percent
from .kernels import joined_share, kineto_kernels, recording, same_work
from .processes import Failed, NotHad
from .rig import Rig, told, window_ns

STEPS = 50
COST_BAR = 2.0  # Percent of a step while recording.
NOISE = 1.0  # Percent that two processes of the same program may differ by.
# Small enough that the GPU's clock does not fall while it computes, so that the same kernels take the same time again.
STEADY = {"STROBE_GPU_MODEL": "8,1024,512"}
# So many small kernels that the program's launches, and not the GPU, take the time of a step.
MANY_SMALL = {"STROBE_GPU_MODEL": "60,256,256"}
CAPTURES_WHILE_TRAINING = 3
LEAD_SECONDS = {"jax": 2.5, "torch": 4.5}  # From the begin of a capture to its window; PyTorch prepares two seconds ahead with CUDA.


def python_of(setup, framework):
    """A Python with the framework."""
    python = setup.pythons[framework]
    if python is None:
        raise NotHad(f"no Python here has {framework}; $STROBE_GPU_PYTHON may name one")
    return python


def by_agent(rig):
    """The agent records the devices, whatever the framework could do itself."""
    return {**rig.agent_env(), "STROBE_BOOTSTRAP": "off", "STROBE_DEVICE": "force"}


def own_kernels(answer):
    """The kernels in the trace of the framework's own profiler."""
    if not answer["file"]:
        return []
    path = Path(answer["file"])
    return recording(path).kernels if path.name.endswith(".pb") else kineto_kernels(path)


def _told_work(same, what):
    differing = ", ".join(f"{name[:40]} {ours}/{theirs}" for name, (ours, theirs) in list(same.differing.items())[:5])
    return f"{what}: {same.ours} and {same.theirs} kernels in {STEPS} steps, {len(same.differing)} names differ {differing}; durations differ by " \
           f"{same.median_us:.3f} us (median), {same.worst_percent_us:.3f} us (99 %)"


def _compared(rig, trainer, what):
    """Equal steps by Strobe and by the framework's own profiler: in this order, because Kineto keeps CUPTI once it had it."""
    rig.begin(3)
    rig.wait_window()
    ran = trainer.ask(f"steps {STEPS}", 60)
    manifest = rig.finish()
    begin, end = window_ns(manifest)
    if ran["began_ns"] < begin or ran["ended_ns"] > end:
        raise Failed(f"the steps ran {(ran['began_ns'] - begin) / 1e9:+.2f} to {(ran['ended_ns'] - begin) / 1e9:+.2f} s after the begin of a window of "
                     f"{(end - begin) / 1e9:.0f} s; {told(manifest['worker'])}")
    own = trainer.ask(f"profile {STEPS} {rig.folder}/own", 90)
    found = rig.recording()
    same = same_work(found.kernels, own_kernels(own))
    worker = manifest["worker"]
    return judge(f"{_told_work(same, what)}; {100 * joined_share(found):.2f} % joined to their launch; {told(worker)}",
                 (worker["outcome"] == "Ok", "outcome"), (same.ours > 0 and not same.differing, "counts differ"),
                 (same.median_us <= 1, "durations differ by more than 1 us"))


def agent(setup, framework):
    """The agent with CUPTI against the framework's own profiler, which cannot record at the same time: CUPTI has one subscriber."""
    python = python_of(setup, framework)
    with Rig(setup, f"{framework}-agent") as rig:
        return _compared(rig, rig.trainer(framework, python, {**by_agent(rig), **STEADY, **setup.trainer}), f"agent and {framework}'s own profiler")


def framework(setup, name):
    """An unchanged program through Strobe's part in it, which the agent starts: no PYTHONPATH, as in GPU pods."""
    python = python_of(setup, name)
    with Rig(setup, f"{name}-framework") as rig:
        trainer = rig.trainer(name, python, {**rig.agent_env(), **STEADY, **setup.trainer})
        told_of, planes, good = [], set(), True
        time.sleep(2.5)  # The agent's thread looks once a second whether a framework was imported.
        for _ in range(3):
            trainer.send(f"run {LEAD_SECONDS[name] + 2}")
            worker = rig.capture(1)["worker"]
            trainer.answer(60)
            good = good and worker["outcome"] == "Ok" and worker["coversWindow"]
            told_of.append(f"{told(worker)} ({int(worker.get('latenessNs', 0)) / 1e6:+.2f} ms)")
            planes.update(worker["planes"])
        compared = _compared(rig, trainer, f"Strobe through {name} and {name}'s own profiler")
        return judge(f"{compared.text}; three captures while it trains: {', '.join(told_of)}; planes {', '.join(sorted(planes))}",
                     (good, "a capture is not Ok"), (compared.result == "ok", "the comparison missed its bar"))


def median_us(chunks, begin=0, end=1 << 63):
    """Microseconds of a step, of the chunks between two times."""
    inside = [us for began, us in chunks if began >= begin and began + us * 10_000 <= end]
    return statistics.median(inside) if inside else None


def _turn(setup, rig, programs, framework, number):
    """One turn of each way to run, in an order that changes. A GPU that has computed for a while is slower than one that has rested: before each way it
    rests as long, and computes as long as a capture needs from its begin to its window."""
    alone, other, ours = programs
    seconds, lead, seen = setup.seconds(1.2), LEAD_SECONDS[framework], {}

    def run(program):
        began = time.time_ns()
        chunks = program.ask(f"run {lead + seconds}", 60)["chunks"]
        return median_us(chunks, began + round(lead * 1e9))

    def record():
        before = time.time_ns()
        ours.send(f"run {lead + seconds + 1}")
        manifest = rig.capture(seconds)
        chunks, worker = ours.answer(90)["chunks"], manifest["worker"]
        begin, end = window_ns(manifest)
        seen["Strobe records"] = median_us(chunks, begin, end) if worker["outcome"] in ("Ok", "LateStart") else None
        seen["Strobe prepares"] = median_us(chunks, before, begin)

    def own():
        alone.ask(f"run {lead}", 60)
        seen["its own profiler records"] = median_us(alone.ask(f"profile-run {seconds} {rig.folder}/own{number}", 120)["chunks"])

    ways = [lambda: seen.update(alone=run(alone)), lambda: seen.update({"another one alone": run(other)}),
            lambda: seen.update({"nobody records": run(ours)}), record, own]
    random.Random(number).shuffle(ways)
    for way in ways:
        time.sleep(setup.seconds(1))
        way()
    return seen


def cost(setup, framework):
    """Time of a step: alone, in a second process like it, with Strobe while nobody records, while Strobe records, and while the framework's own profiler
    does."""
    python = python_of(setup, framework)
    with Rig(setup, f"{framework}-cost") as rig:
        programs = rig.trainers(framework, python, {}, {}, rig.agent_env())
        time.sleep(2.5)
        turns, longest = [], 0.0
        while len(turns) < 4 and (not turns or setup.left() > longest + 2):
            began = time.monotonic()
            turns.append(_turn(setup, rig, programs, framework, len(turns)))
            longest = max(longest, time.monotonic() - began)
            setup.note(turns)
        base = statistics.median(turn["alone"] for turn in turns)
        figures = {}
        for name in ("another one alone", "nobody records", "Strobe prepares", "Strobe records", "its own profiler records"):
            values = [percent(turn[name], turn["alone"]) for turn in turns if turn.get(name)]
            figures[name] = statistics.median(values) if values else None
        recording_costs, idle_costs = figures["Strobe records"], figures["nobody records"]
        return judge(f"step {base:.1f} us alone; {_percents(figures)}; medians of {len(turns)} turns",
                     (recording_costs is not None and recording_costs <= COST_BAR, f"more than {COST_BAR} % while recording, or never recorded"),
                     (idle_costs is not None and idle_costs <= NOISE, f"more than {NOISE} % while nobody records"))


def _percents(figures):
    return ", ".join(f"{name} {value:+.2f} %" if value is not None else f"{name}: no value" for name, value in figures.items())


def ratio(ours, other, seconds, times):
    """How much longer a step of the one takes than one of the other, while nobody records. They take turns, so that both have the same machine."""
    seen = [[median_us(program.ask(f"run {seconds}", 60)["chunks"]) for program in (ours, other)] for _ in range(times)]
    return statistics.median(us[0] / us[1] for us in seen), statistics.median(us[1] for us in seen)


def small(setup, framework):
    """Captures of a program that launches many small kernels without a pause: it lives on, and what its steps cost while and after it is recorded. A
    second process like it is never recorded."""
    python = python_of(setup, framework)
    with Rig(setup, f"{framework}-small") as rig:
        model = {**MANY_SMALL, **setup.trainer}
        other, ours = rig.trainers(framework, python, model, {**rig.agent_env(), **model})
        time.sleep(2.5)
        seconds, lead = setup.seconds(1), LEAD_SECONDS[framework]
        before, base = ratio(ours, other, setup.seconds(0.6), 3)
        figures, outcomes, messages = {}, [], set()
        for number in range(CAPTURES_WHILE_TRAINING):
            ours.send(f"run {lead + seconds + 1}")
            manifest = rig.capture(seconds)
            during = median_us(ours.answer(90)["chunks"], *window_ns(manifest))
            after, now = ratio(ours, other, setup.seconds(0.6), 2)
            outcomes.append(manifest["worker"]["outcome"])
            messages.add(told(manifest["worker"]))
            figures[f"during {number + 1}"] = percent(during / now, before) if during else None
            figures[f"after {number + 1}"] = percent(after, before)
        return judge(f"step {base:.1f} us of one that is never recorded, {before:.3f} times that before the first capture; {_percents(figures)}; "
                     f"{'; '.join(sorted(messages))}", (all(outcome == "Ok" for outcome in outcomes), "a capture is not Ok"))


def look_back(setup, framework):
    """What it costs a program of many small kernels that its GPU is recorded at all times, beside two that know nothing of Strobe."""
    python = python_of(setup, framework)
    with Rig(setup, f"{framework}-look-back", ("--flight-recorder=2s", "--flight-recorder-devices")) as rig:
        model = {**MANY_SMALL, **setup.trainer}
        other, third, ours = rig.trainers(framework, python, model, model, {**by_agent(rig), **model})
        ours.ask("run 7", 60)  # Recording begins five seconds after CUDA.
        cost, base = ratio(ours, other, setup.seconds(0.8), 4)
        noise, _ = ratio(third, other, setup.seconds(0.8), 2)
        ours.send("run 4")
        time.sleep(2)
        manifest = rig.capture(setup.seconds(1))
        ours.answer(60)
        begin, _ = window_ns(manifest)
        found = rig.recording()
        before = sum(kernel.begin_ps < (begin - found.start_ns) * 1000 for kernel in found.kernels)
        return judge(f"step {base:.1f} us, {percent(cost, 1):+.1f} % with look-back, {percent(noise, 1):+.1f} % in a second program without; "
                     f"{before} kernels from before the capture; {told(manifest['worker'])}", (before > 0, "nothing from before the capture was recorded"))


def _own_first(rig, trainer):
    """Strobe asks while the program profiles itself."""
    started = trainer.ask(f"own-start {rig.folder}/first", 60)
    trainer.send("run 5")
    worker = rig.capture(1)["worker"]
    trainer.answer(60)
    stopped = trainer.ask("own-stop", 120)
    kept = len(own_kernels(stopped))
    return worker, started["error"] or stopped["error"], kept


def _strobe_first(rig, trainer):
    """The program profiles itself while Strobe records."""
    rig.begin(3)
    rig.wait_window()
    errors = [trainer.ask(f"own-start {rig.folder}/second", 60)["error"]]
    trainer.ask("run 0.5", 60)
    stopped = trainer.ask("own-stop", 120)
    worker = rig.finish()["worker"]
    return worker, [error for error in [*errors, stopped["error"]] if error], len(own_kernels(stopped))


def two_profilers(setup, framework):
    """CUPTI has one subscriber: who comes second is told so by name, and the program trains on."""
    python = python_of(setup, framework)
    with Rig(setup, f"{framework}-two") as rig:
        trainer = rig.trainer(framework, python, {**rig.agent_env(), **STEADY, **setup.trainer})
        time.sleep(2.5)
        worker, error, kept = _own_first(rig, trainer)
        second, errors, second_kept = _strobe_first(rig, trainer)
        trains = bool(trainer.ask("run 0.5", 60)["chunks"])
        return judge(f"while it profiles itself: {told(worker)}, its own trace has {kept} kernels; it profiles itself while Strobe records: {told(second)}, its "
                     f"own trace has {second_kept} kernels, errors {errors or 'none'}",
                     (worker["outcome"] == "Busy", "not refused as Busy"), (error is None and kept > 0, f"the program's own profiler was disturbed: {error}"),
                     (trains, "the program does not train on"))
