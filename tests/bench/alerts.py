"""Measures a storm of alerts on the whole operator: captures, memory, and writes to a real API server.

There is no peer: no other operator captures by alerts. The bars are absolute.
"""

import http.client
import json
import ssl
import threading
import time
from collections import deque

from tests.bench import bars, chart_operator
from tests.support.api_writes import writes
from tests.support.operator import WIDE_GUARD
from tests.support.ports import free_port
from tests.support.processes import Group, high_water, wait_until
from tests.support.secure import make_pod

JOBS, RATE, SECONDS, PER_POST, SENDERS = 50, 1000, 60, 20, 8


def trigger(logdir):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": "storm"}, "spec": {
        "alerts": {"matchLabels": {"alertname": "SlowSteps"}}, "budget": {"coolDown": "1h"},
        # The pods' sidecars do not answer: how many captures are asked for is the question.
        "template": {"spec": {"logdir": str(logdir), "duration": "100ms", "attempts": 1, "start": {"guard": WIDE_GUARD, "readyTimeout": "0s"}}}}}


def post_body(number, namespace):
    begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    alerts = [{"status": "firing", "fingerprint": f"{number * PER_POST + i:016x}", "startsAt": begin, "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
               "labels": {"alertname": "SlowSteps", "namespace": namespace, "pod": f"job-{(number * PER_POST + i) % JOBS}"}, "annotations": {}}
              for i in range(PER_POST)]
    return json.dumps({"version": "4", "groupKey": "{}", "status": "firing", "receiver": "strobe", "truncatedAlerts": 0, "alerts": alerts})


class Storm:
    """Posts at the rate. A post that is answered with 503 is posted again a second later, as Alertmanager would."""

    def __init__(self, operator, namespace):
        self.operator, self.namespace = operator, namespace
        self.answers = {}
        self.again = deque()
        self.lock = threading.Lock()
        self.begin = time.monotonic()
        self.threads = [threading.Thread(target=self.send, args=(i,)) for i in range(SENDERS)]
        for thread in self.threads:
            thread.start()

    def send(self, own):
        trust = ssl.create_default_context(cadata=self.operator.authority()[0])
        connection = http.client.HTTPSConnection("localhost", self.operator.alert_port, timeout=30, context=trust)

        def post(body):
            try:
                connection.request("POST", "/alerts", body, {"Content-Type": "application/json", "Authorization": f"Bearer {self.operator.alert_token}"})
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except OSError:
                connection.close()
                status = 0
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
                if status != 200:
                    self.again.append((time.monotonic() + 1, body))

        for number in range(own, RATE * SECONDS // PER_POST, SENDERS):
            time.sleep(max(0, self.begin + number * PER_POST / RATE - time.monotonic()))
            post(post_body(number, self.namespace))
            with self.lock:
                due = self.again.popleft() if self.again and self.again[0][0] <= time.monotonic() else None
            if due:
                post(due[1])

    def end(self):
        for thread in self.threads:
            thread.join()
        return self.answers


def run(directory):
    logdir = directory / "logdir"
    logdir.mkdir()
    with Group(directory / "logs") as group:
        operator, kubectl = chart_operator.start(
            group, directory, logdir, "--set", "triggers.receiver.enabled=true,triggers.receiver.token.secret=t")
        for job in range(JOBS):
            make_pod(kubectl, f"job-{job}", free_port(), {"batch.kubernetes.io/job-name": f"job-{job}"})
        wait_until(lambda: kubectl.create(trigger(logdir)).returncode == 0, 60, "the webhooks")
        wait_until(lambda: kubectl.get("proftrig", "storm").get("status"), 30, "the trigger")
        before, memory = writes(kubectl), high_water(operator.process.pid)
        began = time.monotonic()
        storm = Storm(operator, "bench")
        samples = [(began, before.total())]
        while any(thread.is_alive() for thread in storm.threads):
            time.sleep(max(0, samples[-1][0] + 1 - time.monotonic()))
            samples.append((time.monotonic(), writes(kubectl).total()))
        answers, took = storm.end(), time.monotonic() - began
        made = writes(kubectl) - before
        runs = kubectl.get("profilerequests")["items"]
        jobs = {run["spec"]["target"]["jobRef"]["name"] for run in runs}
        grown = high_water(operator.process.pid) - memory
        operator.process.kill()
    # To ask takes the server some time too, so that a sample is longer than a second.
    most = max((made - made_before) / (now - then) for (then, made_before), (now, made) in zip(samples, samples[1:]))
    bars.at_most("captures of a job", len(runs) / max(len(jobs), 1), 1)
    bars.at_most("MiB that the operator grew by", grown, 16)
    bars.at_most("writes in the worst second", most, 10)
    posts = sum(answers.values())
    return "\n".join([
        "### A storm of alerts\n",
        f"{RATE:,} alerts a second for {SECONDS} s, {PER_POST} to a post, for {JOBS} jobs, to the whole operator before a real API server. Posts that are"
        " answered with 503 are posted again.\n",
        "| captures | of jobs | bar | operator's memory grew by | bar | writes/s, mean | in the worst second | bar | posts | answered 503 | not answered |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        f"| {len(runs)} | {len(jobs)} of {JOBS} | one each | {grown:.1f} MiB | 16 | {(samples[-1][1] - before.total()) / took:.1f} | {most:.0f} | 10 | {posts}"
        f" | {answers.get(503, 0)} | {answers.get(0, 0)} |",
        f"\nWrites for each capture: {', '.join(f'{count / len(runs):.1f} {what}' for what, count in made.most_common())}.", ""])
