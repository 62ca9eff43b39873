"""Wraps the methods of vLLM and SGLang by which their engines iterate, as far as they are loaded.

Each is looked up by name on every call, so that a class can be changed at any time, also hours
after the server has started. tests/serving/hook_contract checks the table against releases of both.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterator, NamedTuple

from ..failure import is_the_programs
from ..switches import is_off
from .batches import SglangBatch, VllmBatch
from .iterations import Iterations
from .marks import EngineMarks

MAX_TEXT = 256
_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}

engine = Iterations()


class Server:
    """What is known of the server in this process."""

    def __init__(self) -> None:
        self.program = None  # "vllm" or "sglang", once something of it is wrapped.
        self.can_run = False  # What runs the model is loaded. Front ends load it too.
        self.schedules = False  # It has planned an iteration.
        self.role = self.role_from = None
        self.met = False  # The objects that know the role were seen.
        self.notes = {}  # By what is missing.
        self.file = None
        self.changed = None  # Called when something of this changes. It must not wait.

    def told(self) -> dict[str, Any] | None:
        """For the announcement; None if no server is loaded."""
        if self.program is None:
            return None
        return {
            "program": self.program,
            "version": _version_of(self.program),
            "file": self.file,
            "schedules": self.schedules,
            "note": "; ".join(self.notes.values())[:MAX_TEXT] or None,
        }


server = Server()


class Hook(NamedTuple):
    module: str
    owner: str  # The class.
    method: str
    arguments: tuple[str, ...]  # The wrapper relies on them.
    loss: str  # What is not told without it.
    wrap: Callable[[Any], Any]
    runs: bool = False  # A process that runs the model has the class.
    optional: bool = False  # Without Ray, and since vLLM 0.33, there is no such class.
    # Module and name of a class whose loaded subclasses get the hook too.
    base: tuple[str, str] | None = None


def _keep(error: Exception) -> None:
    """Keeps an error of ours from the server, unless the server raised it."""
    if is_the_programs(error):
        raise error


def _end() -> None:
    try:
        engine.end()
    except Exception as error:
        _keep(error)


def _runs(original: Any, begin: Any, ends_without_result: bool) -> Any:
    """begin(object, arguments, options) begins an iteration. It ends with the method, or later if
    that returns nothing and `ends_without_result` is false.
    """

    @functools.wraps(original)
    def runs(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            begin(self, arguments, options)
        except Exception as error:
            _keep(error)
        try:
            result = original(self, *arguments, **options)
        except BaseException:
            _end()
            raise
        if ends_without_result or result is not None:
            _end()
        return result

    return runs


def _ends(original: Any) -> Any:
    """The iteration ends with the method."""

    @functools.wraps(original)
    def ends(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return original(self, *arguments, **options)
        finally:
            _end()

    return ends


def _begin_vllm(owner: Any, batch: Any) -> None:
    if not server.met:
        _meet_vllm(owner)
    tokens = batch.total_num_scheduled_tokens
    engine.begin(VllmBatch, batch, len(batch.num_scheduled_tokens), tokens)


def _vllm_executes(original: Any) -> Any:
    def begin(owner, arguments, options):
        _begin_vllm(owner, arguments[0] if arguments else options["scheduler_output"])

    return _runs(original, begin, False)  # Without a result, sample_tokens comes next.


def _ray_executes(original: Any) -> Any:
    def begin(owner, arguments, options):
        _begin_vllm(owner, (arguments[0] if arguments else options["execute_model_input"])[0])

    return _runs(original, begin, True)


_in_dummy = []  # A class may call the method of its base.


def _vllm_dummy(original: Any) -> Any:
    @functools.wraps(original)
    def execute_dummy_batch(self: Any, *arguments: Any, **options: Any) -> Any:
        annotation = None
        try:
            if not _in_dummy:
                annotation = engine.dummy()
        except Exception as error:
            _keep(error)
        _in_dummy.append(True)
        try:
            return original(self, *arguments, **options)
        finally:
            _in_dummy.pop()
            try:
                engine.close(annotation)
            except Exception as error:
                _keep(error)

    return execute_dummy_batch


def _begin_scheduling(owner: Any) -> None:
    server.schedules = True
    if not server.met:
        _meet_vllm(owner)
    if server.changed is not None:
        server.changed()


def _vllm_schedules(original: Any) -> Any:
    @functools.wraps(original)
    def schedule(self: Any, *arguments: Any, **options: Any) -> Any:
        annotation = None
        try:
            if not server.schedules:
                _begin_scheduling(self)
            annotation = engine.plans(len(self.running), len(self.waiting))
        except Exception as error:
            _keep(error)
        try:
            result = original(self, *arguments, **options)
        finally:
            try:
                engine.close(annotation)
            except Exception as error:
                _keep(error)
        try:
            works = result.total_num_scheduled_tokens > 0
            engine.marks.queue(len(self.running), len(self.waiting), works)
        except Exception as error:
            _keep(error)
        return result

    return schedule


def _sglang_runs(original: Any) -> Any:
    def begin(owner, arguments, options):
        if not server.met:
            _meet_sglang(owner)
        batch = arguments[0] if arguments else options["batch"]
        requests, marks = len(batch.reqs), engine.marks
        if batch.forward_mode.name == "IDLE" or requests == 0:
            engine.end()
            return marks.dummy()
        # Between batches nobody tells whether requests are left, so that the file has no queue.
        marks.running, marks.waiting, marks.queue_told = requests, len(owner.waiting_queue), True
        count = getattr(owner, "forward_ct", None)  # Equal on all ranks of an engine.
        number = count + 1 if type(count) is int else None
        engine.begin(SglangBatch, batch, requests, SglangBatch.tokens_of(batch), number)

    @functools.wraps(original)
    def run_batch(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            begin(self, arguments, options)
        except Exception as error:
            _keep(error)
        try:
            return original(self, *arguments, **options)
        except BaseException:
            _end()
            raise

    return run_batch  # process_batch_result ends the iteration, or the next one.


_VLLM_WORKERS = ("vllm.v1.worker.worker_base", "WorkerBase")
HOOKS = (
    Hook(
        "vllm.v1.worker.worker_base",
        "WorkerWrapperBase",
        "execute_model",
        ("scheduler_output",),
        "iterations",
        _vllm_executes,
        runs=True,
    ),
    # Ray's compiled graph calls the model without the method above.
    Hook(
        "vllm.v1.executor.ray_utils",
        "RayWorkerWrapper",
        "execute_model_ray",
        ("execute_model_input",),
        "iterations of Ray's compiled graph",
        _ray_executes,
        runs=True,
        optional=True,
    ),
    Hook(
        "vllm.v1.worker.gpu_worker",
        "Worker",
        "sample_tokens",
        ("grammar_output",),
        "the ends of iterations",
        _ends,
        base=_VLLM_WORKERS,
    ),
    Hook(
        "vllm.v1.worker.gpu_worker",
        "Worker",
        "execute_dummy_batch",
        (),
        "batches without requests",
        _vllm_dummy,
        base=_VLLM_WORKERS,
    ),
    Hook(
        "vllm.v1.core.sched.scheduler",
        "Scheduler",
        "schedule",
        (),
        "how many requests run and wait",
        _vllm_schedules,
    ),
    Hook(
        "sglang.srt.managers.scheduler",
        "Scheduler",
        "run_batch",
        ("batch",),
        "iterations",
        _sglang_runs,
        runs=True,
    ),
    Hook(
        "sglang.srt.managers.scheduler",
        "Scheduler",
        "process_batch_result",
        ("batch", "result"),
        "the ends of iterations",
        _ends,
    ),
)


def look(share: Callable[[int], Any], changed: Callable[[], None]) -> None:
    """Wraps what is loaded by now. Idempotent, imports nothing, and only for the service's thread.

    `share(bytes)` returns the name and the memory of a new file for the sidecar. `changed` is
    called, from any thread, when the announcement is to be written again.
    """
    if is_off("serving"):
        return
    server.changed = changed
    for hook in HOOKS:
        _place(hook)
    if server.program is not None and server.file is None:
        server.file, memory = share(EngineMarks.BYTES)
        engine.marks.move_to(memory)


def forget() -> None:
    """Called in a forked child. Its classes keep the hooks, and its service tells them anew."""
    server.file = server.changed = None
    server.schedules = False
    engine.forget()


def profiler_words(seconds: float | None) -> str | None:
    """Why a capture is refused while the server profiles itself; None if there is no server."""
    if server.program is None:
        return None
    since = "" if seconds is None else f" since {seconds:.0f} s"
    return (
        f"{_NAMES[server.program]}'s own profiler runs{since} (POST /start_profile); POST "
        "/stop_profile ends it, which can take minutes in which nothing is served"
    )


def _place(hook: Hook) -> None:
    owners = [one for one in _subclasses(hook.base) if hook.method in vars(one)]
    program = hook.module.partition(".")[0]
    module = sys.modules.get(hook.module)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", 0):
        owner = getattr(module, hook.owner, None)
        if hasattr(owner, hook.method):
            owners.append(owner)
        elif owner is not None or not hook.optional:
            server.program = program
            server.notes[hook.owner, hook.method] = (
                f"{program} {_version_of(program) or ''}: {hook.owner}.{hook.method} was not "
                f"found: {hook.loss} are not told"
            )
    for one in owners:
        server.program = program
        server.can_run = server.can_run or hook.runs
        original = getattr(one, hook.method)
        if not hasattr(original, "strobe_counts"):
            wrapped = hook.wrap(original)
            wrapped.strobe_counts = True
            setattr(one, hook.method, wrapped)


def _subclasses(base: tuple[str, str] | None) -> Iterator[type]:
    """All loaded subclasses, such as those of other devices."""
    kind = getattr(sys.modules.get(base[0]), base[1], None) if base is not None else None
    waiting = list(kind.__subclasses__()) if isinstance(kind, type) else []
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        yield one


def _version_of(program: str) -> str | None:
    version = getattr(sys.modules.get(program), "__version__", None)
    return str(version)[:64] if version is not None else None


def _meet_vllm(owner: Any) -> None:
    """Reads the role from the configuration. "kv_both" says nothing."""
    server.met = True
    role = getattr(getattr(owner.vllm_config, "kv_transfer_config", None), "kv_role", None)
    _know_role(
        {"kv_producer": "prefill", "kv_consumer": "decode"}.get(role), f"kv_transfer_config: {role}"
    )


def _meet_sglang(owner: Any) -> None:
    server.met = True
    mode = getattr(owner, "disaggregation_mode", None)
    role = getattr(mode, "value", mode)
    _know_role(role if role in ("prefill", "decode") else None, f"disaggregation_mode: {role}")


def _know_role(role: str | None, told_by: str) -> None:
    if role is None:
        return
    server.role, server.role_from = role, told_by[:MAX_TEXT]
    if server.changed is not None:
        server.changed()
