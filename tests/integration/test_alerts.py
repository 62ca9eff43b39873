"""Alerts and dashboard: promtool checks the rules with series in which each alert fires and resolves; then a real
Prometheus scrapes a real operator and real sidecars."""

import json
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest
import yaml

from tests.support.operator import condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import ROOT, TOOLS, wait_until
from tests.support.secure import SecureOperator, SecureSidecar, allow, chart_objects

RULES = ROOT / "helm/strobe/files/alerts.yaml"
DASHBOARD = ROOT / "helm/strobe/files/dashboard.json"
CHART = ROOT / "helm/strobe"
LEADER = 'leader_election_master_status{name="strobe-operator",lease_namespace="strobe-system"}'
FAILED = 'strobe_captures_total{namespace="ml",result="Failed"}'
SUCCEEDED = 'strobe_captures_total{namespace="ml",result="Succeeded"}'
SUCCESS = 'strobe_last_success_timestamp_seconds{namespace="ml"}'
ML = {"namespace": "ml"}


def rule_groups():
    return yaml.safe_load(RULES.read_text())["groups"]


def alerts():
    return {rule["alert"]: rule for group in rule_groups() for rule in group["rules"] if "alert" in rule}


def runbooks():
    """The section of each alert, by the anchor that links lead to."""
    page = (ROOT / "docs/how-to/runbooks.md").read_text()
    return dict(re.findall(r'^<a id="(\w+)"></a>\n\n### \1\n(.*?)(?=^<a id=|\Z)', page, re.MULTILINE | re.DOTALL))


def buckets(name, to_10ms, to_100ms):
    return {f'{name}_bucket{{namespace="ml",le="{le}"}}': values for le, values in (("0.01", to_10ms), ("0.1", to_100ms), ("+Inf", to_100ms))}


