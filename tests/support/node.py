"""A real Kubernetes node: control plane, kubelet, containerd, runc, CNI, kube-proxy and DNS, in the namespaces that
tests/cluster/inside creates. Its pods have addresses of IPv4, of IPv6, or of both. Images come from archives, and from
registries that a test starts (tests/support/registry.py)."""

import dataclasses
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

from .control_plane import ControlPlane, Kubectl
from .processes import PYTHON, ROOT, TOOLS, wait_until
from .tls import issue

NAME = "node"
DNS_SERVICE_ZONE = "cluster.local"
PAUSE = "pause:strobe"
HOST = "host-programs:strobe"


@dataclasses.dataclass(frozen=True)
class Family:
    """The addresses of one version of IP. The bridge's is the node's own."""

    version: int
    bridge: str
    pods: str
    services: str
    api_service: str
    loopback: str
    everywhere: str

    @property
    def prefix(self):
        return self.pods.rpartition("/")[2]


V4 = Family(4, "10.88.0.1", "10.88.0.0/16", "10.255.0.0/24", "10.255.0.1", "127.0.0.1", "0.0.0.0/0")
V6 = Family(6, "fd00:88::1", "fd00:88::/64", "fd00:255::/112", "fd00:255::1", "::1", "::/0")


def has_ipv6():
    return Path("/proc/net/if_inet6").exists()


def in_url(address):
    return f"[{address}]" if ":" in address else address


