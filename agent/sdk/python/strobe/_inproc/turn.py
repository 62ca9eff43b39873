"""Whose turn it is to profile: the program's own session wins at once, and a capture of ours ends
first.
"""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

from .own_thread import new_lock, thread_id

# How long the program waits at most until our recording has stopped, which takes seconds, for a
# large one minutes. A program that went on earlier could never profile itself again (JAX), or would
# get an error.
_LONGEST_WAIT_S = 600.0


class Turn:
    """One per framework. Ours is held by the service's thread; any other thread is the program."""

    def __init__(self) -> None:
        self._lock = new_lock()
        # While the turn is ours, a lock that is held until it ends. No Condition: gevent replaces
        # what that waits with.
        self._ours = None
        self._program = 0  # Sessions of the program that the wrappers saw begin and not end.
        self._wake = None
        self.demanded = False  # The program wants to profile while we hold the turn.
        self.thread = None

    def take(self, wake: Callable[[], None]) -> bool:
        """Takes the turn for a capture, unless the program profiles.

        `wake` is called, from any thread, when the program demands it.
        """
        with self._lock:
            if self._program > 0:
                return False
            self._ours, self._wake, self.demanded, self.thread = (
                new_lock(),
                wake,
                False,
                thread_id(),
            )
            self._ours.acquire()
            return True

    def release(self) -> None:
        with self._lock:
            ours, self._ours, self._wake, self.demanded, self.thread = (
                self._ours,
                None,
                None,
                False,
                None,
            )
        if ours is not None:
            ours.release()

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """A context in which the calling thread, one of the program's, acts for the capture."""
        ours, self.thread = self.thread, thread_id()
        try:
            yield
        finally:
            self.thread = ours

    def is_ours(self) -> bool:
        """Whether the calling thread is the one that captures, whose own calls the wrappers let
        pass.
        """
        return self.thread == thread_id()

    def program_begins(self) -> None:
        """Called before a session of the program. Waits until ours has ended."""
        with self._lock:
            self._program += 1
            ours, wake = self._ours, self._wake
            if ours is None:
                return
            self.demanded = True
        try:
            wake()
        except Exception:
            pass
        try:
            if ours.acquire(timeout=_LONGEST_WAIT_S):
                ours.release()  # Others of the program may wait too.
        # A signal handler of the program raised it, such as a time limit's: the session does not
        # begin.
        except BaseException:
            with self._lock:
                self._program = max(0, self._program - 1)
            raise

    def program_ends(self) -> None:
        with self._lock:
            self._program = 0
