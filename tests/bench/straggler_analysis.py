"""The program that gave the published answers, ByteDance Seed's StragglerAnalysis, as the peer of tests/bench/stragglers.py.

STROBE_STRAGGLER_ANALYSIS names a checkout of github.com/ByteDance-Seed/StragglerAnalysis; without it nothing is compared. What it requires
is installed into a virtual environment that goes away with the benchmark.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.bench.engine import median, timed
from tests.support.processes import BIN, ROOT

DATA = ROOT / "tests/data/straggler-analysis"
ROUNDS = 3
PARTS = tuple(f"blocking_decompose_by_{part}" for part in ("dp_rank", "stage", "optype"))

# Computes what run_all.sh computes of a trace, without pictures and timelines, and in one process. It tells the processor's seconds of reading and
# writing tables, of S with its decompositions, and of M_W and M_S, which it replays the job for again.
PROGRAM = """
import dataclasses, json, sys, time
import pandas, yaml
from analyzer import compute_ms, compute_mw
from analyzer.metatypes import JobMeta
from analyzer.wia import WhatIfAnalyzer

tables = 0.0
def timed(function):
    def call(*arguments, **named):
        global tables
        began = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            tables += time.process_time() - began
    return call
pandas.read_parquet = timed(pandas.read_parquet)
pandas.DataFrame.to_parquet = timed(pandas.DataFrame.to_parquet)

data, name, root, out = sys.argv[1:]
with open(f"{data}/meta-{name}.yaml") as file:
    meta = JobMeta(**yaml.safe_load(file))
began = time.process_time()
result = json.loads(json.dumps(dataclasses.asdict(WhatIfAnalyzer(f"{data}/trace-{name}.parquet", root=root, steps=None).analyze(meta))))
slowdown, slowdown_tables = time.process_time() - began, tables
shares = {"Ms": compute_ms.work(root, name, dict(result))[0]["rem"], "Mw": compute_mw.work(root, name, dict(result))[0]["rem"]}
whole = time.process_time() - began
with open(out, "w") as file:
    json.dump({"tables": tables, "slowdown": slowdown - slowdown_tables, "shares": whole - slowdown - (tables - slowdown_tables),
               "pandas": pandas.__version__, "answers": result | shares}, file)
"""


def given():
    return os.environ.get("STROBE_STRAGGLER_ANALYSIS", "")


def install(directory):
    """The Python of a virtual environment with what the program requires. It writes into arrays that pandas 3 makes read-only."""
    environment = directory / "straggler-analysis"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", Path(given()) / "requirements.txt", "pandas<3"], check=True)
    return environment / "bin/python"


def on_one_core(*command):
    return timed("taskset", "-c", "1", *command)[0]


def run_theirs(python, directory, name):
    """(what the program tells, seconds of its whole process)."""
    out = directory / f"{name}.json"
    environment = ["env", f"PYTHONPATH={given()}:{given()}/analyzer", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"]
    seconds = on_one_core(*environment, python, "-c", PROGRAM, Path(given()) / "data", name, directory / name, out)
    return json.loads(out.read_text()), seconds


def run_ours(name):
    """(processor's seconds from the operations to the report and the slowdown of each part, seconds of the whole process)."""
    job = DATA / f"{name}.txt.gz"
    line = subprocess.run(["taskset", "-c", "1", BIN / "merge_digests", "job", job], check=True, capture_output=True, text=True).stdout
    merge, report, _, _, parts = line.split(" ", 5)[:5]
    return float(merge) + float(report) + float(parts), on_one_core(BIN / "merge_digests", "job", job)


def published(name):
    with gzip.open(DATA / f"result-{name}.json.gz") as file:
        answers = json.load(file)
    return answers | {share: json.loads((DATA / f"{share.lower()}-{name}.json").read_text())[share] for share in ("Mw", "Ms")}


def difference(answers, others):
    """(relative difference of S, the largest one of a part's slowdown or of a share)."""
    of_parts = [abs(answers[parts][key] - others[parts][key]) for parts in PARTS for key in others[parts]]
    assert all(answers[parts].keys() == others[parts].keys() for parts in PARTS)
    of_shares = [abs(answers[share] - others[share]) for share in ("Mw", "Ms")]
    return abs(answers["blocking_slowdown"] / others["blocking_slowdown"] - 1), max(of_parts + of_shares)


def compare(python, directory, name):
    """A row of seconds, and one of differences."""
    theirs, ours = [], []
    for number in range(ROUNDS):
        folder = directory / f"{name}-{number}"
        folder.mkdir()
        theirs.append(run_theirs(python, folder, name))
        ours.append(run_ours(name))
    computing = {part: median([told[part] for told, _ in theirs]) for part in ("tables", "slowdown", "shares")}
    their_time, our_time = computing["slowdown"] + computing["shares"], median([seconds for seconds, _ in ours])
    their_process, our_process = (median([seconds for _, seconds in runs]) for runs in (theirs, ours))
    times = (f"| {name} | {computing['slowdown']:.2f} | {computing['shares']:.2f} | {computing['tables']:.2f} | {our_time:.4f} | {their_time / our_time:.0f}"
             f" | {computing['slowdown'] / our_time:.0f} | {their_process:.2f} | {our_process:.3f} | {their_process / our_process:.0f} |")
    of_program = theirs[-1][0]["answers"]
    of_us = json.loads(subprocess.run([BIN / "merge_digests", "answers", DATA / f"{name}.txt.gz"], check=True, capture_output=True, text=True).stdout)
    cells = [f"{slowdown:.2%} | {part:.4f}" for slowdown, part in (difference(of_program, published(name)), difference(of_us, of_program))]
    return times, f"| {name} | {of_program['blocking_slowdown']:.3f} | {' | '.join(cells)} |", theirs[-1][0]["pandas"]


def table(directory):
    if not given():
        return ("The published program was not timed: STROBE_STRAGGLER_ANALYSIS names no directory with it.\n")
    python = install(directory)
    times, answers, (version, _) = zip(*(compare(python, directory, name) for name in ("AR", "ST")))
    return "\n".join([
        f"#### Against the published program\n\nOne core each, in turns, medians of {ROUNDS}. Processor's seconds from the operations in memory to the answers: S,"
        " its decompositions by replica, stage and type, M_W and M_S; ours also which workers are late and why. Reading and writing tables is apart."
        f" Whole processes: start, imports (pandas {version}), reading, computing, writing.\n",
        "| job | program: S and decompositions, s | M_W and M_S, s | tables, s | ours: all, s | ratio (bar 20) | ratio without M_W and M_S"
        " | whole process: program, s | ours, s | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|", *times, "",
        "| job | S | program against its published answers: S | a part or share | ours against the program: S (bar 3%) | a part or share (bar 0.03) |",
        "|---|---|---|---|---|---|", *answers, ""])
