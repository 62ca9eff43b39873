"""ProfileSchedules on a real API server, with an operator that has only the rights of the chart."""

import datetime
import json
import time

import pytest

from tests.support.operator import WIDE_GUARD, await_reasons, condition, profile_request, wait_finished
from tests.support.processes import wait_until
from tests.support.rights import grant, user_named, withdraw
from tests.support.secure import ChartOperator, SecureSidecar, grant_creating


@pytest.fixture
def operator(group, plane, kubectl, logdir):
    operator = ChartOperator(group, plane, kubectl, "--set-json", f'logdirs=["{logdir}"]').lead_webhooks_here()
    yield operator.apply("--server-side").start().wait_ready()
    operator.process.kill()
    operator.remove()


def schedule(name, logdir, app="train", template=None, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileSchedule", "metadata": {"name": name},
            "spec": {"interval": "5s", **spec, "template": {"spec": {
                "target": {"selector": {"matchLabels": {"app": app}}}, "logdir": str(logdir), "duration": "100ms", "start": {"guard": WIDE_GUARD}, **(template or {})}}}}


def patch(kubectl, name, spec, user=None):
    return kubectl.run("patch", "profsched", name, "--type=merge", "-p", json.dumps({"spec": spec}), *([f"--as={user}"] if user else []), check=False)


def status(kubectl, name):
    return kubectl.get("profsched", name).get("status", {})


def runs_of(kubectl, name):
    return kubectl.get("profilerequests", "-l", f"strobe.dev/schedule={name}")["items"]


def await_webhooks(kubectl, logdir):
    answer = lambda: kubectl.create(schedule("probe", logdir), dry_run=True).stderr  # noqa: E731
    wait_until(lambda: "failed calling webhook" not in answer(), 30, "the webhooks")


def test_who_may_have_a_schedule_and_what_is_wrong_with_it(operator, kubectl, logdir):
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profileschedules", profile=True)
    grant_creating(kubectl, "joe", "profileschedules", profile=False)
    refused = kubectl.create(schedule("s", logdir), user="joe")
    assert refused.returncode != 0 and 'user "joe" may not profile pods' in refused.stderr
    for change, words in [({"interval": None, "schedule": "0 25 * * *"}, 'spec.schedule: the hour "25"'),
                          ({"interval": None, "schedule": "0 0 31 2 *"}, "never occurs"),
                          ({"interval": None, "schedule": "@daily", "timeZone": "Mars/Base"}, 'spec.timeZone: "Mars/Base" is not a time zone'),
                          ({"schedule": "@daily"}, "give exactly one of schedule and interval"),
                          ({"timeZone": "UTC"}, "timeZone is for schedule"),
                          ({"interval": "3s"}, "interval must be whole seconds"),
                          ({"jitter": "1m"}, "jitter must be at most interval"),
                          ({"startingDeadline": "1s"}, "startingDeadline must be at least 10s"),
                          ({"keepFor": "30s"}, "keepFor must be whole seconds, minutes or hours, at least 1m"),
                          ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
                          ({"template": {"logdir": "/elsewhere"}}, "/elsewhere"),
                          ({"template": {"ttlAfterFinished": "1s"}}, "ttlAfterFinished must be at least 1m"),
                          ({"template": {"start": {"at": "2030-01-01T00:00:00Z"}}}, "start.at is one point in time"),
                          ({"template": {"duration": "1h"}}, "duration must be between 1ms and 10m"),
                          ({"sample": {"workers": 2}, "template": {"target": {"pods": ["a"], "workers": {"policy": "Sample", "count": 1}}}}, "sample chooses the workers"),
                          ({"template": {"target": {"selector": {"matchLabels": {"app": "my app"}}}}}, "spec.template.spec.target.selector")]:
        wrong = schedule("s", logdir, **change)
        wrong["spec"] = {key: value for key, value in wrong["spec"].items() if value is not None}
        done = kubectl.create(wrong, user="jane")
        assert done.returncode != 0 and words in done.stderr, (change, done.stderr)
    long = kubectl.create(schedule("s" * 64, logdir), user="jane")
    assert long.returncode != 0 and "at most 63 characters" in long.stderr

    kubectl.create(schedule("s", logdir, app="nobody", interval="1h"), user="jane", check=True)
    requester = lambda: json.loads(kubectl.get("profsched", "s")["metadata"]["annotations"]["strobe.dev/requester"])["username"]  # noqa: E731
    assert requester() == "jane"
    # Somebody who may not profile cannot have other captures made in jane's name, but may suspend the schedule.
    assert "may not profile pods" in patch(kubectl, "s", {"interval": "5s"}, user="joe").stderr
    assert patch(kubectl, "s", {"suspend": True, "keepFor": "168h"}, user="joe").returncode == 0
    assert requester() == "jane"
    assert patch(kubectl, "s", {"suspend": False, "interval": "5s"}).returncode == 0
    assert requester() not in ("jane", "joe"), "whoever changes what it asks for becomes the requester"
    wait_until(lambda: status(kubectl, "s").get("runs", {}).get("started"), 30, "a run after the change")


