"""Every server and every client over IPv6 alone: the API server, enrollment, workers, metrics and the viewer are on [::1]."""

import socket
import ssl
import subprocess
import urllib.request

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import BIN
from tests.support.secure import SecureOperator, SecureSidecar, allow
from tests.support.workers import mark_running


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


class Plane6(ControlPlane):
    server_names = ("IP:::1",)
    apiserver_flags = {"bind-address": "::1"}

    def __init__(self, group, directory):
        super().__init__(group, directory)
        self.url = f"https://[::1]:{self.port}"


@pytest.fixture
def plane6(group, tmp_path):
    plane = Plane6(group, tmp_path / "plane").start()
    Kubectl(plane.kubeconfig).install_crds()
    Kubectl(plane.kubeconfig).create_namespace("six")
    return plane


def page(url):
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=5, context=unverified) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_capture(group, plane6, trainers, tmp_path, logdir):
    kubectl = Kubectl(plane6.kubeconfig, "six")
    enroll, webhook, metrics = free_port(), free_port(), free_port()
    # The API server calls webhooks by a name that is 127.0.0.1 here, so that they listen on both families, as in the chart.
    operator = SecureOperator(group, plane6, kubectl, tls={"enrollListen": f"[::1]:{enroll}"}, webhook={"listen": f"[::]:{webhook}"})
    operator.enroll_port, operator.webhook_port = enroll, webhook
    operator.command[operator.command.index("--http-listen") + 1] = f"[::]:{metrics}"
    operator.http_port = metrics
    operator.start().wait_ready()
    allow(kubectl, logdir)
    # The name in the certificate leads nowhere; the address does.
    sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainer.profiler_port, tmp_path / f"w{i}", i, host="[::1]",
                              flags=["--enroll-at", f"[::1]:{enroll}"]).start() for i, trainer in enumerate(trainers.first(2))]
    for sidecar in sidecars:
        sidecar.wait()
        mark_running(kubectl, sidecar.pod, "::1")
    kubectl.apply(profile_request("look", logdir))
    done = wait_finished(kubectl, "look")
    assert condition(done, "Succeeded")["status"] == "True", done["status"]
    assert done["status"]["workers"]["ok"] == 2
    assert all("strobe_build_info" in sidecar.page() for sidecar in sidecars)
    assert page(f"http://[::1]:{metrics}/metrics") == page(f"http://127.0.0.1:{metrics}/metrics") == 200
    assert page(f"https://[::1]:{webhook}/inject") == 405
    operator.remove()


def test_on_the_hosts_network_the_first_port_that_is_this_pods_is_used(group, plane6, trainers, tmp_path, logdir):
    """One of the four ports is closed, one is a stranger's and one another pod's sidecar."""
    kubectl = Kubectl(plane6.kubeconfig, "six")
    operator = SecureOperator(group, plane6, kubectl).start().wait_ready()
    allow(kubectl, logdir)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as stranger:
        stranger_port, taken, closed = stranger.getsockname()[1], free_port(), free_port()
        other = SecureSidecar(group, operator, "other", trainers[0].profiler_port, tmp_path / "o", 0, host="[::1]").start().wait()
        mine = SecureSidecar(group, operator, "mine", trainers[1].profiler_port, tmp_path / "m", 0, host="[::1]",
                             host_ports=lambda own: [closed, other.port, own, taken])
        # It finds the first two ports taken, too.
        mine.command[mine.command.index("--listen") + 1] = f"[::1]:{stranger_port},{other.port},{mine.port}"
        mine.start().wait()
        mark_running(kubectl, "mine", "::1")
        kubectl.apply(profile_request("look", logdir, target={"pods": ["mine"]}))
        done = wait_finished(kubectl, "look")
        assert condition(done, "Succeeded")["status"] == "True", done["status"]
    operator.remove()


def test_the_viewer_and_the_command_line(group, tmp_path, trainers, jax_trace):
    port = free_port()
    viewer = group.start("viewer", [BIN / "strobe", "view", jax_trace, "--listen", f"[::1]:{port}"])
    viewer.wait_for(f"http://[::1]:{port}/", 20)
    assert page(f"http://[::1]:{port}/api/runs") == 200
    worker = free_port()
    group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"[::1]:{worker}", "--insecure-plaintext", "--framework",
                            f"localhost:{trainers[0].profiler_port}"]).wait_for("serves", 10)
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"[::1]:{worker}", "--logdir", tmp_path / "logs",
                           "--duration", "200ms"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
