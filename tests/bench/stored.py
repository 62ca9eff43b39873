"""Measures opening a run of 2 GiB in object storage: memory, time and what is read, in comparison with the same run as local files."""

import json
import re
import subprocess
import threading
import time
import urllib.request

from tests.bench import bars
from tests.support.processes import BIN, Group, memory, status_of
from tests.support.stores import Versity, strobe_env

# Workers, and events of each; a worker's trace has 27 bytes per event.
SHAPES = ((32, 2_500_000), (1, 20_000_000))
RUN = "plugins/profile/run"


class Opened:
    """A viewer from its start until its run is loaded."""

    def __init__(self, place, cache, env):
        began = time.monotonic()
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", BIN / "strobe", "view", place, "--cache", cache, "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, text=True, env=env)
        self.own, self.ended = 0, threading.Event()
        watcher = threading.Thread(target=self.watch)
        watcher.start()
        url = re.search(r"http://[^/\s]+", self.process.stdout.readline()).group()
        while (run := json.load(urllib.request.urlopen(f"{url}/api/run"))).get("loading"):
            time.sleep(0.02)
        self.seconds, self.events = time.monotonic() - began, run["events"]
        self.peak = memory(self.process.pid, "VmHWM")
        self.ended.set()
        watcher.join()
        self.process.terminate()
        self.process.wait()

    def watch(self):
        """The peak of the memory that is no mapped file, which the kernel could drop at any time."""
        while not self.ended.wait(0.005):
            status = status_of(self.process.pid)
            self.own = max(self.own, int(status.get("RssAnon", "0").split()[0]) / 1024)


def run(directory):
    lines = ["### A run of 2 GiB in object storage", "",
             "From the start of `strobe view` until the run is shown; versitygw, plain HTTP on loopback, on the same two cores. Own memory is "
             "RssAnon; the rest of the RSS is files that are mapped, which the kernel can drop. Bar: 256 MiB above the index.", "",
             "| | seconds | peak RSS, MiB | own memory, MiB | above the index that is being made, MiB |", "|---|---|---|---|---|"]
    with Group(directory / "logs") as group:
        server = Versity(group, directory, tls=False).start()
        for workers, events in SHAPES:
            place = directory / f"files-{workers}" / RUN
            place.mkdir(parents=True)
            for i in range(workers):  # No two are equal, so that each has an index of its own.
                file = place / f"w{i:03}.xplane.pb"
                subprocess.run([BIN / "make_xspace", str(events + 640 * i), file], check=True)
                server.client.upload_file(str(file), server.bucket, f"logs-{workers}/{RUN}/{file.name}")
            size = sum(f.stat().st_size for f in place.iterdir()) / (1 << 20)
            url, cache, local = f"s3://{server.bucket}/logs-{workers}", directory / f"cache-{workers}", directory / f"local-{workers}"
            name = f"{workers} x {size / workers:.0f} MiB"
            made = Opened(url, cache, strobe_env(server))
            indexes = [f.stat().st_size / (1 << 20) for f in cache.iterdir()]
            again = Opened(url, cache, strobe_env(server))
            files = Opened(place, local, strobe_env(server))
            assert made.events == again.events == files.events
            for what, opened, index in ((f"{name}, first time", made, max(indexes)), (f"{name}, indexes ({sum(indexes):.0f} MiB) in the cache", again, 0),
                                        (f"{name}, local files, first time", files, max(indexes))):
                bars.at_most(f"{what}: own memory above the index, MiB", opened.own - index, 256)
                lines.append(f"| {what} | {opened.seconds:.1f} | {opened.peak:.0f} | {opened.own:.0f} | {opened.own - index:.0f} |")
    return "\n".join(lines) + "\n"
