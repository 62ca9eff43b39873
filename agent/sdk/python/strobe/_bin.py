"""Where the programs of the wheel are."""

from pathlib import Path


def path_of(name: str) -> str:
    return str(Path(__file__).resolve().parent / "bin" / name)
