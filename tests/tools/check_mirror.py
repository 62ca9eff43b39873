"""Checks that tests/unit mirrors the source tree: every unit test is in the folder of the header that it tests, and is built."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests/unit"

problems = []
listed = (UNIT / "CMakeLists.txt").read_text()
for test in sorted(UNIT.rglob("*_test.cc")):
    path = test.relative_to(UNIT)
    subject = ROOT / path.parent / path.name.replace("_test.cc", ".h")
    if not subject.exists():
        problems.append(f"tests/unit/{path}: there is no {subject.relative_to(ROOT)}")
    if str(path) not in listed:
        problems.append(f"tests/unit/{path} is not built: add it to tests/unit/CMakeLists.txt")
print("\n".join(problems) or "every unit test has its subject")
sys.exit(1 if problems else 0)
