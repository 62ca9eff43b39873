"""Profiler servers that the program opens itself: jax.profiler.start_server,
tf.profiler.experimental.server.start.

Where the program listens is announced, so that the sidecar knows whose server it finds. With
STROBE_CLOSE_PROFILER_PORT, a list of ports, servers on these ports and all that are opened from now
on are closed to other machines.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any, Callable

from .failure import tell
from .frameworks import profiler_of
from .recorder import original_of
from .sockets import close_to_others, listening

_MAX_PORTS = 64
# A server may be half open when its framework becomes usable: the program begins to open it before
# we see the framework.
_SECONDS_OF_BEGINNING = 5.0


class ProgramServers:
    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake  # Makes the service call look().
        self.listens = self.closed = ()  # Sorted ports.
        wish = os.environ.get("STROBE_CLOSE_PROFILER_PORT", "")
        self.to_close = (
            {int(port) for port in wish.split(",") if port.strip().isdigit()} if wish else None
        )
        self._refused = set()  # Inodes of sockets that cannot be closed, which is told once.
        self._until = 0.0
        self._due = False

    def watch(self, name: str) -> None:
        """Notices, from now on, the servers that the program opens through this framework."""
        profiler = profiler_of(name)
        if profiler is None:
            return
        original = original_of(profiler.start_server)

        @functools.wraps(original)
        def start_server(*arguments: Any, **options: Any) -> Any:
            before = self._before()
            server = original(*arguments, **options)
            self._opened(before, arguments[0] if arguments else options.get("port", 0))
            return server

        start_server.strobe_original = original
        profiler.start_server = start_server
        self._due, self._until = True, time.monotonic() + _SECONDS_OF_BEGINNING

    def begins(self) -> bool:
        """Whether look() should be called again soon."""
        return time.monotonic() < self._until

    def look(self) -> bool:
        """Finds what the program opened, and closes what should be closed.

        Returns whether `listens` or `closed` changed.
        """
        if not self._due and not self.begins():
            return False
        self._due = False
        sockets = listening()
        if self.to_close:
            self._close({inode: port for inode, port in sockets.items() if port in self.to_close})
        before, self.listens = self.listens, tuple(sorted(set(sockets.values()))[:_MAX_PORTS])
        return before != self.listens

    def _before(self) -> set[str] | None:
        """Runs in the program's thread."""
        try:
            return set(listening()) if self.to_close is not None else None
        except Exception:
            return None

    def _opened(self, before: set[str] | None, port: int) -> None:
        """Runs in the program's thread, so that the program does not go on with a server that is
        open to other machines.
        """
        try:
            if before is not None:
                made = {
                    inode: at
                    for inode, at in listening().items()
                    if inode not in before and (at == port or not port)
                }
                # Otherwise another thread has opened a socket at the same time.
                if len(set(made.values())) == 1:
                    self._close(made)
            self._due = True
            self.wake()
        except Exception as error:
            tell(error)

    def _close(self, sockets: dict[str, int]) -> None:
        sockets = {inode: port for inode, port in sockets.items() if inode not in self._refused}
        if close_to_others(set(sockets)):
            self.closed = tuple(sorted({*self.closed, *sockets.values()}))
        elif sockets:
            self._refused |= set(sockets)
            tell(
                OSError(
                    f"the profiler server on port {min(sockets.values())} stays open to other "
                    "machines: SO_BINDTODEVICE is refused"
                )
            )
