"""Workers as in a pod: a real JAX trainer, a sidecar beside it, and the Pod object."""

import threading
import time

from .ports import free_port
from .processes import BIN, PYTHON, ROOT


class Worker:
    """One trainer with its sidecar. Both listen on loopback."""

    def __init__(self, group, name, index=0, pause_ms=20, trainer_env=None, sidecar_env=None, sidecar_flags=(), wrap=list):
        self.group = group
        self.name = name
        self.index = index
        self.pause_ms = pause_ms
        self.trainer_env = trainer_env or {}
        self.sidecar_env = sidecar_env or {}
        self.sidecar_flags = list(sidecar_flags)
        self.wrap = wrap  # A function that changes the sidecar's command.
        self.notes = None  # Where the trainer notes its steps; see tests/support/oracle.py.
        self.lives = 0
        self.profiler_port = free_port()
        self.port = free_port()
        self.trainer = self.sidecar = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start_trainer(self):
        self.lives += 1
        notes = ["--notes", self.notes, "--name", f"train-{self.lives}"] if self.notes else []
        self.trainer = self.group.start(
            f"{self.name}-trainer",
            [PYTHON, ROOT / "tests/e2e/train_loop.py", "--port", self.profiler_port, "--pause-ms", self.pause_ms, *notes],
            env=self.trainer_env,
        )
        return self

    def start_joined_trainer(self, coordinator, processes, input_ms):
        """A trainer that averages each step with the other processes; it notes how long it slept for its input."""
        self.trainer = self.group.start(
            f"{self.name}-trainer",
            [PYTHON, ROOT / "tests/e2e/joined_loop.py", "--port", self.profiler_port, "--coordinator", coordinator, "--rank", self.index,
             "--processes", processes, "--input-ms", input_ms, "--notes", self.notes],
            env=self.trainer_env,
        )
        return self

    def start_sidecar(self):
        self.sidecar = self.group.start(
            f"{self.name}-sidecar",
            self.wrap([str(BIN / "strobe-sidecar"), "--listen", self.address, "--framework", f"localhost:{self.profiler_port}",
                       "--worker-name", self.name, "--insecure-plaintext", *map(str, self.sidecar_flags)]),
            env=self.sidecar_env,
        )
        return self

    def wait(self, timeout=90):
        if self.trainer:
            self.trainer.wait_for("ready", timeout)
        if self.sidecar:
            self.sidecar.wait_for("serves", 10)
        return self

    def pod(self, labels=None):
        """The Pod object as it would be after injection, without a node."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": {"app": "train", "strobe.dev/inject": "true",
                           "batch.kubernetes.io/job-completion-index": str(self.index), **(labels or {})},
            },
            "spec": {
                "containers": [{"name": "trainer", "image": "trainer"}],
                "initContainers": [{
                    "name": "strobe-sidecar", "image": "strobe-sidecar", "restartPolicy": "Always",
                    "ports": [{"name": "strobe", "containerPort": self.port}],
                }],
            },
        }

    def register(self, kubectl, labels=None):
        kubectl.apply(self.pod(labels))
        mark_running(kubectl, self.name)
        return self

    def stop(self):
        for process in (self.sidecar, self.trainer):
            if process:
                process.kill()


class SharedTrainers:
    """JAX trainers that stay up; tests put sidecars of their own beside them. Each starts when it is first used: importing JAX and training cost
    processor time that other suites need."""

    def __init__(self, group):
        self.group, self.started = group, []

    def first(self, count):
        new = [Worker(self.group, f"shared-{i}", i).start_trainer() for i in range(len(self.started), count)]
        self.started += [worker.wait() for worker in new]
        return self.started[:count]

    def __getitem__(self, index):
        return self.first(index + 1)[index]


def mark_running(kubectl, pod, address="127.0.0.1"):
    """Gives a pod the status that a kubelet would, with this address."""
    kubectl.set_status("pod", pod, {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]})


def hold_session(port, milliseconds):
    """Occupies a trainer's profiler server with a session of another client. Returns a thread that ends with the session. Needs the fixture
    `protos`."""
    import grpc
    from tensorflow import profiler_service_pb2 as pb

    profile = grpc.insecure_channel(f"localhost:{port}").unary_unary(
        "/tensorflow.ProfilerService/Profile", request_serializer=pb.ProfileRequest.SerializeToString, response_deserializer=pb.ProfileResponse.FromString)
    request = pb.ProfileRequest(session_id="somebody", emit_xspace=True)
    request.opts.version, request.opts.duration_ms, request.opts.host_tracer_level = 1, milliseconds, 1
    thread = threading.Thread(target=lambda: profile(request, timeout=30))
    thread.start()
    time.sleep(0.5)
    return thread


def start_workers(group, count, prefix="worker", **options):
    """Starts all trainers before it waits, because importing JAX takes seconds."""
    workers = [Worker(group, f"{prefix}-{i}", i, **options).start_trainer() for i in range(count)]
    for worker in workers:
        worker.start_sidecar()
    return [worker.wait() for worker in workers]
