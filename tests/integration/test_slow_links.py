"""Captures over slow and lossy links, and of sidecars that are stopped for a moment."""

import json
import signal
import subprocess
import threading
import time

import pytest

from tests.support.operator import WIDE_GUARD
from tests.support.processes import BIN
from tests.support.tcp_proxy import TcpProxy


def capture(address, logdir, *flags):
    began = time.monotonic()
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", address, "--logdir", logdir, "--duration", "300ms",
                           "--attempts", "1", "--guard", WIDE_GUARD, "--quiet", "--output", "json", *flags], capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), time.monotonic() - began


@pytest.mark.parametrize("milliseconds, loss", [(0, 0), (50, 0), (120, 0), (300, 0), (1000, 0), (50, 0.05), (300, 0.05)])
def test_a_capture_over_a_slow_link(make_workers, logdir, milliseconds, loss):
    worker, = make_workers(1)
    proxy = TcpProxy(worker.port, seed=milliseconds)
    proxy.mode, proxy.round_trip, proxy.loss = "link", milliseconds / 1000, loss
    try:
        manifest, took = capture(f"127.0.0.1:{proxy.port}", logdir)
    finally:
        proxy.stop()
    (recorded,) = manifest["workers"]
    assert recorded["outcome"] == "Ok" and recorded["coversWindow"], recorded
    error = int(recorded["clockErrorNs"]) / 1e6
    assert milliseconds / 2 <= error <= milliseconds / 2 + 30 or loss, "half of a round trip is what can be known"
    assert took < 12 + 12 * milliseconds / 1000, took


def test_workers_on_links_of_different_speed_start_together(make_workers, logdir):
    workers = make_workers(2)
    proxies = [TcpProxy(worker.port) for worker in workers]
    for proxy, round_trip in zip(proxies, (0.0, 0.3)):
        proxy.mode, proxy.round_trip = "link", round_trip
    try:
        manifest, _ = capture(",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies), logdir)
    finally:
        for proxy in proxies:
            proxy.stop()
    assert [worker["outcome"] for worker in manifest["workers"]] == ["Ok", "Ok"], manifest
    assert int(manifest["skewErrorNs"]) >= 150e6, "the uncertainty is told"
    assert manifest["synchronized"]


@pytest.mark.parametrize("seconds", [0.1, 0.5, 2.0])
def test_a_sidecar_that_is_stopped_for_a_moment_is_not_unreachable(make_workers, logdir, seconds):
    worker, = make_workers(1)
    worker.sidecar.popen.send_signal(signal.SIGSTOP)
    threading.Timer(seconds, worker.sidecar.popen.send_signal, [signal.SIGCONT]).start()
    manifest, _ = capture(worker.address, logdir)
    assert manifest["workers"][0]["outcome"] == "Ok", manifest


def test_a_machine_that_is_gone_is_told_within_ten_seconds(make_workers, logdir):
    worker, = make_workers(1)
    proxy = TcpProxy(worker.port)
    proxy.mode = "drop"
    try:
        manifest, took = capture(f"127.0.0.1:{proxy.port}", logdir)
    finally:
        proxy.stop()
    assert manifest["workers"][0]["outcome"] == "Unreachable" and took < 12, manifest
