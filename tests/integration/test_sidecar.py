"""The service strobe.v1.Worker as any client may use it, tested on a sidecar beside a real trainer."""

import struct
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.ports import free_port
from tests.support.processes import BIN, memory


@pytest.fixture
def rig(make_workers, protos):
    import grpc
    from strobe.v1 import worker_pb2, worker_pb2_grpc

    worker, = make_workers(1)
    channel = grpc.insecure_channel(worker.address)
    return worker, worker_pb2_grpc.WorkerStub(channel), worker_pb2


def make_plan(pb, logdir, lead=0.6, duration=0.3, capture_id=None, **fields):
    now = time.time_ns()
    return pb.CapturePlan(capture_id=capture_id or f"c-{now}", request="a test", instant_ns=now + int(lead * 1e9),
                          duration_ns=int(duration * 1e9), guard_ns=5_000_000, logdir=str(logdir), run="run", worker="w0",
                          deadline_ns=now + 60_000_000_000, tracers=pb.Tracers(host=2, device=1), **fields)


def last(stub, pb, capture_id):
    return list(stub.Watch(pb.WatchRequest(capture_id=capture_id), timeout=30))[-1]


def test_describe_says_what_can_be_recorded(rig):
    worker, stub, pb = rig
    described = stub.Describe(pb.DescribeRequest(), timeout=5)
    assert described.worker == "worker-0" and described.protocol == 1
    assert described.sources[0].ready and described.holder == ""
    assert described.wake_lateness_ns > 0


def test_a_quiet_watch_with_keepalive_lasts(make_workers, protos, logdir):
    """The operator pings its sidecars. gRPC's servers take that for abuse unless they are told, and end the connection with "Too many pings"; a
    capture whose upload took a minute was then lost."""
    import grpc
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    worker, = make_workers(1)
    pings = [("grpc.keepalive_time_ms", 1100), ("grpc.http2.max_pings_without_data", 0), ("grpc.use_local_subchannel_pool", 1)]
    stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(worker.address, pings))
    plan = make_plan(pb, logdir, lead=8)
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    assert last(stub, pb, plan.capture_id).outcome == pb.OK


def test_a_missing_storage_configuration_holds_up_no_trainer(make_workers, protos, tmp_path):
    """Kubernetes starts the trainer when the sidecar's /healthz answers. The file may come from a Secret that does not exist."""
    import grpc
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    port, missing = free_port(), tmp_path / "storage.yaml"
    worker, = make_workers(1, sidecar_flags=["--install-dir", tmp_path / "shared", "--http-listen", f"127.0.0.1:{port}"],
                           sidecar_env={"STROBE_STORAGE_CONFIG": str(missing)})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
        assert answer.status == 200
    stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(worker.address))
    with pytest.raises(grpc.RpcError) as refused:
        stub.Arm(pb.ArmRequest(plan=make_plan(pb, "s3://bucket/logs")), timeout=5)
    assert f"cannot read storage configuration {missing}" in refused.value.details()


def test_watch_can_be_left_and_resumed(rig, logdir):
    _, stub, pb = rig
    plan = make_plan(pb, logdir, duration=1)
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    first = stub.Watch(pb.WatchRequest(capture_id=plan.capture_id))
    assert next(first).state == pb.ARMED
    first.cancel()
    time.sleep(1)
    report = last(stub, pb, plan.capture_id)
    assert report.state == pb.DONE and report.outcome == pb.OK
    assert last(stub, pb, plan.capture_id) == report, "and again, after the end"


def test_arming_is_idempotent_and_one_capture_at_a_time(rig, logdir):
    _, stub, pb = rig
    plan = make_plan(pb, logdir, lead=3)
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    refused = stub.Arm(pb.ArmRequest(plan=make_plan(pb, logdir)), timeout=5)
    assert not refused.accepted and refused.refusal == pb.BUSY and plan.capture_id in refused.message
    assert stub.Cancel(pb.CancelRequest(capture_id=plan.capture_id), timeout=5).known
    assert last(stub, pb, plan.capture_id).outcome == pb.CANCELLED
    assert not stub.Cancel(pb.CancelRequest(capture_id="unknown"), timeout=5).known