# For each alert: series in which it fires, the labels that it has then, and the minutes at which it fires and no longer does. A
# series has one value per minute: first the fault, then the recovery; "_" is no value. Where a counter is born with its first
# event, the fault is that birth.
BUILD = {'strobe_build_info{instance="a"}': "1x1700"}
# An operator that has been followed from its start.
FOLLOWED = {"strobe_captures_active": "0x1700", "process_start_time_seconds": "0x1700"}
# This operator, to a Prometheus that began to follow it an hour and a half after its start.
FOUND = {"strobe_captures_active": "_x90 0x120", "process_start_time_seconds": "_x90 0x120"}
FAULTS = {
    "StrobeNoLeader": ({LEADER: "1 0x20 1x60", 'leader_election_master_status{name="strobe-operator",lease_namespace="elsewhere"}': "1x80",
                        'leader_election_master_status{name="another-strobe"}': "1x80"}, {}, 20, 60),
    "StrobeReconcileErrors": ({'controller_runtime_reconcile_errors_total{controller="profilerequest"}': "0+10x40 400x120"}, {}, 20, 150),
    "StrobeQueueBacklog": ({'workqueue_depth{name="profilerequest"}': "80x30 0x60"}, {}, 20, 60),
    "StrobeWebhookErrors": ({'controller_runtime_webhook_requests_total{webhook="/inject",code="400",instance="a"}': "0+5x40 200x120", **BUILD}, {"webhook": "/inject"}, 20, 150),
    "StrobeAuthorityExpires": ({"strobe_authority_issued_timestamp_seconds": "0x519 31200x100", "strobe_authority_expiry_timestamp_seconds": "36000x519 67200x100"}, {}, 515, 525),
    "StrobeCapturesFailing": ({FAILED: "_x10 3x200", SUCCEEDED: "_x10 2x200", **FOLLOWED}, ML, 20, 100),
    "StrobeNoSuccess": ({SUCCESS: "60x10", FAILED: "_x1400 1x400", 'strobe_last_success_timestamp_seconds{namespace="ml",pod="b"}': "_x1600 96060x100", **FOLLOWED}, ML, 1500, 1650),
    "StrobeEmptyTraces": ({'strobe_worker_outcomes_total{namespace="ml",cause="NoDeviceActivity"}': "_x10 8x200", **FOLLOWED}, {**ML, "cause": "NoDeviceActivity"}, 20, 100),
    "StrobeSkewHigh": (buckets("strobe_capture_start_skew_seconds", "_x10 0x200", "_x10 1x200") | FOLLOWED, ML, 20, 100),
    "StrobeClockErrorHigh": (buckets("strobe_clock_error_seconds", "_x10 0x200", "_x10 1x200") | FOLLOWED, ML, 20, 100),
    "StrobeJobStalled": ({'strobe_stall_verdicts_total{namespace="ml",class="Host",confidence="Firm"}': "_x10 1x200", **FOLLOWED}, {**ML, "class": "Host"}, 12, 100),
    "StrobePodsNotInjected": ({'strobe_uninjected_pods{namespace="ml"}': "3x30 0x60"}, ML, 20, 60),
    "StrobeInjectionsDamaged": ({'strobe_injections_damaged_total{namespace="ml",damage="lost"}': "_x10 1x200", **FOLLOWED}, {**ML, "damage": "lost"}, 12, 100),
    "StrobeEnrollmentFails": ({'strobe_enrollments_total{result="denied"}': "0+2x30 60x60"}, {"result": "denied"}, 20, 80),
    # The sidecars' series of the same reason is 0 and must not hide the operator's.
    "StrobePeersRefused": ({'strobe_refused_peers_total{server="worker",reason="untrusted"}': "0+2x30 60x60", 'strobe_sidecar_refused_peers_total{reason="untrusted"}': "0x90"},
                           {"reason": "untrusted"}, 20, 80),
    "StrobeAlertPostsRefused": ({'strobe_alert_receiver_refused_total{reason="token"}': "0+2x30 60x60"}, {"reason": "token"}, 20, 80),
    "StrobeTracesWait": ({'strobe_sidecar_spool_age_seconds{namespace="ml"}': "0+60x90 0x120"}, ML, 80, 120),
    "StrobeTracesDropped": ({'strobe_sidecar_kept_traces_total{namespace="ml",result="dropped"}': "0x10 1x200"}, ML, 20, 100),
}
# For each alert: series that are near its fault, or belong to somebody else, and in which it never fires.
QUIET = {
    "StrobeNoLeader": {LEADER: "1x120", 'leader_election_master_status{name="profiler-operator",lease_namespace="other"}': "0x120"},
    "StrobeReconcileErrors": {'controller_runtime_reconcile_errors_total{controller="profilerequest"}': "0+2x120", 'controller_runtime_reconcile_errors_total{controller="other"}': "0+90x120"},
    "StrobeQueueBacklog": {'workqueue_depth{name="profilerequest"}': "50x120", 'workqueue_depth{name="other"}': "500x120"},
    "StrobeWebhookErrors": {'controller_runtime_webhook_requests_total{webhook="/inject",code="400",instance="stranger"}': "0+50x120",
                            'controller_runtime_webhook_requests_total{webhook="/inject",code="200",instance="a"}': "0+50x120", **BUILD},
    "StrobeAuthorityExpires": {"strobe_authority_issued_timestamp_seconds": "0x120", "strobe_authority_expiry_timestamp_seconds": "10000x120"},
    "StrobeCapturesFailing": {FAILED: "_x10 3x120", SUCCEEDED: "_x10 4x120", 'strobe_captures_total{namespace="two",result="Failed"}': "_x10 2x120",
                              **FOLLOWED},
    "StrobeNoSuccess": {SUCCESS: "60x1700", 'strobe_last_success_timestamp_seconds{namespace="new"}': "_x1400 84000x300",
                        'strobe_captures_total{namespace="new",result="Failed"}': "_x1400 1x300", **FOLLOWED},
    "StrobeEmptyTraces": {'strobe_worker_outcomes_total{namespace="ml",cause="NoDeviceActivity"}': "_x10 2x120", 'strobe_worker_outcomes_total{namespace="ml",cause="Busy"}': "_x10 50x120", **FOLLOWED},
    "StrobeSkewHigh": buckets("strobe_capture_start_skew_seconds", "_x10 9x120", "_x10 9x120") | FOLLOWED,
    "StrobeClockErrorHigh": buckets("strobe_clock_error_seconds", "_x10 9x120", "_x10 9x120") | FOLLOWED,
    "StrobeJobStalled": {'strobe_stall_verdicts_total{namespace="ml",class="Progressing",confidence="CannotTell"}': "_x10 9x120",
                         'strobe_stall_verdicts_total{namespace="ml",class="Unknown",confidence="CannotTell"}': "_x10 9x120", **FOLLOWED},
    "StrobePodsNotInjected": {'strobe_uninjected_pods{namespace="ml"}': "3x10 0x110"},
    "StrobeInjectionsDamaged": {'strobe_injections_damaged_total{namespace="ml",damage="lost"}': "_x90 7x120", **FOUND},
    "StrobeEnrollmentFails": {'strobe_enrollments_total{result="denied"}': "0x10 4x110", 'strobe_enrollments_total{result="ok"}': "0+50x120"},
    "StrobePeersRefused": {'strobe_refused_peers_total{server="worker",reason="untrusted"}': "0x10 9x110", 'strobe_sidecar_refused_peers_total{reason="expired"}': "0x10 9x110"},
    "StrobeAlertPostsRefused": {'strobe_alert_receiver_refused_total{reason="rate"}': "0+9x120", 'strobe_alert_receiver_refused_total{reason="busy"}': "0+9x120"},
    "StrobeTracesWait": {'strobe_sidecar_spool_age_seconds{namespace="ml"}': "3000x120"},
    "StrobeTracesDropped": {'strobe_sidecar_kept_traces_total{namespace="ml",result="dropped"}': "1x120", 'strobe_sidecar_kept_traces_total{namespace="ml",result="arrived"}': "0+1x120"},
}


