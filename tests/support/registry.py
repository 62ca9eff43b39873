"""A private registry: Debian's docker-registry, over TLS and with a password, from which a node pulls."""

import base64
import json
import re
import ssl
import urllib.error
import urllib.request

from .ports import free_port
from .processes import wait_until
from .tls import issue, make_authority


class Registry:
    """`name` is what images are called by. It is no name of DNS: containerd is told its address and its authority."""

    name = "registry.test"
    user, password = "puller", "registry-password"
    # The password's hash, as `htpasswd -B` writes it.
    htpasswd = "puller:$2b$04$strobestrobestrobestreHw9ZoDHmC4hgIf9HzQ7CU.uyFVfrM0e\n"

    def __init__(self, node):
        self.node = node
        self.dir = node.root / "registry"
        self.dir.mkdir()
        self.address = f"127.0.0.1:{free_port()}"  # containerd 1.6 cannot read addresses of IPv6 in hosts.toml.
        make_authority(self.dir, "registry-ca")
        issue(self.dir, "server", "/CN=registry")

    def start(self):
        (self.dir / "htpasswd").write_text(self.htpasswd)
        config = self.dir / "config.yml"
        config.write_text(json.dumps({
            "version": "0.1", "log": {"level": "info"}, "storage": {"filesystem": {"rootdirectory": str(self.dir / "data")}},
            "http": {"addr": self.address, "tls": {"certificate": str(self.dir / "server.crt"), "key": str(self.dir / "server.key")}},
            "auth": {"htpasswd": {"realm": "strobe", "path": str(self.dir / "htpasswd")}}}))
        self.process = self.node.group.start("registry", ["docker-registry", "serve", config])
        wait_until(lambda: self.answer() == 401, 30, f"the registry, which asks for a password; {self.process.output()[-2000:]}")
        known = self.node.registries / self.name
        known.mkdir(parents=True)
        (known / "hosts.toml").write_text(f'server = "https://{self.name}"\n[host."https://{self.address}"]\n'
                                          f'capabilities = ["pull", "resolve", "push"]\nca = "{self.dir / "ca.crt"}"\n')
        return self

    def answer(self):
        try:
            with urllib.request.urlopen(f"https://{self.address}/v2/", timeout=5, context=ssl.create_default_context(cafile=self.dir / "ca.crt")) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def take(self, image):
        """Moves an image of the node's into the registry, so that the node has to pull all of it."""
        name = f"{self.name}/{image}"
        self.node.ctr("images", "tag", f"docker.io/library/{image}", name)
        self.node.ctr("images", "push", "--hosts-dir", self.node.registries, "--user", f"{self.user}:{self.password}", name)
        # containerd keeps the image's content while any name refers to it, and its CRI plugin adds a name of its own.
        listed = [line.split() for line in self.node.ctr("images", "ls").stdout.splitlines()[1:]]
        (digest,) = [line[2] for line in listed if line[0] == name]
        self.node.ctr("images", "rm", "--sync", *(line[0] for line in listed if line[2] == digest))
        return self

    def pulled(self):
        """The blobs that were downloaded, by what the registry itself has logged."""
        return re.findall(r'"GET /v2/\S+/blobs/(sha256:[0-9a-f]+)\S* HTTP/[0-9.]+" 200 ', self.process.output())

    def secret(self, name):
        """What `kubectl create secret docker-registry` makes."""
        auth = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        config = {"auths": {self.name: {"username": self.user, "password": self.password, "auth": auth}}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": json.dumps(config)}}
