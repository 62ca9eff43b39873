"""The operator as the chart installs it, before a real API server, for benchmarks."""

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.secure import ChartOperator


def start(group, directory, logdir, *values):
    """Starts both. Returns (operator, kubectl for the namespace `bench`)."""
    plane = ControlPlane(group, directory / "plane").start()
    Kubectl(plane.kubeconfig).install_crds()
    Kubectl(plane.kubeconfig).create_namespace("bench")
    kubectl = Kubectl(plane.kubeconfig, "bench")
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]', *values).lead_webhooks_here()
    operator.apply("--server-side").start().wait_ready()
    return operator, kubectl
