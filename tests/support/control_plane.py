"""A real etcd and kube-apiserver on loopback."""

import base64
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .api_client import ApiClient, Refused
from .kinds import collection, collection_of
from .ports import free_port
from .processes import PATIENCE, ROOT, TOOLS
from .tls import EC, issue, make_authority, openssl


class ControlPlane:
    """etcd and kube-apiserver with their certificates. Starts in a few seconds and writes only below its directory."""

    server_names = ()  # Additional names in the server's certificate.
    apiserver_flags = {}  # Flags by name; they replace flags of the same name in start_apiserver.

    def __init__(self, group, directory):
        self.group = group
        self.dir = Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.dir / "kubeconfig"

    def start(self):
        self._make_certificates()
        self._write_kubeconfig()
        self.start_etcd()
        self.start_apiserver()
        self.wait_ready()
        return self

    def start_etcd(self):
        client, peer = free_port(), free_port()
        self.etcd_process = self.group.start(
            "etcd",
            ["etcd", "--data-dir", self.dir / "etcd", "--unsafe-no-fsync",
             "--listen-client-urls", f"http://127.0.0.1:{client}",
             "--advertise-client-urls", f"http://127.0.0.1:{client}",
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}"],
        )
        self.etcd = f"http://127.0.0.1:{client}"

    def start_apiserver(self):
        pki = self.dir
        flags = {
            "etcd-servers": self.etcd, "secure-port": self.port, "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1", "endpoint-reconciler-type": "none",
            "tls-cert-file": pki / "server.crt", "tls-private-key-file": pki / "server.key",
            "client-ca-file": pki / "ca.crt",
            "service-account-key-file": pki / "sa.key", "service-account-signing-key-file": pki / "sa.key",
            "service-account-issuer": self.url, "service-cluster-ip-range": "10.255.0.0/24",
            "authorization-mode": "Node,RBAC", "allow-privileged": "true",
            # Pods have no kubelet here, so that nothing would project a service account's token into them.
            "disable-admission-plugins": "ServiceAccount",
            **self.apiserver_flags,
        }
        self.apiserver = self.group.start(
            "kube-apiserver", [TOOLS / "kube-apiserver", *(f"--{name}={value}" for name, value in flags.items())])

    def _make_certificates(self):
        make_authority(self.dir, "test-ca", EC)
        openssl("ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out", self.dir / "sa.key")
        issue(self.dir, "server", "/CN=kube-apiserver", names=self.server_names, key=EC)
        issue(self.dir, "admin", "/O=system:masters/CN=admin", server=False, key=EC)

    def _write_kubeconfig(self):
        self.write_kubeconfig(self.kubeconfig, "admin")

    def write_kubeconfig(self, path, user, server=None):
        """Writes a kubeconfig that contains <user>.crt and <user>.key."""
        def data(name):
            return base64.b64encode((self.dir / name).read_bytes()).decode()

        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server or self.url, "certificate-authority-data": data("ca.crt")}}],
            "users": [{"name": "admin", "user": {"client-certificate-data": data(f"{user}.crt"), "client-key-data": data(f"{user}.key")}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}],
        }))

    def wait_ready(self, timeout=60):
        context = ssl.create_default_context(cafile=self.dir / "ca.crt")
        context.load_cert_chain(self.dir / "admin.crt", self.dir / "admin.key")
        deadline = time.monotonic() + timeout * PATIENCE
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            if not self.apiserver.running():
                break
            time.sleep(0.1)
        raise RuntimeError(f"kube-apiserver is not ready:\n{self.apiserver.output()[-3000:]}")


