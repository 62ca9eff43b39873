"""Captures other processes: ``strobe capture`` as a Python function.

>>> from strobe import client
>>> client.trace("localhost:1", "/tmp/logs", 0)
Traceback (most recent call last):
...
strobe.client.InvalidArgumentError: --duration "0ms" must be a duration from 1ms to 10m, such as 2s
"""

import json
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Union

from ._programs import path_of

__all__ = ["InvalidArgumentError", "UnavailableError", "trace"]


class InvalidArgumentError(ValueError):
    """An argument is invalid; the message names it."""


class UnavailableError(RuntimeError):
    """Too few workers could be recorded; the message says why.

    ``manifest`` has the outcome of each worker, or is None if no capture was attempted.
    """

    def __init__(self, message: str, manifest: Optional[Dict[str, Any]] = None):
        super().__init__(message)
        self.manifest = manifest


_OPTIONS = {"host_tracer_level": "--host-tracer-level", "device_tracer_level": "--device-tracer-level",
            "python_tracer_level": "--python-tracer-level"}


def options_to_flags(options: Union[None, Mapping[str, Any], Any]) -> List[str]:
    """Translates trace's options to flags of ``strobe capture``."""
    if options is None:
        return []
    # A namedtuple is not a Mapping; its fields are attributes.
    get = options.get if isinstance(options, Mapping) else lambda key: getattr(options, key, None)
    flags = []
    for key, flag in _OPTIONS.items():
        if get(key) is not None:
            flags += [flag, str(get(key))]
    if get("delay_ms"):
        flags += ["--delay", f"{get('delay_ms')}ms"]
    return flags


def trace(service_addr: str, logdir: str, duration_ms: int, worker_list: str = "", num_tracing_attempts: int = 3,
          options: Union[None, Mapping[str, Any], Any] = None) -> Dict[str, Any]:
    """Records all workers from the same instant and blocks until their traces are in the logdir.

    Takes the arguments of ``tf.profiler.experimental.client.trace``. The returned dict is the
    run's manifest (``strobe.json``) with every worker's outcome, clock offset and start.

    Args:
      service_addr: comma list of ``host:port`` or ``grpc://host:port``; sidecars or stock profiler servers.
      logdir: an absolute path or a URL (s3, gs, az) that every sidecar can write to.
      duration_ms: how long to record, 1 to 600,000.
      worker_list: Cloud TPU only: comma list of the slice's workers, profiled by the master that
        service_addr names.
      num_tracing_attempts: how often to try, 1 to 10.
      options: mapping or object (such as TensorFlow's ProfilerOptions) with any of ``host_tracer_level``
        (0-3), ``device_tracer_level`` (0-1), ``python_tracer_level`` (0-1) and ``delay_ms``.

    Raises:
      InvalidArgumentError: an argument is invalid.
      UnavailableError: too few workers could be recorded.
    """
    command = [path_of("strobe"), "capture", "--insecure-plaintext", "--quiet", "--output", "json",
               "--workers", service_addr, "--logdir", logdir, "--duration", f"{duration_ms}ms",
               "--attempts", str(num_tracing_attempts)]
    if worker_list:
        command += ["--worker-list", worker_list]
    command += options_to_flags(options)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        manifest = json.loads(done.stdout) if done.stdout else {}
    except ValueError:
        manifest = {}
    if done.returncode == 0:
        return manifest
    lines = done.stderr.strip().splitlines()
    message = lines[-1].split(": ", 1)[-1] if lines else f"strobe ended with {done.returncode}"
    if done.returncode == 2:
        raise InvalidArgumentError(message)
    raise UnavailableError(message, manifest or None)
