"""A running `strobe view`, and what its server answers."""

import gzip
import json
import re
import time
import urllib.error
import urllib.request

import pytest

from .processes import BIN


class View:
    def __init__(self, group, name, *arguments, env=None):
        self.process = group.start(name, [BIN / "strobe", "view", *map(str, arguments), "--listen", "127.0.0.1:0"], env=env)
        self.process.wait_for("Ctrl-C ends", 30)
        self.url = re.search(r"http://\S+", self.process.output()).group()

    def get(self, path, **headers):
        request = urllib.request.Request(self.url.rstrip("/") + path, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
            return gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body

    def json(self, path):
        return json.loads(self.get(path))

    def refused(self, path, **headers):
        with pytest.raises(urllib.error.HTTPError) as error:
            self.get(path, **headers)
        return error.value.code, error.value.read().decode()

    def loaded(self):
        deadline = time.monotonic() + 30
        while (run := self.json("/api/run")).get("loading"):
            assert time.monotonic() < deadline
        return run
