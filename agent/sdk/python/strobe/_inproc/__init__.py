"""Strobe's part of an unmodified trainer (README.md in this folder).

Because this module is imported while a framework is being imported, it loads only what a framework
has loaded already. A thread for each framework does the work (service.py). Modules of this package
import one another by `from .module import name` only: `from . import module` would also import
`strobe`, and with it the agent.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from _thread import RLock  # That of `threading` may be gevent's.

from .switches import is_off

FRAMEWORKS = ("torch", "jax", "tensorflow")
# How long a program waits at its end for us at most. Kubernetes kills a pod 30 s after it has asked
# it to end, and the program may have more to do.
_SECONDS_TO_END = 10.0
_SECONDS_TO_FORK = 5.0  # How long a program that forks waits at most. It usually waits for nothing.

# A signal handler of the program, which may import a framework, can interrupt bootstrap() in the
# same thread.
_lock = RLock()
_owner = 0  # The process that has the service. A forked child has none until it works.
_awaits = False  # This process is a forked child that has shown no sign of work yet.
_busy = None  # A lock that the service's thread holds while it loads modules and opens files.
_forker = None  # The thread that holds it, because it forks.
_expected = set()  # Frameworks to announce once they are usable.
_service = None
_thread = None
_ending = False


def is_on() -> bool:
    return (
        bool(os.environ.get("STROBE_DIR"))
        and os.environ.get("STROBE_BOOTSTRAP", "").lower() != "off"
        and not is_off("in-process")
    )


def bootstrap(framework: str | None = None) -> None:
    """Starts the service of this process, which announces `framework` once it is usable; None means
    each of them.

    Idempotent. Never raises, never imports a framework, and does nothing without $STROBE_DIR or
    with STROBE_BOOTSTRAP=off.
    """
    global _awaits, _busy, _owner, _thread
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
            from .own_thread import OwnThread, new_lock

            if _owner == 0:
                os.register_at_fork(
                    before=_before_fork,
                    after_in_parent=_after_fork_in_parent,
                    after_in_child=_after_fork,
                )
                atexit.register(_at_exit)
            _owner, _busy, _awaits = os.getpid(), new_lock(), False
            # All ranks must count from the first step, which the thread might miss.
            if framework == "torch":
                from .changes import record_collectives

                record_collectives()
                from .signs_of_work import await_work  # noqa: F401  A forked child loads nothing.
                from .steps import count

                count(framework)
            _end_with_multiprocessing()
            _thread = OwnThread(_run, "strobe-inproc", _tell)
            _thread.start()
    except Exception as error:  # The program must not notice.
        _tell(error)


def _end_with_multiprocessing() -> None:
    """Forked children of `multiprocessing` end by os._exit(), without what `atexit` knows. Their "
    "last finalizer is ours."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and sys.modules["multiprocessing.process"].parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=-100)


def _tell(error: BaseException) -> None:
    try:
        from .failure import tell

        tell(error)
    except Exception:
        pass


def _run() -> None:
    global _service
    with _busy:
        from .service import Service

        _service = Service(os.environ["STROBE_DIR"], _expected, _busy)
    if not _ending:
        _service.run()


def _before_fork() -> None:
    """Waits until the thread is between two things: the child would wait for ever for a module that
    was just being loaded, and would keep a file
    open, with its lock, that was just being made."""
    global _forker
    try:
        from .own_thread import thread_id

        if _owner == os.getpid() and _busy.acquire(timeout=_SECONDS_TO_FORK):
            _forker = thread_id()
    except Exception:
        pass


def _after_fork_in_parent() -> None:
    global _forker
    from .own_thread import thread_id

    if _forker == thread_id():
        _forker = None
        _busy.release()


def _after_fork() -> None:
    """A forked child has no service: the thread is gone, and the announcement is the parent's.

    One that works gets its own, one that loads data
    gets none."""
    global _awaits, _forker, _lock, _owner, _service
    try:
        from .own_thread import thread_id

        _lock = RLock()
        service, _service, _owner = _service, None, -1
        # No thread of ours runs in a process that awaits.
        whole, _forker = _awaits or _forker == thread_id(), None
        _awaits = False
        _expected.clear()
        if service is not None:
            service.forget()
        signs = sys.modules.get("strobe._inproc.signs_of_work")  # There with PyTorch.
        if whole and signs is not None and (service is None or service.can_begin_in_child()):
            signs.await_work(bootstrap)
            _awaits = True
    except Exception:
        pass


def _at_exit() -> None:
    """Ends the service and waits for its threads: some versions of Python crash if a thread waits
    for the lock of an interpreter that is gone.

    A thread that is still busy then, stopping a long recording or saving its trace, is left to the
    end of the process. The trace is lost.
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
            from .changes import skip_destructors

            skip_destructors()  # They would destroy what the thread uses.
        if _service is not None:
            _service.directory.clear()
    except Exception:
        pass


class _Finder:
    """Learns that TensorFlow, which has no plugins that it loads by itself, is imported.

    Finds nothing.

    It stays in sys.meta_path: importlib, which goes through that list at this moment, would leave
    out the next finder.
    """

    done = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "tensorflow" and not self.done:
            self.done = True
            bootstrap("tensorflow")
        return None


def bootstrap_imported() -> None:
    """Announces the frameworks that are imported, and TensorFlow when it is imported later.

    Called by `import strobe`; the other frameworks load Strobe as a plugin.
    """
    if not is_on():
        return
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            bootstrap(framework)
    if "tensorflow" not in sys.modules and not any(
        type(finder).__name__ == "_Finder" for finder in sys.meta_path
    ):
        # Python calls finders with its import lock held. If the service were loaded then, or while
        # another finder of the program imports something, as that of setuptools does for
        # `distutils`, two threads could wait for each other for ever.
        from .own_thread import OwnThread  # noqa: F401
        from .service import Service  # noqa: F401

        sys.meta_path.insert(0, _Finder())
