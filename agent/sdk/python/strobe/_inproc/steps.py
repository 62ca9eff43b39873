"""Counts the program's training steps: JAX's and TensorFlow's step annotations, and the steps of PyTorch's optimizers.

The hooks run in the program's threads, whether or not a capture runs: they take a microsecond, never raise and never wait. A capture that
begins at a step sets a gate, which the hooks call at every boundary.
"""

import functools
import sys
import threading
import time
from collections import deque

TORCH_LOOP = "ProfilerStep"  # Kineto's name for steps.
_MAX_LOOPS = 4
_MAX_NAME = 48
_MARKS = 17


class _Loop:
    __slots__ = ("marks", "ended")

    def __init__(self):
        self.marks = deque(maxlen=_MARKS)  # (number, when it began), the last ones; time.monotonic_ns().
        self.ended = 0  # When the last one ended; 0 while it runs or if nobody tells.


class Steps:
    """The steps that one framework of this process tells."""

    def __init__(self):
        self.forget()

    def forget(self):
        """In a forked child."""
        self.loops = {}  # By name. Entries are added, and never removed.
        self.gate = None  # begin(loop, number) and end(loop, number), called before and after a step.

    def begin(self, name, number):
        """A step begins in the calling thread."""
        loop = self.loops.get(name)
        if loop is None:
            if len(self.loops) >= _MAX_LOOPS:
                return
            loop = self.loops.setdefault(name, _Loop())
        gate = self.gate
        if gate is not None:
            gate.begin(name, number)
        loop.ended = 0
        loop.marks.append((number, time.monotonic_ns()))

    def end(self, name, number):
        loop = self.loops.get(name)
        if loop is None or not loop.marks or loop.marks[-1][0] != number:
            return
        loop.ended = time.monotonic_ns()
        gate = self.gate
        if gate is not None:
            gate.end(name, number)

    def told(self):
        """What a client is told of each loop: the last step, when it began and ended, and the median time per step."""
        monotonic, wall = time.monotonic_ns(), time.time_ns()
        found = []
        for name, loop in list(self.loops.items()):
            marks, ended = list(loop.marks), loop.ended
            marks = [mark for mark in marks if mark[0] >= 0]
            if not marks:
                continue
            periods = sorted((b[1] - a[1]) // (b[0] - a[0]) for a, b in zip(marks, marks[1:]) if b[0] > a[0])
            number, began = marks[-1]
            found.append({"loop": name, "number": number, "began_ns": wall - (monotonic - began),
                          "ended_ns": wall - (monotonic - ended) if ended else 0, "period_ns": periods[len(periods) // 2] if periods else 0})
        return found


_steps = {}  # By framework.
_annotator = None  # enter(number) and leave(), called around PyTorch's steps, which have no annotation of their own.


def steps_of(framework):
    return _steps.get(framework) or _steps.setdefault(framework, Steps())


def set_annotator(annotator):
    global _annotator
    _annotator = annotator


def forget():
    """In a forked child."""
    set_annotator(None)
    for steps in _steps.values():
        steps.forget()


def _number_of(value):
    """An int, or None. Arrays are left alone: reading one may wait for a device."""
    return int(value) if type(value).__module__ == "numpy" and hasattr(value, "__index__") else None


def _count_annotations(holder, name, steps):
    """Wraps the class of a framework's step annotations: steps are those with step_num."""
    kind = getattr(holder, name, None)
    if kind is None or hasattr(kind, "strobe_counts"):
        return
    before, after = kind.__init__, kind.__exit__

    @functools.wraps(before)
    def __init__(self, *arguments, **options):
        try:
            number = options.get("step_num")
            if type(number) is not int:
                number = _number_of(number)
            if number is not None:
                loop = str(arguments[0] if arguments else options.get("name"))[:_MAX_NAME]
                steps.begin(loop, number)
                self._strobe_step = loop, number
        except Exception:
            pass
        before(self, *arguments, **options)

    @functools.wraps(after)
    def __exit__(self, *arguments):
        result = after(self, *arguments)
        try:
            step = self._strobe_step
        except AttributeError:
            return result
        try:
            steps.end(*step)
        except Exception:
            pass
        return result

    kind.__init__, kind.__exit__ = __init__, __exit__
    kind.strobe_counts = True


class _Optimizers:
    """Counts steps of training by those of optimizers: one ends when an optimizer has stepped that stepped since the last one ended.

    A program with several optimizers steps each of them in turn. Called after an optimizer's step, in the program's thread.
    """

    def __init__(self, steps):
        self.steps = steps
        self.number = 0
        self.stepped = set()
        self.lock = threading.Lock()

    def __call__(self, optimizer, arguments, options):
        try:
            with self.lock:
                if self.stepped and id(optimizer) not in self.stepped:
                    self.stepped.add(id(optimizer))
                    return
                self.stepped = {id(optimizer)}
                self.number += 1
                number = self.number
            if _annotator is not None:
                _annotator.leave()
            self.steps.end(TORCH_LOOP, number - 1)
            self.steps.begin(TORCH_LOOP, number)  # May begin or end a recording.
            annotator = _annotator
            if annotator is not None:
                annotator.enter(number)
        except Exception:
            pass


def _hide_from_compiler(*functions):
    """PyTorch's compiler would compile what a compiled program calls, again and again, because the numbers change."""
    try:
        skip = sys.modules["torch._C"]._dynamo.eval_frame.skip_code
        for function in functions:
            skip(function.__code__)
    except Exception:
        pass


def count(framework):
    """Begins to count the steps of a framework that is imported. Idempotent."""
    steps = steps_of(framework)
    if framework == "jax":
        _count_annotations(sys.modules.get("jax.profiler"), "StepTraceAnnotation", steps)
    elif framework == "tensorflow":
        _count_annotations(sys.modules.get("tensorflow.python.profiler.trace"), "Trace", steps)
    elif framework == "torch":
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None and not hasattr(module, "strobe_counts"):
            _hide_from_compiler(_Optimizers.__call__, Steps.begin, Steps.end, _Loop.__init__)
            register(_Optimizers(steps))
            module.strobe_counts = True
