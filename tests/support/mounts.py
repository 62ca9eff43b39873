"""File systems of limited size that end with this process, also when it is killed."""

import contextlib
import ctypes
import functools
import os
import subprocess

CLONE_NEWNS = 0x00020000


@functools.cache
def _own_namespace():
    """Gives this thread, and the threads and processes that it starts from now on, mounts that nobody else sees. The kernel removes them
    with the last of these processes. Returns False if that is not allowed."""
    return (os.getuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0
            and subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0)


def mount_small(place, size):
    """Mounts a tmpfs of that size, such as "24m", for this process and those that it starts afterwards. Returns False if that is not possible."""
    return _own_namespace() and subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True).returncode == 0


def unmount(place):
    subprocess.run(["umount", "-l", place], check=False)


@contextlib.contextmanager
def small_file_system(place, size):
    """mount_small for a `with`; its value says whether it was possible."""
    mounted = mount_small(place, size)
    try:
        yield mounted
    finally:
        if mounted:
            unmount(place)
