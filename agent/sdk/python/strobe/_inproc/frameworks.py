"""The frameworks that can be profiled: when each is usable, and where its profiler is.

Imports none of them.
"""

import sys
from types import ModuleType
from typing import Optional, Tuple


def _is_imported(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def is_usable(name: str) -> bool:
    if name == "torch":
        return _is_imported("torch") and "torch.profiler" in sys.modules
    if name == "jax":
        bridge = sys.modules.get("jax._src.xla_bridge")
        return _is_imported("jax") and bridge is not None and bridge.backends_are_initialized()
    return _is_imported("tensorflow") and _is_imported(
        "tensorflow.python.profiler.internal._pywrap_profiler"
    )


def version(name: str) -> Optional[str]:
    return str(getattr(sys.modules[name], "__version__", ""))[:64] or None


def release(text: Optional[str]) -> Tuple[int, ...]:
    """(major, minor, patch) of a version, for comparisons."""
    numbers = []
    for part in (text or "").split(".")[:3]:
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        numbers.append(int(digits or 0))
    return tuple(numbers + [0] * (3 - len(numbers)))


def profiler_of(name: str) -> Optional[ModuleType]:
    """The module with the framework's profiler sessions and servers; None for PyTorch."""
    if name == "jax":  # jaxlib's versions keep it in different places.
        module = sys.modules.get("jaxlib._profiler")
        return module or getattr(sys.modules.get("jaxlib.xla_client"), "profiler", None)
    if name == "tensorflow":
        return sys.modules.get("tensorflow.python.profiler.internal._pywrap_profiler")
    return None
