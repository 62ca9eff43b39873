"""The operator with webhooks, certificate authority and mTLS, configured as by the chart, on an API server without nodes."""

import base64
import json
import subprocess

import yaml

from .control_plane import Kubectl
from .metrics import total
from .operator import Operator
from .ports import free_port
from .processes import BIN, ROOT, TOOLS
from .rights import await_bindings, grant, user_named
from .tls import issue
from .workers import mark_running


def chart_objects(*arguments, release="strobe", namespace="strobe-system"):
    """The objects that `helm template` renders from our chart."""
    done = subprocess.run([TOOLS / "helm", "template", release, ROOT / "helm/strobe", "--namespace", namespace, *arguments],
                          check=True, capture_output=True, text=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


class SecureOperator(Operator):
    """An operator that serves only the namespace in which its own objects are."""

    def __init__(self, group, plane, kubectl, name="operator", tls=None, webhook=None, injection=None, flags=("--no-leader-election",), pod_failure_policy="Ignore", **config):
        self.kubectl = kubectl
        self.space = kubectl.namespace
        self.webhook_port, self.enroll_port = free_port(), free_port()
        self.configuration = f"{name}-{self.space}"
        self.pod_failure_policy = pod_failure_policy
        super().__init__(group, plane.kubeconfig, name=f"{name}-{self.space}", flags=flags, config={
            "watch": {"namespace": self.space}, "lease": {"namespace": self.space},
            "webhook": {"listen": f"127.0.0.1:{self.webhook_port}", "configuration": self.configuration, "drainTime": "0s", **(webhook or {})},
            "tls": {"enrollListen": f"127.0.0.1:{self.enroll_port}", "extraNames": ["localhost"], **(tls or {})},
            "injection": injection or {}, "state": {"configMap": "strobe-operator-state"}, **config})
        self.command.remove("--insecure-plaintext")

    def start(self):
        if not self.kubectl.has("secret", "strobe-authority"):
            self.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "strobe-authority"}},
                               {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strobe-operator-state"}})
            self.register_webhooks()
        return super().start()

    def register_webhooks(self):
        """Registers the chart's webhooks for this namespace only, by URL instead of by Service."""
        for configuration in chart_objects("--show-only", "templates/webhooks.yaml"):
            configuration["metadata"]["name"] = self.configuration
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"]["url"] = f"https://localhost:{self.webhook_port}{path}"
                ours = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.space]}
                selector = webhook.setdefault("namespaceSelector", {})
                selector["matchExpressions"] = [ours] + [e for e in selector.get("matchExpressions", []) if e["key"] == "strobe.dev/inject"]
                # The operator uses the administrator's credentials here. Its writes must not call its own webhooks.
                for condition in [c for c in webhook.get("matchConditions", []) if c["name"] == "not-the-operator"]:
                    condition["expression"] = '!("system:masters" in request.userInfo.groups) || request.operation == "CREATE"'
                if path == "/inject":
                    webhook["failurePolicy"] = self.pod_failure_policy
            self.kubectl.apply(configuration)

    def authority(self):
        """Returns (certificates, keys) of the authority in PEM."""
        data = self.kubectl.get("secret", "strobe-authority")["data"]
        return tuple(base64.b64decode(data[key]).decode() for key in ("ca.crt", "ca.key"))

    def metric(self, name, **labels):
        return total(self.page("/metrics"), name, **labels)

    def remove(self):
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            self.kubectl.run("delete", kind, self.configuration, "--ignore-not-found", check=False)


def account_kubeconfig(plane, account, space="strobe-system"):
    """The kubeconfig of a service account. Its certificate has the account's name as its user, which is what roles are bound to."""
    issue(plane.dir, account, f"/CN=system:serviceaccount:{space}:{account}", server=False)
    kubeconfig = plane.dir / f"{account}.kubeconfig"
    plane.write_kubeconfig(kubeconfig, account)
    return kubeconfig


