"""How close this container is to its memory limit, as agent/wire/cgroup_memory.cc reads it.

For processes without the agent.
"""

from __future__ import annotations

import os
from typing import Iterator

# The mount, and the names of limit, use, and of the page cache in memory.stat that the kernel would
# drop first, in cgroups 1 and 2.
_FIRST = (
    "/sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    b"total_inactive_file ",
)
_SECOND = "/sys/fs/cgroup", "memory.max", "memory.current", b"inactive_file "
_NO_LIMIT = 1 << 60  # Version 1 tells a very large number of pages.


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8192)
    except OSError:
        return b""


def _number(text: bytes) -> int | None:
    digits = text.split(b"\n", 1)[0].strip()
    return int(digits) if digits.isdigit() else None


def _groups(root: str) -> Iterator[tuple[tuple, str]]:
    """The cgroups of this process, and those above, which have limits too: (version, path)."""
    for line in _read(f"{root}/proc/self/cgroup").decode(errors="replace").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        version = (
            _SECOND if controllers == "" else _FIRST if "memory" in controllers.split(",") else None
        )
        while version is not None:
            path = path.rstrip("/")
            yield version, f"{root}{version[0]}{path}"
            if not path:
                break
            path = path.rpartition("/")[0]


class Memory:
    """The limits of this process, as they are when it is made.

    `root` is a prefix for all paths; for tests.
    """

    def __init__(self, root: str = "") -> None:
        self.limited = []  # (limit, version, path)
        for version, path in _groups(root):
            limit = _number(_read(os.path.join(path, version[1])))
            if limit and limit < _NO_LIMIT:
                self.limited.append((limit, version, path))

    def closest(self) -> tuple[int, int] | None:
        """(used, limit) in bytes of the cgroup that is closest to its limit; None if there is no
        limit.
        """
        found = []
        for limit, version, path in self.limited:
            used = _number(_read(os.path.join(path, version[2])))
            if used is None:
                continue
            for line in _read(os.path.join(path, "memory.stat")).splitlines():
                if line.startswith(version[3]):
                    used = max(0, used - (_number(line[len(version[3]) :]) or 0))
            found.append((used, limit))
        return max(found, key=lambda use: use[0] / use[1], default=None)
