"""Alerts and dashboard: promtool checks the rules with series in which each alert fires and resolves; then a real
Prometheus scrapes a real operator and real sidecars."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from tests.support.operator import condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import ROOT, wait_until
from tests.support.secure import SecureOperator, SecureSidecar, allow

RULES = ROOT / "helm/strobe/files/alerts.yaml"
DASHBOARD = ROOT / "helm/strobe/files/dashboard.json"


def alerts():
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


# For each alert: the series that make it fire, and its labels. A series has one value per minute: first the fault, then the recovery.
FAULTS = {
    "StrobeNoLeader": ({'leader_election_master_status{name="strobe-operator"}': "1 0x20 1x60"}, {}),
    "StrobeReconcileErrors": ({'controller_runtime_reconcile_errors_total{controller="profilerequest"}': "0+10x40 400x120"}, {}),
    "StrobeQueueBacklog": ({'workqueue_depth{name="profilerequest"}': "80x30 0x60"}, {}),
    "StrobeWebhookErrors": ({'controller_runtime_webhook_requests_total{webhook="/inject",code="400"}': "0+5x40 200x120"}, {"webhook": "/inject"}),
    "StrobeCapturesFailing": ({'strobe_captures_total{namespace="ml",result="Failed"}': "0+1x30 30x200", 'strobe_captures_total{namespace="ml",result="Succeeded"}': "1x30 1+1x200"}, {"namespace": "ml"}),
    "StrobeEmptyTraces": ({'strobe_worker_outcomes_total{namespace="ml",cause="NoDeviceActivity"}': "0+1x30 30x200"}, {"namespace": "ml", "cause": "NoDeviceActivity"}),
    "StrobeSkewHigh": ({'strobe_capture_start_skew_seconds_bucket{le="0.01"}': "0x30 0x200", 'strobe_capture_start_skew_seconds_bucket{le="0.1"}': "0+1x30 30x200",
                        'strobe_capture_start_skew_seconds_bucket{le="+Inf"}': "0+1x30 30x200"}, {}),
    "StrobeClockErrorHigh": ({'strobe_clock_error_seconds_bucket{le="0.01"}': "0x30 0x200", 'strobe_clock_error_seconds_bucket{le="0.1"}': "0+1x30 30x200",
                              'strobe_clock_error_seconds_bucket{le="+Inf"}': "0+1x30 30x200"}, {}),
    "StrobePodsNotInjected": ({'strobe_uninjected_pods{namespace="ml"}': "3x30 0x60"}, {"namespace": "ml"}),
    "StrobeInjectionsDamaged": ({'strobe_injections_damaged_total{namespace="ml",damage="lost"}': "0+1x30 30x60"}, {"namespace": "ml", "damage": "lost"}),
    "StrobeEnrollmentFails": ({'strobe_enrollments_total{result="denied"}': "0+2x30 60x60"}, {"result": "denied"}),
    "StrobePeersRefused": ({'strobe_sidecar_refused_peers_total{reason="untrusted"}': "0+2x30 60x60"}, {"reason": "untrusted"}),
    "StrobeTracesWait": ({'strobe_sidecar_spool_bytes{namespace="ml"}': "1000x90 0x120"}, {"namespace": "ml"}),
    "StrobeTracesDropped": ({'strobe_sidecar_kept_traces_total{result="dropped"}': "0+1x30 30x200"}, {}),
}


def test_the_rules_are_rules_and_each_has_its_page():
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(alerts()) == set(FAULTS)
    for name, rule in alerts().items():
        page = ROOT / rule["annotations"]["runbook_url"]
        assert page.name == f"{name}.md" and "## Do" in page.read_text(), name
    assert {p.stem for p in (ROOT / "docs/runbooks").glob("*.md")} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_and_resolves(name, tmp_path):
    series, labels = FAULTS[name]
    fault = 20 if name != "StrobeTracesWait" else 80
    rule = alerts()[name]
    firing = {"exp_labels": {"severity": rule["labels"]["severity"], **labels}}
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": [{"series": s, "values": v} for s, v in series.items()],
        "alert_rule_test": [{"eval_time": f"{fault}m", "alertname": name, "exp_alerts": [firing]},
                            {"eval_time": "190m" if fault == 20 else "200m", "alertname": name, "exp_alerts": []}]}]}
    # A series is stale after its last value, and this rule fires without a value: check that it resolves while there are values.
    if name == "StrobeNoLeader":
        test["tests"][0]["alert_rule_test"][1]["eval_time"] = "60m"
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(test))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    # Annotations are not tested here.
    wrong = re.sub(r"Annotations:\{[^}]*\}", "", done.stdout + done.stderr)
    lines = [line for line in wrong.splitlines() if "exp:" in line or "got:" in line]
    if done.returncode != 0:
        pairs = [re.sub(r".*?(exp|got):", "", line).strip() for line in lines]
        assert len(pairs) % 2 == 0 and pairs and all(a == b for a, b in zip(pairs[::2], pairs[1::2])), done.stdout + done.stderr


class Prometheus:
    def __init__(self, group, directory, targets, rules):
        self.port = free_port()
        directory.mkdir()
        config = directory / "prometheus.yml"
        config.write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "strobe", "static_configs": [{"targets": targets}]}]}))
        group.start("prometheus", ["prometheus", "--config.file", config, "--storage.tsdb.path", directory / "data", "--web.listen-address", f"127.0.0.1:{self.port}"])
        wait_until(lambda: self.get("/-/ready") is not None, 30, "Prometheus")

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code == 503:  # Starting.
                return None
            raise AssertionError(f"{path}: {error.read().decode()}")
        except OSError:
            return None

    def query(self, expression):
        return json.loads(self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression})))["data"]["result"]

    def firing(self):
        return {a["labels"]["alertname"] for a in json.loads(self.get("/api/v1/alerts"))["data"]["alerts"] if a["state"] == "firing"}


def hurried(directory):
    """The same rules, with durations that are short enough for a test."""
    text = RULES.read_text()
    text = re.sub(r"for: \d+[mh]", "for: 1s", text)
    text = re.sub(r"\[\d+[mh]\]", "[60s]", text)
    file = directory / "hurried.yaml"
    file.write_text(text)
    return file


def test_a_real_prometheus_shows_and_tells(group, plane, kubectl, trainers, logdir, tmp_path):
    operator = SecureOperator(group, plane, kubectl, flags=()).start().wait_ready()
    try:
        allow(kubectl, logdir)
        sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainers[i].profiler_port, tmp_path / f"w{i}", i).start().wait() for i in range(2)]
        prometheus = Prometheus(group, tmp_path / "prometheus", [f"127.0.0.1:{p}" for p in (operator.http_port, *(s.http_port for s in sidecars))], hurried(tmp_path))
        for page in (operator.page("/metrics"), sidecars[0].page()):
            done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
            # Only Strobe's own metrics: the others have controller-runtime's names, which promtool may criticize.
            ours = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("strobe_")]
            assert not ours, ours
        wait_until(lambda: prometheus.query("leader_election_master_status == 1"), 30, "a leader")
        wait_until(lambda: "StrobeNoLeader" not in prometheus.firing(), 30, "quiet")
        for i in range(2):
            kubectl.apply(profile_request(f"good-{i}", logdir))
            assert condition(wait_finished(kubectl, f"good-{i}"), "Succeeded")["status"] == "True"
            time.sleep(2)
        # Six captures that fail because one sidecar is gone.
        sidecars[1].process.kill()
        kubectl.run("run", "refused", "--image=x", "--labels=strobe.dev/inject=true", '--overrides={"spec":{"serviceAccountName":"default"}}')
        for i in range(6):
            kubectl.apply(profile_request(f"bad-{i}", logdir, attempts=1, start={"readyTimeout": "0s"}))
            assert condition(wait_finished(kubectl, f"bad-{i}"), "Succeeded")["status"] == "False"
            time.sleep(1.5)  # Longer than the scrape interval: Prometheus sees an increase of a counter only between two scrapes.
        wait_until(lambda: "StrobeCapturesFailing" in prometheus.firing(), 30, "the alert")

        silent = []
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$namespace", ".*").replace("$__rate_interval", "1m").replace("$__range", "1h")
                if not prometheus.query(expression):
                    silent.append(target["expr"])
        # Only queries about events that did not occur here may have no data.
        assert all("damaged" in e or "refused" in e or "uninjected" in e for e in silent), silent

        wait_until(lambda: "StrobeCapturesFailing" not in prometheus.firing(), 150, "its end")
        operator.process.kill()
        wait_until(lambda: "StrobeNoLeader" in prometheus.firing(), 30, "the alert")
        operator.start().wait_ready()
        wait_until(lambda: "StrobeNoLeader" not in prometheus.firing(), 60, "its end")
    finally:
        operator.remove()
