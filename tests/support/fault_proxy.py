"""An HTTP proxy between the operator and a real API server that fails on command.

The operator speaks plain HTTP to it (its kubeconfig carries no secret); the proxy speaks TLS with a
client certificate to the server. Faults are scripted per request; see Faults.
"""

import json
import re
import socket
import socketserver
import ssl
import threading
import time
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit


class Faults:
    """The faults to cause and the requests that were seen. All methods may be called from any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []          # (predicate, action, remaining)
        self.seen = []           # (time, method, path)
        self.writes = 0
        self.on_write = None     # Called after each successful write with the number of writes.
        self.streams = []        # Sockets of open watches.
        self.replays = 0         # Number of calls of replay().

    def add(self, predicate, action, times=1):
        with self.lock:
            self.rules.append([predicate, action, times])

    def clear(self):
        with self.lock:
            self.rules.clear()

    def pick(self, method, path):
        with self.lock:
            self.seen.append((time.monotonic(), method, path))
            for rule in self.rules:
                if rule[2] > 0 and rule[0](method, path):
                    rule[2] -= 1
                    return rule[1]
        return None

    def count(self, predicate):
        with self.lock:
            return sum(1 for _, method, path in self.seen if predicate(method, path))

    def replay(self):
        """Makes each watch repeat its last events before its next one."""
        with self.lock:
            self.replays += 1

    def cut_streams(self, reset=False):
        """Ends all watches now: with FIN in the middle of a chunk, or with RST."""
        with self.lock:
            streams, self.streams = self.streams, []
        for stream in streams:
            try:
                if reset:
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                stream.shutdown(socket.SHUT_RDWR) if not reset else stream.close()
            except OSError:
                pass
        return len(streams)


def is_watch(method, path):
    return method == "GET" and "watch=true" in path


def is_list(method, path):
    return method == "GET" and re.search(r"/profilerequests\?", path) is not None and not is_watch(method, path)


def is_write(method, path):
    return method in ("POST", "PUT", "PATCH", "DELETE") and "/leases" not in path


def refuse(status, headers=None, reason="", message="scripted"):
    """Answers in place of the server."""
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": message})

    def act(handler):
        handler.answer(status, {"Content-Type": "application/json", **(headers or {})}, body.encode())

    return act


def expired_event():
    """Answers a watch with 200 and then an ERROR event with code 410."""
    event = json.dumps({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}})

    def act(handler):
        handler.answer(200, {"Content-Type": "application/json"}, (event + "\n").encode())

    return act


def silence(seconds):
    def act(handler):
        time.sleep(seconds)
        handler.close_connection = True

    return act


def reset():
    def act(handler):
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        handler.connection.close()
        handler.close_connection = True

    return act


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers, body):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        action = proxy.faults.pick(self.command, self.path)
        if action is not None:
            action(self)
            return
        try:
            connection = HTTPSConnection(proxy.host, proxy.port, context=proxy.context, timeout=600)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "content-length")}
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            if is_watch(self.command, self.path):
                self.stream(response)
            else:
                data = response.read()
                self.answer(response.status, {k: v for k, v in response.getheaders() if k.lower() in ("content-type", "retry-after")}, data)
                if is_write(self.command, self.path) and response.status < 300:
                    with proxy.faults.lock:
                        proxy.faults.writes += 1
                        count, hook = proxy.faults.writes, proxy.faults.on_write
                    if hook:
                        hook(count)
            connection.close()
        except OSError:
            self.close_connection = True

    def stream(self, response):
        faults = self.server.proxy.faults
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type", "application/json"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with faults.lock:
            faults.streams.append(self.connection)
            replays = faults.replays
        said = b""
        while True:
            data = response.read1(65536)
            if not data:
                break
            if faults.replays > replays and said.endswith(b"\n"):
                replays = faults.replays
                data = b"".join(said.splitlines(keepends=True)[-5:]) + data
            said = (said + data)[-1 << 16:]
            # Drops the first line if the limit has cut it.
            said = said if len(said) < 1 << 16 else said[said.find(b"\n") + 1:]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_):
        pass  # These tests break connections on purpose.


class FaultProxy:
    def __init__(self, plane):
        target = urlsplit(plane.url)
        self.host, self.port = target.hostname, target.port
        self.context = ssl.create_default_context(cafile=plane.dir / "ca.crt")
        self.context.load_cert_chain(plane.dir / "admin.crt", plane.dir / "admin.key")
        self.faults = Faults()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.proxy = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kubeconfig(self, path):
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody", "namespace": "default"}}],
        }))
        return path

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
