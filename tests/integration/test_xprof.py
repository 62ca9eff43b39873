"""XProf from PyPI opens what we write: it lists the run, its hosts and tools, and converts them."""

import json
import subprocess

from tests.conftest import read_manifest
from tests.support.processes import BIN
from tests.support.xprof import XProf


def test_xprof_opens_the_run(group, make_workers, logdir):
    workers = make_workers(3)
    run = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", ",".join(w.address for w in workers),
                          "--logdir", logdir, "--duration", "500ms", "--run", "look", "--quiet"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    hosts = [w["name"] for w in read_manifest(logdir)["workers"]]

    xprof = XProf(group, logdir)
    get = xprof.get
    assert xprof.wait_for_runs() == ["look"]
    tools = json.loads(get("run_tools", run="look"))
    assert "trace_viewer@" in tools and "overview_page" in tools
    listed = [h["hostname"] for h in json.loads(get("hosts", run="look", tag="trace_viewer@"))]
    assert sorted(listed) == sorted(hosts)
    for host in hosts:
        trace = json.loads(get("data", run="look", tag="trace_viewer@", host=host))
        assert trace["traceEvents"], host
        assert json.loads(get("data", run="look", tag="overview_page", host=host))
    assert json.loads(get("data", run="look", tag="overview_page", host="ALL_HOSTS"))
