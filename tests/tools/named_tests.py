"""The tests that a document may name: Suite.Name, test_file.py::test_name, title of a browser test, and CTest's names of the fuzz targets."""

import re
from pathlib import Path

GTEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
PYTEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
FUZZED = re.compile(r"^foreach\(target ([\w ]+)\)", re.MULTILINE)
TITLE = re.compile(r"""^\s*test\(\s*(["'`])(.+?)\1,""", re.MULTILINE)


def known_tests(root):
    """The names of all tests that are run. Each browser test is `file.test.mjs: title`, with * for the parts of a title that vary."""
    root = Path(root)
    names = {".".join(found) for file in (root / "tests/unit").rglob("*_test.cc") for found in GTEST.findall(file.read_text())}
    run = set(re.findall(r"\w+", (root / "tests/integration/CMakeLists.txt").read_text()))
    for file in (root / "tests/integration").glob("test_*.py"):
        if file.stem.removeprefix("test_") in run:
            names |= {f"{file.name}::{name}" for name in PYTEST.findall(file.read_text())}
    return names | _browser_tests(root) | _fuzz_targets(root)


def _browser_tests(root):
    """The tests of the files that the viewer's suite runs."""
    suite = (root / "tests/integration/test_viewer.py").read_text()
    return {f"{file.name}: {re.sub(r'[$][{].*?[}]', '*', title)}" for file in (root / "tests/browser").glob("*.test.mjs") if f'"{file.name}"' in suite
            for _, title in TITLE.findall(file.read_text())}


def _fuzz_targets(root):
    found = FUZZED.search((root / "tests/fuzz/CMakeLists.txt").read_text())
    return {f"unit.fuzz.{target}" for target in found.group(1).split()}
