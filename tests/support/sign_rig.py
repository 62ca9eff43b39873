"""A job of JAX workers whose sidecars tell signs to an operator with the chart's rights; each worker can be slowed down."""

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import oracle
from tests.support.operator import WIDE_GUARD, condition
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.secure import SecureSidecar

PERIOD = 0.05
SECOND = 1_000_000_000


def order(path, value):
    new = path.with_suffix(".new")
    new.write_text(str(value))
    new.rename(path)


class SlowableWorker:
    def __init__(self, group, operator, package, name, directory, index, look_back="30s", job="llm", wrap=(), noise=0):
        self.name = name
        self.dir = directory / name
        (self.dir / "strobe").mkdir(parents=True)
        self.notes, self.slow, self.held = self.dir / "notes", self.dir / "slow", self.dir / "hold"
        self.trainer = group.start(f"trainer-{name}", [*wrap, PYTHON, ROOT / "tests/e2e/slowed_loop.py", self.notes, self.slow, self.held, PERIOD, noise], env={
            "STROBE_DIR": str(self.dir / "strobe"), "STROBE_AGENT": str(BIN / "libstrobe_agent.so"), "PYTHONPATH": str(package)})
        self.sidecar = SecureSidecar(group, operator, name, 1, self.dir, index=index, labels={"batch.kubernetes.io/job-name": job}, flags=[
            "--agent-dir", self.dir / "strobe/agent", "--flight-recorder", look_back])

    def start(self):
        self.trainer.wait_for("ready", 90)
        self.sidecar.start()
        return self

    def slow_down(self, factor):
        """Returns the first step that began afterwards. A step reads the order just before it notes its begin."""
        order(self.slow, factor)
        ordered = time.monotonic_ns()

        def first():
            return next((note for note in oracle.read_notes(self.notes)[-400:] if note.mono_begin > ordered + SECOND // 1000), None)
        return wait_until(first, 20, "a slow step")

    def hold(self, mebibytes):
        order(self.held, mebibytes)

    def recover(self):
        self.slow.unlink()


def sign_trigger(name, logdir, signs, template=None, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileTrigger", "metadata": {"name": name},
            "spec": {"signs": signs, "budget": {"coolDown": "10s", "capturesPerDay": 1000}, **spec, "template": {"spec": {
                "logdir": str(logdir), "lookBack": "30s", "duration": "200ms", "start": {"guard": WIDE_GUARD}, **(template or {})}}}}


def runs_of(kubectl, trigger):
    return sorted(kubectl.get("profilerequests", "-l", f"strobe.dev/trigger={trigger}")["items"], key=lambda run: int(run["metadata"]["name"].rsplit("-", 1)[1]))


def finished(kubectl, trigger, count):
    """The runs, when there are so many and the last one has ended."""
    def ended():
        runs = runs_of(kubectl, trigger)
        return len(runs) >= count and condition(runs[-1], "Succeeded")["status"] in ("True", "False") and runs
    return ended


def holds_onset(run, worker, onset):
    """Whether the run's trace of the worker has its first slow step, and the manifest says that the run reached back so far."""
    from tensorflow import xplane_pb2

    folder = Path(urlsplit(run["status"]["run"]).path)
    manifest = json.loads((folder / "strobe.json").read_text())
    (told,) = [entry for entry in manifest["workers"] if entry["pod"] == worker.name] if "pod" in manifest["workers"][0] else \
        [entry for entry in manifest["workers"] if worker.name in json.dumps(entry)]
    space = xplane_pb2.XSpace.FromString((folder / f"{worker.name}.xplane.pb").read_bytes())
    begin = int(manifest["instantNs"]) - int(told["reachedBackNs"])
    return begin <= onset.wall_begin and oracle.steps_of(space)["train", onset.step] > 0


def warm_up(workers, seconds=40):
    """Until the sidecars know what is usual: after 30 looks, one each second."""
    for worker in workers:
        worker.sidecar.wait()
    time.sleep(seconds)


def create_trigger(kubectl, trigger):
    wait_until(lambda: kubectl.create(trigger).returncode == 0, 60, "the webhooks")
    wait_until(lambda: kubectl.get("proftrig", trigger["metadata"]["name"]).get("status"), 30, "the trigger")
