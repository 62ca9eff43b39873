"""An in-process profiler with the interface of MXNet's profiler.

Writes chrome://tracing files and tables.

It works without a sidecar. If a sidecar captures the program, the measurements also appear in the
trace as annotations. If Intel VTune runs the program ($INTEL_LIBITTNOTIFY64 names its collector),
VTune gets domains, tasks, frames, events, counters, markers and pauses.

>>> from strobe import profiler
>>> profiler.set_config(profile_all=True, filename="/tmp/chrome_tracing_profile.json",
...                     aggregate_stats=True)
>>> profiler.set_state("run")
>>> domain = profiler.Domain("training")
>>> with domain.new_task("load"):
...     pass
>>> profiler.pause()
>>> with domain.new_task("not measured"):
...     pass
>>> profiler.resume()
>>> counter = domain.new_counter("images", 0)
>>> counter += 32
>>> domain.new_marker("epoch").mark("process")
>>> profiler.set_state("stop")
>>> print(profiler.dumps().splitlines()[2].split()[:2])
['load', '1']
>>> profiler.dump()
"""

import atexit
import json
import math
import os
import threading
import time
import warnings
from typing import Any, Dict, List, Optional, Tuple

from ._trace import Trace
from ._vtune import itt

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "set_config",
    "set_state",
]

_MAX_EVENTS = 1_000_000
_FLAGS = (
    "profile_all",
    "profile_symbolic",
    "profile_imperative",
    "profile_memory",
    "profile_api",
    "continuous_dump",
    "aggregate_stats",
)
# Chrome's format knows three scopes. MXNet's two others are narrower than a thread.
_MARKER_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class _State:
    """The configuration, the state and the measurements."""

    def __init__(self) -> None:
        self.filename = "profile.json"
        self.flags = dict.fromkeys(_FLAGS, False)
        self.dump_period = 1.0
        self.stop_at_once()
        self.forget()

    def stop_at_once(self) -> None:
        """Also for a forked child: the threads that may have held locks, and the one that writes
        the file, are not in it.
        """
        self.lock = threading.RLock()  # A signal handler may measure while its thread holds it.
        # While a counter changes, by code of the program that may change another.
        self.counting = threading.RLock()
        self.running = self.paused = False
        self.recording = False  # running and not paused; read without the lock.
        self.dumper: Optional[threading.Thread] = None
        self.wake = threading.Event()

    def forget(self) -> None:
        # kind, category, name, thread, begin ns, duration ns, detail
        self.events: List[Tuple[str, str, str, int, int, int, Any]] = []
        self.threads: Dict[int, str] = {}
        self.totals: Dict[str, List[int]] = {}  # name: count, total ns, least, most
        self.dropped = 0

    def add(
        self, kind: str, category: str, name: str, begin: int, duration: int, detail: Any = None
    ) -> None:
        thread = threading.get_ident()
        with self.lock:
            if thread not in self.threads:
                self.threads[thread] = threading.current_thread().name
            if len(self.events) < _MAX_EVENTS:
                self.events.append((kind, category, name, thread, begin, duration, detail))
            else:
                self.dropped += 1
            if kind == "X" and self.flags["aggregate_stats"]:
                total = self.totals.setdefault(name, [0, 0, duration, duration])
                total[0] += 1
                total[1] += duration
                total[2] = min(total[2], duration)
                total[3] = max(total[3], duration)


_state = _State()
os.register_at_fork(after_in_child=_state.stop_at_once)


def set_config(**options: Any) -> None:
    """Sets up the profiler. It must be stopped.

    Args (all optional; an option that is not given keeps its value):
      filename: the file that dump() writes. The default is "profile.json".
      profile_all, profile_symbolic, profile_imperative, profile_memory, profile_api: bool, accepted
      for
        compatibility and ignored. In MXNet they select operators of its engine. Objects of this
        module are always measured.
      continuous_dump: bool, write the file every dump_period seconds while running. MXNet's
        documentation also spells it contiguous_dump.
      dump_period: seconds between such writes, 0.1 to 3600. The default is 1.0.
      aggregate_stats: bool, collect the statistics that dumps() returns.
      profile_process: must be "worker", because there is no other process.
    A bool may also be 0 or 1.

    Raises:
      ValueError: an option is unknown or its value is wrong.
      RuntimeError: the profiler is running.
    """
    if _state.running:
        raise RuntimeError("the profiler is running; call set_state('stop') before set_config")
    chosen = dict(options)
    if "contiguous_dump" in chosen:
        chosen.setdefault("continuous_dump", chosen.pop("contiguous_dump"))
    for name in _FLAGS:
        if chosen.get(name, False) not in (True, False):
            raise ValueError(f"{name} must be True or False")
    filename = chosen.pop("filename", _state.filename)
    if not isinstance(filename, (str, os.PathLike)) or not str(filename):
        raise ValueError("filename must be the path of a file")
    period = chosen.pop("dump_period", _state.dump_period)
    if (
        isinstance(period, bool)
        or not isinstance(period, (int, float))
        or not 0.1 <= period <= 3600
    ):
        raise ValueError("dump_period must be a number of seconds from 0.1 to 3600")
    _check_process(chosen.pop("profile_process", "worker"))
    flags = {name: bool(chosen.pop(name)) for name in _FLAGS if name in chosen}
    if chosen:
        known = ", ".join(sorted([*_FLAGS, "filename", "dump_period", "profile_process"]))
        raise ValueError(f"unknown option {next(iter(chosen))}; the known options are {known}")
    _state.filename, _state.dump_period = os.fspath(filename), float(period)
    _state.flags.update(flags)


