"""Runs all benchmarks of `make bench`, each together with its peer:

    python -m tests.bench.run [skew] [crowd] [stock] [shifted] [latency] [idle] [upload] [listing] [annotations] [collectives] [digest] [kernels] [engine] [fleet] [gil] [hangs] [index] [inproc] [kills] [kineto] [neighbour] [pauses] [ranks] [serve] [serving] [steps] [stored] [collected] [stragglers] [tables] [trainer] [viewer] [catalog] [webhook] [alerts] [signs] [standstill] [view] [scale] [large]

Prints one table per benchmark and writes them to build/bench/results.md with a description of the
machine. Tables show ratios and medians, because the machines are shared and noisy.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import alerts, annotation_cost, bars, catalog, cluster_view, collected, collective_cost, device_cost, digest, engine, fleet, gil, hangs, idle, index, inproc, kills, kineto, latency, neighbour, pauses, ranks, scale, serve, serving, signs, skew, standstill, steps, storage, stored, stragglers, tables, trainer, viewer, webhook
from tests.support.processes import BUILD

BENCHMARKS = {
    "skew": skew.against_the_floor,
    "crowd": skew.of_a_crowd,
    "stock": skew.against_stock_client,
    "shifted": skew.with_a_shifted_clock,
    "latency": latency.run,
    "idle": idle.run,
    "upload": storage.throughput,
    "listing": storage.listing,
    "annotations": annotation_cost.run,
    "collectives": collective_cost.run,
    "kernels": device_cost.run,
    "engine": engine.run,
    "fleet": fleet.run,
    "gil": gil.run,
    "hangs": hangs.run,
    "index": index.run,
    "inproc": inproc.run,
    "kills": kills.run,
    "kineto": kineto.run,
    "neighbour": neighbour.run,
    "pauses": pauses.run,
    "digest": digest.run,
    "ranks": ranks.run,
    "serve": serve.run,
    "serving": serving.run,
    "steps": steps.run,
    "stored": stored.run,
    "collected": collected.run,
    "stragglers": stragglers.run,
    "tables": tables.run,
    "trainer": trainer.run,
    "viewer": viewer.run,
    "catalog": catalog.run,
    "webhook": webhook.run,
    "alerts": alerts.run,
    "signs": signs.run,
    "standstill": standstill.run,
    "view": cluster_view.run,
    "scale": scale.run,
    "large": scale.of_large_objects,
}


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    cores = subprocess.run(["nproc"], capture_output=True, text=True).stdout.strip()
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) // 1_000_000
    return f"{cores} cores ({cpu}), {memory} GB, Linux {platform.release()}, {time.strftime('%Y-%m-%d', time.gmtime())}"


def scratch():
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 8 << 30 else None


def main():
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    out = BUILD / "bench" / "results.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"Machine: {machine()}\n"]
    print(parts[0])
    told = []
    for name in chosen:
        # Uses memory if there is enough, because the speed of a shared disk depends on its other users.
        with tempfile.TemporaryDirectory(prefix=f"strobe-bench-{name}-", dir=scratch()) as directory:
            table = BENCHMARKS[name](Path(directory))
        parts.append(table)
        print(table, flush=True)
        told += [(name, bar) for bar in bars.take()]
    if told:
        parts.append("\n".join(["### Bars\n", "| benchmark | | measured | bar | |", "|---|---|---|---|---|", *(bar.row(name) for name, bar in told), ""]))
        print(parts[-1])
    out.write_text("\n".join(parts))
    print(f"written to {out}")
    sys.exit(any(bar.far_missed for _, bar in told))


if __name__ == "__main__":
    main()
