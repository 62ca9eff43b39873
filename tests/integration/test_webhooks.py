"""What the webhooks admit, refuse and survive, when a real API server calls them."""

import base64
import http.client
import json
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import condition, profile_request, wait_finished
from tests.support.processes import Group, high_water, wait_until
from tests.support.rights import grant, user_named, withdraw
from tests.support.secure import SecureOperator, allow, pod
from tests.support.tls import issue, make_authority


def grant_requests(kubectl, name, subject, pods=None):
    """Grants the right to create requests. `pods`: None = no right to profile, [] = all pods, else their names."""
    rules = [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests"], "verbs": ["create", "get", "patch", "update"]}]
    if pods is not None:
        rules.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"], **({"resourceNames": pods} if pods else {})})
    grant(kubectl, name, rules, subject)


def test_who_may_profile_whom(secure, kubectl, plane):
    """Impersonates users, groups and service accounts with and without the right to profile."""
    secure()
    allow(kubectl, "/logs")
    grant_requests(kubectl, "all", user_named("all"), [])
    grant_requests(kubectl, "one", user_named("one"), ["pod-a", "pod-b"])
    grant_requests(kubectl, "none", user_named("none"))
    grant_requests(kubectl, "team", {"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"}, [])
    kubectl.run("create", "serviceaccount", "robot")
    grant_requests(kubectl, "robot", {"kind": "ServiceAccount", "name": "robot", "namespace": kubectl.namespace}, [])
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    robot = f"system:serviceaccount:{kubectl.namespace}:robot"
    for who, groups, target, allowed in [
        ("all", [], selector, True), ("all", [], {"pods": ["pod-z"]}, True),
        ("one", [], {"pods": ["pod-a"]}, True), ("one", [], {"pods": ["pod-a", "pod-b"]}, True),
        ("one", [], {"pods": ["pod-a", "pod-z"]}, False), ("one", [], selector, False),
        ("none", [], selector, False), ("none", [], {"pods": ["pod-a"]}, False),
        ("member", ["team"], selector, True), ("none", ["team"], selector, True),
        (robot, ["system:serviceaccounts"], selector, True),
    ]:
        done = kubectl.create(profile_request("r", "/logs", target=target), user=who, groups=groups, dry_run=True)
        assert (done.returncode == 0) == allowed, (who, target, done.stderr)
        if not allowed:
            assert f'user "{who}" may not profile pods in namespace {kubectl.namespace}' in done.stderr and 'verb "profile"' in done.stderr
    # The right in one namespace does not apply in another.
    other = f"{kubectl.namespace}-other"
    Kubectl(plane.kubeconfig).create_namespace(other)
    assert Kubectl(plane.kubeconfig, other).create(profile_request("r", "/logs"), user="all").returncode != 0


def test_a_request_is_held_only_while_there_is_something_to_clean_up(secure, kubectl, make_workers, logdir):
    operator = secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    finalizers = lambda name: kubectl.get("profreq", name)["metadata"].get("finalizers", [])  # noqa: E731
    kubectl.create(profile_request("waits", logdir, selector={"app": "nobody"}), check=True)
    wait_until(lambda: condition(kubectl.get("profreq", "waits"), "Succeeded")["reason"] == "NoTargets", 15, "its visit")
    assert finalizers("waits") == []
    make_workers(1, kubectl)
    kubectl.create(profile_request("live", logdir, duration="2s"), profile_request("kept", logdir, reclaimPolicy="Delete"), check=True)
    wait_until(lambda: finalizers("live") == ["strobe.dev/capture"], 20, "a capture that is under way")
    for name in ("live", "kept"):
        assert condition(wait_finished(kubectl, name), "Succeeded")["status"] == "True"
    for manifest in logdir.rglob("strobe.json"):
        said = json.loads(manifest.read_text())
        stamped = kubectl.get("profreq", said["request"].split("/")[1])["metadata"]["annotations"]["strobe.dev/requester"]
        assert said["requester"] == json.loads(stamped)["username"] != "", said
    wait_until(lambda: finalizers("live") == [], 10, "the end")
    assert finalizers("kept") == ["strobe.dev/capture"], "its run is to be reclaimed"
    # Without an operator, requests that wait or have ended can be changed and deleted; new ones are refused.
    operator.process.kill()
    kubectl.run("patch", "profreq", "waits", "--type=merge", "-p", '{"spec":{"cancel":true}}')
    kubectl.run("delete", "profreq", "waits", "live", "--timeout=10s")
    assert kubectl.create(profile_request("new", logdir)).returncode != 0


def test_nobody_else_says_who_asked(secure, kubectl):
    secure()
    allow(kubectl, "/logs")
    grant_requests(kubectl, "jane", user_named("jane"), [])
    request = profile_request("r", "/logs")
    request["metadata"]["annotations"] = {"strobe.dev/requester": json.dumps({"username": "system:admin", "groups": ["system:masters"]}), "mine": "x"}
    kubectl.create(request, user="jane", groups=["g"], check=True)
    stamped = kubectl.get("profreq", "r")["metadata"]["annotations"]
    assert json.loads(stamped["strobe.dev/requester"])["username"] == "jane" and stamped["mine"] == "x"
    assert "system:masters" not in stamped["strobe.dev/requester"]
    for patch in ({"strobe.dev/requester": "{}"}, {"strobe.dev/requester": None}):
        kubectl.run("patch", "profreq", "r", "--as=jane", "--type=merge", "-p", json.dumps({"metadata": {"annotations": patch}}))
        assert kubectl.get("profreq", "r")["metadata"]["annotations"]["strobe.dev/requester"] == stamped["strobe.dev/requester"]


HOSTILE_LOGDIRS = [
    "s3://169.254.169.254/latest/meta-data", "s3://[fd00:ec2::254]/x", "s3://127.0.0.1/x", "s3://0x7f000001/x", "s3://2130706433/x", "s3://0/x",
    "gs://metadata.google.internal/x", "gs://localhost/x", "gs://localhost./x", "s3://minio.storage.svc/x", "s3://minio.storage.svc.cluster.local/x",
    "s3://kubernetes.default.svc/x", "az://a.b.internal/x", "s3://bucket/x?endpoint=http://169.254.169.254", "s3://bucket/x?proxy=http://evil",
    "s3://key:secret@bucket/x", "http://169.254.169.254/x", "https://bucket/x", "ftp://bucket/x", "gopher://bucket/x", "file://host/x",
    "s3://bucket/../other", "s3://bucket/%2e%2e/other", "s3://bucket/x#f", "s3:///x", "//bucket/x", "relative/x", "/etc/../var", "s3://bucket/\tx",
    "s3://bucket2/x", "s3://bucke/x", "S3://bucket/x", "s3://BUCKET/x", "/other", "gs://bucket/x",
]


@pytest.mark.parametrize("logdir", HOSTILE_LOGDIRS)
def test_logdirs_that_are_refused(secure_once, logdir):
    """The operator never resolves or connects to any of these hosts, so no answer of a DNS server matters."""
    kubectl = secure_once
    done = kubectl.create(profile_request("r", logdir), dry_run=True)
    assert done.returncode != 0 and ("logdir" in done.stderr or "denied" in done.stderr), (logdir, done.stderr)


@pytest.fixture(scope="module")
def secure_once(plane, tmp_path_factory):
    Kubectl(plane.kubeconfig).create_namespace("logdirs")
    kubectl = Kubectl(plane.kubeconfig, "logdirs")
    with Group(tmp_path_factory.mktemp("logs")) as group:
        operator = SecureOperator(group, plane, kubectl).start().wait_ready()
        allow(kubectl, "s3://bucket/x")
        assert kubectl.create(profile_request("r", "s3://bucket/x/y"), dry_run=True, check=True)
        yield kubectl
        operator.remove()


def test_limits_and_waiting(secure, kubectl, make_workers, logdir):
    secure(insecurePlaintext=True)
    assert "no ProfilePolicy matches" in kubectl.create(profile_request("r", logdir)).stderr
    allow(kubectl, logdir, maxDuration="1s", minInterval="4s")
    assert "longer than 1s (maxDuration)" in kubectl.create(profile_request("r", logdir, duration="2s")).stderr
    make_workers(1, kubectl)
    kubectl.create(profile_request("first", logdir), check=True)
    assert condition(wait_finished(kubectl, "first"), "Succeeded")["status"] == "True"
    done = kubectl.create(profile_request("second", logdir), check=True)
    assert "the request will wait" in done.stderr and "minInterval" in done.stderr
    wait_until(lambda: condition(kubectl.get("profreq", "second"), "Succeeded")["reason"] == "WaitingForPolicy", 10, "the wait")
    assert condition(wait_finished(kubectl, "second"), "Succeeded")["status"] == "True"


def test_a_policy_gives_the_logdir_of_requests_that_name_none(secure, kubectl, make_workers, logdir):
    secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    request = profile_request("bare", logdir)
    del request["spec"]["logdir"]
    refused = kubectl.create(request).stderr
    assert f"no ProfilePolicy of namespace {kubectl.namespace} has a defaultLogdir; give spec.logdir" in refused, refused
    allow(kubectl, logdir, defaultLogdir=f"{logdir}/{{namespace}}")
    make_workers(1, kubectl)
    kubectl.create(request, check=True)
    made = wait_finished(kubectl, "bare")
    assert condition(made, "Succeeded")["status"] == "True", made["status"]
    assert made["spec"]["logdir"] == f"{logdir}/{kubectl.namespace}"
    assert made["status"]["run"].startswith(f"file://{logdir}/{kubectl.namespace}/plugins/profile/")
    kubectl.apply(request)  # Applying the manifest again does not take the logdir away.
    assert kubectl.get("profreq", "bare")["spec"]["logdir"] == f"{logdir}/{kubectl.namespace}"
    # A default that depends on the order of policies would surprise.
    other = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": f"{kubectl.namespace}-b"},
             "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
                      "allowedLogdirs": ["/elsewhere"], "defaultLogdir": "/elsewhere/x"}}
    kubectl.apply(other)
    conflict = kubectl.create(request | {"metadata": {"name": "torn"}}).stderr
    kubectl.run("delete", "profilepolicy", other["metadata"]["name"])
    assert f"{kubectl.namespace} ({logdir}/{kubectl.namespace})" in conflict and f"{kubectl.namespace}-b (/elsewhere/x)" in conflict, conflict
    assert "have different defaults" in conflict and "give spec.logdir" in conflict
    other["spec"]["defaultLogdir"] = "/elsewhere2"
    done = kubectl.run("apply", "-f", "-", stdin=json.dumps(other), check=False)
    assert "defaultLogdir must be one of allowedLogdirs or below one" in done.stderr


