"""What each mode of tracers.device costs and leaves behind, for small and large kernels and CUDA graphs of JAX and PyTorch."""

import time
from contextlib import ExitStack

from .findings import judge, percent
from .processes import Failed
from .rig import Rig, told, window_ns
from .steps_frameworks import LEAD_SECONDS, MANY_SMALL, by_agent, median_us, own_kernels, python_of, ratio

MODES = ("Kernels", "Launches", "Graphs", "All")
LARGE = {"STROBE_GPU_MODEL": "8,4096,2048"}
# XLA makes CUDA graphs of small kernels by itself, unless it is told not to.
NO_GRAPHS = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
WORKLOADS = {"small": {**MANY_SMALL, **NO_GRAPHS}, "large": {**LARGE, **NO_GRAPHS}, "graphs": {**MANY_SMALL, "STROBE_GPU_GRAPHS": "1"}}
KERNELS_BAR = 5.0  # Percent of a step of small kernels, PyTorch, kernels only.
FIFTY = 50


def device(mode):
    return ("--device-tracer-level", mode)


def _during(rig, ours, other, flags, seconds, lead, base):
    """Percent by which steps take longer while they are recorded, the worker's report, and the kernels of the trace. The other program, which is never
    recorded, runs right after, so that the machine's own changes count for both."""
    ours.send(f"run {lead + seconds + 1}")
    manifest = rig.capture(seconds, *flags)
    during = median_us(ours.answer(90)["chunks"], *window_ns(manifest))
    now = median_us(other.ask(f"run {seconds}", 60)["chunks"])
    kernels = len(rig.recording().kernels) if manifest["worker"]["outcome"] == "Ok" else 0
    return (percent(during / now, base) if during and now else None), manifest["worker"], kernels


def _pair(setup, rig, framework, model, env):
    python = python_of(setup, framework)
    model = {**model, **setup.trainer}
    return rig.trainers(framework, python, {**env, **model}, model)


def modes(setup, framework):
    """The table {each mode} x {small kernels, large kernels, graphs}: percent of a step, by the agent."""
    seconds, lead, figures, bad = setup.seconds(0.8), LEAD_SECONDS["jax"], {}, []
    for workload, model in list(WORKLOADS.items())[:1 if setup.rehearsal else None]:
        if setup.left() < 45 * setup.patience and figures:
            bad.append(f"no time for {workload}")
            continue
        with Rig(setup, f"{framework}-modes-{workload}") as rig:
            ours, other = _pair(setup, rig, framework, model, by_agent(rig))
            base, step_us = ratio(ours, other, setup.seconds(0.5), 2)
            figures[workload] = {"step_us": step_us}
            for mode in MODES:
                cost, worker, kernels = _during(rig, ours, other, device(mode), seconds, lead, base)
                figures[workload][mode] = cost
                setup.note(figures)
                if worker["outcome"] != "Ok" or kernels == 0:
                    bad.append(f"{workload}, {mode}: {told(worker)}, {kernels} kernels")
    text = "; ".join(f"{workload} ({row['step_us']:.0f} us a step): " + ", ".join(
        f"{mode} {row[mode]:+.1f} %" if row.get(mode) is not None else f"{mode} no value" for mode in MODES) for workload, row in figures.items())
    return judge(text, (not bad, "; ".join(bad)))


