"""What the environment switches off of that which Strobe changes in a program: the names are those
of docs/reference/trainer-changes.md.
"""

from __future__ import annotations

import os


def is_off(change: str) -> bool:
    return change in os.environ.get("STROBE_DISABLE", "").split(",")
