"""Asks an API server as kubectl would, without starting a program: that takes 65 ms of processor time each, and tests ask thousands of times."""

import base64
import http.client
import json
import re
import ssl
import tempfile
import urllib.parse
from pathlib import Path


def _only(entries, kind):
    """The one entry of its kind in a test's kubeconfig."""
    (entry,) = entries
    return entry[kind]


class Refused(RuntimeError):
    """The server's answer, with its reason and message as kubectl writes them."""

    def __init__(self, path, code, text):
        try:
            status = json.loads(text)
            text = f"({status['reason']}): {status['message']}"
        except (KeyError, TypeError, ValueError):
            pass
        super().__init__(f"{path}: Error from server {text}")
        self.code = code


class ApiClient:
    """For kubeconfigs as tests write them, in JSON, with one cluster and one user, who has a certificate or a token. ValueError for others."""

    def __init__(self, kubeconfig):
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = _only(config["clusters"], "cluster"), _only(config["users"], "user")
        if not {"token", "client-certificate-data"} & user.keys():
            raise ValueError("the user has neither a token nor a certificate")
        server = urllib.parse.urlsplit(cluster["server"])
        self.address = server.hostname, server.port
        self.context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self.headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
                pair.flush()
                self.context.load_cert_chain(pair.name)

    def ask(self, method, path, body=None, kind="application/json", user=None, groups=(), **query):
        """(content of the server's answer, its warnings). `user` and `groups` are those to act as. Refused with the server's reason; RuntimeError if none comes."""
        connection = http.client.HTTPSConnection(*self.address, timeout=60, context=self.context)
        try:
            connection.putrequest(method, f"{path}?{urllib.parse.urlencode(query)}" if query else path)
            data = b"" if body is None else json.dumps(body).encode()
            impersonated = [("Impersonate-User", user)] if user else []
            impersonated += [("Impersonate-Group", group) for group in groups]
            for name, value in [*self.headers.items(), *impersonated, ("Content-Type", kind), ("Content-Length", str(len(data)))]:
                connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"{path}: {error}") from None
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(path, answer.status, content.decode(errors="replace"))
        # A warning is written as 299 - "text".
        return content, [re.sub(r"\\(.)", r"\1", line.split('"', 1)[1].rsplit('"', 1)[0]) for line in answer.headers.get_all("Warning", ())]

    def get(self, path, **query):
        return json.loads(self.ask("GET", path, **query)[0])

    def create(self, path, made, user=None, groups=(), manager="kubectl-create", **query):
        """(the object, warnings). As with kubectl, fields that the kind does not have are refused."""
        content, warnings = self.ask("POST", path, made, user=user, groups=groups, fieldValidation="Strict", fieldManager=manager, **query)
        return json.loads(content), warnings

    def merge(self, path, change):
        return json.loads(self.ask("PATCH", path, change, "application/merge-patch+json")[0])
