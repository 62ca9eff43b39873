"""Injection is never in the way: whatever a namespace demands of its pods, a real API server accepts those with our sidecar,
or they get none."""

import json
from types import SimpleNamespace

import pytest

from tests.support.fault_proxy import refuse, silence
from tests.support.operator import profile_request
from tests.support.processes import wait_until
from tests.support.secure import SecureOperator, allow, pod

GPU_POD = {"cpu": "4", "memory": "16Gi"}


def trainer(name="p", resources=None, annotations=None, **spec):
    made = pod(name, annotations=annotations)
    made["spec"]["containers"][0]["resources"] = resources or {}
    made["spec"].update({"restartPolicy": "Never", **spec})
    return made


def limit_range(kubectl, **limits):
    kubectl.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "range"}, "spec": {"limits": [{"type": "Container", **limits}]}})


def quota(kubectl, hard, used=None, **spec):
    """A quota with the status that the quota controller would write."""
    kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": hard, **spec}})
    status = {"status": {"hard": hard, "used": {name: (used or {}).get(name, "0") for name in hard}}}
    kubectl.run("patch", "resourcequota", "quota", "--subresource=status", "--type=merge", "-p", json.dumps(status))


def sidecar(kubectl, name="p"):
    for container in kubectl.get("pod", name)["spec"].get("initContainers", []):
        if container["name"] == "strobe-sidecar":
            return container
    return None


def admitted(kubectl, made, name="p"):
    """Creates the pod as a user without Strobe could, and returns its sidecar and the warnings."""
    without = json.loads(json.dumps(made))
    without["metadata"]["labels"]["strobe.dev/inject"] = "false"
    alone = kubectl.create(without, dry_run=True)
    assert alone.returncode == 0, f"the case is wrong: {alone.stderr}"
    done = kubectl.create(made)
    assert done.returncode == 0, done.stderr
    return sidecar(kubectl, name), done.stderr