def _check_process(process: str) -> None:
    if process != "worker":
        raise ValueError(f"profile_process must be 'worker', not {process!r}")


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Starts ("run") or stops ("stop") measuring.

    Starting forgets what was measured before. In a forked child it is stopped.
    """
    _check_process(profile_process)
    if state not in ("run", "stop"):
        raise ValueError(f"state must be 'run' or 'stop', not {state!r}")
    if (state == "run") == _state.running:
        return
    with _state.lock:
        _state.running = _state.recording = state == "run"
        _state.paused = False
        if _state.running:
            _state.forget()
    if _state.running and _state.flags["continuous_dump"]:
        _state.wake.clear()
        _state.dumper = threading.Thread(
            target=_dump_again_and_again, name="strobe-profiler", daemon=True
        )
        _state.dumper.start()
    elif not _state.running and _state.dumper is not None:
        _state.wake.set()
        _state.dumper.join()
        _state.dumper = None
        dump()


def _dump_again_and_again() -> None:
    while not _state.wake.wait(_state.dump_period):
        try:
            dump(finished=False)
        except OSError:
            pass  # A full disk does not stop the profiler; the last dump reports the error.


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """MXNet's former name of set_config().

    `mode` is the name of a profile_ option without the prefix.
    """
    _warn_of_former_name("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """MXNet's former name of set_state()."""
    _warn_of_former_name("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """MXNet's former name of dump()."""
    _warn_of_former_name("dump_profile", "dump")
    dump()


def _warn_of_former_name(former: str, name: str) -> None:
    warnings.warn(
        f"strobe.profiler.{former}() is deprecated; use {name}()", DeprecationWarning, stacklevel=3
    )


def pause(profile_process: str = "worker") -> None:
    """Stops measuring until resume()."""
    _check_process(profile_process)
    _state.paused, _state.recording = True, False
    if itt:
        itt.pause()


def resume(profile_process: str = "worker") -> None:
    """Ends a pause()."""
    _check_process(profile_process)
    _state.paused, _state.recording = False, _state.running
    if itt:
        itt.resume()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Writes the measurements to the file, for chrome://tracing and Perfetto.

    finished=True stops the profiler first.

    Raises:
      OSError: the file cannot be written.
    """
    _check_process(profile_process)
    if finished and _state.running:
        set_state("stop")
    with _state.lock:
        events, threads, dropped = list(_state.events), dict(_state.threads), _state.dropped
    pid = os.getpid()
    out: List[Dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        for tid, name in threads.items()
    ]
    for kind, category, name, thread, begin, duration, detail in events:
        event: Dict[str, Any] = {
            "ph": kind,
            "name": name,
            "cat": category,
            "pid": pid,
            "tid": thread,
            "ts": begin / 1000,
        }
        if kind == "X":
            event["dur"] = duration / 1000
        elif kind == "C":
            # JSON knows neither NaN nor infinity, which a diverging loss becomes: readers would
            # refuse the whole file.
            event["args"] = {
                name: None if isinstance(detail, float) and not math.isfinite(detail) else detail
            }
        else:
            event["s"] = detail
        out.append(event)
    whole = {"traceEvents": out, "displayTimeUnit": "ms", "otherData": {"dropped_events": dropped}}
    hidden = f"{_state.filename}.partial"
    with open(hidden, "w") as file:
        json.dump(whole, file)
    os.replace(hidden, _state.filename)


_COLUMNS = {"count": 0, "total": 1, "min": 2, "max": 3, "avg": 4}


def dumps(
    reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False
) -> str:
    """Returns the aggregate statistics as text. They are collected while aggregate_stats is on.

    Args:
      reset: clear the statistics afterwards.
      format: "table" or "json". Times are in milliseconds in both.
      sort_by: "total", "avg", "min", "max" or "count".
      ascending: sort the smallest value first.
    """
    if format not in ("table", "json"):
        raise ValueError(f"format must be 'table' or 'json', not {format!r}")
    if sort_by not in _COLUMNS:
        raise ValueError(f"sort_by must be one of {', '.join(_COLUMNS)}, not {sort_by!r}")
    with _state.lock:
        rows = [
            (name, [count, total / 1e6, least / 1e6, most / 1e6, total / count / 1e6])
            for name, (count, total, least, most) in _state.totals.items()
        ]
        dropped = _state.dropped
        if reset:
            _state.totals.clear()
    rows.sort(key=lambda row: row[1][_COLUMNS[sort_by]], reverse=not ascending)
    if format == "json":
        return json.dumps(
            {
                "unit": "ms",
                "dropped_events": dropped,
                "time": {name: dict(zip(_COLUMNS, values)) for name, values in rows},
            }
        )
    width = max([len("Name"), *(len(name) for name, _ in rows)])
    lines = [
        "Profile Statistics",
        f"{'Name':<{width}}  {'Total Count':>11}  {'Time (ms)':>12}"
        f"  {'Min Time (ms)':>13}  {'Max Time (ms)':>13}  {'Avg Time (ms)':>13}",
    ]
    for name, (count, total, least, most, average) in rows:
        lines.append(
            f"{name:<{width}}  {count:>11}  {total:>12.4f}"
            f"  {least:>13.4f}  {most:>13.4f}  {average:>13.4f}"
        )
    if dropped:
        lines.append(
            f"{dropped} events did not fit into memory and are missing from the file, not from "
            "this table"
        )
    return "\n".join(lines) + "\n"


class Domain:
    """A name that groups objects."""

    def __init__(self, name: str):
        self.name = name
        self._itt = itt.domain(name) if itt else None

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> "Task":
        return Task(self, name)

    def new_frame(self, name: str) -> "Frame":
        return Frame(self, name)

    def new_counter(self, name: str, value: Optional[float] = None) -> "Counter":
        return Counter(self, name, value)

    def new_marker(self, name: str) -> "Marker":
        return Marker(self, name)


class _Duration:
    """Measures from start() to stop() on one thread. Reusable; also a context manager."""

    def __init__(self, category: str, name: str):
        self.name = name
        self._category = category
        self._begin = 0
        self._trace: Optional[Trace] = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        self._trace = Trace(self.name)
        self._trace.__enter__()
        if itt:
            self._tell_begin()
        self._begin = time.perf_counter_ns() if _state.recording else 0

    def stop(self) -> None:
        if self._trace is None:
            return
        if self._begin and _state.recording:
            _state.add(
                "X", self._category, self.name, self._begin, time.perf_counter_ns() - self._begin
            )
        if itt:
            self._tell_end()
        self._trace.__exit__(None, None, None)
        self._trace = None

    def _tell_begin(self) -> None:
        """Tells VTune."""
        raise NotImplementedError

    def _tell_end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> "_Duration":
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class Task(_Duration):
    """A piece of work that belongs to a domain."""

    def __init__(self, domain: Domain, name: str):
        super().__init__(domain.name, name)
        self.domain = domain
        self._itt = itt.name(name) if itt else None

    def _tell_begin(self) -> None:
        itt.begin_task(self.domain._itt, self._itt)

    def _tell_end(self) -> None:
        itt.end_task(self.domain._itt)


class Frame(_Duration):
    """One round of repeated work, such as an iteration."""

    def __init__(self, domain: Domain, name: str):
        super().__init__(domain.name, name)
        self.domain = domain

    def _tell_begin(self) -> None:
        itt.begin_frame(self.domain._itt)

    def _tell_end(self) -> None:
        itt.end_frame(self.domain._itt)


class Event(_Duration):
    """A piece of work without a domain."""

    def __init__(self, name: str):
        super().__init__("event", name)
        self._itt = itt.event(name) if itt else None

    def _tell_begin(self) -> None:
        itt.begin_event(self._itt)

    def _tell_end(self) -> None:
        itt.end_event(self._itt)


class Counter:
    """A value over time. The file has null for NaN and infinity."""

    def __init__(self, domain: Domain, name: str, value: Optional[float] = None):
        self.name, self.domain = name, domain
        self._value: float = 0
        self._itt = itt.counter(domain.name, name) if itt else None
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        with _state.counting:
            self._set(value)

    def increment(self, delta: float = 1) -> None:
        with _state.counting:
            self._set(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        self.increment(-delta)

    def __iadd__(self, delta: float) -> "Counter":
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> "Counter":
        self.decrement(delta)
        return self

    def _set(self, value: float) -> None:
        self._value = value
        if itt:
            itt.set_counter(self._itt, value)
        if _state.recording:
            _state.add("C", self.domain.name, self.name, time.perf_counter_ns(), 0, value)


class Marker:
    """A point in time."""

    def __init__(self, domain: Domain, name: str):
        self.name, self.domain = name, domain
        self._itt = itt.name(name) if itt else None

    def __str__(self) -> str:
        return self.name

    def mark(self, scope: str = "process") -> None:
        """Marks the current time.

        Args:
          scope: extent of the marker in the viewer: "global", "process" or "thread". "task" and
            "marker" are accepted too and have the extent of a thread.
        """
        if scope not in _MARKER_SCOPES:
            raise ValueError(f"scope must be one of {', '.join(_MARKER_SCOPES)}, not {scope!r}")
        with Trace(self.name):
            pass
        if itt:
            itt.mark(self.domain._itt, self._itt, getattr(itt, f"SCOPE_{scope.upper()}"))
        if _state.recording:
            _state.add(
                "i", self.domain.name, self.name, time.perf_counter_ns(), 0, _MARKER_SCOPES[scope]
            )


@atexit.register
def _at_exit() -> None:
    # With continuous dumps, the last one is written at exit.
    if _state.running and _state.flags["continuous_dump"]:
        try:
            set_state("stop")
        except OSError:
            pass
