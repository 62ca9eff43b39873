"""Captures under random faults of the network, the processes, the API server and the clocks. Storm.verdict checks the
result. One seed, which is printed, decides which faults and captures are chosen; only the scheduling differs between runs."""

import hashlib
import json
import mmap
import os
import random
import re
import struct
import subprocess
import threading
import time

from tests.soak.noting import NotingWorker, held_against_notes
from tests.support import fault_proxy as fp
from tests.support.operator import Operator, condition, profile_request
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.tcp_proxy import TcpProxy
from tests.support.workers import Worker

LEASE = {"duration": "6s", "renewDeadline": "3s", "retryPeriod": "500ms"}
DURATIONS = ["20ms", "100ms", "300ms", "1s"]
TRACE_MIB = 0.2


class Clock:
    """A shift of some processes' wall clock that can change while they run."""

    def __init__(self, path):
        path.write_bytes(bytes(8))
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 8)
        self.env = {"LD_PRELOAD": str(BIN / "clock_shift.so"), "CLOCK_SHIFT_FILE": str(path)}

    def step(self, seconds):
        self.map[:8] = struct.pack("q", int(seconds * 1e9))


class StormyWorker(NotingWorker):
    """A sidecar with a spool, an unreliable network and a wall clock that is stepped. Only the first worker has a real JAX trainer."""

    def __init__(self, group, number, directory, protos):
        self.clock = Clock(directory / f"clock-{number}")
        super().__init__(group, number, directory, env=self.clock.env, flags=["--spool-dir", directory / f"spool-{number}", "--grace", "3"],
                         modes=["hostile"] if number % 2 else [], framework="jax" if number == 0 else "fake")
        self.protos = protos
        self.proxy = TcpProxy(self.port, number)

    def start_trainer(self):
        self.start_program()
        return self.restart_trainer()

    def restart_trainer(self):
        if self.framework == "jax":
            Worker.start_trainer(self)
        if self.framework != "jax":
            self.trainer = self.group.start(
                f"{self.name}-trainer", [PYTHON, ROOT / "tests/e2e/big_profiler.py", self.protos, self.profiler_port, TRACE_MIB], env=self.trainer_env)
        return self

    def pod(self, labels=None):
        made = super().pod(labels)
        made["spec"]["initContainers"][0]["ports"][0]["containerPort"] = self.proxy.port
        return made

    def rings(self):
        return list((self.agent_dir / "agent").glob("*.rings"))


