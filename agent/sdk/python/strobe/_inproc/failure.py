"""What to do with errors in our code: tell the sidecar, in one line of its log, or leave them to
the program if it raised them.
"""

from __future__ import annotations

import sys


def tell(error: BaseException) -> None:
    """Leaves the first error of this process for the sidecar. Never raises."""
    try:
        # Programs may end at any time.
        if sys.is_finalizing() or "interpreter shutdown" in str(error):
            return
        # Not a part of this package: it also reports that the package cannot be loaded.
        from strobe_bootstrap import tell as leave

        leave(error)
    except Exception:
        pass


def is_the_programs(error: BaseException) -> bool:
    """Whether a signal handler of the program raised it, such as a time limit's: our code was
    merely what the interpreter ran just then.
    """
    import signal

    handlers = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # A functools.partial.
        handler = getattr(handler, "__func__", handler)
        if not hasattr(handler, "__code__"):
            handler = type(handler).__dict__.get("__call__")
        handlers.add(getattr(handler, "__code__", None))
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False
