"""A network namespace of a test's own. Abstract names of Unix sockets and ports in it are nobody else's."""

import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def own_network():
    """Moves this thread, and the processes that it starts from now on, into a new network with a loopback only. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "a network namespace cannot be made")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)
