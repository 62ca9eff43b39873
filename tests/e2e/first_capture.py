"""The first part of make demo: captures two JAX trainers by the command alone, as docs/tutorials/first-capture.md does."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.demo import say  # noqa: E402
from tests.support.processes import BIN, BUILD, ROOT, Group  # noqa: E402
from tests.support.workers import Worker  # noqa: E402

LOGDIR = BUILD / "demo-logs" / "without-cluster"


def relative(path):
    """As the user, who called make in this folder, can type it."""
    return os.path.relpath(path, ROOT)


def main():
    directory = Path(tempfile.mkdtemp(prefix="strobe-first-capture-"))
    shutil.rmtree(LOGDIR, ignore_errors=True)
    try:
        with Group(directory) as group:
            say("starting two JAX trainers, each with JAX's own profiler server")
            trainers = [Worker(group, f"train-{i}").start_trainer() for i in range(2)]
            for trainer in trainers:
                trainer.wait()
            workers = ",".join(f"grpc://localhost:{trainer.profiler_port}" for trainer in trainers)
            command = [relative(BIN / "strobe"), "capture", "--insecure-plaintext", "--workers", workers, "--logdir", relative(LOGDIR), "--duration", "1s"]
            print(f"$ {' '.join(command)}", flush=True)
            failed = subprocess.run(command, cwd=ROOT).returncode
        if not failed:
            say(f"look at it: {command[0]} inspect {relative(LOGDIR)}")
            say(f"        or: {command[0]} view {relative(LOGDIR)}")
        return failed
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
