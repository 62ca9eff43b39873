"""Fixtures of the integration tests. The peers are real, and shared where a test does not harm them."""

import itertools
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.fault_proxy import FaultProxy
from tests.support.operator import Operator
from tests.support.processes import BUILD, PYTHON, ROOT, Group
from tests.support.protos import generate
from tests.support.secure import SecureOperator
from tests.support.workers import SharedTrainers, Worker

_numbers = itertools.count()
# For the programs in Go that tests start: collecting garbage so often takes a third of a short kubectl's processor time.
os.environ.setdefault("GOGC", "400")


def pytest_sessionfinish():
    """Notes the processor seconds of this suite and of the programs that it started and awaited, for tests/tools/times.py."""
    if folder := os.environ.get("STROBE_PROCESSOR_TIMES"):
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        path = Path(folder) / Path(sys.argv[-1]).stem.replace("test_", "integration.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{sum(part.ru_utime + part.ru_stime for part in used):.0f}\n")


@pytest.fixture(scope="session")
def protos(tmp_path_factory):
    """The wire protocol for Python clients, generated from this repository's .proto files."""
    return generate(tmp_path_factory.mktemp("protos"))


@pytest.fixture(scope="session")
def python_package(tmp_path_factory):
    """A directory with the installed wheel, for PYTHONPATH."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "tools/wheel"], check=True)
    (wheel,) = (BUILD / "wheels").glob("*.whl")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", target, wheel], check=True)
    return target


@pytest.fixture(scope="session")
def session_group(tmp_path_factory):
    with Group(tmp_path_factory.mktemp("logs")) as group:
        yield group


@pytest.fixture
def group(tmp_path):
    with Group(tmp_path / "logs") as started:
        yield started


@pytest.fixture(scope="session")
def plane(session_group, tmp_path_factory):
    plane = ControlPlane(session_group, tmp_path_factory.mktemp("cluster")).start()
    Kubectl(plane.kubeconfig).install_crds()
    return plane


@pytest.fixture
def kubectl(plane):
    """kubectl in a namespace of the test's own."""
    name = f"t{next(_numbers)}"
    Kubectl(plane.kubeconfig).create_namespace(name)
    return Kubectl(plane.kubeconfig, name)


@pytest.fixture
def proxy(plane):
    proxy = FaultProxy(plane)
    yield proxy
    proxy.stop()


@pytest.fixture
def operator(group, kubectl, plane):
    return Operator(group, plane.kubeconfig, flags=["--no-leader-election"],
                    config={"watch": {"namespace": kubectl.namespace}, "viewer": {"url": "https://viewer.test/?run={run}"}}).start().wait_ready()


@pytest.fixture
def secure(group, plane, kubectl):
    made = []

    def make(**options):
        made.append(SecureOperator(group, plane, kubectl, **options).start().wait_ready())
        return made[-1]

    yield make
    for operator in made:
        operator.remove()


@pytest.fixture(scope="session")
def trainers(session_group):
    return SharedTrainers(session_group)


@pytest.fixture
def make_workers(group, trainers):
    """Fresh sidecars beside the shared trainers."""

    def make(count, kubectl=None, prefix="worker", **options):
        made = []
        for i, trainer in enumerate(trainers.first(count)):
            worker = Worker(group, f"{prefix}-{i}", i, **options)
            worker.profiler_port = trainer.profiler_port
            worker.start_sidecar()
            made.append(worker.wait())
            if kubectl:
                worker.register(kubectl)
        return made

    return make


@pytest.fixture
def logdir(tmp_path):
    return tmp_path / "logdir"


def read_manifest(logdir):
    """The one manifest below a logdir."""
    found = sorted(Path(logdir).glob("plugins/profile/*/strobe.json"))
    assert len(found) == 1, found
    return json.loads(found[0].read_text())


@pytest.fixture(scope="session")
def jax_trace(tmp_path_factory):
    """A real JAX trace."""
    directory = tmp_path_factory.mktemp("jax")
    program = f"""
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jnp.tanh(x @ x).sum())
x = jnp.ones((200, 200))
step(x).block_until_ready()
with jax.profiler.trace({str(directory)!r}):
    for i in range(20):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            with jax.profiler.TraceAnnotation("a <b> \\"c\\"", key="value"):
                step(x).block_until_ready()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env={"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"})
    (trace,) = directory.rglob("*.xplane.pb")
    return trace
