"""ProfileSchedules and ProfileTriggers on a real API server, with an operator that has only the rights of the chart."""

import datetime
import http.client
import json
import ssl

import pytest

from tests.support.operator import WIDE_GUARD, condition
from tests.support.processes import wait_until
from tests.support.secure import ChartOperator, SecureSidecar, create


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]',
                             "--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=alert-token").lead_webhooks_here()
    yield operator.apply("--server-side").start().wait_ready()
    operator.process.kill()
    operator.remove()


def schedule(name, logdir, app="train", template=None, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileSchedule", "metadata": {"name": name},
            "spec": {"interval": "5s", **spec, "template": {"spec": {
                "target": {"selector": {"matchLabels": {"app": app}}}, "logdir": str(logdir), "duration": "100ms", "start": {"guard": WIDE_GUARD}, **(template or {})}}}}


def grant(kubectl, user, profile):
    rules = [{"apiGroups": ["strobe.dev"], "resources": ["profileschedules", "profiletriggers"], "verbs": ["create", "get", "patch"]}]
    rules += [{"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"]}] if profile else []
    kubectl.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user}, "rules": rules},
                  {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                   "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})


def patch(kubectl, name, spec, user=None):
    return kubectl.run("patch", "profsched", name, "--type=merge", "-p", json.dumps({"spec": spec}), *([f"--as={user}"] if user else []), check=False)


def status(kubectl, name):
    return kubectl.get("profsched", name).get("status", {})


def runs_of(kubectl, name):
    return kubectl.get("profilerequests", "-l", f"strobe.dev/schedule={name}")["items"]


def await_webhooks(kubectl, logdir):
    answer = lambda: create(kubectl, schedule("probe", logdir), dry_run=True).stderr  # noqa: E731
    wait_until(lambda: "failed calling webhook" not in answer(), 30, "the webhooks")


def test_who_may_have_a_schedule_and_what_is_wrong_with_it(operator, kubectl, logdir):
    await_webhooks(kubectl, logdir)
    grant(kubectl, "jane", profile=True)
    grant(kubectl, "joe", profile=False)
    refused = create(kubectl, schedule("s", logdir), user="joe")
    assert refused.returncode != 0 and 'user "joe" may not profile pods' in refused.stderr
    for change, words in [({"interval": None, "schedule": "0 25 * * *"}, 'spec.schedule: the hour "25"'),
                          ({"interval": None, "schedule": "0 0 31 2 *"}, "never occurs"),
                          ({"interval": None, "schedule": "@daily", "timeZone": "Mars/Base"}, 'spec.timeZone: "Mars/Base" is no time zone'),
                          ({"schedule": "@daily"}, "give exactly one of schedule and interval"),
                          ({"timeZone": "UTC"}, "timeZone is for schedule"),
                          ({"interval": "3s"}, "interval must be whole seconds"),
                          ({"jitter": "1m"}, "jitter must be at most interval"),
                          ({"startingDeadline": "1s"}, "startingDeadline must be at least 10s"),
                          ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
                          ({"template": {"logdir": "/elsewhere"}}, "/elsewhere"),
                          ({"template": {"ttlAfterFinished": "1s"}}, "ttlAfterFinished must be at least 1m"),
                          ({"template": {"start": {"at": "2030-01-01T00:00:00Z"}}}, "start.at is one point in time"),
                          ({"template": {"duration": "1h"}}, "duration must be between 1ms and 10m"),
                          ({"sample": {"workers": 2}, "template": {"target": {"pods": ["a"], "workers": {"policy": "Sample", "count": 1}}}}, "sample chooses the workers"),
                          ({"template": {"target": {"selector": {"matchLabels": {"app": "my app"}}}}}, "spec.template.spec.target.selector")]:
        wrong = schedule("s", logdir, **change)
        wrong["spec"] = {key: value for key, value in wrong["spec"].items() if value is not None}
        done = create(kubectl, wrong, user="jane")
        assert done.returncode != 0 and words in done.stderr, (change, done.stderr)
    long = create(kubectl, schedule("s" * 64, logdir), user="jane")
    assert long.returncode != 0 and "at most 63 characters" in long.stderr

    create(kubectl, schedule("s", logdir, app="nobody", interval="1h"), user="jane", check=True)
    requester = lambda: json.loads(kubectl.get("profsched", "s")["metadata"]["annotations"]["strobe.dev/requester"])["username"]  # noqa: E731
    assert requester() == "jane"
    # Somebody who may not profile cannot have other captures made in jane's name, but may suspend the schedule.
    assert "may not profile pods" in patch(kubectl, "s", {"interval": "5s"}, user="joe").stderr
    assert patch(kubectl, "s", {"suspend": True}, user="joe").returncode == 0
    assert requester() == "jane"
    assert patch(kubectl, "s", {"suspend": False, "interval": "5s"}).returncode == 0
    assert requester() not in ("jane", "joe"), "whoever changes what it asks for becomes the requester"
    wait_until(lambda: status(kubectl, "s").get("runs", {}).get("started"), 30, "a run after the change")


def test_runs_are_started_skipped_and_kept_as_the_spec_says(operator, group, kubectl, trainers, tmp_path, logdir):
    await_webhooks(kubectl, logdir)
    grant(kubectl, "jane", profile=True)
    sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainers[i].profiler_port, tmp_path / f"w{i}", index=i).start() for i in range(2)]
    for sidecar in sidecars:
        sidecar.wait()
    create(kubectl, schedule("llm", logdir, sample={"workers": 1}, successfulRunsHistoryLimit=1), user="jane", check=True)
    # Its runs wait for pods for half a minute.
    create(kubectl, schedule("idle", logdir, app="nobody"), user="jane", check=True)

    wait_until(lambda: status(kubectl, "llm").get("runs", {}).get("succeeded", 0) >= 3, 60, "three runs that succeed")
    recorded = [{trace.name.split(".")[0] for trace in run.glob("*.xplane.pb")} for run in sorted(logdir.glob("plugins/profile/*llm*"))]
    assert recorded[:2] == [{"worker-0"}, {"worker-1"}], "all ranks come round"
    assert all(json.loads(path.read_text())["requester"] == "jane" for path in logdir.glob("plugins/profile/*llm*/strobe.json"))
    kept = runs_of(kubectl, "llm")
    finished = [run for run in kept if condition(run, "Succeeded")["status"] == "True"]
    assert len(finished) <= 2, "one is kept, and one may have ended just now"
    owner, = kept[-1]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ProfileSchedule", "llm")

    waits = wait_until(lambda: (found := status(kubectl, "idle")).get("lastSkip") and found, 30, "a run that is skipped")
    assert waits["lastSkip"]["reason"] == "StillActive" and len(waits["active"]) == 1, waits
    assert operator.process.running() and "forbidden" not in operator.process.output().lower()

    # Another operator goes on where this one ended.
    operator.process.kill()
    operator.start().wait_ready()
    before = status(kubectl, "llm")["runs"]["succeeded"]
    wait_until(lambda: status(kubectl, "llm")["runs"]["succeeded"] > before, 30, "a run by the next operator")
    runs = status(kubectl, "llm")["runs"]
    assert runs["failed"] == runs["cancelled"] == 0, runs

    assert patch(kubectl, "llm", {"suspend": True}).returncode == 0
    wait_until(lambda: condition({"status": status(kubectl, "llm")}, "Suspended")["status"] == "True", 15, "the suspension")
    assert "nextScheduleTime" not in status(kubectl, "llm")
    kubectl.run("delete", "rolebinding", "jane")
    assert patch(kubectl, "llm", {"suspend": False}).returncode == 0
    skip = wait_until(lambda: (found := status(kubectl, "llm").get("lastSkip")) and found["reason"] == "NotAllowed" and found, 30, "a run that is not allowed")
    assert 'user "jane" may not profile' in skip["message"]
    reasons = {event["reason"] for event in kubectl.get("events.events.k8s.io")["items"] if event["regarding"]["kind"] == "ProfileSchedule"}
    assert reasons >= {"RunStarted", "RunSkipped"}, reasons
    page = operator.page("/metrics")
    for result in ("started", "succeeded", "skipped"):
        assert f'strobe_schedule_runs_total{{namespace="{kubectl.namespace}",result="{result}"}}' in page, page[-3000:]
    heading, *rows = kubectl.run("get", "profsched").stdout.splitlines()
    assert heading.split() == ["NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "SUCCEEDED", "SKIPPED", "LAST", "NEXT", "AGE"]
    assert any(row.startswith("llm ") and "every 5s" in row for row in rows)


def trigger(name, logdir, template=None, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": name},
            "spec": {"alerts": {"matchLabels": {"alertname": "StepSlow"}}, **spec, "template": {"spec": {
                "logdir": str(logdir), "duration": "100ms", "start": {"guard": WIDE_GUARD}, **(template or {})}}}}


def post_alerts(operator, *alerts):
    """Posts as Alertmanager does, and returns the status. Each alert is (pod, begin, more labels)."""
    told = [{"status": "firing", "fingerprint": f"{abs(hash((pod, begin, *sorted(labels.items())))):016x}"[:16], "startsAt": begin, "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
             "labels": {"alertname": "StepSlow", "namespace": operator.kubectl.namespace, "pod": pod, **labels}, "annotations": {}} for pod, begin, labels in alerts]
    body = {"version": "4", "groupKey": "{}", "status": "firing", "receiver": "strobe", "truncatedAlerts": 0, "alerts": told}
    trust = ssl.create_default_context(cadata=operator.authority()[0])
    connection = http.client.HTTPSConnection("localhost", operator.alert_port, timeout=30, context=trust)
    connection.request("POST", "/alerts", json.dumps(body), {"Content-Type": "application/json", "Authorization": f"Bearer {operator.alert_token}"})
    return connection.getresponse().status


def begun():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def trigger_status(kubectl, name):
    return kubectl.get("proftrig", name).get("status", {})


def test_who_may_have_a_trigger_and_what_is_wrong_with_it(operator, kubectl, logdir):
    await_webhooks(kubectl, logdir)
    grant(kubectl, "jane", profile=True)
    grant(kubectl, "joe", profile=False)
    refused = create(kubectl, trigger("t", logdir), user="joe")
    assert refused.returncode != 0 and 'user "joe" may not profile pods' in refused.stderr
    for change, words in [({"alerts": {"matchLabels": {}}}, "spec.alerts.matchLabels"),
                          ({"alerts": {"matchLabels": {"a": "b"}, "podLabel": ""}}, "what is captured is not known"),
                          ({"alerts": {"matchLabels": {"a": "b"}, "jobKind": "Deployment"}}, "spec.alerts.jobKind"),
                          ({"budget": {"coolDown": "1s"}}, "coolDown must be whole seconds"),
                          ({"budget": {"coolDown": "25h"}}, "coolDown must be whole seconds"),
                          ({"budget": {"capturesPerDay": 0}}, "spec.budget.capturesPerDay"),
                          ({"budget": {"dutyCycle": "0%"}}, "dutyCycle must be above 0%"),
                          ({"budget": {"dutyCycle": "100.1%"}}, "dutyCycle must be above 0%"),
                          ({"budget": {"bytesPerDay": "-1"}}, "bytesPerDay must be a positive quantity"),
                          ({"template": {"logdir": "/elsewhere"}}, "/elsewhere"),
                          ({"template": {"ttlAfterFinished": "1h"}}, "ttlAfterFinished must be at least 24h"),
                          ({"template": {"start": {"at": "2030-01-01T00:00:00Z"}}}, "start.at is one point in time"),
                          ({"sample": {"workers": 2}, "template": {"target": {"pods": ["a"], "workers": {"policy": "Sample", "count": 1}}}}, "sample chooses the workers")]:
        done = create(kubectl, trigger("t", logdir, **change), user="jane")
        assert done.returncode != 0 and words in done.stderr, (change, done.stderr)
    long = create(kubectl, trigger("t" * 64, logdir), user="jane")
    assert long.returncode != 0 and "at most 63 characters" in long.stderr

    create(kubectl, trigger("t", logdir, {"lookBack": "1s"}, budget={"dutyCycle": "0.5%", "bytesPerDay": "2Gi"}), user="jane", check=True)
    stored = kubectl.get("proftrig", "t")
    assert json.loads(stored["metadata"]["annotations"]["strobe.dev/requester"])["username"] == "jane"
    assert stored["spec"]["budget"] == {"coolDown": "10m", "capturesPerDay": 10, "dutyCycle": "0.5%", "bytesPerDay": "2Gi"}
    assert stored["spec"]["alerts"] == {"matchLabels": {"alertname": "StepSlow"}, "namespaceLabel": "namespace", "podLabel": "pod", "jobLabel": "", "jobKind": "Job"}
    done = kubectl.run("patch", "proftrig", "t", "--type=merge", "-p", json.dumps({"spec": {"budget": {"capturesPerDay": 99}}}), "--as=joe", check=False)
    assert "may not profile pods" in done.stderr
    ready = lambda: condition({"status": trigger_status(kubectl, "t")}, "Ready")["status"]  # noqa: E731
    wait_until(lambda: ready() == "True", 20, "the condition")
    assert "forbidden" not in operator.process.output().lower()


def test_an_alert_is_captured_once_whatever_the_operator_does(operator, group, kubectl, trainers, tmp_path, logdir):
    await_webhooks(kubectl, logdir)
    grant(kubectl, "jane", profile=True)
    sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainers[i].profiler_port, tmp_path / f"w{i}", index=i).start() for i in range(2)]
    for sidecar in sidecars:
        sidecar.wait()
        kubectl.run("label", "pod", sidecar.pod, "batch.kubernetes.io/job-name=llm")
    create(kubectl, trigger("slow", logdir, budget={"coolDown": "1h", "capturesPerDay": 5}), user="jane", check=True)
    create(kubectl, trigger("fixed", logdir, {"target": {"pods": ["worker-1"]}}, alerts={"matchLabels": {"alertname": "Fixed"}}), user="jane", check=True)
    wait_until(lambda: trigger_status(kubectl, "slow") and trigger_status(kubectl, "fixed"), 20, "the statuses")
    runs = lambda name: kubectl.get("profilerequests", "-l", f"strobe.dev/trigger={name}")["items"]  # noqa: E731

    begin = begun()
    assert post_alerts(operator, ("worker-0", begin, {})) == 200
    run, = runs("slow")  # It existed before the answer.
    assert run["spec"]["target"]["jobRef"] == {"kind": "Job", "name": "llm"}
    # Killed before anybody reads the answer: Alertmanager sends it again, together with that of another pod.
    operator.process.kill()
    operator.start().wait_ready()
    again = [("worker-0", begin, {}), ("worker-1", begin, {}), ("gone", begin, {}), ("worker-0", begin, {"namespace": "other"})]
    wait_until(lambda: post_alerts(operator, *again) == 200, 20, "the answer of the next operator")
    assert [r["metadata"]["uid"] for r in runs("slow")] == [run["metadata"]["uid"]]
    done = wait_until(lambda: (found := runs("slow")[0]) and condition(found, "Succeeded")["status"] in ("True", "False") and found, 60, "the capture")
    assert condition(done, "Succeeded")["status"] == "True", done["status"]
    traces, = [{trace.name.split(".")[0] for trace in path.glob("*.xplane.pb")} for path in logdir.glob("plugins/profile/*slow*")]
    assert traces == {"worker-0", "worker-1"}, "the whole job"

    assert post_alerts(operator, ("worker-0", begun(), {})) == 200  # Another firing, within the cool-down.
    assert post_alerts(operator, ("gone", begun(), {"alertname": "Fixed"})) == 200
    assert len(runs("slow")) == 1 and runs("fixed")[0]["spec"]["target"]["pods"] == ["worker-1"]

    def told():
        status = trigger_status(kubectl, "slow")
        skipped = status["alerts"].get("skipped", {})
        return skipped.get("CoolDown") and status.get("budgets", [{}])[0].get("bytes") and status

    status = wait_until(told, 20, "the status")
    assert status["alerts"]["skipped"] == {"AlreadyCaptured": 2, "CoolDown": 1, "PodNotFound": 1}, status
    assert status["lastCapture"]["run"] == run["metadata"]["name"] and status["lastSkip"]["reason"] == "CoolDown" and status["lastSkip"]["job"] == "Job/llm"
    budget, = status["budgets"]
    assert (budget["job"], budget["captures"], budget["recorded"]) == ("Job/llm", 1, "1s"), budget
    kubectl.run("delete", "rolebinding", "jane")
    kubectl.run("delete", "profilerequests", "-l", "strobe.dev/trigger=fixed")
    operator.process.kill()  # Forgets that it has captured this job lately.
    operator.start().wait_ready()
    wait_until(lambda: post_alerts(operator, ("worker-0", begun(), {"alertname": "Fixed"})) == 200, 20, "the answer of the next operator")
    skip = wait_until(lambda: trigger_status(kubectl, "fixed").get("lastSkip"), 20, "an alert that is not allowed")
    assert skip["reason"] == "NotAllowed" and 'user "jane" may not profile' in skip["message"]
    wait_until(lambda: {event["reason"] for event in kubectl.get("events.events.k8s.io")["items"] if event["regarding"]["kind"] == "ProfileTrigger"}
               >= {"CaptureStarted", "AlertSkipped"}, 20, "the events")
    assert 'strobe_triggers_alerts_total{outcome="NotAllowed"} 1' in operator.page("/metrics")
    heading = kubectl.run("get", "proftrig").stdout.splitlines()[0]
    assert heading.split() == ["NAME", "SUSPEND", "ACTIVE", "TAKEN", "LASTALERT", "LASTCAPTURE", "LASTSKIP", "AGE"]
    assert "forbidden" not in operator.process.output().lower()
