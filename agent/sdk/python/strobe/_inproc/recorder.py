"""What all recorders have in common. A recorder drives one framework's own profiler session, from the service's thread."""

import ctypes
import functools
import time

from .turn import Turn


class Recorder:
    format = suffix = ""
    note = None  # What a capture costs this version's trainer, for the client.
    wake_ahead_ns = 0  # start() is called this much ahead of the instant.
    takes_devices = False  # Its profiler keeps devices from others in the process (CUPTI has one subscriber), even if it records none.
    place = 0  # The lowest one decides which framework records devices, if several in a process use them or none does.

    def __init__(self):
        self.turn = Turn()
        self.session = None
        self.recording = False
        self.started_ns = self.stopped_ns = self.stop_took_ns = 0

    def busy(self):
        """A message if the program profiles itself, else None."""
        raise NotImplementedError

    def is_free(self):
        """Whether no session of the framework's server is active. Begins a session to find out."""
        return True

    def uses_devices(self):
        """Whether the program uses accelerators through this framework. Must not touch any."""
        return False

    def prepare_ahead_ns(self):
        """How long before the instant prepare() is called. What is prepared costs the program something."""
        return 10**8

    def prepare(self, request, start_ns):
        """Does ahead whatever can be done ahead."""
        raise NotImplementedError

    def start(self, start_ns):
        """Begins to record and sets started_ns, not earlier than recording really began."""
        raise NotImplementedError

    def stop(self):
        """Ends the recording; sets stopped_ns, not later than it really ended, and stop_took_ns."""
        self.stopped_ns = time.time_ns()
        self._stop()
        self.stop_took_ns = time.time_ns() - self.stopped_ns

    def save(self, directory, hidden):
        """Writes what was recorded to the file `hidden` of the directory."""
        raise NotImplementedError

    def discard(self):
        """Ends and forgets the session, whatever it does."""
        self.session = None

    def details(self):
        """More for the client's last line."""
        return {}

    def leave(self):
        """At the program's exit. Destroying a session would stop it, so that it is leaked: the process takes it along."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.session))

    def after_fork(self):
        """In a forked child, which has no service: whatever is left of a session must not do anything there."""
        self.turn = Turn()


def intercept(holder, name, before, failed=None):
    """Replaces a function of a framework by one that calls before() first, and failed() if the function raises."""
    original = getattr(holder, name)
    if hasattr(original, "strobe_original"):
        return

    @functools.wraps(original)
    def intercepted(*arguments, **options):
        try:
            before()
        except Exception:
            pass
        try:
            return original(*arguments, **options)
        except BaseException:
            if failed is not None:
                failed()
            raise

    intercepted.strobe_original = original
    setattr(holder, name, intercepted)
