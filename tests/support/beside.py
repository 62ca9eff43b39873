"""A trainer and its pod's sidecar, which is configured as by injection: with the agent directory, and the address of a profiler server on which none
listens."""

import json
import subprocess

from tests.support.operator import WIDE_GUARD
from tests.support.ports import free_port
from tests.support.processes import BIN, wait_until


class Pod:
    def __init__(self, group, directory, *flags):
        self.group, self.directory, self.flags = group, directory, flags
        self.agent = directory / "strobe/agent"
        self.address, self.logdir = f"127.0.0.1:{free_port()}", directory / "logdir"
        self.server = free_port()
        self.sidecar = None
        self.start_sidecar()

    def start_sidecar(self, wrap=()):
        """Starts it, also again."""
        command = [*wrap, BIN / "strobe-sidecar", "--listen", self.address, "--framework", f"127.0.0.1:{self.server}", "--agent-dir", self.agent,
                   "--insecure-plaintext", *self.flags]
        self.sidecar = self.group.start(f"sidecar-{len(self.group.processes)}", command).wait_for("strobe-sidecar serves", 20)

    def begin(self, *flags, run="r"):
        """A capture's process."""
        command = [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", self.address, "--logdir", self.logdir, "--run", run, "--output", "json",
                   *default(flags, "--attempts", "1"), *default(flags, "--guard", WIDE_GUARD), *flags]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def capture(self, *flags, run="r", meanwhile=None):
        """The manifest. Calls `meanwhile` when the capture's instant is near, or has come."""
        process = self.begin(*flags, run=run)
        if meanwhile is not None:
            await_phase(process, ": record,")
            meanwhile()
        out, err = process.communicate(timeout=180)
        assert out, err
        return json.loads(out)

    def worker(self, *flags, run="r", meanwhile=None):
        """The entry of the only worker."""
        (worker,) = self.capture(*flags, run=run, meanwhile=meanwhile)["workers"]
        return worker

    def trace(self, worker, run="r"):
        return self.logdir / "plugins/profile" / run / f"{worker['name'].replace(':', '_')}.xplane.pb"

    def left_by_captures(self):
        """What captures should have removed. Programs that run keep their announcements, and what these name."""
        return [name for name in self.left_behind() if not name.endswith((".process", ".sock", ".steps"))]

    def left_behind(self):
        """What captures and programs that ended should have removed."""
        return [path.name for pattern in ("*.process", "*.sock", "*.steps", ".*", "*.xplane.pb", "*.pt.trace.json") for path in self.agent.glob(pattern)]


def default(flags, name, value):
    """The flag with this value, unless `flags` has it."""
    return [] if name in flags else [name, value]


def await_phase(process, phase):
    """Waits until a capture's progress says so, or it ends."""
    for line in process.stderr:
        if phase in line:
            return


def framework_rows(worker):
    """Returns the rows of frameworks, by framework. The row of a profiler server has the key "server"."""
    rows = [row for row in worker["processes"] if row["source"] == "SOURCE_FRAMEWORK"]
    return {row["name"].rpartition("(")[2].rstrip(")") if "(" in row["name"] else "server": row for row in rows}


def await_none(pod):
    """Waits until the sidecar knows of no process any more."""
    wait_until(lambda: pod.worker("--duration", "100ms", run="nobody")["outcome"] == "NoSource", 30, "nobody to be left")
