"""Starts Strobe's part of an unmodified trainer. PyTorch and JAX load this module through entry points.

It is no part of the package `strobe`, because that package loads the agent, and `import torch` must not become slower.
"""

import os
import sys


def _load():
    """Returns strobe._inproc without running strobe/__init__.py."""
    name = "strobe._inproc"
    if name in sys.modules:
        return sys.modules[name]
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "strobe", "_inproc")
    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def start(framework=None):
    """Never raises, and does nothing outside of a pod with a sidecar."""
    if not os.environ.get("STROBE_DIR") or os.environ.get("STROBE_BOOTSTRAP", "").lower() == "off":
        return
    try:
        _load().bootstrap(framework)
    except Exception:  # The trainer must not notice. A process without an announcement is what the sidecar sees.
        pass


def torch():
    """The entry point of the group torch.backends, called at the end of `import torch`."""
    start("torch")
