"""The operator tells a receiver how captures ended. The receiver checks signatures and events with the libraries that receivers use."""

import json

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks.webhooks import Webhook

from tests.support.metrics import total
from tests.support.operator import Operator, profile_request, wait_finished
from tests.support.processes import wait_until
from tests.support.receiver import Receiver

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver(tmp_path):
    made = Receiver(tmp_path / "receiver", answers=[503])
    yield made
    made.stop()


@pytest.fixture
def notifying(group, plane, kubectl, receiver, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "signing-key").write_text(KEY + "\n")
    (secret / "token").write_text("a-token\n")
    (secret / "ca.crt").write_bytes(receiver.authority.read_bytes())

    def start(name, **notify):
        return Operator(group, plane.kubeconfig, name, flags=["--no-leader-election"], config={
            "watch": {"namespace": kubectl.namespace},
            "notify": {"url": receiver.url, "directory": str(secret), "source": "cluster-a", **notify}}).start().wait_ready()

    return start


def counted(operator, result):
    return total(operator.page("/metrics"), "strobe_notifications_total", result=result)


def test_ends_are_told_signed_and_again_until_they_arrive(notifying, receiver, kubectl, make_workers, logdir):
    operator = notifying("telling")
    make_workers(1, kubectl)
    kubectl.apply(profile_request("good", logdir, run="good"))
    wait_finished(kubectl, "good")
    wait_until(lambda: counted(operator, "delivered") == 1, 20, "the delivery")
    (first, _), (second, body) = receiver.received
    assert first["webhook-id"] == second["webhook-id"], "the receiver can tell that it is the same"
    assert second["authorization"] == "Bearer a-token"
    Webhook(KEY).verify(body, second)
    event = from_http_event(HTTPMessage(headers=second, body=body))
    assert event.get_type() == "dev.strobe.capture.succeeded" and event.get_source() == "cluster-a"
    assert event.get_subject() == f"{kubectl.namespace}/good"
    data, status = event.get_data(), kubectl.get("profreq", "good")["status"]
    assert data["run"] == status["run"] and data["workers"]["ok"] == 1 and data["synchronized"] is True, data
    assert data["startTime"] == status["startTime"] and data["reason"] == "AllWorkersOk"

    # A request that waits is cancelled, one of no pod fails, and one that only preflights is no capture.
    kubectl.apply(profile_request("called-off", logdir, target={"pods": ["nobody"]}, start={"readyTimeout": "10m"}))
    kubectl.run("patch", "profreq", "called-off", "--type=merge", "-p", '{"spec":{"cancel":true}}')
    wait_finished(kubectl, "called-off")
    kubectl.apply(profile_request("asked", logdir, preflightOnly=True))
    wait_finished(kubectl, "asked")
    receiver.answers.append(400)
    kubectl.apply(profile_request("nobody", logdir, target={"pods": ["nobody"]}, attempts=1, start={"readyTimeout": "0s"}))
    wait_finished(kubectl, "nobody")
    wait_until(lambda: len(receiver.received) >= 4, 20, "both events")
    told = {json.loads(body)["data"]["name"]: json.loads(body)["type"] for _, body in receiver.received}
    assert told == {"good": "dev.strobe.capture.succeeded", "called-off": "dev.strobe.capture.cancelled", "nobody": "dev.strobe.capture.failed"}
    wait_until(lambda: counted(operator, "refused") == 1, 20, "the refusal")


def test_grafana_gets_annotations(notifying, receiver, kubectl, logdir):
    operator = notifying("annotating", format="Grafana")
    kubectl.apply(profile_request("nobody", logdir, target={"pods": ["nobody"]}, attempts=1, start={"readyTimeout": "0s"}))
    wait_finished(kubectl, "nobody")
    wait_until(lambda: counted(operator, "delivered") == 1, 20, "the delivery")
    headers, body = receiver.received[-1]
    annotation = json.loads(body)
    assert headers["content-type"] == "application/json"
    assert annotation["tags"] == ["strobe", "cluster-a", kubectl.namespace, "Failed"] and annotation["time"] == annotation["timeEnd"]


def test_a_receiver_with_an_unknown_certificate_is_told_nothing(notifying, receiver, kubectl, logdir, tmp_path):
    (tmp_path / "empty").mkdir()
    operator = notifying("distrusting", directory=str(tmp_path / "empty"))
    kubectl.apply(profile_request("nobody", logdir, target={"pods": ["nobody"]}, attempts=1, start={"readyTimeout": "0s"}))
    wait_finished(kubectl, "nobody")
    operator.process.stop(20)
    assert not receiver.received
