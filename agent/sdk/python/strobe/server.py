"""Runs a sidecar for this process, for use outside Kubernetes."""

import atexit
import os
import socket
import subprocess
import tempfile
import time
from typing import Optional, Sequence

from . import _trace
from ._bin import path_of

__all__ = ["Server", "start"]


class Server:
    """A running sidecar. It ends with the process that started it, or by stop()."""

    def __init__(self, process: subprocess.Popen, address: str):
        self._process = process
        self.address = address  # host:port, for strobe.client.trace and `strobe capture`.

    def stop(self) -> None:
        """Waits for a running capture (at most 25 s) and ends the sidecar.

        May be called repeatedly.
        """
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def start(
    port: int,
    host: str = "localhost",
    framework: Optional[str] = None,
    flags: Sequence[str] = (),
    all_programs: bool = False,
) -> Server:
    """Starts a sidecar that records this program and the processes that it starts.

    It answers Strobe's own clients and, on the same port, those of TensorFlow, JAX and XProf.

    Every program, such as every rank of a job, may start its own sidecar, even in a pod with an
    injected sidecar that serves all programs. Only one sidecar records a program at a time; the
    other one answers Busy.

    Args:
      port: the port to listen on; 0 picks a free port.
      host: the interface to listen on. With "0.0.0.0", any machine that can connect may profile
        this program.
      framework: host:port of a profiler server (such as jax.profiler.start_server's) to record as
        well.
      flags: further flags of strobe-sidecar.
      all_programs: record every program with the same STROBE_DIR. Only one sidecar per directory
        may do so.

    Raises:
      RuntimeError: the sidecar did not start; the message contains its output.
    """
    if not os.environ.get("STROBE_DIR"):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        directory = tempfile.TemporaryDirectory(prefix="strobe-", dir=memory)
        atexit.register(directory.cleanup)
        os.environ["STROBE_DIR"] = directory.name
    _trace.attach()
    if port == 0:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
    address = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
    command = [
        path_of("strobe-sidecar"),
        "--listen",
        address,
        "--compat-listen",
        address,
        "--framework",
        framework or "localhost:1",
        "--agent-dir",
        os.path.join(os.environ["STROBE_DIR"], "agent"),
        "--insecure-plaintext",
        "--exit-with-parent",
        *([] if all_programs else ["--agent-only-parent"]),
        *flags,
    ]
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + 10
    while True:
        log.seek(0)
        said = log.read()
        if "strobe-sidecar serves" in said:
            break
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"strobe-sidecar did not start: {said.strip()[-500:]}")
        time.sleep(0.02)
    server = Server(process, address)
    atexit.register(server.stop)
    return server
