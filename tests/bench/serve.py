"""Measures `strobe serve` under the load of a team: the time of tiles while users scroll, each in a run of a million events."""

import gzip
import http.client
import json
import random
import subprocess
import threading
import time

from tests.bench import bars
from tests.bench.viewer import ROWS, WIDTH
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.processes import BIN, Group, cpu_seconds, memory
from tests.support.rights import await_right
from tests.support.serving import Serve, serve_config

USERS, RUNS, SECONDS, PAUSE = 50, 4, 20, 0.25  # A user moves the view four times a second.


class User(threading.Thread):
    def __init__(self, serve, number, run, end):
        super().__init__()
        self.connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=60)
        self.headers = {"X-Forwarded-User": f"user-{number}", "X-Forwarded-Groups": "team,everybody", "Accept-Encoding": "gzip"}
        self.run_name, self.end, self.times = run, end, []
        self.random = random.Random(number)

    def get(self, path):
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body[:200])
        return gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body

    def run(self):
        time.sleep(self.random.random() * PAUSE)
        span = self.end * 0.01
        level = max(0, int(2 * span / WIDTH - 1).bit_length())
        at = self.random.random() * self.end * 0.9
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            at = (at + span / 10) % (self.end * 0.9)
            began = time.perf_counter()
            self.get(f"/api/tiles?run={self.run_name}&rows=0-{ROWS - 1}&begin={int(at) >> level << level}&level={level}&slots={int(span) // (1 << level) + 1}")
            self.times.append(time.perf_counter() - began)
            time.sleep(PAUSE)


def load(serve, users):
    """The 50th and 95th percentile of the times in ms, the requests each second, and the processor time of each in ms."""
    before = cpu_seconds(serve.process.pid)
    for user in users:
        user.start()
    for user in users:
        user.join()
    times = sorted(t for user in users for t in user.times)
    cpu = cpu_seconds(serve.process.pid) - before
    return times[len(times) // 2] * 1e3, times[int(len(times) * 0.95)] * 1e3, len(times) / SECONDS, cpu / len(times) * 1e3


def serve_team(group, name, directory, logdir):
    """`strobe serve` for the runs of a logdir, which a group of users may see."""
    plane = ControlPlane(group, directory / f"{name}-cluster").start()
    admin = Kubectl(plane.kubeconfig, "team")
    admin.install_crds()
    admin.create_namespace("team")
    admin.run("create", "role", "runs", "--verb=get", "--resource=profilerequests.strobe.dev")
    admin.run("create", "rolebinding", "runs", "--role=runs", "--group=team")
    await_right(admin, "get", "profilerequests.strobe.dev", groups=["team"])
    config = serve_config([{"url": str(logdir), "namespace": "team"}], accessCache="30s", cache={"directory": str(directory / f"{name}-cache")})
    return Serve(group, "serve", directory, config, plane.kubeconfig)


def run(directory):
    logdir = directory / "served"
    for i in range(RUNS):
        folder = logdir / f"plugins/profile/2026_11_2{i}_10_00_00"
        folder.mkdir(parents=True)
        subprocess.run([BIN / "make_xspace", "1000000", folder / "worker-0.xplane.pb"], check=True)
    names = [f"team/{folder.name}" for folder in (logdir / "plugins/profile").iterdir()]
    with Group(directory / "serve-logs") as group:
        serve = serve_team(group, "serve", directory, logdir)
        rows = []
        ends = {}
        first = User(serve, 0, "", 0)
        for name in names:
            while (description := json.loads(first.get(f"/api/run?run={name}"))).get("loading"):
                pass
            ends[name] = description["endPs"]
        for count in (1, USERS):
            users = [User(serve, i, names[i % RUNS], ends[names[i % RUNS]]) for i in range(count)]
            half, most, rate, cpu = load(serve, users)
            rows.append(f"| {count} | {rate:.0f} | {half:.1f} | {most:.1f} | {cpu:.1f} |")
        bars.at_most(f"a window with {USERS} users, ms, p95", most, 100)
        resident = memory(serve.process.pid, "VmHWM")
    return "\n".join(["## Tiles for a team", "", f"| users | tiles each second | 50th percentile, ms | 95th percentile, ms (bar 100 with {USERS}) | processor time each, ms |", "|---|---|---|---|---|", *rows,
            f"\nThe service's peak resident memory: {resident:.0f} MiB, with {RUNS} runs of a million events open.\n"])
