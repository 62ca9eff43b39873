"""Connects to VTune.

`itt` is the module for Intel's ITT interface, or None if there is no collector.
"""

import os
import warnings
from typing import Any


def _connect() -> Any:
    # VTune and other collectors name their library here before the program starts, also when they
    # only attach to it later. Without a collector, a program must pay nothing.
    if not os.environ.get("INTEL_LIBITTNOTIFY64"):
        return None
    try:
        from . import _itt
    except ImportError as error:
        warnings.warn(
            "strobe.profiler: VTune receives nothing from this program, because this build of "
            f"Strobe lacks ITT: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return _itt


itt = _connect()
