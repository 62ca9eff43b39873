"""Annotations for Python programs, recorded by a Strobe sidecar.

While no capture runs, nothing is recorded and the cost is negligible. The environment variable
``STROBE_DIR`` names a directory that the program and the sidecar share (in Kubernetes, an
emptyDir).

>>> import strobe
>>> for step in range(3):
...     with strobe.Trace("train", step_num=step):
...         pass
"""

import os as _os
from pathlib import Path as _Path

# The extension loads the agent of the pod ($STROBE_DIR/lib), or else the one at $STROBE_AGENT. The
# package has one if pip installed it.
_own_agent = _Path(__file__).resolve().parent / "lib" / "libstrobe_agent.so"
if _own_agent.exists():
    _os.environ.setdefault("STROBE_AGENT", str(_own_agent))

from . import _inproc, client, profiler, server  # noqa: E402
from ._capture import Profile, start, stop  # noqa: E402
from ._trace import Trace, active, scope  # noqa: E402
from .client import ProfilerOptions  # noqa: E402

__all__ = [
    "Profile",
    "ProfilerOptions",
    "Trace",
    "active",
    "client",
    "profiler",
    "scope",
    "server",
    "start",
    "stop",
]
__version__ = "0.1.0"

_inproc.bootstrap_imported()
