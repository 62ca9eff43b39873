"""Requests on the session socket.

Whatever a client sends becomes a valid Request or a Refused with a message for it.
"""

from __future__ import annotations

import json
import time
from collections import namedtuple
from typing import Any, Sequence

MAX_LINE = 8192
_MAX_ID = 128
_MAX_AHEAD_NS = _MAX_DURATION_NS = 3600 * 10**9
_MAX_STEPS, _LAST_STEP = 10_000, 1 << 53
_TORCH = ("shapes", "stacks", "memory", "flops", "modules")

# `step` is None, or the steps to record instead of the time. `may_stall`: training may stand still
# while the recording stops, for at most `max_pause_ns` if that is not 0. `kernels_only`: of a
# process that uses devices, only what ran on them. `detach`: CUPTI is detached afterwards, where
# that is safe.
Request = namedtuple(
    "Request",
    "op id framework start_ns duration_ns host device python torch max_bytes step may_stall "
    "max_pause_ns tell_memory kernels_only detach",
)
Step = namedtuple("Step", "loop first count by_ns")


class Refused(Exception):
    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


def _invalid(message: str) -> Refused:
    return Refused("InvalidRequest", message)


def _number(fields: dict, name: str, low: int, high: int, default: int | None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _invalid(f"{name} must be an integer from {low} to {high}")
    return value


def _flag(fields: dict, name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise _invalid(f"{name} must be true or false")
    return value


def _object(fields: dict, name: str) -> dict:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise _invalid(f"{name} must be an object")
    return value


def _text(fields: dict, name: str, default: str | None) -> str | None:
    value = fields.get(name, default)
    if value is not default and (
        not isinstance(value, str) or len(value) > _MAX_ID or not value.isprintable()
    ):
        raise _invalid(f"{name} must be printable text of at most {_MAX_ID} characters")
    return value


def _step(fields: dict, now: int) -> Step | None:
    if "step" not in fields:
        return None
    step = _object(fields, "step")
    return Step(
        loop=_text(step, "loop", ""),
        first=_number(step, "first", 0, _LAST_STEP, None),
        count=_number(step, "count", 1, _MAX_STEPS, None),
        by_ns=_number(step, "by_ns", 0, now + 3 * _MAX_AHEAD_NS, None),
    )


def decode(line: bytes) -> dict:
    """The JSON object in a line."""
    try:
        fields = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise _invalid("not a line of JSON")
    if not isinstance(fields, dict):
        raise _invalid("not a JSON object")
    return fields


def parse(line: bytes, frameworks: Sequence[str]) -> Request:
    """The request in a line.

    `frameworks` are those that this process has; the first is the default.
    """
    fields = decode(line)
    op = fields.get("op")
    if op not in ("capture", "hold"):
        raise _invalid("op must be capture or hold")
    framework = _text(fields, "framework", frameworks[0] if frameworks else None)
    if framework not in frameworks:
        raise Refused("NoSource", "this process has no such framework")
    capture = op == "capture"
    now = time.time_ns()
    tracers, options = _object(fields, "tracers"), _object(fields, "torch")
    wanted = frozenset(name for name in _TORCH if _flag(options, name))
    return Request(
        op=op,
        id=_text(fields, "id", ""),
        framework=framework,
        start_ns=_number(fields, "start_ns", 0, now + _MAX_AHEAD_NS, 0),
        duration_ns=_number(
            fields, "duration_ns", 10**6 if capture else 0, _MAX_DURATION_NS, None if capture else 0
        ),
        host=_number(tracers, "host", 0, 3, 2),
        device=_number(tracers, "device", 0, 1, 1),
        python=_number(tracers, "python", 0, 1, 0),
        torch=wanted,
        max_bytes=_number(fields, "max_bytes", 1, 1 << 62, 1 << 31),
        step=_step(fields, now),
        may_stall=_flag(fields, "may_stall"),
        max_pause_ns=_number(fields, "max_pause_ns", 0, _MAX_DURATION_NS, 0),
        tell_memory=_flag(fields, "tell_memory"),
        kernels_only=_flag(tracers, "kernels_only") and not wanted,
        detach=_flag(tracers, "detach"),
    )


def alone_on_host(request: Request) -> Request:
    """The request without what only one profiler of a process can record; see
    FrameworkService.leads.
    """
    return request._replace(device=0, python=0, torch=request.torch - {"stacks", "modules"})


def why_alone_on_host(request: Request) -> str | None:
    """Why alone_on_host() left something out, for the client.

    None if that is nothing, or only devices, which the other framework records.
    """
    if request.python or {"stacks", "modules"} & request.torch:
        return "Python calls are recorded only by another framework of the process"
    return None


def line_of(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"
