"""What the operator does when its connection to the API server fails."""

import time

import pytest

from tests.support import fault_proxy as fp
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import wait_until


@pytest.fixture
def behind_proxy(group, proxy, kubectl, tmp_path):
    config = {"watch": {"namespace": kubectl.namespace, "timeout": "5s"}}
    return Operator(group, proxy.kubeconfig(tmp_path / "proxied"), flags=["--no-leader-election"], config=config).start()


def cut(proxy):
    proxy.faults.cut_streams()


def cut_with_reset(proxy):
    proxy.faults.cut_streams(reset=True)


def expire_by_status(proxy):
    proxy.faults.add(fp.is_watch, fp.refuse(410, reason="Expired"))
    proxy.faults.cut_streams()


def expire_by_event(proxy):
    proxy.faults.add(fp.is_watch, fp.expired_event())
    proxy.faults.cut_streams()


def throttle(proxy):
    proxy.faults.add(fp.is_watch, fp.refuse(429, {"Retry-After": "1"}), times=2)
    proxy.faults.cut_streams()


def throttle_writes(proxy):
    proxy.faults.add(fp.is_write, fp.refuse(429, {"Retry-After": "1"}), times=3)


def fail_writes(proxy):
    proxy.faults.add(fp.is_write, fp.refuse(500, message="etcd is away"), times=4)


def reset_writes(proxy):
    proxy.faults.add(fp.is_write, fp.reset(), times=3)


def fall_silent(proxy):
    proxy.faults.add(fp.is_watch, fp.silence(8))
    proxy.faults.cut_streams()


@pytest.mark.parametrize("fault", [cut, cut_with_reset, expire_by_status, expire_by_event, throttle, throttle_writes, fail_writes,
                                   reset_writes, fall_silent])
def test_no_request_is_lost(fault, kubectl, proxy, behind_proxy, make_workers, logdir):
    make_workers(1, kubectl)
    behind_proxy.wait_ready()
    wait_until(lambda: proxy.faults.streams, 10, "a watch")
    fault(proxy)
    kubectl.apply(profile_request("look", logdir))
    request = wait_finished(kubectl, "look", 60)
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert len(list(logdir.rglob("*.xplane.pb"))) == 1, "exactly one capture"


def test_no_object_is_lost_in_a_storm(kubectl, proxy, behind_proxy):
    """Sixty objects created, a third deleted again, while every watch is cut, reset or expired."""
    behind_proxy.wait_ready()
    storm = [cut, cut_with_reset, expire_by_event, expire_by_status]
    for i in range(12):
        # Requests that the first reconcile refuses: they need no workers, and only an object that was seen gets its condition.
        kubectl.apply(*[profile_request(f"odd-{i}-{j}", "gs://bu cket/x") for j in range(5)])
        storm[i % len(storm)](proxy)
        if i % 3 == 2:
            kubectl.run("delete", "profilerequest", *[f"odd-{i}-{j}" for j in range(5)], "--wait=false")
    proxy.faults.clear()

    def settled():
        items = kubectl.get("profilerequests")["items"]
        return len(items) == 40 and all(condition(item, "Failed")["reason"] == "InvalidSpec" for item in items)

    wait_until(settled, 60, "every object's verdict, and the end of the deleted ones")


def test_expiry_never_makes_a_live_capture_look_deleted(kubectl, proxy, behind_proxy, make_workers, logdir):
    make_workers(1, kubectl)
    behind_proxy.wait_ready()
    kubectl.apply(profile_request("look", logdir, duration="4s"))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/look", "--timeout=20s")
    for _ in range(3):
        expire_by_event(proxy)
        time.sleep(0.5)
    request = wait_finished(kubectl, "look", 40)
    assert condition(request, "Succeeded")["status"] == "True", request["status"]
    assert request["status"]["attempt"] == 1


def test_a_refusing_server_is_not_hammered(proxy, behind_proxy):
    """The limit is 25 requests in 5 minutes; within 20 s the back-off allows at most 8."""
    proxy.faults.add(lambda *_: True, fp.refuse(503, message="down"), times=10_000)
    time.sleep(1)
    before = proxy.faults.count(lambda *_: True)
    time.sleep(20)
    assert proxy.faults.count(lambda *_: True) - before <= 8


def test_a_watch_that_ends_in_time_does_not_relist(kubectl, proxy, behind_proxy):
    behind_proxy.wait_ready()
    lists = proxy.faults.count(fp.is_list)
    wait_until(lambda: proxy.faults.count(fp.is_watch) >= 3, 30, "a third watch")
    assert proxy.faults.count(fp.is_list) == lists


def test_nothing_is_written_when_nothing_changes(kubectl, proxy, behind_proxy, make_workers, logdir):
    make_workers(1, kubectl)
    behind_proxy.wait_ready()
    kubectl.apply(profile_request("look", logdir))
    wait_finished(kubectl, "look")
    time.sleep(1)
    writes = proxy.faults.writes
    expire_by_event(proxy)  # A relist replays every object.
    time.sleep(4)
    assert proxy.faults.writes == writes
