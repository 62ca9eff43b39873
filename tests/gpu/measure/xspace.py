"""Reads .xplane.pb files without protobuf, whose version differs from machine to machine. See proto/tensorflow/xplane.proto."""

from typing import NamedTuple


class Event(NamedTuple):
    name: str
    begin_ps: int
    end_ps: int
    stats: dict  # The wanted ones: name -> value.


class Line(NamedTuple):
    name: str
    events: list


class Plane(NamedTuple):
    name: str
    lines: list
    stats: dict


class Space(NamedTuple):
    planes: list
    errors: list
    warnings: list

    def plane(self, name):
        return next((plane for plane in self.planes if plane.name == name), Plane(name, [], {}))


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data, at, end):
    """Number and value of each field; of one with a length, its begin and end."""
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            size, at = _varint(data, at)
            value = at, at + size
            at += size
        elif kind in (1, 5):
            value = at, at + (8 if kind == 1 else 4)
            at = value[1]
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _text(data, span):
    return data[span[0]:span[1]].decode(errors="replace")


def _names(data, entries):
    """id -> name of the metadata in map entries."""
    found = {}
    for entry in entries:
        parts = dict(_fields(data, *entry))
        value = dict(_fields(data, *parts[2])) if 2 in parts else {}
        found[_signed(parts.get(1, 0))] = _text(data, value[2]) if 2 in value else ""
    return found


def _stats(data, spans, names, wanted):
    found = {}
    for span in spans:
        parts = dict(_fields(data, *span))
        name = names.get(_signed(parts.pop(1, 0)))
        if wanted is not None and name not in wanted:
            continue
        for number, value in parts.items():
            if number == 7:
                value = names.get(value, "")
            elif number == 4:
                value = _signed(value)
            elif number in (5, 6):
                value = _text(data, value)
            found[name] = value
    return found


def _line(data, span, kinds, names, wanted):
    name, start_ns, events = "", 0, []
    for number, value in _fields(data, *span):
        if number == 2:
            name = _text(data, value)
        elif number == 3:
            start_ns = _signed(value)
        elif number == 4:
            events.append(value)
    made = []
    for event in events:
        kind = offset = duration = 0
        stats = []
        for number, value in _fields(data, *event):
            if number == 1:
                kind = _signed(value)
            elif number == 2:
                offset = _signed(value)
            elif number == 3:
                duration = _signed(value)
            elif number == 4:
                stats.append(value)
        begin = start_ns * 1000 + offset
        made.append(Event(kinds.get(kind, ""), begin, begin + duration, _stats(data, stats, names, wanted)))
    return Line(name, made)


def _plane(data, span, wanted):
    parts = {number: [] for number in (2, 3, 4, 5, 6)}
    for number, value in _fields(data, *span):
        if number in parts:
            parts[number].append(value)
    kinds, names = _names(data, parts[4]), _names(data, parts[5])
    return Plane(_text(data, parts[2][-1]) if parts[2] else "", [_line(data, line, kinds, names, wanted) for line in parts[3]],
                 _stats(data, parts[6], names, None))


def parse(data, wanted):
    """`wanted` names the stats of events that are kept."""
    space = Space([], [], [])
    for number, value in _fields(data, 0, len(data)):
        if number == 1:
            space.planes.append(_plane(data, value, wanted))
        elif number in (2, 3):
            (space.errors if number == 2 else space.warnings).append(_text(data, value))
    return space
