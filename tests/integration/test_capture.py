"""The main job on a real API server with real JAX workers."""

import json
import urllib.error

from tests.conftest import read_manifest
from tests.support.operator import await_reasons, condition, profile_request, wait_finished


def test_apply_puts_traces_of_all_workers_into_the_logdir(kubectl, operator, make_workers, logdir):
    make_workers(2, kubectl)
    kubectl.apply(profile_request("look", logdir, duration="300ms", start={"guard": "200ms"}))
    kubectl.run("wait", "--for=condition=Succeeded", "profilerequest/look", "--timeout=30s")
    request = kubectl.get("profilerequest", "look")
    status = request["status"]
    assert condition(request, "Synchronized")["status"] == "True", status
    assert status["workers"] == {"matched": 2, "armed": 2, "ok": 2, "empty": 0, "failed": 0, "summary": "2/2"}
    assert status["observedGeneration"] == request["metadata"]["generation"]
    manifest = read_manifest(logdir)
    assert [w["name"] for w in manifest["workers"]] == ["worker-0", "worker-1"]
    for worker in manifest["workers"]:
        trace = next(logdir.glob(f"plugins/profile/*/{worker['name']}.xplane.pb"))
        assert trace.stat().st_size == int(worker["bytes"])
        assert worker["coversWindow"] and int(worker["events"]) > 0
    assert sum(int(w["bytes"]) for w in manifest["workers"]) == status["bytes"]
    await_reasons(kubectl, "CaptureArmed", "CaptureSucceeded", "JobReport")
    # These trainers do not wait for each other: whatever their paces are, nobody can be said to hold up the other.
    assert status["report"]["headline"].startswith(("no straggler", "not decidable", "too early to tell", "likely")), status["report"]
    report_file, = logdir.glob("plugins/profile/*/report.json")
    report = json.loads(report_file.read_text())
    assert report["headline"] == status["report"]["headline"] and report["captureId"] == manifest["captureId"]
    assert [w["worker"] for w in report["workers"]] == ["worker-0", "worker-1"] and report["missingWorkers"] == 0
    metrics = operator.page("/metrics")
    namespace = kubectl.namespace
    assert f'strobe_captures_total{{namespace="{namespace}",result="Succeeded"}} 1' in metrics
    assert f'strobe_worker_outcomes_total{{cause="Ok",namespace="{namespace}"}} 2' in metrics
    for name in ("strobe_capture_start_skew_seconds", "strobe_clock_error_seconds", "strobe_capture_stage_seconds",
                 "strobe_capture_bytes_total", "strobe_build_info", "controller_runtime_reconcile_total", "rest_client_requests_total"):
        assert name in metrics, name



def test_kubectl_get_is_narrow_and_readable(kubectl, operator, make_workers, logdir):
    make_workers(2, kubectl)
    kubectl.apply(profile_request("seen", logdir))
    status = wait_finished(kubectl, "seen")["status"]
    heading, row = kubectl.run("get", "profreq", "seen").stdout.splitlines()
    assert heading.split() == ["NAME", "STATE", "WORKERS", "SKEW", "BYTES", "AGE"]
    cells = dict(zip(heading.split(), row.split()))
    assert cells["STATE"] == "AllWorkersOk" and cells["WORKERS"] == "2/2" and cells["BYTES"] == status["size"]
    # The size is a quantity within a twentieth of the exact number.
    digits, unit = status["size"].rstrip("KMi"), status["size"].lstrip("0123456789")
    assert abs(int(digits) * {"": 1, "Ki": 2**10, "Mi": 2**20}[unit] - status["bytes"]) <= status["bytes"] / 20
    wide = kubectl.run("get", "profreq", "seen", "-o", "wide").stdout
    assert "RUN" in wide and "MESSAGE" in wide and status["run"] in wide
    assert status["viewer"] == "https://viewer.test/?run=" + status["run"].rsplit("/", 1)[1]


