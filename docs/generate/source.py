"""What the generators share: where things are, running our programs, and Markdown tables."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"


class Missing(Exception):
    """Something that a reference page is made from is not there."""


def run(program, *arguments):
    """The standard output of one of our programs."""
    path = BIN / program
    if not path.exists():
        raise Missing(f"{path.relative_to(ROOT)} is missing, and the reference pages are made from it; run `make` first")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Missing(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def cell(text):
    """Text that cannot end its table cell or become a tag."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text):
    """A code span. Nothing in it is markup, but a bar would end the table cell."""
    return f"`{str(text).replace('|', chr(92) + '|')}`"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
