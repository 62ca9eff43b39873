"""A sidecar, programs beside it as in a pod, and captures of them."""

import json
import re
import shutil
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path

from .kernels import recording
from .processes import Failed, Program

TRAINERS = Path(__file__).resolve().parents[1] / "trainers"
CAPTURE_SECONDS = 120  # Longest time that a capture may take in addition to its window: JAX needs long to stop on large machines.
ARMED = re.compile(r"^(\S+)Z I armed capture=.* in=([\d.]+)(us|ms|s)$", re.MULTILINE)
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Rig:
    """`setup.place` has the programs, `setup.folder` takes logs and traces, `setup.cuda` is the environment of programs without a CUDA runtime."""

    def __init__(self, setup, name, sidecar=()):
        """`sidecar` has further flags of the sidecar."""
        self.setup, self.name, self.sidecar = setup, name, sidecar
        self.folder = setup.folder / name
        self.strobe = self.folder / "s"  # Short, because a Unix socket's path is.
        (self.strobe / "agent").mkdir(parents=True)
        for path in (self.folder, self.strobe, self.strobe / "agent"):
            path.chmod(0o1777)
        self.port, self.programs, self.captures, self.capturing = free_port(), [], 0, None

    def __enter__(self):
        place = self.setup.place
        try:
            (self.strobe / "python").symlink_to(place.python)
            self.start("sidecar", [place.program("strobe-sidecar"), "--listen", f"127.0.0.1:{self.port}", "--framework", "127.0.0.1:1", "--agent-dir",
                                   self.strobe / "agent", "--worker-name", "w", "--insecure-plaintext", *self.sidecar])
            until = time.monotonic() + 30
            while not self._serves():
                if not self.programs[0].lives() or time.monotonic() > until:
                    raise Failed("the sidecar does not serve; see its log")
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.capturing and self.capturing.poll() is None:
            self.capturing.kill()
            self.capturing.wait(10)
        for program in reversed(self.programs):
            if program.lives():
                program.kill()

    def _serves(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self, name, command, env=None, user=None):
        program = Program(name, command, self.folder / f"{name}.log", env, user)
        self.programs.append(program)
        return program

    def agent_env(self):
        """What programs of a GPU pod have."""
        return {"STROBE_DIR": str(self.strobe), "STROBE_AGENT": self.setup.place.agent, "CUDA_INJECTION64_PATH": self.setup.place.agent}

    def cuda(self, name, *arguments, env=None, user=None):
        """A program on CUDA's driver, once it is ready."""
        command = [self.setup.place.program(name), *map(str, arguments)]
        env = {**self.setup.cuda, **self.agent_env(), **(env or {})}
        if user is not None:  # Who may not read the folder of the programs.
            command[0] = shutil.copy(command[0], self.folder)
            agent = shutil.copy(self.setup.place.agent, self.folder)
            env.update(STROBE_AGENT=agent, CUDA_INJECTION64_PATH=agent)
        return self.start(f"{name}-{len(self.programs)}", command, env, user).wait_for("ready", 60)

    def trainers(self, framework, python, *environments):
        """Training loops that wait for commands (tests/gpu/trainers). They start side by side, because imports and compilation take long."""
        programs = []
        for env in environments:
            env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "1", "PYTHONUNBUFFERED": "1", **self.setup.trainer, **env}
            programs.append(self.start(f"{framework}-{len(self.programs)}", [python, TRAINERS / f"{framework}_trainer.py"], env))
        try:
            for program in programs:
                program.device = program.answer(120)["device"]
        except Failed as failed:
            raise Failed(f"{framework} did not start: {failed}") from None
        return programs

    def trainer(self, framework, python, env=None):
        return self.trainers(framework, python, env or {})[0]

    def begin(self, duration, *flags):
        """Begins a capture, with further flags; finish() has its result."""
        self.captures += 1
        self.run = f"{self.name}-{self.captures}"
        command = [self.setup.place.program("strobe"), "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{self.port}", "--logdir",
                   self.folder / "logs", "--run", self.run, "--duration", f"{round(duration * 1000)}ms", "--quiet", "--output", "json", "--attempts", "1", *self.setup.flags, *flags]
        self.window = duration
        with open(self.folder / "capture.log", "ab") as log:
            self.capturing = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True)

    def finish(self):
        """The manifest, with the worker's part in `worker`."""
        try:
            out, _ = self.capturing.communicate(timeout=CAPTURE_SECONDS + self.window)
        except subprocess.TimeoutExpired:
            self.capturing.kill()
            raise Failed(f"the capture did not end within {CAPTURE_SECONDS} s after its window") from None
        if not out:
            raise Failed("the capture failed: " + (self.folder / "capture.log").read_text(errors="replace").strip()[-300:])
        manifest = json.loads(out)
        (self.folder / f"{self.run}.json").write_text(out)
        manifest["worker"] = manifest["workers"][0]
        self.manifest = manifest
        return manifest

    def capture(self, duration, *flags):
        self.begin(duration, *flags)
        return self.finish()

    def wait_window(self, seconds=60):
        """Waits until the window of the capture has begun, as the sidecar's log announces it."""
        until, log = time.monotonic() + seconds, self.folder / "sidecar.log"
        while time.monotonic() < until and self.capturing.poll() is None:
            armed = ARMED.findall(log.read_text(errors="replace"))
            if len(armed) == self.captures:
                told_at, ahead, unit = armed[-1]
                begins = datetime.fromisoformat(told_at + "+00:00").timestamp() + float(ahead) * SECONDS[unit]
                time.sleep(max(begins - time.time(), 0) + 0.1)
                return
            time.sleep(0.02)
        raise Failed(f"the capture did not come to its window: {told(self.finish()['worker'])}")

    def trace(self):
        """The run's trace file."""
        found = list((self.folder / "logs/plugins/profile" / self.run).glob("*.xplane.pb"))
        if not found:
            raise Failed(f"there is no trace: {told(self.manifest['worker'])}")
        return found[0]

    def recording(self):
        return recording(self.trace())


def told(worker):
    """An outcome and what explains it. Rows of processes repeat what the worker says."""
    messages = [worker.get("message", "")] + [row.get("message", "") for row in worker.get("processes", [])] + worker.get("notes", [])
    text = "; ".join(dict.fromkeys(part for message in messages for part in message.split("; ") if part))
    return f"{worker['outcome']}{': ' + text if text else ''}"


def window_ns(manifest):
    begin = int(manifest["instantNs"])
    return begin, begin + int(manifest["durationNs"])