def promtool(directory, groups, series, expected):
    """Evaluates the rules over the series; `expected` is a list of (minute, alert, labels of the one that fires or None)."""
    rules, file = directory / "rules.yaml", directory / "test.yaml"
    asked = {alert for _, alert, _ in expected}
    # Other alerts would only take time. The texts of annotations hold values, which are not what is tested.
    chosen = [{**group, "rules": [{k: v for k, v in rule.items() if k != "annotations"} for rule in group["rules"] if "record" in rule or rule["alert"] in asked]}
              for group in groups]
    rules.write_text(yaml.safe_dump({"groups": chosen}))
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": [{"series": s, "values": v} for s, v in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": [] if labels is None else [{"exp_labels": labels}]}
                            for minute, alert, labels in expected]}]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode != 0 else ""


def test_the_rules_are_rules_and_each_has_its_page():
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(alerts()) == set(FAULTS) == set(QUIET)
    for name in alerts():
        assert "\nDo:\n" in runbooks()[name], name
    assert list(runbooks()) == list(alerts()), "the page has the order of the rules"


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_and_resolves(name, tmp_path):
    series, labels, fault, end = FAULTS[name]
    firing = {"severity": alerts()[name]["labels"]["severity"], **labels}
    assert not promtool(tmp_path, rule_groups(), series, [(fault, name, firing), (end, name, None)])


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_keeps_its_cluster(name, tmp_path):
    series, labels, fault, _ = FAULTS[name]
    firing = {"severity": alerts()[name]["labels"]["severity"], "cluster": "east", **labels}
    series = {re.sub(r"\}$", ',cluster="east"}', s) if s.endswith("}") else s + '{cluster="east"}': v for s, v in series.items()}
    assert not promtool(tmp_path, rule_groups(), series, [(fault, name, firing)])


@pytest.mark.parametrize("name", QUIET)
def test_an_alert_does_not_fire_for_less(name, tmp_path):
    minutes = range(5, 1700 if name == "StrobeNoSuccess" else 120, 5)
    assert not promtool(tmp_path, rule_groups(), QUIET[name], [(minute, name, None) for minute in minutes])


@pytest.mark.parametrize("name", [n for n in FAULTS if FOLLOWED.items() <= FAULTS[n][0].items()])
def test_what_happened_before_prometheus_came_is_not_new(name, tmp_path):
    series = {s: re.sub(r"^_x\d+", "_x90", v) for s, v in FAULTS[name][0].items() if s not in FOLLOWED}
    assert not promtool(tmp_path, rule_groups(), {**series, **FOUND}, [(minute, name, None) for minute in range(90, 190, 5)])


