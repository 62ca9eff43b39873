"""Captures into object storage, and runs copied out of it, with third-party servers, TLS, a private CA and real keys."""

import hashlib
import json
import posixpath
import select
import socket
import socketserver
import threading

import pytest

from tests.support.operator import WIDE_GUARD, condition, profile_request
from tests.support.processes import BIN
from tests.support.store_gate import GcsOverS3, fake_gcs_gate
from tests.support.stores import SERVERS, Versity, run_strobe, strobe_env
from tests.support.viewer import View


class Store:
    """A storage server, and the environment in which Strobe's programs reach it."""

    def __init__(self, server, env=None, url=None):
        self.server = server
        clean = strobe_env(server)
        if env is not None:
            clean = {k: v for k, v in clean.items() if k not in server.env} | env
        self.env = clean
        self.url = url or server.url

    def strobe(self, *arguments, check=True):
        result = run_strobe(BIN / "strobe", *arguments, env=self.env)
        assert not check or result.returncode == 0, result.stderr
        return result


@pytest.fixture(scope="module", params=[*SERVERS, "gs-over-versitygw"])
def store(request, session_group, tmp_path_factory):
    directory = tmp_path_factory.mktemp("store")
    if request.param == "gs-over-versitygw":
        server = Versity(session_group, directory).start()
        adapter = GcsOverS3(server)
        yield Store(server, adapter.env(), "gs://traces/logs")
        adapter.gate.stop()
        assert adapter.tokens == {"Bearer emulator"}
    elif request.param == "fake-gcs-server":
        server = SERVERS[request.param](session_group, directory).start()
        gate = fake_gcs_gate(server)
        yield Store(server, gate.env())
        gate.stop()
    else:
        yield Store(SERVERS[request.param](session_group, directory).start())


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_capture_list_read_back_and_delete(store, make_workers, tmp_path):
    workers = make_workers(2, sidecar_env=store.env)
    captured = store.strobe("capture", "--insecure-plaintext", "--workers", ",".join(w.address for w in workers), "--logdir", store.url,
                            "--duration", "300ms", "--guard", WIDE_GUARD, "--run", "look", "--quiet", "--output", "json")
    manifest = json.loads(captured.stdout)
    assert manifest["result"] == "Succeeded" and "?" not in manifest["logdir"]

    prefix = "logs/plugins/profile/look/"
    names = sorted(w["name"] for w in manifest["workers"])
    assert sorted(store.server.objects()) == sorted([f"{prefix}{n}.xplane.pb" for n in names] + [f"{prefix}strobe.capture", f"{prefix}strobe.json", f"{prefix}report.json"])
    for worker in manifest["workers"]:
        data = store.server.read(f"{prefix}{worker['name']}.xplane.pb")
        assert sha256(data) == worker["sha256"] and len(data) == int(worker["bytes"])

    listed = json.loads(store.strobe("ls", store.url, "--output", "json").stdout)
    assert [(r["run"], r["result"], r["ok"], r["workers"]) for r in listed] == [("look", "Succeeded", 2, 2)]
    assert listed[0]["bytes"] == sum(int(w["bytes"]) for w in manifest["workers"]) and "skewNs" in listed[0]
    table = store.strobe("ls", store.url).stdout
    assert "look" in table and "2/2" in table
    one = store.strobe("ls", listed[0]["url"]).stdout
    assert all(name in one for name in names) and "strobe.json" in one

    # XProf reads the run that was copied back.
    store.strobe("cp", listed[0]["url"], tmp_path / "back")
    back = tmp_path / "back/plugins/profile/look"
    assert {f.name: sha256(f.read_bytes()) for f in back.glob("*.xplane.pb")} == {f"{w['name']}.xplane.pb": w["sha256"] for w in manifest["workers"]}
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([str(f) for f in back.glob("*.xplane.pb")], "overview_page", {})
    assert b"cols" in data

    assert store.strobe("rm", listed[0]["url"], "--yes").stdout.endswith("5 objects\n")
    assert store.server.objects() == {}
    assert "no runs" in store.strobe("ls", store.url).stderr


