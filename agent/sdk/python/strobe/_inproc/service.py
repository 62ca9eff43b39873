"""The one thread of this process's service: announces frameworks as they become usable, and serves the session socket."""

from .announce import Directory
from .capture import Capture, Exiting
from .channel import Channel
from .failure import tell
from .frameworks import is_usable, open_server, recorder_for, version
from .process import description, is_starting_child, stem
from .program_servers import ProgramServers
from .request import Refused, parse
from .steps import count, forget, told

_SECONDS_OF_FIRST_LOOK, _SECONDS_BETWEEN_LOOKS = 0.005, 1.0


class Service:
    def __init__(self, root, expected):
        self.expected = expected  # Shared with bootstrap(), which adds to it.
        self.recorders = {}  # By framework, in the order in which they were announced.
        self.exiting = self.recording = False
        self.directory = Directory(root, stem())
        self.socket_name = f"{self.directory.stem}.sock"
        self.channel = Channel(self.directory, self.socket_name)
        self.servers = ProgramServers(self.channel.wake)
        self.told = {}  # What each announcement says, without what may change.
        self._delay = _SECONDS_OF_FIRST_LOOK

    def run(self):
        try:
            while not self.exiting:
                self._look()
                self._serve(self._delay if self.expected or self.servers.begins() else None)
        except Exiting:
            for recorder in self.recorders.values():
                recorder.leave()
        except OSError:  # The directory is gone, or there are no descriptors left.
            self.directory.clear()

    def look_again(self):
        self._delay = _SECONDS_OF_FIRST_LOOK
        self.channel.wake()

    def _look(self):
        """Announces the expected frameworks that are usable by now."""
        self._delay = min(2 * self._delay, _SECONDS_BETWEEN_LOOKS)
        if is_starting_child():
            return
        for name in sorted(self.expected):
            try:
                if name in self.recorders or is_usable(name):
                    self.expected.discard(name)
                    self._announce(name)
            except Exception as error:  # This one is not announced; the others may be.
                self.expected.discard(name)
                tell(error)
        if self.servers.look():
            for file in self.told:
                self._write(file)

    def _announce(self, name):
        if name in self.recorders:
            return
        recorder = recorder_for(name, self.directory)
        port = open_server(name)
        self.recorders[name] = recorder
        self.servers.watch(name)
        self.servers.look()
        count(name)
        # The first framework has the process's own name; a program with two has a second announcement.
        file = self.directory.stem + (".process" if len(self.recorders) == 1 else f"-{name}.process")
        self.told[file] = {
            "framework": name, "version": version(name), "channel": "session" if port is None else "server",
            "address": None if port is None else f"127.0.0.1:{port}", "socket": self.socket_name, "note": recorder.note}
        self._write(file)

    def _write(self, file):
        self.directory.announce(file, {**description(), **self.told[file], "listens": self.servers.listens, "closed": self.servers.closed})

    def _serve(self, seconds):
        asked = self.channel.wait(seconds)
        if asked is None or self.exiting:
            return
        connection, line = asked
        try:
            request = parse(line, list(self.recorders))
        except Refused as refused:
            return connection.refuse(refused.outcome, refused.message)
        if request is None:
            connection.say(state="steps", steps=told())
            return connection.close()
        self.channel.refuse_others()
        Capture(request, self.recorders[request.framework], connection, self).run()

    def end(self):
        """At the program's exit."""
        self.exiting = True
        self.channel.wake()

    def forget(self):
        """In a forked child."""
        forget()
        self.channel.close()
        self.directory.forget()
        for recorder in self.recorders.values():
            recorder.after_fork()
