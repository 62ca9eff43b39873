"""strobe serve: who sees which runs, by the RBAC of a real API server, behind a real proxy with logins."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tests.support.browser import in_browser
from tests.support.control_plane import Kubectl
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, high_water, wait_until
from tests.support.rights import await_bindings, grant, user_named
from tests.support.serving import Nginx, Proxies, Serve, serve_config
from tests.support.tls import issue
from tests.support.traces import write_run

ALPHA, BRAVO = "2026_11_19_10_00_00_alpha", "2026_11_20_10_00_00_bravo"
# Text that only runs of team-b, or its namespace, hold.
HIDDEN = (b"bravo", b"team-b", b"secretworker")


@pytest.fixture(scope="module")
def logdirs(tmp_path_factory, protos):
    places = {team: tmp_path_factory.mktemp(team) for team in ("team-a", "team-b")}
    write_run(places["team-a"], ALPHA, **{"worker-0": {}})
    secret = write_run(places["team-b"], BRAVO, secretworker={})
    # Everybody who can write to a logdir can write this.
    for team, other in (("team-a", "team-b"), ("team-b", "team-a")):
        run = places[team] / "plugins/profile" / (ALPHA if team == "team-a" else BRAVO)
        (run / "strobe.json").write_text(json.dumps({"namespace": other, "run": run.name}))
    # A run that is a link to another team's, and one whose trace is.
    (places["team-a"] / "plugins/profile/2026_11_21_linked").symlink_to(secret)
    planted = places["team-a"] / "plugins/profile/2026_11_22_planted"
    planted.mkdir()
    (planted / "w.xplane.pb").symlink_to(secret / "secretworker.xplane.pb")
    return [{"url": str(places[team]), "namespace": team} for team in places]


@pytest.fixture(scope="module")
def kubeconfig(plane, tmp_path_factory):
    """A kubeconfig whose user may only ask what others may do, as in the chart."""
    issue(plane.dir, "strobe-serve", "/CN=strobe-serve", server=False)
    path = tmp_path_factory.mktemp("kube") / "kubeconfig"
    plane.write_kubeconfig(path, "strobe-serve")
    api, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    admin = Kubectl(plane.kubeconfig)
    right = (
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "serve"},
         "rules": [{"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}]},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "serve"},
         "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "serve"},
         "subjects": [user_named("strobe-serve")]})
    admin.apply(*right, *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}} for team in ("team-a", "team-b")))
    await_bindings(admin, *right)
    for team, subject in (("team-a", user_named("jane")), ("team-b", {"apiGroup": group, "kind": "Group", "name": "b-team"})):
        grant(Kubectl(plane.kubeconfig, team), "runs", [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests"], "verbs": ["get"]}], subject)
    return path


@pytest.fixture(scope="module")
def serve(session_group, logdirs, kubeconfig, tmp_path_factory):
    directory = tmp_path_factory.mktemp("serve")
    serve = Serve(session_group, "serve", directory, serve_config(logdirs, hosts=["strobe.example.com"], cache={"directory": str(directory / "cache")}),
                  kubeconfig)
    wait_until(lambda: f"team-a/{ALPHA}" in serve.runs("jane"), 20, "jane sees her runs")
    wait_until(lambda: serve.runs("bob", "b-team") == [f"team-b/{BRAVO}"], 20, "bob sees his runs")
    return serve


def routes():
    """Every path that the viewer's source answers: its data, XProf's, and the files of its page."""
    source = "".join(path.read_text() for path in sorted((ROOT / "viewer").rglob("*.cc")))
    data = sorted(set(re.findall(r'"(/(?:api|data)/[^"]+)"', source)))
    files = ["/", *(f"/{path.name}" for path in sorted((ROOT / "viewer/web").glob("*/*")) if path.suffix != ".md")]
    assert "/api/tiles" in data and "/data/plugin/profile/data" in data and len(data) > 10 and len(files) > 20
    return data, files


DATA, FILES = routes()
QUERY = "q=k&in=all&row=0&track=0&ordinal=0&rows=0-1&begin=0&end=1000000&tracks=0:0-0&tag=trace_viewer@&host=secretworker&level=0&limit=10&from=0"


def loaded(serve, run, user, groups=None):
    def description():
        status, _, body = serve.ask(f"/api/run?run={run}", user, groups)
        assert status == 200, body
        return None if b'"loading"' in body else json.loads(body)

    return wait_until(description, 30, "the run is read")


def test_each_user_sees_the_runs_of_his_namespaces(serve):
    jane = serve.runs("jane")
    assert f"team-a/{ALPHA}" in jane and not any("bravo" in run for run in jane)
    assert serve.runs("bob", "ops, b-team") == [f"team-b/{BRAVO}"]
    assert serve.runs("jane", "b-team") == [f"team-b/{BRAVO}", f"team-a/{ALPHA}"], "links are no runs"
    assert serve.runs("stranger") == [] == serve.runs("stranger", "system:masters,system:nodes") == serve.runs("bob")
    assert [w["name"] for w in loaded(serve, f"team-b/{BRAVO}", "bob", "b-team")["workers"]] == ["secretworker"]
    assert [w["name"] for w in loaded(serve, f"team-a/{ALPHA}", "jane")["workers"]] == ["worker-0"]


def test_no_route_is_open(serve):
    for path in [*DATA, *FILES, "/metrics", "/nothing", "/api", "//api/runs", "/api/runs/", "/%61pi/runs"]:
        status, headers, body = serve.ask(f"{path}?{QUERY}")
        assert status == 401 and b"X-Forwarded-User" in body, path
        assert "nosniff" in headers["X-Content-Type-Options"]
    assert serve.ask("/healthz")[0] == 200


def test_a_hidden_run_is_like_one_that_does_not_exist(serve):
    loaded(serve, f"team-b/{BRAVO}", "bob", "b-team")  # It is open, and nobody else notices.
    nothing = BRAVO.replace("bravo", "zulus")
    for path in DATA:
        for name in (f"team-b/{nothing}", f"team-z/{BRAVO}", f"team-z/{nothing}"):
            hidden = serve.ask(f"{path}?run=team-b/{BRAVO}&{QUERY}", "jane")
            other = serve.ask(f"{path}?run={name}&{QUERY}", "jane")
            assert hidden[0] == other[0] and hidden[1] == other[1], path
            assert hidden[2].replace(f"team-b/{BRAVO}".encode(), b"NAME") == other[2].replace(name.encode(), b"NAME"), path
            if path not in ("/api/runs", "/api/catalog", "/data/plugin/profile/runs", "/data/plugin/profile/run_tools"):
                assert hidden[0] == 404, path


def test_no_byte_tells_of_other_runs(serve):
    loaded(serve, f"team-a/{ALPHA}", "jane")
    for user in ("jane", "stranger", None):
        for path in [*DATA, *FILES, "/nothing"]:
            for query in (QUERY.replace("secretworker", "x"), f"run=team-a/{ALPHA}&{QUERY.replace('secretworker', 'x')}"):
                _, headers, body = serve.ask(f"{path}?{query}", user)
                seen = body + json.dumps(headers).encode()
                assert not [word for word in HIDDEN if word in seen], (user, path)
    for run in ("2026_11_21_linked", "2026_11_22_planted"):  # Links into the other team's logdir.
        for path in ("/api/run", "/api/tiles", "/api/find"):
            body = wait_until(lambda: (lambda b: None if b'"loading"' in b else b)(serve.ask(f"{path}?run=team-a/{run}&{QUERY}", "jane")[2]),  # noqa: B023
                              20, "the run is refused")
            assert b"kernel" not in body and not [word for word in HIDDEN if word in body], body


def test_headers_that_could_name_two_users_are_refused(serve):
    def status(*headers):
        return serve.ask("/api/runs", headers=headers)[0]

    user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
    assert status((user, "jane")) == 200 == status((user.lower(), "jane"))
    assert status((user, "jane"), (user, "bob")) == 400 == status((user, "jane"), ("x-forwarded-USER", "jane"))
    assert status((user, "jane, bob")) == 400 == status((user, "jane"), (groups, "a"), (groups, "b"))
    assert status((user, b"ja\xffne")) == 400 == status((user, "jane"), (groups, b"a,\xc3"))
    assert status((user, "system:admin")) == 403 == status((user, "system:serviceaccount:kube-system:default"))
    assert status((user, "a" * 600)) == 431 == status((user, "jane"), (groups, ",".join(f"g{i}" for i in range(2000))))
    assert status((user, "")) == 401 == status(("X-Forwarded-Email", "jane"))
    assert serve.ask("/api/runs", "jane", host="evil.example")[0] == 403
    assert serve.ask("/api/runs", "jane", host="strobe.example.com")[0] == 200
    with pytest.raises((http.client.HTTPException, OSError)):  # The server reads no headers of this size.
        serve.ask("/api/runs", "jane", groups="g," * 60_000)


@pytest.fixture(scope="module")
def behind(session_group, logdirs, kubeconfig, tmp_path_factory):
    """A service that demands the proxy's certificate, and nginx with logins in front of it."""
    directory = tmp_path_factory.mktemp("behind")
    proxies = Proxies(directory / "pki")
    health = free_port()
    serve = Serve(session_group, "serve-tls", directory, serve_config(logdirs, listen="0.0.0.0:0", tls=proxies.tls(), hosts=["strobe.example.com"],
                                                                      health={"listen": f"127.0.0.1:{health}"}), kubeconfig)
    nginx = Nginx(session_group, proxies, serve.port, {"jane": ("hers", ""), "bob": ("his", "ops,b-team"), "eve": ("e", "")})
    return SimpleNamespace(serve=serve, proxies=proxies, health=health, nginx=nginx)


