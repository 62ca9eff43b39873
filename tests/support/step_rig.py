"""A job of several ranks on this machine: a program and a sidecar each, captured together by `strobe capture`."""

import json
import subprocess
import time

from tests.support.beside import default
from tests.support.oracle import read_notes
from tests.support.ports import free_port
from tests.support.processes import BIN, wait_until
from tests.support.workers import Worker

# For captures whose subject is not lateness: steps of milliseconds may be late on a machine without free processors. The manifest's `run` is the
# attempt's that counted.
TRY_AGAIN = ("--on-late-start", "Discard", "--attempts", "8")


class Rank:
    def __init__(self, number, directory):
        self.dir = directory
        self.dir.mkdir()
        (self.dir / "strobe").mkdir()
        self.notes = self.dir / "notes"
        self.port = free_port()
        self.name, self.file = f"127.0.0.1:{self.port}", f"127.0.0.1_{self.port}"
        self.number = number
        self.process = None


    def register(self, kubectl):
        """Makes the Pod object of this rank, as after injection."""
        worker = Worker(None, f"rank-{self.number}", self.number)
        worker.port = self.port
        worker.register(kubectl)


class Job:
    def __init__(self, group, directory):
        self.group, self.directory = group, directory
        self.logdir = directory / "logdir"
        self.ranks = []

    def start(self, command, env=None):
        """A rank that runs this program, which gets STROBE_DIR. `command` is called with the rank."""
        rank = Rank(len(self.ranks), self.directory / f"rank-{len(self.ranks)}")
        rank.process = self.group.start(f"rank-{rank.number}", command(rank), env={
            "STROBE_DIR": str(rank.dir / "strobe"), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), **(env or {})})
        self.group.start(f"sidecar-{rank.number}", [
            BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{rank.port}", "--framework", "127.0.0.1:1",
            "--agent-dir", rank.dir / "strobe/agent", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        self.ranks.append(rank)
        return rank

    def wait(self):
        """Waits until all programs say that they are ready."""
        for rank in self.ranks:
            rank.process.wait_for("ready", 90)
        return self.ranks

    def rank(self, per_second, *modes):
        """A rank that annotates its steps with Strobe's annotations, at this pace."""
        rank = self.start(lambda rank: [BIN / "noting_program", rank.notes, per_second, *modes])
        rank.process.wait_for("ready", 20)
        return rank

    def ranks_with_barriers(self, paces, every, *modes):
        """Ranks of different pace that wait for one another every so many steps, as collectives make them."""
        for number, pace in enumerate(paces):
            self.rank(pace, f"barrier={self.directory}/barrier:{number}:{len(paces)}:{every}", *modes)

    def silent(self):
        """A rank with the agent that annotates no steps."""
        return self.rank(100, "silent")

    def step(self):
        """The last step that any rank noted."""
        return max(note.step for rank in self.ranks for note in read_notes(rank.notes)[-1:])

    def wait_for_step(self, number):
        wait_until(lambda: all(rank.notes.exists() and any(note.step >= number for note in read_notes(rank.notes)) for rank in self.ranks), 60,
                   f"step {number} on all ranks")

    def _command(self, flags, run):
        workers = ",".join(f"127.0.0.1:{rank.port}" for rank in self.ranks)
        output = [] if "--output" in flags else ["--output", "json"]
        return [str(part) for part in (BIN / "strobe", "capture", "--insecure-plaintext", "--workers", workers, "--logdir", self.logdir,
                                       "--run", run, *default(flags, "--attempts", "1"), *output, *flags)]

    def run_capture(self, *flags, run="r"):
        return subprocess.run(self._command(flags, run), capture_output=True, text=True, timeout=180)

    def capture(self, *flags, run="r"):
        """Captures and returns the manifest."""
        done = self.run_capture(*flags, run=run)
        assert done.stdout, done.stderr
        manifest = json.loads(done.stdout)
        manifest["stderr"] = done.stderr
        return manifest

    def begin_capture(self, *flags, run="r"):
        self.capturing = subprocess.Popen(self._command(flags, run), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return self.capturing

    def wait_until_recording(self):
        for line in self.capturing.stderr:
            if ": record," in line:
                return time.sleep(0.1)
        raise AssertionError("it ended before it recorded")

    def trace(self, rank, run="r"):
        return self.logdir / "plugins/profile" / run / f"{rank.file}.xplane.pb"


def _host_lines(path):
    """(plane, line, its begin in Unix nanoseconds) of a trace's host threads. Needs the fixture `protos`."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    zeros = [stat.uint64_value for plane in space.planes if plane.name.startswith("Task Environment")
             for stat in plane.stats if plane.stat_metadata[stat.metadata_id].name == "profile_start_time"]
    for plane in space.planes:
        for line in plane.lines if plane.name.startswith("/host:CPU") else ():
            yield plane, line, min(zeros) + line.timestamp_ns


def host_events(path):
    """(name, begin, end) of a trace's host events, in Unix nanoseconds."""
    for plane, line, zero in _host_lines(path):
        for event in line.events:
            begin = zero + event.offset_ps // 1000
            yield plane.event_metadata[event.metadata_id].name, begin, begin + event.duration_ps // 1000


def _steps(path, loop):
    """(number, begin, end, other stats) of a trace's complete steps, in Unix nanoseconds."""
    for plane, line, zero in _host_lines(path):
        names = {i: entry.name for i, entry in plane.stat_metadata.items()}
        for event in line.events:
            if plane.event_metadata[event.metadata_id].name != loop:
                continue
            stats = {names[stat.metadata_id]: stat.int64_value or stat.uint64_value for stat in event.stats}
            if "step_num" not in stats:
                continue
            begin = zero + event.offset_ps // 1000
            yield stats.pop("step_num"), begin, begin + event.duration_ps // 1000, stats


def recorded_steps(path, loop):
    """{number: (begin, end)} of a trace's complete steps, in Unix nanoseconds."""
    found = {}
    for number, begin, end, _ in _steps(path, loop):
        assert number not in found, f"step {number} twice"
        found[number] = begin, end
    return found


def stats_of_steps(path, loop):
    """{number: {stat: its value}} of the same steps."""
    return {number: stats for number, _, _, stats in _steps(path, loop)}
