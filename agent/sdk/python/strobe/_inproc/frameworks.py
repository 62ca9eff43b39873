"""The frameworks that can be profiled: when each is usable, its recorder and its server. Imports none of them."""

import sys


def _is_imported(name):
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def is_usable(name):
    if name == "torch":
        return _is_imported("torch") and "torch.profiler" in sys.modules
    if name == "jax":
        bridge = sys.modules.get("jax._src.xla_bridge")
        return _is_imported("jax") and bridge is not None and bridge.backends_are_initialized()
    return _is_imported("tensorflow") and _is_imported("tensorflow.python.profiler.internal._pywrap_profiler")


def version(name):
    return str(getattr(sys.modules[name], "__version__", ""))[:64] or None


def release(text):
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


def recorder_for(name, directory):
    if name == "torch":
        from .torch_session import TorchRecorder

        return TorchRecorder()
    if name == "jax":
        from .jax_session import JaxRecorder

        return JaxRecorder()
    from .tensorflow_session import TensorFlowRecorder

    return TensorFlowRecorder(directory)


def open_server(name):
    """The port of the framework's own server, open to this machine only; None where there is none."""
    if name == "torch":
        return None
    from .server import open_for

    return open_for(name)
