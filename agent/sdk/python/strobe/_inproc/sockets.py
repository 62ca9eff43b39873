"""Sockets of this process: those that listen and how they are closed to other machines, and the one
by which Kineto asks a daemon what to record.

SO_BINDTODEVICE on a listening socket, from inside the process, needs no privilege and closes it to
everybody but the loopback interface (Linux 5.7 and newer). The pod's own address is refused too.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from typing import Any, Callable, Collection, Iterator

_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25)
_REUSEPORT = getattr(socket, "SO_REUSEPORT", 15)
_ACCEPTCONN = getattr(socket, "SO_ACCEPTCONN", 30)

_KINETO_PREFIX = "dynoconfigclient"

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function: Callable[..., int], *arguments: Any) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _option(fd: int, name: int, size: int = 4) -> bytes:
    value, length = ctypes.create_string_buffer(size), ctypes.c_uint32(size)
    _call(_libc.getsockopt, fd, socket.SOL_SOCKET, name, value, ctypes.byref(length))
    return value.raw[: length.value]


def _number(fd: int, name: int) -> int:
    return struct.unpack("i", _option(fd, name))[0]


def _port(fd: int) -> int | None:
    """The local TCP port of a socket; None for another kind of socket."""
    address, length = ctypes.create_string_buffer(128), ctypes.c_uint32(128)
    _call(_libc.getsockname, fd, address, ctypes.byref(length))
    family, port = struct.unpack("=H2s", address.raw[:4])
    is_tcp = (
        family in (socket.AF_INET, socket.AF_INET6)
        and _number(fd, socket.SO_TYPE) == socket.SOCK_STREAM
    )
    return int.from_bytes(port, "big") if is_tcp else None


def _inode(fd: int | str) -> str | None:
    """ "socket:[INODE]" of a descriptor of this process; None for another kind of file, or none."""
    try:
        inode = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None  # It was closed meanwhile.
    return inode if inode.startswith("socket:") else None


def _sockets() -> Iterator[tuple[str, int]]:
    """Yields (inode, descriptor) of each socket of this process.

    The descriptor is the program's own: it may be closed at any time.
    """
    for name in os.listdir("/proc/self/fd"):
        inode = _inode(name)
        if inode is not None:
            yield inode, int(name)


def _copies(inodes: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yields (inode, descriptor) of these sockets.

    The descriptor is a copy, which is closed afterwards, so it cannot become that of another file.

    While there is a copy, a socket that the program closes goes on to listen, and the program
    cannot bind its port again. So only sockets of profiler servers are copied. No object of
    Python's `socket` is made of it: with a default timeout, or under gevent, that would make the
    program's own socket non-blocking.
    """
    for inode, number in _sockets():
        if inode not in inodes:
            continue
        try:
            fd = os.dup(number)
        except OSError:
            continue
        try:
            if _inode(fd) == inode:
                yield inode, fd
        finally:
            os.close(fd)


def listening(of_grpc: bool = False) -> dict[str, int]:
    """{inode: port}. Optionally only sockets with SO_REUSEPORT, as gRPC makes them."""
    found = {}
    for inode, fd in _sockets():
        try:
            port = _port(fd)
            is_found = (
                port is not None
                and _number(fd, _ACCEPTCONN)
                and (not of_grpc or _number(fd, _REUSEPORT))
            )
        except OSError:
            continue
        if is_found and _inode(fd) == inode:  # Otherwise another socket has got the number.
            found[inode] = port
    return found


def close_to_others(inodes: Collection[str]) -> bool:
    """Binds sockets to the loopback interface.

    False if one of them could not be bound, or does not report that it is.
    """
    bound = set()
    for inode, fd in _copies(inodes):
        try:
            _call(_libc.setsockopt, fd, socket.SOL_SOCKET, _BINDTODEVICE, b"lo\0", 3)
            if _option(fd, _BINDTODEVICE, 16).rstrip(b"\0") != b"lo":
                return False
        except OSError:
            return False
        bound.add(inode)
    return bound == set(inodes) != set()


def stop_listening(inodes: Collection[str]) -> None:
    """Shuts sockets down: a server that TensorFlow started cannot be ended in another way."""
    for _, fd in _copies(inodes):
        _libc.shutdown(fd, socket.SHUT_RDWR)


def asks_kineto() -> bool:
    """Whether Kineto asks a daemon in this process, or may have been told to before the program
    changed its environment.
    """
    try:
        with open("/proc/self/environ", "rb") as environment:
            first = environment.read(1 << 20).split(b"\0")
    except OSError:
        first = []
    return "KINETO_USE_DAEMON" in os.environ or any(
        entry.startswith(b"KINETO_USE_DAEMON=") for entry in first
    )


def kineto_client() -> str | None:
    """The name of the socket by which Kineto asks a daemon what to record; None if there is none.

    It exists only where the pod has switched it on: docs/how-to/without-python.md.

    The name tells the sidecar for certain which of Kineto's clients this process is. PIDs do not:
    each container of a pod may have a process 1.
    """
    if "KINETO_USE_DAEMON" not in os.environ:
        return None
    try:
        return _find_kineto()
    except (OSError, ValueError):
        return None


def _find_kineto() -> str | None:
    ours = {inode for inode, _ in _sockets()}
    with open("/proc/self/net/unix", errors="replace") as sockets:
        for line in sockets:
            # The last ones are inode and name. Abstract names begin with @, and Kineto's end with a
            # NUL, told as @.
            words = line.split(None, 7)
            found = words[7].strip().strip("@").rpartition("/")[2] if len(words) == 8 else ""
            if found.startswith(_KINETO_PREFIX) and f"socket:[{words[6]}]" in ours:
                return found
    return None
