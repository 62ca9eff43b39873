"""What happens to a trace when anything fails on its way into a bucket. The store is real (versitygw, TLS); a gate in
front of it injects the faults."""

import hashlib
import os
import random
import re
import signal
import time

import pytest

from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.store_gate import StoreGate
from tests.support.stores import Versity, run_strobe, strobe_env

TRACE_MIB = 20  # Uploaded in three parts.


def error(code, words="words of the store"):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{words}</Message></Error>"


def is_part(method, path):
    return method == "PUT" and "partNumber" in path


@pytest.fixture(scope="module")
def server(session_group, tmp_path_factory):
    return Versity(session_group, tmp_path_factory.mktemp("faults")).start()


@pytest.fixture
def gate(server):
    gate = StoreGate(server)
    yield gate
    gate.stop()
    for key in server.objects():
        server.client.delete_object(Bucket=server.bucket, Key=key)


@pytest.fixture(scope="module")
def trainer(session_group, protos):
    port = free_port()
    session_group.start("big-profiler", [PYTHON, ROOT / "tests/e2e/big_profiler.py", protos, port, TRACE_MIB]).wait_for("ready", 60)
    return port


class Sidecar:
    """A sidecar with a spool, whose store is behind the gate."""

    def __init__(self, group, trainer, gate, tmp_path):
        self.group, self.trainer, self.gate, self.spool = group, trainer, gate, tmp_path / "spool"
        self.port, self.http = free_port(), free_port()
        self.process = None

    def command(self, *flags):
        return [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{self.port}", "--framework", f"localhost:{self.trainer}", "--worker-name", "w0",
                "--insecure-plaintext", "--spool-dir", self.spool, "--http-listen", f"127.0.0.1:{self.http}", *flags]

    def start(self, *flags, prefix=(), env=None):
        import grpc
        from strobe.v1 import worker_pb2, worker_pb2_grpc

        self.pb = worker_pb2
        self.process = self.group.start(f"sidecar-{time.monotonic_ns()}", [*prefix, *self.command(*flags)],
                                        env={**strobe_env(self.gate.server), **self.gate.env(), **(env or {})}).wait_for("serves", 20)
        self.stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]))
        return self

    def arm(self, capture="c", deadline=60, shift_ns=0, max_bytes=0):
        now = time.time_ns() + shift_ns
        plan = self.pb.CapturePlan(capture_id=capture, request="a test", instant_ns=now + 400_000_000, duration_ns=20_000_000, guard_ns=100_000_000,
                                   logdir=self.gate.server.url, run=f"run-{capture}", worker="w0", deadline_ns=now + int(deadline * 1e9),
                                   tracers=self.pb.Tracers(host=2, device=1), max_bytes=max_bytes)
        return self.stub.Arm(self.pb.ArmRequest(plan=plan), timeout=10)

    def describe(self, capture):
        return self.stub.Describe(self.pb.DescribeRequest(capture_id=capture), timeout=10, wait_for_ready=True)

    def report(self, capture="c"):
        return self.describe(capture).report

    def finished(self, capture="c", timeout=60):
        wait_until(lambda: self.report(capture).state == self.pb.DONE, timeout, f"the end of {capture}")
        return self.report(capture)

    def uploading(self, capture="c"):
        wait_until(lambda: self.report(capture).state >= self.pb.UPLOADING, 30, "the upload")

    def metrics(self):
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def traces(self):
        return sorted(p.name for p in self.spool.glob("*.xplane.pb"))


@pytest.fixture
def sidecar(group, trainer, gate, tmp_path):
    return Sidecar(group, trainer, gate, tmp_path)


def assert_arrived(server, report, capture="c"):
    key = f"logs/plugins/profile/run-{capture}/w0.xplane.pb"
    data = server.read(key)
    assert hashlib.sha256(data).hexdigest() == report.sha256 and len(data) == report.bytes
    assert server.open_uploads() == []


