"""Starts Strobe's part of an unmodified trainer.

PyTorch and JAX load this module through entry points, and the agent of a GPU pod runs it.

It is not part of the package `strobe`, because that package loads the agent, and `import torch`
must not become slower.
"""

import os
import sys
import time

_SECONDS_TO_LOAD = 5.0
_told = {}  # The process that has left an error.


def _load():
    """Returns strobe._inproc without running strobe/__init__.py.

    If several threads call this, one loads it, and the others wait.
    """
    name = "strobe._inproc"
    if name not in sys.modules:
        from importlib.util import module_from_spec, spec_from_file_location

        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "strobe", "_inproc")
        spec = spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        module = module_from_spec(spec)
        if sys.modules.setdefault(name, module) is module:
            try:
                spec.loader.exec_module(module)
            except BaseException:
                sys.modules.pop(name, None)
                raise
    module = sys.modules[name]
    until = time.monotonic() + _SECONDS_TO_LOAD
    # Its last function.
    while not hasattr(module, "bootstrap_imported") and time.monotonic() < until:
        time.sleep(0.001)
    return module


def tell(error):
    """Leaves the first error of this process for the sidecar. Never raises.

    The file stays open and locked: by the lock, which no child inherits, the sidecar knows that the
    process still runs.
    """
    try:
        import fcntl

        container = os.environ.get("STROBE_CONTAINER")
        name = f"{container}@{os.getpid()}.failed" if container else f"{os.getpid()}.failed"
        folder = os.path.join(os.environ["STROBE_DIR"], "agent")
        path, hidden = os.path.join(folder, name), os.path.join(folder, f".{name}.new")
        if _told.get("pid") == os.getpid():
            return
        _told["pid"] = os.getpid()
        if os.path.lexists(hidden):
            os.unlink(hidden)  # An earlier process of the same ID was killed while it wrote.
        fd = os.open(
            hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        try:
            os.fchmod(fd, 0o644)  # The sidecar usually runs as another user.
            os.write(fd, f"{type(error).__name__}: {error}"[:400].encode(errors="replace"))
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass  # A file system without locks: the sidecar only logs the error.
            os.rename(hidden, path)  # The earlier process may have left its own.
        except BaseException:
            os.close(fd)
            os.unlink(hidden)
            raise
    except Exception:
        pass


def start(framework=None):
    """Starts the service.

    Never raises, and does nothing outside of a pod with a sidecar. `framework`: the one in use;
    None if not known.
    """
    if not os.environ.get("STROBE_DIR") or os.environ.get("STROBE_BOOTSTRAP", "").lower() == "off":
        return
    # As strobe._inproc.switches, which is not loaded then.
    if "in-process" in os.environ.get("STROBE_DISABLE", "").split(","):
        return
    try:
        _load().bootstrap(framework)
    except Exception as error:  # The trainer must not notice.
        tell(error)


def torch():
    """The entry point of the group torch.backends, called at the end of `import torch`."""
    start("torch")
