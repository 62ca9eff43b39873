"""Checks that tests/SECURITY.md names tests for each promise of SECURITY.md, and that these tests exist and are run."""

import re
import sys
from pathlib import Path

from named_tests import known_tests

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)


def rows(page):
    """(number of the promise, text) of each row of a page's tables."""
    return ROW.findall((ROOT / page).read_text())


def problems(promises, held, known):
    """What is wrong with the two pages."""
    for page, found in (("SECURITY.md", promises), ("tests/SECURITY.md", held)):
        numbers = [number for number, _ in found]
        yield from (f"{page}: {number} is there {numbers.count(number)} times" for number in sorted({n for n in numbers if numbers.count(n) > 1}))
    yield from (f"tests/SECURITY.md: no test is named for {number}: {text}" for number, text in promises if number not in dict(held))
    yield from (f"tests/SECURITY.md: {number} is no promise of SECURITY.md" for number, _ in held if number not in dict(promises))
    for number, text in held:
        named = re.findall(r"`([^`]+)`", text)
        if not named:
            yield f"tests/SECURITY.md: no test is named for {number}"
        yield from (f"tests/SECURITY.md: {number}: no test {name} is run" for name in named if name not in known)
    if not promises:
        yield "SECURITY.md has no promises"


promises = rows("SECURITY.md")
found = list(problems(promises, rows("tests/SECURITY.md"), known_tests(ROOT)))
print("\n".join(found) or f"{len(promises)} promises name tests that are run")
sys.exit(1 if found else 0)
