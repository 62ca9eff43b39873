"""Records what the controllers of other projects make of a job: python -m tests.controllers.record [NAME...]

Runs each controller, built by tests/controllers/build, against a real API server, creates a job of tests/controllers/jobs, and writes the
job's objects and pods to tests/golden/jobs. The unit tests and integration.targets read these, so that Strobe finds pods by what the
controllers write, not by what we believe that they write.
"""

import base64
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.controllers.jobs import RECORDINGS
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.ports import free_port
from tests.support.processes import BUILD, ROOT, TOOLS, Group, wait_until
from tests.support.tls import issue

GOLDEN = ROOT / "tests/golden/jobs"
# What differs from run to run, or only concerns the API server.
NOISE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")


def modules():
    lines = (ROOT / "tests/controllers/modules").read_text().splitlines()
    return {name: (module, version) for name, module, version, _ in map(str.split, lines)}


def source(module, version):
    answer = subprocess.run(["go", "mod", "download", "-json", f"{module}@{version}"], check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["Dir"])


def without_noise(value):
    if isinstance(value, dict):
        return {key: without_noise(part) for key, part in value.items() if key not in NOISE and not key.endswith(("Time", "-uid"))}
    return [without_noise(part) for part in value] if isinstance(value, list) else value


def items(answer):
    return answer["items"] if "items" in answer else [answer]


class Rig:
    """An API server with Kubernetes' own job controllers. `start` adds the controller of another project."""

    def __init__(self, group, directory):
        self.group, self.dir = group, directory
        self.plane = ControlPlane(group, directory / "plane").start()
        self.kubectl = Kubectl(self.plane.kubeconfig)
        group.start("kube-controller-manager", [
            TOOLS / "kube-controller-manager", "--kubeconfig", self.plane.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
            "--service-account-private-key-file", self.plane.dir / "sa.key", "--use-service-account-credentials=false",
            "--controllers=job-controller,statefulset-controller,garbage-collector-controller,namespace-controller", "--secure-port=0"])
        self.certificates = directory / "certificates"
        self.certificates.mkdir()
        issue(self.plane.dir, "webhook", "/CN=webhook")
        for ending in ("crt", "key"):
            (self.certificates / f"tls.{ending}").write_bytes((self.plane.dir / f"webhook.{ending}").read_bytes())
        self.processes = []

    def install(self, part, webhook_port):
        """Creates what a controller's installation has beside the controller."""
        module = source(*modules()[part["controller"]])
        for folder in part["crds"]:
            self.kubectl.run("apply", "--server-side", "-f", module / folder)
        wait_until(lambda: self.kubectl.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s", check=False).returncode == 0, 60,
                   "the CRDs")
        for made in part.get("installed", []):
            Kubectl(self.plane.kubeconfig, made["metadata"].get("namespace", "default")).apply(made)
        for file in part.get("manifests", []):
            self.kubectl.run("apply", "-f", module / file)
        authority = base64.b64encode((self.plane.dir / "ca.crt").read_bytes()).decode()
        for file in part.get("webhooks", []):
            for configuration in yaml.safe_load_all((module / file).read_text()):
                configuration["metadata"]["name"] += f"-{part['controller']}"
                for webhook in configuration["webhooks"]:
                    path = webhook["clientConfig"].pop("service")["path"]
                    webhook["clientConfig"] |= {"url": f"https://127.0.0.1:{webhook_port}{path}", "caBundle": authority}
                self.kubectl.apply(configuration)

    def start(self, part):
        name, webhook_port = part["controller"], free_port()
        flags = part.get("flags", [])
        if "config" in part:
            config = self.dir / f"{name}.yaml"
            config.write_text(json.dumps({
                **part["config"], "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
                "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": "127.0.0.1:0"},
                "webhook": {"port": webhook_port, "host": "127.0.0.1", "certDir": str(self.certificates)}}))
            flags = [*flags, f"--config={config}"]
        values = {"kubeconfig": self.plane.kubeconfig, "webhook_port": webhook_port}
        command = [BUILD / "controllers" / name, *(flag.format(**values) for flag in flags)]
        if "certificates" in part:
            # It reads its certificate from a fixed path. It gets a file system of its own there.
            place, path = part["certificates"]
            command = ["unshare", "--mount", "sh", "-c", f'mkdir -p {place} && mount -t tmpfs none {place} && mkdir -p $(dirname {path}) && cp -r "$0" {path} && '
                       'exec "$@"', self.certificates, *command]
        self.install(part, webhook_port)
        self.processes.append(self.group.start(name, command, env={"KUBECONFIG": str(self.plane.kubeconfig), **part.get("env", {})}))
        if "webhooks" in part:
            wait_until(lambda: listens(webhook_port) or not self.processes[-1].running(), 60, f"the webhooks of {name}; see {self.output()}")

    def output(self):
        return "\n".join(process.output()[-3000:] for process in self.processes)

    def running(self):
        return all(process.running() for process in self.processes)

    def pods(self):
        return self.kubectl.get("pods")["items"]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def record(recording, directory):
    with Group(directory / "logs") as group:
        rig = Rig(group, directory)
        for part in [*recording.get("with", []), recording]:
            rig.start(part)
        time.sleep(3)
        for step in recording["steps"]:
            if callable(step):
                wait_until(lambda step=step: step(rig.kubectl), 90, f"a step of {recording['name']}; see {rig.output()}")
            else:
                rig.kubectl.apply(*step)
        wait_until(lambda: len(rig.pods()) == recording["pods"] or not rig.running(), 90,
                   f"{recording['pods']} pods of {recording['name']}, not {len(rig.pods())}; see {rig.output()}")
        assert rig.running(), rig.output()
        objects = [item for name in recording["objects"] for item in items(rig.kubectl.get(*name.split("/")))]
        job = recording["jobRef"]
        if "name" not in job:
            job = {**job, "name": next(item["metadata"]["name"] for item in objects if item["kind"] == job["kind"])}
        module, version = modules()[recording["controller"]]
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"{recording['name']}.json").write_text(json.dumps(without_noise({
            "madeBy": f"{module} {version}", "jobRef": job, "workers": recording["workers"], "ranks": recording["ranks"],
            "objects": objects, "pods": sorted(rig.pods(), key=lambda pod: pod["metadata"]["name"])}), indent=1) + "\n")
        print(f"{recording['name']}: {[pod['metadata']['name'] for pod in rig.pods()]}")


def main():
    chosen = sys.argv[1:]
    for recording in RECORDINGS:
        if chosen and recording["name"] not in chosen:
            continue
        controllers = [part["controller"] for part in [recording, *recording.get("with", [])]]
        subprocess.run([ROOT / "tests/controllers/build", BUILD / "controllers", *controllers], check=True)
        with tempfile.TemporaryDirectory() as directory:
            record(recording, Path(directory))


if __name__ == "__main__":
    main()
