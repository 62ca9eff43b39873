"""The receiver of alerts with a sink that notes what it is asked: a real Alertmanager posts to it, and hostile clients try to."""

import http.client
import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.alertmanager import Alertmanager
from tests.support.metrics import total
from tests.support.processes import BIN, high_water, wait_until
from tests.support.tls import issue, make_authority

TOKEN, NEXT = "the-token-in-use-now", "the-token-that-comes-next"


class Recorder:
    def __init__(self, group, directory):
        self.directory = directory
        directory.mkdir()
        make_authority(directory, "operators")
        issue(directory, "server", "/CN=strobe-operator")
        self.group, self.process = group, None

    def start(self):
        self.process = self.group.start("recorder", [BIN / "alert_recorder", self.directory]).wait_for('"metrics"', 20)
        ports = next(json.loads(line) for line in self.process.output().splitlines() if line.startswith('{"metrics"') or line.startswith('{"receiver"'))
        self.port, self.metrics_port = ports["receiver"], ports["metrics"]
        self.url = f"https://127.0.0.1:{self.port}/alerts"
        return self

    def calls(self):
        return [call for call in map(json.loads, (line for line in self.process.output().splitlines() if line.startswith("{"))) if "alerts" in call]

    def taken(self):
        return [alert for call in self.calls() if not call["unavailable"] for alert in call["alerts"]]

    def counted(self, name, **labels):
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=10)
        connection.request("GET", "/metrics")
        return total(connection.getresponse().read().decode(), f"strobe_alert_receiver_{name}_total", **labels)

    def client(self):
        trust = ssl.create_default_context(cafile=self.directory / "ca.crt")
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=trust)

    def post(self, body, token=TOKEN):
        connection = self.client()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection.request("POST", "/alerts", body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def open(self, sent):
        """A TLS connection that has sent these bytes and nothing more."""
        trust = ssl.create_default_context(cafile=self.directory / "ca.crt")
        connection = trust.wrap_socket(socket.create_connection(("127.0.0.1", self.port)), server_hostname="127.0.0.1")
        connection.sendall(sent)
        return connection


@pytest.fixture
def recorder(group, tmp_path):
    recorder = Recorder(group, tmp_path / "receiver")
    (recorder.directory / "token").write_text(TOKEN + "\n")
    return recorder.start()


def by_token(recorder, directory):
    file = directory / "sent-token"
    file.write_text(TOKEN)
    return {"tls_config": {"ca_file": str(recorder.directory / "ca.crt")}, "authorization": {"type": "Bearer", "credentials_file": str(file)}}


def alert(job, number=0, **more):
    return {"labels": {"alertname": "SlowSteps", "namespace": "ml", "job": job, "pod": f"{job}-{number}"}, "annotations": {"summary": "steps are slow: > 2 s"}, **more}


def payload(*alerts, **more):
    """A post as Alertmanager would write it."""
    told = [{"status": "firing", "startsAt": "2026-11-24T10:00:00Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "", "fingerprint": f"{i:016x}", **a}
            for i, a in enumerate(alerts)]
    return json.dumps({"version": "4", "groupKey": "{}", "status": "firing", "receiver": "strobe", "truncatedAlerts": 0, "alerts": told, **more})


def test_alertmanager_is_heard_once_and_again_when_nobody_could_decide(group, recorder, tmp_path):
    manager = Alertmanager(group, tmp_path / "am", recorder.url, by_token(recorder, tmp_path))
    manager.tell(alert("train", 0), alert("train", 1), alert("other"))
    wait_until(lambda: len(recorder.taken()) == 3, 20, "the alerts")
    first = next(a for a in recorder.taken() if a["labels"]["pod"] == "train-1")
    assert first["firing"] and first["labels"] == alert("train", 1)["labels"] and first["annotations"] == alert("train")["annotations"]
    assert len({a["fingerprint"] for a in recorder.taken()}) == 3
    assert len(recorder.calls()) == 2, "one post for each group"

    # A 503 is repeated until somebody decides.
    unavailable = recorder.directory / "unavailable"
    unavailable.touch()
    manager.tell(alert("third"))
    wait_until(lambda: recorder.counted("requests", code="503") >= 2, 20, "Alertmanager's second attempt")
    assert not [a for a in recorder.taken() if a["labels"]["job"] == "third"]
    unavailable.unlink()
    wait_until(lambda: [a for a in recorder.taken() if a["labels"]["job"] == "third"], 20, "the alert")
    assert total(manager.page("/metrics"), "alertmanager_notifications_failed_total", integration="webhook") == 0, "none was given up"

    # The end of an alert, and a new token while both sides run.
    (recorder.directory / "token-next").write_text(NEXT)
    wait_until(lambda: recorder.post(payload(), NEXT)[0] == 200, 20, "the new token")
    (tmp_path / "sent-token").write_text(NEXT)
    (recorder.directory / "token").unlink()
    wait_until(lambda: recorder.post(payload(), TOKEN)[0] == 401, 20, "the old token's end")
    manager.tell(alert("other", endsAt="2026-01-01T00:00:00Z", startsAt="2025-12-31T00:00:00Z"))
    ended = wait_until(lambda: [a for a in recorder.taken() if not a["firing"]], 20, "the resolved alert")
    assert ended[0]["labels"]["job"] == "other"
    assert recorder.counted("alerts", status="firing") == 4 and recorder.counted("alerts", status="resolved") == 1


def test_what_alertmanager_truncates_is_counted(group, recorder, tmp_path):
    manager = Alertmanager(group, tmp_path / "am", recorder.url, by_token(recorder, tmp_path), max_alerts=3)
    manager.tell(*(alert("train", n) for n in range(8)))
    wait_until(lambda: recorder.counted("dropped", reason="truncated") == 5, 20, "the count")
    assert len(recorder.taken()) == 3


def test_alertmanager_with_a_client_certificate(group, tmp_path):
    recorder = Recorder(group, tmp_path / "receiver")
    clients = tmp_path / "clients"
    clients.mkdir()
    make_authority(clients, "clients")
    issue(clients, "alertmanager", "/CN=alertmanager", server=False)
    (recorder.directory / "clients.crt").write_bytes((clients / "ca.crt").read_bytes())
    recorder.start()
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        recorder.post(payload(alert("train")))
    tls = {"ca_file": str(recorder.directory / "ca.crt"), "cert_file": str(clients / "alertmanager.crt"), "key_file": str(clients / "alertmanager.key")}
    Alertmanager(group, tmp_path / "am", recorder.url, {"tls_config": tls}).tell(alert("train"))
    wait_until(lambda: len(recorder.taken()) == 1, 20, "the alert")
    assert recorder.counted("refused", reason="handshake") >= 1


def test_hostile_clients_are_refused_and_counted(recorder):
    good = payload(alert("train"))
    assert recorder.post(good)[0] == 200
    before = high_water(recorder.process.pid)
    head = f"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"
    # Bodies that never end, heads that never end, and handshakes that never begin.
    slow = [recorder.open(f"{head}Content-Length: 1000\r\n\r\n{{".encode()) for _ in range(5)]
    slow += [recorder.open(head.encode()) for _ in range(5)]
    mute = [socket.create_connection(("127.0.0.1", recorder.port)) for _ in range(20)]

    assert recorder.post(good, token=None)[0] == recorder.post(good, token=NEXT)[0] == 401
    huge = b" " * (10 << 20)

    def send(token):
        try:
            return recorder.post(huge, token)[0]
        except OSError:  # The answer may be lost when the server does not read on.
            return None

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, [TOKEN] * 8)) <= {413, None}
        assert set(pool.map(send, [None] * 8)) <= {413, 401, None}
    for odd in ("", "[", "[" * 500_000, '{"version":"4"}', payload(version="1"), payload({"labels": []}), payload({"labels": {"a": 1}}), payload() + "x"):
        status, text = recorder.post(odd)
        assert status == 400 and len(text) < 300 and text.count("\n") == 1, text
    assert recorder.post(good)[0] == 200, "all that keeps nobody else waiting"
    assert recorder.counted("refused", reason="malformed") == 8 and recorder.counted("requests", code="400") == 8
    assert recorder.counted("refused", reason="token") >= 2 and recorder.counted("refused", reason="too_long") >= 1

    # Many more connections than are kept: the ones that have waited longest go.
    mute += [socket.create_connection(("127.0.0.1", recorder.port)) for _ in range(300)]
    wait_until(lambda: recorder.counted("refused", reason="crowded") > 200, 20, "the count")
    assert recorder.post(good)[0] == 200
    wait_until(lambda: recorder.counted("refused", reason="slow") >= 5, 20, "the end of the slow ones")
    assert high_water(recorder.process.pid) - before < 16
    assert [a["labels"]["job"] for a in recorder.taken()] == ["train"] * 3
    for connection in slow + mute:
        connection.close()


def test_a_storm_takes_little_memory(recorder):
    """What comes when Alertmanager groups badly: thousands of alerts, from many connections."""
    assert recorder.post(payload(alert("train")))[0] == 200
    before = high_water(recorder.process.pid)
    storm = payload(*(alert(f"job-{n % 50}", n) for n in range(1000)))
    assert len(storm) < 1 << 20

    def post(_):
        return recorder.post(storm)[0]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(post, range(60)))
    assert set(answers) <= {200, 503} and 200 in answers, answers
    assert len(recorder.taken()) == 1 + 1000 * answers.count(200), "what was answered with 200 was decided on, and nothing else"
    assert high_water(recorder.process.pid) - before < 16
