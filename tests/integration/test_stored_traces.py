"""Traces in object storage, which are read by ranges where they are needed: what is read, and what the viewer answers when
the store fails in the middle. The stores are real; a gate in front of them injects the faults."""

import gzip
import itertools
import json
import signal
import subprocess
import threading
import time
import urllib.error

import pytest

from tests.support.processes import BIN, wait_until
from tests.support.store_gate import StoreGate
from tests.support.stores import SERVERS, Versity, strobe_env
from tests.support.viewer import View

EVENTS = 1_024_000  # Makes a trace of 28 MB.
KEY = "logs/plugins/profile/run/big.xplane.pb"
LARGE_KEY = "large/plugins/profile/run/big.xplane.pb"
EVENT = "/api/event?row={row}&track=1&ordinal={ordinal}"
TILES = "/api/tiles?rows=0-20&level=30&slots=512"


def error(code):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>words of the store</Message></Error>"


def is_read(method, path):
    return method == "GET" and path.split("?")[0].endswith("big.xplane.pb")


def make_trace(path, events):
    subprocess.run([BIN / "make_xspace", str(events), path], check=True)
    return path


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make_trace(tmp_path_factory.mktemp("trace") / "big.xplane.pb", EVENTS)


@pytest.fixture(scope="module")
def truth(session_group, trace, tmp_path_factory):
    """The viewer of the same trace as a local file."""
    view = View(session_group, "local", trace, "--cache", tmp_path_factory.mktemp("local"))
    view.loaded()
    return view


@pytest.fixture(scope="module")
def server(session_group, tmp_path_factory):
    return Versity(session_group, tmp_path_factory.mktemp("stored")).start()


@pytest.fixture
def gate(server, trace):
    server.write(KEY, trace.read_bytes())
    gate = StoreGate(server)
    yield gate
    gate.stop()


_numbers = itertools.count()


def open_view(group, gate, cache="none"):
    return View(group, f"view-{next(_numbers)}", f"s3://{gate.server.bucket}/logs", "--cache", cache, env={**strobe_env(gate.server), **gate.env()})


def same_as(view, truth, row=3, ordinal=2000):
    """Is an event's answer that of the local file, besides the names of run and place?"""
    mine, theirs = (v.json(EVENT.format(row=row, ordinal=ordinal)) for v in (view, truth))
    return {**mine, "run": ""} == {**theirs, "run": ""}


