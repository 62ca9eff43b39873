"""The demo's two captures: without a cluster, and on an existing one, where it leaves nothing behind."""

import os
import subprocess

from tests.support.control_plane import Kubectl
from tests.support.processes import BIN, PYTHON, ROOT


def test_the_first_capture_needs_no_cluster():
    result = subprocess.run([PYTHON, ROOT / "tests/e2e/first_capture.py"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    for words in ("$ build/bin/strobe capture --insecure-plaintext --workers grpc://localhost:", "synchronized: yes", "look at it: build/bin/strobe inspect build/demo-logs"):
        assert words in result.stdout, result.stdout
    listed = subprocess.run([BIN / "strobe", "ls", ROOT / "build/demo-logs/without-cluster"], capture_output=True, text=True)
    assert "2/2" in listed.stdout, listed.stdout


def test_the_demo_needs_only_jax_of_the_tests_packages():
    """tools/setup installs JAX alone for the demo; what the demo imports must be a part of that."""
    code = f"""if True:
        import os, sys, sysconfig
        jax = {{"jax", "jaxlib", "ml_dtypes", "numpy", "opt_einsum", "scipy"}}
        others = {{name.split(".")[0] for name in os.listdir(sysconfig.get_path("purelib"))}} - jax

        class NotInstalled:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in others:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, NotInstalled())
        sys.path.insert(0, {str(ROOT)!r})
        import tests.e2e.demo, tests.e2e.first_capture, tests.e2e.train_loop
        assert "jax" in sys.modules"""
    result = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


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
