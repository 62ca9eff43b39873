"""What Strobe's part of an unmodified PyTorch or JAX program costs, and how exactly it starts: python -m tests.bench.inproc [import] [start] [skew]

Prints medians. `import`: the import of PyTorch and the first use of JAX's backend, in turns with and without. `start`: lateness of 20 captures
of a busy PyTorch program. `skew`: 20 captures of two ranks under torchrun.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.inproc import MS, TORCH_PYTHON, Trainer
from tests.support.processes import BUILD, PYTHON, ROOT, Group, wait_until

_TIMED = {
    "import torch": (TORCH_PYTHON, "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"),
    "jax.devices()": (PYTHON, "import jax, time; t = time.perf_counter(); jax.devices(); print(time.perf_counter() - t)"),
}


def package(directory):
    target = directory / "site"
    subprocess.run([ROOT / "tools/wheel"], check=True)
    (wheel,) = (BUILD / "wheels").glob("*.whl")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target", target, wheel], check=True)
    return target


def measure_import(site, directory, rounds=20):
    for name, (python, code) in _TIMED.items():
        times = {"": [], str(site): []}
        for _ in range(rounds + 1):
            for path, taken in times.items():
                env = {**os.environ, "PYTHONPATH": path, "STROBE_DIR": str(directory), "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
                said = subprocess.run([python, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
                taken.append(float(said) * 1000)
        without, with_us = (statistics.median(taken[1:]) for taken in times.values())
        print(f"{name}: {without:.1f} ms without, {with_us:.1f} ms with, {with_us - without:+.1f} ms")


def started(clients, start):
    for client in clients:
        client.ask(op="capture", start_ns=start, duration_ns=100 * MS)
    done = [client.until("done") for client in clients]
    for client in clients:
        client.close()
    return [(answer["started_ns"] - start) / 1e6 for answer in done]


def measure_start(site, directory, captures=20):
    with Group(directory / "logs") as group:
        trainer = Trainer(group, directory, site, command=[TORCH_PYTHON, ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", "0"])
        trainer.announced()
        late = sorted(started([trainer.client()], time.time_ns() + 300 * MS)[0] for _ in range(captures))
        print(f"start of {captures} captures of a busy PyTorch program: p50 {statistics.median(late):.2f} ms late, max {late[-1]:.2f} ms")


def measure_skew(site, directory, captures=20):
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders", "0"]
    with Group(directory / "logs") as group:
        trainer = Trainer(group, directory, site, command=command)
        wait_until(lambda: len(trainer.announcements()) == 3, 60, "three announcements")
        ranks = [a for a in trainer.announcements() if not a["is_launcher"]]
        late = [started([trainer.client(a) for a in ranks], time.time_ns() + 300 * MS) for _ in range(captures)]
        skew = sorted(abs(first - second) for first, second in late)
        worst = max(max(pair) for pair in late)
        print(f"skew of two ranks, {captures} captures: p50 {statistics.median(skew):.2f} ms, max {skew[-1]:.2f} ms; latest start {worst:.2f} ms")


def main():
    chosen = sys.argv[1:] or ["import", "start", "skew"]
    with tempfile.TemporaryDirectory() as root:
        site = package(Path(root))
        for name in chosen:
            directory = Path(root) / name
            directory.mkdir()
            {"import": measure_import, "start": measure_start, "skew": measure_skew}[name](site, directory)


if __name__ == "__main__":
    main()
