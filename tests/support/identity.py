"""Fake token services on loopback, like those that clouds offer to pods: they issue credentials and log the
requests. Only these services are fakes; the stores that accept the credentials are not."""

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class TokenService:
    """`answer(method, path, headers, form)` returns (status, object or text) or (status, object or text, more headers). With
    `tls_dir`, the service uses HTTPS with the server certificate in that directory."""

    def __init__(self, answer, tls_dir=None):
        self.seen = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
                headers = {k.lower(): v for k, v in self.headers.items()}
                form = {k: v[0] for k, v in parse_qs(body).items()}
                service.seen.append((self.command, self.path, headers, form))
                status, content, *more = answer(self.command, self.path, headers, form)
                data = (content if isinstance(content, str) else json.dumps(content)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain" if isinstance(content, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_any

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.http.server_address[1]}"
        self.url = f"{'https' if tls_dir else 'http'}://{self.host}"
        if tls_dir:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls_dir / "server.crt", tls_dir / "server.key")
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


def aws_credentials(key, secret):
    """Credentials in the JSON format of instance metadata and of EKS Pod Identity."""
    return {"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": key, "SecretAccessKey": secret, "Token": "a-session-token",
            "LastUpdated": "2026-01-01T00:00:00Z", "Expiration": "2099-01-01T00:00:00Z"}


def assumed_role(key, secret):
    """The answer of STS to AssumeRoleWithWebIdentity."""
    return ("<AssumeRoleWithWebIdentityResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>a-session-token</SessionToken>"
            "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")


def azure_token():
    """A token in the format of Microsoft Entra's access tokens, with a false signature: Azurite only checks the claims."""

    def part(content):
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    now = int(time.time())
    claims = {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
              "iat": now - 60, "nbf": now - 60, "exp": now + 3600, "oid": "strobe", "tid": "ab1f708d-50f6-404c-a006-d71b2ac7a606"}
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.c2lnbmF0dXJl"