def test_large_objects_and_copies_between_stores(store, tmp_path):
    if store.server.name == "fake-gcs-server":
        pytest.skip("it has no XML multipart upload; gs-over-versitygw has")
    run = tmp_path / "src/plugins/profile/big"
    run.mkdir(parents=True)
    big = bytes(range(256)) * (4096 * 20) + b"end"  # 20 MiB and a little: three parts.
    (run / "w0.xplane.pb").write_bytes(big)
    (run / "empty.xplane.pb").write_bytes(b"")
    store.strobe("cp", tmp_path / "src", store.url, "--all")
    assert store.server.read("logs/plugins/profile/big/w0.xplane.pb") == big
    store.strobe("cp", tmp_path / "src", store.url, "--all")  # A repeated copy succeeds.
    (run / "w0.xplane.pb").write_bytes(big[:-1] + b"!")
    refused = store.strobe("cp", tmp_path / "src", store.url, "--all", check=False)  # A copy of different bytes is refused.
    assert refused.returncode == 1 and "AlreadyExists" in refused.stderr
    assert store.server.read("logs/plugins/profile/big/w0.xplane.pb") == big

    # From store to store, and back to disk.
    store.strobe("cp", f"{store.url}/plugins/profile/big", store.url.replace("/logs", "/copy"))
    store.strobe("cp", f"{store.url.replace('/logs', '/copy')}/plugins/profile/big", tmp_path / "back")
    assert (tmp_path / "back/plugins/profile/big/w0.xplane.pb").read_bytes() == big
    assert (tmp_path / "back/plugins/profile/big/empty.xplane.pb").read_bytes() == b""
    for logdir in (store.url, store.url.replace("/logs", "/copy")):
        store.strobe("rm", logdir, "--all", "--yes")
    assert store.server.objects() == {}
    if hasattr(store.server, "open_uploads"):
        assert store.server.open_uploads() == []


# What consoles, mounted buckets and careless tools write beside the files of a run. The run's own folder is the first.
ODD_NAMES = ["", "sub/", "/w9.xplane.pb", "//strobe.json", "a//w9.xplane.pb", "a/b/", "./w9.xplane.pb", "a/../w9.xplane.pb",
             "w0.xplane.pb/", "a\tb.xplane.pb", ".xplane.pb/"]
# A file below a file, which only a bucket can hold.
BELOW_A_FILE = "w0.xplane.pb/x"
RUNS = "logs/plugins/profile/"


def write_if_it_can(server, key, data=b""):
    """A server that keeps its objects as files of a disk refuses most of these keys, or makes another one of them."""
    if "versitygw" in server.name and posixpath.normpath(key) != key.rstrip("/"):
        return
    try:
        server.write(key, data)
    except Exception as error:  # Each client has errors of its own.
        print(f"{server.name} refuses {key!r}: {error}")


