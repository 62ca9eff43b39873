"""Where the programs are: in a built tree or in a bundle, and which Pythons have the frameworks."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Place:
    bin: Path
    python: Path  # Has strobe_bootstrap.py and the package `strobe`.

    def program(self, name):
        return str(self.bin / name)

    @property
    def agent(self):
        return self.program("libstrobe_agent.so")


def find():
    return Place(Path(os.environ["STROBE_GPU_BIN"]), Path(os.environ["STROBE_GPU_PACKAGE"]))


def _has(python, module):
    """Whether this Python finds the module, without importing it."""
    code = f"import sys, importlib.util as u; sys.exit(u.find_spec({module!r}) is None)"
    try:
        return subprocess.run([python, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def python_with(module):
    """The first Python that has the framework: $STROBE_GPU_PYTHON, this one, those on the PATH, and those of a built tree."""
    build = HERE.parents[2] / "build"
    candidates = [os.environ.get("STROBE_GPU_PYTHON"), sys.executable, "python3", str(build / "torch/bin/python"), str(build / "venv/bin/python")]
    return next((python for python in candidates if python and _has(python, module)), None)


def cupti_of(python, generation):
    """The libcupti of a Python's CUDA wheels, for programs that have no CUDA runtime beside which the agent could find it; None without."""
    code = "import sys; print('\\n'.join(sys.path))"
    try:
        folders = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30).stdout.split("\n")
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = [path for folder in folders if folder for path in Path(folder).glob(f"nvidia/*/lib/libcupti.so.{generation}")]
    return str(found[0]) if found else None
