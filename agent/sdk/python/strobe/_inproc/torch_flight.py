"""PyTorch's Flight Recorder: the collectives that each process launched last.

It tells which rank holds up a job that stands still. Since PyTorch 2.11 it records by itself.
"""

from __future__ import annotations

import os

from .frameworks import release, version
from .switches import is_off

_NAME, _OLD_NAME = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"  # The first since 2.8.
_ENTRIES = "2000"  # As PyTorch 2.11 has them.


def record_collectives() -> None:
    """Switches the recorder on, unless somebody has chosen its size.

    PyTorch reads the variable when the recorder is used first: after `import torch`, and before it
    joins a process group.
    """
    if is_off("flight-recorder") or _NAME in os.environ or _OLD_NAME in os.environ:
        return
    number = release(version("torch"))
    if (2, 5, 0) <= number < (2, 11, 0):
        os.environ[_NAME if number >= (2, 8, 0) else _OLD_NAME] = _ENTRIES
