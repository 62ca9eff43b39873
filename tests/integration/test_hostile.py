"""Workers that send hostile answers: the operator survives all of them, and the request ends with the right cause."""

import grpc
import pytest

from tests.support.hostile import HostileWorker, MutePeer
from tests.support.metrics import total
from tests.support.operator import Operator, condition, profile_request, wait_finished

INVALID = b"\xff\xc3 broken \xf0\x9f"  # Not valid UTF-8. gRPC does not check a status message.
CUT = "\u00e9\U0001f525" * 700  # Multi-byte characters only, so that a cut at a byte limit splits a character.
HUGE = 2**63 - 1


def fail(_, context):
    context.abort(grpc.StatusCode.INTERNAL, INVALID)


def in_describe(worker):
    worker.describe = fail


def in_arm(worker):
    worker.arm = fail


def in_refusal(worker):
    worker.arm = lambda request, _: worker.pb.ArmResponse(accepted=False, refusal=worker.pb.BUSY, message="x" + CUT)


def in_watch(worker):
    worker.watch = fail_stream


def fail_stream(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, INVALID)
    yield


def in_report(worker):
    def watch(request, _):
        yield worker.report(request.capture_id, state=worker.pb.DONE, outcome=worker.pb.NO_HOST_EVENTS, message="x" + CUT, notes=["y" + CUT] * 12,
                            planes=[CUT] * 12, url="file:///x\u00e9", sha256=CUT,
                            processes=[worker.pb.ProcessReport(name=CUT, message="z" + CUT)] * 5)

    worker.watch = watch


def in_size(worker):
    def watch(request, _):
        yield worker.report(request.capture_id, state=worker.pb.DONE, outcome=worker.pb.OK, notes=["x" * 1000] * 3000)

    worker.watch = watch


def in_silence(worker):
    """Accepts each call and never answers, not even at the call's deadline."""
    worker.port = MutePeer().port


def in_numbers(worker):
    def watch(request, _):
        report = worker.report(request.capture_id, state=worker.pb.DONE, outcome=9999, started_ns=-HUGE, stopped_ns=HUGE, upload_took_ns=HUGE, bytes=2**64 - 1)
        for field in ("instant_ns", "duration_ns", "guard_ns", "clock_offset_ns", "clock_error_ns", "deadline_ns"):
            setattr(report.plan, field, HUGE if field != "guard_ns" else -HUGE)
        yield report

    worker.watch = watch
    worker.pong = lambda ping: worker.pb.ClockPong(sequence=ping.sequence, received_ns=-HUGE, sent_ns=HUGE)
    good = worker.describe

    def describe(request, context):
        answer = good(request, context)
        answer.wake_lateness_ns = answer.capture_lateness_ns = answer.lead_ns = HUGE
        return answer

    worker.describe = describe


def in_publish(worker):
    def watch(request, _):
        report = worker.report(request.capture_id, state=worker.pb.DONE, outcome=worker.pb.OK, url="file:///a", bytes=5, covers_window=True)
        report.started_ns, report.stopped_ns = report.plan.instant_ns - report.plan.guard_ns, report.plan.instant_ns + report.plan.duration_ns
        yield report

    worker.watch = watch
    worker.publish = fail


def in_adopted_plan(worker):
    """Claims to be armed already, with the largest possible instant and duration."""

    def describe(request, _):
        answer = worker.pb.DescribeResponse(protocol=1, report=worker.report(request.capture_id, state=worker.pb.ARMED))
        answer.report.plan.instant_ns = answer.report.plan.duration_ns = HUGE
        return answer

    worker.describe = describe
    worker.watch = fail_stream


CASES = {"describe": (in_describe, "Unreachable"), "arm": (in_arm, "Unreachable"), "refusal": (in_refusal, "Busy"), "watch": (in_watch, "WorkerLost"),
         "report": (in_report, "NoHostEvents"), "silence": (in_silence, "Unreachable"), "size": (in_size, "WorkerLost"), "numbers": (in_numbers, "VersionMismatch"),
         "publish": (in_publish, "AllWorkersOk"), "plan": (in_adopted_plan, "WorkerLost")}


@pytest.mark.parametrize("case", CASES)
def test_no_byte_of_a_worker_ends_the_operator(case, protos, group, kubectl, plane, logdir):
    """Covers two attempts in a row, and an operator that starts and finds the same worker."""
    lie, cause = CASES[case]
    worker = HostileWorker(f"liar-{case}")
    lie(worker)
    worker.register(kubectl)
    config = {"watch": {"namespace": kubectl.namespace}}
    operator = Operator(group, plane.kubeconfig, "first", ["--no-leader-election"], config).start().wait_ready()
    kubectl.apply(profile_request("look", logdir, attempts=2, start={"readyTimeout": "0s"}))
    ended = condition(wait_finished(kubectl, "look", 90), "Succeeded")
    assert ended["reason"] == cause, ended
    operator.process.stop()
    # Another operator finds the same request and the same worker, and keeps working.
    operator = Operator(group, plane.kubeconfig, "second", ["--no-leader-election"], config).start().wait_ready()
    kubectl.apply(profile_request("again", logdir, attempts=1, start={"readyTimeout": "0s"}))
    assert condition(wait_finished(kubectl, "again", 90), "Succeeded")["reason"] == cause
    assert operator.process.running()
    page = operator.page("/metrics")
    assert 'strobe_panics_total{where="events"} 0' in page and total(page, "strobe_panics_total") == 0, "caught, but only at the end"
    worker.stop()
