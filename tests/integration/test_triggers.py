"""From an alert or a sign to a capture: a real Alertmanager posts, and sidecars tell, to an operator that has only the rights of the chart."""

import datetime
import http.client
import json
import os
import re
import signal
import ssl
import urllib.error
import urllib.request

import pytest

from tests.support.alertmanager import Alertmanager
from tests.support.memory_group import memory_group
from tests.support.metrics import total
from tests.support.operator import WIDE_GUARD, condition, profile_request, wait_finished
from tests.support.ports import free_port
from tests.support.processes import wait_until
from tests.support.rights import grant, user_named, withdraw
from tests.support.secure import ChartOperator, SecureSidecar, grant_creating, make_pod
from tests.support.sign_rig import SlowableWorker, finished, holds_onset, runs_of, sign_trigger, warm_up


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]',
                             "--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=alert-token").lead_webhooks_here()
    yield operator.apply("--server-side").start().wait_ready()
    operator.process.kill()
    operator.remove()


def trigger(name, logdir, template=None, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": name},
            "spec": {"alerts": {"matchLabels": {"alertname": "SlowSteps"}}, **spec, "template": {"spec": {
                "logdir": str(logdir), "duration": "100ms", "start": {"guard": WIDE_GUARD}, **(template or {})}}}}


def fingerprint(pod, begin, labels):
    return f"{abs(hash((pod, begin, *sorted(labels.items())))):016x}"[:16]


def post_alerts(operator, *alerts):
    """Posts as Alertmanager does, and returns the status. Each alert is (pod, begin, more labels)."""
    told = [{"status": "firing", "fingerprint": fingerprint(pod, begin, labels), "startsAt": begin, "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
             "labels": {"alertname": "SlowSteps", "namespace": operator.kubectl.namespace, "pod": pod, **labels}, "annotations": {}} for pod, begin, labels in alerts]
    body = {"version": "4", "groupKey": "{}", "status": "firing", "receiver": "strobe", "truncatedAlerts": 0, "alerts": told}
    trust = ssl.create_default_context(cadata=operator.authority()[0])
    connection = http.client.HTTPSConnection("localhost", operator.alert_port, timeout=30, context=trust)
    connection.request("POST", "/alerts", json.dumps(body), {"Content-Type": "application/json", "Authorization": f"Bearer {operator.alert_token}"})
    return connection.getresponse().status


def begun():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def trigger_status(kubectl, name):
    return kubectl.get("proftrig", name).get("status", {})


def await_webhooks(kubectl, logdir):
    wait_until(lambda: kubectl.create(trigger("probe", logdir), dry_run=True).returncode == 0, 30, "the webhooks")


