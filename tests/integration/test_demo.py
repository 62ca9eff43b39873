"""The demo works on an existing cluster and leaves nothing behind."""

import os
import subprocess

from tests.support.control_plane import Kubectl
from tests.support.processes import PYTHON, ROOT


def test_demo_on_a_given_cluster(plane):
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    result = subprocess.run([PYTHON, ROOT / "tests/e2e/demo.py"], capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    for words in ("profilerequest.strobe.dev/first-look condition met", "2/2", "demo-train-0.xplane.pb", "strobe.json", "skew", "open it:"):
        assert words in result.stdout, result.stdout
    assert "starting etcd" not in result.stdout
    kubectl = Kubectl(plane.kubeconfig)
    assert kubectl.get("profilerequests", "--all-namespaces")["items"] == []
    assert kubectl.get("pods", "-l", "app=demo-train")["items"] == []