def test_keys_that_are_no_files_change_nothing_for_the_others(store, session_group, tmp_path):
    """An empty object RUN/ ended the viewer and ls, broke cp, stayed after rm and was the newest run; a key with // failed each listing."""
    (tmp_path / "t.json").write_text(json.dumps([{"ph": "X", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]))
    local = tmp_path / "local/plugins/profile/2026_a"
    local.mkdir(parents=True)
    store.strobe("convert", tmp_path / "t.json", "--to", "xplane", "-o", local / "w0.xplane.pb", "--quiet")
    (local / "notes.txt").write_text("notes")
    store.strobe("cp", tmp_path / "local", store.url, "--all", "--quiet")
    run = f"{store.url}/plugins/profile/2026_a"

    def shown(name):
        view = View(session_group, f"odd-{name}-{store.server.port}", store.url, "--cache", "none", env=store.env)
        runs, manifest = view.json("/api/runs")["runs"], view.json("/api/manifest?run=2026_a")
        workers = [worker["name"] for worker in view.loaded()["workers"]]
        view.process.stop()
        copied = store.strobe("cp", store.url, tmp_path / name, "--all", "--quiet", check=False)
        listed, = json.loads(store.strobe("ls", store.url, "--output", "json").stdout)
        rows = [row.split() for row in store.strobe("ls", run).stdout.splitlines()]
        return copied, {
            "runs": runs,
            "workers": workers,
            "files": {f["name"]: f["bytes"] for f in manifest["files"] if f["name"] != BELOW_A_FILE},
            "copies": {str(f.relative_to(tmp_path / name)): f.read_bytes() for f in (tmp_path / name).rglob("*") if f.is_file()},
            "listed": {**listed, "bytes": 0},
            "rows": [row for row in rows if row[:1] != [BELOW_A_FILE]],
            "inspected": json.loads(store.strobe("inspect", store.url, "--output", "json").stdout),
        }

    copied, before = shown("before")
    assert copied.returncode == 0 and sorted(before["files"]) == ["notes.txt", "w0.xplane.pb"] and before["runs"] == ["2026_a"]
    assert sorted(before["copies"]) == ["plugins/profile/2026_a/notes.txt", "plugins/profile/2026_a/w0.xplane.pb"]
    for odd in ODD_NAMES:
        for name in ("2026_a", "2027_console"):
            write_if_it_can(store.server, f"{RUNS}{name}/{odd}")
    write_if_it_can(store.server, f"{RUNS}2026_a/{BELOW_A_FILE}", b"x")
    written = store.server.objects()
    print(store.server.name, sorted(written))
    copied, after = shown("after")
    assert after == before
    # That the target cannot hold a file is told, and keeps nothing else.
    below = f"{RUNS}2026_a/{BELOW_A_FILE}" in written
    assert (copied.returncode, f"{BELOW_A_FILE} is not copied" in copied.stderr) == (int(below), below), copied.stderr

    for name in ("2026_a", "2027_console"):
        gone = store.strobe("rm", f"{store.url}/plugins/profile/{name}", "--yes", check=False)
        left = [key for key in store.server.objects() if key.startswith(f"{RUNS}{name}/")]
        # No request can name these, and that is told.
        assert all("/../" in key or "/./" in key or "\t" in key for key in left), (left, gone.stderr)
        if any(key.startswith(f"{RUNS}{name}/") for key in written):
            assert gone.returncode == (1 if left else 0), (left, gone.stdout, gone.stderr)
        assert not left or "no request can name" in gone.stderr


@pytest.fixture(scope="module")
def versity(session_group, tmp_path_factory):
    return Store(Versity(session_group, tmp_path_factory.mktemp("versity")).start())


def test_damage_is_noticed(versity, make_workers, tmp_path):
    worker, = make_workers(1, sidecar_env=versity.env)
    for run in ("hurt", "good"):
        versity.strobe("capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", versity.url, "--run", run, "--quiet")
    key = next(k for k in versity.server.objects() if k.endswith(".xplane.pb") and "/hurt/" in k)
    versity.server.write(key, versity.server.read(key)[:-1] + b"?")
    hurt = versity.strobe("cp", f"{versity.url}/plugins/profile/hurt", tmp_path / "back", check=False)
    assert hurt.returncode == 1 and "DataLoss" in hurt.stderr and "checksum" in hurt.stderr
    every = versity.strobe("cp", versity.url, tmp_path / "every", "--all", check=False)
    assert every.returncode == 1 and "checksum" in every.stderr
    assert (tmp_path / "every/plugins/profile/good/strobe.json").is_file(), "a damaged run does not keep the others from being copied"
    versity.strobe("rm", versity.url, "--all", "--yes")


def test_a_request_writes_to_the_bucket_and_deletion_empties_it(versity, kubectl, operator, make_workers):
    make_workers(2, kubectl, sidecar_env=versity.env)
    kubectl.apply(profile_request("cloud", versity.url, run="cloud", reclaimPolicy="Delete"))
    kubectl.run("wait", "profreq/cloud", "--for=condition=Succeeded", "--timeout=60s")
    request = kubectl.get("profreq", "cloud")
    assert condition(request, "Succeeded")["status"] == "True"
    assert request["status"]["run"] == f"{versity.url}/plugins/profile/cloud"
    assert len(versity.server.objects()) == 5
    # As a console does when somebody looks at the run.
    versity.server.write(f"{RUNS}cloud/", b"")
    kubectl.run("delete", "profreq", "cloud", "--timeout=30s")
    assert [key for key in versity.server.objects() if not key.endswith("/")] == []
    versity.strobe("rm", f"{versity.url}/plugins/profile/cloud", "--yes", check=False)
    assert versity.server.objects() == {}


def test_a_request_says_what_the_store_said(versity, kubectl, operator, make_workers):
    make_workers(1, kubectl, sidecar_env=versity.env)
    kubectl.apply(profile_request("nowhere", "s3://no-such-bucket/logs", attempts=1))
    kubectl.run("wait", "profreq/nowhere", "--for=condition=Failed", "--timeout=60s")
    outcome = kubectl.get("profreq", "nowhere")["status"]["outcomes"][0]
    assert outcome["cause"] == "UploadFailed" and "NoSuchBucket" in outcome["message"] and "create the bucket" in outcome["message"]


def test_whoever_asks_cannot_send_the_pods_identity_elsewhere(versity, make_workers):
    worker, = make_workers(1, sidecar_env=versity.env)
    stolen = versity.strobe("capture", "--insecure-plaintext", "--workers", worker.address, "--attempts", 1, "--quiet",
                            "--logdir", f"{versity.url}?endpoint=http://127.0.0.1:1", check=False)
    assert stolen.returncode == 1 and "endpoint is not accepted from a logdir's URL" in stolen.stdout


def test_errors_are_one_sentence(versity, tmp_path):
    def complaint(*arguments, env=None):
        result = run_strobe(BIN / "strobe", *arguments, env={**versity.env, **(env or {})})
        assert result.returncode in (1, 2), result.stdout
        assert "test-secret" not in result.stderr
        return result.stderr

    assert "SignatureDoesNotMatch" in complaint("ls", versity.url, env={"AWS_SECRET_ACCESS_KEY": "test-secret-wrong"})
    assert "create the bucket" in complaint("ls", "s3://no-such-bucket/logs")
    assert "there is no run" in complaint("ls", f"{versity.url}/plugins/profile/none")
    assert "no run is named" in complaint("cp", versity.url, tmp_path)
    assert "pass --yes" in complaint("rm", versity.url, "--run", "x")
    assert "there is no option" in complaint("ls", "s3://b/x?colour=red")
    assert "cannot read the CA bundle" in complaint("ls", versity.url + "?ca_bundle=/none.pem")
    config = tmp_path / "storage.yaml"
    config.write_text("s3:\n  endpont: https://x\n")
    assert f"{config}:2:3: s3.endpont" in complaint("ls", versity.url, "--storage-config", config)


def test_the_configuration_file_is_enough(versity, tmp_path):
    """A file replaces the settings in the environment, and the URL overrides the file."""
    server = versity.server
    config = tmp_path / "storage.yaml"
    config.write_text(json.dumps({"s3": {"endpoint": "https://127.0.0.1:1", "region": "us-east-1", "path_style": "true", "ca_bundle": str(server.ca),
                                         "aws_access_key_id": server.key, "aws_secret_access_key": server.secret}}))
    env = {k: v for k, v in versity.env.items() if k not in server.env}
    url = f"{versity.url}?endpoint={server.endpoint}"
    result = run_strobe(BIN / "strobe", "ls", url, "--storage-config", config, env=env)
    assert result.returncode == 0, result.stderr


def test_through_a_proxy(versity):
    """A proxy that supports CONNECT, as in company networks, and is the only way to the server."""
    seen = []

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self):
            seen.append(self.rfile.readline().decode().split()[:2])
            while self.rfile.readline().strip():
                pass
            with socket.create_connection(("127.0.0.1", versity.server.port)) as upstream:
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                ends = {self.connection: upstream, upstream: self.connection}
                while True:
                    for ready in select.select(list(ends), [], [])[0]:
                        data = ready.recv(65536)
                        if not data:
                            return
                        ends[ready].sendall(data)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        # Nothing listens on port 1; the proxy connects to the real server instead.
        url = f"{versity.url}?endpoint=https://localhost:1&proxy=http://127.0.0.1:{proxy.server_address[1]}"
        result = versity.strobe("ls", url, check=False)
        proxy.shutdown()
    assert result.returncode == 0, result.stderr
    assert seen[0] == ["CONNECT", "localhost:1"]


