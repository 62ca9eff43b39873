"""Child processes that end with the process that started them."""

import os
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BIN = Path(os.environ.get("STROBE_BIN", BUILD / "bin"))
TOOLS = BUILD / "tools" / "bin"
PYTHON = BUILD / "venv" / "bin" / "python"
# Tests wait as long as an idle machine needs, with some room, times this: in CI, suites share two processors with each other and with compilers.
PATIENCE = 3


def status_of(pid):
    """The fields of /proc/<pid>/status, as text."""
    with open(f"/proc/{pid}/status") as status:
        return dict(line.split(":", 1) for line in status.read().splitlines())


def memory(pid, field):
    """A field of /proc/<pid>/status such as VmRSS, VmHWM or RssAnon, in MiB."""
    return int(status_of(pid)[field].split()[0]) / 1024


def high_water(pid):
    """The process's peak resident memory in MiB; 0 if it has ended."""
    return memory(pid, "VmHWM") if "VmHWM" in status_of(pid) else 0


def cpu_seconds(pid):
    """The processor time that the process has used, in seconds."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_ticks(pid):
    """When the process began, in the kernel's ticks since boot."""
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[19])


def context_switches(pid):
    """The number of voluntary context switches of all the process's threads."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as status:
            total += sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return total


class Process:
    """A child process whose output goes to a file."""

    def __init__(self, name, command, log_dir, env=None):
        self.name = name
        self.log = Path(log_dir) / f"{name}.log"
        self._out = open(self.log, "ab")
        self.popen = subprocess.Popen(
            # The kernel kills the child when this process is killed and cannot clean up. setpriv sets that up
            # instead of preexec_fn, because Python code between fork and exec is unsafe with gRPC's threads.
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def output(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, text, timeout):
        """Waits until the output contains the text. Fails, with the output, if the process ends before or it takes too long."""
        deadline = time.monotonic() + timeout * PATIENCE
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
    """Processes that are stopped together, in reverse order of their start."""

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

    def kill(self):
        for process in reversed(self.processes):
            process.kill()
        self.processes.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def wait_until(condition, timeout, what):
    """Polls until the condition returns something true, and returns that. `timeout` is in seconds, see PATIENCE."""
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout * PATIENCE} s")
        time.sleep(0.05)
