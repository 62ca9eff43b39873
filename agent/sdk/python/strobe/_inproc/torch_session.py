"""Records PyTorch by its own profiler, all threads of the process, from the service's thread."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any, Callable, TYPE_CHECKING

from .changes import skip_destructors
from .frameworks import release, version
from .own_thread import give_way, thread_id
from .process import ranks
from .recorder import Recorder, intercept, records
from .request import Refused
from .serving import engine, profiler_words, server
from .steps import TORCH_LOOP, set_annotator
from .switches import is_off
from .torch_pauses import Pauses
from .torch_unlocked import can_stop, empty, save, stop

if TYPE_CHECKING:
    from .announce import Directory
    from .request import Request


# From this one on, PyTorch ends a recording without the interpreter's lock (its pull request
# 187594).
_ENDS_UNLOCKED = (2, 14, 0)
# Before it, CUPTI's next use after it was detached crashes programs with CUDA graphs.
_DETACH_IS_SAFE = (12, 6, 0)
# Older versions crash at the end of the program if Kineto's daemon recorded it (seen with 2.3.1,
# every time).
_OLDEST_FOR_KINETO = (2, 5, 0)
_STAYS_ATTACHED = (
    "PyTorch keeps CUPTI attached after its first recording of GPUs: until the program restarts, "
    "launches of kernels take longer (a step of many "
    "small kernels 17 to 34 %); with TEARDOWN_CUPTI=1 in the program's environment, PyTorch "
    "detaches it"
)

_FOR_AMD = (
    "AMD's GPUs are recorded by rocprofiler-sdk, which must have found PyTorch's libraries before "
    "the program's first HIP call; otherwise the trace has no kernels"
)


def _agents_leave() -> Any:
    """The function of Strobe's library in this process (the agent) that makes it leave the devices.

    None if the agent is not there, which CUDA's driver loads by the path in the environment.
    """
    path = os.environ.get("CUDA_INJECTION64_PATH")
    if not path:
        return None
    try:
        # Only if it is loaded already. The interpreter's lock is not held during a call.
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        function = library.strobe_agent_leave_devices
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = None, ()
    return function


def _make_agent_leave() -> None:
    """Makes the agent leave the devices to Kineto, for good.

    Returns when it has, after a second at most, and at once if it records none. Otherwise CUPTI
    would refuse Kineto, which then records no GPU until the program restarts.
    """
    leave = _agents_leave()
    if leave is not None:
        leave()


class _StepAnnotations:
    """Annotates steps as torch.profiler does. Called in the program's threads."""

    def __init__(self, record_function: Callable[[str], Any]) -> None:
        self.record_function = record_function
        self.open = None  # The annotation of the step that runs, and its thread.

    def enter(self, number: int) -> None:
        annotation = self.record_function(f"{TORCH_LOOP}#{number}")
        annotation.__enter__()
        self.open = annotation, thread_id()

    def leave(self) -> None:
        opened, self.open = self.open, None
        if opened is not None and opened[1] == thread_id():
            opened[0].__exit__(None, None, None)