def test_alerts_of_a_job_become_one_capture(operator, group, kubectl, tmp_path, logdir):
    for index in range(2):  # Their sidecars do not answer. Which captures are asked for is the question here.
        make_pod(kubectl, f"worker-{index}", free_port(), {"batch.kubernetes.io/job-name": "llm"}, index)
    await_webhooks(kubectl, logdir)
    run = {"attempts": 1, "start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}
    kubectl.create(trigger("slow", logdir, run, budget={"coolDown": "1h"}), check=True)
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


def test_who_may_have_a_trigger_and_what_is_wrong_with_it(operator, kubectl, logdir):
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profiletriggers", profile=True)
    grant_creating(kubectl, "joe", "profiletriggers", profile=False)
    refused = kubectl.create(trigger("t", logdir), user="joe")
    assert refused.returncode != 0 and 'user "joe" may not profile pods' in refused.stderr
    for change, words in [({"alerts": {"matchLabels": {}}}, "spec.alerts.matchLabels"),
                          ({"alerts": {"matchLabels": {"a": "b"}, "podLabel": ""}}, "what is captured is not known"),
                          ({"alerts": {"matchLabels": {"a": "b"}, "jobKind": "CronJob"}}, "spec.alerts.jobKind"),
                          ({"budget": {"coolDown": "1s"}}, "coolDown must be whole seconds"),
                          ({"budget": {"coolDown": "25h"}}, "coolDown must be whole seconds"),
                          ({"budget": {"capturesPerDay": 0}}, "spec.budget.capturesPerDay"),
                          ({"budget": {"dutyCycle": "0%"}}, "dutyCycle must be above 0%"),
                          ({"budget": {"dutyCycle": "100.1%"}}, "dutyCycle must be above 0%"),
                          ({"budget": {"bytesPerDay": "-1"}}, "bytesPerDay must be a positive quantity"),
                          ({"keepFor": "23h"}, "keepFor must be whole seconds, minutes or hours, at least 24h"),
                          ({"template": {"logdir": "/elsewhere"}}, "/elsewhere"),
                          ({"template": {"ttlAfterFinished": "1h"}}, "ttlAfterFinished must be at least 24h"),
                          ({"template": {"start": {"at": "2030-01-01T00:00:00Z"}}}, "start.at is one point in time"),
                          ({"sample": {"workers": 2}, "template": {"target": {"pods": ["a"], "workers": {"policy": "Sample", "count": 1}}}}, "sample chooses the workers")]:
        done = kubectl.create(trigger("t", logdir, **change), user="jane")
        assert done.returncode != 0 and words in done.stderr, (change, done.stderr)
    long = kubectl.create(trigger("t" * 64, logdir), user="jane")
    assert long.returncode != 0 and "at most 63 characters" in long.stderr

    kubectl.create(trigger("t", logdir, {"lookBack": "1s"}, budget={"dutyCycle": "0.5%", "bytesPerDay": "2Gi"}), user="jane", check=True)
    stored = kubectl.get("proftrig", "t")
    assert json.loads(stored["metadata"]["annotations"]["strobe.dev/requester"])["username"] == "jane"
    assert stored["spec"]["budget"] == {"coolDown": "10m", "capturesPerDay": 10, "dutyCycle": "0.5%", "bytesPerDay": "2Gi"}
    assert stored["spec"]["alerts"] == {"matchLabels": {"alertname": "SlowSteps"}, "namespaceLabel": "namespace", "podLabel": "pod", "jobLabel": "", "jobKind": "Job"}
    done = kubectl.run("patch", "proftrig", "t", "--type=merge", "-p", json.dumps({"spec": {"budget": {"capturesPerDay": 99}}}), "--as=joe", check=False)
    assert "may not profile pods" in done.stderr
    ready = lambda: condition({"status": trigger_status(kubectl, "t")}, "Ready")["status"]  # noqa: E731
    wait_until(lambda: ready() == "True", 20, "the condition")
    assert "forbidden" not in operator.process.output().lower()


def test_an_alert_is_captured_once_whatever_the_operator_does(operator, group, kubectl, trainers, tmp_path, logdir):
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profiletriggers", profile=True)
    sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainer.profiler_port, tmp_path / f"w{i}", index=i).start() for i, trainer in enumerate(trainers.first(2))]
    for sidecar in sidecars:
        sidecar.wait()
        kubectl.run("label", "pod", sidecar.pod, "batch.kubernetes.io/job-name=llm")
    kubectl.create(trigger("slow", logdir, budget={"coolDown": "1h", "capturesPerDay": 5}), user="jane", check=True)
    kubectl.create(trigger("fixed", logdir, {"target": {"pods": ["worker-1"]}}, alerts={"matchLabels": {"alertname": "Fixed"}}), user="jane", check=True)
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
    assert status["alerts"]["taken"] == 1, "also what a killed operator had not written yet"
    wait_until(lambda: {event["reason"] for event in kubectl.get("events.events.k8s.io")["items"] if event["regarding"]["kind"] == "ProfileTrigger"}
               >= {"CaptureStarted", "AlertSkipped"}, 20, "the events")
    withdraw(kubectl, "jane")
    kubectl.run("delete", "profilerequests", "-l", "strobe.dev/trigger=fixed")
    operator.process.kill()  # Forgets that it has captured this job lately.
    operator.start().wait_ready()
    wait_until(lambda: post_alerts(operator, ("worker-0", begun(), {"alertname": "Fixed"})) == 200, 20, "the answer of the next operator")
    skip = wait_until(lambda: trigger_status(kubectl, "fixed").get("lastSkip"), 20, "an alert that is not allowed")
    assert skip["reason"] == "NotAllowed" and 'user "jane" may not profile' in skip["message"]
    assert 'strobe_triggers_alerts_total{outcome="NotAllowed"} 1' in operator.page("/metrics")
    heading = kubectl.run("get", "proftrig").stdout.splitlines()[0]
    assert heading.split() == ["NAME", "SUSPEND", "ACTIVE", "TAKEN", "LASTALERT", "LASTCAPTURE", "LASTSKIP", "AGE"]
    assert "forbidden" not in operator.process.output().lower()


