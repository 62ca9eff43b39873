"""The socket by which Kineto, in this process, asks a daemon what to record.

Only where the pod has switched it on: docs/how-to/without-python.md.

Its name tells the sidecar for certain which of Kineto's clients this process is. PIDs do not: each
container of a pod may have a process 1.
"""

from __future__ import annotations

import os

_PREFIX = "dynoconfigclient"


def is_used() -> bool:
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


def name() -> str | None:
    """None if there is no such socket."""
    if "KINETO_USE_DAEMON" not in os.environ:
        return None
    try:
        return _find()
    except (OSError, ValueError):
        return None


def _find() -> str | None:
    ours = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            ours.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # It was closed meanwhile.
    with open("/proc/self/net/unix", errors="replace") as sockets:
        for line in sockets:
            # The last ones are inode and name. Abstract names begin with @, and Kineto's end with a
            # NUL, told as @.
            words = line.split(None, 7)
            found = words[7].strip().strip("@").rpartition("/")[2] if len(words) == 8 else ""
            if found.startswith(_PREFIX) and f"socket:[{words[6]}]" in ours:
                return found
    return None
