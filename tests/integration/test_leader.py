"""Leader election, with the real Lease of a real API server."""

import re
import signal
import time

from tests.support import fault_proxy as fp
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import context_switches, wait_until

# Short times keep the tests short.
LEASE = {"duration": "12s", "renewDeadline": "4s", "retryPeriod": "1s"}


def make(group, kubeconfig, kubectl, name):
    config = {"watch": {"namespace": kubectl.namespace}, "lease": {**LEASE, "namespace": kubectl.namespace}}
    return Operator(group, kubeconfig, name, config=config).start()


def leading(operator):
    return re.search(r'^leader_election_master_status\{.*name="strobe-operator".*\} 1$', operator.page("/metrics"), re.MULTILINE) is not None


def test_a_clean_stop_hands_over_within_seconds(group, kubectl, plane, make_workers, logdir):
    make_workers(1, kubectl)
    first = make(group, plane.kubeconfig, kubectl, "first").wait_ready()
    wait_until(lambda: leading(first), 15, "the first to lead")
    second = make(group, plane.kubeconfig, kubectl, "second").wait_ready()
    assert not leading(second)
    first.process.stop()
    # Sooner than the lease would expire.
    wait_until(lambda: leading(second), 10, "the second to lead")
    assert first.process.popen.returncode == 0
    kubectl.apply(profile_request("look", logdir))
    assert condition(wait_finished(kubectl, "look"), "Succeeded")["status"] == "True"


def test_a_leader_that_cannot_renew_ends_its_process(group, kubectl, proxy, tmp_path):
    operator = make(group, proxy.kubeconfig(tmp_path / "proxied"), kubectl, "cut")
    wait_until(lambda: operator.process.running() and "leading" in operator.process.output(), 15, "leadership")
    proxy.faults.add(lambda method, path: "/leases" in path, fp.refuse(503), times=10_000)
    # It must end before another operator could take over the lease.
    wait_until(lambda: not operator.process.running(), 11, "its end")
    assert operator.process.popen.returncode == 1


def test_a_frozen_leader_does_not_capture_twice(group, kubectl, plane, make_workers, logdir):
    worker, = make_workers(1, kubectl)
    first = make(group, plane.kubeconfig, kubectl, "first").wait_ready()
    wait_until(lambda: leading(first), 15, "the first to lead")
    second = make(group, plane.kubeconfig, kubectl, "second").wait_ready()
    first.process.signal(signal.SIGSTOP)
    kubectl.apply(profile_request("look", logdir))
    request = wait_finished(kubectl, "look", 60)
    assert condition(request, "Succeeded")["status"] == "True"
    first.process.signal(signal.SIGCONT)
    wait_until(lambda: not first.process.running(), 10, "the frozen leader's end")
    time.sleep(1)
    assert leading(second)
    assert worker.sidecar.output().count(" armed ") == 1
    assert kubectl.get("profilerequest", "look")["status"]["attempt"] == 1


def test_a_standby_sleeps(group, kubectl, plane):
    """A standby used to wake a hundred times a second to check whether it leads."""
    first = make(group, plane.kubeconfig, kubectl, "first").wait_ready()
    wait_until(lambda: leading(first), 15, "the first to lead")
    second = make(group, plane.kubeconfig, kubectl, "second").wait_ready()
    time.sleep(3)
    before, began = context_switches(second.process.pid), time.monotonic()
    time.sleep(10)
    assert (context_switches(second.process.pid) - before) / (time.monotonic() - began) < 50
    assert not leading(second)
