"""Checks that SECURITY.md names tests for each promise of "What holds today", and that these tests exist and are run."""

import re
import sys
from pathlib import Path

from named_tests import known_tests

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
SECTION = "## What holds today"
HEADING = ["promise", "held by"]


def promises():
    """Yields (line number, promise, test names in the last column)."""
    inside = False
    for number, line in enumerate((ROOT / "SECURITY.md").read_text().splitlines(), 1):
        if line.startswith("## "):
            inside = line == SECTION
        if not inside or not line.startswith("|") or set(line) <= set("|- "):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells != HEADING:
            yield number, cells[0], re.findall(r"`([^`]+)`", cells[-1]) if len(cells) == len(HEADING) else []


known, problems, count = known_tests(ROOT), [], 0
for number, promise, named in promises():
    count += 1
    if not named:
        problems.append(f"SECURITY.md:{number}: no test is named for: {promise}")
    problems += [f"SECURITY.md:{number}: no test {name} is run" for name in named if name not in known]
if count == 0:
    problems.append(f'SECURITY.md: no promises below "{SECTION}"')
print("\n".join(problems) or f"{count} promises name tests that are run")
sys.exit(1 if problems else 0)
