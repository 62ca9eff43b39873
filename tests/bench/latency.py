"""Measures the latency from kubectl apply to armed, and from the end of recording to Succeeded, on a real API server."""

import json
import statistics
import threading
import time

from tests.bench import bars
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, profile_request
from tests.support.processes import Group
from tests.support.workers import start_workers


class Watch:
    """Notes when a condition first became True, as seen by a separate watch of the API server."""

    def __init__(self, kubectl):
        import subprocess

        from tests.support.processes import TOOLS

        self.seen = {}
        self.process = subprocess.Popen([TOOLS / "kubectl", "--kubeconfig", kubectl.kubeconfig, "get", "--raw",
                                         "/apis/strobe.dev/v1alpha1/namespaces/default/profilerequests?watch=true"],
                                        stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            now = time.time()
            object_ = json.loads(line)["object"]
            for condition in object_.get("status", {}).get("conditions", []):
                if condition["status"] == "True":
                    self.seen.setdefault((object_["metadata"]["name"], condition["type"]), now)
            self.seen.setdefault((object_["metadata"]["name"], "created"), now)

    def wait(self, name, kind, timeout=30):
        deadline = time.time() + timeout
        while (name, kind) not in self.seen:
            if time.time() > deadline:
                raise TimeoutError(f"{name} never became {kind}")
            time.sleep(0.002)
        return self.seen[(name, kind)]


def run(directory, captures=20):
    with Group(directory / "logs") as group:
        plane = ControlPlane(group, directory / "cluster").start()
        kubectl = Kubectl(plane.kubeconfig)
        kubectl.install_crds()
        workers = start_workers(group, 2)
        for worker in workers:
            worker.register(kubectl)
        Operator(group, plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
        watch = Watch(kubectl)
        armed, done, writes = [], [], []
        for i in range(captures):
            name = f"look{i}"
            kubectl.apply(profile_request(name, directory / "logdir", run=name, duration="200ms"))
            created = watch.wait(name, "created")
            armed.append((watch.wait(name, "Started") - created) * 1000)
            succeeded = watch.wait(name, "Succeeded")
            manifest = json.loads((directory / "logdir/plugins/profile" / name / "strobe.json").read_text())
            done.append((succeeded - max(int(w["stoppedNs"]) for w in manifest["workers"]) / 1e9) * 1000)
            size = sum(int(w["bytes"]) for w in manifest["workers"])
            writes.append(size)
        watch.process.terminate()
    bars.at_most("object created to armed, ms, p50", statistics.median(armed), 60)
    bars.at_most("end of recording to Succeeded, ms, p50", statistics.median(done), 300)
    return "\n".join(["### From kubectl to the trace", "",
                      f"{captures} requests for two workers on a real kube-apiserver; milliseconds, from what a watch of the API server saw.", "",
                      "| | p50 | max | bar |", "|---|---|---|---|",
                      f"| object created to armed (Started=True) | {statistics.median(armed):.0f} | {max(armed):.0f} | p50 <= 60 |",
                      f"| end of recording to Succeeded=True, writing {statistics.median(writes) / 1000:.0f} kB included | {statistics.median(done):.0f} | {max(done):.0f} | <= 300 + write |", ""])
