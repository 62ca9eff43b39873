"""Runs XProf, from PyPI, on a logdir."""

import gzip
import json
import urllib.parse
import urllib.request

from .ports import free_port
from .processes import BUILD, wait_until


class XProf:
    def __init__(self, group, logdir):
        self.port = free_port()
        group.start("xprof", [BUILD / "venv/bin/xprof", "--logdir", logdir, "--port", self.port, "--hide_capture_profile_button"])

    def get(self, path, **query):
        url = f"http://localhost:{self.port}/data/plugin/profile/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=120) as answer:
            assert answer.status == 200
            data = answer.read()
            return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data

    def wait_for_runs(self):
        def runs():
            try:
                return json.loads(self.get("runs"))
            except OSError:
                return None

        return wait_until(runs, 60, "XProf")
