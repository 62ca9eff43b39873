"""A TCP proxy between the operator and one sidecar that simulates an unreliable network."""

import queue
import random
import socket
import struct
import threading
import time


class TcpProxy:
    """Thread-safe. `mode` is one of: pass; drop (accepts connections but forwards nothing, as in a partition or when the
    peer's machine is lost); refuse (resets new connections); slow (delays each piece by up to `delay` seconds);
    link (a link with a round trip of `round_trip` seconds and infinite bandwidth, on which a share `loss` of the pieces is lost and sent
    again)."""

    def __init__(self, target_port, seed=0):
        self.target_port = target_port
        self.mode, self.delay = "pass", 0.0
        self.round_trip = self.loss = 0.0
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Resets all open connections."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for ends in pairs:
            for end in ends:
                self._reset(end)

    def stop(self):
        self.listener.close()
        self.cut()

    def _reset(self, end):
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.mode == "refuse":
                self._reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), 2)
            except OSError:
                self._reset(client)
                continue
            with self.lock:
                self.pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                source.settimeout(None)
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _carry(self, pieces, sink):
        """Delivers (due time, data) in order."""
        while True:
            due, data = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                sink.sendall(data) if data else sink.shutdown(socket.SHUT_WR)
            except OSError:
                return
            if not data:
                return

    def _pump_link(self, source, sink):
        pieces = queue.SimpleQueue()
        threading.Thread(target=self._carry, args=(pieces, sink), daemon=True).start()
        handshake = self.round_trip  # The kernel has accepted the connection already.
        due = 0.0
        try:
            while True:
                data = source.recv(1400)
                again = 0.2 + self.round_trip if self.random.random() < self.loss else 0.0  # The retransmission timeout of Linux.
                due = max(due, time.monotonic() + self.round_trip / 2 + handshake + again)
                handshake = 0.0
                pieces.put((due, data))
                if not data:
                    return
        except OSError:
            pieces.put((due, b""))

    def _pump(self, source, sink):
        if self.mode == "link":
            return self._pump_link(source, sink)
        try:
            while data := source.recv(65536):
                # Data that was held back is delivered when the partition ends, like TCP's retransmissions.
                while self.mode == "drop":
                    time.sleep(0.02)
                if self.mode == "slow":
                    time.sleep(self.random.uniform(0, self.delay))
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
