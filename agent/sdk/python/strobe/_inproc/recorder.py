"""What all recorders have in common, and how the service finds them.

A recorder drives one framework's own profiler session, from the service's thread. It is in the
module <framework>_session, which registers it and is loaded when the framework is there.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import time
from typing import Any, Callable, Dict, TYPE_CHECKING, Type

from .failure import is_the_programs
from .turn import Turn

if TYPE_CHECKING:
    from .announce import Directory
    from .request import Request


_recorders: Dict[str, Type["Recorder"]] = {}  # By framework.


def records(framework: str) -> Callable[[Type["Recorder"]], Type["Recorder"]]:
    """Registers a class as the recorder of a framework."""

    def register(made: Type["Recorder"]) -> Type["Recorder"]:
        _recorders[framework] = made
        return made

    return register


def recorder_for(framework: str, directory: Directory) -> "Recorder":
    importlib.import_module(f".{framework}_session", __package__)
    return _recorders[framework](directory)


class Recorder:
    format = suffix = ""
    note = None  # For the client: what a capture costs a trainer with this version.
    stays = None  # For the client: what a recording leaves in the program.
    wake_ahead_ns = 0  # start() is called this much ahead of the instant.
    # Its profiler keeps devices from others in the process (CUPTI has one subscriber), even if it
    # records none.
    takes_devices = False
    # A recording is stopped and saved when the program ends, which waits for that.
    ends_at_exit = False
    # If several frameworks of a process use devices, or none does, the one with the lowest place
    # records them.
    place = 0

    def __init__(self, directory: Directory) -> None:
        self.directory = directory  # Where the process is announced.
        self.turn = Turn()
        # Called, from any thread, when the announcement changes.
        self.changed: Callable[[], None] = lambda: None
        self.session = None
        self.recording = False
        self.started_ns = self.stopped_ns = self.stop_took_ns = 0

    def busy(self) -> str | None:
        """A message if the program profiles itself, else None."""
        raise NotImplementedError

    def is_free(self) -> bool:
        """Whether no session of the framework's server is active. Begins a session to find out."""
        return True

    def uses_devices(self) -> bool:
        """Whether the program uses accelerators through this framework. Must not touch any."""
        return False

    def yields_devices(self) -> bool:
        """Whether the agent may record the program's devices until the program profiles itself."""
        return False

    def make_safe(self) -> None:
        """Does what must be done before a session of the framework's profiler, by whichever
        channel, so that its end does not harm the program. May raise Refused.
        """

    def prepare_ahead_ns(self) -> int:
        """How long before the instant prepare() is called.

        What is prepared costs the program something.
        """
        return 10**8

    def prepare(self, request: Request, start_ns: int) -> None:
        """Does whatever can be done before the instant."""
        raise NotImplementedError

    def start(self, start_ns: int) -> None:
        """Begins to record and sets started_ns, not earlier than recording really began."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the recording; sets stopped_ns, not later than it really ended, and stop_took_ns."""
        self.stopped_ns = time.time_ns()
        self._stop()
        self.stop_took_ns = time.time_ns() - self.stopped_ns

    def save(self, directory: Directory, hidden: str) -> None:
        """Writes what was recorded to the file `hidden` of the directory."""
        raise NotImplementedError

    def discard(self) -> None:
        """Ends and forgets the session, whatever it does."""
        self.session = None

    def details(self) -> dict[str, Any]:
        """Further fields of the last line that the client gets."""
        return {}

    def leave(self) -> None:
        """Called at the program's exit. Leaks the session, because destroying it would stop it."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.session))

    def can_begin_in_child(self) -> bool:
        """Whether a forked child may record with a recorder of its own."""
        return True

    def after_fork(self) -> None:
        """Called in a forked child, which has no service.

        Whatever is left of a session must do nothing there.
        """
        self.turn = Turn()


def original_of(function: Any) -> Any:
    """The framework's own function.

    A forked child that has a service of its own finds its parent's wrappers, which know only the
    parent's recorder.
    """
    return getattr(function, "strobe_original", function)


def intercept(
    holder: Any, name: str, before: Callable[[], None], failed: Callable[[], None] | None = None
) -> None:
    """Replaces a function or class of a framework by one that calls before() first, and failed() if
    the call raises.
    """
    original = original_of(getattr(holder, name))

    def intercepted(*arguments: Any, **options: Any) -> Any:
        try:
            before()
        except Exception as error:
            if is_the_programs(error):
                raise
        try:
            return original(*arguments, **options)
        except BaseException:
            if failed is not None:
                failed()
            raise

    replaced = (
        _class_like(original, intercepted)
        if isinstance(original, type)
        else functools.wraps(original)(intercepted)
    )
    replaced.strobe_original = original
    setattr(holder, name, replaced)


def _class_like(original: type, make: Callable[..., Any]) -> type:
    """Returns a class that passes as `original`, but a call of it returns make(...).

    Classes of extension modules cannot be changed, and some cannot be
    derived from."""

    class Like(type):
        def __call__(cls, *arguments, **options):
            return make(*arguments, **options)

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, other):
            return issubclass(other, original)

        def __getattr__(cls, name):
            return getattr(original, name)

    return Like(
        original.__name__,
        (),
        {"__doc__": original.__doc__, "__module__": original.__module__, "__slots__": ()},
    )