def test_whoever_may_create_requests_neither_fools_nor_stops_a_trigger(operator, kubectl, logdir):
    """Bob may create requests, profile, and write the statuses of requests. His forged runs counted against jane's budgets, or took her runs' names."""
    make_pod(kubectl, "worker-0", free_port(), {"batch.kubernetes.io/job-name": "llm"}, 0)  # Its sidecar does not answer.
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profiletriggers", profile=True)
    grant(kubectl, "bob", [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests", "profilerequests/status"], "verbs": ["create", "get", "list", "patch"]},
                           {"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"]}], user_named("bob"))
    run = {"attempts": 1, "start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}
    limits = {"coolDown": "1h", "capturesPerDay": 2, "bytesPerDay": "1Gi", "dutyCycle": "1%"}
    kubectl.create(trigger("slow", logdir, run, budget=limits), trigger("seen", logdir, run, alerts={"matchLabels": {"alertname": "Seen"}}), user="jane", check=True)
    wait_until(lambda: trigger_status(kubectl, "slow") and trigger_status(kubectl, "seen"), 20, "the triggers")
    runs = lambda name: kubectl.get("profilerequests", "-l", f"strobe.dev/trigger={name}")["items"]  # noqa: E731

    # What bob can read off a run of another trigger of hers, for the same job.
    assert post_alerts(operator, ("worker-0", begun(), {"alertname": "Seen"})) == 200
    seen, = runs("seen")
    wait_finished(kubectl, seen["metadata"]["name"])
    alert = ("worker-0", begun(), {})
    usual = f"slow-{seen['metadata']['name'].split('-')[-2]}-"
    owner = seen["metadata"]["ownerReferences"][0] | {"name": "slow", "uid": kubectl.get("proftrig", "slow")["metadata"]["uid"]}

    def forged(name, owned=True, **spec):
        request = profile_request(name, logdir, selector={"app": "nobody"}, **spec)
        request["metadata"] |= {"labels": seen["metadata"]["labels"] | {"strobe.dev/trigger": "slow"},
                                "annotations": seen["metadata"]["annotations"] | {"strobe.dev/alert": f"{fingerprint(*alert)}@{alert[1]}", "strobe.dev/alert-name": "SlowSteps"},
                                **({"ownerReferences": [owner]} if owned else {})}
        return request

    waiting, ended = [usual + "1", "slow-a"], [usual + "2", usual + "9", "slow-b"]
    for name in waiting:
        kubectl.create(forged(name, owned=name != "slow-a", start={"readyTimeout": "10m"}), user="bob", check=True)
    for name in ended:
        kubectl.create(forged(name, owned=name != "slow-b", start={"readyTimeout": "0s"}), user="bob", check=True)
        wait_finished(kubectl, name)
        much = {"status": {"bytes": 1 << 40, "recorded": "24h", "stall": {"class": "Host", "confidence": "Firm", "verdict": "jane did it", "culprits": [{"rank": 0}]}}}
        kubectl.run("patch", "profilerequests", name, "--subresource=status", "--type=merge", "-p", json.dumps(much), "--as=bob")
    assert kubectl.get("profilerequests", usual + "9")["status"]["bytes"] == 1 << 40, "he may write it"

    assert post_alerts(operator, alert) == 200
    hers, = (found for found in runs("slow") if found["metadata"]["name"] not in waiting + ended)
    assert json.loads(hers["metadata"]["annotations"]["strobe.dev/requester"])["username"] == "jane"
    assert hers["spec"]["target"]["jobRef"]["name"] == "llm" and hers["metadata"]["name"].startswith(usual + "1-x")
    status = wait_until(lambda: (found := trigger_status(kubectl, "slow")).get("lastCapture") and found, 20, "the capture in the status")
    assert status["lastCapture"]["run"] == hers["metadata"]["name"] and status["alerts"]["taken"] == 1 and "lastStall" not in status, status
    assert [(budget["job"], budget["captures"]) for budget in status["budgets"]] == [("Job/llm", 1)] and status["budgets"][0].get("bytes", 0) == 0, status
    # The next operator knows only what is stored, and finds hers among his.
    operator.process.kill()
    operator.start().wait_ready()
    wait_until(lambda: post_alerts(operator, alert) == 200, 20, "the answer of the next operator")
    wait_until(lambda: trigger_status(kubectl, "slow")["alerts"].get("skipped") == {"AlreadyCaptured": 1}, 20, "that the alert was captured already")
    # Her trigger removes no more than its own.
    assert {found["metadata"]["name"] for found in runs("slow")} == {hers["metadata"]["name"], *waiting, *ended}
    assert "forbidden" not in operator.process.output().lower()


def test_policies_bound_together_what_starts_itself(operator, kubectl, logdir):
    for index in range(2):  # Their sidecars do not answer. Which captures are started and kept is the question here.
        make_pod(kubectl, f"worker-{index}", free_port(), {"batch.kubernetes.io/job-name": "llm"}, index)
    await_webhooks(kubectl, logdir)
    policy, = (item["metadata"]["name"] for item in kubectl.get("profpol")["items"] if item["spec"]["allowedLogdirs"] == [str(logdir)])

    def bound(**automatic):
        patch = json.dumps([{"op": "add", "path": "/spec/automatic", "value": automatic}])
        kubectl.run("patch", "profpol", policy, "--type=json", "-p", patch)

    bound(coolDown="1h", maxConcurrent=1, keep={"runs": 1})
    run = {"attempts": 1, "start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}
    nightly = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileSchedule", "metadata": {"name": "nightly"},
               "spec": {"interval": "5s", "failedRunsHistoryLimit": 100, "template": {"spec": {
                   "target": {"jobRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "llm"}}, "logdir": str(logdir), "ttlAfterFinished": "1m", **run}}}}
    kubectl.create(trigger("slow", logdir, run, budget={"coolDown": "10s"}),
           trigger("other", logdir, run, alerts={"matchLabels": {"alertname": "Other"}}), check=True)
    wait_until(lambda: trigger_status(kubectl, "slow") and trigger_status(kubectl, "other"), 20, "the triggers")
    runs = lambda: kubectl.get("profilerequests")["items"]  # noqa: E731
    skip = lambda kind, name: kubectl.get(kind, name).get("status", {}).get("lastSkip")  # noqa: E731

    assert post_alerts(operator, ("worker-0", begun(), {})) == 200
    first, = runs()
    kubectl.create(nightly, check=True)
    told = wait_until(lambda: skip("profsched", "nightly"), 30, "a run that is skipped")
    assert told["reason"] == "PolicyBudget", told
    assert f"ProfilePolicy {policy}: automatic." in told["message"] and "for Job/llm: " + first["metadata"]["name"] in told["message"], told
    assert post_alerts(operator, ("worker-1", begun(), {"alertname": "Other"})) == 200
    ended = lambda: condition(runs()[0], "Succeeded")["status"] == "False"  # noqa: E731
    wait_until(ended, 60, "the end of the run")
    operator.process.kill()  # Knows only what the requests tell.
    operator.start().wait_ready()
    wait_until(lambda: post_alerts(operator, ("worker-1", begun(), {"alertname": "Other"})) == 200, 20, "the answer of the next operator")
    told = wait_until(lambda: skip("proftrig", "other"), 20, "an alert that is skipped")
    assert told["reason"] == "PolicyBudget", told
    later = wait_until(lambda: (found := skip("profsched", "nightly")) and "automatic.coolDown" in found["message"] and found, 20, "what holds after the end")
    assert f"{first['metadata']['name']} was started at {first['metadata']['creationTimestamp']}; coolDown is " in later["message"] and "available again at " in later["message"]
    assert total(operator.page("/metrics"), "strobe_triggers_alerts_total", outcome="PolicyBudget") == 1
    wait_until(lambda: total(operator.page("/metrics"), "strobe_schedule_runs_total", result="skipped") >= 1, 20, "a run that the next operator skips")
    assert [r["metadata"]["uid"] for r in runs()] == [first["metadata"]["uid"]]

    # Budgets that are large enough: runs are started, live until they are not counted any more, and none is removed before.
    bound(capturesPerDay=1000, keep={"runs": 1})
    started = lambda: kubectl.get("profsched", "nightly")["status"]["runs"]["started"]  # noqa: E731
    wait_until(lambda: started() >= 2, 60, "runs of the schedule")
    kept = kubectl.get("profilerequests", "-l", "strobe.dev/schedule=nightly")["items"]
    assert len(kept) >= 2 and {r["spec"]["ttlAfterFinished"] for r in kept} == {"24h"}
    # Nothing counts them any more.
    bound(keep={"runs": 1})
    finished = lambda: [r for r in kubectl.get("profilerequests", "-l", "strobe.dev/schedule=nightly")["items"]  # noqa: E731
                        if condition(r, "Succeeded")["status"] == "False"]
    wait_until(lambda: len(finished()) == 1, 60, "the removal of the others")
    assert first["metadata"]["uid"] in {r["metadata"]["uid"] for r in runs()}, "another series"
    assert "forbidden" not in operator.process.output().lower()


@pytest.fixture
def limited(group):
    with memory_group(1024) as wrap:
        yield wrap


def test_a_worker_that_becomes_slow_or_stands_still_is_captured_by_its_own_sign(operator, group, kubectl, python_package, protos, tmp_path, logdir, limited):
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profiletriggers", profile=True)
    nothing = kubectl.create(sign_trigger("t", logdir, {}), user="jane")
    assert nothing.returncode != 0 and "spec.signs" in nothing.stderr
    kubectl.create(sign_trigger("slow", logdir, {"stepsSlower": {}}, budget={"coolDown": "1h"}), user="jane", check=True)
    kubectl.create(sign_trigger("stuck", logdir, {"noStepFor": "12s"}, {"attempts": 1}, budget={"coolDown": "1h"}), user="jane", check=True)
    kubectl.create(sign_trigger("other", logdir, {"noStepFor": "5s"}, {"target": {"jobRef": {"kind": "Job", "name": "other"}}}), user="jane", check=True)
    assert kubectl.get("proftrig", "slow")["spec"]["signs"] == {"stepsSlower": {"percent": 50, "steps": 10}}
    kubectl.create(sign_trigger("short", logdir, {"memoryNearLimit": {"percent": 70}}, {"attempts": 1}), user="jane", check=True)
    workers = [SlowableWorker(group, operator, python_package, f"worker-{i}", tmp_path, i, wrap=limited if i == 1 else ()).start() for i in range(3)]
    warm_up(workers)
    assert not kubectl.get("profilerequests")["items"], "what is usual is no sign"

    onset = workers[1].slow_down(3)
    run, = wait_until(finished(kubectl, "slow", 1), 60, "the capture")
    assert condition(run, "Succeeded")["status"] == "True", run["status"]
    assert run["spec"]["target"]["jobRef"] == {"kind": "Job", "name": "llm"}
    assert run["metadata"]["annotations"]["strobe.dev/sign"].startswith("worker-1: steps of train in ")
    assert holds_onset(run, workers[1], onset)
    workers[1].recover()
    status = wait_until(lambda: (found := trigger_status(kubectl, "slow")).get("lastCapture") and found, 20, "the status")
    assert (status["lastCapture"]["alert"], status["alerts"]["summary"]) == ("StepsSlower", "1/1") and "worker-1" in status["lastCapture"]["sign"], status
    assert total(operator.page("/metrics"), "strobe_triggers_signs_total", sign="StepsSlower", outcome="Taken") == 1

    workers[2].slow_down(3)  # Within the cool-down.
    skip = wait_until(lambda: trigger_status(kubectl, "slow").get("lastSkip"), 60, "a sign that is skipped")
    assert skip["reason"] == "CoolDown" and skip["job"] == "Job/llm" and "(worker-2: steps of train in " in skip["message"], skip
    assert not runs_of(kubectl, "short")
    workers[1].hold(760)
    short = wait_until(finished(kubectl, "short", 1), 60, "the capture of a worker that runs short of memory")[0]
    assert re.fullmatch(r"worker-1: uses \d+ of 1024 MiB of memory; it began .* before", short["metadata"]["annotations"]["strobe.dev/sign"])
    os.kill(workers[0].trainer.pid, signal.SIGSTOP)
    stuck = wait_until(lambda: runs_of(kubectl, "stuck"), 60, "the capture of a worker that stands still")[0]
    os.kill(workers[0].trainer.pid, signal.SIGCONT)
    assert stuck["metadata"]["annotations"]["strobe.dev/sign"].startswith("worker-0: no step of train in ")
    assert len(runs_of(kubectl, "slow")) == 1 and not runs_of(kubectl, "other"), "it asks the workers of its target only"
    assert "forbidden" not in operator.process.output().lower()
