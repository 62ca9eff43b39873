"""One capture: waits for its instant, drives a recorder, tells the client, and leaves no file
unless the client was told of it.
"""

from __future__ import annotations

import errno
import time
from typing import Any, Callable, TYPE_CHECKING

from .changes import short_switch_interval
from .memory import Memory
from .own_thread import original
from .process import ranks
from .request import Refused, Request, alone_on_host, decode, why_alone_on_host
from .step_gate import StepGate
from .steps import steps_of

if TYPE_CHECKING:
    from .channel import Connection
    from .recorder import Recorder

_SPIN_FREE_NS = 3 * 10**6  # poll() counts in milliseconds, so the last ones are slept exactly.
# Both waits together are shorter than the program's: _LONGEST_WAIT_S in turn.py.
_YIELD_NS = 290 * 10**9
_SECONDS_BETWEEN_READINGS = 0.1
_HOLD_NS = 600 * 10**9  # After its window, a holder may take this long to collect.

# What the client is told of a recording that was kept although it ended early.
_EARLY = {
    "demand": "the program started a profiler session of its own",
    "exit": "the program ended while it was recorded; the trace has what it ran until then",
}

_sleep = original("time", "sleep")


class Exiting(Exception):
    """The program is ending.

    A recording is left running, because stopping it takes time that the program should not wait
    for.
    """


