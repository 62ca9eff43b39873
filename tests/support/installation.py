"""Installs Strobe with its chart on a real node, for tests that run in tests/cluster/inside."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from .control_plane import Kubectl
from .metrics import total
from .node import V4, Node, host_program, in_url
from .operator import condition, profile_request, wait_finished
from .processes import BIN, PYTHON, ROOT, TOOLS, Group, wait_until
from .rights import await_right
from .stores import Versity
from .tls import issue

CHART = ROOT / "helm" / "strobe"
SPACE = "strobe-system"


class NodeStore(Versity):
    """A store that pods can reach."""

    def __init__(self, node, directory, tls=True):
        super().__init__(node.group, directory, tls)
        self.address = in_url(node.address)
        if tls:
            issue(self.dir, "server", "/CN=store", names=[f"IP:{node.address}"])

    @property
    def endpoint(self):
        return super().endpoint.replace("127.0.0.1", self.address)

    def command(self):
        return [str(part).replace("127.0.0.1", self.address) for part in super().command()]


def helm(node, *arguments, check=True):
    done = subprocess.run([TOOLS / "helm", "--kubeconfig", node.kubeconfig, "--namespace", SPACE, *map(str, arguments)],
                          capture_output=True, text=True, env={**os.environ, "HELM_CACHE_HOME": str(node.root / "helm")})
    if check and done.returncode != 0:
        raise RuntimeError(f"helm {' '.join(map(str, arguments))}: {done.stderr}\n{done.stdout}\n{operator_log(node)}")
    return done


def operator_log(node):
    kubectl = Kubectl(node.kubeconfig, SPACE)
    ended = "{range .items[*].status.containerStatuses[*]}{.lastState.terminated}{\"\\n\"}{end}"  # The exit code and the signal of a restarted one.
    chosen = ("-l", "app.kubernetes.io/component=operator")
    asked = (("get", "pods", "-o", "wide"), ("get", "pods", *chosen, "-o", f"jsonpath={ended}"), ("logs", *chosen, "--tail=20", "--prefix", "--previous"),
             ("logs", *chosen, "--tail=40", "--prefix"))
    return "".join(kubectl.run(*question, check=False).stdout for question in asked)


def start_node(group, families=(V4,)):
    """Starts a node and loads our images."""
    node = Node(group, families).start()
    subprocess.run([ROOT / "tools/wheel"], check=True)  # tools/image copies the Python package from the wheel.
    for kind in ("operator", "sidecar", "viewer"):
        archive = node.root / f"{kind}.tar"
        subprocess.run([ROOT / "tools/image", kind, archive], check=True)
        node.load(archive)
    return node


def install(node, store, *arguments):
    helm(node, "install", "strobe", CHART, "--set-json", f'logdirs=["{store.url}/{{namespace}}"]', "--set", "image.pullPolicy=Never",
         "--set", "injection.image.pullPolicy=Never,injection.memoryLimit=1Gi", *arguments, "--wait", "--timeout", "120s")
    await_webhooks(node)


def operators(kubeconfig):
    """The operator's pods."""
    return Kubectl(kubeconfig, SPACE).get("pods", "-l", "app.kubernetes.io/component=operator")["items"]


def routed():
    """The addresses to which kube-proxy's rules on this node lead calls of the webhooks."""
    rules = "".join(subprocess.run([f"{tables}-save", "-t", "nat"], capture_output=True, text=True).stdout for tables in ("iptables", "ip6tables"))
    return set(re.findall(rf'--comment "{SPACE}/strobe-operator:\S+".* --to-destination \[?([0-9a-f.:]+?)\]?:\d+$', rules, re.MULTILINE))


def await_webhooks(node):
    """Helm waits only until the pods are ready. kube-proxy routes the Service to them a little later, and on a busy machine some time later."""
    def only_to_those_that_run():
        led_to = routed()
        return led_to and led_to <= {ip["ip"] for pod in operators(node.kubeconfig) for ip in pod["status"].get("podIPs", [])}

    wait_until(only_to_those_that_run, 60, "the Service to lead only to operators that run")
    asked = json.dumps(profile_request("reached", "s3://bucket/ml", target={"pods": ["nobody"]}))
    wait_until(lambda: "failed calling webhook" not in Kubectl(node.kubeconfig).run(
        "create", "--dry-run=server", "-f", "-", stdin=asked, check=False).stderr, 60, "the Service to lead to the webhooks")