def cores(text):
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def test_a_quota_on_cpu_limits(secure, kubectl):
    secure()
    quota(kubectl, {"limits.cpu": "64", "limits.memory": "256Gi", "requests.cpu": "64", "requests.memory": "256Gi"})
    made, _ = admitted(kubectl, trainer(resources={"limits": GPU_POD, "requests": {"cpu": "2", "memory": "16Gi"}}))
    assert made["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}


def test_every_sidecar_can_have_a_cpu_limit(secure, kubectl):
    """A policy engine demands one, which nobody can read."""
    secure(injection={"alwaysLimitCpu": True})
    made, _ = admitted(kubectl, trainer(resources={"requests": GPU_POD}))
    assert made["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    whole = trainer("whole")
    whole["spec"]["resources"] = {"requests": {"cpu": "500m", "memory": "4Gi"}, "limits": {"cpu": "500m", "memory": "4Gi"}}
    made, _ = admitted(kubectl, whole, "whole")
    assert made["resources"] == {"requests": {"cpu": "0"}, "limits": {"cpu": "500m"}}


def test_a_sidecar_ends_before_its_pod_is_killed(secure, kubectl):
    """The API server fills in a missing terminationGracePeriodSeconds before it asks for the injection."""
    secure()
    for name, seconds, grace in (("usual", None, 25), ("patient", 900, 895), ("hasty", 0, 1)):
        made, _ = admitted(kubectl, trainer(name, terminationGracePeriodSeconds=seconds), name)
        assert f"--grace={grace}" in made["args"], made["args"]


def test_a_quota_of_a_priority_class(secure, kubectl):
    secure()
    classless = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}
    quota(kubectl, {"limits.memory": "16Gi"}, used={"limits.memory": "0"}, scopeSelector=classless)
    made, warnings = admitted(kubectl, trainer(resources={"limits": GPU_POD}))
    assert made is None and "ResourceQuota leaves no room for the sidecar's memory" in warnings
    made, _ = admitted(kubectl, trainer("q", resources={"limits": GPU_POD}, priorityClassName="system-node-critical"), "q")
    assert made, "the quota does not count this pod"


def test_a_best_effort_pod_is_not_given_to_a_quota_that_refuses_it(secure, kubectl):
    """The sidecar would make it Burstable."""
    secure()
    quota(kubectl, {"limits.memory": "64Gi"}, scopes=["NotBestEffort"])
    made, warnings = admitted(kubectl, trainer())
    assert made is None and "demands limits.memory of every container" in warnings


def test_without_a_demand_there_is_no_cpu_limit(secure, kubectl):
    secure()
    quota(kubectl, {"requests.cpu": "64", "requests.memory": "256Gi", "pods": "10"})
    made, _ = admitted(kubectl, trainer(resources={"requests": GPU_POD}))
    assert made["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}


def test_a_quota_that_is_used_up_leaves_the_trainer_alone(secure, kubectl):
    operator = secure()
    hard = {"limits.memory": "64Gi", "requests.memory": "64Gi"}
    quota(kubectl, hard, used={"limits.memory": "48Gi", "requests.memory": "48Gi"})
    made, warnings = admitted(kubectl, trainer(resources={"limits": GPU_POD}))
    assert made is None and "ResourceQuota leaves no room for the sidecar's memory" in warnings
    assert operator.metric("strobe_injections_total", result="skipped") >= 1
    # What is left for the sidecar is enough for a smaller one.
    kubectl.run("delete", "pod", "p", "--grace-period=0", "--force")
    quota(kubectl, hard, used={"limits.memory": "47Gi", "requests.memory": "40Gi"})
    wait_until(lambda: "instead of 2Gi" in kubectl.create(trainer("q", resources={"limits": GPU_POD, "requests": {"cpu": 1, "memory": "1Gi"}}), dry_run=True).stderr, 15, "the new status")
    made, warnings = admitted(kubectl, trainer("q", resources={"limits": GPU_POD, "requests": {"cpu": 1, "memory": "1Gi"}}), "q")
    assert made["resources"]["limits"]["memory"] in ("1Gi", str(1 << 30)), made["resources"]


@pytest.mark.parametrize("limits, resources, expected", [
    # The sidecar's usual limit of 2Gi is above the maximum, and its 50m are below the minimum.
    ({"max": {"cpu": "8", "memory": "1Gi"}}, {"cpu": "8", "memory": "1Gi"}, ("50m", "1", "128Mi", "1Gi")),
    ({"min": {"cpu": "200m", "memory": "256Mi"}}, GPU_POD, ("200m", "1", "256Mi", "2Gi")),
    ({"max": {"cpu": "500m"}}, {"cpu": "500m", "memory": "1Gi"}, ("50m", "500m", "128Mi", "2Gi")),
    ({"maxLimitRequestRatio": {"cpu": "4", "memory": "2"}}, GPU_POD, ("250m", "1", "1Gi", "2Gi")),
    # A default that is below the sidecar's request would become its limit.
    ({"default": {"cpu": "20m"}, "defaultRequest": {"cpu": "10m"}}, GPU_POD, ("50m", "1", "128Mi", "2Gi")),
])
def test_limit_ranges(secure, kubectl, limits, resources, expected):
    secure()
    limit_range(kubectl, **limits)
    # Smaller requests than limits, so that the pod is not of the class Guaranteed.
    small = {"cpu": "2", "memory": "8Gi"} if resources is GPU_POD else {"cpu": "400m", "memory": "128Mi"}
    made, _ = admitted(kubectl, trainer(resources={"limits": resources, "requests": {name: small[name] for name in resources}}))
    requests, bounds = made["resources"]["requests"], made["resources"]["limits"]
    mebi = {"1Gi": 1 << 30, "2Gi": 2 << 30, "128Mi": 128 << 20, "256Mi": 256 << 20}
    memory = lambda text: mebi.get(text) or int(text)  # noqa: E731
    assert (cores(requests["cpu"]), cores(bounds["cpu"]), memory(requests["memory"]), memory(bounds["memory"])) == (
        cores(expected[0]), cores(expected[1]), memory(expected[2]), memory(expected[3])), made["resources"]


def test_a_range_without_room_leaves_the_trainer_alone(secure, kubectl):
    secure()
    limit_range(kubectl, max={"memory": "16Mi"})
    made, warnings = admitted(kubectl, trainer(resources={"limits": {"memory": "16Mi"}}))
    assert made is None and "no room for the sidecar's memory" in warnings


def test_the_sums_of_a_pod_are_bounded(secure, kubectl):
    secure()
    kubectl.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "pods"}, "spec": {"limits": [{"type": "Pod", "max": {"memory": "17Gi", "cpu": "4"}}]}})
    made, warnings = admitted(kubectl, trainer(resources={"limits": {"cpu": "3900m", "memory": "16Gi"}}))
    assert made["resources"]["limits"]["memory"] in ("1Gi", str(1 << 30)) and "instead of 2Gi" in warnings
    made, warnings = admitted(kubectl, trainer("q", resources={"limits": {"cpu": "4", "memory": "16Gi"}}), "q")
    assert made is None and "no room for the sidecar's cpu" in warnings


