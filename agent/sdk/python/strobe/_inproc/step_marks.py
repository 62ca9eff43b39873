"""The last training steps that this process began, and its memory use, in memory that the sidecar
may read at any time: a file in the agent directory.

The layout is that of `StepFile` in agent/wire/layout.h. A step's mark is complete before it is
counted, so that a reader finds at most one mark that is being replaced: that of the oldest step.
"""

from __future__ import annotations

import struct
from time import monotonic_ns
from typing import Any

MAX_LOOPS = 4
_MAGIC = int.from_bytes(b"STROBES2", "little")
_NAME_BYTES, _MARKS = 48, 16
# Offsets and sizes in words of eight bytes. A loop has, in this order, an identifier, the number of
# steps that began, a name and marks; a mark has the step's number, begin and end. _END counts from
# the begin of its mark; _MARK is the size of a mark.
_COUNT, _NAME, _FIRST_MARK, _MARK, _END = 1, 2, 2 + _NAME_BYTES // 8, 3, 2
_LOOP = _FIRST_MARK + _MARK * _MARKS
_pack_mark = struct.Struct("@qqq").pack_into  # Copies each word as a whole.


class LoopMarks:
    """The marks of one loop. Used by the program's threads, except move_to()."""

    __slots__ = ("_at", "_begun", "_mark", "_memory", "_words", "last")

    def __init__(self, at: int, memory: memoryview, name: str) -> None:
        """`at` is the place of the loop's first word in the memory."""
        self._at, self._begun, self._mark = at, 0, 0
        self.last = None  # The number of the step that began last; None if none did.
        self.move_to(memory)
        text = name.encode(errors="replace")[:_NAME_BYTES]
        first = 8 * (at + _NAME)
        memory[first : first + len(text)] = text
        self._words[at] = 1  # Taken.

    def move_to(self, memory: memoryview) -> None:
        self._memory, self._words = memory, memory.cast("q")

    def begin(self, number: int) -> None:
        begun = self._begun
        self._mark = mark = self._at + _FIRST_MARK + _MARK * (begun % _MARKS)
        _pack_mark(self._memory, 8 * mark, number, monotonic_ns(), 0)
        self.last, self._begun = number, begun + 1
        self._words[self._at + _COUNT] = begun + 1

    def end(self, number: int) -> bool:
        """Notes the end of the step that began last; False if that has another number."""
        if number != self.last:
            return False
        self._words[self._mark + _END] = monotonic_ns()
        return True


class StepMarks:
    """The marks of up to MAX_LOOPS loops."""

    BYTES = 8 * (1 + MAX_LOOPS * _LOOP + 3)

    def __init__(self) -> None:
        self.loops = {}  # LoopMarks by name. Entries are added, and never removed.
        self._memory = memoryview(bytearray(self.BYTES))
        self._memory.cast("q")[0] = _MAGIC

    def add(self, name: str) -> LoopMarks | None:
        """The marks of a loop that has none yet; None if there are too many.

        Not for two threads at a time, nor during move_to().
        """
        at = len(self.loops)
        if at < MAX_LOOPS and name not in self.loops:
            self.loops[name] = LoopMarks(1 + at * _LOOP, self._memory, name)
        return self.loops.get(name)

    def tell_memory(self, used: int, limit: int) -> None:
        """Tells how many bytes the container uses now, and how many it may use."""
        words = self._memory.cast("q")  # The last three: used, limit, and when they were read.
        words[-3], words[-2] = used, limit
        words[-1] = monotonic_ns()

    def move_to(self, memory: Any) -> None:
        """Continues in other memory, of BYTES bytes.

        A step that begins meanwhile in another thread may be missing there.
        """
        self._memory, before = memoryview(memory), self._memory
        self._memory[:] = before
        for loop in self.loops.values():
            loop.move_to(self._memory)
