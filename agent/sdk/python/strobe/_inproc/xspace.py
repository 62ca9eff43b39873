"""Reads one number of a serialized XSpace without protobuf: when the profiler began."""

from __future__ import annotations

from typing import Any, Iterator

_PLANE = "Task Environment"
_STAT = "profile_start_time"


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


def fields(data: Any) -> Iterator[tuple[int, Any]]:
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
    for number, entry in fields(plane):
        if number == 5:
            metadata = dict(fields(entry)).get(2, b"")
            found = dict(fields(metadata))
            yield found.get(1, 0), bytes(found.get(2, b"")).decode(errors="replace")


def profile_start_ns(data: bytes) -> int | None:
    """profile_start_time of the plane `Task Environment`, in Unix nanoseconds; None if there is
    none.
    """
    try:
        for number, plane in fields(memoryview(data)):
            if (
                number != 1
                or bytes(next((value for field, value in fields(plane) if field == 2), b""))
                != _PLANE.encode()
            ):
                continue
            names = dict(_stat_names(plane))
            for field, stat in fields(plane):
                if field == 6:
                    values = dict(fields(stat))
                    if names.get(values.get(1)) == _STAT:
                        return values.get(3) or values.get(4)  # uint64_value or int64_value
    except (ValueError, IndexError, TypeError):
        pass
    return None
