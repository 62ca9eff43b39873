"""Ends PyTorch's recording, and saves and frees it, without the interpreter's lock.

PyTorch's own bindings hold the lock meanwhile: the program stands still for some microseconds per
event while a recording ends, and for about 10 ms per MiB while it is written. The C++ functions are
exported, and ctypes calls them without the lock. Where anything is not as expected, the bindings
are used.
"""

import ctypes
import sys
import time

from .own_thread import give_way
from .switches import is_off

_PROFILER = "_ZN5torch8autograd8profiler"
_CLASS = _PROFILER + "14ProfilerResult"
_STOP = _PROFILER + "15disableProfilerEv"  # Returns std::unique_ptr<ProfilerResult>.
_SAVE = _CLASS + "4saveERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_DESTRUCT, _CONSTRUCT = _CLASS + "D1Ev", _CLASS + "C1Ev"
# Returns whether a recording of host threads runs, in whichever thread.
_RUNS = _PROFILER + "29isProfilerEnabledInMainThreadEv"
_STOP_SIGNATURE = "_disable_profiler() -> torch._C._autograd._ProfilerResult"

_is_refuted = False  # A recording ended in a form that is not the expected one.


class _String(ctypes.Structure):
    """std::string, as the C++ ABI of GCC 5 and newer lays it out."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("local", ctypes.c_char * 16)]


class _Returned(ctypes.Structure):
    """What a C++ function returns by value.

    Too large for registers, so that ctypes passes its address as the ABI wants it, and larger than
    any object
    that another version might return."""

    _fields_ = [("words", ctypes.c_uint64 * 64)]


class Recorded:
    """A ProfilerResult that no binding owns."""

    def __init__(self, address):
        self.address = address


def _function(name, returns=None):
    """An exported C++ function whose arguments are pointers, or None."""
    try:
        module = sys.modules["torch._C"]
        # Found in the libraries that it is linked to.
        function = getattr(ctypes.CDLL(module.__file__), name)
    except (AttributeError, KeyError, OSError):
        return None
    function.restype = returns
    return function


def _word_at(address):
    """Reads memory through a file, so that a wrong address cannot crash the program."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(8), sys.byteorder)


def _is_supported():
    return sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8


def _object_of(result):
    """The address of the C++ object behind a _ProfilerResult; None if it is not where it is
    expected.

    pybind11 keeps the address behind the header of the Python object, and the C++ object begins
    with the trace's start.
    """
    if isinstance(result, Recorded):
        return result.address
    try:
        began = result.trace_start_ns()
        if not _is_supported() or began < 10**18:
            return None
        address = _word_at(id(result) + object.__basicsize__)
        return address if _word_at(address) == began else None
    except (OSError, ValueError, OverflowError, AttributeError):
        return None


def _saves_as_expected(kind):
    """Whether the C++ function takes a path and returns nothing.

    Its symbol tells only the arguments: a function that returned an object would
    write it to an address that we do not pass. The binding, which is made of that function, tells
    what it returns.
    """
    signature = (getattr(getattr(kind, "save", None), "__doc__", None) or "").strip()
    return signature.startswith("save(self: ") and signature.endswith(": str) -> None")


def can_stop(bindings):
    """Whether a recording of host threads can be ended without the lock.

    `bindings` is torch._C._autograd.
    """
    signature = (getattr(bindings._disable_profiler, "__doc__", None) or "").strip()
    return (
        not is_off("torch-results")
        and not _is_refuted
        and _is_supported()
        and signature == _STOP_SIGNATURE
        and _saves_as_expected(getattr(bindings, "_ProfilerResult", None))
        and all(_function(name) is not None for name in (_STOP, _SAVE, _DESTRUCT, _RUNS))
    )


def stop(binding, bindings):
    """Ends the recording and returns what was recorded: a Recorded or, from `binding`, PyTorch's
    own object.
    """
    global _is_refuted
    # Without a recording, the C++ function raises, and no C++ exception may reach ctypes.
    if not can_stop(bindings) or not _function(_RUNS, ctypes.c_bool)():
        return binding()
    address = give_way(_function(_STOP, _Returned)).words[0]
    try:
        if 10**18 < _word_at(address) <= time.time_ns():  # It begins with the trace's start.
            return Recorded(address)
    except (OSError, ValueError, OverflowError):
        pass
    _is_refuted = True
    raise RuntimeError(
        "PyTorch returned a recording in an unknown form; the next one is ended by its own binding"
    )


def save(result, path):
    """Writes the trace as JSON. May be called once."""
    if is_off("torch-results"):
        return result.save(path)
    function, address = _function(_SAVE), _object_of(result)
    if (
        function is None
        or address is None
        or not (isinstance(result, Recorded) or _saves_as_expected(type(result)))
    ):
        return result.save(path)
    data = path.encode()
    text = _String(data, len(data))
    give_way(lambda: function(ctypes.c_void_p(address), ctypes.byref(text)))


def empty(result):
    """Frees what was recorded.

    A binding's object stays, empty, for its binding to free; of a Recorded, some words stay for
    good.
    """
    if is_off("torch-results"):
        return
    destruct, construct, address = _function(_DESTRUCT), _function(_CONSTRUCT), _object_of(result)
    if isinstance(result, Recorded):
        result.address = None
        if address is not None:
            give_way(lambda: destruct(ctypes.c_void_p(address)))
    elif destruct is not None and construct is not None and address is not None:
        give_way(lambda: destruct(ctypes.c_void_p(address)))
        construct(ctypes.c_void_p(address))
