#!/usr/bin/env python3
"""Prints how long each suite of a ctest run took, with the processor seconds of its programs, and which took longer than CONTRIBUTING's section
"Time" allows: times.py JUNIT_FILE... A file that does not exist is left out. Processor seconds are those that tests/conftest.py noted in STROBE_PROCESSOR_TIMES, without programs that
nobody awaited. Never fails, because machines differ."""

import os
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


def times(files):
    """Seconds by suite; the unit tests are one suite."""
    found = {}
    for case in (case for file in files if Path(file).exists() for case in ElementTree.parse(file).iter("testcase")):
        suite = "unit" if case.get("name").startswith("unit.") else case.get("name")
        found[suite] = found.get(suite, 0.0) + float(case.get("time"))
    return found


def processor_times(folder):
    """Processor seconds by suite."""
    return {path.name: float(path.read_text()) for path in Path(folder).glob("*")} if folder else {}


def main(files):
    usual, allowed = budgets((ROOT / "CONTRIBUTING.md").read_text())
    taken = sorted(times(files).items(), key=lambda item: -item[1])
    processor = processor_times(os.environ.get("STROBE_PROCESSOR_TIMES"))
    print(f"\n{'suite':32}{'seconds':>9}{'budget':>9}{'processor':>11}")
    for suite, seconds in taken:
        budget = allowed.get(suite, usual)
        used = f"{processor[suite]:11.0f}" if suite in processor else f"{'-':>11}"
        print(f"{suite:32}{seconds:9.0f}{budget:9}{used}{'   over its budget' if seconds > budget else ''}")
    print(f"{'sum':32}{sum(seconds for _, seconds in taken):9.0f}{'':9}{sum(processor.values()):11.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
