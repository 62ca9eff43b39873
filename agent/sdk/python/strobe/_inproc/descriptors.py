"""Descriptors that the program may close: one that becomes a daemon closes all, and then opens
files of its own under the same numbers.
"""

from __future__ import annotations

import os


class Descriptor:
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