def test_a_request_that_waited_is_checked_again(secure, kubectl, make_workers, logdir):
    secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    grant_requests(kubectl, "jane", user_named("jane"), [])
    kubectl.create(profile_request("r", logdir), user="jane", check=True)
    wait_until(lambda: condition(kubectl.get("profreq", "r"), "Succeeded")["reason"] == "NoTargets", 15, "waiting for pods")
    withdraw(kubectl, "jane")
    make_workers(1, kubectl)
    refused = condition(wait_finished(kubectl, "r"), "Succeeded")
    assert refused["reason"] == "NotAllowed" and "may not profile" in refused["message"]


def test_a_request_that_came_in_unseen_is_refused(secure, kubectl, logdir):
    operator = secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    operator.remove()
    kubectl.create(profile_request("r", logdir), check=True)
    assert condition(wait_finished(kubectl, "r"), "Succeeded")["reason"] == "NotAdmitted"


def ask(operator, path, review, source="127.0.0.1", context=None):
    """Calls the webhook's port directly, as any client that reaches it can; returns status and answer."""
    if context is None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("localhost", operator.webhook_port, context=context, timeout=30, source_address=(source, 0))
    connection.request("POST", path, json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    return answer.status, json.loads(body)["response"] if answer.status == 200 else body


ADMIN = {"username": "system:admin", "groups": ["system:masters"]}


def test_a_requester_cannot_be_forged_while_the_webhook_is_away(secure, kubectl, logdir):
    """The annotation counts only if the webhook sealed it for this very request."""
    operator = secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    nobody = {"selector": {"app": "nobody"}}
    kubectl.create(profile_request("sealed", logdir, **nobody), profile_request("tampered", logdir, **nobody), check=True)
    annotation = kubectl.get("profreq", "sealed")["metadata"]["annotations"]["strobe.dev/requester"]
    operator.remove()

    def forged(name, text, **spec):
        request = profile_request(name, logdir, **nobody, **spec)
        request["metadata"]["annotations"] = {"strobe.dev/requester": text}
        return request

    # Annotations that are made up, copied from another request, or obtained by calling the webhook directly.
    bait = profile_request("oracle", logdir, **nobody)
    status, response = ask(operator, "/stamp-request", {"uid": "u", "operation": "CREATE", "namespace": kubectl.namespace, "object": bait, "userInfo": ADMIN})
    patch = json.loads(base64.b64decode(response["patch"]))
    kubectl.create(forged("made-up", json.dumps(ADMIN)), forged("copied", annotation), forged("oracle", patch[-1]["value"]), check=True)
    kubectl.run("annotate", "profreq", "tampered", "--overwrite", f"strobe.dev/requester={json.dumps(ADMIN)}")
    for name in ("made-up", "copied", "oracle", "tampered"):
        refused = condition(wait_finished(kubectl, name), "Succeeded")
        assert refused["reason"] == "NotAdmitted", (name, refused)
    # A copy with the same name and content, created while no webhook stamps requests.
    kubectl.run("delete", "profreq", "sealed", "--timeout=10s")
    kubectl.create(forged("sealed", annotation), check=True)
    operator.register_webhooks()
    assert condition(wait_finished(kubectl, "sealed"), "Succeeded")["reason"] == "NotAdmitted"


def test_who_asked_stays_known_while_the_operator_is_down(secure, kubectl, logdir):
    """The webhooks are registered and do not answer. A seal that was obtained from the port before could otherwise be put into an object."""
    operator = secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    template = {"spec": {"target": {"selector": {"matchLabels": {"app": "nobody"}}}, "logdir": str(logdir), "duration": "1s"}}
    schedule = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileSchedule", "metadata": {"name": "s"}, "spec": {"schedule": "0 6 * * *", "template": template}}
    trigger = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": "t"},
               "spec": {"alerts": {"matchLabels": {"alertname": "Slow"}}, "template": {"spec": {k: v for k, v in template["spec"].items() if k != "target"}}}}
    kubectl.create(profile_request("r", logdir, selector={"app": "nobody"}), schedule, trigger, check=True)
    grant(kubectl, "jane", [{"apiGroups": ["strobe.dev"], "resources": ["*"], "verbs": ["*"]}], user_named("jane"))
    operator.process.kill()

    def patch(kind, name, change):
        return kubectl.run("patch", kind, name, "--type=merge", "--as=jane", "-p", json.dumps(change), check=False)

    for kind, name, webhook in (("profreq", "r", "keep-requests"), ("profsched", "s", "change-schedules"), ("proftrig", "t", "change-triggers")):
        for value in (json.dumps(ADMIN), None):
            refused = patch(kind, name, {"metadata": {"annotations": {"strobe.dev/requester": value}}})
            assert refused.returncode != 0 and f'failed calling webhook "{webhook}.strobe.dev"' in refused.stderr, (kind, value, refused.stderr)
        assert patch(kind, name, {"metadata": {"annotations": {"mine": "x"}, "labels": {"mine": "x"}}}).returncode == 0
    for kind, name in (("profsched", "s"), ("proftrig", "t")):
        for change in ({"template": {"spec": {"duration": "2s"}}}, {"template": {"spec": {"tracers": {"host": "Verbose"}}}}, {"sample": {"workers": 1}}):
            refused = patch(kind, name, {"spec": change})
            assert refused.returncode != 0 and "failed calling webhook" in refused.stderr, (kind, change, refused.stderr)
        for change in ({"suspend": True}, {"successfulRunsHistoryLimit": 2, "failedRunsHistoryLimit": 2}, {"keepFor": "48h"}):
            assert patch(kind, name, {"spec": change}).returncode == 0, (kind, change)
    assert patch("profreq", "r", {"spec": {"cancel": True}}).returncode == 0
    for kind, name in (("profreq", "r"), ("profsched", "s"), ("proftrig", "t")):
        kubectl.run("delete", kind, name, "--as=jane", "--timeout=10s")


