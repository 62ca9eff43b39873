"""An upgrade between two builds, and perhaps back: operator, CRDs and chart of an earlier commit are replaced by these while jobs run and captures are under way."""

import itertools
import json
import os
import subprocess
import threading
import time

from tests.soak.noting import NotingWorker, held_against_notes
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import BIN, BUILD, ROOT, TOOLS, wait_until
from tests.support.protos import generate

LEASE = {"duration": "12s", "renewDeadline": "4s", "retryPeriod": "1s"}
LONG = 25  # Seconds of the recording that a change of the operator meets.


def programs_of(commit):
    """Builds the programs of a commit below build/older, once. Returns the commit's tree and the folder with its programs."""
    name = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", f"{commit}^{{commit}}"], check=True, capture_output=True, text=True).stdout.strip()
    tree = BUILD / "older" / name
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, tree], check=True)
        subprocess.run(["git", "-C", tree, "checkout", "--quiet", name], check=True)
    print(f"building {name}: the first time takes some minutes", flush=True)
    if (BUILD / "cuda").exists() and not (tree / "build/cuda").exists():
        (tree / "build").mkdir(exist_ok=True)
        (tree / "build/cuda").symlink_to(BUILD / "cuda")
    for command in (["cmake", "--preset", "release"],
                    ["cmake", "--build", "--preset", "release", "--target", "strobe-operator", "strobe-sidecar", "strobe_agent"]):
        subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree, tree / "build/bin"


class Feeder:
    """Creates one capture after the other without waiting for its end, as users do who do not know of the upgrade."""

    def __init__(self, kubectl, logdir):
        self.kubectl, self.logdir, self.names, self.refused = kubectl, logdir, [], []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._feed)
        self.thread.start()

    def _feed(self):
        for i in itertools.count():
            name = f"feed-{i}"
            try:
                self.kubectl.apply(profile_request(name, self.logdir, run=name, duration="250ms", start={"guard": "400ms"}))
                self.names.append(name)
            except RuntimeError as error:
                self.refused.append(f"{name}: {error}")
            if self.ending.wait(1):
                return

    def further(self, count, timeout=60):
        """Waits until so many more captures were created."""
        goal = len(self.names) + count
        wait_until(lambda: len(self.names) >= goal, timeout, f"{goal} captures")

    def stop(self):
        self.ending.set()
        self.thread.join()


class Upgrade:
    """The cluster of one run: an operator that is replaced, and pods that keep the sidecar that they began with."""

    def __init__(self, group, directory, commit):
        self.group, self.directory = group, directory
        self.tree, self.older = programs_of(commit)
        generated = directory / "protos"
        generated.mkdir()
        generate(generated)
        self.plane = ControlPlane(group, directory / "plane").start()
        self.admin = Kubectl(self.plane.kubeconfig)
        self.crds(self.tree, self.older)
        self.admin.run("create", "namespace", "soak")
        self.kubectl = Kubectl(self.plane.kubeconfig, "soak")
        self.workers, self.operators = [], 0
        self.operator = None

    def crds(self, tree, programs):
        subprocess.run([programs / "strobe-operator", "--kubeconfig", self.plane.kubeconfig, "apply-crds", "--dir", tree / "helm/strobe/crds"], check=True)

    def pod(self, programs, labels=None):
        number = len(self.workers)
        worker = NotingWorker(self.group, number, self.directory, wrap=lambda command: [str(programs / "strobe-sidecar"), *command[1:]],
                              agent=programs / "libstrobe_agent.so")
        worker.start_trainer().start_sidecar().wait().register(self.kubectl, labels)
        self.workers.append(worker)
        return worker

    def replace(self, programs):
        """As a Deployment's rolling update does: the new one is ready before the old one is asked to end."""
        self.operators += 1
        config = {"watch": {"namespace": "soak"}, "lease": {**LEASE, "namespace": "soak"}}
        before = self.operator
        self.operator = Operator(self.group, self.plane.kubeconfig, f"operator-{self.operators}", config=config, programs=programs).start().wait_ready()
        if before:
            before.process.stop(timeout=30)

    def helm(self, *arguments):
        done = subprocess.run([TOOLS / "helm", "--kubeconfig", self.plane.kubeconfig, "--namespace", "charts", *map(str, arguments)],
                              capture_output=True, text=True)
        return [] if done.returncode == 0 else [f"helm {arguments[0]}: {done.stderr.strip()}"]


