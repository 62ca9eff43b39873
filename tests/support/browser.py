"""Runs what needs Chromium: tests/browser/*.mjs."""

import os
import subprocess

from .processes import BUILD, ROOT


def in_browser(script, *arguments, timeout=540, **env):
    """Runs the file of tests/browser, with environment variables more, and returns its output.

    Neither outlives this process: `node --test` would leave its child behind, and Chromium ends when its pipe closes."""
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", "node", ROOT / "tests/browser" / script, *map(str, arguments)], capture_output=True, text=True,
        timeout=timeout, env={**os.environ, "STROBE_BROWSER": str(BUILD / "tools/browser"), "STROBE_SHOTS": str(BUILD / "shots"), **env})
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
    return done.stdout