def docker_archive(path, name, files, entrypoint=()):
    """Writes a Docker archive with one layer. `files` maps paths in the image to their bytes, or to None for a directory."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for target, content in files.items():
            info = tarfile.TarInfo(target)
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if target == "tmp" else 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                tar.addfile(info, io.BytesIO(content))
    layer = layer.getvalue()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": list(entrypoint)},
                         "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for target, content in {"layer.tar": layer, "config.json": config, "manifest.json": manifest}.items():
            info = tarfile.TarInfo(target)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


class Node(ControlPlane):
    """`families` are V4, V6 or both; the first one is the node's own, and that of Services."""

    def __init__(self, group, families=(V4,)):
        super().__init__(group, Path(os.environ["STROBE_NODE_DIR"]) / "plane")
        self.families = families
        self.address = families[0].bridge
        self.server_names = (*(f"IP:{part}" for f in families for part in (f.bridge, f.api_service, f.loopback)), "DNS:kubernetes.default.svc")
        self.url = f"https://{in_url(families[0].loopback)}:{self.port}"
        self.root = Path(os.environ["STROBE_NODE_DIR"])
        self.cgroup = os.environ["STROBE_NODE_CGROUP"]
        self.socket = self.root / "c.sock"
        self.registries = self.root / "registries"  # What containerd knows of registries: REGISTRY/hosts.toml.
        self.apiserver_flags = {
            "bind-address": self._any(), "advertise-address": self.address, "endpoint-reconciler-type": "lease",
            "service-cluster-ip-range": ",".join(f.services for f in families),
            "service-account-issuer": "https://kubernetes.default.svc",
            "kubelet-client-certificate": self.dir / "admin.crt", "kubelet-client-key": self.dir / "admin.key",
            "kubelet-preferred-address-types": "InternalIP", "disable-admission-plugins": "DefaultIngressClass",
        }

    def _any(self):
        """The address of a server that listens on all of the node's addresses."""
        return "::" if V6 in self.families else "0.0.0.0"

    def start(self):
        self._make_bridge()
        self._start_containerd()
        super().start()
        self._start_controllers()
        self._start_kubelet()
        self._start_network()
        kubectl = Kubectl(self.kubeconfig)
        wait_until(lambda: kubectl.run("get", "node", NAME, check=False).returncode == 0, 60, "the node's registration")
        kubectl.run("wait", "--for=condition=Ready", f"node/{NAME}", "--timeout=60s")
        return self

    def _make_bridge(self):
        """Programs listen on the bridge's addresses before the CNI plugin runs, which then uses the existing bridge."""
        # A bridge without an address of its own takes the lowest one of its ports, and changes it as pods come and go. Pods would send
        # their answers to the former one for up to half a minute. The CNI plugin sets the address only of a bridge that it makes.
        commands = [["link", "add", "cni0", "address", "0a:58:00:00:00:01", "type", "bridge"],
                    # A bridge without a port has no carrier, and IPv6 does not use it.
                    ["link", "add", "anchor", "type", "veth", "peer", "name", "anchored"], ["link", "set", "anchored", "up"],
                    ["link", "set", "anchor", "master", "cni0", "up"]]
        for family in self.families:
            # Nobody else has the address, so that it need not be looked for (nodad).
            commands.append(["addr", "add", f"{family.bridge}/{family.prefix}", "dev", "cni0", *(["nodad"] if family is V6 else [])])
        commands.append(["link", "set", "cni0", "up"])
        # Without a route to the Services' addresses, packets would not reach kube-proxy's rules.
        commands += [[f"-{family.version}", "route", "add", "default", "dev", "cni0"] for family in self.families]
        for command in commands:
            subprocess.run(["ip", *command], check=True)
        for family in self.families:
            Path("/proc/sys/net/ipv6/conf/all/forwarding" if family is V6 else "/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _make_certificates(self):
        super()._make_certificates()
        issue(self.dir, "kubelet", f"/O=system:nodes/CN=system:node:{NAME}", server=False)

    def _start_containerd(self):
        cni = self.root / "cni"
        cni.mkdir()
        (cni / "10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": "strobe",
            "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
                         "ipam": {"type": "host-local", "ranges": [[{"subnet": f.pods}] for f in self.families], "dataDir": str(self.root / "ipam"),
                                  "routes": [{"dst": f.everywhere} for f in self.families]}}]}))
        config = self.root / "containerd.toml"
        config.write_text(f'''
version = 2
root = "{self.root}/containerd"
state = "{self.root}/run"
oom_score = 0
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self.registries}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{os.environ.get("STROBE_NODE_SNAPSHOTTER", "native")}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{ROOT}/tests/cluster/runc"
''')
        self.group.start("containerd", ["containerd", "--config", config])
        wait_until(lambda: self.ctr("version", check=False).returncode == 0, 30, "containerd's start")
        pause = self.root / "pause"
        subprocess.run(["gcc", "-static", "-O2", "-o", pause, ROOT / "tests/cluster/pause.c"], check=True)
        archive = self.root / "image.tar"
        docker_archive(archive, PAUSE, {"pause": pause.read_bytes()}, ["/pause"])
        self.load(archive)
        # An image of empty directories, for pods that mount this machine's programs there.
        docker_archive(archive, HOST, {name: None for name in ("usr", "lib", "lib64", "bin", "tmp", "etc", "proc", "sys", "dev")})
        self.load(archive)

    def ctr(self, *arguments, check=True):
        return subprocess.run(["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *map(str, arguments)],
                              check=check, capture_output=True, text=True)

    def load(self, archive):
        self.ctr("images", "import", "--snapshotter", os.environ.get("STROBE_NODE_SNAPSHOTTER", "native"), archive)

    def _start_controllers(self):
        self.group.start("kube-controller-manager", [
            TOOLS / "kube-controller-manager", "--kubeconfig", self.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
            "--service-account-private-key-file", self.dir / "sa.key", "--root-ca-file", self.dir / "ca.crt",
            "--use-service-account-credentials=false", "--node-monitor-grace-period=5m"])
        self.group.start("kube-scheduler", [TOOLS / "kube-scheduler", "--kubeconfig", self.kubeconfig, "--leader-elect=false",
                                            "--bind-address=127.0.0.1"])

    def _start_kubelet(self):
        for controller in Path("/sys/fs/cgroup").iterdir():
            if controller.is_dir() and not controller.is_symlink():
                (controller / self.cgroup).mkdir(exist_ok=True)
        # A new cpuset cgroup has no CPUs and no memory nodes until they are set.
        cpuset = Path("/sys/fs/cgroup/cpuset")
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (cpuset / file).exists():
                (cpuset / self.cgroup / file).write_text((cpuset / file).read_text())
        config = self.root / "kubelet.yaml"
        config.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}", "failSwapOn": False, "enforceNodeAllocatable": [], "resolvConf": "",
            "containerRuntimeEndpoint": f"unix://{self.socket}", "clusterDomain": DNS_SERVICE_ZONE, "clusterDNS": [self.address], "address": self._any(),
            "podLogsDir": str(self.root / "pods"), "volumePluginDir": str(self.root / "volumeplugins"),
            "authentication": {"x509": {"clientCAFile": str(self.dir / "ca.crt")}, "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"}, "evictionHard": {}, "imageGCHighThresholdPercent": 100,
            "syncFrequency": "10s", "oomScoreAdj": 0}))
        kubeconfig = self.root / "kubelet.kubeconfig"
        self.write_kubeconfig(kubeconfig, "kubelet")
        self.group.start("kubelet", [TOOLS / "kubelet", "--config", config, "--kubeconfig", kubeconfig, "--root-dir", self.root / "kubelet",
                                     "--hostname-override", NAME, "--node-ip", ",".join(f.bridge for f in self.families), "--cert-dir", self.root / "kubelet-pki"])

    def _start_network(self):
        config = self.root / "proxy.yaml"
        config.write_text(json.dumps({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)}, "clusterCIDR": ",".join(f.pods for f in self.families), "hostnameOverride": NAME,
            "conntrack": {"maxPerCore": 0}, "iptables": {"syncPeriod": "5s", "minSyncPeriod": "0s"}}))
        self.group.start("kube-proxy", [TOOLS / "kube-proxy", "--config", config])
        corefile = self.root / "Corefile"
        corefile.write_text(f'''.:53 {{
  bind {' '.join(f.bridge for f in self.families)}
  errors
  kubernetes {DNS_SERVICE_ZONE} in-addr.arpa ip6.arpa {{
    kubeconfig {self.kubeconfig}
    ttl 5
  }}
}}
''')
        self.group.start("coredns", [TOOLS / "coredns", "-conf", corefile])


def host_program(name, command, env=None, labels=None, annotations=None):
    """A pod template whose container runs a program of this machine, with host path volumes for it."""
    places = sorted({"usr", "lib", "lib64", "bin", "tmp", ROOT.parts[1], PYTHON.resolve().parts[1]})
    return {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": name, "image": HOST, "imagePullPolicy": "Never", "command": command,
                            "env": [{"name": k, "value": v} for k, v in (env or {}).items()],
                            "volumeMounts": [{"name": place, "mountPath": f"/{place}"} for place in places]}],
            "volumes": [{"name": place, "hostPath": {"path": f"/{place}"}} for place in places],
        },
    }
