"""Compares what Strobe reads of one trace file with three readers that know nothing of it: Python's json, Perfetto's engine and XProf."""

import gzip
import json
import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from tests.support.perfetto import perfetto
from tests.support.processes import BIN

DEVICES = ("gpu_memcpy", "gpu_memset", "mtia_ccp_events")  # Categories that only devices have.
# What starts a device's work, by its category.
LAUNCHES = re.compile(r"runtime|driver", re.IGNORECASE)
# Names of which what a server's batch holds is no part.
KINDS = ((r"execute_(\d+_)?context_\d+\(.*", "execute_model"), (r"(step\[\w+) bs=.*\]", r"\1]"))
# Perfetto's own losses: spans that overlap another one of their thread without being nested in it, and spans of negative length.
DROPPED = "select ifnull(sum(value), 0) from stats where name in ('slice_drop_overlapping_complete_event', 'slice_negative_duration')"


@dataclass
class Found:
    problems: list
    figures: str


def strobe(*arguments):
    done = subprocess.run([BIN / "strobe", *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"strobe {arguments[0]}: {done.stderr[-500:]}"
    return done.stdout


def events_of(path):
    """The events of a file in Chrome's JSON format, with decimals as text so that times are compared exactly; None if it holds no trace."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        read = json.load(file, parse_float=str)
    events = read if isinstance(read, list) else read.get("traceEvents")
    return None if events is None else [event for event in events if isinstance(event, dict) and "ph" in event]


def picoseconds(micros):
    return int(Fraction(micros) * 10**6)


def spans_of(events):
    """Name, begin and length in ps, and the event itself, of what has both times: X, and pairs of B and E by time."""
    spans, opened = [], defaultdict(list)
    timed = [event for event in events if event["ph"] in ("X", "B", "E") and event.get("ts") is not None]
    for event in sorted(timed, key=lambda event: Fraction(event["ts"])):
        thread, begin = opened[event.get("pid"), event.get("tid")], picoseconds(event["ts"])
        if event["ph"] == "X":
            spans.append((event["name"], begin, picoseconds(event.get("dur", 0)), event))
        elif event["ph"] == "B":
            thread.append((event["name"], begin, event))
        elif thread:
            name, began, first = thread.pop()
            spans.append((name, began, begin - began, first))
    return spans


def planes_of(space):
    """Plane, line, name, begin and length in ps, and stats, of all events."""
    for plane in space.planes:
        names = {id: metadata.name for id, metadata in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    stats[names[stat.metadata_id]] = names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)
                yield plane.name, line.name, plane.event_metadata[event.metadata_id].name, line.timestamp_ns * 1000 + event.offset_ps, event.duration_ps, stats


def own_name(name, stats):
    """The name in the file. XPlanes have the number of Kineto's `ProfilerStep#N` as a stat."""
    return f"{name}#{stats['step_num']}" if name == "ProfilerStep" and "step_num" in stats else name


def kind_of(name):
    return next((re.sub(pattern, kind, name) for pattern, kind in KINDS if re.fullmatch(pattern, name)), name)


def check_spans(spans, read):
    """Every span is there, as long as it was and as far from the first of them."""
    kept = [(own_name(name, stats), begin, length) for _, line, name, begin, length, stats in read if line != "_counters_"]
    wanted = missing = Counter((kind_of(name), begin, length) for name, begin, length, _ in spans)
    for zero in {begin for name, begin, _ in kept if spans and name == kind_of(spans[0][0])}:  # Which of that name is the first one is not known.
        missing = wanted - Counter((name, begin - zero + spans[0][1], length) for name, begin, length in kept)
        if not missing:
            return []
    return [f"{sum(missing.values())} of {len(spans)} spans are missing, such as {next(iter(missing))}"] if spans and kept else [f"none of {len(spans)} spans"]


def check_details(spans, read):
    # ROCm's launches have them too.
    written = sum(1 for *_, event in spans if {"grid", "block"} <= args_of(event).keys() and is_device_work(event))
    kept = sum(1 for *_, stats in read if "kernel_details" in stats)
    return [f"{kept} of {written} kernels have details"] if kept != written else []


def args_of(event):
    return event["args"] if isinstance(event.get("args"), dict) else {}


def place_of(event, begin):
    return str(event.get("pid")), str(event.get("tid")), begin


def arrow_ends(events, phase, categories=None):
    """The ids of the arrows that begin (s) or end (f) at each place; without categories those of all."""
    ends = defaultdict(set)
    for event in (event for event in events if event["ph"] == phase and (categories is None or event.get("cat") in categories)):
        ends[place_of(event, picoseconds(event["ts"]))].add(str(event.get("id")))
    return ends


def check_arrows(path, events, spans, folder):
    """In the export, arrows lead to all that a launch started on a device and to what the file's own arrows lead to, and to nothing else there."""
    launches = {args_of(event)["correlation"] for *_, event in spans if "correlation" in args_of(event) and LAUNCHES.search(str(event.get("cat")))}
    begun = set().union(*arrow_ends(events, "s").values())
    told = {place for place, ids in arrow_ends(events, "f").items() if ids & begun}
    started = sum(1 for _, begin, _, event in spans if is_on_device(event) and
                  (args_of(event).get("correlation") in launches or place_of(event, begin) in told))
    strobe("convert", path, "-o", folder / "export.json")
    export = json.loads((folder / "export.json").read_text())["traceEvents"]
    devices = {event["pid"] for event in export if event["ph"] == "M" and event["name"] == "process_name" and "/device:" in event["args"]["name"]}
    begun = {event["id"] for event in export if event["ph"] == "s"}  # A launch from before the recording is not there.
    kept = len({(event["pid"], event["tid"], event["ts"]) for event in export if event["ph"] == "f" and event["pid"] in devices and event["id"] in begun})
    return [f"{kept} of {started} events on devices have the arrow of their launch"] if kept != started else []


def is_on_device(event):
    return event.get("cat") in DEVICES or {"stream", "device"} <= args_of(event).keys() and not LAUNCHES.search(str(event.get("cat")))


def is_device_work(event):
    """Annotations and waits are on a device's streams too."""
    return is_on_device(event) and "annotation" not in str(event.get("cat")) and "sync" not in str(event.get("cat"))


def union(spans):
    """How long at least one of the spans (begin, length) runs."""
    total, end = 0, None
    for begin, length in sorted(spans):
        if end is None or begin >= end:
            total, end = total + length, begin + length
        elif begin + length > end:
            total, end = total + begin + length - end, begin + length
    return total


def check_time(path, spans):
    """A device's time with work is the union of the work on its streams. CPUs are not compared: which operators are their work is Strobe's own rule."""
    devices = defaultdict(list)
    for _, begin, length, event in spans:
        if is_device_work(event):
            devices[args_of(event).get("device", event.get("pid"))].append((begin, length))
    (worker, *_) = json.loads(strobe("report", path, "--output", "json"))["workers"]
    wanted = sorted(union(works) / 1000 for works in devices.values())
    found = sorted(sum(device["time"][part] for part in ("computeNs", "exposedCommunicationNs", "exposedCopiesNs"))
                   for device in worker["devices"] if device["name"].startswith("/device:"))
    # The framework's own number of a device, by which it tells its memory, may be another one than the driver's.
    found = [nanoseconds for nanoseconds in found if nanoseconds > 0]
    if len(wanted) != len(found) or any(abs(a - b) > 1000 for a, b in zip(wanted, found, strict=True)):
        return [f"devices work {found} ns, by an own union {wanted}"]
    return []


def check_perfetto(path, spans):
    """Perfetto's engine reads the file itself."""
    (count,), (dropped,) = perfetto(path, "select count(*) from slice s join thread_track t on s.track_id = t.id where s.dur >= 0", DROPPED, timeout=600)
    lost = len(spans) - count[0] - dropped[0]
    return [f"Perfetto has {count[0]} spans and dropped {dropped[0]}, of {len(spans)}"] if lost > 0 else []


def check_xplane(path, folder):
    """XProf shows as many events as Strobe converts."""
    from tensorflow import xplane_pb2
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    written = Counter(name for _, line, name, *_ in planes_of(space) if line != "_counters_")
    theirs = Counter(re.sub(r" \d+$", "", event["name"]) for event in json.loads(data)["traceEvents"] if event.get("ph") == "X") & written  # It derives more.
    strobe("convert", path, "-o", folder / "converted.json")
    ours = Counter(re.sub(r" \d+$", "", event["name"]) for event in json.loads((folder / "converted.json").read_text())["traceEvents"] if event.get("ph") == "X")
    missing = theirs - ours
    return Found([f"{sum(missing.values())} events that XProf shows are missing, such as {next(iter(missing))!r}"] if missing else [],
                 f"{sum(ours.values())} events")


def check(path, folder):
    """What is wrong with how Strobe reads a file, and its figures; None if it holds no trace. Files are written into the folder."""
    if path.name.endswith(".xplane.pb"):
        return check_xplane(path, folder)
    events = events_of(path)
    if events is None:
        return None
    from tensorflow import xplane_pb2

    strobe("convert", path, "--to", "xplane", "-o", folder / "read.xplane.pb")
    read = list(planes_of(xplane_pb2.XSpace.FromString((folder / "read.xplane.pb").read_bytes())))
    spans = spans_of(events)
    problems = check_spans(spans, read) + check_details(spans, read) + check_arrows(path, events, spans, folder) + check_time(path, spans) + check_perfetto(path, spans)
    return Found(problems, f"{len(spans)} spans")
