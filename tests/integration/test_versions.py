"""Every version of JAX in use is either captured or refused as VersionMismatch, and no capture harms its trainer
(docs/how-to/trainers.md). The trainers' own notes show that they keep training."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, ROOT, wait_until

JAX = BUILD / "jax"
VERSIONS = [*(ROOT / "tests/frameworks/jax_versions").read_text().split(), "newest"]
ANSWERS_WITH_TRACE = [v for v in VERSIONS if v != "0.4.38"]
OLD = ["0.4.38", "0.7.2", "0.8.3"]
# Not the venv's Python, which can import TensorFlow.
PLAIN_PYTHON = Path(sys.base_prefix) / "bin/python3"
TENSORFLOW = {"none": [], "stub": [JAX / "stub"], "real": [next((BUILD / "venv/lib").glob("python3*")) / "site-packages"]}


class Trainer:
    """A trainer with one version of JAX, in a working directory that Strobe must not write to."""

    def __init__(self, group, directory, version, tensorflow="none"):
        self.group, self.dir = group, directory
        self.port = free_port()
        self.cwd, self.notes, self.shared, self.logdir = (directory / name for name in ("cwd", "notes", "shared", "logdir"))
        for made in (self.cwd, self.shared, self.logdir):
            made.mkdir()
        path = ":".join(str(part) for part in (JAX / version, JAX / "common", *TENSORFLOW[tensorflow]))
        self.process = group.start("trainer", ["env", "-C", self.cwd, PLAIN_PYTHON, ROOT / "tests/e2e/train_loop.py", "--port", self.port,
                                               "--notes", self.notes], env={"PYTHONPATH": path}).wait_for("ready", 90)

    def steps(self):
        return self.notes.read_text().count("\n") if self.notes.exists() else 0

    def is_well(self):
        """Checks that it keeps training and that its working directory is empty."""
        before = self.steps()
        wait_until(lambda: self.steps() > before + 5 or not self.process.running(), 30, "another step")
        assert self.process.running(), self.process.output()
        assert list(self.cwd.iterdir()) == []
        return True

    def capture(self, *flags, sidecar=()):
        """Captures through a sidecar beside the trainer; returns the worker's entry of the manifest."""
        port = free_port()
        self.group.start(f"sidecar-{port}", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", f"localhost:{self.port}",
                                             "--worker-name", "w0", "--insecure-plaintext", *sidecar]).wait_for("serves", 10)
        return self.run("--workers", f"127.0.0.1:{port}", *flags)

    def run(self, *flags):
        guard = () if "--server-saves" in flags else ("--guard", "300ms")  # Servers that save for themselves have none.
        result = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--logdir", self.logdir, "--duration", "500ms", *guard,
                                 "--quiet", "--attempts", "1", "--output", "json", *flags], capture_output=True, text=True, timeout=120)
        return json.loads(result.stdout)["workers"][0] if result.stdout.startswith("{") else result

    def space(self):
        from tensorflow import xplane_pb2

        (path,) = self.logdir.rglob("*.xplane.pb")
        return xplane_pb2.XSpace.FromString(path.read_bytes())


def steps_in(space):
    """The names of all "train" events, which are annotations with a step number."""
    return [plane.event_metadata[event.metadata_id].name for plane in space.planes for line in plane.lines for event in line.events
            if plane.event_metadata[event.metadata_id].name == "train"]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_tensorflow_each_version_is_captured_or_refused_by_name(group, tmp_path, protos, version):
    trainer = Trainer(group, tmp_path, version)
    worker = trainer.capture()
    assert trainer.is_well()
    if version not in OLD:
        assert worker["outcome"] == "Ok", worker
        assert steps_in(trainer.space())
        return
    assert worker["outcome"] == "VersionMismatch", worker
    assert f"localhost:{trainer.port}" in worker["message"]
    assert ("before 2026" if version in ANSWERS_WITH_TRACE else "--shared-dir") in worker["message"]


