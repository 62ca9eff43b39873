"""The service of this process: announces frameworks as they become usable, and lets each be
recorded over a socket of its own.
"""

from __future__ import annotations

import time
from typing import Any, TYPE_CHECKING

from .announce import Directory
from .capture import Exiting
from .changes import forget_switch_interval, record_collectives
from .evidence import Evidence
from .failure import tell
from .framework_service import FrameworkService
from .frameworks import is_usable, version
from .own_thread import OwnThread
from .process import description, is_starting_child, stem
from .program_servers import ProgramServers
from .recorder import recorder_for
from .server import open_for
from .serving import forget as forget_server
from .serving import look as look_for_server
from .serving import role_of_actor, server
from .signs_of_work import on_sign
from .sockets import asks_kineto, kineto_client
from .step_marks import StepMarks
from .steps import count, forget, steps_of

if TYPE_CHECKING:
    from .recorder import Recorder

_SECONDS_OF_FIRST_LOOK, _SECONDS_BETWEEN_LOOKS = 0.005, 1.0
_SECONDS_OF_RANKS = 300.0


class Service:
    """Runs in one thread, which also serves the first framework.

    Further ones have threads of their own.
    """

    def __init__(self, root: str, expected: set[str], busy: Any) -> None:
        self.expected = expected  # Shared with bootstrap(), which adds to it.
        self.busy = busy  # A lock, held while something is loaded or opened; see _before_fork.
        self.exiting = False
        self.directory = Directory(root, stem())
        # One for each framework, in the order in which they were announced. The first one is there
        # before its framework.
        self.services = []
        self.first = FrameworkService(self.directory, self.directory.stem, self.services)
        self.services.append(self.first)
        self.threads = []
        self.evidence = Evidence(self.directory)
        self.servers = ProgramServers(self.first.channel.wake)
        # The constant part of each announcement, and what it holds, by name.
        self.told, self.written = {}, {}
        self.recorders = {}  # By the same names.
        self.unwritten = False  # One of them could not be written.
        self._until_ranks = 0.0
        self._delay = _SECONDS_OF_FIRST_LOOK

    def run(self) -> None:
        look = True
        try:
            while not self.exiting:
                with self.busy:
                    if look:
                        self._look()
                    self.evidence.look()
                awaiting, began = self._is_awaiting(), time.monotonic()
                pause = self._delay if awaiting else self.evidence.seconds()
                self.first.serve(pause)
                # A pause that nobody has ended was for the evidence only.
                look = awaiting or pause is None or time.monotonic() - began < pause
        except Exiting:
            self.first.recorder.leave()
        except OSError:  # The directory is gone, or there are no descriptors left.
            self.directory.clear()

    def _is_awaiting(self) -> bool:
        """Whether something may soon change that nobody tells: programs join their job some time
        after they have imported their framework.
        """
        return (
            self.expected
            or self.unwritten
            or self.servers.begins()
            or time.monotonic() < self._until_ranks
        )

    def look_again(self) -> None:
        self._delay = _SECONDS_OF_FIRST_LOOK
        self.first.channel.wake()

    def _look(self) -> None:
        """Announces the expected frameworks that are usable by now."""
        self._delay = min(2 * self._delay, _SECONDS_BETWEEN_LOOKS)
        if is_starting_child():
            return
        for name in sorted(self.expected):
            try:
                if not self._has(name) and is_usable(name):
                    self._announce(name)
                if self._has(name):
                    self.expected.discard(name)
            except Exception as error:  # This one is not announced; the others may be.
                self.expected.discard(name)
                tell(error)
        self._look_for_server()
        self._write_changes()

    def _look_for_server(self) -> None:
        """An inference server may be loaded long after PyTorch."""
        if not self._has("torch"):
            return
        try:
            look_for_server(self._share_engine, self.look_again)
        except Exception as error:
            tell(error)

    def _share_engine(self, size: int) -> tuple[str, Any]:
        name = f"{self.directory.stem}.engine"
        try:
            return name, self.directory.share(name, size)
        except Exception:
            self.directory.remove(name)
            raise

    def _write_changes(self) -> None:
        """Writes the announcements whose content has changed.

        One that cannot be written, on a full volume, is tried again later.
        """
        try:
            self.servers.look()
        except Exception as error:
            tell(error)
        was_unwritten, self.unwritten = self.unwritten, False
        for file, told in self.told.items():
            # A thread of Kineto's makes the socket, perhaps later.
            if told["framework"] == "torch" and told["kineto"] is None:
                told["kineto"] = kineto_client()
            about = description()
            role, role_from = server.role, server.role_from
            if role is None:
                role, role_from = role_of_actor(about["title"])
            content = {
                **about,
                **told,
                "role": role,
                "role_from": role_from,
                "stepped": bool(steps_of(told["framework"]).loops),
                "yields_cupti": self.recorders[file].yields_devices(),
                "listens": self.servers.listens,
                "closed": self.servers.closed,
                "engine": server.told() if told["framework"] == "torch" else None,
            }
            if content == self.written.get(file):
                continue
            try:
                self.directory.announce(file, content)
                self.written[file] = content
            except OSError as error:
                self.unwritten = True
                if not was_unwritten:
                    tell(error)

    def _has(self, name: str) -> bool:
        return any(service.framework == name for service in self.services)

    def _announce(self, name: str) -> None:
        if self._has(name):
            return
        recorder = recorder_for(name, self.directory)
        self.evidence.start()
        if name == "torch":  # CUDA's driver may have brought us here after its import.
            record_collectives()
        port = self._open_server(name)
        service = self._service_for(name, recorder)
        self.servers.watch(name)
        count(name)
        on_sign(self.look_again)
        file = f"{service.stem}.process"
        self.recorders[file] = recorder
        recorder.changed = self.look_again
        self.told[file] = {
            "framework": name,
            "version": version(name),
            "channel": "session" if port is None else "server",
            "address": None if port is None else f"127.0.0.1:{port}",
            "socket": service.socket_name,
            "steps": self._share_steps(service),
            "kineto": None,
            "asks_kineto": asks_kineto(),
            "refuses": name == "torch" and recorder.refuses,
            "note": recorder.note,
        }
        self._until_ranks = time.monotonic() + _SECONDS_OF_RANKS

    @staticmethod
    def _open_server(name: str) -> int | None:
        """The port of the framework's server. None if there is none: the socket needs none."""
        try:
            return open_for(name)
        except Exception as error:
            tell(error)
            return None

    def _share_steps(self, service: FrameworkService) -> str | None:
        """Returns the name of the file that tells the framework's steps.

        None if it cannot be made: only the steps are then not told.
        """
        name = f"{service.stem}.steps"
        try:
            steps_of(service.framework).share(self.directory.share(name, StepMarks.BYTES))
            return name
        except Exception as error:
            self.directory.remove(name)
            tell(error)
            return None

    def _service_for(self, name: str, recorder: Recorder) -> FrameworkService:
        """Gives a framework its service.

        The files of the first framework have the process's own names.
        """
        if self.first.framework is None:
            self.first.take(name, recorder)
            return self.first
        service = FrameworkService(self.directory, f"{self.directory.stem}-{name}", self.services)
        service.take(name, recorder)
        self.services.append(service)
        thread = OwnThread(service.run, f"strobe-{name}", tell)
        thread.start()
        self.threads.append(thread)
        if self.exiting:
            service.end()
        return service

    def end(self) -> None:
        """Called at the program's exit."""
        self.exiting = True
        self.evidence.end()
        for service in list(self.services):
            service.end()

    def can_begin_in_child(self) -> bool:
        """Whether a forked child may have a service of its own."""
        return all(
            service.recorder is None or service.recorder.can_begin_in_child()
            for service in self.services
        )

    def forget(self) -> None:
        """Called in a forked child."""
        forget()
        forget_server()
        forget_switch_interval()
        self.evidence.forget()
        for service in self.services:
            service.forget()
        self.directory.forget()