def test_ephemeral_storage_is_limited_where_it_is_demanded(secure, kubectl):
    secure()
    limit_range(kubectl, max={"ephemeral-storage": "1Gi"})
    made, warnings = admitted(kubectl, trainer(resources={"limits": {"ephemeral-storage": "1Gi"}}))
    assert made["resources"]["limits"]["ephemeral-storage"] in ("1Gi", str(1 << 30))
    (size,) = [argument for argument in made["args"] if argument.startswith("--spool-size=")]
    assert size == f"--spool-size={(1 << 30) - (64 << 20)}" and "spool has only" in warnings
    # The kubelet evicts a pod that uses more than the sum of its containers' limits: the spool must not use up the trainer's.
    kubectl.run("delete", "limitrange", "range")
    wait_until(lambda: admits_more(kubectl), 15, "the limit's end")
    made, _ = admitted(kubectl, trainer("q", resources={"limits": {"ephemeral-storage": "10Gi"}}), "q")
    assert int(made["resources"]["limits"]["ephemeral-storage"]) == (2 << 30) + (64 << 20)
    made, _ = admitted(kubectl, trainer("r"), "r")
    assert "ephemeral-storage" not in made["resources"]["limits"]


def admits_more(kubectl):
    done = kubectl.create(trainer("x", resources={"limits": {"ephemeral-storage": "10Gi"}}), dry_run=True)
    return done.returncode == 0 and "spool has only" not in done.stderr


def test_a_guaranteed_pod_stays_guaranteed_within_limits(secure, kubectl):
    secure()
    limit_range(kubectl, max={"cpu": "8", "memory": "1Gi"}, min={"cpu": "100m"})
    made, _ = admitted(kubectl, trainer(resources={"limits": {"cpu": "8", "memory": "1Gi"}}))
    assert made["resources"]["requests"] == made["resources"]["limits"]
    assert kubectl.get("pod", "p")["status"]["qosClass"] == "Guaranteed"


WHOLE_NODE = {"cpu": "96", "memory": "500Gi"}
NOTHING = {"strobe.dev/cpu": "0", "strobe.dev/memory-request": "0"}


def test_a_pod_that_takes_a_whole_node_gets_a_sidecar_that_requests_nothing(secure, kubectl):
    secure()
    made, warnings = admitted(kubectl, trainer(resources={"requests": WHOLE_NODE}, annotations=NOTHING))
    assert made["resources"] == {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "2Gi"}} and not warnings
    assert kubectl.get("pod", "p")["status"]["qosClass"] == "Burstable"
    # It is the pod's choice whether schedulability is worth the class Guaranteed, and it is told.
    made, _ = admitted(kubectl, trainer("kept", resources={"limits": WHOLE_NODE}), "kept")
    assert made["resources"]["requests"] == made["resources"]["limits"] and kubectl.get("pod", "kept")["status"]["qosClass"] == "Guaranteed"
    made, warnings = admitted(kubectl, trainer("given-up", resources={"limits": WHOLE_NODE}, annotations=NOTHING), "given-up")
    assert made["resources"]["requests"] == {"cpu": "0", "memory": "0"} and "Burstable instead of Guaranteed" in warnings
    assert kubectl.get("pod", "given-up")["status"]["qosClass"] == "Burstable"


def test_pod_level_resources_hold_the_sidecar_too(secure, kubectl):
    """Kubernetes 1.34 takes a pod's own resources for its sum and its class, whatever its containers have."""
    secure()
    pinned = {"requests": WHOLE_NODE, "limits": WHOLE_NODE}
    whole = trainer(resources=pinned)
    whole["spec"]["resources"] = pinned
    made, warnings = admitted(kubectl, whole)
    assert not made.get("resources") and not warnings
    assert kubectl.get("pod", "p")["status"]["qosClass"] == "Guaranteed"


def test_a_quota_of_requests_leaves_room_for_a_sidecar_that_requests_nothing(secure, kubectl):
    secure(injection={"cpu": "0", "memory": "0"})
    quota(kubectl, {"requests.cpu": "96", "requests.memory": "500Gi"})
    made, _ = admitted(kubectl, trainer(resources={"requests": WHOLE_NODE}))
    assert made["resources"]["requests"] == {"cpu": "0", "memory": "0"}