def test_only_the_proxy_can_connect(behind):
    serve, proxies = behind.serve, behind.proxies
    for client in (None, "another"):  # Forged headers past the proxy.
        with pytest.raises((ssl.SSLError, OSError)):
            proxies.get(serve.port, "/api/runs", client, user="jane")
    with pytest.raises((http.client.HTTPException, OSError)):  # Without TLS.
        serve.ask("/api/runs", "jane")
    assert json.loads(proxies.get(serve.port, "/api/runs", "strobe-proxy", user="stranger")[1])["runs"] == []
    plain = http.client.HTTPConnection("127.0.0.1", behind.health, timeout=10)
    for path, status in (("/healthz", 200), ("/api/runs", 404), ("/", 404)):
        plain.request("GET", path, headers={"X-Forwarded-User": "jane"})
        answer = plain.getresponse()
        answer.read()
        assert answer.status == status, path


def through(nginx, user, password, **headers):
    """What somebody gets who logs in: the status, and the runs or the body."""
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=10)
    connection.request("GET", "/api/runs", headers={"Authorization": f"Basic {token}", **headers})
    answer = connection.getresponse()
    body = answer.read()
    return answer.status, json.loads(body)["runs"] if answer.status == 200 else body


def test_a_real_proxy_passes_who_has_logged_in(serve, behind):
    def listening():
        try:
            return through(behind.nginx, "jane", "hers")
        except OSError:
            return None

    assert f"team-a/{ALPHA}" in wait_until(listening, 10, "nginx listens")[1]
    assert through(behind.nginx, "bob", "his") == (200, [f"team-b/{BRAVO}"])
    assert through(behind.nginx, "jane", "wrong")[0] == 401
    forged = {"X-Forwarded-User": "jane", "X-Forwarded-Groups": "b-team", "x-forwarded-groups": "b-team"}
    assert through(behind.nginx, "eve", "e", **forged) == (200, [])
    in_browser("serve.test.mjs", timeout=120, STROBE_PROXY=f"127.0.0.1:{behind.nginx.port}", STROBE_RUN=f"team-a/{ALPHA}", STROBE_HIDDEN="bravo")


