"""strobe report: where the time of each worker went, against HolisticTraceAnalysis and against what a JAX program itself has noted; what
changed between two runs; and its pages, read by a Markdown parser, an HTML parser and Chromium. 20 s."""

import html.parser
import json
import shutil
import subprocess

import markdown_it
import pytest

from tests.support import gpu_trace
from tests.support.browser import in_browser
from tests.support.processes import BIN, BUILD

TRAINS = """
import json, sys, time
import jax, jax.numpy as jnp

step = jax.jit(lambda x: jnp.tanh(x @ x).sum())
x = jnp.ones((400, 400))
step(x).block_until_ready()
waited, begins = [], []
with jax.profiler.trace(sys.argv[1]):
    for i in range(8):
        begins.append(time.perf_counter())
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            began = time.perf_counter()
            with jax.profiler.TraceAnnotation("next_batch"):
                time.sleep(0.02 + 0.005 * i)
            waited.append(time.perf_counter() - began)
            step(x).block_until_ready()
        time.sleep(0.01)
json.dump({"waited": waited, "begins": begins}, open(sys.argv[2], "w"))
"""


def strobe(*arguments, code=0):
    done = subprocess.run([BIN / "strobe", "report", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def report(place):
    return json.loads(strobe(place, "--output", "json"))["workers"]


@pytest.fixture(scope="module")
def gpu_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    golden = json.loads(gpu_trace.GOLDEN.read_text())
    assert gpu_trace.write(folder) == golden["traces"], "record again: python -m tests.support.gpu_trace --record"
    return folder, golden["ranks"]


def test_breakdown_is_that_of_holistic_trace_analysis(gpu_run):
    folder, golden = gpu_run
    workers = report(folder)
    assert [worker["rank"] for worker in workers] == [0, 1] and all(worker["worldSize"] == 2 for worker in workers)
    for worker, theirs in zip(workers, golden, strict=True):
        (device,) = worker["devices"]
        time = device["time"]
        # It knows nothing of the time before the first and after the last kernel.
        outside = device["firstNs"] - worker["beginNs"] + worker["endNs"] - device["lastNs"]
        ours = {"idle_time": time["idleNs"] - outside, "compute_time": time["computeNs"],
                "non_compute_time": time["exposedCommunicationNs"] + time["exposedCopiesNs"], "kernel_time": device["lastNs"] - device["firstNs"]}
        for name, nanoseconds in ours.items():
            assert nanoseconds / 1000 == pytest.approx(theirs[name], rel=0.01), name
        hidden = 100 * (1 - time["exposedCommunicationNs"] / time["communicationNs"])
        assert hidden == pytest.approx(theirs["comp_comm_overlap_pctg"], rel=0.01)


def test_what_the_trace_tells_is_counted(gpu_run):
    folder, _ = gpu_run
    for rank, worker in enumerate(report(folder)):
        events = [event for event in gpu_trace.make(rank)["traceEvents"] if event["ph"] == "X"]
        for name in (gpu_trace.NCCL, gpu_trace.COPY, "gemm_4"):
            lengths = sorted(event["dur"] * 1000 for event in events if event["name"] == name)
            (op,) = (op for op in worker["ops"] if op["name"] == name)
            assert (op["count"], op["totalNs"], op["selfNs"]) == (len(lengths), sum(lengths), sum(lengths))
            assert op["p50Ns"] == pytest.approx(lengths[(len(lengths) + 1) // 2 - 1], rel=0.02)
        collectives = sorted((event["ts"], event["dur"]) for event in events if event["name"] == gpu_trace.NCCL)
        zero = min(event["ts"] for event in events)
        assert [(c["beginNs"], c["endNs"] - c["beginNs"]) for c in worker["collectives"]] == [((ts - zero) * 1000, dur * 1000) for ts, dur in collectives]
        assert [c["ordinal"] for c in worker["collectives"]] == list(range(len(collectives)))
        assert all(c["kind"] == "all-reduce" and c["bytes"] == 4096 for c in worker["collectives"])
        assert worker["communicators"] == [{"name": "0 default_pg", "size": 2, "ranks": [0, 1]}]
        assert [step["number"] for step in worker["steps"]] == list(range(gpu_trace.STEPS))
        # The host does nothing else while it loads, and it waited for the device before.
        assert [step["host"]["inputStallNs"] for step in worker["steps"]] == [(200 + 10 * step) * 1000 for step in range(gpu_trace.STEPS)]
        assert worker["hostTime"]["hostBoundNs"] > 0 and worker["hostTime"]["garbageCollectionNs"] is None


def test_opens_a_file_a_folder_and_a_run(gpu_run, tmp_path):
    folder, _ = gpu_run
    table = strobe(folder, "--top", 3)
    assert "\n2 workers, steps 0 to 5 of ProfilerStep, median " in f"\n{table}"
    assert [line.split()[4] for line in table.partition("OPERATION\n")[2].splitlines()] == ["communication", "copy", "compute"]
    assert [line.split()[:3] for line in table.splitlines() if line.startswith("rank")] == [["rank0", "0", "6"], ["rank1", "1", "6"]]
    assert len(report(folder / "rank1.trace.json")) == 1
    run = tmp_path / "logs/plugins/profile/look"
    run.mkdir(parents=True)
    for rank in range(2):
        subprocess.run([BIN / "strobe", "convert", folder / f"rank{rank}.trace.json", "--to", "xplane", "-o", run / f"w{rank}.xplane.pb"], check=True)
    for place in (run, tmp_path / "logs"):
        # The format of the file changes nothing but the name.
        assert [{**worker, "worker": ""} for worker in report(place)] == [{**worker, "worker": ""} for worker in report(folder)]


def test_says_what_cannot_be_read(gpu_run, tmp_path):
    assert "there is no file or directory" in strobe(tmp_path / "nothing", code=1)
    shutil.copy(gpu_run[0] / "rank0.trace.json", tmp_path / "rank0.trace.json")
    subprocess.run([BIN / "strobe", "convert", tmp_path / "rank0.trace.json", "--to", "xplane", "-o", tmp_path / "w.xplane.pb"], check=True)
    whole = (tmp_path / "w.xplane.pb").read_bytes()
    (tmp_path / "w.xplane.pb").write_bytes(whole[: len(whole) // 2])
    assert strobe(tmp_path / "w.xplane.pb", code=1).startswith("DataLoss: w: damaged or cut")


def test_a_jax_program_waited_as_long_as_it_noted(tmp_path):
    noted = tmp_path / "noted.json"
    subprocess.run([BUILD / "venv/bin/python", "-c", TRAINS, tmp_path, noted], check=True, timeout=60, env={"JAX_PLATFORMS": "cpu"})
    noted = json.loads(noted.read_text())
    (worker,) = report(tmp_path)
    steps = worker["steps"]
    assert [step["number"] for step in steps] == list(range(8)) and [step["followed"] for step in steps] == [True] * 7 + [False]
    assert worker["knows"]["hostDevice"] and worker["knows"]["input"]
    for step, waited in zip(steps, noted["waited"], strict=True):
        assert step["host"]["inputStallNs"] == pytest.approx(waited * 1e9, rel=0.05)
    # From begin to begin, so that what happens between two steps is not lost.
    lengths = [later - begin for begin, later in zip(noted["begins"], noted["begins"][1:], strict=False)]
    assert [step["endNs"] - step["beginNs"] for step in steps[:7]] == pytest.approx([length * 1e9 for length in lengths], rel=0.05)
    assert all(0 < step["time"]["computeNs"] < step["time"]["idleNs"] for step in steps)


HOSTILE = "</td></table></style><script>document.title = 'x'</script>|`<img src=http://127.0.0.1:9/ onerror=alert(1)>*a* \x1b[31m\n# b"
HTML_TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section", "figure", "svg", "rect", "text", "div", "table",
             "thead", "tbody", "tr", "th", "td", "bdi", "ul", "li", "footer"}


def change(trace, factor, names):
    """Equal work, slower, and with other names."""
    for event in trace["traceEvents"]:
        event["ts"] = round(event["ts"] * factor)
        event["dur"] = round(event.get("dur", 0) * factor)
        event["name"] = names.get(event["name"], event["name"])
    return trace


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Twelve steps of two workers; and the same, half as slow again and with hostile names."""
    root = tmp_path_factory.mktemp("two")
    for folder, factor, names in (("before", 1, {}), ("after", 1.5, {f"gemm_{i}": HOSTILE for i in range(5)})):
        (root / folder).mkdir()
        for rank in range(2):
            name = f"rank{rank}.trace.json" if folder == "before" else f"<b onclick=x>|`{rank}.trace.json"
            (root / folder / name).write_text(json.dumps(change(gpu_trace.make(rank, steps=12), factor, names)))
    return root / "before", root / "after"


def test_what_changed_between_two_runs(two_runs, tmp_path):
    before, after = two_runs
    told = json.loads(strobe(before, after, "--output", "json"))["comparison"]
    assert told["unit"] == "step" and (told["before"]["steps"], told["after"]["steps"]) == (11, 11)
    step = told["step"]
    assert step["verdict"] == "longer" and step["afterNs"] == pytest.approx(1.5 * step["beforeNs"], rel=0.01), step
    assert told["headline"].startswith("steps take ") and " longer (50%), " in told["headline"]
    assert told["parts"]["compute"]["afterNs"] == pytest.approx(1.5 * told["parts"]["compute"]["beforeNs"], rel=0.01)
    assert told["parts"]["compute"]["verdict"] == "longer"
    ops = {op["name"]: op for op in told["ops"]}
    assert ops[gpu_trace.NCCL]["afterNs"] == pytest.approx(1.5 * ops[gpu_trace.NCCL]["beforeNs"], rel=0.01)
    (hostile,) = (op for name, op in ops.items() if name.startswith("</td>"))
    assert hostile["verdict"] == "new" and hostile["beforeNs"] == 0, hostile
    back = json.loads(strobe(after, before, "--output", "json"))["comparison"]
    assert back["step"]["verdict"] == "shorter" and "gone" in {op["verdict"] for op in back["ops"] if op["name"] == hostile["name"]}
    same = json.loads(strobe(before, before, "--output", "json"))["comparison"]
    assert same["step"]["verdict"] in ("no change", "not decidable") and same["step"]["differenceNs"] == 0
    assert {op["verdict"] for op in same["ops"]} <= {"no change", "rare", "not decidable"}
    table = strobe(before, after)
    assert told["headline"] in table and "\nA STEP " in table and "\x1b" not in table
    assert "there is no file or directory" in strobe(before, tmp_path / "nothing", code=1)


# One process records all runs of a round in turns, so that they differ in nothing but what is asked for. Each line of its
# input asks for a round. It notes the times just before and just after the begin of each step's annotation.
RECORDS = """
import json, sys, time
import jax, jax.numpy as jnp

small, large = jnp.ones((100, 100)), jnp.ones((900, 900))
step = jax.jit(lambda x: jnp.tanh(x @ x).sum())
for x in (small, large):
    step(x).block_until_ready()

def record(folder, x, wait):
    begins = []
    with jax.profiler.trace(folder):
        for i in range(25):
            before = time.perf_counter()
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                begins.append((before, time.perf_counter()))
                with jax.profiler.TraceAnnotation("next_batch"):
                    time.sleep(wait)
                step(x).block_until_ready()
    return begins

record(sys.argv[1] + "/warm", small, 0.01)
for number, _ in enumerate(sys.stdin):
    print(json.dumps({
        kind: record(f"{sys.argv[1]}/{kind}{number}", x, wait)
        for kind, x, wait in (("equal", small, 0.01), ("again", small, 0.01), ("waits", small, 0.015), ("computes", large, 0.01))}), flush=True)
"""


class Rounds:
    """Rounds of runs, recorded when they are first asked for."""

    def __init__(self, root):
        self.root, self.noted = root, []
        self.process = subprocess.Popen([BUILD / "venv/bin/python", "-c", RECORDS, root], env={"JAX_PLATFORMS": "cpu"}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __getitem__(self, number):
        """What was noted of each run of this round."""
        while len(self.noted) <= number:
            print(file=self.process.stdin, flush=True)
            self.noted.append(json.loads(self.process.stdout.readline()))
        return self.noted[number]


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    made = Rounds(tmp_path_factory.mktemp("jax"))
    yield made
    made.process.stdin.close()
    made.process.wait(60)


def middle(lengths):
    """The mean without the fifth of the steps that are longest and the fifth that are shortest, in ns."""
    kept = sorted(lengths)[len(lengths) // 5: len(lengths) - len(lengths) // 5]
    return 1e9 * sum(kept) / len(kept)


def bounds(noted):
    """The least and the most that the mean can be. Where a program is stopped while it begins a step, they are far apart."""
    steps = list(zip(noted, noted[1:]))
    return (middle([after[0] - before[1] for before, after in steps]), middle([after[1] - before[0] for before, after in steps]))


def compared(rounds, number, before, after):
    noted = rounds[number]
    told = json.loads(strobe(rounds.root / f"{before}{number}", rounds.root / f"{after}{number}", "--output", "json"))["comparison"]
    of = {name: bounds(noted[run]) for name, run in (("beforeNs", before), ("afterNs", after))}
    for name, (least, most) in of.items():
        assert 0.999 * least <= told["step"][name] <= 1.001 * most, "what the program itself has measured"
    if of["afterNs"][1] < of["beforeNs"][0]:
        assert told["step"]["verdict"] != "longer"
    if of["afterNs"][0] > of["beforeNs"][1]:
        assert told["step"]["verdict"] != "shorter"
    return told


@pytest.mark.parametrize(("kind", "part"), [("waits", "input"), ("computes", "compute")])
def test_real_runs_that_wait_or_compute_longer(rounds, kind, part):
    # Other work on this machine may make the steps of a run vary so much that nothing is decided.
    told = (compared(rounds, number, "equal", kind) for number in range(12))
    # It may also vary so much that no part of the steps is to blame.
    decided = next(comparison for comparison in told if comparison["step"]["verdict"] == "longer" and ": " in comparison["headline"])
    assert decided["headline"].startswith("steps take ") and part in decided["headline"].rpartition(": ")[2], decided["headline"]
    assert decided["parts"][part]["verdict"] == "longer"


def test_equal_real_runs_are_not_told_apart(rounds):
    told = [compared(rounds, number, "equal", "again") for number in range(3)]
    quiet = [comparison for comparison in told if comparison["step"]["verdict"] in ("no change", "not decidable")]
    # Other work on this machine may make one of the six slower, which is then told as it should be.
    assert len(quiet) >= 2, [comparison["headline"] for comparison in told]
    assert not any(comparison["headline"].startswith("steps take ") for comparison in quiet)


def test_few_steps_decide_nothing(two_runs, gpu_run):
    text = strobe(gpu_run[0], two_runs[1])
    assert text.startswith("not decidable whether steps changed: the runs have 5 and 11 steps, and 6 are needed\n")
    assert "not decidable (n = 5, 11)" in text


def test_markdown_has_the_table_and_no_markup_of_the_trace(two_runs):
    before, after = two_runs
    for places in ((after,), (before, after)):
        text = strobe(*places, "--output", "markdown", "--top", 50)
        tokens = [t for token in markdown_it.MarkdownIt("commonmark").enable("table").parse(text) for t in [token, *(token.children or [])]]
        assert {t.type for t in tokens}.isdisjoint({"html_block", "html_inline", "link_open", "image"}), text
        assert sum(t.type == "heading_open" for t in tokens) == text.count("\n## ") + 1
        written = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
        cells = sum(t.type in ("td_open", "th_open") for t in tokens)
        assert cells == sum(line.count(" | ") + 1 for line in written), "no name has divided a cell"
        assert any(t.type == "code_inline" and t.content.startswith("</td></table>") for t in tokens)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_one_file_without_markup_of_the_trace(two_runs, tmp_path):
    before, after = two_runs
    pages = []
    for name, places in (("one", (after,)), ("two", (before, after))):
        text = strobe(*places, "--output", "html", "--top", 50)
        page = Page(text)
        assert page.tags <= HTML_TAGS, page.tags - HTML_TAGS
        assert {name for name, _ in page.attributes}.isdisjoint({"src", "href", "style", "srcset", "data"}) and "url(" not in text
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert any(data.startswith("</td></table></style><script>document.title") for data in page.texts), "the name is shown as it is"
        assert text.count("<svg") >= 3
        pages.append(tmp_path / f"{name}.html")
        pages[-1].write_text(text)
    in_browser("report.test.mjs", timeout=120, STROBE_REPORTS=json.dumps([page.as_uri() for page in pages]))
