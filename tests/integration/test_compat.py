"""Stock clients pointed at a sidecar get what they expect from a profiler server."""

import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.support.ports import free_port
from tests.support.processes import BUILD, PYTHON, wait_until


@pytest.fixture
def face(make_workers):
    port = free_port()
    make_workers(1, sidecar_flags=["--compat-listen", f"127.0.0.1:{port}"])
    return port


@pytest.fixture
def client(face, protos):
    import grpc
    from tensorflow import profiler_service_pb2 as pb

    channel = grpc.insecure_channel(f"127.0.0.1:{face}")

    def call(method, request, response, timeout=30):
        return channel.unary_unary(f"/tensorflow.ProfilerService/{method}", request_serializer=type(request).SerializeToString,
                                   response_deserializer=response.FromString)(request, timeout=timeout)

    return pb, call


def profile(pb, logdir=None, session="s1", duration_ms=200, delay=0.0, **fields):
    request = pb.ProfileRequest(session_id=session, host_name="10.0.0.1:9012", repository_root=str(logdir or ""), **fields)
    request.opts.version = 1
    request.opts.host_tracer_level = 2
    request.opts.duration_ms = duration_ms
    if delay:
        request.opts.start_timestamp_ns = time.time_ns() + int(delay * 1e9)
    return request


def test_tensorflow_client_trace(face, logdir):
    program = f"import tensorflow as tf; tf.profiler.experimental.client.trace('grpc://127.0.0.1:{face}', '{logdir}', 500)"
    result = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    traces = list(logdir.glob("plugins/profile/*/*.xplane.pb"))
    assert [t.name for t in traces] == [f"127.0.0.1_{face}.xplane.pb"]


def test_jax_collect_profile(face, logdir):
    result = subprocess.run([PYTHON, "-m", "jax.collect_profile", str(face), "500", "--host", "127.0.0.1", "--log_dir", str(logdir), "--no_perfetto_link"],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    assert list(logdir.glob("plugins/profile/*/*.xplane.pb"))


def test_xprofs_capture_button(face, group, logdir):
    logdir.mkdir()
    port = free_port()
    group.start("xprof", [BUILD / "venv/bin/xprof", "--logdir", logdir, "--port", port])
    query = urllib.parse.urlencode({"service_addr": f"127.0.0.1:{face}", "duration": 500, "is_tpu_name": "false", "worker_list": "",
                                    "num_retry": 0, "host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0, "delay": 0})

    def press():
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/data/plugin/profile/capture_profile?{query}", timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error
        except OSError:
            return None  # Not up yet.

    wait_until(press, 60, "XProf")
    assert list(logdir.glob("plugins/profile/*/*.xplane.pb"))


def test_saves_where_the_client_says(client, logdir):
    pb, call = client
    response = call("Profile", profile(pb, logdir), pb.ProfileResponse)
    assert not response.empty_trace and not response.HasField("xspace")
    assert (logdir / "s1/10.0.0.1_9012.xplane.pb").stat().st_size > 0


def test_answers_with_the_trace_when_asked(client, protos, logdir):
    from tensorflow import xplane_pb2

    pb, call = client
    response = call("Profile", profile(pb, emit_xspace=True), pb.ProfileResponse)
    space = xplane_pb2.XSpace.FromString(response.xspace)
    assert "/host:CPU" in [plane.name for plane in space.planes]


def test_the_delayed_start_is_honoured(client, protos):
    from tensorflow import xplane_pb2

    pb, call = client
    request = profile(pb, emit_xspace=True, delay=1.5)
    response = call("Profile", request, pb.ProfileResponse)
    space = xplane_pb2.XSpace.FromString(response.xspace)
    plane = next(p for p in space.planes if p.name == "Task Environment")
    names = {m.id: m.name for m in plane.stat_metadata.values()}
    start = next(s.uint64_value for s in plane.stats if names[s.metadata_id] == "profile_start_time")
    assert abs(start - request.opts.start_timestamp_ns) < 100_000_000


def test_terminate_ends_a_recording_early_and_keeps_it(client, logdir):
    pb, call = client
    timer = threading.Timer(1.0, lambda: call("Terminate", pb.TerminateRequest(session_id="long"), pb.TerminateResponse))
    timer.start()
    began = time.monotonic()
    call("Profile", profile(pb, logdir, session="long", duration_ms=20_000), pb.ProfileResponse)
    assert time.monotonic() - began < 10
    assert list((logdir / "long").glob("*.xplane.pb"))
    call("Terminate", pb.TerminateRequest(session_id="none such"), pb.TerminateResponse)


def test_codes_and_texts_are_those_of_the_field(client, logdir):
    import grpc

    pb, call = client
    thread = threading.Thread(target=lambda: call("Profile", profile(pb, logdir, duration_ms=1500), pb.ProfileResponse))
    thread.start()
    time.sleep(0.5)
    with pytest.raises(grpc.RpcError) as error:
        call("Profile", profile(pb, logdir, session="s2"), pb.ProfileResponse)
    thread.join()
    assert error.value.code() == grpc.StatusCode.INTERNAL
    assert error.value.details() == "Another profiling session active."
    with pytest.raises(grpc.RpcError) as error:
        call("Monitor", pb.MonitorRequest(duration_ms=100, monitoring_level=1), pb.MonitorResponse)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as error:
        call("Profile", profile(pb, logdir, session="../../etc"), pb.ProfileResponse)
    assert error.value.code() == grpc.StatusCode.INTERNAL and "session_id" in error.value.details()


def test_a_client_that_goes_away_frees_the_worker(client, logdir):
    import grpc

    pb, call = client
    with pytest.raises(grpc.RpcError):
        call("Profile", profile(pb, logdir, session="gone", delay=20), pb.ProfileResponse, timeout=0.5)
    time.sleep(0.5)
    call("Profile", profile(pb, logdir, session="next"), pb.ProfileResponse)
