"""Programs with the agent, and a sidecar that shares their directory, without Kubernetes or a framework."""

import json
import subprocess
import time

from tests.support.operator import WIDE_GUARD
from tests.support.ports import free_port
from tests.support.processes import BIN


class AgentRig:
    def __init__(self, group, directory):
        self.group = group
        self.dir = directory / "strobe"
        self.dir.mkdir()
        self.port = free_port()
        self.logdir = directory / "logdir"
        self.programs = []
        self.guard = ["--guard", WIDE_GUARD]  # The guard of captures that give none.

    def start(self, command, env=None):
        """Starts a program with the agent and waits until it prints "ready"."""
        self.programs.append(self.group.start(f"program-{len(self.programs)}", [str(part) for part in command], env={
            "STROBE_DIR": str(self.dir), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), **(env or {})}).wait_for("ready", 20))
        return self.programs[-1]

    def program(self, *arguments, env=None, wrap=()):
        return self.start([*wrap, BIN / "annotated_program", *arguments], env)

    def noting(self, *modes, per_second=200, notes="notes.txt", env=None):
        """Starts a program that notes its own steps; see tests/support/oracle.py."""
        return self.start([BIN / "noting_program", self.dir.parent / notes, per_second, *modes], env)

    def cuda_program(self, *arguments, generation=12, cupti="", env=None, wrap=()):
        """Starts a trainer on the fake driver, which loads the agent. `cupti` lists the faults of the fake CUPTI."""
        fakes = BIN / "fakes"
        return self.start([*wrap, BIN / "cuda_program", *arguments], {
            "CUDA_INJECTION64_PATH": str(BIN / "libstrobe_agent.so"), "FAKE_CUPTI": cupti, "FAKE_CUDA_VERSION": str(generation * 1000 + 80),
            "LD_LIBRARY_PATH": f"{fakes}:{fakes}/{generation}", **(env or {})})

    def sidecar(self, framework="localhost:1", flags=(), env=None):
        self.process = self.group.start(f"sidecar-{time.monotonic_ns()}", [
            BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{self.port}", "--framework", framework, "--agent-dir", self.dir / "agent",
            "--worker-name", "w0", "--insecure-plaintext", *flags], env=env).wait_for("serves", 10)
        return self

    def _command(self, flags, run, duration):
        return [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{self.port}", "--logdir", self.logdir,
                "--duration", duration, "--run", run, "--quiet", "--output", "json", "--attempts", "1",
                *([] if "--guard" in flags else self.guard), *flags]

    def header(self, path=None):
        """Control words of a ring file, at their offsets in agent/wire/layout.h."""
        data = (path or self.rings).read_bytes()[:4096]
        word = lambda at, size=4: int.from_bytes(data[at:at + size], "little")  # noqa: E731
        return {"control": word(256), "device_phase": word(544), "device_wish": word(548)}

    def capture(self, *flags, run="r", duration="300ms"):
        """Captures and returns the run's manifest."""
        result = subprocess.run(self._command(flags, run, duration), capture_output=True, text=True, timeout=60)
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def begin_capture(self, *flags, duration):
        return subprocess.Popen(self._command(flags, "r", duration), stdout=subprocess.PIPE, text=True)

    def trace(self, run="r"):
        (path,) = (self.logdir / "plugins/profile" / run).glob("*.xplane.pb")
        return path

    def space(self, run="r"):
        """The parsed trace of a run. Needs the fixture `protos`."""
        from tensorflow import xplane_pb2

        return xplane_pb2.XSpace.FromString(self.trace(run).read_bytes())

    @property
    def rings(self):
        (path,) = (self.dir / "agent").glob("*.rings")
        return path


def plane(space, name):
    (found,) = [p for p in space.planes if p.name == name]
    return found


def value_of(found, stat):
    kind = stat.WhichOneof("value")
    value = getattr(stat, kind)
    return found.stat_metadata[value].name if kind == "ref_value" else value


def events(space, name="/host:CPU"):
    """(line, name, begin, end, args) of every event of a plane; times in ps since the trace's start."""
    found = plane(space, name)
    out = []
    for line in found.lines:
        for event in line.events:
            args = {found.stat_metadata[stat.metadata_id].name: value_of(found, stat) for stat in event.stats}
            begin = line.timestamp_ns * 1000 + event.offset_ps
            out.append((line.name, found.event_metadata[event.metadata_id].name, begin, begin + event.duration_ps, args))
    return out
