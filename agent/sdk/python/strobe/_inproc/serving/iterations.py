"""Counts the iterations of this process's engine: each batch with requests is a step.

The functions run in the server's threads, whether or not a capture runs: an iteration costs at most
some microseconds. They never wait. What they raise, the hooks keep from the server.
"""

from __future__ import annotations

from typing import Any

from ..own_thread import thread_id
from ..steps import annotator_now, steps_of
from .batches import Shape
from .marks import EngineMarks

LOOP = "engine"
_MAX_KNOWN = 100_000  # Requests of one recording that are told apart.


class Work:
    """What the engine did while it was recorded."""

    def __init__(self) -> None:
        self.iterations = self.prefills = self.dummies = 0
        self.prefill_tokens = self.decode_tokens = 0
        self.requests = set()

    def add(self, shape: Shape, requests: Any) -> None:
        self.iterations += 1
        self.prefills += shape.prefill_requests > 0
        self.prefill_tokens += shape.prefill_tokens
        self.decode_tokens += shape.decode_tokens
        if len(self.requests) < _MAX_KNOWN:
            self.requests.update(requests)


class Iterations:
    """A process has one engine. Several, in threads of their own, are told as one."""

    def __init__(self) -> None:
        self.marks = EngineMarks()
        self.steps = steps_of("torch")
        self.number = 0  # That of the iteration that began last.
        self.is_open = False
        self.annotation = None  # That of the open iteration, and its thread.
        self.recording = None  # The annotator of the recording that `work` is about.
        self.work = Work()

    def forget(self) -> None:
        """Called in a forked child, whose memory of marks is its parent's."""
        self.marks = EngineMarks()
        self.is_open, self.annotation, self.recording = False, None, None

    def begin(
        self, kind: Any, batch: Any, requests: int, tokens: int, number: int | None = None
    ) -> None:
        """An iteration begins in the calling thread. `kind` reads the batch."""
        if self.is_open:
            self.end()
        if tokens == 0:  # It only moves caches between servers.
            return
        self.number = number = self.number + 1 if number is None else number
        self.is_open = True
        self.steps.begin(LOOP, number)  # May begin a recording.
        self.marks.begin(number, requests, tokens)
        annotator = annotator_now()
        if annotator is not None:
            shape = kind.shape_of(batch)
            self._work_of(annotator).add(shape, kind.requests_of(batch))
            self.annotation = self._annotate(annotator, self._name_of(shape))

    def end(self) -> None:
        """The open iteration ends, if there is one."""
        if not self.is_open:
            return
        self.is_open = False
        opened, self.annotation = self.annotation, None
        self.close(opened)
        self.marks.end()
        self.steps.end(LOOP, self.number)

    def dummy(self) -> Any:
        """A batch without requests begins. Returns its annotation, for close()."""
        self.end()
        self.marks.dummy()
        annotator = annotator_now()
        if annotator is None:
            return None
        self._work_of(annotator).dummies += 1
        return self._annotate(annotator, f"{LOOP} dummy")

    def plans(self, running: int, waiting: int) -> Any:
        """The scheduler begins to plan an iteration. Returns its annotation, for close()."""
        annotator = annotator_now()
        if annotator is None:
            return None
        self._work_of(annotator)
        return self._annotate(annotator, f"{LOOP}.schedule r={running} w={waiting}")

    def close(self, annotation: Any) -> None:
        if annotation is not None and annotation[1] == thread_id():
            annotation[0].__exit__(None, None, None)

    def work_of(self, annotator: Any, runs: bool) -> dict[str, int]:
        """What was done while this annotator was there, for the client of a capture.

        A process that only schedules, and does not run the model, has no iterations.
        """
        work = self.work if self.recording is annotator else Work()
        told = {}
        if runs:
            told = {
                "iterations": work.iterations,
                "prefills": work.prefills,
                "dummies": work.dummies,
                "requests": len(work.requests),
                "prefill_tokens": work.prefill_tokens,
                "decode_tokens": work.decode_tokens,
            }
        if self.marks.queue_told:
            told.update(running=self.marks.running, waiting=self.marks.waiting)
        return told

    def _work_of(self, annotator: Any) -> Work:
        if self.recording is not annotator:
            self.recording, self.work = annotator, Work()
        return self.work

    @staticmethod
    def _annotate(annotator: Any, name: str) -> Any:
        annotation = annotator.record_function(name)
        annotation.__enter__()
        return annotation, thread_id()

    def _name_of(self, shape: Shape) -> str:
        """As collector/trace/kineto/engine_names.h reads it."""
        name = (
            f"{LOOP}#{self.number} p={shape.prefill_requests}/{shape.prefill_tokens} "
            f"d={shape.decode_requests}/{shape.decode_tokens}"
        )
        marks = self.marks
        return f"{name} r={marks.running} w={marks.waiting}" if marks.queue_told else name