def test_a_cut_at_every_request_costs_nothing(server, gate, tmp_path):
    """Cuts each request of a multipart upload once in its body, and once after the store has carried it out."""
    run = tmp_path / "src/plugins/profile/cut"
    run.mkdir(parents=True)
    data = os.urandom(20 << 20)
    (run / "w0.xplane.pb").write_bytes(data)
    env = {**strobe_env(server), **gate.env()}

    def copy():
        result = run_strobe(BIN / "strobe", "cp", tmp_path / "src", server.url, "--all", "--quiet", env=env)
        assert result.returncode == 0, result.stderr
        assert server.read("logs/plugins/profile/cut/w0.xplane.pb") == data
        assert server.open_uploads() == []
        server.client.delete_object(Bucket=server.bucket, Key="logs/plugins/profile/cut/w0.xplane.pb")

    copy()
    requests = gate.count()
    assert requests >= 6  # Among them: begin, three parts, finish, and a look at the object.
    for number in range(requests):
        for what in ({"cut_request_after": 4096}, {"lose_answer": True}):
            gate.clear()
            left = [number]

            def this_one(*_):
                left[0] -= 1
                return left[0] == -1

            gate.add(this_one, **what)
            copy()
            assert gate.count() > number + 1, "nothing was tried again"


def test_a_storm_passes(sidecar, server, gate):
    gate.add(lambda *_: True, times=5, answer=(503, error("SlowDown")))
    sidecar.start().arm()
    report = sidecar.finished()
    assert report.outcome == sidecar.pb.OK, report.message
    assert_arrived(server, report)
    assert "strobe_sidecar_upload_retries_total 5" in sidecar.metrics()


def test_a_storm_that_outlasts_the_capture_loses_nothing(sidecar, server, gate):
    gate.add(lambda *_: True, times=1_000_000, answer=(503, error("SlowDown", "please wait")))
    began = time.time()
    sidecar.start().arm(deadline=5)
    report = sidecar.finished()
    assert report.outcome == sidecar.pb.UPLOAD_FAILED and "HTTP 503" in report.message and "gave up after" in report.message
    assert sidecar.traces() == ["c.xplane.pb"]
    # It was recorded before the upload, which took until the deadline.
    age = re.search(r"^strobe_sidecar_spool_age_seconds (\S+)$", sidecar.metrics(), re.MULTILINE)
    assert 0 < float(age[1]) < time.time() - began
    gate.clear()
    wait_until(lambda: 'strobe_sidecar_kept_traces_total{result="arrived"} 1' in sidecar.metrics(), 60, "the kept trace")
    assert "\nstrobe_sidecar_spool_age_seconds 0\n" in sidecar.metrics()
    assert len(server.read("logs/plugins/profile/run-c/w0.xplane.pb")) > TRACE_MIB << 20
    assert sidecar.traces() == [] and server.open_uploads() == []


def test_a_slow_server_is_waited_for(sidecar, server, gate):
    gate.bytes_per_second = 8 << 20
    sidecar.start().arm()
    report = sidecar.finished()
    assert report.outcome == sidecar.pb.OK, report.message
    assert_arrived(server, report)


def test_credentials_that_expire_in_mid_upload(sidecar, server, gate):
    gate.add(is_part, times=3, answer=(400, error("ExpiredToken", "The provided token has expired.")))
    sidecar.start().arm("renewed")
    report = sidecar.finished("renewed")
    assert report.outcome == sidecar.pb.OK, report.message
    assert_arrived(server, report, "renewed")
    gate.add(is_part, times=1_000_000, answer=(400, error("ExpiredToken", "The provided token has expired.")))
    sidecar.arm("expired", deadline=4)
    report = sidecar.finished("expired")
    assert report.outcome == sidecar.pb.UPLOAD_DENIED and "ExpiredToken" in report.message
    assert sidecar.traces() == ["expired.xplane.pb"]


def test_denied_is_said_at_once_and_kept(sidecar, server, gate):
    gate.add(lambda method, _: method in ("PUT", "POST"), times=1_000_000, answer=(403, error("AccessDenied", "not you")))
    sidecar.start().arm()
    report = sidecar.finished(timeout=15)
    assert report.outcome == sidecar.pb.UPLOAD_DENIED and "AccessDenied: not you" in report.message
    assert gate.count(lambda method, _: method in ("PUT", "POST")) == 1, "no means no"
    assert sidecar.traces() == ["c.xplane.pb"]


def test_a_bucket_that_may_only_be_read(session_group, group, trainer, tmp_path):
    class ReadOnly(Versity):
        name = "versitygw-readonly"

        def command(self):
            command = super().command()
            (self.dir / "data" / self.bucket).mkdir()
            return [*command[:1], "--readonly", *command[1:]]

        def make_bucket(self):
            pass

    server = ReadOnly(session_group, tmp_path).start()
    gate = StoreGate(server)
    sidecar = Sidecar(group, trainer, gate, tmp_path).start()
    sidecar.arm()
    report = sidecar.finished(timeout=20)
    assert report.outcome == sidecar.pb.UPLOAD_DENIED and "AccessDenied" in report.message
    gate.stop()


