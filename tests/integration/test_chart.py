"""The Helm chart without a node: what it renders, which values it refuses and which rights it requests."""

import json
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

from tests.support.control_plane import Kubectl
from tests.support.processes import BIN, ROOT, TOOLS
from tests.support.secure import chart_objects

CHART = ROOT / "helm" / "strobe"
VIEWER = ["--set", "viewer.enabled=true,viewer.hosts[0]=strobe.example.com,viewer.proxy.image=proxy:1,viewer.identity.userPrefix=oidc:,viewer.storage.secret=reader",
          "--set", "viewer.storage.config.configMap=store,viewer.storage.caBundle.secret=ca,viewer.serviceAccount.annotations.role=reader",
          "--set-json", 'viewer.logdirs=[{"url":"gs://b/ml","namespace":"ml"},{"url":"/mnt/logs","namespace":"web","name":"old"}]',
          "--set-json", 'viewer.env=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]', "--set-json", 'viewer.proxy.args=["--upstream=http://127.0.0.1:8081"]']
EVERYTHING = [*VIEWER, "--set", "replicaCount=2,networkPolicy.enabled=true,advanced.flowSchema.enabled=true,metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true",
              "--set", "policy.maxDuration=30s,policy.maxConcurrent=2,policy.minInterval=1m,policy.maxBytesPerWorker=2Gi",
              "--set", "policy.automatic.coolDown=10m,policy.automatic.capturesPerDay=48,policy.automatic.dutyCycle=0.5%,policy.automatic.maxConcurrent=1,policy.automatic.keep.for=720h",
              "--set-json", 'logdirs=["gs://b/{namespace}","/mnt/logs"]', "--set-json", 'advanced.extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x-{{ .Release.Name }}"}}]']

# All that can be said about images, and what the operator's pods and every sidecar get.
POD_VALUES = ["--set", "image.registry=registry.example/mirror/,image.tag=v1,injection.image.tag=v2",
              "--set-json", 'imagePullSecrets=["first",{"name":"second"}]', "--set-json", 'global={"imagePullSecrets":[{"name":"second"},{"name":"third"}]}',
              "--set-json", 'advanced.extraArgs=["--log-level=debug"]', "--set-json", 'advanced.extraEnv=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]',
              "--set-json", 'advanced.extraVolumes=[{"name":"x","emptyDir":{}}]', "--set-json", 'advanced.extraVolumeMounts=[{"name":"x","mountPath":"/x"}]',
              "--set-json", 'advanced.topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}}}]',
              "--set", "hostNetwork=true,advanced.podSecurityContext.fsGroup=2000,advanced.securityContext.runAsUser=1234,advanced.securityContext.seccompProfile.type=Unconfined"]
INJECTION_VALUES = ["--set", "injection.storage.secret=traces,injection.storage.config.secret=store,injection.storage.caBundle.configMap=ca",
                    "--set", "injection.ephemeralStorage=3Gi,injection.metricsPort=9100", "--set-json", 'injection.imagePullSecrets=["a",{"name":"b"}]',
                    "--set-json", 'injection.env=[{"name":"A","value":"1"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}}]']
RECEIVER_VALUES = ["--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=tokens,triggers.receiver.clientCA.secret=clients,triggers.receiver.certificateSecret=own",
                   "--set", "triggers.receiver.clientCA.names[0]=alertmanager,triggers.receiver.port=9555"]
DIGEST = f"sha256:{'0' * 63}f"


# The kinds whose objects say how many workers a job should have; operator/job/shape.cc reads them.
JOB_KINDS = ["jobs", "statefulsets", "replicasets", "daemonsets", "deployments", "jobsets", "leaderworkersets", "pytorchjobs", "tfjobs", "jaxjobs", "mpijobs",
             "xgboostjobs", "paddlejobs", "rayclusters", "rayjobs", "rayservices", "workloads"]


def helm(*arguments):
    return subprocess.run([TOOLS / "helm", *map(str, arguments)], capture_output=True, text=True)


def test_the_same_values_make_the_same_bytes():
    renders = {helm("template", "s", CHART, *EVERYTHING).stdout for _ in range(2)}
    assert len(renders) == 1 and len(renders.pop()) > 10_000
    assert helm("lint", "--strict", CHART).returncode == 0
    assert helm("template", "s", CHART).stderr == "", "Helm has nothing to warn of"


@pytest.mark.parametrize("setting", ["nothing=1", "image.repositry=x", "replicaCount=many", "webhook.port=99999", "webhook.timeoutSeconds=60",
                                     "policy.maxDuration=soon", "policy.maxConcurrent=0", "policy.maxBytesPerWorker=1GiB", "injection.spoolSize=2GiB", "log.level=loud", "tls.settle=1", "injection.cpu=lots", "viewer.url=javascript:x", "workers=0"])
def test_values_that_are_refused(setting):
    done = helm("template", "s", CHART, "--set", setting)
    assert done.returncode != 0 and setting.split("=")[0].split(".")[-1] in done.stderr, done.stderr