def test_errors_name_what_is_wrong(rig, logdir):
    import grpc

    _, stub, pb = rig
    for change, words in (({"run": "../x"}, "run"), ({"logdir": "relative"}, "logdir"), ({"logdir": "gs://bucket/x?endpoint=http://y"}, "is not accepted"),
                          ({"worker": ""}, "worker"), ({"duration_ns": 0}, "duration")):
        plan = make_plan(pb, logdir)
        for key, value in change.items():
            setattr(plan, key, value)
        with pytest.raises(grpc.RpcError) as error:
            stub.Arm(pb.ArmRequest(plan=plan), timeout=5)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT and words in error.value.details()
    with pytest.raises(grpc.RpcError) as error:
        list(stub.Watch(pb.WatchRequest(capture_id="unknown"), timeout=5))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert stub.Arm(pb.ArmRequest(plan=make_plan(pb, logdir, lead=0.001)), timeout=5).refusal == pb.LATE_START


def test_publish_and_reclaim_stay_within_the_run(rig, logdir):
    import grpc

    _, stub, pb = rig
    manifest = b'{"captureId": "c1"}'
    for _ in range(2):  # A call may be repeated.
        stub.Publish(pb.PublishRequest(logdir=str(logdir), run="r1", manifest=manifest), timeout=5)
    assert (logdir / "plugins/profile/r1/strobe.json").read_bytes() == manifest
    with pytest.raises(grpc.RpcError) as error:
        stub.Publish(pb.PublishRequest(logdir=str(logdir), run="r1", manifest=b'{"captureId": "c2"}'), timeout=5)
    assert error.value.code() == grpc.StatusCode.ALREADY_EXISTS and "to capture c1" in error.value.details()
    (logdir / "plugins/profile/other").mkdir()
    (logdir / "plugins/profile/other/keep").write_text("x")
    for run, capture, code in (("r1", "c2", "PERMISSION_DENIED"), ("other", "c1", "PERMISSION_DENIED"), ("r1", "", "INVALID_ARGUMENT"),
                               ("", "c1", "INVALID_ARGUMENT"), ("..", "c1", "INVALID_ARGUMENT"), ("a/../other", "c1", "INVALID_ARGUMENT")):
        with pytest.raises(grpc.RpcError) as error:
            stub.Reclaim(pb.ReclaimRequest(logdir=str(logdir), run=run, capture_id=capture), timeout=5)
        assert error.value.code() == getattr(grpc.StatusCode, code), (run, capture)
    assert (logdir / "plugins/profile/r1/strobe.json").read_bytes() == manifest
    assert stub.Reclaim(pb.ReclaimRequest(logdir=str(logdir), run="r1", capture_id="c1"), timeout=5).deleted == 1
    assert stub.Reclaim(pb.ReclaimRequest(logdir=str(logdir), run="r1", capture_id="c1"), timeout=5).deleted == 0
    assert (logdir / "plugins/profile/other/keep").exists()


def test_a_capture_finishes_within_the_grace_period_of_sigterm(rig, logdir):
    worker, stub, pb = rig
    plan = make_plan(pb, logdir, lead=0.4, duration=1)
    assert stub.Arm(pb.ArmRequest(plan=plan), timeout=5).accepted
    worker.sidecar.stop(timeout=20)
    assert worker.sidecar.popen.returncode == 0
    assert (logdir / "plugins/profile/run/w0.xplane.pb").stat().st_size > 0


def test_an_idle_sidecar_costs_next_to_nothing(rig, logdir):
    worker, stub, pb = rig
    plan = make_plan(pb, logdir)
    stub.Arm(pb.ArmRequest(plan=plan), timeout=5)
    last(stub, pb, plan.capture_id)
    used = {field: memory(worker.sidecar.pid, field) for field in ("RssAnon", "VmRSS")}
    assert used["RssAnon"] <= 8 and used["VmRSS"] <= 32, used