@records("torch")
class TorchRecorder(Recorder):
    format, suffix = "kineto", "pt.trace.json"
    takes_devices = True  # Kineto, where it is built for CUDA.
    ends_at_exit = True  # The exit must wait for the stop in any case.
    place = 1

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory)
        self.torch = sys.modules["torch"]
        self.autograd = sys.modules["torch.autograd.profiler"]
        # Whether this recorder refuses every capture and the sidecar may record the process by
        # Kineto's protocol.
        self.refuses = False
        self.plain = False  # Whether the recording has neither stacks nor memory.
        self.devices = False
        self.pauses = Pauses()
        # What a recording has that ends with the interpreter's lock held; None if it ends without.
        self.pauses_for = None
        if self._for_amd():
            self.note = _FOR_AMD
        if self._all_threads() is None:
            self.note = (
                "PyTorch before 2.7 records only the thread that starts its profiler: captures are "
                "refused"
            )
            self.refuses = release(version("torch")) >= _OLDEST_FOR_KINETO
        self.used = False  # By a capture.
        self.profiled = False  # By a capture or by the program.
        self.program_began = None  # When the program's last session began, by the monotonic clock.
        self.annotations = None  # What annotated steps in the last recording.
        self._yield_to_program()

    def _for_amd(self) -> bool:
        return getattr(self.torch.version, "hip", None) is not None

    def _all_threads(self) -> Any:
        """The setting that records all threads; None in a version without it."""
        try:
            setting = self.torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):
            return None
        return setting

    def _yield_to_program(self) -> None:
        """The program's sessions begin and end by these functions; so do ours, in our thread."""

        def begins():
            first, self.profiled = not self.profiled, True
            if first:
                self.changed()
            if not self.turn.is_ours():
                self.program_began = time.monotonic()
                self.turn.program_begins()
            _make_agent_leave()

        def ends():
            if not self.turn.is_ours():
                self.turn.program_ends()

        for name in ("_prepare_profiler", "_enable_profiler"):
            intercept(self.autograd, name, begins, failed=ends)
        intercept(self.autograd, "_disable_profiler", ends)
        disable = self.autograd._disable_profiler
        holds_lock = release(version("torch")) < _ENDS_UNLOCKED

        def disable_in_turn():
            with self.turn.lent():
                return disable()

        def disable_unlocked():
            if not self._may_unlock() or not self.turn.is_ours():
                return disable()
            if holds_lock:
                return stop(disable, self.torch._C._autograd)
            return give_way(disable_in_turn)

        disable_unlocked.strobe_original = disable.strobe_original
        self.autograd._disable_profiler = disable_unlocked

    def _may_unlock(self) -> bool:
        """Whether the recording may be ended without the interpreter's lock.

        What stacks and memory refer to belongs to the interpreter. With devices, programs that
        launched kernels while their recording ended were seen to fail more often (PyTorch's pull
        request 190940).
        """
        return self.plain and not self.devices

    def _check_pause(self, request: Request, stacks: bool) -> None:
        """Tells of the pause at the end of the recording, if there will be one.

        May raise Refused.
        """
        self.pauses_for = None
        unlocked = self._may_unlock() and can_stop(self.torch._C._autograd)
        if unlocked or release(version("torch")) >= _ENDS_UNLOCKED:
            return
        kinds = {"stacks": stacks, "memory": "memory" in request.torch, "devices": self.devices}
        self.pauses_for = tuple(kind for kind, held in kinds.items() if held)
        told = self.pauses.check(self.pauses_for, request, server.program is not None)
        self.note = f"{told}; {self.note}" if self.note else told

    def stop(self) -> None:
        super().stop()
        if self.pauses_for is not None:
            recorded = self.stopped_ns - self.started_ns
            self.pauses.ended(self.pauses_for, recorded, self.stop_took_ns)

    def busy(self) -> str | None:
        if not self.autograd._is_profiler_enabled:
            return None
        began = self.program_began
        return (
            profiler_words(None if began is None else time.monotonic() - began)
            or "the program profiles itself (torch.profiler)"
        )

    def uses_devices(self) -> bool:
        """Whether this process has a context on a device."""
        cuda = sys.modules.get("torch.cuda")
        return cuda is not None and cuda.is_initialized()

    def yields_devices(self) -> bool:
        # Once Kineto has begun, it keeps CUPTI.
        return not self.profiled and self.uses_devices() and _agents_leave() is not None

    def _detach_cupti(self) -> None:
        """Lets Kineto detach CUPTI in this recording and later ones, as it does at the end of a
        call of CUDA.
        """
        if release(self.torch.version.cuda) >= _DETACH_IS_SAFE:
            os.environ["TEARDOWN_CUPTI"] = "1"
            os.environ.pop("DISABLE_CUPTI_LAZY_REINIT", None)

    def _keep_cupti(self) -> None:
        """Keeps PyTorch from detaching CUPTI, by the variables that torch.profiler sets too: with
        CUDA before 12.6, CUPTI's next use would crash a program
        with CUDA graphs."""
        if is_off("teardown-cupti"):
            return
        inductor = sys.modules.get("torch._inductor.config")
        cuda = [int(part) for part in (self.torch.version.cuda or "0.0").split(".")[:2]]
        if inductor is not None and inductor.triton.cudagraphs and cuda < [12, 6]:
            os.environ["DISABLE_CUPTI_LAZY_REINIT"] = "1"
            os.environ["TEARDOWN_CUPTI"] = "0"

    def prepare_ahead_ns(self) -> int:
        # The sidecar asks that early: LeadOf in inproc_source.cc.
        return 2 * 10**9 if self.uses_devices() else 10**8

    def prepare(self, request: Request, start_ns: int) -> None:
        setting = self._all_threads()
        if setting is None:
            raise Refused(
                "VersionMismatch",
                f"PyTorch {self.torch.__version__} records only the thread that starts its "
                "profiler; 2.7 records all",
            )
        activities = self.torch._C._autograd._supported_activities()
        device = (
            request.device > 0
            and self.uses_devices()
            and self.torch._C._profiler.ProfilerActivity.CUDA in activities
        )
        if not request.host and not device:
            raise Refused(
                "ProfilerStartFailed",
                "there is nothing to record: tracers.host is Disabled, and this process has no "
                "device that PyTorch can record",
            )
        self.devices = device
        self.note = None
        if device and self._for_amd():
            self.note = _FOR_AMD
        elif device:
            self._keep_cupti()
            if request.detach:
                self._detach_cupti()
            # As Kineto reads it, when a recording ends.
            self.note = None if os.environ.get("TEARDOWN_CUPTI") == "1" else _STAYS_ATTACHED
        options = request.torch
        # Calls of modules are recorded with all other Python functions, or not at all.
        stacks = request.python > 0 or bool({"stacks", "modules"} & options)
        self.plain = not stacks and "memory" not in options
        self._check_pause(request, stacks)
        # We only save the trace; without this, PyTorch makes objects of its events.
        if hasattr(setting, "trace_only"):
            setting.trace_only = not stacks  # PyTorch cannot have both, and warns.
        # Not torch.profiler.profile, which imports the compiler: that takes a second and more.
        session = self.autograd.profile(
            # Operators cost the most.
            use_cpu=request.host > 0 and not (device and request.kernels_only),
            use_device="cuda" if device else None,
            use_kineto=True,
            experimental_config=setting,
            # PyTorch does not write its count of FLOPs into the trace, so the sidecar counts them
            # from the shapes.
            record_shapes=bool({"shapes", "flops"} & options),
            profile_memory="memory" in options,
            with_stack=stacks,
        )
        # As an argument it would make PyTorch warn, in the program's output, that it is deprecated.
        session.with_modules = "modules" in options
        self.used = True
        session._prepare_trace()
        self.session = session

    def start(self, start_ns: int) -> None:
        self.session._start_trace()
        self.started_ns = time.time_ns()
        self.recording = True
        self.annotations = _StepAnnotations(self.autograd.record_function)
        set_annotator(self.annotations)

    def details(self) -> dict[str, Any]:
        """What an inference server's engine did while it was recorded."""
        if server.program is None:
            return {}
        # Where schedulers and front ends are processes of their own, they never join.
        runs = server.can_run and (engine.marks.begun > 0 or ranks()["joined"])
        return {"engine": engine.work_of(self.annotations, runs)}

    def _stop(self) -> None:
        self.recording = False
        set_annotator(None)
        try:  # As torch.profiler does.
            distributed = sys.modules["torch.distributed"]
            if distributed.is_available() and distributed.is_initialized():
                self.torch._C._autograd._add_metadata_json(
                    "distributedInfo",
                    json.dumps(
                        {
                            "backend": distributed.get_backend(),
                            "rank": distributed.get_rank(),
                            "world_size": distributed.get_world_size(),
                        }
                    ),
                )
        except Exception:
            pass
        # Otherwise PyTorch would wait for this thread's current device, which is the first one. A
        # process that uses another device would then keep memory on the first one for good, and if
        # its kernels hang, this thread would hang. Unfinished kernels are not in the trace.
        self.session.use_device = None
        self.session.__exit__(None, None, None)

    def save(self, directory: Directory, hidden: str) -> None:
        save(self.session.kineto_results, directory.through_fd(hidden))

    def discard(self) -> None:
        session = self.session
        if session is None:
            return
        if not self.recording and session.kineto_results is None:
            # A session that was only prepared would stay in Kineto, which complains of it in the
            # program's output. One that ran does not.
            session._start_trace()
            self.recording = True
        if self.recording:
            self._stop()
        # Other results may refer to objects of the interpreter, whose lock is not held.
        if self.plain:
            empty(session.kineto_results)
        self.session = None

    def leave(self) -> None:
        """Stops a recording, for which the program waits: PyTorch's destructors crash if the
        process ends while it records.
        """
        if self.recording:
            self._stop()

    def can_begin_in_child(self) -> bool:
        """Not once Kineto has run: a child has its state, but not its threads."""
        return not self.profiled and "KINETO_USE_DAEMON" not in os.environ

    def after_fork(self) -> None:
        recording = self.recording
        super().after_fork()
        # The child's copy of the session would collect for ever, and only the parent's threads
        # could stop it.
        if recording:
            self.torch._C._autograd._enable_record_function(False)
        if self.used:
            # Once Kineto has recorded in a process, the destructors of a forked child hang, and
            # crash if it was recording.
            skip_destructors()
