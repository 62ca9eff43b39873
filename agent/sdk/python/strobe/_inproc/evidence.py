"""What the sidecar may know of this process while it stands still, or after it has died: stacks,
which a thread of the agent writes on an order (agent/evidence), its process groups and its last
uncaught exception.

None of it is needed at the moment of the hang, when nobody gets the interpreter's lock: the thread
is started, and the groups are told, while all is well.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from typing import Any, Callable, TYPE_CHECKING

from .failure import tell
from .process import ranks
from .switches import is_off

if TYPE_CHECKING:
    from .announce import Directory

_LIBRARY = "libstrobe_agent.so"
_MAX_TEXT = 2000  # Characters of an exception.
_MAX_MEMBERS, _MAX_GROUPS = 200_000, 4000  # The file has 4 MiB at most.
# How often to look for groups: programs make theirs at the start.
_SECONDS_WHILE_NEW, _SECONDS_LATER, _SECONDS_NEW = 1.0, 5.0, 60.0


def _agent() -> str | None:
    """The path of the agent's library; None if there is none."""
    injected = os.environ.get("CUDA_INJECTION64_PATH", "")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [
        injected if os.path.basename(injected) == _LIBRARY else "",
        os.path.join(os.environ.get("STROBE_DIR", ""), "lib", _LIBRARY),
        os.environ.get("STROBE_AGENT", ""),
        os.path.join(package, "lib", _LIBRARY),
    ]
    return next((path for path in paths if path and os.path.exists(path)), None)


def _minor() -> int:
    """The version of CPython, 3.minor; 0 if this is none."""
    return sys.version_info[1] if sys.implementation.name == "cpython" else 0


def _check(function: Callable[[bytes], Any]) -> None:
    """The agent reads the stack of this call. It must find this function in it."""
    function(b"_check")


def _world() -> Any:
    """What PyTorch knows of process groups; None if there are none."""
    return getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)


def _names(world: Any) -> list[str]:
    """The names of the process groups of which this process is a member: they tell cheaply that
    one was made or destroyed. May raise while the program does that, as groups() may.
    """
    return [str(world.pg_names[group]) for group in list(world.pg_map)]


def groups(world: Any) -> list[dict[str, Any]]:
    told, members = [], 0
    for group, (backend, _) in list(world.pg_map.items()):
        in_group = sorted(int(rank) for rank in world.pg_group_ranks[group])
        members += len(in_group)
        if len(told) == _MAX_GROUPS or members > _MAX_MEMBERS:
            break
        told.append(
            {
                "name": str(world.pg_names[group]),
                "desc": str(getattr(group, "group_desc", "")),
                "backend": str(backend),
                "ranks": in_group,
            }
        )
    return told


class Evidence:
    """Used by the service's thread, except the hooks."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._pid = os.getpid()
        self._started = False
        self._library = None
        self._position, self._names = None, []  # What was told last.
        self._changed = 0.0

    def start(self) -> None:
        if self._started or is_off("evidence"):
            return
        self._started = True
        try:
            self._watch_exceptions()
            self._start_thread()
        except Exception as error:
            tell(error)

    def _start_thread(self) -> None:
        path = _agent()
        if path is None:
            return
        try:
            library = ctypes.CDLL(path)
            start, check = library.strobe_evidence_start, ctypes.PyDLL(path).strobe_evidence_check
        except (AttributeError, OSError):  # It is of an older release, or for another C library.
            return
        start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
        start.restype = check.restype = ctypes.c_char_p
        check.argtypes = [ctypes.c_char_p]
        library.strobe_evidence_position.argtypes = [ctypes.c_int] * 4
        library.strobe_evidence_position.restype = None
        library.strobe_evidence_end.restype = None
        stem = self._directory.stem
        if start(os.fsencode(self._directory.path), stem.encode(), _minor()) is None:
            self._library = library
            _check(check)  # With the interpreter's lock, unlike the others.

    def _watch_exceptions(self) -> None:
        """Programs that lose another one die by an exception within milliseconds."""
        before, before_in_thread = sys.excepthook, threading.excepthook

        def hook(kind: Any, value: Any, traceback: Any) -> None:
            self._tell_exception(kind, value)
            before(kind, value, traceback)

        def hook_in_thread(args: Any) -> None:
            self._tell_exception(args.exc_type, args.exc_value)
            before_in_thread(args)

        sys.excepthook, threading.excepthook = hook, hook_in_thread

    def _tell_exception(self, kind: Any, value: Any) -> None:
        try:
            if os.getpid() != self._pid:  # A forked child.
                return
            line = " ".join(f"{kind.__name__}: {value}"[:_MAX_TEXT].split())
            self._leave("exception", {"unix_ns": time.time_ns(), "lines": [line]})
        except Exception:
            pass

    def look(self) -> None:
        """Tells what has changed of the process's groups and its position in the job."""
        if not self._started:
            return
        try:
            place, world = ranks(), _world()
            names = _names(world) if world is not None and place["joined"] else []
            if names != self._names:
                self._leave("groups", groups(world) if names else [])
                self._names, self._changed = names, time.monotonic()
            numbers = [place[key] for key in ("rank", "local_rank", "world_size")]
            position = (*(-1 if number is None else number for number in numbers), bool(names))
            if position != self._position and self._library is not None:
                self._library.strobe_evidence_position(*(int(number) for number in position))
                self._position = position
        except Exception:  # The program makes a group just now, or the volume is full.
            pass

    def seconds(self) -> float | None:
        """After how long to look again; None if nothing changes without a sign."""
        if not self._names:
            return None
        is_new = time.monotonic() < self._changed + _SECONDS_NEW
        return _SECONDS_WHILE_NEW if is_new else _SECONDS_LATER

    def _leave(self, kind: str, content: Any) -> None:
        self._directory.leave(f"{self._directory.stem}.{kind}", json.dumps(content).encode())

    def end(self) -> None:
        """Called at the program's exit."""
        if self._library is not None and os.getpid() == self._pid:
            self._library.strobe_evidence_end()

    def forget(self) -> None:
        """Called in a forked child, which has neither the thread nor its file."""
        self._library = None
        self._started = False