def test_metrics_tell_of_captures(make_workers, protos, logdir):
    import urllib.request

    import grpc
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    port = free_port()
    worker, = make_workers(1, sidecar_flags=["--http-listen", f"127.0.0.1:{port}"])
    stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(worker.address))

    def page(path):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).read().decode()

    assert page("/healthz") == "ok\n" and "strobe_sidecar_armed 0" in page("/metrics")
    plan = make_plan(pb, logdir)
    stub.Arm(pb.ArmRequest(plan=plan), timeout=5)
    assert "strobe_sidecar_armed 1" in page("/metrics")
    report = last(stub, pb, plan.capture_id)
    text = page("/metrics")
    assert 'strobe_sidecar_captures_total{cause="Ok"} 1' in text
    assert f"strobe_sidecar_upload_bytes_total {report.bytes}" in text


def field(number, value):
    """A field of a message of Protocol Buffers."""
    if isinstance(value, float):
        return bytes([number << 3 | 1]) + struct.pack("<d", value)
    if isinstance(value, bytes):
        return bytes([number << 3 | 2, len(value)]) + value
    digits = []
    while value >= 128:
        digits.append(value % 128 | 128)
        value //= 128
    return bytes([number << 3, *digits, value])


def test_tpus_are_shown_as_libtpu_tells_them(make_workers):
    """In the place of libtpu is a server of bytes, which are put together here by the numbers of the public protocol (tpu-info's tpu_metric_service.proto)."""
    import grpc

    def metric(attribute, gauge):
        return field(3, field(1, field(1, b"device-id") + field(2, attribute)) + field(2, field(1, 1_700_000_000)) + field(3, gauge))

    by_name = {
        b"tpu.runtime.tensorcore.dutycycle.percent": metric(field(3, 0), field(1, 12.5)) + metric(field(3, 1), field(1, 99.0)),
        b"tpu.runtime.hbm.memory.usage.bytes": metric(field(3, 0), field(2, 15 << 30)),
        b"tpu.runtime.hbm.memory.total.bytes": metric(field(3, 0), field(2, 16 << 30)),
        # A queue has several attributes, one of which is the device.
        b"hlo.queue.size.gauge": metric(field(6, field(1, field(1, b"core_type") + field(2, field(1, b"TENSOR"))) +
                                                 field(1, field(1, b"device_ordinal") + field(2, field(1, b"1")))), field(2, 3)),
    }

    def answer(request, context):
        name = request[2:]
        return field(1, field(1, name[:20]) + by_name[name])

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        "tpu.monitoring.runtime.RuntimeMetricService", {"GetRuntimeMetric": grpc.unary_unary_rpc_method_handler(answer)}),))
    libtpu, port = server.add_insecure_port("127.0.0.1:0"), free_port()
    server.start()
    try:
        make_workers(1, sidecar_flags=["--http-listen", f"127.0.0.1:{port}", "--tpu-metrics", f"127.0.0.1:{libtpu}"])
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    finally:
        server.stop(0)
    seen = {line.split(" ")[0]: float(line.split(" ")[1]) for line in text.splitlines() if line.startswith("strobe_sidecar_tpu_")}
    assert seen == {'strobe_sidecar_tpu_duty_cycle_percent{device="0"}': 12.5, 'strobe_sidecar_tpu_duty_cycle_percent{device="1"}': 99,
                    'strobe_sidecar_tpu_memory_used_bytes{device="0"}': 15 << 30, 'strobe_sidecar_tpu_memory_total_bytes{device="0"}': 16 << 30,
                    'strobe_sidecar_tpu_queued_programs{device="1"}': 3}


def test_the_compatibility_port_is_off_by_default(rig):
    worker, _, _ = rig
    assert "compat_port=0" in worker.sidecar.output()


def test_a_port_that_is_taken_is_an_error(group, make_workers):
    worker, = make_workers(1)
    second = group.start("second", [BIN / "strobe-sidecar", "--listen", worker.address, "--insecure-plaintext"])
    assert second.popen.wait(10) == 1
    (line,) = second.output().splitlines()
    assert "cannot listen" in line and "Address already in use" in line