def test_a_job_is_found_by_its_pods(kubectl, operator, make_workers, logdir):
    for worker in make_workers(2):
        worker.register(kubectl, {"batch.kubernetes.io/job-name": "llm"})
    kubectl.apply(profile_request("look", logdir, target={"jobRef": {"kind": "Job", "name": "llm"}}))
    assert wait_finished(kubectl, "look")["status"]["workers"]["ok"] == 2


def test_cancel_during_the_delay_ends_it_at_once(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("look", logdir, start={"delay": "10m"}))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/look", "--timeout=10s")
    kubectl.run("patch", "profilerequest", "look", "--type=merge", "-p", '{"spec":{"cancel":true}}')
    request = wait_finished(kubectl, "look", 10)
    assert condition(request, "Failed")["reason"] == "Cancelled"
    assert not list(logdir.rglob("*.xplane.pb"))


def test_deletion_cancels_and_reclaims(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("kept", logdir, run="kept"))
    wait_finished(kubectl, "kept")
    kubectl.apply(profile_request("gone", logdir, run="gone", reclaimPolicy="Delete"))
    wait_finished(kubectl, "gone")
    assert list(logdir.glob("plugins/profile/gone/*"))
    kubectl.run("delete", "profilerequest", "gone", "kept", "--timeout=20s")
    assert not (logdir / "plugins/profile/gone").exists()
    assert list(logdir.glob("plugins/profile/kept/*.xplane.pb"))
    kubectl.apply(profile_request("live", logdir, start={"delay": "10m"}))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/live", "--timeout=10s")
    kubectl.run("delete", "profilerequest", "live", "--timeout=20s")


def test_a_finished_request_is_deleted_after_its_ttl(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("look", logdir, ttlAfterFinished="1s"))
    kubectl.run("wait", "--for=delete", "profilerequest/look", "--timeout=30s")


def test_a_request_before_its_pods_waits_for_them(kubectl, operator, make_workers, logdir):
    kubectl.apply(profile_request("look", logdir))
    kubectl.run("wait", "--for=jsonpath={.status.conditions[?(@.type=='Accepted')].reason}=NoTargets", "profilerequest/look", "--timeout=10s")
    make_workers(1, kubectl)
    assert condition(wait_finished(kubectl, "look"), "Succeeded")["status"] == "True"


def test_a_spec_that_only_the_operator_can_refuse_is_refused_at_once(kubectl, operator, make_workers):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("odd", "gs://bu cket/x"))
    request = wait_finished(kubectl, "odd", 10)
    assert condition(request, "Failed")["reason"] == "InvalidSpec"
    assert "bucket name with invalid characters" in condition(request, "Failed")["message"]
    kubectl.run("delete", "profilerequest", "odd", "--timeout=10s")


def test_more_workers_wanted_than_there_are(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("many", logdir, minWorkers=5, start={"readyTimeout": "1s"}))
    assert condition(wait_finished(kubectl, "many", 20), "Failed")["reason"] == "TooFewWorkers"


def test_two_requests_for_one_worker_take_turns(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("one", logdir, run="one", attempts=5), profile_request("two", logdir, run="two", attempts=5))
    for name in ("one", "two"):
        assert condition(wait_finished(kubectl, name, 30), "Succeeded")["status"] == "True"


def test_status_stays_small_and_conditions_are_well_formed(kubectl, operator, make_workers, logdir):
    make_workers(1, kubectl)
    kubectl.apply(profile_request("look", logdir))
    request = wait_finished(kubectl, "look")
    assert len(json.dumps(request)) < 10_000
    kinds = [c["type"] for c in request["status"]["conditions"]]
    assert sorted(kinds) == ["Accepted", "Failed", "Started", "Succeeded", "Synchronized"]
    assert all(c["reason"] and c["lastTransitionTime"] for c in request["status"]["conditions"])


def test_health_pages(operator):
    assert operator.page("/healthz") == "ok\n"
    assert operator.page("/readyz") == "ok\n"
    try:
        operator.page("/nothing")
        raise AssertionError("404 expected")
    except urllib.error.HTTPError as error:
        assert error.code == 404
