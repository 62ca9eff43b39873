"""Measures the webhook's latency at 100 admissions of pods per second, in comparison with controller-runtime's server."""

import http.client
import json
import shutil
import ssl
import statistics
import subprocess
import threading
import time

from tests.bench import bars
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.ports import free_port
from tests.support.processes import ROOT, TOOLS, Group, high_water, wait_until
from tests.support.secure import SecureOperator
from tests.support.tls import issue, make_authority

RATE, SECONDS, ROUNDS, CONNECTIONS = 100, 10, 5, 8
PEER = ROOT / "tests/bench/controller_runtime"


def review():
    pod = json.loads((ROOT / "tests/golden/pods/pytorchjob-gpu.json").read_text())
    pod["metadata"]["labels"]["strobe.dev/inject"] = "true"
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE", "namespace": "ml", "userInfo": {"username": "jane"}, "object": pod}})


def load(port):
    """Returns sorted latencies in milliseconds. Each is counted from the time at which the request was due, even if it was sent late because the
    connection was busy."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    body = review()
    took, lock = [], threading.Lock()
    begin = time.perf_counter() + 0.2

    def client(number):
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=10)
        connection.connect()
        own = []
        for i in range(number, RATE * SECONDS, CONNECTIONS):
            due = begin + i / RATE
            time.sleep(max(0, due - time.perf_counter()))
            connection.request("POST", "/inject", body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            own.append((time.perf_counter() - due) * 1000)
            assert answer["response"]["allowed"] and answer["response"]["patch"]
        with lock:
            took.extend(own)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took.sort()
    return took


def at(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def run(directory):
    subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", TOOLS / "webhook_peer", "./webhook"], cwd=PEER, check=True)
    with Group(directory / "logs") as group:
        plane = ControlPlane(group, directory / "plane").start()
        kubectl = Kubectl(plane.kubeconfig)
        kubectl.install_crds()
        kubectl.create_namespace("bench")
        kubectl = Kubectl(plane.kubeconfig, "bench")
        ours = SecureOperator(group, plane, kubectl).start().wait_ready()
        certificates = directory / "certificates"
        certificates.mkdir()
        make_authority(certificates, "bench")
        issue(certificates, "server", "/CN=bench")
        for kind in ("crt", "key"):
            shutil.copyfile(certificates / f"server.{kind}", certificates / f"tls.{kind}")
        port = free_port()
        peer = group.start("peer", [TOOLS / "webhook_peer", "--port", port, "--certificates", certificates])
        wait_until(lambda: "Serving webhook server" in peer.output(), 20, "the peer's start")
        results = {"strobe-operator": [], "controller-runtime": []}
        for _ in range(ROUNDS):
            results["strobe-operator"].append(load(ours.webhook_port))
            results["controller-runtime"].append(load(port))
        lines = [f"## Webhook: latency of injecting a pod at {RATE}/s\n",
                 f"{ROUNDS} rounds of {SECONDS} s each, taking turns; medians of the rounds (range). {CONNECTIONS} connections, a pod of "
                 f"{len(review()) / 1000:.1f} kB.\n", "| server | p50 | p99 | worst | memory at the peak |", "|---|---|---|---|---|"]
        figures = {}
        for name, rounds in results.items():
            p50, p99 = [at(r, 0.5) for r in rounds], [at(r, 0.99) for r in rounds]
            figures[name] = (statistics.median(p50), statistics.median(p99))
            process = ours.process if name == "strobe-operator" else peer
            lines.append(f"| {name} | {statistics.median(p50):.2f} ms | {statistics.median(p99):.2f} ms ({min(p99):.2f} to {max(p99):.2f}) | {max(r[-1] for r in rounds):.1f} ms | {high_water(process.pid):.0f} MB |")
        (a50, a99), (b50, b99) = figures["strobe-operator"], figures["controller-runtime"]
        bars.at_most("injecting a pod, ms, p99", a99, 10)
        lines.append(f"\nOurs to the peer's: p50 {a50 / b50:.2f}, p99 {a99 / b99:.2f}. Bar: p99 at most 10 ms.\n")
        return "\n".join(lines)
