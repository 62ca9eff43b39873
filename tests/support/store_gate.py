"""An HTTP/1.1 proxy in front of a storage server that fails on command and can translate between APIs.

It uses the server's own certificate if the server has one, and logs all requests. The server behind it
is real; only the failures are simulated.
"""

import socket
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

CHUNK = 64 << 10


class Rule:
    """A fault of the next `times` requests that match. answer=(status, body): answers in place of the
    server. cut_request_after=N: cuts the connection after N bytes of the body. cut_answer_after=N: the same
    for the body of the server's answer. lose_answer=True: the server handles the request, but the client
    gets no answer. stall=seconds: waits before anything else."""

    def __init__(self, matches, times=1, answer=None, cut_request_after=None, cut_answer_after=None, lose_answer=False, stall=0):
        self.matches, self.times, self.answer = matches, times, answer
        self.cut_request_after, self.cut_answer_after = cut_request_after, cut_answer_after
        self.lose_answer, self.stall = lose_answer, stall


class StoreGate:
    def __init__(self, server, translate=None, bytes_per_second=None):
        self.server = server
        self.translate = translate  # Takes (method, path, headers, body) and returns the same, changed.
        self.translate_answer = None
        self.bytes_per_second = bytes_per_second
        self.lock = threading.Lock()
        self.rules = []
        self.seen = []  # (method, path)
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_any(self):
                gate._serve(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_any

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        if server.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(server.dir / "server.crt", server.dir / "server.key")
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def endpoint(self):
        return f"{'https' if self.server.tls else 'http'}://127.0.0.1:{self.port}"

    def env(self):
        """The environment that makes a program reach the server through the gate."""
        direct = f"127.0.0.1:{self.server.port}"
        return {k: v.replace(direct, f"127.0.0.1:{self.port}") for k, v in self.server.env.items()}

    def add(self, matches, **what):
        with self.lock:
            self.rules.append(Rule(matches, **what))

    def clear(self):
        with self.lock:
            self.rules.clear()
            self.seen.clear()

    def count(self, matches=lambda method, path: True):
        with self.lock:
            return sum(1 for method, path in self.seen if matches(method, path))

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    def _pick(self, method, path):
        with self.lock:
            self.seen.append((method, path))
            for rule in self.rules:
                if rule.times > 0 and rule.matches(method, path):
                    rule.times -= 1
                    return rule
        return None

    def _read_body(self, handler, most):
        left = min(int(handler.headers.get("Content-Length") or 0), most)
        body = bytearray()
        while left > 0:
            chunk = handler.rfile.read(min(CHUNK, left))
            if not chunk:
                raise ConnectionError("the client went away")
            body += chunk
            left -= len(chunk)
            if self.bytes_per_second:
                time.sleep(len(chunk) / self.bytes_per_second)
        return bytes(body)

    def _cut(self, handler):
        handler.close_connection = True
        try:
            raw = handler.connection
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            raw.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _serve(self, handler):
        rule = self._pick(handler.command, handler.path)
        if rule and rule.stall:
            time.sleep(rule.stall)
        if rule and rule.cut_request_after is not None:
            self._read_body(handler, rule.cut_request_after)
            return self._cut(handler)
        body = self._read_body(handler, 1 << 40)
        if rule and rule.answer:
            status, text = rule.answer
            return self._answer(handler, status, {"Content-Type": "application/xml"}, text.encode())
        method, path = handler.command, handler.path
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in ("connection", "expect")}
        if self.translate:
            method, path, headers, body = self.translate(method, path, headers, body)
        if self.server.tls:
            upstream = HTTPSConnection("127.0.0.1", self.server.port, timeout=60, context=self.server.context())
        else:
            upstream = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            upstream.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            data = answer.read()
            if rule and rule.lose_answer:
                return self._cut(handler)
            cut = rule.cut_answer_after if rule else None
            self._answer(handler, answer.status, dict(answer.getheaders()), data, cut)
            if cut is not None:
                self._cut(handler)
        finally:
            upstream.close()

    def _answer(self, handler, status, headers, data, cut=None):
        length = next((value for name, value in headers.items() if name.lower() == "content-length"), None)
        if self.translate_answer:
            headers = self.translate_answer(headers)
        handler.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", length if handler.command == "HEAD" and length else str(len(data)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(data[:cut])


def fake_gcs_gate(server):
    """Translates the XML API's PUT, which Google supports, to the JSON API's upload, the only way to write
    an object that fake-gcs-server supports."""
    gate = StoreGate(server, translate=lambda *request: _to_fake_gcs(server, *request))
    gate.translate_answer = lambda headers: {"ETag": '"none"', "x-goog-generation": "1", **headers}
    return gate


def _to_fake_gcs(server, method, path, headers, body):
    headers = {k: v for k, v in headers.items() if k.lower() != "host"}
    headers["Host"] = f"127.0.0.1:{server.port}"  # fake-gcs-server answers the XML API only under its own name.
    if method != "PUT" or path.startswith(("/storage/", "/upload/")):
        return method, path, headers, body
    bucket, _, name = path.lstrip("/").partition("/")
    query = f"uploadType=media&name={quote(unquote(name), safe='')}"
    lower = {k.lower(): v for k, v in headers.items()}
    if "x-goog-if-generation-match" in lower:
        query += f"&ifGenerationMatch={lower['x-goog-if-generation-match']}"
    return "POST", f"/upload/storage/v1/b/{bucket}/o?{query}", headers, body


class GcsOverS3:
    """Offers the GCS XML API, with multipart uploads and preconditions, on an S3 server: the two APIs differ
    only in the names of headers and in how requests are signed. Used for what fake-gcs-server lacks."""

    def __init__(self, server):
        from botocore.auth import S3SigV4Auth
        from botocore.credentials import Credentials

        self.server = server
        self.auth = S3SigV4Auth(Credentials(server.key, server.secret), "s3", "us-east-1")
        self.gate = StoreGate(server, translate=self.request)
        self.gate.translate_answer = self.answer
        self.tokens = set()  # Values of the Authorization header in requests.

    def env(self):
        return {"STORAGE_EMULATOR_HOST": self.gate.endpoint, **self.server.ca_env()}

    def request(self, method, path, headers, body):
        from botocore.awsrequest import AWSRequest

        name, _, query = path.partition("?")
        path = quote(unquote(name), safe="/-_.~") + (f"?{query}" if query else "")
        lower = {k.lower(): v for k, v in headers.items()}
        self.tokens.add(lower.get("authorization", ""))
        kept = {k.replace("x-goog-meta-", "x-amz-meta-"): v for k, v in lower.items()
                if k in ("content-type", "range", "if-none-match") or k.startswith("x-goog-meta-")}
        if lower.get("x-goog-if-generation-match") == "0":
            kept["if-none-match"] = "*"
        kept["host"] = f"127.0.0.1:{self.server.port}"
        request = AWSRequest(method, f"{self.server.endpoint}{path}", headers=kept, data=body)
        self.auth.add_auth(request)
        signed = dict(request.headers.items())
        signed["content-length"] = str(len(body))
        return method, path, signed, body

    @staticmethod
    def answer(headers):
        mapped = {k.lower().replace("x-amz-meta-", "x-goog-meta-"): v for k, v in headers.items()}
        mapped.setdefault("x-goog-generation", "1")
        return mapped