@pytest.mark.parametrize("name", [n for n in FAULTS if FOLLOWED.items() <= FAULTS[n][0].items()])
def test_a_new_operators_first_event_fires(name, tmp_path):
    """As after an update: nobody followed this process an hour ago, because it did not exist."""
    series, labels, fault, _ = FAULTS[name]
    if name == "StrobeNoSuccess":  # Its time counts from the last success.
        return
    late = {s: f"_x180 {v}" for s, v in series.items()}
    late |= {"process_start_time_seconds": "_x180 10800x60"}
    firing = {"severity": alerts()[name]["labels"]["severity"], **labels}
    assert not promtool(tmp_path, rule_groups(), late, [(fault + 181, name, firing)])


def test_without_any_operator_nobody_leads(tmp_path):
    labels = {"severity": "critical", "name": "strobe-operator", "lease_namespace": "strobe-system"}
    assert not promtool(tmp_path, rule_groups(), {"up": "1x20"}, [(10, "StrobeNoLeader", labels)])


def chart_rules(*settings, release="strobe", namespace="strobe-system"):
    objects = chart_objects("--set", "metrics.prometheusRule.enabled=true", *settings, release=release, namespace=namespace)
    return next(o for o in objects if o["kind"] == "PrometheusRule")["spec"]["groups"]


def test_the_chart_installs_the_rules_of_the_file():
    def normal(groups):
        return [{**g, "rules": [{**r, "expr": r["expr"].strip()} for r in g["rules"]]} for g in groups]
    assert normal(chart_rules()) == normal(rule_groups())


def test_each_alert_can_be_changed(tmp_path):
    changes = {"StrobeNoLeader": {"enabled": False}, "StrobePodsNotInjected": {"threshold": 5, "for": "1h", "severity": "page", "labels": {"team": "ml"}}}
    groups = chart_rules("--set-json", f"metrics.prometheusRule.alerts={json.dumps(changes)}", "--set", "metrics.prometheusRule.alertLabels.org=us",
                         "--set", "metrics.prometheusRule.runbooks=https://docs.example.com/runbooks.html#{alert}")
    rules = {r["alert"]: r for g in groups for r in g["rules"] if "alert" in r}
    assert set(rules) == set(FAULTS) - {"StrobeNoLeader"}
    changed = rules["StrobePodsNotInjected"]
    assert changed["expr"] == "max by (cluster, namespace) (strobe_uninjected_pods) > 5" and changed["for"] == "1h"
    assert changed["labels"] == {"severity": "page", "team": "ml", "org": "us"}
    for name, rule in rules.items():
        assert rule["annotations"]["runbook_url"] == f"https://docs.example.com/runbooks.html#{name}"
        assert rule["labels"]["org"] == "us"
        if name != "StrobePodsNotInjected":
            assert (rule["expr"].strip(), rule.get("for")) == (alerts()[name]["expr"].strip(), alerts()[name].get("for"))
    series = {'strobe_uninjected_pods{namespace="ml"}': "6x90", 'strobe_uninjected_pods{namespace="few"}': "5x90"}
    assert not promtool(tmp_path, groups, series, [(55, "StrobePodsNotInjected", None), (70, "StrobePodsNotInjected", {**changed["labels"], **ML})])


@pytest.mark.parametrize("home, runbook", [("", None), ("https://example.com", None),
                                           ("https://github.com/example/strobe", "https://github.com/example/strobe/blob/main/docs/how-to/runbooks.md#StrobeNoLeader")])
def test_runbooks_lie_where_the_chart_comes_from(home, runbook, tmp_path):
    chart = tmp_path / "strobe"
    shutil.copytree(CHART, chart)
    description = {**yaml.safe_load((chart / "Chart.yaml").read_text()), "home": home}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(description))
    done = subprocess.run([TOOLS / "helm", "template", "s", chart, "--set", "metrics.prometheusRule.enabled=true"], check=True, capture_output=True, text=True)
    (rules,) = [o for o in yaml.safe_load_all(done.stdout) if o and o["kind"] == "PrometheusRule"]
    assert rules["spec"]["groups"][0]["rules"][0]["annotations"].get("runbook_url") == runbook


@pytest.fixture(scope="module")
def unreachable():
    """The chart's rules with a threshold that no fault reaches."""
    fire_below = ("StrobeNoLeader", "StrobeAuthorityExpires")
    return chart_rules("--set-json", "metrics.prometheusRule.alerts=" + json.dumps({name: {"threshold": 0 if name in fire_below else 1000000} for name in FAULTS}))