class Storm:
    def __init__(self, group, plane, kubectl, protos, directory, seed, workers=4):
        self.group, self.plane, self.kubectl, self.directory, self.seed = group, plane, kubectl, directory, seed
        self.random = random.Random(seed)
        self.logdir = directory / "logdir"
        self.api = fp.FaultProxy(plane)
        self.workers = [StormyWorker(group, i, directory, protos).start_trainer().start_sidecar() for i in range(workers)]
        for worker in self.workers:
            worker.wait().register(kubectl)
        kubeconfig = self.api.kubeconfig(directory / "proxied")
        config = {"watch": {"namespace": kubectl.namespace, "timeout": "20s"}, "lease": {**LEASE, "namespace": kubectl.namespace}}
        self.operators = [Operator(group, kubeconfig, f"operator-{i}", config=config).start() for i in range(2)]
        self.broken, self.over, self.idle = [], threading.Event(), threading.Semaphore(0)
        self.faults = {}
        self.calm, self.stopped, self.restarting = threading.Event(), threading.Event(), threading.Lock()
        self.requests, self.deleted = [], set()
        self.steps = 0  # Noted steps that were looked for in the traces of workers that ended Ok.

    # Faults. Each ends by itself; when `calm` is set, it ends at once.

    def _for(self, seconds):
        self.calm.wait(self.random.uniform(*seconds))

    def api_fault(self):
        self.random.choice([
            lambda: self.api.faults.cut_streams(),
            lambda: self.api.faults.cut_streams(reset=True),
            lambda: (self.api.faults.add(fp.is_watch, fp.expired_event()), self.api.faults.cut_streams()),
            lambda: self.api.faults.add(fp.is_write, fp.refuse(429, {"Retry-After": "1"}), times=3),
            lambda: self.api.faults.add(fp.is_write, fp.refuse(500, message="etcd is away"), times=3),
            lambda: self.api.faults.add(lambda *_: True, fp.reset(), times=5),
            lambda: self.api.faults.add(lambda *_: True, fp.silence(2), times=3),
            lambda: self.api.faults.replay(),
        ])()

    def api_restart(self):
        with self.restarting:
            self.plane.apiserver.kill()
            self._for((0.1, 1))
            self.plane.start_apiserver()
            self.plane.wait_ready()

    def operator_killed(self):
        self.random.choice(self.operators).process.signal(9)

    def freeze(self, victim, seconds):
        victim.signal(19)
        self._for(seconds)
        victim.signal(18)

    def operator_frozen(self):
        self.freeze(self.random.choice(self.operators).process, (0.5, 9))

    def sidecar_killed(self):
        self.random.choice(self.workers).sidecar.signal(self.random.choice([9, 15]))

    def trainer_killed(self):
        self.random.choice(self.workers).trainer.signal(9)

    def sidecar_frozen(self):
        self.freeze(self.random.choice(self.workers).sidecar, (0.2, 3))

    def second_sidecar(self):
        victim = self.random.choice(self.workers)
        second = subprocess.Popen([BIN / "strobe-sidecar", "--listen", "127.0.0.1:0", "--framework", "localhost:1", "--agent-dir",
                                   victim.agent_dir / "agent", "--insecure-plaintext"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said, _ = second.communicate(timeout=5)
        except subprocess.TimeoutExpired:  # It got the directory, because the first sidecar had just been killed.
            second.terminate()
            said, _ = second.communicate(timeout=60)
        if "another sidecar serves" not in said and "strobe-sidecar serves" not in said:
            self.broken.append(f"a second sidecar ended with {second.returncode}: {said[-500:]}")

    def program_killed(self):
        self.random.choice(self.workers).program.signal(9)

    def program_frozen(self):
        self.freeze(self.random.choice(self.workers).program, (0.1, 2))

    def rings_forged(self):
        """Overwrites positions in ring files while the programs and the sidecar use them."""
        worker, until = self.random.choice(self.workers), time.monotonic() + self.random.uniform(0.05, 0.4)
        numbers = [0, 8, 2**62, 2**63, 2**64 - 8, self.random.getrandbits(64)]
        while time.monotonic() < until and not self.calm.is_set():
            for path in worker.rings()[:4]:
                try:
                    with open(path, "r+b", buffering=0) as file:
                        # The fields `claimed`, `head` and `made` of the first ring.
                        os.pwrite(file.fileno(), struct.pack("Q", self.random.choice(numbers)), 4096 + 8 * self.random.randrange(3))
                except OSError:
                    pass  # The program has ended, and the sidecar has removed the file.

    def volume_full(self):
        worker = self.random.choice(self.workers)
        if not worker.mounted:
            return
        filler = worker.agent_dir / f"filler-{threading.get_ident()}"
        try:
            with open(filler, "wb") as file:
                while True:
                    file.write(bytes(1 << 16))
                    file.flush()
        except OSError:
            pass
        self._for((0.3, 3))
        filler.unlink()

    def network(self):
        proxy = self.random.choice(self.workers).proxy
        mode = self.random.choice(["cut", "drop", "refuse", "slow"])
        if mode == "cut":
            return proxy.cut()
        proxy.mode, proxy.delay = mode, self.random.uniform(0.02, 0.3)
        self._for((0.2, 4))
        proxy.mode = "pass"

    def clock_steps(self):
        clock = self.random.choice(self.workers).clock
        clock.step(self.random.choice([0.05, -0.05, 1, -1, 30, -30, 3600, -3600]))
        self._for((0.5, 4))
        clock.step(0)

    KINDS = ([api_fault] * 4 + [operator_killed, operator_frozen, sidecar_killed, trainer_killed, sidecar_frozen, sidecar_frozen] +
             [network] * 3 + [clock_steps, second_sidecar, program_killed, program_frozen, rings_forged, volume_full])

    def rage(self, restart_every=40):
        """Starts two threads that cause faults until `calm` is set, and one that restarts ended processes as Kubernetes
        would. The threads stay until the end, because the kernel kills a child (--pdeathsig) when the thread that
        started it ends."""

        def hand():
            while not self.calm.is_set():
                fault = self.random.choice(self.KINDS)
                if self.random.randrange(restart_every) == 0:
                    fault = Storm.api_restart
                self.faults[fault.__name__] = self.faults.get(fault.__name__, 0) + 1
                try:
                    fault(self)
                except Exception as error:  # noqa: BLE001  Otherwise the thread would end, and the test would pass without faults.
                    self.broken.append(f"{fault.__name__}: {error!r}")
                self._for((0.05, 0.6))
            self.idle.release()
            self.over.wait()

        def healer():
            while not self.stopped.is_set():
                self.heal()
                self.stopped.wait(0.3)
            self.idle.release()
            self.over.wait()

        for target in (hand, hand, healer):
            threading.Thread(target=target, daemon=True).start()

    def heal(self):
        for worker in self.workers:
            for start, process in ((worker.restart_trainer, worker.trainer), (worker.start_sidecar, worker.sidecar),
                                   (worker.start_program, worker.program)):
                if not process.running():
                    self.note_end(process)
                    start()
        for operator in self.operators:
            if not operator.process.running():
                self.note_end(operator.process)
                operator.start()

    def note_end(self, process):
        # An operator that has lost its lease exits with 1, and so does a sidecar whose directory has another owner. After SIGTERM both exit with 0.
        told = process.name.startswith("operator") or "another sidecar serves" in process.output()[-1500:]
        if process.popen.returncode not in (-9, -15, 0) + ((1,) if told else ()):
            self.broken.append(f"{process.name} ended with {process.popen.returncode}: {process.output()[-1500:]}")

    # Captures.

    def ask(self, number):
        count = self.random.randint(1, len(self.workers))
        names = self.random.sample([worker.name for worker in self.workers], count)
        name = f"r{number}"
        spec = {"duration": self.random.choice(DURATIONS), "attempts": self.random.randint(1, 3), "collectTimeout": "15s",
                "minWorkers": self.random.randint(1, count), "onLateStart": self.random.choice(["Keep", "Discard"]),
                "start": {"readyTimeout": self.random.choice(["0s", "3s", "10s"])}}
        return profile_request(name, self.logdir, target={"pods": names}, run=name, **spec)

    def run(self, captures, at_once=6, log=print):
        self.rage()
        began = time.monotonic()
        for number in range(captures):
            wait_until(lambda: self.unfinished() < at_once, 300, "room for another capture")
            request = self.ask(number)
            self.apply(request)
            self.requests.append(request["metadata"]["name"])
            whim = self.random.random()
            if whim < 0.05:
                self.later(lambda name=self.requests[-1]: self.patch(name))
            elif whim < 0.1:
                self.deleted.add(self.requests[-1])
                self.later(lambda name=self.requests[-1]: self.kubectl.run("delete", "profilerequest", name, "--wait=false", check=False))
            if number % 25 == 24:
                log(f"  {number + 1} captures, {time.monotonic() - began:.0f} s, faults {self.faults}", flush=True)
        self.calm.set()
        assert self.idle.acquire(timeout=90) and self.idle.acquire(timeout=90), "a fault does not end"
        self.api.faults.clear()
        for worker in self.workers:
            worker.proxy.mode = "pass"
            worker.sidecar.signal(18)
            worker.program.signal(18)
            worker.clock.step(0)
        for operator in self.operators:
            operator.process.signal(18)
        wait_until(lambda: self.unfinished() == 0, 180, "the last captures' end")
        time.sleep(1)
        self.stopped.set()
        assert self.idle.acquire(timeout=90)

    def later(self, act):
        timer = threading.Timer(self.random.uniform(0, 2), act)
        timer.daemon = True
        timer.start()

    def patch(self, name):
        self.kubectl.run("patch", "profilerequest", name, "--type=merge", "-p", '{"spec":{"cancel":true}}', check=False)

    def apply(self, request):
        # Tries again while the API server is unavailable.
        wait_until(lambda: self.kubectl.run("apply", "-f", "-", stdin=json.dumps(request), check=False).returncode == 0, 60, "the API server")

    def items(self):
        answer = self.kubectl.run("get", "profilerequests", "-o", "json", check=False)
        return json.loads(answer.stdout)["items"] if answer.returncode == 0 else None

    def unfinished(self):
        items = self.items()
        if items is None:
            return 1 << 30
        return sum(condition(item, "Succeeded")["status"] not in ("True", "False") for item in items)

    # Checks.

    def verdict(self):
        """Returns a message for each failed check, and the number of captures by how they ended."""
        wrong = list(self.broken)
        items = {item["metadata"]["name"]: item for item in self.items()}
        ends = {}
        for name in self.requests:
            item = items.get(name)
            if item is None:
                if name not in self.deleted:
                    wrong.append(f"{name} is gone")
                continue
            end = condition(item, "Succeeded")
            ends[end["reason"]] = ends.get(end["reason"], 0) + 1
            if end["status"] not in ("True", "False"):
                wrong.append(f"{name} has not ended: {end}")
            if len(json.dumps(item["status"])) > 10_000:
                wrong.append(f"{name}: status of {len(json.dumps(item['status']))} bytes")
            if end["status"] == "True":
                wrong += self.check_run(name, item["status"])
        for worker in self.workers:
            wrong += self.check_worker(worker)
        return wrong, ends

    def check_run(self, name, status):
        """Checks that the run contains every trace that a worker reported as recorded, unchanged."""
        run = self.logdir / "plugins/profile" / status["run"].rsplit("/", 1)[1]
        manifest = run / "strobe.json"
        if not manifest.exists():
            return [] if "manifest" in condition({"status": status}, "Succeeded").get("message", "") else [f"{name} has no manifest"]
        told = json.loads(manifest.read_text())
        wrong = []
        ok = [w for w in told["workers"] if w["outcome"] == "Ok"]
        for worker in told["workers"]:
            file = run / f"{worker['name']}.xplane.pb"
            if worker["outcome"] == "Ok" and not file.exists():
                wrong.append(f"{name}: {worker['name']} is Ok and its trace is not there")
            elif file.exists() and worker["sha256"] and hashlib.sha256(file.read_bytes()).hexdigest() != worker["sha256"]:
                wrong.append(f"{name}: {worker['name']}'s trace is not what was recorded")
        message = condition({"status": status}, "Succeeded").get("message", "")
        # An operator may have been killed between writing the manifest and the status. The next operator must say so in the message.
        if len(ok) > status["workers"]["ok"] and "an earlier operator wrote it" not in message:
            wrong.append(f"{name}: the manifest has {len(ok)} workers Ok, the status {status['workers']['ok']}: {message}")
        if not wrong:
            lies, looked_for = held_against_notes(run, self.workers)
            self.steps += looked_for
            wrong += [f"{name}: {lie}" for lie in lies]
        return wrong

    def check_worker(self, worker):
        wrong = []
        # Each sidecar process must arm a capture at most once. A restarted one does not know it and may be asked again.
        for life in worker.sidecar.output().split("strobe-sidecar serves")[1:]:
            armed = re.findall(r" armed .*?capture=(\S+)", life)
            wrong += [f"{worker.name} recorded {capture} twice" for capture in set(armed) if armed.count(capture) > 1]
        answer = self.describe(worker)
        if answer.holder:
            wrong.append(f"{worker.name} is still held by {answer.holder}")
        return wrong

    def describe(self, worker):
        import grpc
        from strobe.v1 import worker_pb2 as pb
        from strobe.v1 import worker_pb2_grpc

        with grpc.insecure_channel(worker.address) as channel:
            return worker_pb2_grpc.WorkerStub(channel).Describe(pb.DescribeRequest(), timeout=10)

    def stop(self):
        for event in (self.calm, self.stopped, self.over):
            event.set()
        for worker in self.workers:
            worker.proxy.stop()
            worker.unmount()
        self.api.stop()
