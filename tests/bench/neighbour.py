"""Measures what one user of `strobe serve` who asks for much costs another one, who looks at tiles 50 times a second."""

import contextlib
import gzip
import http.client
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.bench import bars
from tests.bench.serve import serve_team
from tests.bench.viewer import ROWS, WIDTH
from tests.support.processes import BIN, Group, high_water

WORKERS, EVENTS = 16, 1_000_000
REQUESTS = 64  # At once, of the user who asks for much.
RATE, SECONDS = 50, 15
RUN = "team/2026_11_20_10_00_00"


def get(port, user, path, connection=None, timeout=60):
    """The status and the body of an answer. Without a connection, one is made for it."""
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    own.request("GET", path, headers={"X-Forwarded-User": user, "X-Forwarded-Groups": "team", "Accept-Encoding": "gzip"})
    answer = own.getresponse()
    body = answer.read()
    if connection is None:
        own.close()
    return answer.status, gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body


def questions(end):
    """What the greedy user asks, by its name."""
    level = max(0, int(end / 4096 - 1).bit_length())
    everything = f"run={RUN}&rows=0-1023"
    asked = {
        "tiles of 1,024 rows": f"/api/tiles?{everything}&begin=0&level={level}&slots={min(4096, end // (1 << level) + 1)}",
        "events of 1,024 rows": f"/api/events?{everything}&limit=10000",
        "arrows of 1,024 rows": f"/api/arrows?{everything}&begin=0&end={end}&level=20&limit=10000",
        "XProf's data": f"/data/plugin/profile/data?run={RUN}&tag=trace_viewer@&host=worker-0&resolution=0",
        "Perfetto's trace": f"/api/perfetto?run={RUN}",
        "tiles of a page": f"/api/tiles?run={RUN}&rows=0-255&begin=0&level={level + 3}&slots=512",
    }
    return {name: [path] for name, path in asked.items()} | {"all of these": list(asked.values())}


def greedy(port, paths, stop):
    """Keeps so many requests open, in a process of its own that gives way: what the client takes is not measured."""
    os.nice(15)

    def ask(number):
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                if get(port, "mallory", paths[number % len(paths)])[0] == 503:
                    time.sleep(0.1)

    for number in range(REQUESTS):
        threading.Thread(target=ask, args=(number,), daemon=True).start()
    stop.wait()


def look(port, end):
    """Times in ms of tiles that are asked for at a fixed rate, each from when it was due; and how many were refused."""
    span = end * 0.01
    level = max(0, int(2 * span / WIDTH - 1).bit_length())
    local, times, refused = threading.local(), [], []
    began = time.perf_counter() + 0.1

    def ask(number):
        due = began + number / RATE
        time.sleep(max(0, due - time.perf_counter()))
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        at = random.random() * end * 0.9
        status, _ = get(port, "bob", f"/api/tiles?run={RUN}&rows=0-{ROWS - 1}&begin={int(at) >> level << level}&level={level}"
                        f"&slots={int(span) // (1 << level) + 1}", local.connection)
        times.append((time.perf_counter() - due) * 1e3)
        if status != 200:
            refused.append(status)

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(ask, range(RATE * SECONDS)))
    return sorted(times), len(refused)


def make(logdir):
    folder = logdir / "plugins/profile" / RUN.split("/")[1]
    folder.mkdir(parents=True)
    subprocess.run([BIN / "make_xspace", str(EVENTS), folder / "worker-0.xplane.pb"], check=True)
    for worker in range(1, WORKERS):
        shutil.copy(folder / "worker-0.xplane.pb", folder / f"worker-{worker}.xplane.pb")


def run(directory):
    make(directory / "served")
    rows, worst, peak = [], 0, 0
    with Group(directory / "neighbour-logs") as group:
        serve = serve_team(group, "neighbour", directory, directory / "served")
        while (description := json.loads(get(serve.port, "bob", f"/api/run?run={RUN}")[1])).get("loading"):
            time.sleep(0.2)
        asked = {"nothing": []} | questions(description["endPs"])
        for name, paths in asked.items():
            stop = multiprocessing.get_context("fork").Event()
            process = multiprocessing.get_context("fork").Process(target=greedy, args=(serve.port, paths, stop), daemon=True)
            if paths:
                process.start()
                time.sleep(1)
            times, refused = look(serve.port, description["endPs"])
            stop.set()
            if paths:
                process.join(5)
                process.kill()
            peak = high_water(serve.process.pid)
            most = times[int(len(times) * 0.95)]
            worst = max(worst, most if paths else 0)
            rows.append(f"| {name} | {times[len(times) // 2]:.0f} | {most:.0f} | {times[-1]:.0f} | {refused} | {peak:.0f} |")
            assert serve.process.running(), serve.process.output()[-500:]
    bars.at_most("tiles beside a greedy user, ms, p95", worst, 300)
    bars.at_most("the service's memory beside one, MiB", peak, 1024)
    return "\n".join(["## A user beside one who asks for much", "",
                      f"A run of {WORKERS} workers with {EVENTS * WORKERS:,} events. One user keeps {REQUESTS} requests open; another one asks for {RATE} windows of "
                      "tiles a second. Bars: p95 300 ms, 1 GiB.", "",
                      "| the first asks for | the other's p50, ms | p95, ms | worst, ms | refused | peak memory until then, MiB |", "|---|---|---|---|---|---|", *rows, ""])
