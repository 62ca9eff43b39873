"""Records JAX by jaxlib's own profiler session, from the service's thread."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Iterator, TYPE_CHECKING

from .cupti_detach import STAYS_ATTACHED, keep_cupti_attached, keeps_cupti
from .frameworks import profiler_of, release
from .recorder import Recorder, intercept, original_of, records
from .request import Refused

if TYPE_CHECKING:
    from .announce import Directory
    from .request import Request


# Where an XSpace says when its profiler began.
_PLANE = "Task Environment"
_STAT = "profile_start_time"


def _is_taken(error: Exception) -> bool:
    """Whether a session failed because another one is active."""
    return "ALREADY_EXISTS" in str(error) or "nother profil" in str(error)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no varint")


def _fields(data: Any) -> Iterator[tuple[int, Any]]:
    """Yields (number, value) of a message's fields; values of length-delimited ones are views."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut off")
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("no such wire type")
        yield key >> 3, value


def _stat_names(plane: Any) -> Iterator[tuple[int, str]]:
    """Names of a plane's stats, by id (XPlane.stat_metadata)."""
    for number, entry in _fields(plane):
        if number == 5:
            metadata = dict(_fields(entry)).get(2, b"")
            found = dict(_fields(metadata))
            yield found.get(1, 0), bytes(found.get(2, b"")).decode(errors="replace")


def _profile_start_ns(data: bytes) -> int | None:
    """profile_start_time of the plane `Task Environment`, in Unix nanoseconds; None if there is
    none.
    """
    try:
        for number, plane in _fields(memoryview(data)):
            if (
                number != 1
                or bytes(next((value for field, value in _fields(plane) if field == 2), b""))
                != _PLANE.encode()
            ):
                continue
            names = dict(_stat_names(plane))
            for field, stat in _fields(plane):
                if field == 6:
                    values = dict(_fields(stat))
                    if names.get(values.get(1)) == _STAT:
                        return values.get(3) or values.get(4)  # uint64_value or int64_value
    except (ValueError, IndexError, TypeError):
        pass
    return None


@records("jax")
class JaxRecorder(Recorder):
    format, suffix = "xspace", "xplane.pb"
    # The session waits for the instant exactly, but holds the interpreter's lock meanwhile.
    wake_ahead_ns = 8 * 10**6

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory)
        self.profiler = profiler_of("jax")
        self.data = None
        self.version = getattr(
            sys.modules.get("jaxlib"), "__version__", sys.modules["jax"].__version__
        )
        if release(self.version) < (0, 8, 2):
            self.note = (
                "jaxlib before 0.8.2 holds the interpreter while a recording stops: training "
                "pauses for up to several seconds"
            )
        self.make_session = original_of(self.profiler.ProfilerSession)
        intercept(self.profiler, "ProfilerSession", self._program_begins)
        # jax.profiler's state says whether the program's session is still there.

    def _program_begins(self) -> None:
        if not self.turn.is_ours():
            self.turn.program_begins()
            self.turn.program_ends()

    def busy(self) -> str | None:
        state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
        return (
            "the program profiles itself (jax.profiler)"
            if getattr(state, "profile_session", None) is not None
            else None
        )

    def is_free(self) -> bool:
        options = self.profiler.ProfileOptions()
        options.host_tracer_level = options.python_tracer_level = 0
        try:
            self.make_session(options).stop()
        except Exception as error:
            return not _is_taken(error)
        return True

    def uses_devices(self) -> bool:
        try:
            return any(
                name not in ("cpu", "interpreter")
                for name in list(sys.modules["jax._src.xla_bridge"]._backends)
            )
        except (AttributeError, KeyError, TypeError):
            return False

    def make_safe(self) -> None:
        if self.uses_devices():
            keep_cupti_attached()
            self.stays = STAYS_ATTACHED if keeps_cupti() else None

    def prepare(self, request: Request, start_ns: int) -> None:
        if self.note is not None and not request.may_stall:
            raise Refused(
                "VersionMismatch",
                f"jaxlib {self.version} would pause training for up to several seconds at the end "
                "of a recording; jaxlib 0.8.2 does "
                'not; strobe.dev/allow-stalls: "true" on the pod (--allow-stalls of the sidecar) '
                "records it anyway",
            )
        self.options = self.profiler.ProfileOptions()
        self.options.host_tracer_level = request.host
        self.options.python_tracer_level = request.python

    def start(self, start_ns: int) -> None:
        # The session sleeps until start_ns with the interpreter's lock held. Not if the clock was
        # set back: the sleep would be long.
        if 0 < start_ns - time.time_ns() <= 2 * self.wake_ahead_ns:
            self.options.start_timestamp_ns = start_ns
        self.session = self.make_session(self.options)
        self.recording = True
        self.started_ns = time.time_ns()
        if not keeps_cupti():
            self.make_safe()  # Again, for a copy of CUPTI that the session has found elsewhere.

    def _stop(self) -> None:
        session, self.session, self.recording = self.session, None, False
        try:
            self.data = session.stop()
        except Exception as error:
            if _is_taken(error):
                raise Refused("Busy", "another profiler session was active in the process")
            raise
        # The session's own record of its start is exact; ours comes after it.
        began = _profile_start_ns(self.data)
        if began is not None and abs(began - self.started_ns) < 60 * 10**9:
            self.started_ns = began

    def save(self, directory: Directory, hidden: str) -> None:
        fd = directory.create(hidden)
        with os.fdopen(fd, "wb") as file:
            file.write(self.data)

    def discard(self) -> None:
        if self.recording:
            try:
                self._stop()
            except Exception:
                pass
        self.session = self.data = None