def test_a_request_says_that_the_sidecar_counts_where_no_node_has_room(secure, kubectl, logdir):
    secure()
    kubectl.create(trainer(resources={"requests": WHOLE_NODE}), check=True)
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-01-02T03:04:05Z",
                     "message": "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."}
    kubectl.set_status("pod", "p", {"phase": "Pending", "conditions": [unschedulable]})
    allow(kubectl, logdir)
    kubectl.apply(profile_request("look", logdir, target={"pods": ["p"]}))
    wanted = "cannot be scheduled: Insufficient cpu; its sidecar requests cpu 50m of it"
    wait_until(lambda: wanted in json.dumps(kubectl.get("profreq", "look").get("status", {})), 20, "the reason in the request's status")


@pytest.mark.parametrize("fault", ["refused", "silent"])
def test_limits_that_cannot_be_read_do_not_stop_injection(group, kubectl, proxy, tmp_path, fault):
    """The operator may not list them, as with the roles of an older chart, or the API server does not answer in time."""
    proxied = SimpleNamespace(kubeconfig=proxy.kubeconfig(tmp_path / "proxied"))
    act = {"refused": refuse(403, reason="Forbidden"), "silent": silence(10)}[fault]
    operator = SecureOperator(group, proxied, kubectl).start().wait_ready()
    proxy.faults.add(lambda _, path: "/limitranges" in path, act, times=1000)
    made, warnings = admitted(kubectl, trainer())
    assert made["resources"]["limits"] == {"memory": "2Gi"}
    assert "ResourceQuotas, LimitRanges and ProfilePolicies could not be read" in warnings
    # A failure is remembered, so that the next pods do not wait for the API server too.
    asked = proxy.faults.count(lambda _, path: "/limitranges" in path)
    kubectl.create(*(trainer(f"p{i}") for i in range(10)), check=True)
    assert proxy.faults.count(lambda _, path: "/limitranges" in path) <= asked + 1
    operator.remove()