@pytest.mark.parametrize(("setting", "complaint"), [
    ("imagePullSecrets=[7]", ["imagePullSecrets/0", "got number, want string", "got number, want object"]),
    ('imagePullSecrets=[{"title":"x"}]', ["imagePullSecrets/0", "missing property 'name'"]),
    ('image={"digest":"latest"}', ["image/digest", "sha256"]),
    ('injection={"imagePullSecrets":"x"}', ["injection/imagePullSecrets", "want array"]),
    ('injection={"env":[{"name":"STROBE_ROOTS","value":"x"}]}', ["injection/env/0/name", "not"]),
    ('injection={"env":[{"name":"A","value":1}]}', ["injection/env/0/value", "got number, want string"]),
    ('injection={"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"x"}}}]}', ["injection/env/0/valueFrom/secretKeyRef", "missing property 'key'"]),
    ('injection={"storage":{"caBundle":{"file":"x"}}}', ["injection/storage/caBundle", "file"]),
    ('viewer={"logdirs":[{"url":"gs://b"}]}', ["viewer/logdirs/0", "missing property 'namespace'"]),
    ('viewer={"enabled":true,"logdirs":[{"url":"gs://b","namespace":"ml"}]}', ["viewer.proxy.image is needed"]),
    ('viewer={"enabled":true,"logdirs":[]}', ["viewer.logdirs is needed"]),
    ('advanced={"extraArgs":"--x"}', ["advanced/extraArgs", "want array"]),
    ('triggers={"receiver":{"token":{"keys":["a","b","c"]}}}', ["triggers/receiver/token/keys", "maxItems"]),
    ('triggers={"receiver":{"token":{"keys":["../x"]}}}', ["triggers/receiver/token/keys/0", "does not match pattern"]),
    ('logdirs=["gs://b","gs://b"]', ["logdirs", "items at 0 and 1 are equal"]),
    ('nameOverride="Strobe_X"', ["nameOverride", "does not match pattern"]),
    ('watchNamespace="Bad_NS"', ["watchNamespace", "does not match pattern"]),
    # Sections that are gone, as after an upgrade from an older chart with --reuse-values.
    ('viewer=null', ["missing (viewer)", "--reset-then-reuse-values"]),
    ('advanced={"topologySpreadConstraints":{}}', ["advanced/topologySpreadConstraints", "want array"]),
    # A rule without ports would allow everything.
    ('networkPolicy={"dnsPorts":[]}', ["networkPolicy/dnsPorts", "minItems"]),
    ('networkPolicy={"apiServerPorts":[]}', ["networkPolicy/apiServerPorts", "minItems"]),
    ('networkPolicy={"extraEgress":{}}', ["networkPolicy/extraEgress", "want array"]),
    ('networkPolicy={"viewerEgress":{}}', ["networkPolicy/viewerEgress", "want array"]),
    ('advanced={"hooks":{"resources":"64Mi"}}', ["advanced/hooks/resources", "want object"]),
])
def test_the_schema_says_what_is_wrong_and_where(setting, complaint):
    done = helm("template", "s", CHART, "--set-json", setting)
    assert done.returncode != 0 and all(part in done.stderr for part in complaint), done.stderr


@pytest.mark.parametrize(("setting", "complaint"), [
    ("webhook.port=8080", "metrics.port and webhook.port are both 8080"),
    ("tls.enrollPort=9443", "tls.enrollPort and webhook.port are both 9443"),
    ("metrics.port=443", "the port of the Service's webhook are both 443"),
    ("injection.hostNetworkPorts=30000-20000", "write FIRST-LAST"),
    ("injection.hostNetworkPorts=20000-99999", "write FIRST-LAST"),
    ("policy.defaultLogdir=gs://x", "policy.defaultLogdir needs logdirs"),
    ("policy.defaultLogdir=gs://bx,logdirs[0]=gs://b", "neither one of logdirs nor below one"),
    ("policy.sidecar.runAsGroup=5", "runAsGroup needs policy.sidecar.runAsUser"),
    ("tls.settle=1h", "settle must be at least as long"),
    ("tls.certificateLifetime=0s", "must be at least 1s"),
    ("tls.authorityLifetime=144h", "more than 3 x (tls.settle + tls.certificateLifetime)"),
    ("triggers.receiver.enabled=true", "needs token.secret or clientCA.secret"),
    ("triggers.receiver.clientCA.names[0]=x", "names needs triggers.receiver.clientCA.secret"),
    ("triggers.receiver.enabled=true,triggers.receiver.token.secret=t,triggers.receiver.port=8080", "metrics.port and triggers.receiver.port are both 8080"),
    ("viewer.accessCache=6m", "must be at most 5m"),
    ("logdirs[0]=gs://b/../x", 'logdirs has gs://b/../x; ".." is not allowed'),
])
def test_values_that_do_not_fit_together_are_refused_before_anything_is_installed(setting, complaint):
    """Each of them used to be found by the API server halfway through an installation, by an operator that did not start, or by nobody."""
    done = helm("template", "s", CHART, "--set", setting)
    assert done.returncode != 0 and complaint in done.stderr, done.stderr


def test_values_that_fit_together():
    for settings in ("tls.enabled=false,tls.enrollPort=8080", "policy.defaultLogdir=gs://b/x,logdirs[0]=gs://b/", "policy.defaultLogdir=gs://b,logdirs[0]=gs://b",
                     "tls.authorityLifetime=1h1s,tls.settle=10m,tls.certificateLifetime=10m", "logdirs=null", "injection.imagePullSecrets=null,imagePullSecrets=null", "metrics.dashboard.enabled=true,metrics.dashboard.labels=null"):
        done = helm("template", "s", CHART, "--set", settings)
        assert done.returncode == 0 and list(yaml.safe_load_all(done.stdout)), done.stderr


def test_quantities_may_be_numbers():
    """As in a pod, where `cpu: 1` is common. Helm reads numbers as floating-point numbers."""
    config = operator_config(chart_objects("--set-json", 'injection={"cpu":1,"cpuLimit":0.5,"memory":134217728,"memoryLimit":4294967296,"spoolSize":2147483648}'))["injection"]
    assert [config[key] for key in ("cpu", "cpuLimit", "memory", "memoryLimit", "spoolSize")] == ["1", "0.5", "134217728", "4294967296", "2147483648"]
    (policy,) = [o["spec"] for o in chart_objects("--set", "logdirs[0]=gs://b,policy.maxBytesPerWorker=2147483648") if o["kind"] == "ProfilePolicy"]
    assert policy["maxBytesPerWorker"] == "2147483648" and "automatic" not in policy
    (policy,) = [o["spec"] for o in chart_objects("--set", "logdirs[0]=gs://b,policy.automatic.bytesPerDay=21474836480,policy.automatic.keep.runs=50") if o["kind"] == "ProfilePolicy"]
    assert policy["automatic"] == {"bytesPerDay": "21474836480", "keep": {"runs": 50}}
    for settings, sidecar in (("runAsUser=7", {"runAsUser": 7}), ("flightRecorderDevices=true", {"flightRecorderDevices": True})):
        (policy,) = [o["spec"] for o in chart_objects("--set", f"logdirs[0]=gs://b,policy.sidecar.{settings}") if o["kind"] == "ProfilePolicy"]
        assert policy["sidecar"] == sidecar


def test_every_sidecar_can_have_a_cpu_limit():
    assert operator_config(chart_objects())["injection"]["alwaysLimitCpu"] is False
    assert operator_config(chart_objects("--set", "injection.alwaysLimitCpu=true"))["injection"]["alwaysLimitCpu"] is True
    assert helm("template", "s", CHART, "--set-string", "injection.alwaysLimitCpu=yes").returncode != 0


