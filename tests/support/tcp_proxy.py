"""A TCP proxy between the operator and one sidecar that simulates an unreliable network."""

import random
import socket
import struct
import threading
import time


class TcpProxy:
    """Thread-safe. `mode` is one of: pass; drop (accepts connections but forwards nothing, as in a partition or when the
    peer's machine is lost); refuse (resets new connections); slow (delays each piece by up to `delay` seconds)."""

    def __init__(self, target_port, seed=0):
        self.target_port = target_port
        self.mode, self.delay = "pass", 0.0
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

    def _pump(self, source, sink):
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