def ends_of(upgrade, names, logdir):
    """What is wrong with how the captures ended, and what their traces lack."""
    wrong, wanted, causes = [], 0, {}
    for name in names:
        ended = wait_finished(upgrade.kubectl, name, 60)
        end = condition(ended, "Succeeded")
        causes[end["reason"]] = causes.get(end["reason"], 0) + 1
        run = logdir / "plugins/profile" / name
        if end["status"] != "True":
            wrong.append(f"{name}: {end['reason']}: {end['message']}; {[(o['cause'], o['message']) for o in ended['status'].get('outcomes', [])]}")
        elif not (run / "strobe.json").exists():
            wrong.append(f"{name}: there is no run")
        else:
            lost, looked_for = held_against_notes(run, upgrade.workers)
            wrong += [f"{name}: {line}" for line in lost]
            wanted += looked_for
    runs = sorted(os.listdir(logdir / "plugins/profile"))
    if runs != sorted(names):
        wrong.append(f"runs without a request, or the other way: {sorted(set(runs) ^ set(names))}")
    print(f"{len(names)} captures: {causes}; {wanted} noted steps looked for", flush=True)
    return wrong + ([] if wanted else ["no step was looked for"])


def chart(upgrade):
    older, newer = upgrade.tree / "helm/strobe", ROOT / "helm/strobe"
    return (upgrade.helm("install", "strobe", older, "--create-namespace", "--no-hooks", "--skip-crds", "--set-json", 'logdirs=["gs://kept"]')
            + upgrade.helm("upgrade", "strobe", newer, "--reset-then-reuse-values", "--no-hooks")
            + upgrade.helm("rollback", "strobe", "1", "--no-hooks") + upgrade.helm("uninstall", "strobe", "--no-hooks"))


def change_under_captures(upgrade, feeder, name, logdir, change):
    """A long recording begins, the change is made, and captures go on before and after it."""
    feeder.further(3)
    label = {"matchLabels": {"app": "long"}}
    upgrade.kubectl.apply(profile_request(name, logdir, run=name, duration=f"{LONG}s", target={"selector": label}, start={"guard": "400ms"}))
    wait_until(lambda: condition(upgrade.kubectl.get("profreq", name), "Started")["status"] == "True", 20, "the long recording")
    began = time.monotonic()
    change()
    took = time.monotonic() - began
    under_way = condition(upgrade.kubectl.get("profreq", name), "Succeeded")["status"]
    print(f"{name}: changed in {took:.1f} s, the long recording was {'under way' if under_way not in ('True', 'False') else 'over'}", flush=True)
    feeder.further(6)
    return [] if under_way not in ("True", "False") else [f"{name} ended before the change was over, so that this run shows nothing"]


def run(group, directory, options):
    upgrade = Upgrade(group, directory, options.older)
    try:
        return all_changes(upgrade, directory, options.rollback)
    except TimeoutError as error:
        print(upgrade.kubectl.run("get", "profreq", "-o", "wide").stdout, upgrade.operator.process.output()[-3000:])
        return [str(error)]
    finally:
        for worker in upgrade.workers:
            worker.stop()
            worker.program.kill()
            worker.unmount()


def all_changes(upgrade, directory, rollback):
    logdir = directory / "logdir"
    for _ in range(2):
        upgrade.pod(upgrade.older)
    upgrade.pod(upgrade.older, {"app": "long"})
    upgrade.replace(upgrade.older)
    feeder = Feeder(upgrade.kubectl, logdir)

    def forth():
        upgrade.crds(ROOT, BIN)
        upgrade.replace(BIN)

    def back():  # As `helm rollback` does it: the CRDs stay.
        upgrade.replace(upgrade.older)

    try:
        wrong = change_under_captures(upgrade, feeder, "upgrade", logdir, forth)
        upgrade.pod(BIN)  # A pod of the new release joins those of the older one.
        feeder.further(6)
        if rollback:
            wrong += change_under_captures(upgrade, feeder, "rollback", logdir, back)
    finally:
        feeder.stop()
    wrong += feeder.refused + ends_of(upgrade, [*feeder.names, "upgrade", *(["rollback"] if rollback else [])], logdir)
    mixed = json.loads((logdir / "plugins/profile" / feeder.names[-1] / "strobe.json").read_text())
    if len(mixed["workers"]) != 3:
        wrong.append(f"the last capture is one of {len(mixed['workers'])} workers")
    wrong += [f"{worker.name}: its programs ended" for worker in upgrade.workers if not (worker.trainer.running() and worker.program.running())]
    upgrade.kubectl.run("delete", "profreq", "--all", "--timeout=60s")
    return wrong + chart(upgrade)