def test_changes_of_trainers_can_be_switched_off():
    assert operator_config(chart_objects())["injection"]["disable"] == []
    assert operator_config(chart_objects("--set-json", 'injection.disable=["server","steps"]'))["injection"]["disable"] == ["server", "steps"]
    assert operator_config(chart_objects("--set", "injection.disable=null"))["injection"]["disable"] == []
    assert "value must be one of 'agent'" in helm("template", "s", CHART, "--set-json", 'injection.disable=["servers"]').stderr


def test_no_user_is_null():
    objects = chart_objects("--set", "injection.user=null,runAsUser=null")
    assert operator_config(objects)["injection"]["user"] == 0
    assert all("runAsUser" not in c["securityContext"] and "runAsGroup" not in c["securityContext"] for spec in pod_templates(objects).values() for c in spec["containers"])


def test_every_field_of_the_api_explains_itself():
    """kubectl explain is the first manual that people open. Kubernetes itself describes apiVersion, kind and metadata."""
    def undescribed(schema, path):
        for name, field in schema.get("properties", {}).items():
            if not field.get("description") and f"{path}{name}" not in ("apiVersion", "kind", "metadata"):
                yield f"{path}{name}"
            yield from undescribed(field, f"{path}{name}.")
            yield from undescribed(field.get("items", {}), f"{path}{name}[].")

    for file in (CHART / "crds").glob("*.yaml"):
        for version in yaml.safe_load(file.read_text())["spec"]["versions"]:
            assert list(undescribed(version["schema"]["openAPIV3Schema"], "")) == [], file.name
            assert all(column.get("description") or column["name"] in ("Age", "Message") for column in version["additionalPrinterColumns"])


def notes(plane, *settings):
    done = helm("install", "s", CHART, "--kubeconfig", plane.kubeconfig, "--dry-run=client", *settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\nNOTES:\n")[1]


def test_what_the_chart_says_after_an_installation(plane):
    """Everybody who installs reads this. Its commands must be right for the values."""
    usual = notes(plane, "--set", "logdirs[0]=gs://b/{namespace}")
    assert "logdir-volume" not in usual
    assert "strobe.dev/logdir-volume: VOLUME:/nfs/ml\n" in notes(plane, "--set", "logdirs[0]=file:///nfs/{namespace},watchNamespace=ml")
    assert "allows no logdir" not in usual and 'strobe.dev/python: "true"' in usual
    assert "       logdir: gs://b/NAMESPACE\n     EOF" in usual and "--clusterrole s-strobe-profiler" in usual
    for without in ("logdirs=null", "policy.create=false,logdirs[0]=gs://b"):
        assert "allows no logdir" in notes(plane, "--set", without) and "upgrade s CHART" in notes(plane, "--set", without)
    ours = notes(plane, "--set", "watchNamespace=ml,logdirs[0]=gs://b,policy.defaultLogdir=gs://b/ml,rbac.create=false,injection.enabled=false,tls.enabled=false")
    assert "logdir:" not in ours and "NAMESPACE" not in ours and "kubectl apply -n ml" in ours
    assert "--clusterrole" not in ours and "docs/how-to/without-python.md" in ours and "WARNING: tls.enabled is false" in ours
    assert not [line for line in ours.splitlines() if line.strip() in ("{", "}") or "<no value>" in line]
    assert "Alertmanager" not in usual
    # What is to be copied into Alertmanager's configuration is YAML, and names what the values demand.
    (receiver,) = yaml.safe_load("  receivers:" + notes(plane, *RECEIVER_VALUES).split("  receivers:")[1])["receivers"]
    (hook,) = receiver["webhook_configs"]
    assert hook["url"] == "https://s-strobe-operator.default.svc:9555/alerts" and set(hook["http_config"]) == {"authorization", "tls_config"}
    assert set(hook["http_config"]["tls_config"]) == {"ca_file", "cert_file", "key_file"}


def pod_templates(objects):
    return {o["metadata"]["name"]: o["spec"] if o["kind"] == "Pod" else o["spec"]["template"]["spec"]
            for o in objects if o["kind"] in ("Deployment", "Job", "Pod")}


def operator_config(objects):
    (config,) = [o for o in objects if o["kind"] == "ConfigMap" and "operator.yaml" in o.get("data", {})]
    return yaml.safe_load(config["data"]["operator.yaml"])


def images(*arguments):
    """The operator's image, which all pods of the chart run, and the sidecar's."""
    objects = chart_objects(*arguments)
    (operator,) = {c["image"] for spec in pod_templates(objects).values() for c in spec["containers"]}
    assert len(pod_templates(objects)) == 5
    return operator, operator_config(objects)["injection"]["image"]


def test_where_images_come_from():
    assert images("--set", "image.tag=v1,injection.image.tag=v2") == ("strobe-operator:v1", "strobe-sidecar:v2")
    assert images(*POD_VALUES) == ("registry.example/mirror/strobe-operator:v1", "registry.example/mirror/strobe-sidecar:v2")
    assert images("--set", "image.registry=a,injection.image.registry=b:5000,image.tag=v1,injection.image.tag=v2") == ("a/strobe-operator:v1", "b:5000/strobe-sidecar:v2")
    assert images("--set", "global.imageRegistry=g,image.registry=a,injection.image.registry=b,image.tag=v1,injection.image.tag=v2") == (
        "g/strobe-operator:v1", "g/strobe-sidecar:v2")
    assert images("--set", f"image.registry=r,image.tag=v1,image.digest={DIGEST},injection.image.tag=v2,injection.image.digest={DIGEST}") == (
        f"r/strobe-operator@{DIGEST}", f"r/strobe-sidecar@{DIGEST}")


def test_the_viewers_image_is_its_own():
    def images_of_viewers(*arguments):
        """The image of the viewer as a service, and the one that injected pods name for `kubectl strobe view`."""
        objects = chart_objects(*VIEWER, *arguments)
        viewer = next(c for o in objects if o["kind"] == "Deployment" for c in o["spec"]["template"]["spec"]["containers"] if c["name"] == "viewer")
        return viewer["image"], operator_config(objects)["injection"]["viewerImage"], viewer.get("imagePullPolicy")

    assert images_of_viewers("--set", "image.registry=a,injection.image.registry=b,viewer.image.tag=v3") == ("a/strobe-viewer:v3", "a/strobe-viewer:v3", None)
    digest = f"c/own-viewer@{DIGEST}"
    assert images_of_viewers("--set", "injection.image.pullPolicy=Never", "--set", "viewer.image.registry=c,viewer.image.repository=own-viewer", "--set",
                             f"viewer.image.digest={DIGEST},viewer.image.pullPolicy=Always") == (digest, digest, "Always")


def test_every_pod_of_the_chart_has_what_it_is_pulled_and_run_with():
    specs = pod_templates(chart_objects(*POD_VALUES, "--set", "image.pullPolicy=Always"))
    assert set(specs) == {"strobe-operator", "strobe-crds", "strobe-check", "strobe-pre-delete", "strobe-post-delete"}
    for spec in specs.values():
        assert spec["imagePullSecrets"] == [{"name": "second"}, {"name": "third"}, {"name": "first"}]
        assert spec["securityContext"] == {"fsGroup": 2000}
        (container,) = spec["containers"]
        assert container["imagePullPolicy"] == "Always"
        security = container["securityContext"]
        assert security["runAsUser"] == 1234 and "runAsGroup" not in security and security["seccompProfile"] == {"type": "Unconfined"}
        assert security["readOnlyRootFilesystem"] is True, "what is not set keeps its default"
    (container,) = specs["strobe-operator"]["containers"]
    assert container["args"] == ["--config=/etc/strobe/operator.yaml", "--log-level=debug"]
    assert container["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]
    assert {"name": "x", "mountPath": "/x"} in container["volumeMounts"] and {"name": "x", "emptyDir": {}} in specs["strobe-operator"]["volumes"]
    assert specs["strobe-operator"]["topologySpreadConstraints"][0]["topologyKey"] == "zone"


def test_jobs_end_where_a_mesh_injects_its_proxy():
    templates = [o if o["kind"] == "Pod" else o["spec"]["template"] for o in chart_objects("--set", "advanced.hooks.podLabels.team=ml") if o["kind"] in ("Job", "Pod")]
    assert len(templates) == 4
    for template in templates:
        assert template["metadata"]["labels"].items() >= {"sidecar.istio.io/inject": "false", "team": "ml"}.items()
        assert template["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"
        # They are no endpoints of the operator's Service.
        assert template["metadata"]["labels"]["app.kubernetes.io/component"] != "operator"


def test_the_pods_of_hooks_run_where_the_operator_runs_with_resources_of_their_own():
    """A quota with a scope of priority classes, nodes that only some pods tolerate, or a policy that demands CPU limits held up each upgrade and removal."""
    def hooks(*arguments):
        return [spec for name, spec in pod_templates(chart_objects(*arguments)).items() if name != "strobe-operator"]

    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
    for spec in hooks():
        assert spec["containers"][0]["resources"] == resources and not {"priorityClassName", "affinity"} & set(spec)
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]}}
    values = {"priorityClassName": "high", "nodeSelector": {"pool": "infra"}, "tolerations": [{"key": "infra", "operator": "Exists"}],
              "affinity": {"nodeAffinity": node_affinity, "podAntiAffinity": {}}, "hooks": {"resources": {"limits": {"cpu": "100m"}}}}
    rare = ("hooks", "priorityClassName")
    specs = hooks(*(part for name, value in values.items() for part in ("--set-json", f"{'advanced.' if name in rare else ''}{name}={json.dumps(value)}")))
    assert len(specs) == 4
    for spec in specs:
        assert spec["priorityClassName"] == "high" and spec["nodeSelector"] == {"pool": "infra"} and spec["tolerations"] == values["tolerations"]
        assert spec["affinity"] == {"nodeAffinity": node_affinity}, "the operator's affinity to pods could keep them off its only node"
        assert spec["containers"][0]["resources"]["limits"] == {"cpu": "100m", "memory": "128Mi"}
    # As after an upgrade with --reuse-values from a chart without the value.
    assert all("resources" not in spec["containers"][0] for spec in hooks("--set", "advanced.hooks.resources=null"))


