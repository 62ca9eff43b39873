"""Starts a recording at the boundary of a step, in the program's own thread: nothing of the step
runs before it.
"""

from __future__ import annotations

from typing import Callable, TYPE_CHECKING

from .failure import is_the_programs
from .own_thread import new_lock
from .request import Refused, Step

if TYPE_CHECKING:
    from .recorder import Recorder


class StepGate:
    """The hooks of steps.py call begin() and end(); the service's thread reads the rest."""

    def __init__(self, step: Step, recorder: Recorder, wake: Callable[[], None]) -> None:
        self.loop, self.first, self.count = step.loop, step.first, step.count
        self.last = step.first + step.count - 1
        self.recorder, self.wake = recorder, wake
        self.began = None  # The step at which the recording began.
        self.ended = False  # The last step has ended, or the recording could not begin.
        self.error = None
        # Held while the recording is started; for good once the gate is closed.
        self._lock = new_lock()

    def begin(self, loop: str, number: int) -> None:
        if loop != self.loop or self.ended or number < self.first:
            return
        if self.began is None:
            self._start(number)
        elif number > self.last:
            self._end()

    def end(self, loop: str, number: int) -> None:
        if loop == self.loop and number >= self.last and self.began is not None and not self.ended:
            self._end()

    def close(self) -> None:
        """Closes the gate: from now on no recording is started."""
        self._lock.acquire()

    def _start(self, number: int) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            with self.recorder.turn.lent():
                self.recorder.start(0)
            if number > self.last:  # All of them have passed: it shows as many others.
                self.last = number + self.count - 1
            self.began = number
        except Exception as error:
            self.error, self.ended = error, True
            if is_the_programs(error):
                self.error = Refused(
                    "ProfilerStartFailed",
                    "a signal handler of the program interrupted the start of the recording",
                )
                raise
        finally:
            self._lock.release()
            self.wake()

    def _end(self) -> None:
        self.ended = True
        self.wake()
