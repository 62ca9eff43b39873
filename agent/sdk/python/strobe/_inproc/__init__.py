"""Strobe's part of an unmodified trainer (README.md in this folder).

Because this module is imported while a framework is being imported, it loads only what a framework has loaded already. A thread for each framework
does the work (service.py). Modules of this package import one another by `from .module import name` only: `from . import module` would
also import `strobe`, and with it the agent.
"""

import atexit
import os
import sys
import threading
import time
from _thread import RLock  # That of `threading` may be gevent's.

FRAMEWORKS = ("torch", "jax", "tensorflow")
# How long a program waits at its end for us at most. Kubernetes kills a pod 30 s after it has asked it to end, and the program may have more to do.
_SECONDS_TO_END = 10.0

_lock = RLock()  # A signal handler of the program, which may import a framework, can interrupt bootstrap() in the same thread.
_owner = 0  # The process that has the service. A forked child has none.
_expected = set()  # Frameworks to announce once they are usable.
_service = None
_thread = None
_ending = False


def is_on():
    return bool(os.environ.get("STROBE_DIR")) and os.environ.get("STROBE_BOOTSTRAP", "").lower() != "off"


def bootstrap(framework=None):
    """Starts the service of this process, which announces `framework` once it is usable; None means each of them.

    Idempotent. Never raises, never imports a framework, and does nothing without $STROBE_DIR or with STROBE_BOOTSTRAP=off.
    """
    global _owner, _thread
    try:
        # Once the main thread has ended, _at_exit is not called any more.
        if not is_on() or not threading.main_thread().is_alive():
            return
        with _lock:
            _expected.update(FRAMEWORKS if framework is None else (framework,))
            if _owner == os.getpid():
                if _service is not None:
                    _service.look_again()
                return
            if _owner == 0:
                os.register_at_fork(after_in_child=_after_fork)
                atexit.register(_at_exit)
            _owner = os.getpid()
            if framework == "torch":  # All ranks must count from the first step, which the thread might miss.
                from .steps import count

                count(framework)
            from .own_thread import OwnThread

            _thread = OwnThread(_run, "strobe-inproc", _tell)
            _thread.start()
    except Exception as error:  # The program must not notice.
        _tell(error)


def _tell(error):
    try:
        from .failure import tell

        tell(error)
    except Exception:
        pass


def _run():
    global _service
    from .service import Service

    _service = Service(os.environ["STROBE_DIR"], _expected)
    if not _ending:
        _service.run()


def _after_fork():
    """A forked child has no service: the thread is gone, and the announcement is the parent's."""
    global _lock, _owner, _service
    try:
        _lock = RLock()
        service, _service, _owner = _service, None, -1
        _expected.clear()
        if service is not None:
            service.forget()
    except Exception:
        pass


def _at_exit():
    """Ends the service and waits for its threads: some versions of Python crash if a thread waits for the lock of an interpreter that is gone.

    A thread that is still busy then, stopping a long recording or saving its trace, is left to the end of the process. The trace is lost.
    """
    global _ending
    try:
        _ending = True
        if _owner != os.getpid():
            return
        if _service is not None:
            _service.end()
        until = time.monotonic() + _SECONDS_TO_END
        ended = _thread.join(until - time.monotonic())
        for thread in _service.threads if _service is not None else ():
            ended = thread.join(until - time.monotonic()) and ended
        if not ended:
            from .exits import skip_destructors

            skip_destructors()  # They would destroy what the thread uses.
        if _service is not None:
            _service.directory.clear()
    except Exception:
        pass


class _Finder:
    """Learns that TensorFlow, which has no plugins that it loads by itself, is imported. Finds nothing.

    It stays in sys.meta_path: importlib, which goes through that list at this moment, would leave out the next finder.
    """

    done = False

    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow" and not self.done:
            self.done = True
            bootstrap("tensorflow")
        return None


def bootstrap_imported():
    """Announces the frameworks that are imported, and TensorFlow when it is imported later.

    Called by `import strobe`; the other frameworks load Strobe as a plugin.
    """
    if not is_on():
        return
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            bootstrap(framework)
    if "tensorflow" not in sys.modules and not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
