#!/usr/bin/env python3
"""Prints how long each suite of a ctest run took, and which took longer than CONTRIBUTING's section
"Time" allows: times.py JUNIT_FILE. Never fails, because machines differ."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([\w.]+)` \| (\d+) \|", re.MULTILINE)


def budgets(text):
    """Seconds by suite, from the table; the first number in its text is that of all other suites."""
    usual = int(re.search(r"A suite may take\s+(\d+)\s+seconds", text)[1])
    return usual, {suite: int(seconds) for suite, seconds in ROW.findall(text)}


def times(junit):
    """Seconds by suite; the unit tests are one suite."""
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        suite = "unit" if case.get("name").startswith("unit.") else case.get("name")
        found[suite] = found.get(suite, 0.0) + float(case.get("time"))
    return found


def main(junit):
    usual, allowed = budgets((ROOT / "CONTRIBUTING.md").read_text())
    taken = sorted(times(junit).items(), key=lambda item: -item[1])
    print(f"\n{'suite':32}{'seconds':>9}{'budget':>9}")
    for suite, seconds in taken:
        budget = allowed.get(suite, usual)
        print(f"{suite:32}{seconds:9.0f}{budget:9}{'   over its budget' if seconds > budget else ''}")
    print(f"{'sum':32}{sum(seconds for _, seconds in taken):9.0f}")
    for suite in sorted(allowed.keys() - dict(taken).keys()):
        print(f"CONTRIBUTING.md has a budget for {suite}, which did not run")


if __name__ == "__main__":
    main(sys.argv[1])
