"""Shortens the time that a thread waits before it demands the interpreter's lock: 5 ms by default,
which is too long at an instant.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Iterator

from .own_thread import new_lock
from .switches import is_off

_SHORT = 0.0002

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


def forget() -> None:
    """Called in a forked child, which has no recording."""
    global _lock, _users
    _lock = new_lock()
    if _users > 0 and sys.getswitchinterval() == _changed:
        sys.setswitchinterval(_before)
    _users = 0
