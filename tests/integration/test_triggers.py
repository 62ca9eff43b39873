"""From an alert to a capture: a real Alertmanager posts to an operator that has only the rights of the chart."""

import json
import ssl
import urllib.error
import urllib.request

import pytest

from tests.support.alertmanager import Alertmanager
from tests.support.metrics import total
from tests.support.operator import WIDE_GUARD
from tests.support.ports import free_port
from tests.support.processes import wait_until
from tests.support.secure import ChartOperator, create, make_pod


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]',
                             "--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=alert-token").lead_webhooks_here()
    yield operator.apply("--server-side").start().wait_ready()
    operator.process.kill()
    operator.remove()


def trigger(name, logdir):
    run = {"logdir": str(logdir), "duration": "100ms", "attempts": 1, "start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": name},
            "spec": {"alerts": {"matchLabels": {"alertname": "SlowSteps"}}, "budget": {"coolDown": "1h"}, "template": {"spec": run}}}


def test_alerts_of_a_job_become_one_capture(operator, group, kubectl, tmp_path, logdir):
    for index in range(2):  # Their sidecars do not answer. Which captures are asked for is the question here.
        make_pod(kubectl, f"worker-{index}", free_port(), {"batch.kubernetes.io/job-name": "llm"}, index)
    wait_until(lambda: create(kubectl, trigger("slow", logdir), dry_run=True).returncode == 0, 30, "the webhooks")
    create(kubectl, trigger("slow", logdir), check=True)
    wait_until(lambda: kubectl.get("proftrig", "slow").get("status"), 20, "the trigger")

    def alert(pod, namespace=kubectl.namespace, **more):
        return {"labels": {"alertname": "SlowSteps", "namespace": namespace, "pod": pod, "job": "kube-state-metrics"}, "annotations": {"summary": "slow"}, **more}

    (tmp_path / "ca.crt").write_text(operator.authority()[0])
    (tmp_path / "token").write_text(operator.alert_token)
    url = f"https://localhost:{operator.alert_port}/alerts"
    manager = Alertmanager(group, tmp_path / "am", url, {"tls_config": {"ca_file": str(tmp_path / "ca.crt")}, "authorization": {"credentials_file": str(tmp_path / "token")}})
    counted = lambda name, **labels: total(operator.page("/metrics"), f"strobe_alert_receiver_{name}_total", **labels)  # noqa: E731
    runs = lambda: kubectl.get("profilerequests", "-l", "strobe.dev/trigger=slow")["items"]  # noqa: E731

    # Both workers, and a pod of a namespace in which the trigger has no say, in one post.
    manager.tell(alert("worker-0"), alert("worker-1"), alert("worker-0", namespace="kube-system"))
    wait_until(lambda: counted("alerts", status="firing") == 3, 30, "the decision")
    run, = runs()
    assert run["spec"]["target"]["jobRef"]["name"] == "llm"
    assert not kubectl.run("get", "profilerequests", "-n", "kube-system", "-o", "name").stdout

    # An alert ends while no operator runs. Alertmanager tells the next one.
    operator.process.kill()
    manager.tell(alert("worker-0", startsAt="2026-01-01T00:00:00Z", endsAt="2026-01-01T01:00:00Z"))
    wait_until(lambda: total(manager.page("/metrics"), "alertmanager_notification_requests_failed_total", integration="webhook") >= 1, 20, "an attempt")
    operator.start().wait_ready()
    wait_until(lambda: counted("alerts", status="resolved") == 1, 60, "the end of the alert")
    assert [r["metadata"]["uid"] for r in runs()] == [run["metadata"]["uid"]]

    stranger = urllib.request.Request(url, json.dumps({"version": "4", "alerts": []}).encode(), {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(stranger, context=ssl.create_default_context(cafile=tmp_path / "ca.crt"), timeout=10)
    assert counted("requests", code="401") == counted("refused", reason="token") == 1
    assert "forbidden" not in operator.process.output().lower()