def test_a_sealed_request_survives_a_restart_and_kubectl(secure, kubectl, logdir):
    operator = secure(insecurePlaintext=True)
    allow(kubectl, logdir)
    request = profile_request("look", logdir, selector={"app": "nobody"})
    kubectl.apply(request)
    operator.process.kill()
    request["spec"]["ttlAfterFinished"] = "1h"
    kubectl.apply(request)
    operator.start().wait_ready()
    grant_requests(kubectl, "jane", user_named("jane"), [])

    def replaced():
        made = json.loads(kubectl.run("get", "profreq", "look", "-o", "json").stdout)
        del made["metadata"]["annotations"]  # Like a user's own file.
        done = kubectl.run("replace", "--as=jane", "-f", "-", stdin=json.dumps(made), check=False)
        # The operator may write the request's status in between.
        assert done.returncode == 0 or "(Conflict)" in done.stderr, done.stderr
        return done.returncode == 0

    wait_until(replaced, 15, "the replacement")
    wait_until(lambda: condition(kubectl.get("profreq", "look"), "Succeeded")["reason"] == "NoTargets", 15, "its visit")


def test_strangers_cannot_have_the_api_server_asked_at_will(secure, kubectl, plane):
    """One address sends many reviews at once, while the API server sends its own reviews and injections."""
    operator = secure(pod_failure_policy="Fail")
    allow(kubectl, "/logs")
    review = {"uid": "u", "operation": "CREATE", "namespace": kubectl.namespace, "object": profile_request("r", "/logs"), "userInfo": ADMIN}
    answers, stop = [], threading.Event()

    def flood():
        while not stop.is_set():
            answers.append(ask(operator, "/check-request", review, source="127.0.0.2")[0])

    strangers = [threading.Thread(target=flood) for _ in range(12)]
    began = time.monotonic()
    for stranger in strangers:
        stranger.start()
    load = Admitting(plane, kubectl)
    load.start()
    try:
        for _ in range(5):
            kubectl.create(profile_request("r", "/logs"), dry_run=True, check=True)
        wait_until(lambda: 429 in answers and load.done > 20, 60, "answers")
    finally:
        stop.set()
        for stranger in strangers:
            stranger.join()
        load.stop()
    assert not load.failures, load.failures[:2]
    assert answers.count(200) <= 200 + 50 * (time.monotonic() - began) + 1, "the burst and the rate of one address"
    # Invalid namespace names are counted as `other`, so that strangers cannot fill the metrics with them.
    for name in ("x" * 100, "../x", "a b"):
        ask(operator, "/inject", {"uid": "u", "operation": "CREATE", "namespace": name, "object": pod()})
    assert operator.metric("strobe_injections_total", namespace="other") == 3