def test_a_run_is_read_by_ranges_and_only_where_it_is_needed(group, gate, truth, tmp_path, trace):
    view = open_view(group, gate, tmp_path / "cache")
    run = view.loaded()
    assert run["events"] == truth.loaded()["events"]
    blocks = -(-trace.stat().st_size // (1 << 20))
    assert gate.count(is_read) <= blocks + 2, "each megabyte is read once"
    for row, ordinal in ((0, 5), (20, 2000), (40, 10_000), (63, 500)):
        assert same_as(view, truth, row, ordinal)
    assert view.get(TILES) == truth.get(TILES)
    for question in ("/api/find?q=bytes_accessed&in=all", "/api/steps"):
        assert view.json(question) == truth.json(question)
    view.process.stop()
    # The index is found again; of the trace only the planes are read.
    gate.clear()
    again = open_view(group, gate, tmp_path / "cache")
    assert again.loaded()["events"] == run["events"]
    assert again.get(TILES) == truth.get(TILES)
    assert gate.count(is_read) <= blocks + 2
    assert same_as(again, truth, 40, 10_000)


def test_reads_that_are_cut_off_are_tried_again(group, gate, truth):
    gate.add(is_read, times=3, cut_answer_after=300_000)
    gate.add(is_read, times=2, lose_answer=True)
    gate.add(is_read, times=2, answer=(503, error("SlowDown")))
    view = open_view(group, gate)
    assert view.loaded()["events"] == truth.loaded()["events"]
    assert same_as(view, truth) and same_as(view, truth, 60, 10_000)


@pytest.fixture(scope="module")
def shown(session_group, server, tmp_path_factory):
    """A gate, and a viewer that shows a trace which is larger than what is kept in memory."""
    server.write(LARGE_KEY, make_trace(tmp_path_factory.mktemp("large") / "t", 4_096_000).read_bytes())
    gate = StoreGate(server)
    view = View(session_group, "shown", f"s3://{server.bucket}/large", "--cache", "none", env={**strobe_env(server), **gate.env()})
    wait_until(lambda: not view.json("/api/run").get("loading"), 120, "the run")
    yield gate, view
    gate.stop()


def ask_everywhere(view):
    """Asks for an event of each row, which reads most of the trace. Returns the first refusal."""
    for row in range(64):
        try:
            view.get(EVENT.format(row=row, ordinal=3000) + "&run=run")  # Without a run, the store is asked which is the newest.
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
    raise AssertionError("nothing was refused")


def refusal_of(view, question):
    """Waits while the run is being read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            view.get(question)
            time.sleep(0.05)
        except urllib.error.HTTPError as refused:
            if refused.code != 503:
                return refused.code, refused.read().decode()
    raise AssertionError("it was not refused")


def test_a_slow_store_delays_only_those_who_need_the_trace(shown):
    gate, view = shown
    gate.clear()
    gate.add(is_read, times=10_000, stall=3)
    waiting = threading.Thread(target=lambda: [view.get(EVENT.format(row=row, ordinal=3000)) for row in range(64)])
    waiting.start()
    wait_until(lambda: gate.count(is_read) > 0, 20, "a read")
    longest = 0
    for _ in range(30):
        began = time.monotonic()
        view.get(TILES)
        longest = max(longest, time.monotonic() - began)
    assert longest < 1.5 and waiting.is_alive(), "tiles come from the index"
    gate.clear()
    waiting.join(120)
    assert not waiting.is_alive()


def test_a_store_that_hangs_does_not_keep_the_viewer_from_ending(group, gate):
    gate.add(is_read, times=10_000, stall=120)
    view = open_view(group, gate)
    wait_until(lambda: gate.count(is_read) > 0, 20, "a read")
    began = time.monotonic()
    view.process.signal(signal.SIGTERM)
    view.process.popen.wait(20)
    assert time.monotonic() - began < 5 and view.process.popen.returncode == 0


def test_a_store_that_denies_while_a_run_is_read_is_told_and_asked_again(group, gate, truth):
    seen = itertools.count()
    gate.add(lambda method, path: is_read(method, path) and next(seen) > 10, times=100_000, answer=(403, error("AccessDenied")))
    view = open_view(group, gate)
    code, body = refusal_of(view, "/api/run")
    assert code == 500 and "AccessDenied: words of the store" in body and KEY in body, body
    gate.clear()
    assert view.loaded()["events"] == truth.loaded()["events"]
    assert same_as(view, truth)


def test_a_store_that_denies_while_a_run_is_shown_is_told(shown):
    gate, view = shown
    gate.add(is_read, times=100_000, answer=(403, error("AccessDenied")))
    code, body = ask_everywhere(view)
    gate.clear()
    assert code == 500 and "AccessDenied: words of the store" in body and LARGE_KEY in body, body
    assert view.process.running()


@pytest.mark.parametrize("name", [*sorted(set(SERVERS) - {"fake-gcs-server"}), "moto-heedless"])  # fake-gcs-server tells no ETags.
def test_an_object_that_is_replaced_while_it_is_read_is_told(group, trace, tmp_path, name):
    """Without the check, an answer would be made from both traces."""
    server = SERVERS[name.removesuffix("-heedless")](group, tmp_path / "store").start()
    front = StoreGate(server)
    server.write(KEY, trace.read_bytes())
    other, reads = make_trace(tmp_path / "other", EVENTS + 64_000).read_bytes(), itertools.count()

    def replacing(method, path, headers, body):
        if is_read(method, path) and next(reads) == 5:
            server.write(KEY, other)
        if name.endswith("-heedless"):  # As a store that ignores the condition.
            headers = {k: v for k, v in headers.items() if k.lower() != "if-match"}
        return method, path, headers, body

    front.translate = replacing
    inspect = [BIN / "strobe", "inspect", server.url, "--top", "1"]
    env = {**strobe_env(server), **front.env()}
    done = subprocess.run(inspect, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stdout == "" and "big.xplane.pb was replaced while it was read" in done.stderr, (done.stdout[-500:], done.stderr)
    assert subprocess.run(inspect, env=env, capture_output=True, text=True, timeout=120).returncode == 0
    front.stop()


def test_an_object_that_is_deleted_while_it_is_shown_is_told(shown, server):
    gate, view = shown
    wait_until(lambda: not view.json("/api/run?run=run").get("loading"), 120, "the run")  # Read anew after the test before.
    server.client.delete_object(Bucket=server.bucket, Key=LARGE_KEY)
    code, body = ask_everywhere(view)
    assert code == 500 and "was deleted while it was read" in body, body


def test_commands_read_stored_traces_by_ranges_too(gate, trace, tmp_path):
    env, place = {**strobe_env(gate.server), **gate.env()}, f"s3://{gate.server.bucket}/logs"
    for target in ("index", "xplane", "perfetto"):
        stored, local = tmp_path / f"stored.{target}", tmp_path / f"local.{target}"
        for source, out in ((place, stored), (trace, local)):
            done = subprocess.run([BIN / "strobe", "convert", source, "--to", target, "-o", out], env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
        assert stored.read_bytes() == local.read_bytes(), target
    gate.add(is_read, times=10_000, answer=(403, error("AccessDenied")))
    done = subprocess.run([BIN / "strobe", "inspect", place], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "PermissionDenied" in done.stderr and "words of the store" in done.stderr, done.stderr


def test_compressed_json_of_a_store_is_converted_while_it_is_read(gate, server, tmp_path, group):
    events = [{"ph": "X", "cat": "cpu_op", "name": f"op {i % 100}", "pid": 1, "tid": 1, "ts": i * 10, "dur": 5, "args": {"i": str(i) * 20}} for i in range(40_000)]
    server.write("json/plugins/profile/run/rank0.pt.trace.json.gz", gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode(), 1))
    view = View(group, "json", f"s3://{server.bucket}/json", "--cache", "none", env={**strobe_env(server), **gate.env()})
    assert view.loaded()["events"] == 40_000
    gate.add(lambda method, path: method == "GET" and ".json.gz" in path, times=10_000, answer=(403, error("AccessDenied")))
    denied = View(group, "denied", f"s3://{server.bucket}/json", "--cache", "none", env={**strobe_env(server), **gate.env()})
    code, body = refusal_of(denied, "/api/run")
    assert code == 500 and "words of the store" in body, body
