"""strobe.start, strobe.stop and strobe.Profile: a capture of this program, from inside it."""

import json
import os
import signal
import subprocess
import threading
import warnings
from typing import Any, Dict, List, Optional, Union

from . import server
from ._bin import path_of
from .client import (
    InvalidArgumentError,
    UnavailableError,
    complaint,
    logdir_to_flag,
    options_to_flags,
)

__all__ = ["Profile", "start", "stop"]

_LONGEST = "10m"


def _event_of(line: str) -> Optional[Dict[str, Any]]:
    """The progress event that the command wrote, or None if the line is a message."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


class _Capture:
    """A running `strobe capture` command that records this process through its sidecar."""

    def __init__(self, command: List[str]):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # In a session of its own, so that Ctrl-C reaches only this
            # program.
            start_new_session=True,
        )
        self.lines: List[str] = []
        self.out = ""
        self.recording = False
        self.settled = threading.Event()  # Set when the capture records or has ended.
        self.readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_progress, self._read_result)
        ]
        for reader in self.readers:
            reader.start()

    def _read_progress(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                event = _event_of(line)
                if event is None:
                    self.lines.append(line.strip())
                elif event.get("phase") == "record":
                    self.recording = True
                    self.settled.set()
        self.settled.set()

    def _read_result(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            self.out = stdout.read()

    def join(self) -> int:
        code = self.process.wait()
        for reader in self.readers:
            reader.join()
        return code

    def error(self, code: int) -> Exception:
        message = complaint("\n".join(self.lines), code)
        return InvalidArgumentError(message) if code == 2 else UnavailableError(message)


_lock = threading.Lock()
_server: Optional[server.Server] = None
_capture: Optional[_Capture] = None


def start(
    logdir: Union[str, "os.PathLike[str]"],
    options: Any = None,
    run: Optional[str] = None,
    framework: Optional[str] = None,
) -> None:
    """Starts to record this program and returns when recording has begun. stop() ends it.

    Args:
      logdir: a path or a URL (s3, gs, az).
      options: as in strobe.client.trace.
      run: name of the run in the logdir; the default is <time>_capture.
      framework: host:port of this program's own profiler server (such as
        jax.profiler.start_server's), to record from it as well. Only the first start() of a process
        uses this argument.

    Raises:
      RuntimeError: a capture runs already, or no sidecar could be started.
      strobe.client.InvalidArgumentError, strobe.client.UnavailableError: as strobe.client.trace.

    A recording that is not stopped ends after ten minutes.

    >>> import os, strobe, tempfile
    >>> logdir = tempfile.mkdtemp()
    >>> strobe.start(logdir)
    >>> with strobe.Trace("work"):
    ...     pass
    >>> manifest = strobe.stop()
    >>> os.listdir(os.path.join(logdir, "plugins/profile")) == [manifest["run"]]
    True
    """
    global _server, _capture
    with _lock:
        if _capture is not None:
            raise RuntimeError("a capture is already running; call strobe.stop() first")
        if _server is None:
            _server = server.start(0, framework=framework)
        command = [
            path_of("strobe"),
            "capture",
            "--insecure-plaintext",
            "--output",
            "json",
            "--progress",
            "json",
            "--workers",
            _server.address,
            "--logdir",
            logdir_to_flag(logdir),
            "--duration",
            _LONGEST,
            "--attempts",
            "1",
            *options_to_flags(options),
        ]
        capture = _Capture(command + (["--run", run] if run else []))
        capture.settled.wait()
        if not capture.recording:
            raise capture.error(capture.join())
        _capture = capture


def stop(save: bool = True) -> Optional[Dict[str, Any]]:
    """Ends the recording, waits until the trace is in the logdir, and returns the run's manifest.

    With save=False it discards the recording and returns None.

    Raises:
      RuntimeError: nothing is being recorded.
      strobe.client.UnavailableError: the trace could not be recorded or written.

    Warns:
      RuntimeWarning: the trace is in the logdir, but it is not as requested; for example, it has no
        events.
    """
    global _capture
    with _lock:
        if _capture is None:
            raise RuntimeError("nothing is being recorded; call strobe.start(logdir) first")
        capture, _capture = _capture, None
        if capture.process.poll() is None:
            capture.process.send_signal(signal.SIGINT if save else signal.SIGTERM)
        code = capture.join()
    if not save:
        return None
    manifest = json.loads(capture.out) if capture.out else None
    if code != 0:
        if manifest is None or not any(
            int(worker.get("bytes", 0)) for worker in manifest["workers"]
        ):
            raise capture.error(code)
        warnings.warn(str(capture.error(code)), RuntimeWarning, stacklevel=2)
    return manifest


class Profile:
    """Records this program while a block runs. ``manifest`` is the result of stop().

    Takes the arguments of start(). If the block raises an exception, the recording is saved too.

    >>> import strobe, tempfile
    >>> with strobe.Profile(tempfile.mkdtemp()) as profile:
    ...     with strobe.Trace("work"):
    ...         pass
    >>> profile.manifest["workers"][0]["outcome"]
    'Ok'
    """

    manifest: Optional[Dict[str, Any]] = None

    def __init__(
        self,
        logdir: Union[str, "os.PathLike[str]"],
        options: Any = None,
        run: Optional[str] = None,
        framework: Optional[str] = None,
    ):
        self._arguments = (logdir, options, run, framework)

    def __enter__(self) -> "Profile":
        start(*self._arguments)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        try:
            self.manifest = stop()
        except UnavailableError as error:
            if exc_type is None:
                raise
            # The program's own exception is worth more.
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