def test_where_the_api_server_has_a_certificate_nobody_else_is_heard(group, tmp_path):
    """webhook.clientAuthority is set, and the API server presents a client certificate to its webhooks."""
    pki = tmp_path / "clients"
    pki.mkdir()
    make_authority(pki, "clients")
    issue(pki, "apiserver", "/CN=kube-apiserver", server=False)
    issue(pki, "other", "/CN=somebody", server=False)
    users = {"users": [{"name": "*", "user": {"client-certificate": str(pki / "apiserver.crt"), "client-key": str(pki / "apiserver.key")}}]}
    (tmp_path / "webhooks.kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **users}))
    plugin = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(tmp_path / "webhooks.kubeconfig")}
    admission = tmp_path / "admission.yaml"
    admission.write_text(json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [
        {"name": name, "configuration": plugin} for name in ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook")]}))
    plane = ControlPlane(group, tmp_path / "plane")
    plane.apiserver_flags = {"admission-control-config-file": admission}
    plane.start()
    Kubectl(plane.kubeconfig).install_crds()
    Kubectl(plane.kubeconfig).create_namespace("ml")
    kubectl = Kubectl(plane.kubeconfig, "ml")
    operator = SecureOperator(group, plane, kubectl, webhook={"clientAuthority": str(pki / "ca.crt"), "clientNames": ["kube-apiserver"]}).start().wait_ready()
    allow(kubectl, "/logs")
    kubectl.create(profile_request("r", "/logs"), check=True, dry_run=True)
    review = {"uid": "u", "operation": "CREATE", "namespace": "ml", "object": profile_request("r", "/logs"), "userInfo": ADMIN}
    for who in (None, "other", "apiserver"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if who:
            context.load_cert_chain(pki / f"{who}.crt", pki / f"{who}.key")
        try:
            status = ask(operator, "/stamp-request", review, context=context)[0]
        except (ssl.SSLError, ConnectionError, http.client.HTTPException):
            status = None
        assert status == (200 if who == "apiserver" else None), who


def test_pods_are_injected_and_nobody_is_turned_away(secure, kubectl):
    operator = secure()
    kubectl.create(pod("a"), pod("b", labels={"strobe.dev/inject": "false"}), {**pod("c"), "metadata": {"name": "c"}}, check=True)
    assert [c["name"] for c in kubectl.get("pod", "a")["spec"]["initContainers"]] == ["strobe-sidecar"]
    assert all("initContainers" not in kubectl.get("pod", name)["spec"] for name in "bc")
    # Annotations with invalid values.
    odd = pod("odd", annotations={f"strobe.dev/{key}": value for key, value in {
        "containers": "nobody,,", "framework-port": "-1", "cpu": "lots", "memory": "\u00e9", "spool-size": "1 2", "storage-secret": "../x",
        "logdir-volume": "x", "port": "0", "compat-port": "no", "flight-recorder": "10", "upload-rate": "1"}.items()})
    done = kubectl.create(odd, check=True)
    assert done.stderr.count("strobe.dev/") >= 9
    sidecar = kubectl.get("pod", "odd")["spec"]["initContainers"][0]
    assert sidecar["ports"][0]["containerPort"] == 9470
    assert not any(argument.startswith(("--flight-recorder", "--upload-rate", "--compat-listen")) for argument in sidecar["args"])
    # A value that only looks like a quantity would make the pod itself invalid if it were copied.
    kubectl.create(pod("odder", annotations={"strobe.dev/cpu": "5Foo", "strobe.dev/memory": "1Zi", "strobe.dev/spool-size": "10Ab"}), check=True)
    # Injected because of the namespace's label.
    kubectl.run("label", "namespace", kubectl.namespace, "strobe.dev/inject=true")
    kubectl.create({**pod("d"), "metadata": {"name": "d"}}, check=True)
    assert kubectl.get("pod", "d")["metadata"]["labels"]["strobe.dev/injected"] == "true"
    # Without the operator, pods start without a sidecar and captures are refused.
    operator.process.kill()
    kubectl.create(pod("e"), check=True)
    assert kubectl.create(profile_request("r", "/logs")).returncode != 0


class Stripper(ThreadingHTTPServer):
    """Another webhook, which drops restartPolicy, as one does that decodes init containers into a struct without that field."""

    daemon_threads = True

    def __init__(self, directory, also_probe):
        make_authority(directory, "others")
        issue(directory, "server", "/CN=others")
        fields = {"restartPolicy"} | ({"startupProbe"} if also_probe else set())

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                patch = [{"op": "remove", "path": f"/spec/initContainers/{i}/{field}"}
                         for i, c in enumerate(review["request"]["object"]["spec"].get("initContainers", [])) for field in fields if field in c]
                answer = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                    "uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.crt", directory / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.bundle = base64.b64encode((directory / "ca.crt").read_bytes()).decode()

    def register(self, kubectl, again):
        kubectl.apply({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": f"zz-{kubectl.namespace}"},
                       "webhooks": [{"name": "strip.others.example", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                                     "reinvocationPolicy": "IfNeeded" if again else "Never",
                                     "clientConfig": {"url": f"https://localhost:{self.server_address[1]}/", "caBundle": self.bundle},
                                     "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
                                     "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]})


@pytest.fixture
def stripper(kubectl, tmp_path):
    made = []

    def make(again, also_probe=False):
        server = Stripper(tmp_path, also_probe)
        server.register(kubectl, again)
        made.append(server)

    yield make
    kubectl.run("delete", "mutatingwebhookconfiguration", f"zz-{kubectl.namespace}", "--ignore-not-found")
    for server in made:
        server.shutdown()


def test_what_another_webhook_takes_away_is_put_back(secure, kubectl, stripper):
    secure()
    stripper(again=False)
    kubectl.create(pod("a"), check=True)
    assert kubectl.get("pod", "a")["spec"]["initContainers"][0]["restartPolicy"] == "Always"


def test_what_is_taken_away_for_good_is_reported(secure, kubectl, stripper, logdir):
    operator = secure()
    allow(kubectl, logdir)
    stripper(again=True, also_probe=True)
    done = kubectl.create(pod("a"), check=True)
    assert "the injection is modified: restartPolicy is gone" in done.stderr
    assert operator.metric("strobe_injections_damaged_total", namespace=kubectl.namespace, damage="modified") == 1
    kubectl.create(profile_request("r", logdir, target={"pods": ["a"]}), check=True)
    wait_until(lambda: "has lost its restartPolicy" in condition(kubectl.get("profreq", "r"), "Succeeded").get("message", ""), 15, "the report")
    # A pod that was created while the operator was down.
    operator.process.kill()
    kubectl.create(pod("b"), check=True)
    operator.start().wait_ready()
    wait_until(lambda: operator.metric("strobe_uninjected_pods", namespace=kubectl.namespace) == 2, 30, "the count")
    kubectl.create(profile_request("s", logdir, target={"pods": ["b"]}), check=True)
    wait_until(lambda: "the webhook was unavailable" in condition(kubectl.get("profreq", "s"), "Succeeded").get("message", ""), 15, "the report")


def test_pods_of_a_labelled_namespace_are_checked_and_counted(secure, kubectl, stripper):
    """Only the namespace has the label. What another webhook broke there, and what was missed, used to be told by nobody."""
    def unlabelled(name):
        made = pod(name)
        del made["metadata"]["labels"]
        return made

    kubectl.run("label", "namespace", kubectl.namespace, "strobe.dev/inject=true")
    operator = secure()
    stripper(again=True, also_probe=True)
    done = kubectl.create(unlabelled("a"), check=True)
    assert "the injection is modified: restartPolicy is gone" in done.stderr
    assert operator.metric("strobe_injections_damaged_total", namespace=kubectl.namespace, damage="modified") == 1
    operator.process.kill()
    kubectl.create(unlabelled("missed"), check=True)
    kubectl.create(pod("refuses", labels={"strobe.dev/inject": "false"}), check=True)
    operator.start().wait_ready()
    wait_until(lambda: operator.metric("strobe_uninjected_pods", namespace=kubectl.namespace) == 2, 30, "the count")


class Admitting(threading.Thread):
    """Creates pods as dry runs without pause, on its own connections."""

    def __init__(self, plane, kubectl):
        super().__init__(daemon=True)
        self.context = ssl.create_default_context(cafile=plane.dir / "ca.crt")
        self.context.load_cert_chain(plane.dir / "admin.crt", plane.dir / "admin.key")
        self.port, self.space = plane.port, kubectl.namespace
        self.done, self.failures, self.stopping = 0, [], False

    def run(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
        body = json.dumps(pod("load"))
        while not self.stopping:
            connection.request("POST", f"/api/v1/namespaces/{self.space}/pods?dryRun=All", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 201 or b"strobe-sidecar" not in text:
                self.failures.append(text[:300])
            self.done += 1

    def stop(self):
        self.stopping = True
        self.join(30)
        return self


def test_certificates_rotate_under_load_without_a_failed_admission(secure, kubectl, plane):
    """Certificates live 10 s, authorities 66 s. A pod is refused whenever the webhook fails to answer."""
    operator = secure(pod_failure_policy="Fail", tls={"authorityLifetime": "66s", "settle": "10s", "certificateLifetime": "10s"})
    first = operator.authority()[0]
    load = [Admitting(plane, kubectl) for _ in range(2)]
    for thread in load:
        thread.start()
    # The load goes on until the first authority is no longer in the bundle.
    certificates = set()

    def gone():
        certificates.add(ssl.get_server_certificate(("localhost", operator.webhook_port)))
        return first.split("-----END")[0] not in operator.authority()[0]

    wait_until(gone, 150, "a new authority")
    for thread in load:
        thread.stop()
    assert not any(thread.failures for thread in load), [thread.failures[:2] for thread in load]
    assert len(certificates) >= 4 and sum(thread.done for thread in load) > 50


def test_a_certificate_of_somebody_elses_is_served_and_followed(secure, kubectl, tmp_path):
    """A certificate like the one that cert-manager keeps in a mounted Secret, with a new key at each renewal."""
    served = tmp_path / "served"
    served.mkdir()

    def put(name):
        directory = tmp_path / name
        directory.mkdir()
        make_authority(directory, name)
        issue(directory, "server", "/CN=webhook")
        for kind, target in (("key", "tls.key"), ("crt", "tls.crt")):
            (served / target).write_bytes((directory / f"server.{kind}").read_bytes())
        return (directory / "server.crt").read_text().strip()

    first = put("first")
    operator = secure(webhook={"certificate": str(served / "tls.crt"), "key": str(served / "tls.key")})
    shown = lambda: ssl.get_server_certificate(("localhost", operator.webhook_port)).strip()  # noqa: E731
    assert shown() == first
    second = put("second")
    wait_until(lambda: shown() == second, 20, "the new certificate")
    # The issuer of the certificate sets caBundle, not Strobe.
    assert "caBundle" not in kubectl.get("mutatingwebhookconfiguration", operator.configuration)["webhooks"][0]["clientConfig"]


def test_slow_idle_and_huge_clients_are_survived(secure, kubectl, plane):
    operator = secure(pod_failure_policy="Fail")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    load = Admitting(plane, kubectl)
    load.start()
    # Ten thousand connections that send nothing, then a hundred that send their headers slowly.
    idle = []
    for _ in range(10_000):
        try:
            idle.append(socket.create_connection(("127.0.0.1", operator.webhook_port), timeout=5))
        except OSError:
            time.sleep(0.01)
    slow = []
    for _ in range(100):
        client = context.wrap_socket(socket.create_connection(("127.0.0.1", operator.webhook_port), timeout=10), server_hostname="localhost")
        client.sendall(b"POST /inject HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nX: ")
        slow.append(client)
    for client in slow:
        try:
            client.sendall(b"y")
        except OSError:
            pass

    def post(body, **headers):
        connection = http.client.HTTPSConnection("localhost", operator.webhook_port, context=context, timeout=30)
        connection.request("POST", "/inject", body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def review(size):
        text = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "namespace": "x", "object": pod("big")}}
        text["request"]["object"]["metadata"]["annotations"]["big"] = "x" * size
        return json.dumps(text)

    status, answer = post(review((7 << 20) - 2000))
    assert status == 200 and json.loads(answer)["response"]["patch"]
    assert post(review(7 << 20))[0] == 413
    for hostile in ("", "{", "[" * 1_000_000, "[" + "[]," * 2_000_000 + "1]", "\0" * 1000, json.dumps({"request": 5})):
        assert post(hostile)[0] == 400
    assert post("{}", **{"Content-Type": "text/plain"})[0] == 415
    load.stop()
    assert not load.failures and load.done > 20, (load.done, load.failures[:2])
    for client in idle + slow:
        client.close()
    memory = high_water(operator.process.pid)
    assert memory < 512, f"{memory} MiB at the peak; the chart's limit is 512Mi"
    assert operator.process.running()
