"""The programs in the wheel, as commands."""

import os
import sys
from pathlib import Path


def _run(name):
    program = str(Path(__file__).resolve().parent / "bin" / name)
    os.execv(program, [name, *sys.argv[1:]])


def strobe():
    _run("strobe")


def sidecar():
    _run("strobe-sidecar")