def test_ls_is_quick_and_short_on_many_runs(versity, tmp_path):
    run = tmp_path / "src/plugins/profile"
    for i in range(250):
        one = run / f"2026_11_21_08_{i // 60:02}_{i % 60:02}_r"
        one.mkdir(parents=True)
        (one / "strobe.json").write_text(json.dumps({"format": 1, "result": "Succeeded", "workers": [{"name": "w", "outcome": "Ok", "bytes": "10"}]}))
    versity.strobe("cp", tmp_path / "src", versity.url, "--all", "--quiet")
    newest = versity.strobe("ls", versity.url)
    assert len(newest.stdout.splitlines()) == 101 and "150 older runs" in newest.stderr
    assert newest.stdout.splitlines()[1].startswith("2026_11_21_08_04_09_r")
    everything = versity.strobe("ls", versity.url, "--all", "--output", "json")
    assert len(json.loads(everything.stdout)) == 250
    assert len(versity.strobe("ls", versity.url, "--objects").stdout.splitlines()) == 250
    objects = json.loads(versity.strobe("ls", versity.url, "--objects", "--output", "json").stdout)
    assert len(objects) == 250 and objects[0].keys() == {"key", "bytes"}
    would = versity.strobe("rm", versity.url, "--older-than", "1h", "--dry-run").stdout
    assert would.count("would delete") in (0, 250)  # Depends on today's date.
    versity.strobe("rm", versity.url, "--all", "--yes")
