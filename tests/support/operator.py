"""Runs the operator as a process, and creates ProfileRequests for tests."""

import json
import time
import urllib.request

from .ports import free_port
from .processes import BIN, PATIENCE, wait_until


class Operator:
    def __init__(self, group, kubeconfig, name="operator", flags=(), config=None, programs=BIN):
        self.group = group
        self.http_port = free_port()
        command = [programs / "strobe-operator", "--kubeconfig", kubeconfig, "--insecure-plaintext",
                   "--http-listen", f"127.0.0.1:{self.http_port}", *flags]
        if config is not None:
            path = group.log_dir / f"{name}.yaml"
            path.write_text(json.dumps(config))
            command += ["--config", path]
        self.command, self.name = command, name
        self.process = None

    def start(self):
        self.process = self.group.start(self.name, self.command)
        return self

    def page(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def wait_ready(self, timeout=30):
        def ready():
            if not self.process.running():
                raise RuntimeError(f"the operator ended:\n{self.process.output()[-3000:]}")
            try:
                return self.page("/readyz") == "ok\n"
            except OSError:
                return False

        wait_until(ready, timeout, "the operator's readiness")
        return self


# Unless a test is about lateness: a busy machine then makes no recording late.
WIDE_GUARD = "300ms"


def profile_request(name, logdir, selector=None, **spec):
    target = spec.pop("target", {"selector": {"matchLabels": selector or {"app": "train"}}})
    start = {"guard": WIDE_GUARD, **spec.pop("start", {})}
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": name},
            "spec": {"target": target, "logdir": str(logdir), "duration": "200ms", **spec, "start": start}}


def condition(request, kind):
    for entry in request.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return {"status": "Missing", "reason": ""}


def await_event(kubectl, holds, what):
    """Waits for an event of the namespace: the operator writes them after the status that they tell of. Returns all events."""
    def found():
        events = kubectl.get("events.events.k8s.io")["items"]
        return any(map(holds, events)) and events
    return wait_until(found, 20, what)


def await_reasons(kubectl, *reasons, kind="ProfileRequest"):
    """Waits for events with these reasons about an object of this kind."""
    for reason in reasons:
        await_event(kubectl, lambda event, reason=reason: (event["reason"], event["regarding"]["kind"]) == (reason, kind), f"the event {reason}")


def wait_finished(kubectl, name, timeout=60):
    """Waits until the Succeeded condition is True or False, and returns the request."""
    deadline = time.monotonic() + timeout * PATIENCE
    request = {}
    while time.monotonic() < deadline:
        request = kubectl.get("profilerequest", name)
        if condition(request, "Succeeded")["status"] in ("True", "False"):
            return request
        time.sleep(0.1)
    raise TimeoutError(f"{name} did not finish: {json.dumps(request.get('status'), indent=1)}")
