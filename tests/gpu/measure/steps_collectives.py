"""Two ranks of NCCL on one GPU (NCCL_MULTI_RANK_GPU_ENABLE of NCCL 2.30 and newer): the agent as NCCL's profiler plugin."""

import struct
import time

from . import xspace
from .findings import judge, percent
from .processes import Failed, NotHad
from .rig import TRAINERS, Rig, free_port, told

COST_BAR = 1.0  # Percent of an all-reduce, at all times.
CALLS = 3000
WANTED = {"Seq", "Process Group Name"}
# Both ranks share the GPU, so that each may have only a part of its processors.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "8", "NCCL_NVLS_ENABLE": "0", "MASTER_ADDR": "127.0.0.1"}


def _job(rig, python, name, env, size=2):
    port = str(free_port())
    ranks = [rig.start(f"{name}-{rank}", [python, TRAINERS / "collective_trainer.py"],
                       {**SHARED_GPU, "WORLD_SIZE": str(size), "MASTER_PORT": port, "RANK": str(rank), "LOCAL_RANK": str(rank), **env}) for rank in range(size)]
    try:
        return ranks, [rank.answer(90) for rank in ranks][0]
    except Failed as failed:
        raise NotHad(f"{size} ranks on one GPU did not start: {failed}") from None


def _with_plugin(setup, rig):
    return {**rig.agent_env(), "STROBE_BOOTSTRAP": "off", "STROBE_DEVICE": "off", "STROBE_COLLECTIVES": "times", "NCCL_PROFILER_PLUGIN": setup.place.agent}


def _run(ranks, calls):
    for rank in ranks:
        rank.send(f"run {calls}")
    return max(rank.answer(60)["us"] for rank in ranks)


def _rows(path):
    """Per communicator, the numbers of the all-reduces that the program began, and those that the device measured with their lengths."""
    plane = xspace.parse(path.read_bytes(), WANTED).plane("/host:NCCL")
    calls, measured = {}, {}
    for line in plane.lines:
        to = measured if line.name.endswith("(device)") else calls
        for event in line.events:
            if event.name == "nccl:AllReduce":
                to.setdefault(event.stats["Process Group Name"], {})[event.stats["Seq"]] = event
    return calls, measured


def _made(rig):
    """How many calls each process has begun, from the files that outlive it; see agent/wire/collective_layout.h."""
    return sorted(struct.unpack_from("<Q", path.read_bytes(), 256)[0] for path in (rig.strobe / "agent").glob("*.nccl"))


def _one_rank(setup, rig, python):
    """What an older NCCL tells the plugin, of a job that needs no second GPU."""
    ranks, _ = _job(rig, python, "one", _with_plugin(setup, rig), size=1)
    _run(ranks, CALLS)
    for path in (rig.strobe / "agent").glob("*.nccl"):
        header = path.read_bytes()[:272]
        version, interface = struct.unpack_from("<II", header, 40)
        made, communicators = struct.unpack_from("<QI", header, 256)
        return f"one rank alone: NCCL {version}, interface {interface}, {communicators} communicators, {made} calls"
    return "one rank alone: NCCL did not load the plugin"


def two_ranks(setup):
    python = setup.pythons["torch"]
    if python is None:
        raise NotHad("no Python here has torch; $STROBE_GPU_PYTHON may name one")
    with Rig(setup, "nccl") as rig:
        try:
            plain, machine = _job(rig, python, "plain", {})
        except NotHad as reason:
            raise NotHad(f"{reason}; {_one_rank(setup, rig, python)}") from None
        ours, _ = _job(rig, python, "ours", _with_plugin(setup, rig))
        costs = []
        for _ in range(4):  # In turns.
            alone = _run(plain, CALLS)
            costs.append(percent(_run(ours, CALLS), alone))
            setup.note(costs)
        for rank in plain:
            rank.stop()
        rig.begin(2)
        rig.wait_window()
        before = _made(rig)
        while_measured = _run(ours, CALLS)
        after = _made(rig)
        manifest = rig.finish()
        if manifest["worker"]["outcome"] != "Ok":
            raise Failed(told(manifest["worker"]))
        traces = sorted((rig.folder / "logs/plugins/profile" / rig.run).glob("*.xplane.pb"))
        rows = [_rows(path) for path in traces]
        if len(rows) != 2 or not all(calls for calls, _ in rows):
            raise Failed(f"{len(rows)} traces; all-reduces of communicators: {[list(calls) for calls, _ in rows]}")
        first, second = ({number for group in calls.values() for number in group} for calls, _ in rows)
        measured = [event for _, groups in rows for group in groups.values() for event in group.values()]
        made = _made(rig)
        ours[0].ask("alone", 20)
        time.sleep(1)
        alone = _made(rig)
        cost = sorted(costs)[len(costs) // 2]
        longest = max(((event.end_ps - event.begin_ps) / 1e6 for event in measured), default=0)
        return judge(f"{machine['device']}, NCCL {machine['nccl']}: {cost:+.2f} % per all-reduce at all times, {while_measured:.1f} us while measured; "
                     f"{len(first)} and {len(second)} rows of {after[0] - before[0]} calls, {len(measured)} measured by the device, the longest {longest:.0f} us",
                     (cost <= COST_BAR, f"costs more than {COST_BAR} %"),
                     (len(first & second) >= CALLS * 0.9, "rows of the two ranks have different numbers"),
                     (after[0] - before[0] == after[1] - before[1] == CALLS, f"{CALLS} calls became {before} to {after}"),
                     (sum(alone) == sum(made) + 1, f"the call of one rank that hangs is not told: {made} and then {alone}"))