def test_a_wrong_clock_is_named(group, gate, protos, tmp_path):
    """The clock of the whole pod is wrong: trainer and sidecar are an hour ahead of the store."""
    shift = 3_600_000_000_000
    wrong = {"LD_PRELOAD": str(BIN / "clock_shift.so"), "CLOCK_SHIFT_NS": str(shift)}
    port = free_port()
    group.start("shifted-profiler", [PYTHON, ROOT / "tests/e2e/big_profiler.py", protos, port, 1], env=wrong).wait_for("ready", 60)
    sidecar = Sidecar(group, port, gate, tmp_path).start(env=wrong)
    sidecar.arm(shift_ns=shift)
    report = sidecar.finished(timeout=20)
    assert report.outcome == sidecar.pb.UPLOAD_FAILED and "clock is wrong" in report.message


def test_a_full_disk(sidecar, server):
    """The spool's file system has too little space for the trace, which is uploaded directly instead."""
    sidecar.spool.mkdir()
    own_mounts = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    sidecar.start(prefix=[*own_mounts, "sh", "-c", f"mount -t tmpfs -o size=24m none '{sidecar.spool}' && exec \"$@\"", "sh"])
    free = sidecar.describe("c").spool_free_bytes
    assert 0 < free < TRACE_MIB << 20
    refused = sidecar.arm(max_bytes=TRACE_MIB << 21)
    assert not refused.accepted and refused.refusal == sidecar.pb.SPOOL_FULL and "bytes free" in refused.message
    assert sidecar.arm().accepted
    report = sidecar.finished()
    assert report.outcome == sidecar.pb.OK, report.message
    assert_arrived(server, report)


def test_a_full_spool_refuses_and_keeps(sidecar, server, gate):
    sidecar.start("--spool-size", "21MiB")
    gate.add(lambda *_: True, times=1_000_000, answer=(503, error("SlowDown")))
    sidecar.arm("first", deadline=4)
    assert sidecar.finished("first").outcome == sidecar.pb.UPLOAD_FAILED
    refused = sidecar.arm("second")
    assert refused.refusal == sidecar.pb.SPOOL_FULL and "1 traces" in refused.message
    assert sidecar.traces() == ["first.xplane.pb"], "nothing is dropped for something newer"


def test_sigterm_leaves_what_the_next_start_goes_on_with(sidecar, server, gate):
    gate.bytes_per_second = 6 << 20  # A part of 8 MiB takes longer than --grace.
    sidecar.start("--grace", "1").arm()
    sidecar.uploading()

    def sent():
        return gate.count(is_part)

    wait_until(lambda: sent() > 0, 20, "a part")
    sidecar.process.signal(signal.SIGTERM)
    sidecar.process.popen.wait(20)
    assert "waits in the spool" in sidecar.process.output()
    assert sidecar.traces() == ["c.xplane.pb"]
    gate.bytes_per_second = None
    sidecar.start()
    report = sidecar.finished()
    assert report.outcome == sidecar.pb.OK, report.message
    assert_arrived(server, report)
    assert sidecar.traces() == []


def test_kill_at_fifty_random_points(sidecar, server, gate):
    """Once the sidecar has reported the upload, the trace is never lost, and never stored in part."""
    dice = random.Random(7)
    killed_while_uploading = 0
    sidecar.start()
    for round_ in range(50):
        capture = f"k{round_}"
        key = f"logs/plugins/profile/run-{capture}/w0.xplane.pb"
        gate.bytes_per_second = 12 << 20  # Three parts in parallel take about 0.7 s.
        wait_until(lambda: sidecar.arm(capture).accepted, 10, "a plan that comes in time on a busy machine")
        sidecar.uploading(capture)
        time.sleep(dice.uniform(0, 0.8))
        before = sidecar.report(capture)
        sidecar.process.kill()
        killed_while_uploading += before.state == sidecar.pb.UPLOADING
        assert server.objects().get(key) in (None, before.bytes), "half an object"
        gate.bytes_per_second = None
        sidecar.start()
        report = sidecar.finished(capture)
        assert report.outcome == sidecar.pb.OK, report.message
        assert report.sha256 == before.sha256
        assert_arrived(server, report, capture)
        server.client.delete_object(Bucket=server.bucket, Key=key)
    assert killed_while_uploading > 25, "the kills came too late to show anything"
    assert sidecar.traces() == []
