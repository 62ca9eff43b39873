"""Whose turn it is to profile: the program's own session wins at once, and a capture of ours ends first."""

import contextlib
import threading

# How long the program waits at most until our recording has stopped, which takes seconds, for a large one minutes. A program that went on
# earlier could never profile itself again (JAX), or would get an error.
_LONGEST_WAIT_S = 600.0


class Turn:
    """One per framework. Ours is held by the service's thread; any other thread is the program."""

    def __init__(self):
        self._changed = threading.Condition(threading.Lock())
        self._ours = False
        self._program = 0  # Sessions of the program that the wrappers saw begin and not end.
        self._wake = None
        self.demanded = False  # The program wants to profile while we hold the turn.
        self.thread = None

    def take(self, wake):
        """Takes the turn for a capture, unless the program profiles. `wake` is called, from any thread, when the program demands it."""
        with self._changed:
            if self._program > 0:
                return False
            self._ours, self._wake, self.demanded, self.thread = True, wake, False, threading.get_ident()
            return True

    def release(self):
        with self._changed:
            self._ours, self._wake, self.demanded, self.thread = False, None, False, None
            self._changed.notify_all()

    @contextlib.contextmanager
    def lent(self):
        """A context in which the calling thread, one of the program's, acts for the capture."""
        ours, self.thread = self.thread, threading.get_ident()
        try:
            yield
        finally:
            self.thread = ours

    def is_ours(self):
        """Whether the calling thread is the one that captures, whose own calls the wrappers let pass."""
        return self.thread == threading.get_ident()

    def program_begins(self):
        """Called before a session of the program. Waits until ours has ended."""
        with self._changed:
            self._program += 1
            if self._ours:
                self.demanded = True
                try:
                    self._wake()
                except Exception:
                    pass
                self._changed.wait_for(lambda: not self._ours, _LONGEST_WAIT_S)

    def program_ends(self):
        with self._changed:
            self._program = 0