class Capture:
    """`service` is the FrameworkService in whose thread it runs."""

    def __init__(
        self,
        request: Request,
        recorder: Recorder,
        connection: Connection,
        service: Any,
    ) -> None:
        self.request, self.recorder, self.connection, self.service = (
            request,
            recorder,
            connection,
            service,
        )
        self.told = False  # Whether the program's demand for its profiler has been noticed.
        self.disturbed = None  # The framework that would lose its devices.
        self.early = None  # Why the recording ends before its time: stop, cancel, demand or exit.
        self.memory = Memory() if request.tell_memory else None

    def run(self) -> None:
        """Runs to the end and answers the client. Raises only Exiting."""
        try:
            message = self.recorder.busy()
            self.disturbed = self.service.would_disturb()
            if self.disturbed is not None:
                raise Refused(
                    "Busy",
                    f"{self.disturbed} records the devices of this process, and this profiler "
                    "would take them over",
                )
            if message is not None or not self.recorder.turn.take(self.service.channel.wake):
                raise Refused("Busy", message or "the program profiles itself")
            try:
                self.recorder.make_safe()
                if self.request.op == "hold":
                    self._hold()
                elif self.request.step:
                    self._record_steps()
                else:
                    self._record()
            except Exiting:
                raise
            except Exception:
                self.recorder.discard()
                raise
            finally:
                self.recorder.turn.release()
        except Refused as refused:
            self.connection.refuse(
                refused.outcome,
                refused.message,
                **({"aside": True} if self._is_aside(refused.outcome) else {}),
            )
        except Exiting:
            raise
        except Exception as error:
            self.connection.say(
                state="failed",
                outcome="ProfilerStartFailed",
                message=f"{type(error).__name__}: {error}"[:500],
            )
        finally:
            self.connection.close()

    def _is_aside(self, outcome: str) -> bool:
        """Whether another framework of the process has what the client asked for, so that nothing
        is missing without this one.
        """
        if self.request.host == 0 and not self.service.leads():
            return True
        return (
            outcome == "VersionMismatch" or self.disturbed is not None
        ) and self.service.is_aside()

    def _fail(self, outcome: str, message: str) -> None:
        self.connection.say(state="failed", outcome=outcome, message=message[:500])

    def _wait(self, until_ns: int, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Waits until an instant, or until something ends the capture early, which becomes `early`.

        Sleeps without the interpreter's lock.
        """
        while self.early is None:
            left = until_ns - clock_ns()
            if left <= _SPIN_FREE_NS:
                if left > 0:
                    _sleep(left / 1e9)
                return
            self.early = self._what_happens((left - _SPIN_FREE_NS) / 1e9 + 0.001)

    def _what_happens(self, seconds: float) -> str | None:
        """Waits for at most some seconds; returns what ends the capture, or None."""
        seconds = min(seconds, self._tell_memory())
        spoke = (
            b"\n" in self.connection.buffer
            or self.service.channel.wait(seconds, self.connection) is not None
        )
        if self.service.exiting:
            if self.recorder.recording and self.recorder.ends_at_exit:
                return "exit"
            raise Exiting
        if self.recorder.turn.demanded and not self.told:
            self.told = True
            return "demand"
        if not spoke:
            return None
        line = self.connection.read()
        if self.connection.closed or self.connection.too_long():
            return "cancel"
        if line is None:
            return None
        try:
            op = decode(line).get("op")
            return op if op == ("release" if self.request.op == "hold" else "stop") else "cancel"
        except Refused:
            return "cancel"

    def _tell_memory(self) -> float:
        """Tells the sidecar, if it asked, how close the container is to its memory limit.

        Returns the seconds until the next time.
        """
        use = self.memory.closest() if self.memory is not None else None
        if use is None:  # Without a limit there is nothing to tell.
            self.memory = None
            return 10
        steps_of(self.request.framework).marks.tell_memory(*use)
        return _SECONDS_BETWEEN_READINGS

    def _hold(self) -> None:
        """The sidecar records through the framework's server.

        This process only says when the program wants its profiler back.
        """
        request = self.request
        # The sidecar asks for NVIDIA's devices only if make_safe() has done what they need. It does
        # nothing for a program that uses none, which may begin to use them before the server's
        # session ends.
        ready = (
            {"safe": True}
            if self.recorder.uses_devices()
            else {"safe": False, "message": "it used none when the recording was prepared"}
        )
        leads = self.service.leads()
        note = {"note": self.recorder.stays} if leads and self.recorder.stays else {}
        if not self.connection.say(state="held", leads=leads, **ready, **note, **ranks()):
            return
        self._wait(
            time.monotonic_ns()
            + max(request.start_ns - time.time_ns(), 0)
            + request.duration_ns
            + _HOLD_NS,
            time.monotonic_ns,
        )
        if self.early == "demand":
            self.connection.say(
                state="yield",
                outcome="Truncated",
                message="the program started a profiler session of its own",
            )
            self.early = None
            # The client releases when the server's session has ended.
            self._wait(time.monotonic_ns() + _YIELD_NS, time.monotonic_ns)
        if self.early != "release":
            self._await_free()

    def _await_free(self) -> None:
        """Waits until the server has collected, after the client is gone or gave up: the program's
        own profiler cannot start before.
        """
        until = time.monotonic() + _YIELD_NS / 1e9
        while not self.recorder.is_free() and time.monotonic() < until:
            _sleep(0.02)
            if self.service.exiting:
                raise Exiting

    def _record(self) -> None:
        request, recorder = self.request, self.recorder
        start_ns = max(request.start_ns, time.time_ns())
        self._wait(start_ns - recorder.prepare_ahead_ns())
        if self.early is None:
            self._prepare(start_ns)
        self._wait(start_ns - recorder.wake_ahead_ns - 10 * _SPIN_FREE_NS)
        if self.early is not None:
            return self._end_before_start()
        # By the monotonic clock: a wall clock that is set back would lengthen the recording by as
        # much.
        ends_ns = start_ns + request.duration_ns + time.monotonic_ns() - time.time_ns()
        self._start(start_ns)
        self._say_recording()
        self._wait(ends_ns, time.monotonic_ns)
        self._stop()

    def _prepare(self, start_ns: int) -> None:
        leads = self.service.leads()
        self.recorder.prepare(self.request if leads else alone_on_host(self.request), start_ns)
        notes = [
            note
            for note in (
                self.recorder.note,
                self.recorder.stays,
                None if leads else why_alone_on_host(self.request),
            )
            if note
        ]
        note = {"note": "; ".join(notes)} if notes else {}
        if not self.connection.say(state="prepared", **ranks(), **note):
            self.early = "cancel"

    def _say_recording(self) -> None:
        if not self.connection.say(state="recording", started_ns=self.recorder.started_ns):
            self.early = "cancel"

    def _record_steps(self) -> None:
        """The program's thread starts the recording where it begins the first step, and says where
        it ends the last one.
        """
        step = self.request.step
        self._prepare(time.time_ns())
        steps = steps_of(self.request.framework)
        steps.gate = gate = StepGate(step, self.recorder, self.service.channel.wake)
        try:
            self._wait_for(lambda: gate.began is not None or gate.ended, step.by_ns)
            if gate.began is not None:
                self._say_recording()
            self._wait_for(lambda: gate.ended, step.by_ns)
        finally:
            steps.gate = None
            gate.close()
        if gate.error is not None:
            raise gate.error
        if gate.began is not None:
            return self._stop()
        if self.early is not None:
            return self._end_before_start()
        at = steps.last(step.loop)  # Before anything that takes time.
        self.recorder.discard()
        self._fail(
            "LateStart",
            f"step {step.first} of {step.loop} did not begin in time; the process is at "
            f"{'no step' if at is None else f'step {at}'}",
        )

    def _wait_for(self, happened: Callable[[], bool], until_ns: int) -> None:
        while self.early is None and not happened():
            left = until_ns - time.time_ns()
            if left <= 0:
                return
            self.early = self._what_happens(left / 1e9 + 0.001)

    def _start(self, start_ns: int) -> None:
        with short_switch_interval():
            left = start_ns - self.recorder.wake_ahead_ns - time.time_ns()
            if left > 0:
                _sleep(left / 1e9)
            self.recorder.start(start_ns)

    def _end_before_start(self) -> None:
        self.recorder.discard()
        if self.early == "demand":
            self._fail(
                "Busy",
                "the program started a profiler session of its own before the recording began",
            )
        elif self.early == "stop":
            self._fail("Cancelled", "ended before the recording began")

    def _stop(self) -> None:
        recorder, early = self.recorder, self.early
        recorder.stop()
        recorder.turn.release()  # The program need not wait until the trace is saved.
        if early == "cancel" or not self.connection.say(
            state="stopped", stopped_ns=recorder.stopped_ns, stop_took_ns=recorder.stop_took_ns
        ):
            return recorder.discard()
        if self.service.exiting and not recorder.ends_at_exit:
            raise Exiting
        name = f"{self.service.stem}-{recorder.started_ns}.{recorder.suffix}"
        try:
            size = self._save(name)
        except Refused as refused:
            return self._fail(refused.outcome, refused.message)
        except OSError as error:
            if self.service.exiting:  # The program did not wait, and has removed the files.
                raise Exiting from None
            return self._fail(
                "SpoolFull"
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "ProfilerStartFailed",
                str(error),
            )
        finally:
            recorder.discard()
        told = {"outcome": "Truncated", "message": _EARLY[early]} if early in _EARLY else {}
        if not self.connection.say(
            state="done",
            file=name,
            format=recorder.format,
            bytes=size,
            started_ns=recorder.started_ns,
            stopped_ns=recorder.stopped_ns,
            **recorder.details(),
            **told,
        ):
            self.service.directory.remove(name)

    def _save(self, name: str) -> int:
        """Writes the trace under a hidden name, and gives it its own when it is complete.

        Returns its size.
        """
        directory, hidden = self.service.directory, f".{name}.new"
        partial = hidden + ".tmp"  # Kineto writes its file under this name.
        try:
            for made in (hidden, partial):
                directory.owns(made)
            self.recorder.save(directory, hidden)
            # On a full volume, Kineto leaves it there and raises nothing.
            if directory.has(partial):
                raise Refused(
                    "SpoolFull",
                    "the trace could not be written: the shared volume is full; enlarge it "
                    "(strobe.dev/agent-memory)",
                )
            size = directory.size(hidden)
            if size > self.request.max_bytes:
                raise Refused(
                    "Truncated",
                    f"the trace has {size} bytes, more than the allowed {self.request.max_bytes}",
                )
            directory.keep(hidden, name)
            return size
        finally:
            directory.remove(hidden)
            directory.remove(partial)