def upgrade(node, *arguments):
    """Changes values of the chart, and waits until only operators with them answer: those of before go on for some seconds."""
    helm(node, "upgrade", "strobe", CHART, "--reuse-values", *arguments, "--wait", "--timeout", "120s")
    wait_until(lambda: all("deletionTimestamp" not in pod["metadata"] for pod in operators(node.kubeconfig)), 60, "the end of the operators of before")
    await_webhooks(node)


def profiled_namespace(node, store, name):
    """A namespace with an ordinary user, jane, who may profile there, and the store's keys as the Secret `traces`. Returns the administrator's kubectl for it."""
    team = Kubectl(node.kubeconfig, name)
    team.create_namespace(name)
    team.run("create", "rolebinding", "jane", "--clusterrole=strobe-profiler", "--user=jane")
    await_right(team, "profile", "pods", user="jane")
    team.run("create", "secret", "generic", "traces", *(f"--from-literal={key}={value}" for key, value in store.env.items()))
    return team


def as_jane(kubectl, *objects, check=True):
    done = kubectl.run("apply", "--as=jane", "--as-group=system:authenticated", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)), check=False)
    if check and done.returncode != 0:
        states = [(pod["metadata"]["name"], pod["status"].get("podIP"), pod["metadata"].get("deletionTimestamp")) for pod in operators(kubectl.kubeconfig)]
        raise RuntimeError(f"{done.stderr.strip()}; operators {states}, routed to {routed()}")
    return done


def host_pod(name, command):
    pod = host_program("train", command, labels={"strobe.dev/inject": "true"})
    pod["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def annotated_pod(name, annotations=None, **spec):
    """A pod whose program is annotated with the SDK."""
    pod = host_program("train", [str(BIN / "annotated_program"), "1", "50"], labels={"strobe.dev/inject": "true"}, annotations=annotations)
    pod["metadata"]["name"] = name
    pod["spec"] |= spec
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def captured(team, logdir, *pods):
    """Captures pods with an annotated program. Returns the verdict and all that the status says."""
    team.run("wait", "--for=condition=Ready", *(f"pod/{pod}" for pod in pods), "--timeout=90s")
    name = f"of-{pods[0]}"
    as_jane(team, profile_request(name, logdir, target={"pods": pods}, source="Agent", tracers={"device": "Disabled"}, start={"readyTimeout": "1m"}))
    request = wait_finished(team, name, 90)
    return condition(request, "Succeeded")["status"], json.dumps(request["status"])


def training_job(node, name, pods=2, labels=None, annotations=None):
    template = host_program("train", [str(PYTHON), str(ROOT / "tests/e2e/train_loop.py"), "--port", "9012", "--stop-file", str(node.root / "stop")],
                            {"PYTHONPATH": str(ROOT), "HOME": "/tmp"}, labels={"strobe.dev/inject": "true", **(labels or {})},
                            annotations={"strobe.dev/storage-secret": "traces", **(annotations or {})})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "backoffLimit": 0, "template": template}}


def metric(node, name, **labels):
    """The sum of a metric's samples with these labels over all operators."""
    admin = Kubectl(node.kubeconfig, SPACE)
    pages = [admin.raw(f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}:8080/proxy/metrics")
             for pod in operators(node.kubeconfig)]
    return sum(total(page, name, **labels) for page in pages)


@pytest.fixture(scope="module")
def node(request):
    """A module says by FAMILIES which addresses its node has."""
    with Group(Path(os.environ["STROBE_NODE_DIR"]) / "logs") as group:
        yield start_node(group, getattr(request.module, "FAMILIES", (V4,)))
        group.kill()  # Everything else ends with the namespaces.


@pytest.fixture(scope="module")
def store(node):
    return NodeStore(node, node.root / "store", tls=False).start()
