"""Checks that no file has more than 700 lines and no Python function more than 80; blank lines do not count.

clang-tidy and eslint bound the functions of C++ and JavaScript. Tests and their fakes may have larger files, because the tests of
one header are in one file (check_mirror.py), and their functions are bounded all the same.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE, MAX_FUNCTION = 700, 80
KINDS = {".c", ".cc", ".css", ".h", ".js", ".proto", ".py", ".rs"}
SKIPPED = {".git", "build", "node_modules"}
TESTS = ("tests/browser/", "tests/fakes/", "tests/golden/", "tests/integration/", "tests/unit/")


def size(lines):
    return sum(1 for line in lines if line.strip())


def large_functions(source):
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = size(lines[node.lineno - 1:node.end_lineno])
            if found > MAX_FUNCTION:
                yield node.lineno, f"{node.name} has {found} lines, and a function may have {MAX_FUNCTION}"


def problems_in(path, source):
    found = size(source.splitlines())
    if found > MAX_FILE and not path.startswith(TESTS):
        yield f"{path}: the file has {found} lines, and a file may have {MAX_FILE}: divide it by what it is about"
    if path.endswith(".py"):
        for line, problem in large_functions(source):
            yield f"{path}:{line}: {problem}"


def sources():
    for folder in sorted(ROOT.iterdir()):
        files = folder.rglob("*") if folder.is_dir() and folder.name not in SKIPPED else [folder]
        for file in sorted(files):
            if file.suffix in KINDS and file.is_file() and not SKIPPED & set(file.relative_to(ROOT).parts):
                yield file


def main():
    problems = [problem for file in sources() for problem in problems_in(str(file.relative_to(ROOT)), file.read_text())]
    print("\n".join(problems) or "no file and no function is too large")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
