"""Helpers of the generators: paths, running our programs, and Markdown tables."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"


class Missing(Exception):
    """A source of a reference page is missing or has an unexpected form."""


def run(program, *arguments):
    """Runs one of our programs and returns its standard output."""
    path = BIN / program
    if not path.exists():
        raise Missing(f"{path.relative_to(ROOT)} is missing, and the reference pages are made from it; run `make` first")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Missing(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def cell(text):
    """Escapes text so that it neither ends its table cell nor becomes an HTML tag."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text):
    """Returns a code span. Only a bar needs to be escaped in it, because it would end the table cell."""
    return f"`{str(text).replace('|', chr(92) + '|')}`"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