# Runs that end at once, because there are no workers.
ENDS_AT_ONCE = {"start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}


def requester_of(request):
    return json.loads(request["metadata"]["annotations"]["strobe.dev/requester"])["username"]


def test_whoever_may_create_requests_takes_no_run_of_a_schedule(operator, kubectl, logdir):
    """Bob may create requests and profile. He had the operator delete jane's runs, and could take her next ones."""
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profileschedules", profile=True)
    grant(kubectl, "bob", [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests"], "verbs": ["create", "get", "list"]},
                           {"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"]}], user_named("bob"))
    kubectl.create(schedule("nightly", logdir, app="nobody", template=ENDS_AT_ONCE, failedRunsHistoryLimit=4), user="jane", check=True)
    wait_until(lambda: status(kubectl, "nightly").get("runs", {}).get("failed", 0) >= 3, 60, "three runs")
    assert patch(kubectl, "nightly", {"suspend": True}).returncode == 0
    wait_until(lambda: condition({"status": status(kubectl, "nightly")}, "Suspended")["status"] == "True" and not status(kubectl, "nightly").get("active"), 30, "the suspension")
    before = status(kubectl, "nightly")["runs"]
    hers = sorted(run["metadata"]["name"] for run in runs_of(kubectl, "nightly"))
    first = kubectl.get("profilerequests", hers[0])["metadata"]

    def forged(name, owned=True):
        request = profile_request(name, logdir, selector={"app": "nobody"}, start=ENDS_AT_ONCE["start"])
        # All that can be read off a run of hers.
        request["metadata"] |= {"labels": first["labels"], "annotations": first["annotations"]}
        request["metadata"] |= {"ownerReferences": first["ownerReferences"]} if owned else {}
        return request

    for i in range(4):
        kubectl.create(forged(f"nightly-zzz-{i}"), user="bob", check=True)
    for i in range(4):
        assert condition(wait_finished(kubectl, f"nightly-zzz-{i}"), "Succeeded")["reason"] == "NoTargets"
    assert patch(kubectl, "nightly", {"failedRunsHistoryLimit": 2}).returncode == 0
    names = lambda: sorted(run["metadata"]["name"] for run in runs_of(kubectl, "nightly"))  # noqa: E731
    wait_until(lambda: len(names()) <= 6, 30, "the removal of what is too old")
    assert names() == [*hers[-2:], *(f"nightly-zzz-{i}" for i in range(4))]
    assert status(kubectl, "nightly")["runs"] == before

    # He takes the names of a minute's runs, some with her schedule as their owner.
    now = datetime.datetime.now(datetime.timezone.utc)
    created = datetime.datetime.fromisoformat(kubectl.get("profsched", "nightly")["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    due = created + datetime.timedelta(seconds=5 * ((now - created).total_seconds() // 5 + 1))
    taken = [(due + datetime.timedelta(seconds=5 * i)).strftime("nightly-%Y%m%d-%H%M%S") for i in range(12)]
    for i, name in enumerate(taken):
        kubectl.create(forged(name, owned=i % 2 == 0), user="bob", check=True)
    assert patch(kubectl, "nightly", {"suspend": False, "failedRunsHistoryLimit": 4}).returncode == 0
    ended = wait_until(lambda: (found := status(kubectl, "nightly"))["runs"]["failed"] >= before["failed"] + 2 and found, 60, "two more runs")
    assert ended["lastRun"] not in taken and ended["lastRun"][:len(taken[0])] in taken, ended
    assert requester_of(kubectl.get("profilerequests", ended["lastRun"])) == "jane"
    assert ended["runs"]["skipped"] - before["skipped"] <= 1 and ended["runs"]["cancelled"] == before["cancelled"], ended
    assert "forbidden" not in operator.process.output().lower()


def test_schedules_outlive_an_installation(operator, kubectl, logdir):
    """`helm uninstall` leaves schedules; after the next installation all of them were refused for good, with Ready=True."""
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profileschedules", profile=True)
    kubectl.create(schedule("s", logdir, app="nobody", template=ENDS_AT_ONCE), user="jane", check=True)
    wait_until(lambda: status(kubectl, "s").get("runs", {}).get("started"), 30, "a run")
    stamp = lambda: json.loads(kubectl.get("profsched", "s")["metadata"]["annotations"]["strobe.dev/requester"])  # noqa: E731
    wait_until(lambda: stamp().get("admitted"), 20, "the seal of its admission")

    operator.process.kill()
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        operator.admin.run("delete", kind, "strobe")
    kubectl.create(schedule("unseen", logdir, app="nobody", template=ENDS_AT_ONCE), check=True)
    forged = schedule("forged", logdir, app="nobody", template=ENDS_AT_ONCE)
    forged["metadata"]["annotations"] = {"strobe.dev/requester": json.dumps(stamp())}
    kubectl.create(forged, check=True)
    time.sleep(1.1)  # Creation times are whole seconds.
    operator.apply("--server-side").start().wait_ready()

    before = status(kubectl, "s")["runs"]
    wait_until(lambda: status(kubectl, "s")["runs"]["started"] > before["started"], 30, "a run by the new installation")
    assert stamp()["username"] == "jane" and condition({"status": status(kubectl, "s")}, "Ready")["status"] == "True"
    ready = lambda name: condition({"status": status(kubectl, name)}, "Ready")  # noqa: E731
    for name in ("unseen", "forged"):
        refused = wait_until(lambda: ready(name)["status"] == "False" and ready(name), 30, f"the refusal of {name}")
        assert refused["reason"] == "NotAdmitted" and "delete it and create it again, or change what its runs do" in refused["message"], refused
        assert "nextScheduleTime" not in status(kubectl, name) and not status(kubectl, name)["runs"]["started"]
    assert patch(kubectl, "unseen", {"interval": "6s"}, user="jane").returncode == 0
    wait_until(lambda: ready("unseen")["status"] == "True" and status(kubectl, "unseen")["runs"]["started"], 30, "a run after the change")


def test_runs_are_started_skipped_and_kept_as_the_spec_says(operator, group, kubectl, trainers, tmp_path, logdir):
    await_webhooks(kubectl, logdir)
    grant_creating(kubectl, "jane", "profileschedules", profile=True)
    sidecars = [SecureSidecar(group, operator, f"worker-{i}", trainer.profiler_port, tmp_path / f"w{i}", index=i).start() for i, trainer in enumerate(trainers.first(2))]
    for sidecar in sidecars:
        sidecar.wait()
    kubectl.create(schedule("llm", logdir, sample={"workers": 1}, successfulRunsHistoryLimit=1), user="jane", check=True)
    # Its runs wait for pods for half a minute.
    kubectl.create(schedule("idle", logdir, app="nobody"), user="jane", check=True)

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
    withdraw(kubectl, "jane")
    assert patch(kubectl, "llm", {"suspend": False}).returncode == 0
    skip = wait_until(lambda: (found := status(kubectl, "llm").get("lastSkip")) and found["reason"] == "NotAllowed" and found, 30, "a run that is not allowed")
    assert 'user "jane" may not profile' in skip["message"]
    await_reasons(kubectl, "RunStarted", "RunSkipped", kind="ProfileSchedule")
    page = operator.page("/metrics")
    for result in ("started", "succeeded", "skipped"):
        assert f'strobe_schedule_runs_total{{namespace="{kubectl.namespace}",result="{result}"}}' in page, page[-3000:]
    heading, *rows = kubectl.run("get", "profsched").stdout.splitlines()
    assert heading.split() == ["NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "SUCCEEDED", "SKIPPED", "LAST", "NEXT", "AGE"]
    assert any(row.startswith("llm ") and "every 5s" in row for row in rows)
