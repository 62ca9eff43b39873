"""Programs that end with this one, and answers that are waited for with a deadline."""

import ctypes
import json
import os
import queue
import signal
import subprocess
import threading
import time

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """What was to be measured could not be; the text says why."""


class NotHad(Exception):
    """This machine does not offer what was to be measured."""


class Program:
    """A child with a log. It gets lines on its standard input, and what it prints is read line by line."""

    def __init__(self, name, command, log, env=None, user=None):
        def begin():
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

        self.name, self.log = name, log
        with open(log, "ab") as errors:
            self.popen = subprocess.Popen([str(part) for part in command], env={**os.environ, **(env or {})}, text=True, bufsize=1, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=errors, preexec_fn=begin)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.popen.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, seconds):
        """The next line that it prints."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise Failed(f"{self.name} said nothing for {seconds} s{self._why()}") from None
        if line is None:
            self.popen.wait(10)
            raise Failed(f"{self.name} ended with {self.popen.returncode}{self._why()}")
        return line

    def _why(self):
        text = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return f": {text[-1][:300]}" if text else ""

    def wait_for(self, word, seconds):
        until = time.monotonic() + seconds
        while True:
            if self.line(max(until - time.monotonic(), 0.1)).startswith(word):
                return self

    def send(self, text):
        try:
            self.popen.stdin.write(text + "\n")
            self.popen.stdin.flush()
        except (BrokenPipeError, OSError):
            pass  # The next line() says how it ended.

    def answer(self, seconds):
        """The next line that is a JSON object."""
        until = time.monotonic() + seconds
        while True:
            line = self.line(max(until - time.monotonic(), 0.1))
            if line.startswith("{"):
                return json.loads(line)

    def ask(self, text, seconds):
        self.send(text)
        return self.answer(seconds)

    def lives(self):
        return self.popen.poll() is None

    def stop(self, seconds=30):
        """Asks it to end, and returns what it printed last."""
        said = []
        if self.lives():
            self.popen.send_signal(signal.SIGTERM)
        try:
            while (line := self._lines.get(timeout=seconds)) is not None:
                said.append(line)
            self.popen.wait(10)
        except (queue.Empty, subprocess.TimeoutExpired):
            self.kill()
        return said

    def kill(self):
        self.popen.kill()
        self.popen.wait(10)
