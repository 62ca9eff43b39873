"""A receiver of notifications: a real HTTPS server that keeps what it was sent."""

import http.server
import ssl
import threading

from .tls import issue, make_authority


class Receiver:
    """`answers`: the statuses of its first answers; 204 for all others."""

    def __init__(self, directory, answers=()):
        directory.mkdir()
        make_authority(directory, "receivers")
        issue(directory, "server", "/CN=receiver")
        self.authority = directory / "ca.crt"
        self.received, self.answers = [], list(answers)  # (headers, body) of each request.
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.crt", directory / "server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}/hooks?from=strobe"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