@pytest.mark.parametrize("name", FAULTS)
def test_each_threshold_can_be_changed(name, unreachable, tmp_path):
    """With a threshold that the fault does not reach, the alert stays quiet."""
    series, _, fault, _ = FAULTS[name]
    assert not promtool(tmp_path, unreachable, series, [(fault, name, None)])


def test_an_alert_belongs_to_its_release(tmp_path):
    groups = chart_rules("--set", "fullnameOverride=profiler", release="p", namespace="tools")
    series = {'leader_election_master_status{name="profiler-operator",lease_namespace="tools"}': "1x30", LEADER: "0x30"}
    assert not promtool(tmp_path, groups, series, [(20, "StrobeNoLeader", None)])
    assert promtool(tmp_path, rule_groups(), series, [(20, "StrobeNoLeader", None)])


@pytest.mark.parametrize("setting", ["alerts.StrobeNoLeder.enabled=false", "alerts.StrobeNoLeader.after=1m", "alerts.StrobeNoLeader.for=soon", "runbooks=docs/runbooks/"])
def test_changes_that_are_refused(setting):
    done = subprocess.run([TOOLS / "helm", "template", "s", CHART, "--set", f"metrics.prometheusRule.{setting}"], capture_output=True, text=True)
    assert done.returncode != 0 and ("prometheusRule" in done.stderr or "StrobeNoLeder" in done.stderr), done.stderr


def test_the_schema_knows_the_alerts():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["metrics"]["properties"]["prometheusRule"]["properties"]["alerts"]
    assert schema["propertyNames"]["enum"] == list(alerts())


