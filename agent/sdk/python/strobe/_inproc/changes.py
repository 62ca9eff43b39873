"""What Strobe changes in a program beside its hooks, each with its switch: docs/reference/
trainer-changes.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Iterator

from .frameworks import release, version
from .own_thread import new_lock
from .switches import is_off

# How long a thread waits before it demands the interpreter's lock: 5 ms by default, which is too
# long at an instant.
_SHORT = 0.0002

# PyTorch's Flight Recorder has the collectives that each process launched last. It tells which rank
# holds up a job that stands still. Since PyTorch 2.11 it records by itself.
_NAME, _OLD_NAME = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"  # The first since 2.8.
_ENTRIES = "2000"  # As PyTorch 2.11 has them.

_lock = new_lock()
_users = 0  # Recordings of several frameworks may begin at the same instant.
_before = _changed = 0.0


@contextlib.contextmanager
def short_switch_interval() -> Iterator[None]:
    global _users, _before, _changed
    if is_off("switch-interval"):
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, _SHORT))
            _changed = sys.getswitchinterval()
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            # Unless the program has set its own meanwhile.
            if _users == 0 and sys.getswitchinterval() == _changed:
                sys.setswitchinterval(_before)


def forget_switch_interval() -> None:
    """Called in a forked child, which has no recording."""
    global _lock, _users
    _lock = new_lock()
    if _users > 0 and sys.getswitchinterval() == _changed:
        sys.setswitchinterval(_before)
    _users = 0


def record_collectives() -> None:
    """Switches the Flight Recorder on, unless somebody has chosen its size.

    PyTorch reads the variable when the recorder is used first: after `import torch`, and before it
    joins a process group.
    """
    if is_off("flight-recorder") or _NAME in os.environ or _OLD_NAME in os.environ:
        return
    number = release(version("torch"))
    if (2, 5, 0) <= number < (2, 11, 0):
        os.environ[_NAME if number >= (2, 8, 0) else _OLD_NAME] = _ENTRIES


def skip_destructors() -> None:
    """Lets exit() end the process with its code, after what Python registered, but before the
    destructors of C++ and what C registered before.
    """
    if is_off("skip-destructors"):
        return
    libc = ctypes.CDLL(None)
    # Exit functions run in reverse order, so these run first: output is flushed, and _exit gets the
    # program's code.
    libc.on_exit(libc._exit, None)
    libc.__cxa_atexit(libc.fflush, None, None)
