"""Child processes that never outlive the one that started them."""

import ctypes
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BIN = Path(os.environ.get("STROBE_BIN", BUILD / "bin"))
TOOLS = BUILD / "tools" / "bin"
PYTHON = BUILD / "venv" / "bin" / "python"

_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    # Also when the parent is killed and cannot clean up.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """One child with its output in a file."""

    def __init__(self, name, command, log_dir, env=None):
        self.name = name
        self.log = Path(log_dir) / f"{name}.log"
        self._out = open(self.log, "ab")
        self.popen = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            preexec_fn=_die_with_parent,
        )

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def output(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, text, timeout):
        """Until the output has the text; fails with the output when it ends or takes too long."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if text in self.output():
                return self
            if not self.running():
                break
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} did not say {text!r}:\n{self.output()[-3000:]}")

    def signal(self, number):
        if self.running():
            self.popen.send_signal(number)

    def kill(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self, timeout=10):
        self.signal(signal.SIGTERM)
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._out.close()


class Group:
    """Processes that are stopped together, the last one first."""

    def __init__(self, log_dir):
        self.log_dir = Path(log_dir)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self.processes = []

    def start(self, name, command, env=None):
        process = Process(name, command, self.log_dir, env)
        self.processes.append(process)
        return process

    def stop(self):
        for process in reversed(self.processes):
            process.stop()
        self.processes.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def wait_until(condition, timeout, what):
    """Polls until the condition returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout} s")
        time.sleep(0.05)
