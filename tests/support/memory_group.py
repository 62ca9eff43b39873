"""Programs with a memory limit, as containers have one: the kernel's own cgroups."""

import contextlib
import os
from pathlib import Path


def _here():
    """Where this process's memory group is, and the name of the limit's file."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for root, limit in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
            if (controllers == "" or "memory" in controllers.split(",")) and (root / path.lstrip("/") / limit).exists():
                return root / path.lstrip("/"), limit
    raise RuntimeError("this machine has no memory cgroup")


@contextlib.contextmanager
def memory_group(mebibytes):
    """A command's beginning that puts it under the limit."""
    parent, limit = _here()
    group = parent / f"strobe-test-{os.getpid()}-{id(object())}"
    group.mkdir()
    try:
        (group / limit).write_text(str(mebibytes << 20))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)  # Whoever still lives is somebody else's to end.
        group.rmdir()
