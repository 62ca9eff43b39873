"""Serves the session socket of one framework: one capture at a time.

A process with several frameworks has one of these for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .capture import Capture, Exiting
from .channel import Channel
from .request import Refused, parse
from .steps import steps_of

if TYPE_CHECKING:
    from .announce import Directory
    from .recorder import Recorder


class FrameworkService:
    """Used by one thread, except end().

    `stem` begins the names of its files; `rivals` are all services of the process, including this
    one.
    """

    def __init__(self, directory: Directory, stem: str, rivals: list[FrameworkService]) -> None:
        self.directory, self.stem, self.rivals = directory, stem, rivals
        self.socket_name = f"{stem}.sock"
        self.framework = self.recorder = None  # Until the framework is usable.
        self.exiting = False
        self.channel = Channel(directory, self.socket_name)

    def take(self, framework: str, recorder: Recorder) -> None:
        self.framework, self.recorder = framework, recorder

    def leads(self) -> bool:
        """Whether this framework records what only one profiler of a process can: devices (CUPTI)
        and calls of Python functions.

        CUPTI reports to one profiler all work on devices, whichever framework started it.
        """
        return self._leader() is self

    def would_disturb(self) -> str | None:
        """The framework that would lose its devices to this one's profiler, or None.

        The profiler takes devices even if it records none.
        """
        leader = self._leader()
        takes = (
            leader is not self and self.recorder.takes_devices and leader.recorder.uses_devices()
        )
        return leader.framework if takes else None

    def is_aside(self) -> bool:
        """Whether the program seems to train with another framework: this one is imported, and
        never told a step.
        """
        return len(self.rivals) > 1 and not self._tells_steps()

    def _leader(self) -> FrameworkService:
        usable = [service for service in list(self.rivals) if service.recorder is not None]
        return min(
            usable,
            key=lambda service: (
                not service.recorder.uses_devices(),
                not service._tells_steps(),
                service.recorder.place,
            ),
        )

    def _tells_steps(self) -> bool:
        return bool(steps_of(self.framework).loops)

    def run(self) -> None:
        """Serves until the program ends."""
        try:
            while not self.exiting:
                self.serve(None)
        except Exiting:
            self.recorder.leave()
        except OSError:  # There are no descriptors left.
            self.directory.remove(self.socket_name)

    def serve(self, seconds: float | None) -> None:
        """Serves at most one client, and waits for it for at most `seconds`.

        Raises Exiting if the program ends meanwhile.
        """
        asked = self.channel.wait(seconds)
        if asked is None or self.exiting:
            return
        connection, line = asked
        try:
            request = parse(line, [self.framework] if self.framework else [])
        except Refused as refused:
            return connection.refuse(refused.outcome, refused.message)
        self.channel.refuse_others()
        self.channel.active = connection
        try:
            Capture(request, self.recorder, connection, self).run()
        finally:
            self.channel.active = None

    def end(self) -> None:
        """Called from any thread."""
        self.exiting = True
        self.channel.wake()

    def forget(self) -> None:
        """Called in a forked child."""
        self.channel.close()
        if self.recorder is not None:
            self.recorder.after_fork()
