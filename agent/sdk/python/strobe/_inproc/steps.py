"""Counts the program's training steps: JAX's and TensorFlow's step annotations, and the steps of
PyTorch's optimizers.

The hooks run in the program's threads, whether or not a capture runs: they take a microsecond,
never raise and never wait. A capture that begins at a step sets a gate, which the hooks call at
every boundary.
"""

import functools
import sys

from .failure import is_the_programs
from .own_thread import new_lock
from .step_marks import LoopMarks, StepMarks
from .switches import is_off

TORCH_LOOP = "ProfilerStep"  # Kineto's name for steps.
_MAX_NAME = 48  # Bytes; kLoopNameBytes in agent/wire/layout.h.


class Steps:
    """The steps that one framework of this process tells."""

    def __init__(self):
        self.forget()

    def forget(self):
        """Called in a forked child. The marks that its parent shares are left alone."""
        self.marks = StepMarks()
        self.loops = self.marks.loops
        # begin(loop, number) and end(loop, number), called before and after a step.
        self.gate = None

    def begin(self, name, number):
        """A step begins in the calling thread."""
        loop = self.loops.get(name) or self._take(name)
        if loop is None:
            return
        gate = self.gate
        if gate is not None:
            gate.begin(name, number)
        loop.begin(number)

    def end(self, name, number):
        loop = self.loops.get(name)
        if loop is None or not loop.end(number):
            return
        gate = self.gate
        if gate is not None:
            gate.end(name, number)

    def last(self, name):
        """The number of the loop's step that began last; None if none did."""
        loop = self.loops.get(name)
        return None if loop is None else loop.last

    def share(self, memory):
        """Tells the steps in this memory, of StepMarks.BYTES bytes, from now on."""
        with _naming:
            self.marks.move_to(memory)

    def _take(self, name):
        """The marks of a loop whose first step begins; None if there are too many loops."""
        with _naming:
            marks = self.marks.add(name)
        if marks is not None and _look is not None:
            _look()
        return marks


_naming = new_lock()  # Held while a loop gets its marks, and while marks move.
_steps = {}  # By framework.
_optimizers = []  # The one hook of PyTorch's optimizers, if it is there.
_begin = None  # In a forked child that has not trained yet: bootstrap().
_look = None  # Called when a loop tells its first step.
# enter(number) and leave(), called around PyTorch's steps, which have no annotation of their own.
_annotator = None


def steps_of(framework):
    return _steps.get(framework) or _steps.setdefault(framework, Steps())


def set_annotator(annotator):
    global _annotator
    _annotator = annotator


def annotator_now():
    """What annotates steps of PyTorch, while it is recorded; else None."""
    return _annotator


def await_step(begin):
    """Lets a forked child begin the service at its first step of an optimizer."""
    global _begin
    _begin = begin


def on_first_step(look):
    """Calls look() at the first step of each loop. It must not wait."""
    global _look
    _look = look


def forget():
    """Called in a forked child, where nobody would release a lock that another thread of the parent
    held.
    """
    global _look, _naming
    set_annotator(None)
    _look = None
    _naming = new_lock()
    for optimizers in _optimizers:
        optimizers.lock = new_lock()
    for steps in _steps.values():
        steps.forget()


def _number_of(value):
    """An int, or None. Arrays are left alone: reading one may wait for a device."""
    return int(value) if type(value).__module__ == "numpy" and hasattr(value, "__index__") else None


def _cut(name):
    """The loop's name as the sidecar reads it: at most _MAX_NAME bytes."""
    if len(name) <= _MAX_NAME and name.isascii():
        return name
    return name.encode(errors="replace")[:_MAX_NAME].decode(errors="ignore")


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
                loop = _cut(str(arguments[0] if arguments else options.get("name")))
                steps.begin(loop, number)
                self._strobe_step = loop, number
        except Exception as error:
            if is_the_programs(error):
                raise
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
        except Exception as error:
            if is_the_programs(error):
                raise
        return result

    kind.__init__, kind.__exit__ = __init__, __exit__
    kind.strobe_counts = True


class _Optimizers:
    """Counts training steps by the steps of optimizers.

    Called after an optimizer's step, in the program's thread.

    A program with several optimizers steps each of them in turn. A training step ends when an
    optimizer steps for the second time in it.
    """

    def __init__(self, steps):
        self.steps = steps
        self.number = 0
        self.stepped = set()
        self.lock = new_lock()

    def __call__(self, optimizer, arguments, options):
        global _begin
        try:
            begin, _begin = _begin, None
            if begin is not None:
                begin("torch")
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
        except Exception as error:
            if is_the_programs(error):
                raise


def hide_from_compiler(*functions):
    """Hides hooks from PyTorch's compiler, which would otherwise compile them again and again,
    because the steps' numbers change.
    """
    try:
        skip = sys.modules["torch._C"]._dynamo.eval_frame.skip_code
        for function in functions:
            skip(function.__code__)
    except Exception:
        pass


def count(framework):
    """Begins to count the steps of a framework that is imported. Idempotent."""
    if is_off("steps"):
        return
    steps = steps_of(framework)
    if framework == "jax":
        _count_annotations(sys.modules.get("jax.profiler"), "StepTraceAnnotation", steps)
    elif framework == "tensorflow":
        _count_annotations(sys.modules.get("tensorflow.python.profiler.trace"), "Trace", steps)
    elif framework == "torch":
        module = sys.modules.get("torch.optim.optimizer")
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None and not hasattr(module, "strobe_counts"):
            hide_from_compiler(
                _Optimizers.__call__,
                Steps.begin,
                Steps.end,
                Steps._take,
                LoopMarks.begin,
                LoopMarks.end,
            )
            _optimizers.append(_Optimizers(steps))
            register(_optimizers[-1])
            module.strobe_counts = True