class Kubectl:
    """Asks an API server with one kubeconfig and namespace: run() by kubectl, apply() and get() by kubectl where they must, all else without it.

    What is done without it needs a kubeconfig of a test's own (see ApiClient) and a kind in kinds.py.
    """

    def __init__(self, kubeconfig, namespace="default"):
        self.kubeconfig = str(kubeconfig)
        self.namespace = namespace
        self.client, self.client_of = None, 0  # For the kubeconfig of this time.

    def run(self, *arguments, stdin=None, check=True):
        result = subprocess.run(
            [TOOLS / "kubectl", "--kubeconfig", self.kubeconfig, "--namespace", self.namespace, *map(str, arguments)],
            input=stdin, text=True, capture_output=True,
            env={**os.environ, "HOME": os.environ.get("HOME", "/tmp")},
        )
        if check and result.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {result.stderr.strip()}")
        return result

    def create(self, *objects, user=None, groups=(), check=False, dry_run=False):
        """Creates those that can be created, as `user`. The result, and what `check` does, are as of run()."""
        query = {"dryRun": "All"} if dry_run else {}
        errors, told = [], []
        for made in objects:
            path = collection_of(made, self.namespace)
            assert path, f"kinds.py does not know {made['apiVersion']} {made['kind']}"
            try:
                told += [f"Warning: {text}" for text in self._client().create(path, made, user, groups, **query)[1]]
            except RuntimeError as error:
                errors.append(str(error))
        if check and errors:
            raise RuntimeError("\n".join(errors))
        return subprocess.CompletedProcess(["create"], 1 if errors else 0, "", "\n".join([*told, *errors]))

    def apply(self, *objects):
        """As kubectl does. RuntimeError if an object is refused."""
        there = [made for made in objects if not self._creates(made)]
        if there:
            self.run("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, there)))

    def _creates(self, made):
        """Whether the object was not there, and is now. Notes what kubectl would, which needs it to change the object later."""
        path, client = collection_of(made, self.namespace), self._client()
        if client is None or path is None or self.get_at(f"{path}/{made['metadata']['name']}") is not None:
            return False
        metadata = made["metadata"]
        noted = {**(metadata.get("annotations") or {}), "kubectl.kubernetes.io/last-applied-configuration": json.dumps(made) + "\n"}
        client.create(path, {**made, "metadata": {**metadata, "annotations": noted}}, manager="kubectl-client-side-apply")
        return True

    def get(self, *arguments):
        """An object or a list, by the arguments of `kubectl get`. RuntimeError if there is no such object."""
        asked = self._path(arguments)
        if asked is None or self._client() is None:
            return json.loads(self.run("get", *arguments, "-o", "json").stdout)
        path, query = asked
        return self._client().get(path, **query)

    def get_at(self, path):
        """The object at this path, or None."""
        try:
            return self._client().get(path)
        except Refused as error:
            if error.code != 404:
                raise
            return None

    def create_namespace(self, name):
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, check=True)

    def has(self, kind, name):
        return self.get_at(f"{collection(kind, self.namespace)}/{name}") is not None

    def set_status(self, kind, name, status):
        """Changes these fields of the object's status, as a kubelet would."""
        self._client().merge(f"{collection(kind, self.namespace)}/{name}/status", {"status": status})

    def raw(self, path):
        """What the server answers at the path, as text."""
        return self._client().ask("GET", path)[0].decode()

    def post(self, path, body):
        """The object that the server makes of `body`."""
        return self._client().create(path, body)[0]

    def _path(self, arguments):
        """(path, query) for arguments of `kubectl get`; None for those that only kubectl understands."""
        kind, *rest = map(str, arguments)
        namespace, name, query = self.namespace, None, {}
        while rest:
            flag = rest.pop(0)
            if flag in ("-A", "--all-namespaces"):
                namespace = None
            elif flag == "-n" and rest:
                namespace = rest.pop(0)
            elif flag == "-l" and rest:
                query["labelSelector"] = rest.pop(0)
            elif flag.startswith("-") or name is not None:
                return None
            else:
                name = flag
        path = collection(kind, namespace)
        return path and (f"{path}/{name}" if name else path, query)

    def _client(self):
        """None for a kubeconfig that is not a test's own, such as that of the cluster of `make demo`'s user."""
        try:
            written = os.stat(self.kubeconfig).st_mtime_ns
            if written != self.client_of:
                self.client, self.client_of = None, written
                self.client = ApiClient(self.kubeconfig)
        except (KeyError, OSError, ValueError):
            return None
        return self.client

    def install_crds(self):
        self.run("apply", "--server-side", "-f", ROOT / "helm/strobe/crds")
        self.run("wait", "--for=condition=Established", "crd/profilerequests.strobe.dev", "crd/profilepolicies.strobe.dev", "crd/profileschedules.strobe.dev", "crd/profiletriggers.strobe.dev", "--timeout=30s")