def test_the_service_refuses_to_start_where_anybody_could_name_a_user(logdirs, kubeconfig, tmp_path):
    for more, remedy in (({"listen": "0.0.0.0:0"}, "listen on 127.0.0.1 with the authenticating proxy"),
                         ({"hots": []}, "unknown key hots"),
                         ({"logdirs": [{"url": "/logs"}]}, "needs the namespace")):
        file = tmp_path / "serve.yaml"
        file.write_text(json.dumps(serve_config(logdirs) | more))
        done = subprocess.run([BIN / "strobe", "serve", "--config", file, "--kubeconfig", kubeconfig], capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and remedy in done.stderr, done.stderr


def test_slow_connections_do_not_keep_others_out(serve):
    slow = []
    try:
        for i in range(200):
            slow.append(socket.create_connection(("127.0.0.1", serve.port), timeout=10))
            slow[-1].sendall(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-User: slow\r\n"[:20 + i % 40])
        for _ in range(5):
            assert f"team-a/{ALPHA}" in serve.runs("jane")
            assert serve.ask("/healthz")[0] == 200
            for connection in slow[:50]:
                connection.sendall(b"x")
    finally:
        for connection in slow:
            connection.close()


def test_one_user_who_asks_for_much_delays_nobody(session_group, logdirs, kubeconfig, tmp_path):
    """Tiles of all rows, all events and unread answers of one user used to hold all threads, and gigabytes."""
    large = tmp_path / "large"
    run = large / "plugins/profile/2026_11_23_10_00_00_large"
    run.mkdir(parents=True)
    for worker in range(6):
        subprocess.run([BIN / "make_xspace", "100000", run / f"worker-{worker}.xplane.pb"], check=True)
    serve = Serve(session_group, "busy", tmp_path, serve_config([{"url": str(large), "namespace": "team-a"}, logdirs[1]]), kubeconfig)
    name = f"team-a/{run.name}"
    end = loaded(serve, name, "jane")["endPs"]
    loaded(serve, f"team-b/{BRAVO}", "bob", "b-team")
    level = max(0, int(end / 4096 - 1).bit_length())
    xprof = f"/data/plugin/profile/data?run={name}&tag=trace_viewer@&host=worker-0&resolution=0"
    asked = [f"/api/tiles?run={name}&rows=0-1023&begin=0&level={level}&slots=4096", f"/api/events?run={name}&rows=0-1023&limit=10000",
             f"/api/arrows?run={name}&rows=0-1023&begin=0&end={end}&level=20", xprof, f"/api/perfetto?run={name}"]
    unread = []
    for _ in range(16):
        unread.append(socket.create_connection(("127.0.0.1", serve.port)))
        unread[-1].sendall(f"GET {xprof} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-User: jane\r\n\r\n".encode())
    answers = 0
    with ThreadPoolExecutor(32) as pool:
        much = [pool.submit(serve.ask, asked[i % len(asked)], "jane", timeout=300) for i in range(25)]  # Work of low priority, beside other suites.
        while not all(answer.done() for answer in much):
            for path in ("/api/runs", f"/api/tiles?run=team-b/{BRAVO}&rows=0-20&level=30&slots=512"):
                status, _, body = serve.ask(path, "bob", "b-team")
                assert status == 200, body
                answers += 1
    statuses = [answer.result()[0] for answer in much]
    assert answers > 20, "the other user is answered meanwhile"
    assert set(statuses) <= {200, 503} and statuses.count(200) > 5, statuses
    assert high_water(serve.process.pid) < 1024
    for connection in unread:
        connection.close()


def test_a_right_that_is_withdrawn_is_gone(serve, plane):
    admin = Kubectl(plane.kubeconfig, "team-a")
    bind = ("create", "rolebinding", "mary", "--role=runs", "--user=mary")
    admin.run(*bind)
    wait_until(lambda: serve.runs("mary"), 20, "mary sees runs")
    loaded(serve, f"team-a/{ALPHA}", "mary")
    admin.run("delete", "rolebinding", "mary")
    wait_until(lambda: not serve.runs("mary"), 30, "mary sees no runs any more")
    assert serve.ask(f"/api/tiles?run=team-a/{ALPHA}&rows=0", "mary")[0] == 404, "a run that she had open"


def test_without_the_api_server_nobody_sees_anything(serve, plane, session_group, logdirs, tmp_path):
    assert serve.runs("jane")
    os.kill(plane.apiserver.pid, signal.SIGSTOP)  # It accepts connections and never answers.
    try:
        wait_until(lambda: serve.ask("/api/runs", "jane")[0] == 503, 20, "answers of before are forgotten")
        with ThreadPoolExecutor() as pool:
            answers = [*pool.map(lambda user: serve.ask("/api/runs", user), ("jane", "stranger", "nobody-before"))]
        for status, headers, body in answers:
            assert status == 503 and headers["Retry-After"] and not [word for word in (*HIDDEN, b"team-a") if word in body]
        assert serve.ask("/healthz")[0] == 200
        assert serve.ask("/api/runs")[0] == 401
    finally:
        os.kill(plane.apiserver.pid, signal.SIGCONT)
    wait_until(lambda: serve.ask("/api/runs", "jane")[0] == 200, 30, "jane is served again")
    # An API server that is not there at all.
    nowhere = tmp_path / "kubeconfig"
    plane.write_kubeconfig(nowhere, "strobe-serve", server=f"https://127.0.0.1:{free_port()}")
    lonely = Serve(session_group, "serve-lonely", tmp_path, serve_config(logdirs), nowhere)
    assert lonely.ask("/api/runs", "jane")[0] == 503


def test_without_the_right_to_ask_nobody_sees_anything(plane, session_group, logdirs, tmp_path):
    issue(plane.dir, "powerless", "/CN=powerless", server=False)
    kubeconfig = tmp_path / "kubeconfig"
    plane.write_kubeconfig(kubeconfig, "powerless")
    serve = Serve(session_group, "serve-powerless", tmp_path, serve_config(logdirs), kubeconfig)
    status, _, body = serve.ask("/api/runs", "jane")
    assert status == 503 and b"powerless" not in body
    assert "powerless" in serve.process.output()
