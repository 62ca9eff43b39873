"""Measures the operator in a cluster of 5,000 nodes and 10,000 injected pods: a real API server, nodes and pods simulated
by kwok, and one process that serves the real gRPC service for all sidecars (fleet.cc). For comparison, a minimal
controller-runtime operator watches the same pods."""

import http.client
import json
import os
import ssl
import statistics
import subprocess
import threading
import time

from tests.bench import bare_writes, bars
from tests.support.api_writes import writes
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.memory_group import memory_group
from tests.support.metrics import total
from tests.support.operator import Operator, condition, profile_request
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, TOOLS, Group, cpu_seconds, high_water, memory, wait_until

NODES, WIDE, TEAMS, REQUESTS_EACH, WORKERS_EACH = 5000, 2000, 100, 10, 8
WRITERS = 8
ROUNDS = 5
KNOWN_RATE = 24  # Requests per second, measured on a machine whose API server allowed a bare client 42.
LARGE_PODS, NAMERS, LABELS, LARGE_REQUESTS, CHART_LIMIT = int(os.environ.get("STROBE_LARGE_PODS", 10_000)), 8, 20_000, 169, 512
PEER = ROOT / "tests/bench/controller_runtime"
KWOK = "v0.7.0"


class Api:
    """A client that creates many objects in parallel; kubectl would need a process for each."""

    def __init__(self, plane):
        self.plane = plane
        self.context = ssl.create_default_context(cafile=plane.dir / "ca.crt")
        self.context.load_cert_chain(plane.dir / "admin.crt", plane.dir / "admin.key")

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.plane.port, context=self.context, timeout=120)

    def create(self, path, objects):
        return self.create_many([(path, body) for body in objects])

    def create_many(self, objects):
        """Creates objects, given as pairs of path and object, from several threads. Returns the seconds that it took."""
        return self.write_many([[("POST", path, bare_writes.PLAIN, body)] for path, body in objects])

    def write_many(self, sequences):
        """Makes sequences of writes from several threads, each sequence in its order. A write is (method, path, type, body)."""
        queue, errors, began = list(reversed(sequences)), [], time.monotonic()

        def write():
            connection = self.connect()
            while True:
                try:
                    sequence = queue.pop()
                except IndexError:
                    return
                for method, path, kind, body in sequence:
                    connection.request(method, path, json.dumps(body), {"Content-Type": kind})
                    answer = connection.getresponse()
                    text = answer.read()
                    if answer.status >= 300:
                        errors.append(text[:500])

        threads = [threading.Thread(target=write) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors[0]
        return time.monotonic() - began

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


def node(number):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": {"type": "kwok"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}}


def teams():
    return [f"team-{i}" for i in range(TEAMS)]


def pods():
    return WIDE + TEAMS * REQUESTS_EACH * WORKERS_EACH


def pod(number, port, labels):
    """A pod of a PyTorchJob as it is after injection."""
    made = json.loads((ROOT / "tests/golden/pods/pytorchjob-gpu.json").read_text())
    metadata, spec = made["metadata"], made["spec"]
    metadata.pop("generateName", None)
    metadata["name"] = f"train-{number}"
    metadata.setdefault("labels", {}).update({"strobe.dev/inject": "true", **labels})
    metadata.pop("ownerReferences", None)
    metadata.pop("namespace", None)
    spec["nodeName"] = f"node-{number % NODES}"
    spec["serviceAccountName"] = "default"
    spec.setdefault("initContainers", []).append({
        "name": "strobe-sidecar", "image": "strobe-sidecar:0.1.0", "restartPolicy": "Always", "ports": [{"name": "strobe", "containerPort": port}],
        "args": ["--listen=0.0.0.0:9470", "--http-listen=0.0.0.0:9472", "--framework=localhost:9012"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "startupProbe": {"httpGet": {"path": "/healthz", "port": 9472}}, "volumeMounts": [{"name": "strobe", "mountPath": "/var/strobe"}]})
    spec.setdefault("volumes", []).append({"name": "strobe", "emptyDir": {"sizeLimit": "9Gi"}})
    return made


def request(name, labels, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": name},
            "spec": {"target": {"selector": {"matchLabels": labels}}, "logdir": "/logs", "duration": "100ms", "attempts": 1, **spec}}


def build_tools():
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", TOOLS / "watch_peer", "./watch"], cwd=PEER, check=True)
    if not (TOOLS / f".kwok.{KWOK}").exists():
        subprocess.run(["go", "install", "-trimpath", "-ldflags", "-s -w", f"sigs.k8s.io/kwok/cmd/kwok@{KWOK}"], check=True,
                       env={**os.environ, "GOBIN": str(TOOLS), "GOFLAGS": "-mod=mod"})
        (TOOLS / f".kwok.{KWOK}").touch()


class Scene:
    def __init__(self, group, directory):
        self.plane = ControlPlane(group, directory / "plane").start()
        admin = Kubectl(self.plane.kubeconfig)
        admin.install_crds()
        self.kubectl, self.api = Kubectl(self.plane.kubeconfig, "wide"), Api(self.plane)
        self.api.create("/api/v1/namespaces", [{"metadata": {"name": name}} for name in ["wide", *teams()]])
        digests = directory / "digests"
        digests.mkdir()
        subprocess.run([BIN / "merge_digests", "write", digests, str(WIDE), "10", "20", "exact"], check=True)
        self.fleet = group.start("fleet", [BIN / "fleet", self.port(), digests])
        self.fleet.wait_for("serves", 10)
        # A long lease makes the nodes' heartbeats rare, because their cost is not to be measured.
        self.kwok = group.start("kwok", [TOOLS / "kwok", "--kubeconfig", self.plane.kubeconfig, "--manage-all-nodes", "--cidr", "127.64.0.1/10",
                             "--node-lease-duration-seconds", 4000])

    def port(self):
        self.sidecar_port = getattr(self, "sidecar_port", 0) or free_port()
        return self.sidecar_port

    def fill(self):
        print(f"  {NODES} nodes in {self.api.create('/api/v1/nodes', [node(i) for i in range(NODES)]):.0f} s", flush=True)
        port, began = self.sidecar_port, time.monotonic()
        self.api.create("/api/v1/namespaces/wide/pods", [pod(i, port, {"job": "wide"}) for i in range(WIDE)])
        for team in teams():
            self.api.create(f"/api/v1/namespaces/{team}/pods",
                            [pod(i, port, {"job": f"job-{i // WORKERS_EACH}"}) for i in range(REQUESTS_EACH * WORKERS_EACH)])
        print(f"  {pods()} pods in {time.monotonic() - began:.0f} s", flush=True)

        # Polls rarely, because for each poll the server reads all pods.
        while self.api.get("/api/v1/pods?fieldSelector=status.phase!%3DRunning&limit=1")["items"]:
            time.sleep(3)

    def metric(self, operator, name, **labels):
        return total(operator.page("/metrics"), name, **labels)

    def finished(self, operator):
        return self.metric(operator, "strobe_captures_total")

    def status(self, name):
        return self.kubectl.get("profilerequest", name)["status"]


def wide_capture(scene, operator, name):
    """Captures all pods of the namespace `wide`, whose workers tell digests. Returns the seconds from the first armed worker to the last, the size
    of the status and the headline."""
    before = scene.finished(operator)
    scene.kubectl.apply(request(name, {"job": "wide"}, start={"delay": "8s"}))
    wait_until(lambda: scene.finished(operator) > before, 120, name)
    time.sleep(0.5)
    status = scene.status(name)
    assert status["workers"]["ok"] == WIDE, json.dumps(status)
    # On a busy machine the clocks of 2,000 workers may not be known well enough to say who waits.
    assert "rank 5 " in status["report"]["headline"], status["report"]
    line = [text for text in scene.fleet.output().splitlines() if text.startswith("capture")][-1].split()
    assert int(line[3]) == WIDE, line
    return (int(line[7]) - int(line[5])) / 1e9, len(json.dumps(status)), status["report"]["headline"]


def requests():
    return TEAMS * REQUESTS_EACH


def path_of(team):
    return f"/apis/strobe.dev/v1alpha1/namespaces/{team}/profilerequests"


def spent_by(group, work):
    """Runs `work`. Returns the CPU time of each process for each request, in ms, as text."""
    before = {process.name: cpu_seconds(process.pid) for process in group.processes if process.running()}
    own = time.process_time()
    work()
    spent = {process.name: cpu_seconds(process.pid) - before[process.name] for process in group.processes if process.running()}
    spent["the client that creates them"] = time.process_time() - own
    return ", ".join(f"{name} {seconds / requests() * 1000:.0f}" for name, seconds in spent.items() if seconds > 1)


def why_failed(scene, prefix):
    """The messages of one failed request of each reason."""
    told = {}
    for team in teams():
        for made in scene.api.get(path_of(team))["items"]:
            succeeded = next((c for c in made.get("status", {}).get("conditions", []) if c["type"] == "Succeeded"), {})
            if made["metadata"]["name"].startswith(prefix) and succeeded.get("status") == "False":
                told.setdefault(succeeded["reason"], succeeded["message"])
    return told


def many_requests(scene, operator, group, prefix):
    """Returns the number of requests that end per second, each process's CPU time per request, and what was written."""
    before, good = scene.finished(operator), scene.metric(operator, "strobe_captures_total", result="Succeeded")
    written, began = writes(scene.kubectl), time.monotonic()

    def work():
        scene.api.create_many([(path_of(team), request(f"{prefix}-{i}", {"job": f"job-{i}"})) for i in range(REQUESTS_EACH) for team in teams()])
        wait_until(lambda: scene.finished(operator) >= before + requests(), 300, "the requests")

    spent = spent_by(group, work)
    took = time.monotonic() - began
    failed = good + requests() - scene.metric(operator, "strobe_captures_total", result="Succeeded")
    assert failed == 0, f"{failed} requests failed: {why_failed(scene, prefix)}"
    time.sleep(5)  # Events are written last.
    return requests() / took, spent, writes(scene.kubectl) - written


def bare(scene, group, status, written):
    """These writes by a client that captures nothing. Returns the same, without what was written."""
    each = {what: round(count / requests()) for what, count in written.items()}
    statuses, events = each["APPLY profilerequests/status"], each["POST events"]
    sequences = [bare_writes.of_capture(team, f"bare-{i}", request(f"bare-{i}", {"job": "none"}), status, statuses, events)
                 for i in range(REQUESTS_EACH) for team in teams()]
    took = []
    spent = spent_by(group, lambda: took.append(scene.api.write_many(sequences)))
    return requests() / took[0], spent


def run(directory):
    build_tools()
    with Group(directory / "logs") as group:
        scene = Scene(group, directory)
        scene.fill()
        operator = Operator(group, scene.plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
        peer = group.start("peer", [TOOLS / "watch_peer", "--kubeconfig", scene.plane.kubeconfig, "--pods", pods()])
        peer.wait_for("synced", 300)
        time.sleep(5)
        idle = {process: (memory(process.pid, "VmRSS"), cpu_seconds(process.pid)) for process in (operator.process, peer)}

        fan_outs = []
        for i in range(ROUNDS):
            took, size, headline = wide_capture(scene, operator, f"wide-{i}")
            fan_outs.append(took)
            print(f"  {WIDE} workers armed within {took:.2f} s; status of {size} bytes: {headline}", flush=True)
        time.sleep(12)
        resting, peak = memory(operator.process.pid, "VmRSS"), high_water(operator.process.pid)

        beside = many_requests(scene, operator, group, "beside")
        # Measures again without kwok: in a real cluster, other machines send the heartbeats and watch the pods.
        scene.kwok.stop()
        time.sleep(5)
        alone = many_requests(scene, operator, group, "alone")
        status = scene.kubectl.get("profilerequest", "alone-0", "-n", teams()[0])["status"]
        operator.process.kill()
        floor = bare(scene, group, status, alone[2])
        bars.at_most(f"{WIDE} workers armed, s", statistics.median(fan_outs), 1)
        bars.at_least(f"requests of {WORKERS_EACH} workers a second", alone[0], 100, known=KNOWN_RATE)
        bars.at_least(f"requests of {WORKERS_EACH} workers a second, to the bare client's", alone[0] / floor[0], 0.5)
        return "\n".join([
            f"## Scale: {NODES} nodes, {pods()} pods\n",
            f"A real API server with etcd, kwok's nodes and pods, and all sidecars in one process share this machine with the operator. {WIDE} pods in one "
            f"namespace, the others in {TEAMS} of {REQUESTS_EACH * WORKERS_EACH}.\n",
            "| | strobe-operator | a minimal controller-runtime operator |", "|---|---|---|",
            f"| memory with {pods()} pods in the cluster | {idle[operator.process][0]:.0f} MiB | {idle[peer][0]:.0f} MiB |",
            f"| processor time until then | {idle[operator.process][1]:.2f} s | {idle[peer][1]:.2f} s |",
            "\n| | | bar |", "|---|---|---|",
            f"| one capture of {WIDE} workers: from the first armed to the last, median of {ROUNDS} (range) | {statistics.median(fan_outs):.2f} s "
            f"({min(fan_outs):.2f} to {max(fan_outs):.2f}) | 1 s |",
            f"| its status, with the report's headline: {headline} | {size} bytes | 10 kB |",
            f"| memory after such captures, and at their peak | {resting:.0f} MiB, {peak:.0f} MiB | |",
            f"| {requests()} requests of {WORKERS_EACH} workers each, from the first created to the last finished | {alone[0]:.0f} per second | 100 |",
            f"| the same, to the bare client's rate below | {alone[0] / floor[0]:.2f} | 0.5 |",
            f"| processor time for each of them, in ms | {alone[1]} | |",
            f"| writes for each of them | {', '.join(f'{count / requests():.1f} {what}' for what, count in alone[2].most_common(8))} | |",
            f"| the same writes by a bare client that captures nothing | {floor[0]:.0f} per second | |",
            f"| processor time for each of them, in ms | {floor[1]} | |",
            f"| the same while kwok keeps {NODES} nodes and {pods()} pods alive on the same two cores | {beside[0]:.0f} per second | |",
            f"| processor time | {beside[1]} | |\n"])


def variables_pod(number):
    """A pod of about 23 kB, as those of jobs with NCCL and EFA are."""
    env = [{"name": f"NCCL_{i}", "value": "x" * 120} for i in range(100)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", "labels": {"app": "train", "strobe.dev/inject": "true"}},
            "spec": {"containers": [{"name": "t", "image": "t", "env": env}],
                     "initContainers": [{"name": "strobe-sidecar", "image": "s", "restartPolicy": "Always", "ports": [{"name": "strobe", "containerPort": 1}]}]}}


def naming(name, pods, **metadata):
    made = profile_request(name, "/x", target={"pods": pods}, attempts=1, start={"readyTimeout": "1h"})
    made["metadata"].update(metadata)
    return made


def seconds_to_refusal(kubectl, name):
    """How long a request that finds no pods takes from its creation to its end."""
    began = time.monotonic()
    kubectl.create(profile_request(name, "/x", attempts=1, start={"readyTimeout": "0s"}), check=True)
    wait_until(lambda: condition(kubectl.get("profilerequest", name), "Succeeded")["status"] == "False", 120, name)
    return time.monotonic() - began


def in_a_large_namespace(group, api, kubectl, operator):
    """Requests that name 20 pods each in a namespace of large pods. Returns the peak of the operator's memory."""
    api.create("/api/v1/namespaces/large/pods", [variables_pod(i) for i in range(LARGE_PODS)])
    size = len(json.dumps(api.get("/api/v1/namespaces/large/pods/p0")))
    pods = [[f"p{i * 20 + j}" for j in range(20)] for i in range(NAMERS)]
    api.create("/apis/strobe.dev/v1alpha1/namespaces/large/profilerequests", [naming(f"r{i}", pods[i]) for i in range(NAMERS)])
    wait_until(lambda: all(condition(r, "Accepted")["reason"] for r in kubectl.get("profilerequests")["items"]), 60, "all are looked at")
    time.sleep(20)
    print(f"  {LARGE_PODS} pods of {size / 1000:.0f} kB, {NAMERS} requests: {high_water(operator.process.pid):.0f} MiB at the peak", flush=True)
    # So many names have the whole namespace listed.
    api.create("/apis/strobe.dev/v1alpha1/namespaces/large/profilerequests", [naming("all", [f"p{i}" for i in range(300)])])
    time.sleep(10)
    return high_water(operator.process.pid)


def starts(group, kubeconfig, name, wrap=()):
    """Starts an operator. Returns it, the seconds until it was ready and the processor seconds until then."""
    operator = Operator(group, kubeconfig, name=name, flags=["--no-leader-election"])
    operator.command = [*wrap, *operator.command]
    began = time.monotonic()
    operator.start().wait_ready(120)
    return operator, time.monotonic() - began, cpu_seconds(operator.process.pid)


def of_large_objects(directory):
    """What the operator takes beside large pods, and beside objects that a user made as large as the API server allows."""
    labels = {f"{i:x}": "" for i in range(LABELS)}
    with Group(directory / "logs") as group, memory_group(CHART_LIMIT) as wrap:
        plane = ControlPlane(group, directory / "plane").start()
        admin, api = Kubectl(plane.kubeconfig), Api(plane)
        admin.install_crds()
        for space in ("large", "mallory", "team"):
            admin.create_namespace(space)
        large, mallory, team = (Kubectl(plane.kubeconfig, space) for space in ("large", "mallory", "team"))
        operator, idle, idle_cpu = starts(group, plane.kubeconfig, "idle", wrap)
        alone = seconds_to_refusal(team, "alone")
        peak = in_a_large_namespace(group, api, large, operator)
        operator.process.kill()
        large.run("delete", "profilerequests", "--all", "--wait=false")

        path = "/apis/strobe.dev/v1alpha1/namespaces/mallory/profilerequests"
        api.create(path, [naming(f"r{i}", ["nobody"], labels=labels) for i in range(20)])
        size = len(json.dumps(api.get(f"{path}/r0")))
        operator, ready, ready_cpu = starts(group, plane.kubeconfig, "beside-20", wrap)
        each = (ready_cpu - idle_cpu) / 20
        api.create(path, [naming(f"r{i}", ["nobody"], labels=labels) for i in range(20, LARGE_REQUESTS)])
        time.sleep(5)
        assert operator.process.running()
        all_peak = high_water(operator.process.pid)
        operator.process.kill()
        operator, again, _ = starts(group, plane.kubeconfig, "beside-all", wrap)
        behind = seconds_to_refusal(team, "behind")
        made = variables_pod(0)
        made["metadata"]["labels"].update(labels)
        for i in range(6):
            made["metadata"]["name"] = f"m{i}"
            mallory.create(made, check=True)
        for i in range(NAMERS):
            mallory.create(profile_request(f"select-{i}", "/x", attempts=1, start={"readyTimeout": "1h"}), check=True)
        time.sleep(5)
        beside = seconds_to_refusal(team, "beside")
        assert operator.process.running()
        bars.at_most(f"peak beside {LARGE_PODS} pods of 23 kB and {NAMERS} requests, MiB", peak, 200)
        bars.at_most(f"processor seconds to read an object of {LABELS} labels", each, 0.05)
        bars.at_most("ready beside 20 large requests, s more than idle", ready - idle, 2)
        bars.at_most("a request beside large pods of another namespace, s more than alone", beside - alone, 3)
        return "\n".join([
            "## Large objects\n",
            f"A real API server, and an operator with {CHART_LIMIT} MiB, which is the chart's limit.\n",
            "| | | bar |", "|---|---|---|",
            f"| peak of memory, {NAMERS} requests that name 20 pods each among {LARGE_PODS} pods of 23 kB | {peak:.0f} MiB | 200 MiB |",
            f"| ready, alone | {idle:.1f} s | |",
            f"| ready beside 20 requests of {size / 1000:.0f} kB ({LABELS} labels) | {ready:.1f} s | 2 s more |",
            f"| processor time for each of them | {each * 1000:.0f} ms | 50 ms |",
            f"| peak of memory while another {LARGE_REQUESTS - 20} are created; ready after a restart beside all {LARGE_REQUESTS} | {all_peak:.0f} MiB; {again:.1f} s | |",
            f"| a request that finds no pods, from its creation to its end, alone | {alone:.1f} s | |",
            f"| the same directly after that restart, while the API server sends all {LARGE_REQUESTS}, which the chart's webhook would refuse | {behind:.1f} s | |",
            f"| the same beside 6 pods of {LABELS} labels and {NAMERS} requests for them in another namespace | {beside:.1f} s | 3 s more |\n"])
