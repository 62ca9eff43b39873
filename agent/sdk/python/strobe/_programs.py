"""Entry points that run the programs in the wheel."""

import os
import sys
from pathlib import Path


def path_of(name: str) -> str:
    return str(Path(__file__).resolve().parent / "bin" / name)


def _run(name: str) -> None:
    os.execv(path_of(name), [name, *sys.argv[1:]])


def strobe() -> None:
    _run("strobe")


def sidecar() -> None:
    _run("strobe-sidecar")
