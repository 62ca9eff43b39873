#!/usr/bin/env python3
"""Prints the tests that failed in ctest runs, with the lines of their output that say why:
failures.py JUNIT_FILE... A file that does not exist is left out: its run was never begun.

CI keeps the end of what `make test` prints; so this comes last and stays short."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SAYS_WHY = re.compile(r"^(E  |FAILED |ERROR |.*: Failure$|.*(ERROR|WARNING): \w+Sanitizer|.*error: )")
MOST_LINES = 8
MOST_COLUMNS = 600


def reasons(output):
    """The last lines that say why; of an output that has none of them, its last lines."""
    lines = [line for line in output.splitlines() if line.strip()]
    chosen = [line for line in lines if SAYS_WHY.match(line)] or lines
    return [line[:MOST_COLUMNS] for line in chosen[-MOST_LINES:]]


def main(files):
    for file in files:
        if not Path(file).exists():
            continue
        for case in ElementTree.parse(file).iter("testcase"):
            if case.get("status") == "fail":
                print(f"FAILED {case.get('name')} ({file}, {float(case.get('time')):.0f} s)")
                print("\n".join(f"  {line}" for line in reasons(case.findtext("system-out") or "")))


if __name__ == "__main__":
    main(sys.argv[1:])
