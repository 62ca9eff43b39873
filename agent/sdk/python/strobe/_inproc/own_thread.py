"""Threads of ours beside those of the program, and the locks by which the two meet.

They are not in the lists of `threading`, because programs wait at their end for all threads in
them. Under gevent they are threads all the same: its replacements would run our code in the
program's thread, where a capture would stop everything else. Its locks would make our threads wait
in event loops of their own, so that each lock that such a thread takes is one of `new_lock`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any, Callable

_PR_SET_NAME = 15
# A thread of the program that wants the same processor gets three times as much of it.
_NICER = 5


def original(module: str, name: str) -> Any:
    """A function or class of the standard library, even if gevent has replaced it."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(__import__(module), name)
    return monkey.get_original(module, name)


_start, new_lock = original("_thread", "start_new_thread"), original("_thread", "allocate_lock")
thread_id = original("_thread", "get_ident")  # gevent's tells the greenlet.


class OwnThread:
    """Runs a function, and gives an error of it to `tell`.

    The thread blocks all signals except those of a fault of its own. Otherwise it could get a
    signal that the program blocks in order to wait for it.
    """

    def __init__(
        self, run: Callable[[], None], name: str, tell: Callable[[Exception], None]
    ) -> None:
        self._work = run, name, tell
        self._ended = new_lock()

    def start(self) -> None:
        faults = {
            signal.SIGSEGV,
            signal.SIGBUS,
            signal.SIGFPE,
            signal.SIGILL,
            signal.SIGTRAP,
            signal.SIGABRT,
            signal.SIGSYS,
        }
        self._ended.acquire()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
        try:
            _start(self._run, ())
        except BaseException:
            self._ended.release()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def join(self, seconds: float | None) -> bool:
        """Waits for the end; False if it has not come within some seconds (None: for ever)."""
        ended = self._ended.acquire(timeout=-1 if seconds is None else max(0, seconds))
        if ended:
            self._ended.release()
        return ended

    def _run(self) -> None:
        run, name, tell = self._work
        try:
            try:
                ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
            except (AttributeError, OSError):
                pass
            run()
        except Exception as error:
            tell(error)
        finally:
            self._ended.release()


def give_way(work: Callable[[], Any]) -> Any:
    """Does long work that holds no lock of the program, at a lower priority: inference servers bind
    their process to the processors that they compute on. Returns what `work` returns.

    It has a thread of its own, because a thread may not raise its priority again.
    """
    results, errors = [], []

    def run() -> None:
        try:
            os.nice(_NICER)  # On Linux that of the calling thread.
        except OSError:
            pass
        results.append(work())

    thread = OwnThread(run, "strobe-aside", errors.append)
    try:
        thread.start()
    except RuntimeError:  # There are no threads left, or the interpreter ends.
        return work()
    thread.join(None)
    if errors:
        raise errors[0]
    return results[0]
