"""Jobs of gloo ranks of which one misbehaves (tests/e2e/stuck_loop.py), beside a real sidecar, and what the court says of them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.evidence import AGENT
from tests.support.inproc import TORCH_PYTHON
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, wait_until

LOOP = ROOT / "tests/e2e/stuck_loop.py"
needs_torch = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


def environments(folders):
    """What the ranks of one job have in their environments; each has Strobe's folder of its pod."""
    port, pods = free_port(), [str(folder) for folder in folders]
    return [{"STROBE_DIR": pod, "STROBE_AGENT": str(AGENT), "PYTHONWARNINGS": "ignore", "RANK": str(rank), "LOCAL_RANK": str(pods[:rank].count(pod)),
             "WORLD_SIZE": str(len(pods)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
            for rank, pod in enumerate(pods)]


class ForkedRank:
    """Behaves as a Process of tests/support/processes.py."""

    def __init__(self, log):
        self.log = log

    def says(self, text):
        return self.log.exists() and text in self.log.read_text()

    @property
    def pid(self):
        return int(self.log.read_text().split("pid ")[1].split()[0])

    def running(self):
        return Path(f"/proc/{self.pid}").exists()

    def wait_for(self, text, timeout):
        try:
            wait_until(lambda: self.says(text), timeout, text)
        except TimeoutError as error:
            raise RuntimeError(self.log.read_text()[-3000:] if self.log.exists() else "it was not forked") from error
        return self

    def kill(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        wait_until(lambda: not self.running(), 20, "the rank's end")


class Forks:
    """A program that has imported PyTorch, which takes longer than all else, and forks the ranks of one job after the other."""

    def __init__(self, group, directory, package, python=TORCH_PYTHON):
        self.dir, self.count = directory, 0
        fifo = directory / "jobs"
        os.mkfifo(fifo)
        group.start("forks", [python, LOOP, "--jobs", fifo], env={"PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore"}).wait_for("ready", 120)
        self.orders = open(fifo, "w", buffering=1)

    def begin(self, environment, arguments, network=None):
        self.count += 1
        log = self.dir / f"{self.count}-{environment['RANK']}.log"
        self.orders.write(json.dumps({"log": str(log), "env": environment, "arguments": arguments, "network": network}) + "\n")
        return ForkedRank(log)


class StuckJob:
    """Ranks of one pod. With `forks`, they are forked by it, otherwise run by `python`."""

    RANKS, BAD = 4, 2

    def __init__(self, group, directory, package, fault, step=20, forks=None, python=TORCH_PYTHON):
        self.dir = directory / "strobe"
        self.dir.mkdir()
        address = f"127.0.0.1:{free_port()}"
        self.sidecar = group.start("sidecar", [BIN / "strobe-sidecar", "--listen", address, "--framework", f"127.0.0.1:{free_port()}", "--agent-dir",
                                               self.dir / "agent", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        arguments = [fault, str(self.BAD), str(step)]
        self.ranks = [forks.begin(environment, arguments) if forks else
                      group.start(f"rank-{environment['RANK']}", [python, LOOP, *arguments], env={"PYTHONPATH": str(package), **environment})
                      for environment in environments([self.dir] * self.RANKS)]
        for process in self.ranks:
            process.wait_for("ready", 120)
        if fault != "none":
            self.ranks[self.BAD].wait_for("stuck", 60)
        self.tmp = directory
        import grpc
        from strobe.v1 import worker_pb2, worker_pb2_grpc
        self.pb, self.stub = worker_pb2, worker_pb2_grpc.WorkerStub(grpc.insecure_channel(address))

    def groups_are_told(self):
        wait_until(lambda: len(list((self.dir / "agent").glob("*.groups"))) == self.RANKS, 30, "all groups")

    def evidence(self, **request):
        return self.stub.ReadEvidence(self.pb.ReadEvidenceRequest(**request), timeout=60)

    def verdict(self, response):
        folder = self.tmp / f"evidence-{time.monotonic_ns()}"
        folder.mkdir()
        for file in response.files:
            (folder / file.name).write_bytes(file.content)
        done = subprocess.run([BIN / "strobe", "why", folder, "--output", "json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (done.stderr, [file.name for file in response.files], list(response.notes))
        return json.loads(done.stdout)
