"""The session socket: a Unix stream socket beside the announcement.

Clients are not trusted; lines, time and connections are bounded.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from typing import Any, TYPE_CHECKING

from .announce import Descriptor
from .own_thread import original
from .request import MAX_LINE, line_of

if TYPE_CHECKING:
    from .announce import Directory

_MAX_PENDING = 8
_SECONDS_TO_ASK = 5.0

_poll, _socket, _sleep = (
    original("select", "poll"),
    original("socket", "socket"),
    original("time", "sleep"),
)


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._opened = Descriptor(sock.fileno())
        self.buffer = b""
        self.until = time.monotonic() + _SECONDS_TO_ASK
        self.closed = False

    def read(self) -> bytes | None:
        """Returns the next line; None if it is not complete yet, or if the client is gone
        (`closed`).
        """
        try:
            data = self.sock.recv(MAX_LINE + 1 - len(self.buffer))
            self.closed = not data
        except BlockingIOError:
            data = b""
        except OSError:
            self.closed, data = True, b""
        self.buffer += data
        line, newline, rest = self.buffer.partition(b"\n")
        if newline:
            self.buffer = rest
            return line
        return None

    def too_long(self) -> bool:
        return len(self.buffer) > MAX_LINE

    def say(self, **fields: Any) -> bool:
        """Sends a line. False if the client is gone, or does not read."""
        try:
            data = line_of(**fields)
            self.closed = (
                self.closed or not self._opened.is_ours() or self.sock.send(data) != len(data)
            )
        except OSError:
            self.closed = True
        return not self.closed

    def refuse(self, outcome: str, message: str, **more: Any) -> None:
        self.say(state="refused", outcome=outcome, message=message[:500], **more)
        self.close()

    def close(self) -> None:
        """Reads what the client has sent before closing: with unread bytes, the client would lose
        our last line (ECONNRESET).
        """
        self.closed = True
        try:
            if self._opened.is_ours():
                self.sock.shutdown(socket.SHUT_RD)  # Nothing more can come.
                while self.sock.recv(1 << 16):
                    pass
        except OSError:
            pass
        self.drop()

    def drop(self) -> None:
        """Closes it, unless the program has closed all descriptors: another file may have the
        number by now.
        """
        self.closed = True
        self._opened.close()
        self.sock.detach()


class Channel:
    """Used by the service's thread only, except wake()."""

    def __init__(self, directory: Directory, name: str) -> None:
        self.pending = []
        self.active = None  # The connection of the capture that runs, if one does.
        self._wake_reader, self._wake_writer = (
            Descriptor(fd) for fd in os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        )
        self.listener = _socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listens = Descriptor(self.listener.fileno())
        self.listener.setblocking(False)
        directory.remove(name)
        self.listener.bind(directory.through_fd(name))
        directory.owns(name)
        # Like ring files: the sidecar usually runs as another user of the pod.
        os.chmod(name, 0o666, dir_fd=directory.fd)
        self.listener.listen(64)

    def wake(self) -> None:
        """Ends a wait(). Called from any thread."""
        try:
            if self._wake_writer.is_ours():
                os.write(self._wake_writer.fd, b"!")
        except OSError:
            pass  # The pipe is full, so wait() ends anyway.

    def wait(
        self, seconds: float | None, active: Connection | None = None
    ) -> tuple[Connection, bytes | None] | None:
        """Waits for at most `seconds` (None: for ever) until a client does something.

        Returns (connection, line) when a client has asked, else None.

        `active` is the connection of the capture that runs, if one does. Then other clients are
        refused, and only that connection is watched: the method returns (active, None) when its
        client has sent something or has closed. Raises OSError if the program has closed our
        descriptors.
        """
        self._must_be_open()
        poll = _poll()
        watched = {self.listener.fileno(): None, self._wake_reader.fd: None}
        watched.update(
            {
                connection.sock.fileno(): connection
                for connection in ([active] if active else self.pending)
            }
        )
        for fd in watched:
            poll.register(fd, select.POLLIN)
        if self.pending and not active:
            seconds = min(_SECONDS_TO_ASK if seconds is None else seconds, _SECONDS_TO_ASK)
        happened = poll.poll(None if seconds is None else max(0, int(seconds * 1000)))
        self._must_be_open()
        first = None
        for fd, _ in happened:
            if fd == self._wake_reader.fd:
                self._drain()
            elif fd == self.listener.fileno():
                self._accept(active)
            elif active:
                first = (active, None)
            elif first is None:
                line = self._ask(watched[fd])
                first = (watched[fd], line) if line is not None else None
        self._drop_slow()
        return first

    def _must_be_open(self) -> None:
        if not (self._wake_reader.is_ours() and self._listens.is_ours()):
            # At the end of the interpreter, the sockets would close what has their numbers by then.
            self.close()
            raise OSError(errno.EBADF, "the program has closed the descriptors of the service")

    def refuse_others(self) -> None:
        """Refuses the clients that are connected but have not asked yet, because a capture begins
        and a process takes one at a time.
        """
        for connection in self.pending:
            connection.refuse("Busy", "another capture records this process")
        self.pending.clear()

    def _drain(self) -> None:
        try:
            while os.read(self._wake_reader.fd, 4096):
                pass
        except OSError:
            pass

    def _accept(self, active: Connection | None) -> None:
        try:
            # accept() would make a socket of the class that gevent has put there.
            fd, _ = self.listener._accept()
        except OSError:
            # No descriptors are left. The client still waits, so poll() would return at once.
            _sleep(0.05)
            return
        connection = Connection(_socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=fd))
        if active:
            connection.refuse("Busy", "another capture records this process")
        elif len(self.pending) >= _MAX_PENDING:
            connection.refuse("Busy", "too many connections")
        else:
            self.pending.append(connection)

    def _ask(self, connection: Connection) -> bytes | None:
        line = connection.read()
        if line is None and not connection.closed and not connection.too_long():
            return None
        self.pending.remove(connection)
        if line is None and connection.too_long():
            connection.refuse("InvalidRequest", f"a line has at most {MAX_LINE} bytes")
        elif line is None:
            connection.close()
        return line

    def _drop_slow(self) -> None:
        now = time.monotonic()
        for connection in [c for c in self.pending if c.until < now]:
            self.pending.remove(connection)
            connection.refuse("InvalidRequest", "no request was received")

    def close(self) -> None:
        for connection in [*self.pending, *([self.active] if self.active else [])]:
            connection.drop()
        self._listens.close()
        self.listener.detach()
        for end in (self._wake_reader, self._wake_writer):
            end.close()