def test_a_hook_that_fails_says_why():
    """Helm prints the log of a failed job since 3.18, and the pod's status keeps its end."""
    hooks = [o for o in chart_objects() if o["kind"] in ("Job", "Pod")]
    assert len(hooks) == 4
    for o in hooks:
        assert o["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-failed"
        (container,) = (o["spec"] if o["kind"] == "Pod" else o["spec"]["template"]["spec"])["containers"]
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
        # Each ends before Helm itself gives up, after five minutes.
        assert o["kind"] == "Pod" or o["spec"]["activeDeadlineSeconds"] < 300


def policies(*arguments):
    return {o["metadata"]["name"]: o for o in chart_objects("--set", "networkPolicy.enabled=true", *arguments) if o["kind"] == "NetworkPolicy"}


def test_the_network_policy_lets_the_operator_reach_what_it_must():
    """Most networks look at the address and port of the pod behind a Service, and no selector of pods matches one with hostNetwork."""
    def egress(*arguments):
        return policies(*arguments)["strobe-operator"]["spec"]["egress"]

    cluster, pods, nodes = egress()
    assert "to" not in cluster and cluster["ports"] == [
        {"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 5353, "protocol": "UDP"}, {"port": 5353, "protocol": "TCP"},
        {"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]
    assert pods == {"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"strobe.dev/injected": "true"}}}]}
    assert nodes == {"ports": [{"port": 20000, "endPort": 29999, "protocol": "TCP"}]}
    assert {"ports": [{"port": 7, "endPort": 8, "protocol": "TCP"}]} in egress("--set", "injection.hostNetworkPorts=7-8")
    assert egress("--set", "networkPolicy.hostNetworkTargets=false") == [cluster, pods]
    assert egress("--set", "networkPolicy.dnsPorts={1053},networkPolicy.apiServerPorts={8443}")[0]["ports"] == [
        {"port": 1053, "protocol": "UDP"}, {"port": 1053, "protocol": "TCP"}, {"port": 8443, "protocol": "TCP"}]
    more = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 31000}]}]
    assert egress("--set-json", f"networkPolicy.extraEgress={json.dumps(more)}") == [cluster, pods, nodes, *more]
    assert {"ports": [{"port": 3000, "protocol": "TCP"}]} in egress("--set", "notify.url=http://receiver.x:3000/")
    # Nothing labels pods with a sidecar that was written by hand.
    assert {"to": [{"namespaceSelector": {}}], "ports": [{"port": 9470, "protocol": "TCP"}]} in egress("--set", "injection.enabled=false")
    # As after an upgrade with --reuse-values from a chart without these values.
    unset = ",".join(f"networkPolicy.{name}=null" for name in ("dnsPorts", "hostNetworkTargets", "extraEgress"))
    assert egress("--set", unset) == [cluster, pods, nodes]


def test_the_network_policy_lets_the_viewer_reach_what_it_must():
    """It used to allow no egress in a namespace that forbids what nothing allows, and any egress elsewhere."""
    def viewer(*arguments):
        return policies(*VIEWER, *arguments)["strobe-web"]["spec"]

    assert viewer()["policyTypes"] == ["Ingress", "Egress"]
    cluster, https, identity = viewer()["egress"]
    assert cluster == policies()["strobe-operator"]["spec"]["egress"][0]
    assert https == {"ports": [{"port": 443, "protocol": "TCP"}]}
    assert identity == {"to": [{"ipBlock": {"cidr": "169.254.0.0/16"}}], "ports": [{"port": 80, "protocol": "TCP"}, {"port": 988, "protocol": "TCP"}]}
    assert https in viewer("--set", "networkPolicy.apiServerPorts={8443}")["egress"], "stores do not follow the API server"
    more = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9000}]}]
    assert viewer("--set-json", f"networkPolicy.viewerEgress={json.dumps(more)}")["egress"] == [cluster, https, identity, *more]
    # As after an upgrade with --reuse-values from a chart without this value.
    assert viewer("--set", "networkPolicy.viewerEgress=null")["egress"] == [cluster, https, identity]


