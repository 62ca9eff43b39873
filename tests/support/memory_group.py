"""Runs programs under a memory limit in a cgroup, as containers have one."""

import contextlib
import os
from pathlib import Path


def _here():
    """Returns the directory of this process's memory cgroup, and the name of the file with the limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for root, limit in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
            if (controllers == "" or "memory" in controllers.split(",")) and (root / path.lstrip("/") / limit).exists():
                return root / path.lstrip("/"), limit
    raise RuntimeError("this machine has no memory cgroup")


@contextlib.contextmanager
def memory_group(mebibytes):
    """Yields a prefix for commands that runs them under the limit."""
    parent, limit = _here()
    group = parent / f"strobe-test-{os.getpid()}-{id(object())}"
    group.mkdir()
    try:
        (group / limit).write_text(str(mebibytes << 20))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)  # The processes are moved, not killed: their owner ends them.
        group.rmdir()
