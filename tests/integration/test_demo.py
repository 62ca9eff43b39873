"""The demo's two captures: without a cluster, and on an existing one, where it leaves nothing behind."""

import json
import os
import re
import subprocess

import pytest

from tests.cluster import train_job
from tests.support.control_plane import Kubectl
from tests.support.processes import BIN, PYTHON, ROOT


def test_the_first_capture_needs_no_cluster():
    result = subprocess.run([PYTHON, ROOT / "tests/e2e/first_capture.py"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    for words in ("$ build/bin/strobe capture --insecure-plaintext --workers grpc://localhost:", "look at it: build/bin/strobe inspect build/demo-logs"):
        assert words in result.stdout, result.stdout
    # The demo's guard is the default one. A machine that gives these processes no processor in time makes a recording late, which is told.
    assert re.search(r"^synchronized: (yes|no), \S", result.stdout, re.MULTILINE), result.stdout
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


@pytest.mark.parametrize(("program", "version", "what", "says"), [
    ("cargo", "cargo 0.66.0", "build", "Rust 1.89 or newer is needed"), ("cargo", "cargo 1.88.1 (abc 2025-01-01)", "wheel", "is 1.88.1"),
    ("go", "go1.19.8", "demo", "Go 1.24 or newer is needed"), ("go", "go1.19.8", "node", "is 1.19.8"), ("node", "v18.20.4", "test", "Node.js 20.19 or newer")])
def test_a_compiler_that_is_too_old_is_named_before_anything_is_installed(program, version, what, says, tmp_path):
    """Debian 12 has these versions, whose own errors name files of locks and modules."""
    old = tmp_path / program
    old.write_text(f"#!/bin/sh\necho '{version}'\n")
    old.chmod(0o755)
    done = subprocess.run([ROOT / "tools/setup", what], capture_output=True, text=True, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 1 and says in done.stderr and done.stdout == "", done.stdout + done.stderr


def test_a_job_for_the_node_says_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train_job", "jax"])
    monkeypatch.setattr(train_job, "TRACES", str(tmp_path / "traces"))
    with pytest.raises(SystemExit, match="mkdir -m 1777"):
        train_job.main()
    (tmp_path / "traces").mkdir()
    train_job.main()
    assert json.loads(capsys.readouterr().out)["spec"]["completions"] == 2
    monkeypatch.setitem(train_job.COMMANDS, "jax", ["/nowhere/python"])
    with pytest.raises(SystemExit, match="jax is not installed; make node installs it"):
        train_job.main()


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
