"""TCP sockets of this process that listen, and how they are closed to other machines.

SO_BINDTODEVICE on a listening socket, from inside the process, needs no right and closes it to everybody but the loopback interface (Linux 5.7
and newer). The pod's own address is refused too.
"""

import os
import socket

_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25)
_REUSEPORT = getattr(socket, "SO_REUSEPORT", 15)
_ACCEPTCONN = getattr(socket, "SO_ACCEPTCONN", 30)


def _copies():
    """(inode, copy) of each socket of this process. A copy shares the socket; the caller closes it."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            inode = os.readlink(f"/proc/self/fd/{fd}")
            if inode.startswith("socket:"):
                yield inode, socket.socket(fileno=os.dup(int(fd)))
        except OSError:
            continue  # It was closed meanwhile.


def listening(of_grpc=False):
    """{inode: port}. Optionally only sockets with SO_REUSEPORT, as gRPC makes them."""
    found = {}
    for inode, copy in _copies():
        with copy:
            try:
                if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM \
                        and copy.getsockopt(socket.SOL_SOCKET, _ACCEPTCONN) \
                        and (not of_grpc or copy.getsockopt(socket.SOL_SOCKET, _REUSEPORT)):
                    found[inode] = copy.getsockname()[1]
            except OSError:
                continue
    return found


def close_to_others(inodes):
    """Binds sockets to the loopback interface. False if one of them could not be bound, or does not say that it is."""
    bound = set()
    for inode, copy in _copies():
        with copy:
            if inode not in inodes:
                continue
            try:
                copy.setsockopt(socket.SOL_SOCKET, _BINDTODEVICE, b"lo\0")
                if copy.getsockopt(socket.SOL_SOCKET, _BINDTODEVICE, 16).rstrip(b"\0") != b"lo":
                    return False
            except OSError:
                return False
            bound.add(inode)
    return bound == set(inodes) != set()


def stop_listening(inodes):
    """A server that TensorFlow started cannot be ended, but its sockets can."""
    for inode, copy in _copies():
        with copy:
            try:
                if inode in inodes:
                    copy.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
