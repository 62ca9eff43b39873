"""Measures the list of runs with 100,000 runs, and the way from the list to a picture, with XProf's server as the peer."""

import http.client
import json
import random
import re
import subprocess
import time
import urllib.parse

from tests.bench import bars
from tests.support.processes import BIN, Group, memory
from tests.support.xprof import XProf

RUNS = 100_000
NEWEST = "2026_12_31_23_59_59_newest"


def make(logdir, runs):
    """Runs as a year of 50 teams leaves them; the newest has a trace."""
    profile = logdir / "plugins/profile"
    causes = ("Ok",) * 12 + ("LateStart", "WorkerLost", "NoSource")
    for i in range(runs):
        outcomes = [random.choice(causes) for _ in range(8)]
        manifest = {"format": 1, "request": f"team-{i % 50}/look-{i}", "job": f"PyTorchJob/train-{i % 997}", "requester": f"user-{i % 3000}@example.com",
                    "result": "Succeeded" if outcomes.count("Ok") > 5 else "Failed", "message": "8 workers", "skewKnown": True, "skewNs": "300000",
                    "skewErrorNs": "20000", "synchronized": True, "instantNs": str(1_790_000_000_000_000_000 + i),
                    "workers": [{"name": f"worker-{n}", "pod": f"train-{i}-{n}", "outcome": outcome, "message": "", "bytes": "12345678", "events": "100000"}
                                for n, outcome in enumerate(outcomes)]}
        run = profile / f"2026_{i % 12 + 1:02}_{i // 12 % 28 + 1:02}_{i // 336 % 24:02}_{i // 8064 % 60:02}_{i % 60:02}_look_{i:06}"
        run.mkdir(parents=True)
        (run / "strobe.json").write_text(json.dumps(manifest, indent=1))
    run = profile / NEWEST
    run.mkdir(parents=True)
    subprocess.run([BIN / "make_xspace", "100000", run / "worker-0.xplane.pb"], check=True)
    (run / "strobe.json").write_text(json.dumps({"request": "team-1/newest", "result": "Succeeded", "workers": [{"name": "worker-0", "outcome": "Ok"}]}))


class Listing:
    """A viewer of the logdir, asked over one connection."""

    def __init__(self, logdir, cache):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", BIN / "strobe", "view", logdir, "--cache", cache, "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, text=True)
        address = re.search(r"http://([^/\s]+)", self.process.stdout.readline()).group(1)
        self.connection = http.client.HTTPConnection(address, timeout=120)

    def ask(self, path, **query):
        self.connection.request("GET", f"{path}?{urllib.parse.urlencode(query)}")
        return json.loads(self.connection.getresponse().read())

    def until(self, ready):
        """Seconds until the list's first page is ready."""
        began = time.perf_counter()
        while not ready(self.ask("/api/catalog", limit=1)):
            time.sleep(0.02)
        return time.perf_counter() - began

    def end(self):
        self.process.terminate()
        self.process.wait()


def complete(answer):
    return all(logdir["listed"] and not logdir["busy"] for logdir in answer["logdirs"])


def queries(view, count):
    """Milliseconds of each of several kinds of queries, among them such that match nothing or only old runs."""
    kinds = {
        "the newest 100": lambda: {},
        "a requester": lambda: {"q": f"user-{random.randrange(3000)}@"},
        "namespace, job and cause": lambda: {"q": f"team-{random.randrange(50)} train-{random.randrange(997)} workerlost"},
        "nothing matches": lambda: {"q": f"nobody-{random.random()}"},
        "a page among the oldest": lambda: {"after": f"{1_770_000_000_000_000_000 + random.randrange(10**15)}/x/y"},
    }
    times = {}
    for name, make_query in kinds.items():
        times[name] = []
        for _ in range(count):
            began = time.perf_counter()
            view.ask("/api/catalog", limit=100, **make_query())
            times[name].append((time.perf_counter() - began) * 1e3)
        times[name].sort()
    return times


def part(sorted_times, share):
    return sorted_times[min(len(sorted_times) - 1, int(len(sorted_times) * share))]


