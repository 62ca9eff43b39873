"""Tells the sidecar why this process, or one of its frameworks, cannot be recorded: one line in its log."""

import sys


def tell(error):
    """Leaves the first error of this process for the sidecar. Never raises."""
    try:
        if sys.is_finalizing() or "interpreter shutdown" in str(error):  # Programs may end at any time.
            return
        from strobe_bootstrap import tell as leave  # It must be able to tell that this package cannot be loaded.

        leave(error)
    except Exception:
        pass
