"""Annotations for Python programs, recorded by a Strobe sidecar.

Nothing is recorded, and next to nothing is spent, while no capture runs. The environment says where the
sidecar looks: ``STROBE_DIR`` is a directory that both see (in Kubernetes a shared emptyDir).

>>> import strobe
>>> for step in range(3):
...     with strobe.Trace("train", step_num=step):
...         pass
"""

import os as _os
from pathlib import Path as _Path

# The extension finds the agent by this; what the user set comes first.
_os.environ.setdefault("STROBE_AGENT", str(_Path(__file__).resolve().parent / "lib" / "libstrobe_agent.so"))

from . import client, profiler, server  # noqa: E402
from ._capture import start, stop  # noqa: E402
from ._trace import Trace, active  # noqa: E402

__all__ = ["Trace", "active", "client", "profiler", "server", "start", "stop"]
__version__ = "0.1.0"