class ChartOperator(Operator):
    """An operator with the configuration and the rights that the chart gives it. The chart's objects are in the cluster; there is no Deployment's
    controller, so that this process is the operator. `kubectl` is for the namespace of the pods."""

    SPACE = "strobe-system"
    USER = f"system:serviceaccount:{SPACE}:strobe-operator"

    def __init__(self, group, plane, kubectl, *values, name="chart-operator"):
        self.kubectl = kubectl
        self.webhook_port, self.enroll_port = free_port(), free_port()
        self.admin = Kubectl(plane.kubeconfig, self.SPACE)
        self.objects = [o for o in chart_objects(*values) if "helm.sh/hook" not in o["metadata"].get("annotations", {})]
        (config,) = [o["data"]["operator.yaml"] for o in self.objects if o["kind"] == "ConfigMap" and "operator.yaml" in o.get("data", {})]
        config = yaml.safe_load(config)
        config["lease"] |= {"namespace": self.SPACE, "enabled": False}
        config["webhook"] |= {"listen": f"127.0.0.1:{self.webhook_port}", "drainTime": "0s"}
        config["tls"] |= {"enrollListen": f"127.0.0.1:{self.enroll_port}", "extraNames": ["localhost"]}
        if "alertReceiver" in config:
            self.alert_port, self.alert_token = free_port(), "the-token-of-Alertmanager"
            token = group.log_dir / f"{name}-alert-token"
            token.write_text(self.alert_token)
            config["alertReceiver"] |= {"listen": f"127.0.0.1:{self.alert_port}", "tokenFiles": [str(token)]}
        config["log"]["format"] = "text"
        del config["http"]
        super().__init__(group, account_kubeconfig(plane, "strobe-operator", self.SPACE), name=name, config=config)
        self.command.remove("--insecure-plaintext")

    def apply(self, *flags):
        """Applies the chart's objects as GitOps controllers do."""
        self.admin.run("create", "namespace", self.SPACE, check=False)
        self.each_space("apply", *flags)
        return self

    def start(self):
        await_bindings(self.admin, *self.objects)
        return super().start()

    def each_space(self, verb, *flags, check=True):
        """Runs kubectl with the objects of each namespace, and returns what it writes. kubectl accepts only objects of one namespace."""
        spaces = {o["metadata"].get("namespace", self.SPACE): None for o in self.objects}
        return [self.admin.run(verb, *flags, "-n", space, "-f", "-", check=check, stdin="\n---\n".join(
            json.dumps(o) for o in self.objects if o["metadata"].get("namespace", self.SPACE) == space)).stdout for space in spaces]

    def lead_webhooks_here(self):
        """The API server reaches no Service without a node, but it reaches this machine."""
        for configuration in [o for o in self.objects if "webhooks" in o]:
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"]["url"] = f"https://localhost:{self.webhook_port}{path}"
        return self

    def authority(self):
        """Returns (certificates, keys) of the authority in PEM."""
        data = self.admin.get("secret", "strobe-authority", "-n", f"{self.SPACE}-authority")["data"]
        return tuple(base64.b64decode(data[key]).decode() for key in ("ca.crt", "ca.key"))

    def remove(self):
        self.objects = [o for o in self.objects if o["kind"] != "Namespace"]  # The next operator needs it at once.
        self.each_space("delete", "--ignore-not-found", "--wait=false", check=False)


def allow(kubectl, logdir, **limits):
    """Creates a ProfilePolicy for the namespace."""
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": kubectl.namespace},
                   "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
                            "allowedLogdirs": [str(logdir)], **limits}})


def grant_creating(kubectl, user, resource, profile):
    """Lets the user create and change objects of this resource, and perhaps profile pods."""
    rules = [{"apiGroups": ["strobe.dev"], "resources": [resource], "verbs": ["create", "get", "patch"]}]
    rules += [{"apiGroups": [""], "resources": ["pods"], "verbs": ["profile"]}] if profile else []
    grant(kubectl, user, rules, user_named(user))


def pod(name="p", labels=None, annotations=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"strobe.dev/inject": "true", **(labels or {})}, "annotations": annotations or {}},
            # The ServiceAccount admission plugin would set it, but this API server runs without that plugin.
            "spec": {"serviceAccountName": "default", "containers": [{"name": "train", "image": "jax"}], **spec}}


def pod_token(kubectl, pod, audience="strobe"):
    """Returns a token like the one that the kubelet would project into the pod."""
    if not kubectl.has("serviceaccount", "default"):
        kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    uid = kubectl.get("pod", pod)["metadata"]["uid"]
    asked = {"audiences": [audience], "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}}
    made = kubectl.post(f"/api/v1/namespaces/{kubectl.namespace}/serviceaccounts/default/token",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked})
    return made["status"]["token"]


class SecureSidecar:
    """A sidecar with the flags of an injected one, and a Pod object without a node."""

    def __init__(self, group, operator, pod, profiler_port, directory, index=0, flags=(), host="127.0.0.1", host_ports=None, labels=None):
        self.port, self.http_port, self.host = free_port(), free_port(), host
        self.pod = pod
        make_pod(operator.kubectl, pod, self.port, labels, index=index, host_ports=host_ports and host_ports(self.port))
        directory.mkdir(parents=True, exist_ok=True)
        self.token_file = directory / f"{pod}.token"
        self.token_file.write_text(pod_token(operator.kubectl, pod))
        self.command = [BIN / "strobe-sidecar", "--listen", f"{host}:{self.port}", "--framework", f"localhost:{profiler_port}",
                        "--worker-name", pod, "--http-listen", f"{host}:{self.http_port}", "--enroll", f"localhost:{operator.enroll_port}",
                        "--token-file", self.token_file, "--state-dir", directory, *flags]
        self.group, self.roots = group, operator.authority()[0]
        self.process = None

    def start(self):
        self.process = self.group.start(f"sidecar-{self.pod}", self.command, env={"STROBE_ROOTS": self.roots})
        return self

    def wait(self):
        self.process.wait_for("serves its operator", 30)
        return self

    def page(self):
        import urllib.request

        with urllib.request.urlopen(f"http://{self.host}:{self.http_port}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def refused(self, reason):
        return total(self.page(), "strobe_sidecar_refused_peers_total", reason=reason)


def make_pod(kubectl, name, port, labels=None, index=0, host_ports=None):
    """Creates a Pod object with a loopback address. Its spec has the sidecar's port. With `host_ports`, as for a pod on the host's network, its annotation
    has the ports of which the sidecar uses one instead."""
    ports = {} if host_ports else {"ports": [{"name": "strobe", "containerPort": port}]}
    status = {"strobe.dev/status": json.dumps({"containers": ["trainer"], "ports": host_ports})} if host_ports else {}
    kubectl.apply({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "train", "batch.kubernetes.io/job-completion-index": str(index), **(labels or {})},
                     "annotations": status},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "trainer", "image": "trainer"}],
                 "initContainers": [{"name": "strobe-sidecar", "image": "s", "restartPolicy": "Always", **ports}]}})
    mark_running(kubectl, name)