def test_pods_that_wait_for_their_sidecar_in_vain_are_not_followed_by_more(secure, kubectl):
    operator = secure(injection={"image": "registry.invalid/strobe-sidecar:1"})
    kubectl.create(trainer("first", nodeName="n"), check=True)  # A pod without a node does not wait for its sidecar.
    assert sidecar(kubectl, "first")
    waiting = {"name": "strobe-sidecar", "image": "", "imageID": "", "ready": False, "restartCount": 0, "started": False,
               "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
    # A pull that fails for a moment stops nothing, so the kubelet must have taken the pod a while ago.
    kubectl.set_status("pod", "first", {"initContainerStatuses": [waiting], "startTime": "2026-01-02T03:04:05Z"})
    wait_until(lambda: "waits for its sidecar (ImagePullBackOff)" in kubectl.create(trainer("x"), dry_run=True).stderr, 15, "the stuck pod to be noticed")
    made, warnings = admitted(kubectl, trainer("second"), "second")
    assert made is None and "pod first of this namespace waits" in warnings
    assert operator.metric("strobe_injections_total", result="skipped") >= 1
    # The API server lets the image of a pod's init container change, so that a pod of a job need not be deleted.
    kubectl.run("set", "image", "pod/first", "strobe-sidecar=registry.invalid/strobe-sidecar:2")
    assert sidecar(kubectl, "first")["image"] == "registry.invalid/strobe-sidecar:2"
    kubectl.run("delete", "pod", "first", "--grace-period=0", "--force")
    wait_until(lambda: "waits for its sidecar" not in kubectl.create(trainer("x"), dry_run=True).stderr, 15, "the end of the stuck pod")


def test_policies_choose_the_sidecars_user(secure, kubectl):
    """For a volume of a namespace that belongs to another user, such as NFS."""
    secure()

    def user(name="p", **annotations):
        done = kubectl.create(trainer(name, annotations=annotations), check=True)
        context = sidecar(kubectl, name)["securityContext"]
        kubectl.run("delete", "pod", name, "--grace-period=0", "--force")
        return (context["runAsUser"], context["runAsGroup"]), done.stderr

    assert user() == ((65532, 65532), "")
    allow(kubectl, "/nfs", sidecar={"runAsUser": 1000, "runAsGroup": 100})
    wait_until(lambda: user()[0] == (1000, 100), 15, "the policy to be read")
    assert user(**{"strobe.dev/user": "1001"}) == ((1001, 1001), ""), "the pod's own choice comes first"
    # A policy of other namespaces changes nothing; one that differs must not be decided by chance.
    second = {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": f"{kubectl.namespace}-2"},
              "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}, "allowedLogdirs": ["/nfs"],
                       "sidecar": {"runAsUser": 2000}}}
    kubectl.apply(second)
    allow(kubectl, "/nfs", sidecar={"runAsUser": 1000, "runAsGroup": 101})
    wait_until(lambda: user() == ((1000, 101), ""), 15, "a later reading, which has the second policy too")
    second["spec"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = kubectl.namespace
    kubectl.apply(second)
    wait_until(lambda: "give sidecars different users" in user()[1], 15, "the conflict to be seen")
    assert user()[0] == (65532, 65532)
    kubectl.run("delete", "profpol", second["metadata"]["name"])


def test_gpus_are_recorded_at_all_times_only_where_a_policy_allows_it(secure, kubectl):
    secure()
    wishes = {"strobe.dev/flight-recorder": "30s", "strobe.dev/flight-recorder-devices": "true"}

    def asked(name="p"):
        done = kubectl.create(trainer(name, annotations=wishes), check=True)
        arguments = sidecar(kubectl, name)["args"]
        kubectl.run("delete", "pod", name, "--grace-period=0", "--force")
        return "--flight-recorder-devices" in arguments, "sidecar.flightRecorderDevices: true" in done.stderr

    assert asked() == (False, True)
    done = kubectl.create({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfilePolicy", "metadata": {"name": "wrong"},
                           "spec": {"allowedLogdirs": ["/x"], "sidecar": {"runAsGroup": 5}}})
    assert done.returncode != 0 and "runAsGroup needs runAsUser" in done.stderr
    allow(kubectl, "/x", sidecar={"flightRecorderDevices": True})
    wait_until(lambda: asked() == (True, False), 15, "the policy to be read")


def test_mode_container(secure, kubectl):
    """An ordinary container, in pods that do not complete; the trainer does not wait for it."""
    secure(injection={"mode": "container"})
    kubectl.create(trainer("server", restartPolicy="Always"), trainer("job"),
           trainer("native", restartPolicy="Always", annotations={"strobe.dev/injection-mode": "native"}), check=True)
    server = kubectl.get("pod", "server")["spec"]
    assert [c["name"] for c in server["containers"]] == ["train", "strobe-sidecar"] and "initContainers" not in server
    assert "startupProbe" not in server["containers"][1] and "restartPolicy" not in server["containers"][1]
    assert {"name": "STROBE_DIR", "value": "/var/strobe"} in server["containers"][0]["env"]
    assert sidecar(kubectl, "job") and sidecar(kubectl, "native")
    done = kubectl.create(trainer("ignored", annotations={"strobe.dev/injection-mode": "container"}), check=True)
    assert "needs restartPolicy: Always" in done.stderr and sidecar(kubectl, "ignored")
    # The API server calls again after other webhooks, and nothing is injected twice.
    assert len(kubectl.get("pod", "server")["spec"]["containers"]) == 2


def test_pods_on_the_hosts_network_fix_no_port(secure, kubectl):
    secure()
    for name in ("a", "b"):
        kubectl.create(trainer(name, hostNetwork=True), check=True)
    made = [sidecar(kubectl, name) for name in ("a", "b")]
    assert all(not container.get("ports") for container in made), "the scheduler would place one such pod per node"
    chosen = [json.loads(kubectl.get("pod", name)["metadata"]["annotations"]["strobe.dev/status"])["ports"] for name in ("a", "b")]
    assert len(chosen[0]) == 4 and set(chosen[0]) != set(chosen[1])
    assert all(20000 <= port <= 29999 for port in chosen[0])
    assert f"--listen=[::]:{','.join(map(str, chosen[0]))}" in made[0]["args"]
    # Ports that are asked for are fixed, as the user wants.
    kubectl.create(trainer("c", hostNetwork=True, annotations={"strobe.dev/port": "9470", "strobe.dev/metrics-port": "9472"}), check=True)
    assert [port["hostPort"] for port in sidecar(kubectl, "c")["ports"]] == [9470, 9472]


def test_pods_without_cluster_dns_get_the_operators_address(secure, kubectl, plane):
    kubectl.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "strobe-operator"}, "spec": {"ports": [{"port": 9444}]}})
    address = kubectl.get("service", "strobe-operator")["spec"]["clusterIP"]
    operator = secure()
    for name, spec in {"plain": {}, "host": {"hostNetwork": True}, "node": {"dnsPolicy": "Default"},
                       "resolves": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
                       "own": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}}}.items():
        kubectl.create(trainer(name, **spec), check=True)
        arguments = sidecar(kubectl, name)["args"]
        assert any(a.startswith(f"--enroll=strobe-operator.{kubectl.namespace}.svc:") for a in arguments)
        assert (f"--enroll-at={address}:{operator.enroll_port}" in arguments) == (name in ("host", "node", "own")), (name, arguments)
