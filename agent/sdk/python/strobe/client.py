"""Captures other processes: ``strobe capture`` as a Python function.

>>> from strobe import client
>>> client.trace("localhost:1", "/tmp/logs", 0)
Traceback (most recent call last):
...
strobe.client.InvalidArgumentError: duration_ms must be a whole number from 1 to 600000, not 0
"""

import json
import os
import subprocess
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

from ._bin import path_of

__all__ = ["InvalidArgumentError", "ProfilerOptions", "UnavailableError", "trace"]


class InvalidArgumentError(ValueError):
    """An argument is invalid; the message names it."""


class UnavailableError(RuntimeError):
    """Too few workers could be recorded; the message says why.

    ``manifest`` has the outcome of each worker, or is None if no capture was attempted.
    """

    def __init__(self, message: str, manifest: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.manifest = manifest


class ProfilerOptions(NamedTuple):
    """What to record.

    The fields and defaults are those of ``tf.profiler.experimental.ProfilerOptions``.

    host_tracer_level: level of annotations to record: 0 none, 1 critical, 2 info, 3 verbose.
    python_tracer_level: 1 records the calls of Python functions. Only the profilers of PyTorch, JAX
      and TensorFlow can do this. 0 records none.
    device_tracer_level: 1 records GPUs and TPUs, 0 does not. For GPUs, 2 records only kernels, 3
      their launches too, 4 CUDA graphs as a whole, and 5 all that CUPTI tells.
    delay_ms: milliseconds from the call to the start; None starts as soon as all workers can start
      together.
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: Optional[int] = None


_Options = Union[None, Mapping[str, Any], ProfilerOptions, Any]

# Each option with its flag and its largest value.
_OPTIONS = {
    "host_tracer_level": ("--host-tracer-level", 3),
    "python_tracer_level": ("--python-tracer-level", 1),
    "device_tracer_level": ("--device-tracer-level", 5),
    "delay_ms": ("--delay", 3_600_000),
}
# The argument that a flag of `strobe capture` comes from, for messages that name a flag.
_ARGUMENTS = {
    "--workers": "service_addr",
    "--worker-list": "worker_list",
    "--logdir": "logdir",
    "--duration": "duration_ms",
    "--attempts": "num_tracing_attempts",
    "--min-workers": "min_workers",
    "--run": "run",
}


def _whole(name: str, value: Any, least: int, most: int) -> int:
    """Returns the value as an int.

    Raises InvalidArgumentError, which names the argument, if it is not a whole number of the range.
    """
    try:
        number = int(value)
        whole = number == value and not isinstance(value, str)
    except (TypeError, ValueError):
        whole = False
    if not whole or not least <= number <= most:
        raise InvalidArgumentError(
            f"{name} must be a whole number from {least} to {most}, not {value!r}"
        )
    return number


def logdir_to_flag(logdir: Union[str, "os.PathLike[str]"]) -> str:
    """Returns a URL unchanged and a path made absolute, because the sidecar has another working
    directory.
    """
    path = os.fspath(logdir)
    if not isinstance(path, str) or not path:
        raise InvalidArgumentError(f"logdir must be a path or a URL, not {logdir!r}")
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def options_to_flags(options: _Options) -> List[str]:
    """Translates trace's options to flags of ``strobe capture``."""
    if options is None:
        return []
    if isinstance(options, Mapping):
        given = dict(options)
        for key in given:
            if key not in _OPTIONS:
                raise InvalidArgumentError(
                    f"options has no {key!r}; the known options are {', '.join(_OPTIONS)}"
                )
    else:  # A namedtuple is not a Mapping; its fields are attributes.
        given = {key: getattr(options, key) for key in _OPTIONS if hasattr(options, key)}
        if not given:
            raise InvalidArgumentError(
                f"options must be a ProfilerOptions or a dict, not {options!r}"
            )
    flags = []
    for key, (flag, most) in _OPTIONS.items():
        if given.get(key) is None:
            continue
        number = _whole(f"options {key}", given[key], 0, most)
        if key != "delay_ms":
            flags += [flag, str(number)]
        elif number > 0:
            flags += [flag, f"{number}ms"]
    return flags


def complaint(stderr: str, code: int) -> str:
    """Returns the message of ``strobe capture`` with the names of arguments instead of flags."""
    lines = [
        line
        for line in stderr.strip().splitlines()
        if not line.startswith("  ") and not line.endswith("--help explains its flags")
    ]
    message = lines[-1].split(": ", 1)[-1] if lines else f"strobe ended with {code}"
    for flag, argument in sorted(_ARGUMENTS.items(), key=lambda item: -len(item[0])):
        message = message.replace(flag, argument)
    return message


def trace(
    service_addr: str,
    logdir: Union[str, "os.PathLike[str]"],
    duration_ms: int,
    worker_list: str = "",
    num_tracing_attempts: int = 3,
    options: _Options = None,
    *,
    min_workers: Union[int, str] = 1,
) -> Dict[str, Any]:
    """Records all workers from the same instant and blocks until their traces are in the logdir.

    Takes the arguments of ``tf.profiler.experimental.client.trace``. The returned dict is the
    run's manifest (``strobe.json``) with every worker's outcome, clock offset and start.

    Args:
      service_addr: comma list of ``host:port`` or ``grpc://host:port``; sidecars or stock profiler
        servers.
      logdir: a path or a URL (s3, gs, az) that every sidecar can write to. A relative path is
        relative to this program's working directory.
      duration_ms: how long to record, 1 to 600,000 (ten minutes).
      worker_list: Cloud TPU only: comma list of the slice's workers, profiled by the master that
        service_addr names.
      num_tracing_attempts: largest number of attempts, 1 to 10.
      options: a ProfilerOptions (also TensorFlow's) or a dict with some of its fields.
      min_workers: how many workers must be recorded, as a number or as a percentage such as "50%".
        If fewer workers can be recorded, nothing is recorded. If enough are, a warning names those
        that failed.

    Raises:
      InvalidArgumentError: an argument is invalid.
      UnavailableError: too few workers could be recorded.

    Warns:
      RuntimeWarning: some workers could not be recorded, but enough others were.
    """
    if not isinstance(service_addr, str):
        raise TypeError(f"service_addr must be a str, not {service_addr!r}")
    command = [
        path_of("strobe"),
        "capture",
        "--insecure-plaintext",
        "--quiet",
        "--output",
        "json",
        "--workers",
        service_addr,
        "--logdir",
        logdir_to_flag(logdir),
        "--duration",
        f"{_whole('duration_ms', duration_ms, 1, 600_000)}ms",
        "--attempts",
        str(_whole("num_tracing_attempts", num_tracing_attempts, 1, 10)),
        "--min-workers",
        str(min_workers),
    ]
    if worker_list:
        command += ["--worker-list", worker_list]
    command += options_to_flags(options)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        manifest = json.loads(done.stdout) if done.stdout else {}
    except ValueError:
        manifest = {}
    if done.returncode == 0:
        failed = [worker for worker in manifest.get("workers", []) if worker.get("outcome") != "Ok"]
        if failed:
            told = "; ".join(
                f"{worker.get('name', '?')}: {worker.get('outcome')}, {worker.get('message', '')}"
                for worker in failed
            )
            warnings.warn(
                f"{len(failed)} of {len(manifest['workers'])} workers were not recorded as "
                f"requested: {told}",
                RuntimeWarning,
                stacklevel=2,
            )
        return manifest
    message = complaint(done.stderr, done.returncode)
    if done.returncode == 2:
        raise InvalidArgumentError(message)
    raise UnavailableError(message, manifest or None)
