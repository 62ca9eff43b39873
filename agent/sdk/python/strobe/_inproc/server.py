"""Starts a framework's own profiler server so that only this machine reaches it.

The frameworks listen on all interfaces and have no setting for it. SO_BINDTODEVICE on the listening sockets, from inside the process, needs no
right and closes them to everybody but the loopback interface (Linux 5.7 and newer).
"""

import ctypes
import os
import socket
import sys

from .frameworks import release, version

_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25)
_REUSEPORT = getattr(socket, "SO_REUSEPORT", 15)
_ACCEPTCONN = getattr(socket, "SO_ACCEPTCONN", 30)
# From these versions on, whatever a client asks for does not harm the program.
_OLDEST_JAXLIB, _OLDEST_TENSORFLOW = (0, 9, 0), (2, 21, 0)


class _Sockets:
    """TCP sockets of this process that listen. Works on copies of the descriptors, which share the socket."""

    @staticmethod
    def listening():
        """{inode: port}."""
        found = {}
        for fd in os.listdir("/proc/self/fd"):
            try:
                inode = os.readlink(f"/proc/self/fd/{fd}")
                if not inode.startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(fd))) as copy:
                    if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM \
                            and copy.getsockopt(socket.SOL_SOCKET, _ACCEPTCONN) and copy.getsockopt(socket.SOL_SOCKET, _REUSEPORT):
                        found[inode] = copy.getsockname()[1]
            except OSError:
                continue  # It was closed meanwhile.
        return found

    @staticmethod
    def each(inodes):
        """A copy of each of these sockets; the caller closes it."""
        for fd in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{fd}") in inodes:
                    yield socket.socket(fileno=os.dup(int(fd)))
            except OSError:
                continue


def close_to_others(inodes):
    """Binds sockets to the loopback interface. False if one of them could not be bound, or does not say that it is."""
    bound = 0
    for copy in _Sockets.each(inodes):
        with copy:
            try:
                copy.setsockopt(socket.SOL_SOCKET, _BINDTODEVICE, b"lo\0")
                bound += copy.getsockopt(socket.SOL_SOCKET, _BINDTODEVICE, 16).rstrip(b"\0") == b"lo"
            except OSError:
                return False
    return bound >= len(inodes) > 0


def stop_listening(inodes):
    """A server that TensorFlow started cannot be ended, but its sockets can."""
    for copy in _Sockets.each(inodes):
        with copy:
            try:
                copy.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _start(name):
    """Starts the server on a port that the kernel chooses; returns (server or None, port or 0 if it is not known)."""
    if name == "jax":
        from .jax_session import profiler_module

        # Not jax.profiler.start_server, which starts one server only: the program may want its own.
        return profiler_module().start_server(0), 0
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    sys.modules["tensorflow.python.profiler.internal._pywrap_profiler"].start_server(port)
    return None, port


def is_safe(name):
    if name == "jax":
        return release(getattr(sys.modules.get("jaxlib"), "__version__", version("jax"))) >= _OLDEST_JAXLIB
    return name == "tensorflow" and release(version("tensorflow")) >= _OLDEST_TENSORFLOW


def open_for(name):
    """Returns the port, or None: no server then, and the session channel is what there is."""
    if not is_safe(name):
        return None
    before = _Sockets.listening()
    server, port = _start(name)
    made = {inode: at for inode, at in _Sockets.listening().items() if inode not in before and (at == port or not port)}
    # Another thread may have opened a server of its own just now. Whose is whose, nobody says.
    if len(set(made.values())) != 1 or not close_to_others(set(made)):
        if server is None or len(set(made.values())) == 1:
            stop_listening(set(made))
        return None  # JAX's server ends here, with its last reference.
    if server is not None:
        # A server that lives until the interpreter ends would make the program wait for a running capture.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    return next(iter(made.values()))
