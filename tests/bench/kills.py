"""Kills the operator at random points between an alert and the end of its capture, and counts captures that are lost or made twice.

A real Alertmanager posts, and posts again; the captures are of real JAX programs. What was captured is read from the logdir by TensorFlow's own classes.
There is no peer: no other operator captures by alerts. STROBE_ROUNDS says how often it is killed.
"""

import os
import random
import time

from tests.bench import bars, chart_operator, protos
from tests.support.alertmanager import Alertmanager
from tests.support.operator import WIDE_GUARD, condition
from tests.support.processes import Group, wait_until
from tests.support.secure import SecureSidecar
from tests.support.workers import Worker

ROUNDS = int(os.environ.get("STROBE_ROUNDS", "50"))
WORKERS = 2
GROUP_WAIT = 1  # Seconds for which Alertmanager keeps a new alert.
# Seconds after the alert was posted: around the creation of the request, and until the capture has ended. Rounds take turns.
MOMENTS = ((-0.1, 0.3), (0, 3))


def trigger(logdir):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": "kills"}, "spec": {
        "alerts": {"matchLabels": {"alertname": "SlowSteps"}, "jobLabel": "job_name"}, "budget": {"coolDown": "1h"},
        "template": {"spec": {"logdir": str(logdir), "duration": "500ms", "start": {"guard": WIDE_GUARD}}}}}


class Rig:
    def __init__(self, group, directory):
        self.logdir = directory / "logdir"
        self.logdir.mkdir()
        self.operator, self.kubectl = chart_operator.start(
            group, directory, self.logdir, "--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=t")
        trainers = [Worker(group, f"worker-{i}", i).start_trainer() for i in range(WORKERS)]
        self.pods = [trainer.wait().name for trainer in trainers]
        for i, trainer in enumerate(trainers):
            SecureSidecar(group, self.operator, trainer.name, trainer.profiler_port, directory / trainer.name, index=i).start().wait()
        wait_until(lambda: self.kubectl.create(trigger(self.logdir)).returncode == 0, 60, "the webhooks")
        wait_until(lambda: self.kubectl.get("proftrig", "kills").get("status"), 30, "the trigger")
        (directory / "ca.crt").write_text(self.operator.authority()[0])
        (directory / "token").write_text(self.operator.alert_token)
        self.manager = Alertmanager(group, directory / "alertmanager", f"https://localhost:{self.operator.alert_port}/alerts", {
            "tls_config": {"ca_file": str(directory / "ca.crt")}, "authorization": {"credentials_file": str(directory / "token")}})

    def requests_of(self, job):
        return [run for run in self.kubectl.get("profilerequests")["items"] if run["spec"]["target"]["jobRef"]["name"] == job]

    def ended(self, job):
        runs = self.requests_of(job)
        return runs and all(condition(run, "Succeeded")["status"] in ("True", "False") for run in runs) and runs

    def traces(self):
        from tensorflow import xplane_pb2

        return {path for path in self.logdir.rglob("*.xplane.pb") if xplane_pb2.XSpace.FromString(path.read_bytes()).planes}


def point_of(runs):
    """How far the operator had come."""
    if not runs:
        return "no request"
    states = {c["type"]: c["status"] for c in runs[0].get("status", {}).get("conditions", [])}
    return "ended" if states.get("Succeeded") in ("True", "False") else "armed" if states.get("Started") == "True" else "not armed"


def one_round(rig, number):
    """Returns (the point at which the operator was killed, requests, those that succeeded, traces)."""
    job = f"job-{number}"
    rig.kubectl.run("label", "pod", *rig.pods, f"batch.kubernetes.io/job-name={job}", "--overwrite")
    before = rig.traces()
    rig.manager.tell({"labels": {"alertname": "SlowSteps", "namespace": "bench", "job": job, "job_name": job}})
    time.sleep(GROUP_WAIT + random.Random(number).uniform(*MOMENTS[number % 2]))
    rig.operator.process.kill()
    point = point_of(rig.requests_of(job))
    rig.operator.start().wait_ready()
    try:
        wait_until(lambda: rig.ended(job), 120, "the capture")
    except TimeoutError:
        pass
    time.sleep(3)  # For a second capture, if there were one.
    runs = rig.requests_of(job)
    succeeded = sum(condition(run, "Succeeded")["status"] == "True" for run in runs)
    return point, len(runs), succeeded, len(rig.traces() - before)


def run(directory):
    protos.load()
    with Group(directory / "logs") as group:
        rig = Rig(group, directory)
        rounds = [one_round(rig, number) for number in range(ROUNDS)]
        rig.operator.process.kill()
    bars.at_least("captured once, of all rounds", sum(found[1:] == (1, 1, WORKERS) for found in rounds) / ROUNDS, 1)
    rows = []
    for point in ("no request", "not armed", "armed", "ended"):
        of_point = [found for found in rounds if found[0] == point]
        good = sum(found[1:] == (1, 1, WORKERS) for found in of_point)
        lost, twice = sum(found[1] == 0 for found in of_point), sum(found[1] > 1 or found[3] > WORKERS for found in of_point)
        rows.append(f"| {point} | {len(of_point)} | {good} | {lost} | {twice} |")
    return "\n".join([
        "### The operator is killed between alert and capture\n",
        f"An alert for each round, by Alertmanager; {WORKERS} JAX workers with sidecars, and a real API server. `kill -9` at a random point from"
        f" {-MOMENTS[0][0]} s before to {MOMENTS[1][1]} s after Alertmanager's post, half of them in the first {MOMENTS[0][1]} s; then the next operator starts.\n",
        "| state of the request when the operator was killed | rounds | captured once, with the traces of all workers | no request | twice |",
        "|---|---|---|---|---|", *rows, ""])