def test_hooks_reach_the_api_server_in_a_namespace_that_forbids_what_nothing_allows():
    """Their policies are hooks too, because the last job runs when everything else of the chart is gone."""
    made = policies()
    hooks = {"strobe-crds": "pre-upgrade", "strobe-pre-delete": "pre-delete", "strobe-post-delete": "post-delete", "strobe-check": "test"}
    assert set(made) == {"strobe-operator", *hooks}
    pods = {o["metadata"]["name"]: o["metadata"]["labels"] if o["kind"] == "Pod" else o["spec"]["template"]["metadata"]["labels"]
            for o in chart_objects() if o["kind"] in ("Job", "Pod")}
    for name, hook in hooks.items():
        assert made[name]["metadata"]["annotations"] == {
            "helm.sh/hook": hook, "helm.sh/hook-weight": "-10", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
        assert made[name]["spec"]["podSelector"]["matchLabels"].items() <= pods[name].items()
        assert made[name]["spec"]["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in made[name]["spec"]
        assert made[name]["spec"]["egress"] == made["strobe-operator"]["spec"]["egress"][:1]
    assert not [o for o in chart_objects() if o["kind"] == "NetworkPolicy"], "off by default"


class EachKeyOnce(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), (node.start_mark.line, keys)
        return super().construct_mapping(node, deep)


def test_labels_from_several_values_are_there_once():
    """kubectl and kustomize, and with it Flux, refuse a key that is there twice."""
    labels = {"team": "ml", "app.kubernetes.io/managed-by": "argo", "app.kubernetes.io/component": "x"}
    places = ("advanced.commonLabels", "advanced.podLabels", "advanced.hooks.podLabels", "metrics.serviceMonitor.labels", "metrics.podMonitor.labels", "metrics.prometheusRule.labels", "metrics.dashboard.labels")
    done = helm("template", "strobe", CHART, *EVERYTHING, "--set", "metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true",
                *(part for i, place in enumerate(places) for part in ("--set-json", f"{place}={json.dumps({**labels, 'team': f'team-{i}'})}")))
    assert done.returncode == 0, done.stderr
    objects = [o for o in yaml.load_all(done.stdout, EachKeyOnce) if o]
    (deployment,) = [o for o in objects if o["kind"] == "Deployment" and o["metadata"]["name"] == "strobe-operator"]
    assert deployment["metadata"]["labels"]["team"] == "team-0" and deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "argo"
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    assert pod["team"] == "team-1" and pod.items() >= deployment["spec"]["selector"]["matchLabels"].items(), "labels that selectors need stay"
    assert {o["spec"]["template"]["metadata"]["labels"]["team"] for o in objects if o["kind"] == "Job"} == {"team-2"}
    assert [o["metadata"]["labels"]["team"] for o in objects if o["kind"] == "ServiceMonitor"] == ["team-3"]


@pytest.mark.parametrize("release", ["strobe", "2026"])
def test_labels_are_labels_whatever_the_version_and_the_release_are_called(release, tmp_path):
    """Flux adds "+" and the revision to a chart's version (reconcileStrategy: Revision)."""
    assert helm("package", CHART, "--version", "0.1.0+4a3b.1", "--app-version", "0.1.0+4a3b", "--destination", tmp_path).returncode == 0
    done = helm("template", release, next(tmp_path.glob("*.tgz")), *EVERYTHING)
    assert done.returncode == 0, done.stderr
    objects = [o for o in yaml.safe_load_all(done.stdout) if o]
    for o in objects:
        for name, value in o["metadata"].get("labels", {}).items():
            assert isinstance(value, str) and re.fullmatch("([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", value), (o["kind"], name, value)
    assert "strobe-0.1.0_4a3b.1" in {o["metadata"].get("labels", {}).get("helm.sh/chart") for o in objects}


def test_operators_that_do_not_work_hold_up_no_drain():
    disruption = [o["spec"] for o in chart_objects(*EVERYTHING) if o["kind"] == "PodDisruptionBudget"]
    assert len(disruption) == 2 and all(spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow" for spec in disruption)


def test_what_is_injected_is_checked():
    """Pods that the label of their namespace injects used to be checked by nobody."""
    webhooks = {w["name"]: w for o in chart_objects("--set", "watchNamespace=ml") for w in o.get("webhooks", [])}
    for by in ("pods", "namespaces"):
        inject, check = webhooks[f"inject-{by}.strobe.dev"], webhooks[f"check-{by}.strobe.dev"]
        assert {key: inject[key] for key in ("namespaceSelector", "objectSelector", "rules")} == {key: check[key] for key in ("namespaceSelector", "objectSelector", "rules")}
        assert check["failurePolicy"] == "Ignore" and check["clientConfig"]["service"]["path"] == "/check-pod"
    assert not [name for o in chart_objects("--set", "injection.enabled=false") for w in o.get("webhooks", []) for name in [w["name"]] if name.endswith(("-pods.strobe.dev", "-namespaces.strobe.dev"))]


def test_an_operator_in_its_nodes_network():
    (deployment,) = [o["spec"] for o in chart_objects("--set", "hostNetwork=true") if o["kind"] == "Deployment"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}, "a second pod on the node would find its ports taken"
    spec = deployment["template"]["spec"]
    assert spec["hostNetwork"] is True and spec["dnsPolicy"] == "ClusterFirstWithHostNet"
    (spec,) = [o["spec"]["template"]["spec"] for o in chart_objects() if o["kind"] == "Deployment"]
    assert "hostNetwork" not in spec


def test_the_receiver_of_alerts_is_reached_and_gets_its_secrets():
    off = chart_objects("--set", "networkPolicy.enabled=true")
    assert "alert" not in json.dumps([o for o in off if o["kind"] in ("Service", "NetworkPolicy", "Deployment")])
    assert "alertReceiver" not in operator_config(off)
    on = chart_objects(*RECEIVER_VALUES, "--set", "networkPolicy.enabled=true")
    assert {"name": "alerts", "port": 9555, "targetPort": "alerts"} in next(o for o in on if o["kind"] == "Service")["spec"]["ports"]
    assert {"port": "alerts"} in next(o for o in on if o["kind"] == "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    spec = pod_templates(on)["strobe-operator"]
    (container,) = spec["containers"]
    assert {"name": "alerts", "containerPort": 9555} in container["ports"]
    config = operator_config(on)["alertReceiver"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    places = {mount["mountPath"]: secrets[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in secrets}
    wanted = {"clientAuthority": "clients", "certificate": "own", "key": "own"}
    for key, secret in wanted.items():
        assert places[config[key].rsplit("/", 1)[0]] == secret, key
    assert [places[file.rsplit("/", 1)[0]] for file in config["tokenFiles"]] == ["tokens", "tokens"]
    assert config["listen"] == "[::]:9555" and config["clientNames"] == ["alertmanager"]
    rights = [[o for o in objects if o["kind"] in ("Role", "ClusterRole")] for objects in (off, on)]
    assert rights[0] == rights[1], "it needs no right"


def test_hooks_are_those_that_argo_cd_runs():
    """Argo CD maps pre-upgrade to PreSync, and pre-delete and post-delete to hooks of its own; tests it leaves out. Up to version 3.3 it compares the
    whole annotation of hooks at deletion, so that each object must name one hook (argo-cd, controller/hook.go)."""
    hooks = {}
    for o in chart_objects("--set", "watchNamespace=ml"):
        annotations = o["metadata"].get("annotations", {})
        if hook := annotations.get("helm.sh/hook"):
            hooks.setdefault(hook, set()).add(o["kind"])
            assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    rights = {"ServiceAccount", "Role", "RoleBinding"}
    assert hooks == {"pre-upgrade": {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}, "pre-delete": rights | {"Job"},
                     "post-delete": rights | {"Job"}, "test": rights | {"Pod"}}


def test_the_hooks_may_do_no_more_than_they_must():
    """The complete rights of the jobs and the test. A change to this list needs a change to SECURITY.md."""
    def rights(*arguments):
        return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o["rules"] for o in chart_objects(*arguments)
                if o["kind"] in ("Role", "ClusterRole") and "helm.sh/hook" in o["metadata"].get("annotations", {})}

    release = [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests"], "verbs": ["list", "patch"]}]
    everywhere = rights()
    crds = everywhere.pop(("ClusterRole", "", "strobe-crds"))
    assert [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in crds] == [
        (["customresourcedefinitions"], ["profilerequests.strobe.dev", "profilepolicies.strobe.dev", "profileschedules.strobe.dev", "profiletriggers.strobe.dev"], ["get", "patch"]),
        (["customresourcedefinitions"], None, ["create"])]
    check = ("Role", "strobe-system", "strobe-check")
    assert everywhere.pop(check) == [{"apiGroups": ["strobe.dev"], "resources": ["profilerequests"], "verbs": ["create"]}]
    assert everywhere == {("ClusterRole", "", f"strobe-{phase}-delete"): release for phase in ("pre", "post")}
    watched = rights("--set", "watchNamespace=ml")
    assert {key: rules for key, rules in watched.items() if key[2].endswith("-delete")} == {
        ("Role", "ml", f"strobe-{phase}-delete"): release for phase in ("pre", "post")}


def test_what_is_kept_is_kept_by_argo_cd_too():
    kept = {o["kind"]: o["metadata"]["annotations"] for o in chart_objects() if "strobe-system-authority" in (o["metadata"]["name"], o["metadata"].get("namespace"))
            and o["kind"] in ("Namespace", "Secret")}
    assert set(kept) == {"Namespace", "Secret"}
    for annotations in kept.values():
        assert annotations == {"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false"}


def test_logdirs_are_looked_at():
    for bad in ("s3://key@bucket", "http://x", "relative", "gs://b?x=y"):
        assert helm("template", "s", CHART, "--set-json", f'logdirs=["{bad}"]').returncode != 0


def test_the_schema_knows_every_value_and_no_other():
    def keys(value, prefix=""):
        for key, inner in value.items():
            yield prefix + key
            if isinstance(inner, dict):
                yield from keys(inner, f"{prefix}{key}.")

    schema = json.loads((CHART / "values.schema.json").read_text())

    def known(part, prefix=""):
        part = schema["definitions"][part["$ref"].split("/")[-1]] if "$ref" in part else part
        for key, inner in part.get("properties", {}).items():
            yield prefix + key
            yield from known(inner, f"{prefix}{key}.")

    values = set(keys(yaml.safe_load((CHART / "values.yaml").read_text())))
    free = ("resources.", "viewer.resources.", "viewer.proxy.resources.", "namespaceSelector.", "metrics.dashboard.labels.", "advanced.securityContext.", "advanced.hooks.podAnnotations.", "advanced.hooks.podLabels.", "advanced.hooks.resources.")
    assert {v for v in values if not v.startswith(free)} == set(known(schema))


def test_the_api_server_takes_every_object(plane):
    kubectl = Kubectl(plane.kubeconfig)
    for space in ("strobe-system", "strobe-system-authority"):
        kubectl.run("create", "namespace", space, check=False)
    objects = [o for o in chart_objects(*EVERYTHING, *POD_VALUES, *INJECTION_VALUES, *RECEIVER_VALUES) if "monitoring.coreos.com" not in o["apiVersion"]]
    assert len(objects) > 25
    for space in ("strobe-system", "strobe-system-authority"):
        of_space = [o for o in objects if o["metadata"].get("namespace", "strobe-system") == space]
        assert of_space
        done = kubectl.run("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-n", space, "-f", "-", stdin="\n---\n".join(map(json.dumps, of_space)), check=False)
        assert done.returncode == 0, done.stderr


def test_the_operator_understands_its_configuration(tmp_path):
    for arguments in ([], ["--set", "tls.enabled=false"], ["--set", "webhook.certManager=true"], ["--set", "watchNamespace=ml,injection.user=0"],
                      ["--set-string", "viewer.url=https://x/?run={run}"], INJECTION_VALUES, RECEIVER_VALUES,
                      ["--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=t,webhook.certManager=true"]):
        file = tmp_path / "operator.yaml"
        file.write_text(yaml.safe_dump(operator_config(chart_objects(*arguments))))
        done = subprocess.run([BIN / "strobe-operator", "--config", file, "--kubeconfig", "/nowhere"], capture_output=True, text=True)
        # The configuration was accepted; only the kubeconfig is missing.
        assert done.returncode == 1 and "kubeconfig /nowhere" in done.stdout + done.stderr, done.stderr


def test_the_viewer_understands_its_configuration(tmp_path):
    for arguments in (VIEWER, [*VIEWER, "--set", "viewer.cache.maxBytes=1Gi,viewer.accessCache=10s,viewer.healthPort=9000,viewer.openRuns=2"]):
        (config,) = [o for o in chart_objects(*arguments) if o["kind"] == "ConfigMap" and "serve.yaml" in o.get("data", {})]
        file = tmp_path / "serve.yaml"
        # The store's configuration is not on this machine.
        file.write_text(yaml.safe_dump({**yaml.safe_load(config["data"]["serve.yaml"]), "storageConfig": ""}))
        done = subprocess.run([BIN / "strobe", "serve", "--config", file, "--kubeconfig", "/nowhere"], capture_output=True, text=True)
        # The configuration was accepted; only the kubeconfig is missing.
        assert "kubeconfig /nowhere" in done.stdout + done.stderr, done.stderr


def test_only_the_proxy_reaches_the_viewer_which_may_only_ask():
    """The viewer's complete rights. A change to this list needs a change to SECURITY.md."""
    objects = [o for o in chart_objects(*VIEWER) if o["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "viewer"]
    assert [o["rules"] for o in objects if o["kind"] in ("ClusterRole", "Role")] == [
        [{"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}]]
    (deployment,) = [o["spec"] for o in objects if o["kind"] == "Deployment"]
    assert deployment["replicas"] == 2 and deployment["template"]["spec"]["automountServiceAccountToken"] is False
    viewer, proxy = deployment["template"]["spec"]["containers"]
    assert (viewer["name"], proxy["name"], proxy["image"]) == ("viewer", "proxy", "proxy:1")
    assert "token" in {mount["name"] for mount in viewer["volumeMounts"]} and "volumeMounts" not in proxy, "the proxy gets no token of the API server"
    (config,) = [yaml.safe_load(o["data"]["serve.yaml"]) for o in objects if o["kind"] == "ConfigMap"]
    assert config["listen"] == "127.0.0.1:8081"
    (service,) = [o["spec"] for o in objects if o["kind"] == "Service"]
    (port,) = service["ports"]
    assert port["targetPort"] == "http" and {"name": "http", "containerPort": 4180} in proxy["ports"]
    assert not [o for o in chart_objects() if o["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "viewer"], "off by default"


def test_the_operator_may_do_no_more_than_it_must():
    """The operator's complete rights. A change to this list needs a change to SECURITY.md."""
    rules = {}
    for o in chart_objects():
        if o["kind"] in ("ClusterRole", "Role") and o["metadata"]["name"] in ("strobe-operator", "strobe-operator-authority"):
            where = o["kind"] if o["kind"] == "ClusterRole" else f"Role in {o['metadata']['namespace']}:"
            for rule in o["rules"]:
                for resource in rule["resources"]:
                    rules[f"{where} {resource}{' ' + ','.join(rule['resourceNames']) if 'resourceNames' in rule else ''}"] = sorted(rule["verbs"])
    assert rules == {
        "ClusterRole profilerequests": ["create", "delete", "get", "list", "patch", "watch"],
        "ClusterRole profilerequests/status": ["patch"],
        "ClusterRole profileschedules": ["get", "list", "patch", "watch"],
        "ClusterRole profileschedules/status": ["patch"],
        "ClusterRole profiletriggers": ["get", "list", "patch", "watch"],
        "ClusterRole profiletriggers/status": ["patch"],
        "ClusterRole profilepolicies": ["get", "list", "watch"],
        "ClusterRole profilepolicies/status": ["patch"],
        "ClusterRole pods": ["get", "list"],
        "ClusterRole namespaces": ["get", "list"],
        "ClusterRole resourcequotas": ["list"],
        "ClusterRole limitranges": ["list"],
        "ClusterRole events": ["create", "patch"],
        "ClusterRole subjectaccessreviews": ["create"],
        "ClusterRole tokenreviews": ["create"],
        **{f"ClusterRole {kind}": ["get"] for kind in JOB_KINDS},
        "ClusterRole mutatingwebhookconfigurations strobe": ["get", "update"],
        "ClusterRole validatingwebhookconfigurations strobe": ["get", "update"],
        "Role in strobe-system-authority: secrets strobe-authority": ["get", "patch"],
        "Role in strobe-system: configmaps strobe-operator-state": ["get", "patch"],
        "Role in strobe-system: services strobe-operator": ["get"],
        "Role in strobe-system: leases": ["create"],
        "Role in strobe-system: leases strobe-operator": ["get", "update"],
    }


def test_jobs_are_read_only_where_that_is_wanted():
    (role,) = [o for o in chart_objects("--set", "rbac.readJobs=false") if o["kind"] == "ClusterRole" and o["metadata"]["name"] == "strobe-operator"]
    assert not {r for rule in role["rules"] for r in rule["resources"]} & set(JOB_KINDS)


def test_every_pod_of_the_chart_is_restricted():
    for o in chart_objects(*EVERYTHING):
        template = o["spec"]["template"]["spec"] if o["kind"] in ("Deployment", "Job") else o["spec"] if o["kind"] == "Pod" else None
        for container in (template or {}).get("containers", []):
            security = container["securityContext"]
            assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]} and security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_operator_that_watches_one_namespace_is_asked_about_no_other():
    """Two operators that watch different namespaces must not stamp each other's requests."""
    for o in chart_objects("--set", "watchNamespace=ml"):
        for webhook in o.get("webhooks", []):
            assert {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["ml"]} in webhook["namespaceSelector"]["matchExpressions"], webhook["name"]


def test_only_who_asks_and_for_what_depends_on_the_webhooks():
    """Everything else about objects that exist already can be changed while the operator is down, and they can be deleted."""
    found = {w["name"].split(".")[0]: w for o in chart_objects() for w in o.get("webhooks", []) if w["failurePolicy"] == "Fail"}
    operations = {name: webhook["rules"][0]["operations"] for name, webhook in found.items()}
    changes = ("keep-requests", "change-schedules", "recheck-schedules", "change-triggers", "recheck-triggers",
               "size-requests", "size-schedules", "size-triggers")
    assert operations == {name: ["CREATE"] for name in ("default-requests", "stamp-requests", "check-requests", "stamp-schedules", "check-schedules",
                                                        "stamp-triggers", "check-triggers")} | {name: ["UPDATE"] for name in changes}
    for name in changes:
        assert "needed" in [c["name"] for c in found[name]["matchConditions"]], name


def test_the_values_for_client_certificates(tmp_path):
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"webhook": {"clientAuthority": pem, "clientNames": ["kube-apiserver"]}}))
    objects = chart_objects("--values", str(values))
    assert [o["data"]["client-authority.crt"] for o in objects if "client-authority.crt" in o.get("data", {})] == [pem]
    webhook = operator_config(objects)["webhook"]
    assert webhook["clientAuthority"] == "/etc/strobe/client-authority.crt" and webhook["clientNames"] == ["kube-apiserver"]


def test_a_package_carries_the_crds_and_no_sample(tmp_path):
    assert helm("package", CHART, "--destination", tmp_path).returncode == 0
    (package,) = tmp_path.glob("*.tgz")
    names = subprocess.run(["tar", "tf", package], capture_output=True, text=True).stdout.split()
    assert [n for n in names if "/crds/" in n] == [f"strobe/crds/{kind}.yaml" for kind in ("profilepolicies", "profilerequests", "profileschedules", "profiletriggers")]
    with tarfile.open(package) as archive:
        assert all(archive.getmember(n).isfile() for n in names)
    # Flux's artifacts of the Git repository leave out links, and Helm warns of them.
    assert not [path for path in CHART.rglob("*") if path.is_symlink()]


def test_images_are_the_same_each_time_and_small(tmp_path):
    for kind in ("operator", "sidecar", "viewer"):
        archives = [tmp_path / f"{kind}-{i}.tar" for i in range(2)]
        for archive in archives:
            done = subprocess.run([ROOT / "tools/image", kind, archive], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr  # tools/image fails if the image is larger than it may be.
        assert archives[0].read_bytes() == archives[1].read_bytes()


def test_the_sidecars_image_has_what_it_installs_beside_trainers(tmp_path):
    assert subprocess.run([ROOT / "tools/image", "sidecar", "--rootfs", tmp_path / "rootfs"]).returncode == 0
    home = tmp_path / "rootfs/opt/strobe"
    assert (home / "lib/libstrobe_agent.so").exists() and (home / "python/strobe/__init__.py").exists()
    assert list(home.glob("python/*.dist-info/entry_points.txt")), "PyTorch and JAX find the package by it"


def test_trainers_pods_carry_no_more_than_a_sidecar(tmp_path):
    """Only the sidecar's program is in its image, of at most 10 MB, and all files have at most 40 MiB. The viewer has an image of its own."""
    for kind, program in (("sidecar", "strobe-sidecar"), ("viewer", "strobe")):
        assert subprocess.run([ROOT / "tools/image", kind, "--rootfs", tmp_path / kind]).returncode == 0
        assert [file.name for file in (tmp_path / kind / "opt/strobe/bin").iterdir()] == [program]
    assert [file.name for file in (tmp_path / "viewer/opt/strobe").iterdir()] == ["bin"]
    assert (tmp_path / "sidecar/opt/strobe/bin/strobe-sidecar").stat().st_size <= 10_000_000
    used = subprocess.run(["du", "--summarize", "--bytes", tmp_path / "sidecar"], check=True, capture_output=True, text=True).stdout
    assert int(used.split()[0]) <= 40 << 20


def test_the_operators_image_has_the_time_zones_of_schedules(tmp_path):
    done = subprocess.run([ROOT / "tools/image", "operator", "--rootfs", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    zones = tmp_path / "usr/share/zoneinfo"
    assert (zones / "Europe/Berlin").read_bytes().startswith(b"TZif") and (zones / "UTC").exists()
    assert not (zones / "posix").exists() and not (zones / "localtime").exists()
    assert (tmp_path / "var/lib/dpkg/status.d/tzdata").exists()


def test_no_image_is_made_without_the_python_package(tmp_path):
    """As in a fresh checkout, in which tools/wheel has not run; the Dockerfile runs it."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "build").mkdir()
    for name in ("image", "target.py"):
        shutil.copyfile(ROOT / "tools" / name, tmp_path / "tools" / name)
    (tmp_path / "build/bin").symlink_to(BIN)
    (tmp_path / "common").symlink_to(ROOT / "common")
    done = subprocess.run([sys.executable, tmp_path / "tools/image", "sidecar", tmp_path / "s.tar"], capture_output=True, text=True)
    assert done.returncode != 0 and "run tools/wheel" in done.stderr and not (tmp_path / "s.tar").exists()
    steps = (ROOT / "Dockerfile").read_text()
    assert steps.index("tools/wheel") < steps.index("tools/image sidecar")
