"""Saves and frees what PyTorch recorded without the interpreter's lock.

PyTorch's own binding holds the lock while it writes and frees a trace: training stands still for
about 10 ms per MiB. Its C++ functions are exported, and ctypes calls them without the lock. Where
anything is not as expected, the binding is used.
"""

import ctypes
import sys

from .switches import is_off

_CLASS = "_ZN5torch8autograd8profiler14ProfilerResult"
_SAVE = _CLASS + "4saveERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_DESTRUCT, _CONSTRUCT = _CLASS + "D1Ev", _CLASS + "C1Ev"


class _String(ctypes.Structure):
    """std::string, as the C++ ABI of GCC 5 and newer lays it out."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("local", ctypes.c_char * 16)]


def _function(name):
    """An exported C++ function whose arguments are pointers, or None."""
    try:
        module = sys.modules["torch._C"]
        # Found in the libraries that it is linked to.
        function = getattr(ctypes.CDLL(module.__file__), name)
    except (AttributeError, KeyError, OSError):
        return None
    function.restype = None
    return function


def _object_of(result):
    """The address of the C++ object behind a _ProfilerResult; None if it is not where it is
    expected.

    pybind11 keeps the address behind the header of the Python object, and the C++ object begins
    with the trace's start. Both are read through a file, so that a wrong address cannot crash the
    program.
    """
    try:
        began = result.trace_start_ns()
        if (
            sys.implementation.name != "cpython"
            or ctypes.sizeof(ctypes.c_void_p) != 8
            or began < 10**18
        ):
            return None
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            memory.seek(id(result) + object.__basicsize__)
            address = int.from_bytes(memory.read(8), sys.byteorder)
            memory.seek(address)
            found = int.from_bytes(memory.read(8), sys.byteorder)
        return address if found == began else None
    except (OSError, ValueError, OverflowError, AttributeError):
        return None


def _saves_as_expected(result):
    """Whether the C++ function takes a path and returns nothing.

    Its symbol tells only the arguments: a function that returned an object would
    write it to an address that we do not pass. The binding, which is made of that function, tells
    what it returns.
    """
    signature = (getattr(type(result).save, "__doc__", None) or "").strip()
    return signature.startswith("save(self: ") and signature.endswith(": str) -> None")


def save(result, path):
    """Writes the trace as JSON. May be called once."""
    if is_off("torch-results"):
        return result.save(path)
    function, address = _function(_SAVE), _object_of(result)
    if function is None or address is None or not _saves_as_expected(result):
        return result.save(path)
    data = path.encode()
    function(ctypes.c_void_p(address), ctypes.byref(_String(data, len(data))))


def empty(result):
    """Frees what was recorded; the object stays, empty, for its binding to free."""
    if is_off("torch-results"):
        return
    destruct, construct, address = _function(_DESTRUCT), _function(_CONSTRUCT), _object_of(result)
    if destruct is None or construct is None or address is None:
        return
    destruct(ctypes.c_void_p(address))
    construct(ctypes.c_void_p(address))
