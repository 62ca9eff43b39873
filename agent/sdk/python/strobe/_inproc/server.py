"""Starts a framework's own profiler server so that only this machine reaches it.

The frameworks listen on all interfaces and have no setting for it (sockets.py).
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from typing import Any

from .frameworks import profiler_of, release, version
from .sockets import close_to_others, listening, stop_listening
from .switches import is_off

# From these versions on, no request of a client harms the program.
_OLDEST_JAXLIB, _OLDEST_TENSORFLOW = (0, 9, 0), (2, 21, 0)


def _start(name: str) -> tuple[Any, int]:
    """Starts the server on a port that the kernel chooses; returns (server or None, port or 0 if it
    is not known).
    """
    if name == "jax":
        # Not jax.profiler.start_server, which starts one server only: the program may want its own.
        return profiler_of("jax").start_server(0), 0
    try:
        probe = socket.socket(socket.AF_INET6)
    except OSError:  # The kernel has no IPv6.
        probe = socket.socket(socket.AF_INET)
    with probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    profiler_of("tensorflow").start_server(port)
    return None, port


def loopback_is_the_nodes() -> bool:
    """Whether this pod is on the host's network: then other pods and programs of the node reach
    what listens on the loopback.
    """
    return os.environ.get("STROBE_HOST_NETWORK", "").lower() == "true"


def is_safe(name: str) -> bool:
    if name == "jax":
        return (
            release(getattr(sys.modules.get("jaxlib"), "__version__", version("jax")))
            >= _OLDEST_JAXLIB
        )
    return name == "tensorflow" and release(version("tensorflow")) >= _OLDEST_TENSORFLOW


def open_for(name: str) -> int | None:
    """Starts a server and returns its port.

    None if there is none; captures then use the session socket.
    """
    if is_off("server") or loopback_is_the_nodes() or not is_safe(name):
        return None
    before = listening(of_grpc=True)
    server, port = _start(name)
    made = {
        inode: at
        for inode, at in listening(of_grpc=True).items()
        if inode not in before and (at == port or not port)
    }
    # Another thread may have opened a server at the same time, and nothing tells which socket is
    # whose.
    if len(set(made.values())) != 1 or not close_to_others(set(made)):
        if server is None or len(set(made.values())) == 1:
            stop_listening(set(made))
        return None  # JAX's server ends here, with its last reference.
    if server is not None:
        # Leaks the server: if the interpreter's end destroyed it, the program would wait for a
        # running capture.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    return next(iter(made.values()))
