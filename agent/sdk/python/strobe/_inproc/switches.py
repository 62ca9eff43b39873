"""What the environment switches off of that which Strobe changes in a program: the names are those
of docs/reference/trainer-changes.md.
"""

import os


def is_off(change):
    return change in os.environ.get("STROBE_DISABLE", "").split(",")
