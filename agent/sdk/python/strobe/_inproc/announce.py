"""The files of this process in the agent directory: announcements (`*.process`) and traces.

An announcement is locked (flock) as long as the program lives, so that a sidecar in another PID
namespace can tell a live program from one that was killed. The kernel releases the lock at exit and
exec; a forked child closes its copy. A child that C code forked cannot, so there is a second lock
(lockf), which no child inherits.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

FORMAT = 1


class Descriptor:
    """A descriptor that the program may close: one that becomes a daemon closes all, and then opens
    files of its own under the same numbers.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._what = self._look()

    def _look(self) -> tuple[int, int]:
        found = os.fstat(self.fd)
        return found.st_dev, found.st_ino

    def is_ours(self) -> bool:
        """False if the program has closed it, whatever has its number now."""
        try:
            return self._look() == self._what
        except OSError:
            return False

    def close(self) -> None:
        if self.is_ours():
            os.close(self.fd)


def _lock_for_process(fd: int) -> bool:
    """Takes the lock that no child inherits; False on file systems that have none."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Directory:
    """$STROBE_DIR/agent, and the names in it that belong to this process."""

    def __init__(self, root: str, stem: str) -> None:
        self.path = os.path.join(root, "agent")
        self.stem = stem
        try:
            os.mkdir(self.path)
            # For all users of the pod, and sticky, as when the agent creates it.
            os.chmod(self.path, 0o1777)
        except FileExistsError:
            pass
        # A path through this descriptor is short enough for a Unix socket, and stays valid if the
        # program changes its root.
        self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._opened = Descriptor(self.fd)
        self.locked = {}  # The locked descriptor of each announcement, by name.
        # The one before, by name. A reader may just have opened it; unlocked, it would look like a
        # dead program's.
        self.replaced = {}
        self.made = set()  # Names of other files to remove at exit.
        # A program keeps its PID, and so the names of its files, through exec. The sidecar would
        # take what this one makes for what the one before left, and remove it.
        for name in os.listdir(self.fd):
            if (
                name == f"{stem}.process"
                or name.startswith(f"{stem}-")
                and name.endswith(".process")
            ):
                self._unlink(name)

    def announce(self, name: str, content: dict[str, Any]) -> None:
        """Writes or replaces an announcement."""
        self._must_be_open()
        hidden = f".{name}.new"
        fd = self._new_file(hidden, os.O_WRONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = (
                json.dumps(
                    {"format": FORMAT, "process_lock": _lock_for_process(fd), **content}
                ).encode()
                + b"\n"
            )
            if os.write(fd, data) != len(data):
                raise OSError("the volume is full")
            os.rename(hidden, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            os.close(fd)
            self._unlink(hidden)
            raise
        before, self.locked[name] = self.locked.get(name), Descriptor(fd)
        oldest = self.replaced.get(name)
        if before is not None:
            self.replaced[name] = before
        if oldest is not None:
            oldest.close()

    def create(self, name: str) -> int:
        """Opens a new file; returns its descriptor. It is removed at exit unless kept."""
        self._must_be_open()
        self.made.add(name)
        return self._new_file(name, os.O_RDWR)

    def share(self, name: str, size: int) -> mmap.mmap:
        """Creates a file and returns it mapped into memory, for this process to write to.

        The file is removed at exit.

        The whole file is written at once: on a full volume, the first write to a page of a mapped
        file would kill the process.
        """
        import mmap

        fd = self.create(name)
        try:
            if os.write(fd, bytes(size)) != size:
                raise OSError("the volume is full")
            return mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def leave(self, name: str, data: bytes) -> None:
        """Writes or replaces a file that stays when this process ends; the sidecar removes it."""
        self._must_be_open()
        hidden = f".{name}.new"
        fd = self._new_file(hidden, os.O_WRONLY)
        try:
            if os.write(fd, data) != len(data):
                raise OSError("the volume is full")
            os.rename(hidden, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self._unlink(hidden)
            raise
        finally:
            os.close(fd)

    def owns(self, name: str) -> None:
        self.made.add(name)

    def keep(self, hidden: str, name: str) -> None:
        """Gives a finished trace its name.

        From then on the client that asked for the trace removes it, and this process leaves it
        alone.
        """
        os.chmod(hidden, 0o644, dir_fd=self.fd)
        os.rename(hidden, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.made.discard(hidden)

    def has(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size

    def remove(self, name: str) -> None:
        self._unlink(name)
        self.made.discard(name)

    def through_fd(self, name: str) -> str:
        return f"/proc/self/fd/{self.fd}/{name}"

    def clear(self) -> None:
        if not self._opened.is_ours():
            return
        for name in [*self.locked, *self.made]:
            self._unlink(name)

    def forget(self) -> None:
        """In a forked child: the files are the parent's."""
        for descriptor in [*self.locked.values(), *self.replaced.values(), self._opened]:
            descriptor.close()

    def _new_file(self, name: str, access: int) -> int:
        # A process keeps its PID through exec, so an earlier program of this process may have left
        # a file of the same name.
        self._unlink(name)
        flags = access | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(name, flags, 0o644, dir_fd=self.fd)
        try:
            os.fchmod(fd, 0o644)  # The sidecar usually runs as another user.
        except BaseException:
            os.close(fd)
            self._unlink(name)
            raise
        return fd

    def _must_be_open(self) -> None:
        """Another directory may have the number by now, and must not get our files."""
        if not self._opened.is_ours():
            raise OSError("the program has closed the descriptors of the service")

    def _unlink(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self.fd)
        except OSError:
            pass
