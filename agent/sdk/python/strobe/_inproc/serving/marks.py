"""The last iterations of this process's engine, and its queue, in memory that the sidecar may read
at any time: a file in the agent directory.

The layout is that of `EngineFile` in agent/wire/engine_file.h. A mark is complete before it is
counted, so that a reader finds at most one mark that is being replaced: the oldest one.
"""

from __future__ import annotations

import struct
from time import monotonic_ns
from typing import Any

MARKS = 256
_MAGIC = int.from_bytes(b"STROBEE1", "little")
# The places of words of eight bytes.
_BEGUN, _DUMMIES, _RUNNING, _WAITING, _QUEUE_TOLD, _WORKED, _BUSY, _FIRST_MARK = range(1, 9)
_MARK, _ENDED = 5, 2  # The size of a mark, and the place of its end.
_pack_mark = struct.Struct("@qqqqq").pack_into  # Copies each word as a whole.


class EngineMarks:
    """Used by the program's threads, except move_to()."""

    BYTES = 8 * (_FIRST_MARK + _MARK * MARKS)

    def __init__(self) -> None:
        self.begun = self.dummies = self.running = self.waiting = 0
        self.queue_told = False
        self._busy = False
        self._mark = _FIRST_MARK
        self._memory = memoryview(bytearray(self.BYTES))
        self._words = self._memory.cast("q")
        self._words[0] = _MAGIC

    def move_to(self, memory: Any) -> None:
        """Continues in other memory, of BYTES bytes.

        An iteration that begins meanwhile in another thread may be missing there.
        """
        before, self._memory = self._memory, memoryview(memory)
        self._memory[:] = before
        self._words = self._memory.cast("q")

    def begin(self, number: int, requests: int, tokens: int) -> None:
        begun = self.begun
        self._mark = mark = _FIRST_MARK + _MARK * (begun % MARKS)
        _pack_mark(self._memory, 8 * mark, number, monotonic_ns(), 0, requests, tokens)
        self.begun = self._words[_BEGUN] = begun + 1

    def end(self) -> None:
        self._words[self._mark + _ENDED] = monotonic_ns()

    def dummy(self) -> None:
        """A batch without requests, by which a rank only keeps up with others."""
        self.dummies = self._words[_DUMMIES] = self.dummies + 1

    def queue(self, running: int, waiting: int, works: bool) -> None:
        """The scheduler's queue after it has planned an iteration; whether that has any tokens."""
        words, now = self._words, monotonic_ns()
        self.running = words[_RUNNING] = running
        self.waiting = words[_WAITING] = waiting
        self.queue_told, words[_QUEUE_TOLD] = True, now
        if works:
            words[_WORKED] = now
        busy = running > 0 or waiting > 0
        if busy is not self._busy:
            self._busy = busy
            words[_BUSY] = now if busy else 0
