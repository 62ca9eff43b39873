"""Reads objects from an API server as kubectl would, without starting a program: tests that wait ask many times a second."""

import base64
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from pathlib import Path


def _only(entries, kind):
    """The one entry of its kind in a test's kubeconfig."""
    (entry,) = entries
    return entry[kind]


class ApiClient:
    """For kubeconfigs as tests write them, in JSON, with one cluster and one user, who has a certificate or a token. ValueError for others."""

    def __init__(self, kubeconfig):
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = _only(config["clusters"], "cluster"), _only(config["users"], "user")
        if not {"token", "client-certificate-data"} & user.keys():
            raise ValueError("the user has neither a token nor a certificate")
        self.server = cluster["server"]
        self.context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self.headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
                pair.flush()
                self.context.load_cert_chain(pair.name)

    def get(self, path):
        """The object at the path. RuntimeError with the server's reason and message, as kubectl writes them."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.server + path, headers=self.headers), context=self.context, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                status = json.loads(text)
                text = f"({status['reason']}): {status['message']}"
            except (KeyError, TypeError, ValueError):
                pass
            raise RuntimeError(f"{path}: Error from server {text}") from None
        except OSError as error:
            raise RuntimeError(f"{path}: {error}") from None
