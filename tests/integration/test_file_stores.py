"""Logdirs that are directories: on a network file system that hangs, and on a volume where trainers plant links and pipes."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.support.mounts import small_file_system
from tests.support.processes import BIN, wait_until
from tests.support.workers import Worker


class Hang:
    """A directory on which file calls hang between on() and off(), in processes that are started with `env`."""

    def __init__(self, directory, flag):
        self.directory, self.flag = directory, flag
        directory.mkdir()
        self.env = {"LD_PRELOAD": str(BIN / "hang_io.so"), "HANG_BELOW": str(directory), "HANG_WHILE": str(flag)}

    def on(self):
        self.flag.touch()

    def off(self):
        self.flag.unlink(missing_ok=True)


@pytest.fixture
def hang(tmp_path):
    hang = Hang(tmp_path / "nfs", tmp_path / "server-is-away")
    yield hang
    hang.off()


def beside(trainers, group, name="w0", **options):
    """A new sidecar beside a shared trainer."""
    worker = Worker(group, name, **options)
    worker.profiler_port = trainers[0].profiler_port
    return worker.start_sidecar().wait()


def command(worker, logdir, *flags, run="r"):
    return [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", logdir, "--run", run, "--duration", "100ms", "--guard", "300ms",
            "--quiet", "--attempts", "1", "--output", "json", *flags]


def capture(worker, logdir, *flags, run="r"):
    result = subprocess.run(command(worker, logdir, *flags, run=run), capture_output=True, text=True, timeout=120)
    assert result.stdout, result.stderr
    return json.loads(result.stdout)["workers"][0]


def test_a_file_system_that_hangs_holds_no_worker(group, trainers, tmp_path, hang):
    """The capture ends by its deadline, other captures go on, and the trace is uploaded when the file system is back."""
    worker = beside(trainers, group, sidecar_env=hang.env, sidecar_flags=["--spool-dir", tmp_path / "spool"])
    hang.on()
    told = capture(worker, hang.directory, "--collect-timeout", "2s")
    assert told["outcome"] == "UploadFailed" and "did not end in time" in told["message"], told
    assert capture(worker, tmp_path / "fine", run="fine")["outcome"] == "Ok", "another logdir, while the first still hangs"
    hang.off()
    trace = hang.directory / "plugins/profile/r" / f"{told['name']}.xplane.pb"
    wait_until(trace.exists, 60, "the kept trace")
    worker.sidecar.wait_for("a kept trace was uploaded", 30)
    assert trace.stat().st_size == int(told["bytes"])
    assert sorted(f.name for f in trace.parent.iterdir()) == [trace.name, "strobe.capture"], "what the first try had begun is gone"
    assert capture(worker, hang.directory, run="again")["outcome"] == "Ok"


def test_a_capture_that_hangs_can_be_called_off(group, trainers, tmp_path, hang):
    worker = beside(trainers, group, sidecar_env=hang.env)
    hang.on()
    process = subprocess.Popen(command(worker, hang.directory, "--collect-timeout", "10m"), stdout=subprocess.PIPE, text=True)
    wait_until(lambda: "armed" in worker.sidecar.output(), 20, "arming")
    time.sleep(2)  # The upload has begun or is about to.
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["workers"][0]["outcome"] == "Cancelled"
    worker.sidecar.signal(signal.SIGTERM)
    assert worker.sidecar.popen.wait(40) == 0, "a thread in the kernel does not keep the sidecar from ending"


def test_hanging_operations_are_bounded(group, trainers, tmp_path, hang):
    worker = beside(trainers, group, sidecar_env=hang.env)
    hang.on()

    def threads():
        return len(os.listdir(f"/proc/{worker.sidecar.pid}/task"))

    before = threads()
    messages = [capture(worker, hang.directory, "--collect-timeout", "1s", run=f"r{i}")["message"] for i in range(18)]
    assert any("hang already" in message for message in messages), messages
    assert threads() - before < 25
    hang.off()
    wait_until(lambda: threads() - before < 5, 30, "the end of the threads")
    assert capture(worker, hang.directory, run="after")["outcome"] == "Ok"


@pytest.fixture
def victim(tmp_path):
    """A directory that the sidecar is able to write to, but must not."""
    directory = tmp_path / "victim"
    directory.mkdir()
    (directory / "file").write_text("untouched")
    yield directory
    assert [f.name for f in directory.iterdir()] == ["file"] and (directory / "file").read_text() == "untouched"


def plant_folder(run, name, victim):
    run.rmdir()
    run.symlink_to(victim)


def plant_hidden(run, name, victim):
    (run / f".{name}.xplane.pb.partial").symlink_to(victim / "file")


def plant_hidden_new(run, name, victim):
    (run / f".{name}.xplane.pb.partial").symlink_to(victim / "new")


def plant_hidden_hard(run, name, victim):
    os.link(victim / "file", run / f".{name}.xplane.pb.partial")


def plant_pipe(run, name, victim):
    os.mkfifo(run / f".{name}.xplane.pb.partial")


def plant_target(run, name, victim):
    (run / f"{name}.xplane.pb").symlink_to(victim / "file")


@pytest.mark.parametrize("plant,ends_as", [(plant_folder, "symbolic link"), (plant_hidden, "Ok"), (plant_hidden_new, "Ok"), (plant_hidden_hard, "Ok"), (plant_pipe, "Ok"),
                                           (plant_target, "File exists")])
def test_what_a_trainer_plants_on_the_volume_leads_nowhere(group, trainers, tmp_path, victim, plant, ends_as):
    worker = beside(trainers, group)
    run = tmp_path / "logs/plugins/profile/r"
    run.mkdir(parents=True)
    plant(run, worker.address.replace(":", "_"), victim)
    told = capture(worker, tmp_path / "logs")
    if ends_as == "Ok":
        assert told["outcome"] == "Ok", told
        assert sorted(f.name for f in run.iterdir()) == sorted([f"{told['name']}.xplane.pb", "report.json", "strobe.capture", "strobe.json"])
    else:
        assert told["outcome"] == "UploadFailed" and ends_as in told["message"], told


def test_removing_a_run_that_is_a_link_removes_nothing_else(tmp_path, victim):
    runs = tmp_path / "logs/plugins/profile"
    (runs / "real").mkdir(parents=True)
    (runs / "real/w0.xplane.pb").write_bytes(b"x")
    (runs / "linked").symlink_to(victim)
    for place in (tmp_path / "logs/plugins/profile/linked", tmp_path / "logs"):
        subprocess.run([BIN / "strobe", "rm", place, "--all", "--yes"], capture_output=True, text=True, timeout=30)
    listed = subprocess.run([BIN / "strobe", "ls", tmp_path / "logs"], capture_output=True, text=True, timeout=30)
    assert "linked" not in listed.stdout


def test_a_run_that_cannot_be_deleted_does_not_keep_the_others(tmp_path):
    runs = tmp_path / "logs/plugins/profile"
    for name in ("first", "kept", "last"):
        (runs / name).mkdir(parents=True)
    with small_file_system(runs / "kept", "64k") as mounted:
        if not mounted:
            pytest.skip("mounts are not allowed here")
        for name in ("first", "kept", "last"):
            (runs / name / "w0.xplane.pb").write_bytes(b"x")
        subprocess.run(["mount", "-o", "remount,ro", runs / "kept"], check=True)
        done = subprocess.run([BIN / "strobe", "rm", tmp_path / "logs", "--all", "--yes"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1 and done.stderr.endswith("deleted 2 of 3 runs\n") and "kept" in done.stderr, done.stderr
        assert done.stdout.count("deleted ") == 2 and os.listdir(runs) == ["kept"], done.stdout