def panels():
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions(window="1h", namespace=".*"):
    """Each query of the dashboard, as Grafana sends it when all clusters are chosen."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in {"$namespace": namespace, "$cluster": ".*", "$__rate_interval": window, "$__range": window}.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, expression
            yield panel["title"], expression


def exported():
    """The labels of each metric that a program of ours exports, from their sources, with those that Prometheus adds."""
    sys.path.insert(0, str(ROOT / "docs/generate"))
    import metrics

    # The targets' own labels; a ServiceMonitor or PodMonitor sets them. Sidecars have their namespace from there.
    of_target = {"cluster", "namespace", "pod", "job", "instance"}
    found = {"ALERTS": {"alertname", "alertstate", "severity", "namespace", "cluster"}, "up": of_target}
    for program in metrics.FOLDERS:
        for row in metrics.markdown(program).splitlines()[2:]:
            name, kind, labels, _ = (cell.strip(" `") for cell in row.strip("|").split(" | "))
            labels = {label.strip(" `") for label in labels.split(",") if label} | of_target
            if program == "strobe-operator" and "`namespace`" not in row:
                labels -= {"namespace"}  # It would be the operator's own.
            for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                found.setdefault(name + suffix, set()).update(labels | ({"le"} if suffix == "_bucket" else set()))
    return found


SELECTOR = re.compile(r'([a-zA-Z_:][\w:]*)?\{([^{}]*)\}')
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


def unknown(expression, known):
    """What an expression selects that no program exports."""
    for name, inner in SELECTOR.findall(expression):
        matchers = MATCHER.findall(inner)
        names = [name] if name else next(value for label, value in matchers if label == "__name__").split("|")
        for metric in names:
            if metric not in known:
                yield metric
            else:
                yield from (f"{metric}: {label}" for label, _ in matchers if label != "__name__" and label not in known[metric])
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', SELECTOR.sub(" ", expression))
    for metric in re.findall(r"(?<![\w:])(?:strobe_|controller_runtime_|workqueue_|rest_client_|leader_election_|process_)\w+(?![\w:])", bare):
        if metric not in known:
            yield metric


def test_dashboard_and_alerts_use_what_the_programs_export():
    known = exported()
    of_rules = {"cluster_job_instance:strobe_followed:1h": {"cluster", "job", "instance"},
                "cluster_namespace_result:strobe_captures:increase1h": {"cluster", "namespace", "result"},
                "cluster_namespace_cause:strobe_worker_outcomes:increase1h": {"cluster", "namespace", "cause"}}
    assert set(of_rules) == {rule["record"] for group in rule_groups() for rule in group["rules"] if "record" in rule}
    queries = [*expressions(), *((rule.get("alert", "record"), rule["expr"]) for group in rule_groups() for rule in group["rules"])]
    for where, query in queries:
        assert not list(unknown(query, known | of_rules)), where
        # What is summed by a label has this label.
        for labels in re.findall(r"\bby \(([\w, ]+)\)", query):
            in_use = set().union(*(known.get(m, of_rules.get(m, set())) for m in re.findall(r"[a-zA-Z_:][\w:]+", query))) | {"alertname", "runbook"}
            assert set(labels.split(", ")) <= in_use, (where, labels)


def test_the_check_above_finds_what_is_not_exported():
    known = exported()
    for bad, found in (('strobe_captures{result="Failed"}', "strobe_captures"), ('strobe_captures_total{reason="x"}', "strobe_captures_total: reason"),
                       ("sum(workqueue_length)", "workqueue_length"), ('strobe_captures_active{namespace=~".*"}', "strobe_captures_active: namespace")):
        assert list(unknown(bad, known)) == [found]
    assert not list(unknown('sum(increase(strobe_captures_total{result="Failed"}[1h]))', known))


def test_each_panel_explains_itself():
    dashboard = json.loads(DASHBOARD.read_text())
    assert {v["name"] for v in dashboard["templating"]["list"]} == {"datasource", "cluster", "namespace", "runbooks"}
    used = set()
    for panel in panels():
        where = panel["title"]
        assert len(panel["description"]) > 10 and len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) >= 2, where
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None, f"{where}: the first step is the base"
        assert panel["datasource"]["uid"] == "${datasource}" and all(t["datasource"]["uid"] == "${datasource}" for t in panel["targets"]), where
        assert all("$cluster" in t["expr"] for t in panel["targets"]), where
        if panel["type"] == "stat":  # Without data it has no green light.
            assert any(m["type"] == "special" and m["options"]["result"]["color"] in ("red", "blue") for m in panel["fieldConfig"]["defaults"]["mappings"]), where
        used |= {re.fullmatch(r"\$\{runbooks\}(\w+)", link["url"])[1] for link in panel["links"]}
    # What has a namespace can be filtered by it; the rest says that it is of the whole cluster.
    known = exported()
    for panel in panels():
        for target in panel["targets"]:
            for name, inner in SELECTOR.findall(target["expr"]):
                if name and "namespace" in known[name] and name not in ("ALERTS", "strobe_build_info"):
                    assert "$namespace" in inner, (panel["title"], name)
    assert used == set(FAULTS), "each alert's runbook is a link of the panel that shows its cause"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    # The first row is one screen wide, and no panel lies over another one.
    taken = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in dashboard["panels"] for dx in range(p["gridPos"]["w"]) for dy in range(p["gridPos"]["h"])]
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) == 23
    assert [p["type"] for p in panels()][:6] == ["stat"] * 6


def test_the_chart_fills_in_where_the_runbooks_are():
    def dashboard(*settings):
        objects = chart_objects("--set", "metrics.dashboard.enabled=true", *settings)
        return next(o for o in objects if o["metadata"]["name"] == "strobe-dashboard")["data"]["strobe.json"]
    assert json.loads(dashboard()) == json.loads(DASHBOARD.read_text())
    filled = dashboard("--set", "metrics.prometheusRule.runbooks=https://docs.example.com/{alert}.html")
    assert "${runbooks}" not in filled and "https://docs.example.com/StrobeNoLeader.html" in filled and "https://docs.example.com/${__data.fields.alert}.html" in filled


class Prometheus:
    """`jobs` is a list of scrape configurations."""

    def __init__(self, group, directory, jobs, rules):
        self.port = free_port()
        directory.mkdir()
        config = directory / "prometheus.yml"
        config.write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(rules)], "scrape_configs": jobs}))
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

    def value(self, expression):
        """The value of a query with one result; none without a result."""
        found = self.query(expression)
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        return {a["labels"]["alertname"] for a in json.loads(self.get("/api/v1/alerts"))["data"]["alerts"] if a["state"] == "firing"}


def hurried(directory, lease_namespace):
    """The rules, with durations that are short enough for a test."""
    text = RULES.read_text().replace('lease_namespace="strobe-system"', f'lease_namespace="{lease_namespace}"')
    text = re.sub(r"for: \d+[mh]", "for: 1s", text)
    text = re.sub(r"\[\d+[mhd]\]", "[60s]", text)
    text = re.sub(r"offset \d+[mh]", "offset 60s", text)
    text = text.replace("time() - 3600", "time() - 60")
    file = directory / "hurried.yaml"
    file.write_text(text)
    return file


def scrape_jobs(space, operator, sidecars):
    """What the chart's ServiceMonitor and PodMonitor make Prometheus do: each target has the namespace of its pod."""
    objects = chart_objects("--set", "metrics.serviceMonitor.enabled=true")
    endpoint = next(o for o in objects if o["kind"] == "ServiceMonitor")["spec"]["endpoints"][0]
    return [{"job_name": "operator", "honor_labels": endpoint.get("honorLabels", False),
             "static_configs": [{"targets": [f"127.0.0.1:{operator.http_port}"], "labels": {"namespace": "strobe-system"}}]},
            {"job_name": "sidecars", "static_configs": [{"targets": [f"127.0.0.1:{s.http_port}" for s in sidecars], "labels": {"namespace": space}}]}]


