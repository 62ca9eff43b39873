"""How a process ends that cannot run the destructors of its C++ libraries."""

from __future__ import annotations

import ctypes

from .switches import is_off


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
