"""A real PyTorch job under torchrun, unchanged, as one pod with one sidecar."""

import json
import subprocess

from tests.support.inproc import TORCH_PYTHON, Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, wait_until


class TorchrunJob(Trainer):
    def __init__(self, group, directory, package, ranks, pause=0.02, env=None, flags=()):
        port = free_port()
        self.root, self.ranks, self.address = directory, ranks, f"127.0.0.1:{port}"
        self.sidecar = group.start(f"sidecar-{port}", [
            BIN / "strobe-sidecar", "--listen", self.address, "--framework", f"127.0.0.1:{free_port()}", "--agent-dir", directory / "strobe/agent",
            "--spool-dir", directory / "spool", "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
        command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "0", "--standalone", *flags,
                   ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", str(pause)]
        super().__init__(group, directory, package, command=command, env=env)
        wait_until(lambda: len(self.rank_announcements()) == ranks, 90, "all ranks to be announced")

    def rank_announcements(self):
        return [announcement for announcement in self.announcements() if not announcement["is_launcher"]]

    def capture(self, *flags, run="r", duration="1s"):
        """Captures and returns the manifest and the finished process."""
        done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", self.address, "--logdir", self.root / "logdir",
                               "--run", run, "--duration", duration, "--output", "json", "--attempts", "1", *flags],
                              capture_output=True, text=True, timeout=180)
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done

    def folder(self, run="r"):
        return self.root / "logdir/plugins/profile" / run

    def trace(self, worker, run="r"):
        return self.folder(run) / f"{worker['name']}.xplane.pb"