def test_a_real_prometheus_shows_and_tells(group, plane, kubectl, trainers, logdir, tmp_path):
    operator = SecureOperator(group, plane, kubectl, flags=()).start().wait_ready()
    space = kubectl.namespace
    try:
        allow(kubectl, logdir)
        sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainer.profiler_port, tmp_path / f"w{i}", i).start().wait() for i, trainer in enumerate(trainers.first(2))]
        lease_namespace = re.search(r'leader_election_master_status\{lease_namespace="([^"]+)"', operator.page("/metrics"))[1]
        prometheus = Prometheus(group, tmp_path / "prometheus", scrape_jobs(space, operator, sidecars), hurried(tmp_path, lease_namespace))
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
            # The first one too, whose counter begins with 1; and in the request's namespace, not the operator's.
            captures = f'cluster_namespace_result:strobe_captures:increase1h{{namespace="{space}",result="Succeeded"}}'
            wait_until(lambda: (prometheus.value(captures) or 0) > i + 0.5, 30, "the capture")
        # Six captures that fail because one sidecar is gone.
        sidecars[1].process.kill()
        kubectl.run("run", "refused", "--image=x", "--labels=strobe.dev/inject=true", '--overrides={"spec":{"serviceAccountName":"default"}}')
        for i in range(6):
            kubectl.apply(profile_request(f"bad-{i}", logdir, attempts=1, start={"readyTimeout": "0s"}))
            assert condition(wait_finished(kubectl, f"bad-{i}"), "Succeeded")["status"] == "False"
        wait_until(lambda: "StrobeCapturesFailing" in prometheus.firing(), 30, "the alert")

        kubectl.apply(profile_request("waits", logdir, selector={"app": "nobody"}, start={"readyTimeout": "10m"}))
        pending = f'strobe_pending_requests{{namespace="{space}"}}'
        wait_until(lambda: prometheus.value(pending) == 1, 30, "the request that waits")
        # Only queries about what did not occur here may have no data.
        silent = [query for _, query in expressions("1m", space) if not prometheus.query(query)]
        assert {re.search("strobe_[a-z]+_[a-z]+", query)[0] for query in silent} == {"strobe_injections_damaged", "strobe_uninjected_pods", "strobe_panics_total", "strobe_stall_verdicts"}, silent
        shown = dict(expressions("1m", space))
        assert prometheus.value(shown["Leader"]) == 1
        assert 0.9 < prometheus.value(shown["Authority's lifetime left"]) <= 1
        assert 0 < prometheus.value(shown["Oldest pending request"]) < 600
        causes = {found["metric"]["cause"]: found["metric"]["runbook"] for found in prometheus.query(shown["Failures by cause"])}
        assert causes["Unreachable"] == "StrobeCapturesFailing" and "Ok" not in causes, causes
        # Another namespace sees none of it.
        elsewhere = dict(expressions("1m", "elsewhere"))
        assert not prometheus.query(elsewhere["Failures by cause"]) and not prometheus.query(elsewhere["Since the last success"])

        wait_until(lambda: "StrobeCapturesFailing" not in prometheus.firing(), 150, "its end")
        operator.process.kill()
        wait_until(lambda: "StrobeNoLeader" in prometheus.firing(), 30, "the alert")
        operator.start().wait_ready()
        wait_until(lambda: "StrobeNoLeader" not in prometheus.firing(), 60, "its end")
    finally:
        operator.remove()
