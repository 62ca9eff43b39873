"""strobe report: where the time of each worker went, against HolisticTraceAnalysis and against what a JAX program itself has noted. 6 s."""

import json
import shutil
import subprocess

import pytest

from tests.support import gpu_trace
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
    assert strobe(tmp_path / "w.xplane.pb", code=1).startswith("DataLoss: w: malformed protobuf")


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
