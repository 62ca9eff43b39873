"""What a process tells about itself: its identity and ranks, and whether it is a worker."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Iterable

_RANK = ("RANK", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "TPU_WORKER_ID")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
_LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
_WORLD_SIZE = ("WORLD_SIZE", "JAX_NUM_PROCESSES", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "colossalai")
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
)
MAX_TEXT = 256
# Names that `multiprocessing` gives by itself.
_DEFAULT_NAME = re.compile(r"(Spawn|Fork|ForkServer)?Process-[0-9:]+")

_RAY = "ray::"  # Begins the titles of Ray's workers.

_inherited = None  # In a forked child, the process group of its parent, of which it is no member.


def began() -> int:
    """The start of this process in clock ticks since boot, as /proc/<pid>/stat has it."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat.read().rsplit(b")", 1)[1].split()[19])


def stem() -> str:
    """The beginning of the names of this process's files.

    The container's name comes first, as in the names of ring files.
    """
    container = os.environ.get("STROBE_CONTAINER", "")
    mark = f"{container}@" if re.fullmatch(r"[a-z0-9-]{1,63}", container) else ""
    return f"{mark}{os.getpid()}-{began()}"


def number_of(names: Iterable[str]) -> int | None:
    """The first of these environment variables that is a number, or None."""
    for name in names:
        value = os.environ.get(name, "")
        if re.fullmatch(r"[0-9]{1,9}", value):
            return int(value)
    return None


def ranks() -> dict[str, Any]:
    """Rank, local rank and number of processes.

    What the frameworks themselves know takes precedence over the environment.
    """
    rank, local_rank, world_size = number_of(_RANK), number_of(_LOCAL_RANK), number_of(_WORLD_SIZE)
    joined = False
    try:
        state = sys.modules["jax._src.distributed"].global_state
        if state.client is not None:
            rank, world_size, joined = int(state.process_id), int(state.num_processes), True
    except Exception:
        pass
    try:
        distributed = sys.modules["torch.distributed"]
        if (
            distributed.is_available()
            and distributed.is_initialized()
            and (_inherited is None or _default_group() is not _inherited)
        ):
            rank, world_size, joined = distributed.get_rank(), distributed.get_world_size(), True
    except Exception:
        pass
    return {"rank": rank, "local_rank": local_rank, "world_size": world_size, "joined": joined}


def _default_group() -> Any:
    """PyTorch's default process group; None if there is none."""
    try:
        return sys.modules["torch.distributed.distributed_c10d"].GroupMember.WORLD
    except (AttributeError, KeyError):
        return None


def forget_group() -> None:
    """Called in a forked child."""
    global _inherited
    _inherited = _default_group()


def command_line() -> list[str]:
    with open("/proc/self/cmdline", "rb") as line:
        return [part.decode(errors="replace") for part in line.read(1 << 16).split(b"\0")[:-1]]


def _program_of(command: list[str]) -> tuple[str, str]:
    """What a command of Python runs: ("c", code), ("m", module) or ("", script)."""
    at = 1
    while at < len(command):
        option = re.match(r"-[bBdEhiIOPqRsStuvVx?]*([cmWX])(.*)", command[at], re.DOTALL)
        if option is None and not command[at].startswith("-"):
            return "", command[at]
        at += 1
        if option is not None and not option[2]:  # Its argument comes next.
            option = (None, option[1], command[at] if at < len(command) else "")
            at += 1
        if option is not None and option[1] in "cm":
            return option[1], option[2]
    return "", ""


def is_launcher(command: list[str]) -> bool:
    """Whether this trains nothing: torchrun, accelerate and deepspeed, which start workers, and
    helpers that PyTorch and Python start.
    """
    kind, what = _program_of(command)
    if kind == "" and "/torch/_inductor/compile_worker/" in what:
        return True
    if multiprocessing_child() is not None:  # A forked child has its parent's command, and trains.
        return False
    if kind == "m":
        return what in _LAUNCHER_MODULES
    if kind == "c":
        return "multiprocessing.forkserver" in what
    return os.path.basename(what) in _LAUNCHERS


def multiprocessing_child() -> dict[str, Any] | None:
    """None in a program's first process.

    In a child of `multiprocessing`, its name and whether it is a daemon, as DataLoader's workers
    are.
    """
    process = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    if process is None or type(process).__name__ == "_MainProcess":
        return None
    return {"name": str(process.name)[:MAX_TEXT], "daemon": bool(process.daemon)}


def is_starting_child() -> bool:
    """Whether this is a child of `multiprocessing` (spawn, forkserver) that does not know yet which
    process it is.
    """
    process = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    return process is not None and hasattr(process, "_inheriting")


def _actor(told: str) -> str:
    """Class and name of an actor of Ray: its title also has the method that runs just now, which
    changes all the time.
    """
    kind = told[: len(_RAY)] + told[len(_RAY) :].partition(".")[0].partition("(")[0]
    try:
        module = sys.modules["ray._private.worker"]
        worker = module.global_worker
        is_actor = worker.mode == module.WORKER_MODE and not worker.actor_id.is_nil()
        name = str(worker.actor_name) if is_actor and worker.actor_name else ""
    except Exception:
        name = ""
    return f"{kind} {name}" if name else kind


def title(command: list[str]) -> str | None:
    """The name that the process has given itself in place of its command, as setproctitle does, or
    that `multiprocessing` was told for it; else None.
    """
    # Since Python 3.10.
    first, started = command[0] if command else "", getattr(sys, "orig_argv", [])[:1]
    replaced = bool(started and started[0]) and first != os.fsencode(started[0]).decode(
        errors="replace"
    )
    if first.startswith(_RAY):
        return _actor(first)[:MAX_TEXT]
    if "::" in first or first and replaced and "/" not in first:
        return first[:MAX_TEXT]
    child = multiprocessing_child()
    return (
        child["name"] if child is not None and not _DEFAULT_NAME.fullmatch(child["name"]) else None
    )


def description() -> dict[str, Any]:
    command = command_line()
    program = (
        sys.argv[0]
        if getattr(sys, "argv", None) and sys.argv[0] not in ("", "-m", "-c")
        else (command[0] if command else "")
    )
    run = os.environ.get("TORCHELASTIC_RUN_ID")
    return {
        "pid": os.getpid(),
        "began": began(),
        "parent_pid": os.getppid(),
        **ranks(),
        "local_world_size": number_of(_LOCAL_WORLD_SIZE),
        "program": program[:MAX_TEXT],
        "title": title(command),
        "is_launcher": is_launcher(command),
        "multiprocessing": multiprocessing_child(),
        "elastic_run": run[:MAX_TEXT] if run else None,
    }
