"""Strobe's part of an unmodified trainer (README.md in this folder).

Because this module is imported while a framework is being imported, it loads only what a framework has loaded already. A daemon thread for each
framework does the work (service.py). Modules of this package import one another by `from .module import name` only: `from . import module` would
also import `strobe`, and with it the agent.
"""

import atexit
import os
import sys
import threading
import time

FRAMEWORKS = ("torch", "jax", "tensorflow")
_SECONDS_TO_END = 60

_lock = threading.Lock()
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
            _thread = threading.Thread(target=_run, name="strobe-inproc", daemon=True)
            _start_without_signals(_thread)
    except Exception as error:  # The program must not notice.
        _tell(error)


def _start_without_signals(thread):
    """Starts a thread that takes no signal from a program that blocks it, to wait for it. Only what a fault in the thread itself raises is left."""
    import signal

    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tell(error):
    try:
        from .failure import tell

        tell(error)
    except Exception:
        pass


def _run():
    global _service
    try:
        from .service import Service

        _service = Service(os.environ["STROBE_DIR"], _expected)
        if not _ending:
            _service.run()
    except Exception as error:
        _tell(error)


def _after_fork():
    """A forked child has no service: the thread is gone, and the announcement is the parent's."""
    global _lock, _owner, _service
    try:
        _lock = threading.Lock()
        service, _service, _owner = _service, None, -1
        _expected.clear()
        if service is not None:
            service.forget()
    except Exception:
        pass


def _at_exit():
    """Ends the service and waits for its threads: some versions of Python crash if a thread waits for the lock of an interpreter that is gone."""
    global _ending
    try:
        _ending = True
        if _owner != os.getpid():
            return
        if _service is not None:
            _service.end()
        until = time.monotonic() + _SECONDS_TO_END
        for thread in [_thread, *(_service.threads if _service is not None else ())]:
            thread.join(max(0, until - time.monotonic()))
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
    """For `import strobe`: announces the imported frameworks, and TensorFlow if it is imported later. The others load Strobe as a plugin."""
    if not is_on():
        return
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            bootstrap(framework)
    if "tensorflow" not in sys.modules and not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
