"""Entry points that run the programs in the wheel."""

import os
import sys

from ._bin import path_of


def _run(name: str, called: str = "") -> None:
    os.execv(path_of(name), [called or name, *sys.argv[1:]])


def strobe() -> None:
    """The command, and `strobe query`, which is written in Python because it needs DuckDB's Python
    package.
    """
    if sys.argv[1:2] == ["query"]:
        from ._query import main

        sys.exit(main(sys.argv[2:]))
    _run("strobe")


def kubectl_strobe() -> None:
    """kubectl finds its plugin by this name. The program sees by the name that kubectl runs it."""
    _run("strobe", "kubectl-strobe")


def kubectl_complete_strobe() -> None:
    _run("strobe", "kubectl_complete-strobe")


def sidecar() -> None:
    _run("strobe-sidecar")