def first_picture(view):
    """Seconds from asking for the list until the newest run's first picture is answered."""
    began = time.perf_counter()
    run = view.ask("/api/catalog", limit=100)["runs"][0]["name"]
    listed = time.perf_counter() - began
    while (described := view.ask("/api/run", run=run)).get("loading"):
        pass
    span = described["endPs"] - described["beginPs"]
    level = max(0, int(span / 1600 - 1).bit_length())
    view.connection.request("GET", f"/api/tiles?run={run}&rows=0-63&begin={described['beginPs'] >> level << level}&level={level}&slots={int(span >> level) + 1}")
    view.connection.getresponse().read()
    return listed, time.perf_counter() - began


def xprofs_first_picture(directory, logdir):
    with Group(directory / "logs") as group:
        xprof = XProf(group, logdir)
        xprof.wait_for_runs()
        began = time.perf_counter()
        runs = json.loads(xprof.get("runs"))
        listed = time.perf_counter() - began
        assert NEWEST in runs
        hosts = json.loads(xprof.get("hosts", run=NEWEST, tag="trace_viewer@"))
        xprof.get("data", run=NEWEST, tag="trace_viewer@", host=hosts[0]["hostname"], resolution="5400")
        return listed, time.perf_counter() - began


def run(directory):
    logdir, cache = directory / "runs", directory / "cache"
    make(logdir, RUNS)
    view = Listing(logdir, cache)
    shown = view.until(lambda answer: answer["runs"])
    first = shown + view.until(complete)
    times = queries(view, 100)
    (logdir / "plugins/profile/2026_12_31_23_59_59_zz").mkdir()
    (logdir / "plugins/profile/2026_12_31_23_59_59_zz/strobe.json").write_text('{"requester": "newcomer"}')
    update = view.until(lambda _: view.ask("/api/catalog", q="newcomer", limit=1)["runs"])
    more = queries(view, 100)
    high = memory(view.process.pid, "VmHWM")
    view.end()
    view = Listing(logdir, cache)
    again_shown = view.until(lambda answer: answer["runs"])
    again = again_shown + view.until(complete)
    (logdir / "plugins/profile/2026_12_31_23_59_59_zz/strobe.json").unlink()
    (logdir / "plugins/profile/2026_12_31_23_59_59_zz").rmdir()
    view.until(lambda answer: answer["runs"][0]["run"] == NEWEST)
    listed, picture = first_picture(view)
    high_again = memory(view.process.pid, "VmHWM")
    view.end()
    try:
        theirs_listed, theirs = (f"{seconds:.2f}" for seconds in xprofs_first_picture(directory, logdir))
    except (OSError, TimeoutError, AssertionError) as error:
        theirs_listed, theirs = "-", f"none: {type(error).__name__}"
    rows = []
    for name in times:
        both = sorted(times[name] + more[name])
        rows.append(f"| {name} | {part(both, 0.5):.1f} | {part(both, 0.95):.1f} | {both[-1]:.1f} |")
    everything = sorted(t for kind in (times, more) for some in kind.values() for t in some)
    rows.append(f"| all | {part(everything, 0.5):.1f} | {part(everything, 0.95):.1f} | {everything[-1]:.1f} |")
    bars.at_most("p95 of all queries, ms", part(everything, 0.95), 300)
    bars.at_most("MiB", high, 256)
    return (f"### A list of {RUNS:,} runs\nOne logdir in memory, a manifest of 8 workers for each run; 200 queries of each kind over HTTP, while the logdir is listed again and again. "
            "Bars: p95 300 ms, 256 MiB.\n\n| query | p50, ms | p95, ms | worst, ms |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
            "| | seconds |\n|---|---|\n"
            f"| the first runs are shown; all manifests are read | {shown:.1f}; {first:.1f} |\n| a new run is found | {update:.1f} |\n"
            f"| the same after a restart: shown; listed | {again_shown:.1f}; {again:.1f} |\n\n"
            f"Peak memory {high:.0f} MiB, after a restart {high_again:.0f} MiB.\n\n"
            "| from the list of runs to the first picture of 100,000 events | list, s | first picture, s |\n|---|---|---|\n"
            f"| strobe view | {listed:.2f} | {picture:.2f} |\n| XProf | {theirs_listed} | {theirs} |\n")
