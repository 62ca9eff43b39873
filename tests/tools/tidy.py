"""Runs clang-tidy and clang's thread-safety analysis on all production code: tests/tools/tidy.py [folder ...]

Most of the time is spent on headers, so that the sources of a folder are checked as one translation unit. A folder that passed is not checked
again until it, a folder that it may include, or the list of checks changes. What passed is remembered in the user's cache directory, as ccache
does, so that another checkout of the same sources is not checked again."""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_layers import ARROWS, ROOT, module_of, reachable  # noqa: E402

DATABASE = ROOT / "build/release/compile_commands.json"
OUT = ROOT / "build/tidy"
PASSED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strobe-tidy"
KEPT = 8  # States remembered of each folder.
TOOL = "clang-tidy-14"


def commands():
    """The sources of each folder with their entries in the compilation database."""
    folders = {}
    for entry in json.loads(DATABASE.read_text()):
        for source in joined(Path(entry["file"])):
            if not source.is_relative_to(ROOT) or source.is_relative_to(ROOT / "build"):
                continue
            path = source.relative_to(ROOT)
            if module_of(path) in ARROWS:
                folders.setdefault(module_of(path), []).append((str(path), entry))
    return folders


def joined(source):
    """The sources that CMake joined into this one for a unity build; otherwise itself."""
    if "Unity" not in source.parts:
        return [source]
    return [Path(path) for path in re.findall(r'^#include "(.*)"$', source.read_text(), re.MULTILINE)]


def flags_of(sources):
    """The definitions and the absolute include paths of all sources."""
    found = {}
    for _, entry in sources:
        words = iter(shlex.split(entry["command"]))
        for word in words:
            if word.startswith(("-D", "-std=")):
                found[word] = None
            for flag in ("-isystem", "-I"):
                if word.startswith(flag):
                    path = word.removeprefix(flag) or next(words)
                    found[flag + os.path.normpath(os.path.join(entry["directory"], path))] = None
    return list(found)


def state_of(module, flags):
    """A digest of everything of the project that the result for this folder depends on."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + Path(__file__).read_bytes())
    digest.update("\n".join(flag.replace(str(ROOT), "") for flag in flags).encode())
    for other in sorted({module, *reachable(module)}):
        for path in sorted((ROOT / other).glob("*")):
            if path.suffix in (".h", ".inc") or (path.suffix == ".cc" and other == module):
                digest.update(path.name.encode() + path.read_bytes())
    for path in sorted((ROOT / "proto").rglob("*.proto")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def remember(stamp):
    stamp.touch()
    known = sorted(PASSED.glob(f"{stamp.name.split('-')[0]}-*"), key=lambda path: -path.stat().st_mtime)
    for forgotten in known[KEPT:]:
        forgotten.unlink(missing_ok=True)


def check(module, sources):
    name, flags = module.replace("/", "_"), flags_of(sources)
    stamp = PASSED / f"{name}-{state_of(module, flags)}"
    if stamp.exists():
        remember(stamp)
        return ""
    unity = OUT / f"{name}.cc"
    # A source of several targets has several commands.
    unity.write_text("".join(f'#include "{path}"\n' for path in sorted({path for path, _ in sources})))
    command = [TOOL, "--quiet", "--checks=-bugprone-suspicious-include", str(unity), "--", "-xc++", "-Wno-unknown-warning-option",
               "-Wthread-safety", f"-I{ROOT}", *flags]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode == 0:
        remember(stamp)
        return ""
    return ran.stdout or ran.stderr


def main():
    for directory in (OUT, PASSED):
        directory.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    folders = {module: sources for module, sources in commands().items() if not wanted or module in wanted}
    if not folders:
        sys.exit(f"no such folder, or {DATABASE.relative_to(ROOT)} is missing: run `make everything` first")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = 0
        for text in pool.map(lambda item: check(*item), sorted(folders.items(), key=lambda item: -len(item[1]))):
            print(text, end="", flush=True)
            passed += not text
    print(f"{passed} of {len(folders)} folders pass {TOOL} and its thread-safety analysis")
    sys.exit(0 if passed == len(folders) else 1)


if __name__ == "__main__":
    main()