def torch_kernels(setup):
    """An unchanged PyTorch program of which only kernels are wanted: the agent records it. Its own profiler has the GPU afterwards, and then Strobe asks
    that for kernels only."""
    with Rig(setup, "torch-kernels") as rig:
        ours, other = _pair(setup, rig, "torch", {**MANY_SMALL}, rig.agent_env())
        time.sleep(3.5)  # The process's announcement follows within a second.
        base, step_us = ratio(ours, other, setup.seconds(0.6), 3)
        lead, figures, bad = LEAD_SECONDS["torch"], [], []
        for _ in range(3):
            cost, worker, kernels = _during(rig, ours, other, device("Kernels"), setup.seconds(1), lead, base)
            figures.append(cost)
            setup.note(figures)
            sources = {row["source"] for row in worker["processes"]}
            if worker["outcome"] != "Ok" or kernels == 0 or sources != {"SOURCE_AGENT"}:
                bad.append(f"{told(worker)}, {kernels} kernels, recorded by {', '.join(sorted(sources))}")
        rig.begin(3, *device("Kernels"))
        rig.wait_window()
        own = ours.ask(f"profile 20 {rig.folder}/own", 90)
        left = rig.finish()["worker"]
        kept = len(own_kernels(own))
        through, worker, kernels = _during(rig, ours, other, device("Kernels"), setup.seconds(1), lead, base)
        known = [cost for cost in figures if cost is not None]
        return judge(f"step {step_us:.1f} us; kernels only by the agent {', '.join(f'{cost:+.1f} %' for cost in known)}; its own profiler began meanwhile: "
                     f"{kept} kernels in its trace, {told(left)}; then through PyTorch {through if through is None else round(through, 1)} %, {kernels} kernels, "
                     f"{told(worker)}", (not bad, "; ".join(bad)), (bool(known) and min(known) <= KERNELS_BAR, f"more than {KERNELS_BAR} %"),
                     (kept > 0, "its own profiler found no GPU"))


def after(setup, framework):
    """What steps of small kernels cost after a capture, until the program restarts: with CUPTI detached, then with CUPTI kept attached; by the agent, in
    another program by PyTorch's profiler."""
    ways = {"agent": by_agent} if framework == "jax" else {"agent": by_agent, "torch": lambda rig: rig.agent_env()}
    figures, bad = [], []
    for way, env in ways.items():
        with Rig(setup, f"{framework}-after-{way}") as rig:
            ours, other = _pair(setup, rig, framework, {**MANY_SMALL, **NO_GRAPHS}, env(rig))
            time.sleep(2.5)
            base, _ = ratio(ours, other, setup.seconds(0.6), 3)
            for name, flags in (("detached", ("--detach",)), ("attached", ())):
                _, worker, _ = _during(rig, ours, other, flags, setup.seconds(0.8), LEAD_SECONDS[framework], base)
                if worker["outcome"] != "Ok":
                    bad.append(f"{way}, {name}: {told(worker)}")
                now, _ = ratio(ours, other, setup.seconds(0.6), 3)
                figures.append(f"{way}, {name} {percent(now, base):+.1f} %")
                setup.note(figures)
    return judge("; ".join(figures), (not bad, "; ".join(bad)))


def fifty(setup):
    """Fifty short captures of each mode, at the same time, each of a program of its own that launches without a pause: nothing dies. As many as there is time
    for; the text has the number."""
    counts, bad = dict.fromkeys(MODES, 0), []
    with ExitStack() as stack:
        rigs = {mode: stack.enter_context(Rig(setup, f"fifty-{mode.lower()}")) for mode in MODES}
        programs = {mode: rig.cuda("cuda_program", setup.pace, 200, 2) for mode, rig in rigs.items()}
        for number in range(2 if setup.rehearsal else FIFTY):
            if setup.left() < 12:
                break
            for mode, rig in rigs.items():
                rig.begin(0.05, *device(mode), *(("--detach",) if number % 5 == 4 else ()))
            for mode, rig in rigs.items():
                worker = rig.finish()["worker"]
                if worker["outcome"] not in ("Ok", "EventsDropped"):
                    bad.append(f"{mode}: {told(worker)}")
                if not programs[mode].lives():
                    raise Failed(f"the program of {mode} died in capture {number + 1}")
                counts[mode] += 1
            setup.note(counts)
    return judge("captures " + ", ".join(f"{mode} {count}" for mode, count in counts.items()), (not bad, "; ".join(bad[:3])),
                 (min(counts.values()) >= (2 if setup.rehearsal else FIFTY), f"fewer than {FIFTY} of each: no time was left"))