@pytest.mark.parametrize("version", OLD)
def test_old_versions_are_captured_without_host_annotations(group, tmp_path, protos, version):
    """A trainer with an accelerator still gets its device trace this way."""
    trainer = Trainer(group, tmp_path, version)
    shared = ("--shared-dir", trainer.shared)
    for python in ("0", "1"):
        worker = trainer.capture("--host-tracer-level", "0", "--python-tracer-level", python, "--run", f"python-{python}", sidecar=shared)
        assert worker["outcome"] in ("Ok", "NoHostEvents"), worker
        assert int(worker["bytes"]) > 0
    worker = trainer.capture("--python-tracer-level", "1", "--run", "asked", sidecar=shared)
    assert worker["outcome"] == "VersionMismatch" and "before 2026" in worker["message"], worker
    assert trainer.is_well()
    assert list(trainer.shared.iterdir()) == []


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("tensorflow", ["stub", "real"])
def test_where_tensorflow_is_old_versions_may_be_trusted(group, tmp_path, protos, version, tensorflow):
    trainer = Trainer(group, tmp_path, version, tensorflow)
    worker = trainer.capture(sidecar=("--shared-dir", trainer.shared, "--host-tracing-on-old-servers"))
    assert worker["outcome"] == "Ok", worker
    assert steps_in(trainer.space())
    assert trainer.is_well()


def test_the_newest_version_with_the_real_tensorflow(group, tmp_path, protos):
    trainer = Trainer(group, tmp_path, "newest", "real")
    assert trainer.capture()["outcome"] == "Ok"
    assert steps_in(trainer.space())
    assert trainer.is_well()


def test_the_command_alone_is_as_careful(group, tmp_path):
    trainer = Trainer(group, tmp_path, "0.8.3")
    worker = trainer.run("--workers", f"grpc://localhost:{trainer.port}")
    assert worker["outcome"] == "VersionMismatch", worker
    assert trainer.is_well()
    saved = trainer.run("--workers", f"grpc://localhost:{trainer.port}", "--server-saves", "--run", "saved")
    assert saved["outcome"] == "VersionMismatch" and "before 2026" in saved["message"], saved
    assert (trainer.logdir / "plugins/profile/saved").is_dir()
    assert trainer.is_well()


@pytest.mark.parametrize("version", ["0.8.3", "newest"])
def test_the_question_harms_nobody(group, tmp_path, protos, version):
    """Probes for the version hundreds of times, during another client's session and, where supported, continuous profiling."""
    import grpc
    from tensorflow import profiler_service_pb2 as pb
    from tensorflow import profiler_service_pb2_grpc

    trainer = Trainer(group, tmp_path, version)
    channel = grpc.insecure_channel(f"localhost:{trainer.port}", options=[("grpc.max_receive_message_length", -1)])
    stub = profiler_service_pb2_grpc.ProfilerServiceStub(channel)
    raw = channel.unary_unary("/tensorflow.ProfilerService/GetSnapshot", request_serializer=bytes, response_deserializer=bytes)
    expected = {grpc.StatusCode.INTERNAL if version == "newest" else grpc.StatusCode.UNIMPLEMENTED}

    def ask():
        codes = set()
        for _ in range(200):
            with pytest.raises(grpc.RpcError) as refused:
                raw(b"\x0a\xff\x01", timeout=10)
            codes.add(refused.value.code())
        return codes

    request = pb.ProfileRequest(session_id="somebody", emit_xspace=True, repository_root="/proc/strobe")
    request.opts.version, request.opts.duration_ms = 1, 1500
    request.opts.host_tracer_level = 2 if version == "newest" else 0
    answers = []
    session = threading.Thread(target=lambda: answers.append(stub.Profile(request, timeout=60)))
    session.start()
    time.sleep(0.3)
    assert ask() == expected
    session.join()
    assert answers[0].xspace, "the session that was under way has its trace"
    if version == "newest":
        stub.StartContinuousProfiling(request, timeout=10)
        assert ask() == expected
        assert stub.GetSnapshot(pb.GetSnapshotRequest(), timeout=30).xspace
        stub.StopContinuousProfiling(pb.StopContinuousProfilingRequest(), timeout=30)
    assert ask() == expected
    assert trainer.is_well()
