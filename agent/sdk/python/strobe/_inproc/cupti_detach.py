"""Keeps CUPTI attached when XLA's profiler ends a session, because its way to detach it can end the
program.

XLA ends each session with cuptiFinalize, from whatever thread ends it, and has no option that
leaves the call out. NVIDIA allows the call only where no thread is within CUDA. While a program
trains, it loses its CUDA context soon after ("CUDA_ERROR_LAUNCH_FAILED",
"CUDA_ERROR_ILLEGAL_ADDRESS"; issue 40260 of jax-ml/jax): on an H100 with JAX 0.11.2, programs of
many small kernels died of the first or second session that ended while they trained. Without the
call, none died; steps of such programs then took up to half as long again, until the program
restarted.

So this process's copy of cuptiFinalize is replaced by one that returns CUPTI_SUCCESS, before the
first session of ours. It stays so, because the program may train whenever a later session ends,
also one of its own.

With CUDA 12, XLA does not disable the recording of kernels when a session ends, and counts on
cuptiFinalize to end it (DisableActivityTracing in cupti_tracer.cc). Without the call, CUPTI would
ask for buffers that XLA has freed, so there neither is safe, and our sessions are refused.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import Iterator

from .request import Refused
from .switches import is_off

# Machine code of "return 0", eight bytes, so that one store replaces it.
_RETURN_SUCCESS = {
    "x86_64": b"\x31\xc0\xc3\x90\x90\x90\x90\x90",
    "aarch64": b"\x00\x00\x80\x52\xc0\x03\x5f\xd6",
}

_OLDEST_CUPTI = 130000  # CUPTI_API_VERSION of CUDA 13.0.

# For the client of a capture.
STAYS_ATTACHED = (
    "CUPTI stays attached after a recording of GPUs, because detaching it could end a program that "
    "trains: until the program restarts, "
    "launches of kernels may take longer"
)

_kept = set()  # Paths of the copies that are done.


def keep_cupti_attached() -> None:
    """Does so for each copy of CUPTI in this process; XLA's own is loaded if it is not there yet.

    Raises Refused if the system does not permit it.
    """
    loaded = {
        os.fsdecode(path)
        for path in re.findall(rb"(/[^\n]*/libcu(?:da|pti)\.so[^\n]*)", _mappings())
    }
    if not any(os.path.basename(path).startswith("libcuda.so") for path in loaded):
        return  # The devices are not NVIDIA's.
    if is_off("keep-cupti"):
        raise _refused(
            "it would detach CUPTI while the program trains, and keep-cupti is switched off"
        )
    copies = [path for path in loaded if os.path.basename(path).startswith("libcupti.so")]
    for path in copies or _candidates():
        if path in _kept:
            continue
        try:
            library = ctypes.CDLL(path)
            finalize = library.cuptiFinalize
        except (OSError, AttributeError):
            continue
        if _version(library) < _OLDEST_CUPTI:
            raise _refused(f"with CUDA 12 it counts on detaching CUPTI ({path})")
        _replace(ctypes.cast(finalize, ctypes.c_void_p).value, path)
        _kept.add(path)
        if not copies:
            # XLA loads CUPTI by its name and gets this copy, so that the other places do not
            # matter.
            return


def keeps_cupti() -> bool:
    """Whether a copy of CUPTI is kept attached. Whoever loads it by its name gets that one."""
    return bool(_kept)


def _candidates() -> Iterator[str]:
    """Where XLA looks for CUPTI: that of the Python wheels, then the loader's search path."""
    is_13 = any(module.startswith("jax_plugins.xla_cuda13") for module in list(sys.modules))
    name = f"libcupti.so.{13 if is_13 else 12}"
    for folder in list(sys.path):
        wheels = os.path.join(str(folder), "nvidia")
        if os.path.isdir(wheels):
            yield from (os.path.join(wheels, wheel, "lib", name) for wheel in os.listdir(wheels))
    yield name


def _replace(address: int, path: str) -> None:
    machine = os.uname().machine
    code = _RETURN_SUCCESS.get(machine)
    try:
        if code is None or address % len(code) != 0:
            raise OSError(f"unknown code on {machine}")
        # The kernel writes here although the page may not be written, to this process's copy of it,
        # and tells the processors.
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(memory, code, address)
        finally:
            os.close(memory)
        if ctypes.string_at(address, len(code)) != code:
            raise OSError("it was not written")
    except OSError as error:
        raise _refused(
            f"it would detach CUPTI while the program trains, and {path} could not be kept from it "
            f"({error})"
        ) from None


def _refused(why: str) -> Refused:
    return Refused(
        "ProfilerStartFailed",
        f"XLA's profiler could end this program: {why}; with STROBE_BOOTSTRAP=off in the program's "
        "environment, the agent "
        "records its devices instead (in a pod, strobe.dev/disable: in-process)",
    )


def _version(library: ctypes.CDLL) -> int:
    version = ctypes.c_uint32(0)
    try:
        library.cuptiGetVersion(ctypes.byref(version))
    except AttributeError:
        pass
    return version.value


def _mappings() -> bytes:
    """The content of /proc/self/maps.

    The kernel gives it a page at a time: the interpreter's lock is kept, because a busy program
    would keep us waiting for
    it after each page, for a quarter of a second in all."""
    read = ctypes.PyDLL(None).read
    read.restype, read.argtypes = ctypes.c_ssize_t, (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    page = ctypes.create_string_buffer(1 << 14)
    file = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while True:
            size = read(file, page, len(page))
            if size <= 0:
                return b"".join(pieces)
            pieces.append(page[:size])
    finally:
        os.close(file)
