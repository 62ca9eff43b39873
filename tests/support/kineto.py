"""Trainers that look for Kineto's daemon, the sidecar that is it, and what others may send to its socket."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

from tests.support.inproc import Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, wait_until

DAEMON = b"\0dynolog\0"
# What the sidecar says when a process, or the sidecar itself, had to wait too long for a processor.
BUSY_MACHINE = ("read the request too late", "was not seen in time", "before the start; start later", "after the instant")
# Kineto drops an order whose start is near when it reads it, and says nothing. For tests that are not about this.
DROPPED = "read the request but did not begin"


def question(pids, kind=2):
    """The datagram by which a process asks what it should record; kind 0 says that its profiler is in use."""
    body = struct.pack(f"<iiq{len(pids)}i", kind, len(pids), 0, *pids)
    return struct.pack("<Q32s", len(body), b"req") + body


def client_socket(name):
    """A socket as Kineto's clients have it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(b"\0dynoconfigclient" + name + b"\0")
    return made


class Pod:
    """A sidecar and its trainers, with a directory whose name is short enough for Kineto."""

    def __init__(self, group):
        self.group = group
        self.dir = Path(tempfile.mkdtemp(prefix="strobe-k-", dir="/tmp"))
        self.kineto = self.dir / "strobe/kineto"
        self.agent = self.dir / "strobe/agent"
        self.port, self.http = free_port(), free_port()
        self.started = 0
        self.sidecar = None

    def start_sidecar(self, *flags):
        self.started += 1
        self.sidecar = self.group.start(f"sidecar-{self.started}", [
            BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{self.port}", "--http-listen", f"127.0.0.1:{self.http}", "--framework",
            f"127.0.0.1:{free_port()}", "--agent-dir", self.agent, "--kineto-daemon", self.kineto, "--insecure-plaintext", *flags])
        self.sidecar.wait_for("strobe-sidecar serves", 20)
        return self

    def trainer(self, name="train", package="", command=None, **env):
        """A training loop with the environment of an injected pod."""
        directory = self.dir / name
        directory.mkdir()
        (directory / "strobe").symlink_to(self.dir / "strobe")
        env = {"KINETO_USE_DAEMON": "1", "KINETO_CONFIG": str(self.kineto / "libkineto.conf"), "KINETO_ONDEMAND_TRACE_DIR": f"{self.kineto}/", **env}
        trainer = Trainer(self.group, directory, package, command=command, env=env)
        return trainer

    def sources(self):
        """What the sidecar says of its sources, and how early it must be told. Needs the fixture `protos`."""
        import grpc
        from strobe.v1 import worker_pb2 as pb

        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        describe = channel.unary_unary("/strobe.v1.Worker/Describe", request_serializer=pb.DescribeRequest.SerializeToString,
                                       response_deserializer=pb.DescribeResponse.FromString)
        answer = describe(pb.DescribeRequest(), timeout=10)
        channel.close()
        return {source.address: source for source in answer.sources if source.kind == pb.SOURCE_FRAMEWORK}, answer.lead_ns / 1e9

    def await_clients(self, count, timeout=30):
        """Waits until so many processes with PyTorch ask, each often enough to know its interval."""
        def there():
            known = [s for s in self.sources()[0].values() if s.ready and "Kineto, polls every" in s.detail and "every 5s" not in s.detail]
            return len(known) == count
        wait_until(there, timeout, f"{count} processes asking")

    def refused(self):
        """The daemon's counters, by reason."""
        import urllib.request

        page = urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10).read().decode()
        lines = [line.split() for line in page.splitlines() if line.startswith("strobe_sidecar_kineto_refused_total{")]
        return {name.split('"')[1]: float(value) for name, value in lines}

    def begin(self, *flags, run="r"):
        return subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{self.port}", "--logdir",
                                 self.dir / "logdir", "--run", run, "--output", "json", "--attempts", "1", "--guard", "100ms", *flags],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def capture(self, *flags, run="r", duration="500ms", busy=BUSY_MACHINE):
        """Returns the worker's row of the manifest, with the name of its run. Repeats what a busy machine made fail."""
        for attempt in range(3):
            worker = result(self.begin("--duration", duration, *flags, run=f"{run}-{attempt}"))
            worker["run"] = f"{run}-{attempt}"
            print(worker["run"], worker["outcome"], worker["message"])
            if not any(reason in worker["message"] for reason in busy):
                break
        return worker

    def leftovers(self):
        return sorted(path.name for path in self.kineto.iterdir() if path.name.startswith("strobe-"))

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def result(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    try:
        manifest = json.loads(out)
        begin = int(manifest["instantNs"])
        return {**manifest["workers"][0], "window": (begin, begin + int(manifest["durationNs"]))}
    except ValueError:
        raise AssertionError(f"no manifest: {out}\n{err}") from None


def kineto_rows(worker):
    return [row for row in worker["processes"] if row["name"].startswith("torch ")]


def await_phase(process, phase):
    for line in process.stderr:
        if phase in line:
            return
    raise AssertionError(f"no {phase}")


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.popen.wait(10)
