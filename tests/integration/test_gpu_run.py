"""tests/gpu, which measures on machines with a GPU: its bundle runs elsewhere, and what it would not notice is noticed here. The driver is the fake."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

from tests.gpu.measure import main, outputs, stamps, xspace
from tests.gpu.measure.findings import FAILED, MISSED, NOT_HAD, OK, Finding, table
from tests.gpu.measure.kernels import Kernel, Recording, Step, complete_steps, same_work
from tests.gpu.measure.processes import Failed, NotHad, Program
from tests.support.processes import PYTHON, ROOT

# Knows what tests/gpu/measure asks it.
NVIDIA_SMI = """#!/bin/sh
case $1 in
  --query-gpu=name*) echo "Fake H200, 580.95.05, [N/A], Default" ;;
  --query-gpu=mig*) echo "Disabled" ;;
  --query-gpu=compute_mode) echo "Default" ;;
esac
"""


@pytest.fixture(scope="module")
def unpacked():
    """The bundle, as it lies on a machine without the tree, and a nvidia-smi beside it. Other users must see the driver, and pytest's folders they do not."""
    with tempfile.TemporaryDirectory(prefix="strobe-gpu") as folder:
        Path(folder).chmod(0o755)
        yield unpack(Path(folder))


def unpack(folder):
    if not list((ROOT / "build/wheels").glob("*.whl")):
        subprocess.run([ROOT / "tools/wheel"], check=True)
    subprocess.run([ROOT / "tests/gpu/bundle", folder / "gpu.tar.gz", "--with-fakes"], check=True)
    with tarfile.open(folder / "gpu.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "path").mkdir()
    (folder / "path/nvidia-smi").write_text(NVIDIA_SMI)
    (folder / "path/nvidia-smi").chmod(0o755)
    (folder / "path/python3").symlink_to(PYTHON)
    return folder


def run(unpacked, out, steps, cupti=""):
    """Runs the bundle without a network; exit code and rows by step."""
    home = unpacked / "strobe-gpu"
    fakes = home / "bin/fakes"
    env = {"PATH": f"{unpacked}/path:/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": f"{fakes}:{fakes}/13", "FAKE_CUDA_VERSION": "13000", "OUT": str(out),
           "STROBE_GPU_REHEARSAL": "1", "FAKE_CUPTI": cupti, "STROBE_GPU_PYTHON": str(PYTHON)}
    command = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh", home / "run", "--steps", steps]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=480, cwd="/")
    assert "| step | result |" in done.stdout, done.stdout + done.stderr
    rows = {row["step"]: row for row in json.loads((out / "findings.json").read_text())}
    for name, row in rows.items():
        assert f"| {name} | {row['result']} |" in done.stdout
    return done.returncode, rows


def test_the_bundle_measures_elsewhere(unpacked, tmp_path):
    status, rows = run(unpacked, tmp_path, "machine,package,counts,times,graphs,look-back,jax-agent,permission,beginner,mig,mps")
    assert {name: row["result"] for name, row in rows.items()} == {
        "machine": OK, "package": OK, "counts": OK, "times": OK, "graphs": OK, "look-back": OK, "permission": OK, "beginner": OK, "mig": NOT_HAD, "mps": NOT_HAD,
        "jax-agent": MISSED}, json.dumps(rows, indent=1)
    assert "Fake H200" in rows["machine"]["text"]
    assert "100.00 % joined" in rows["counts"]["text"] and "of begins within 0.00" in rows["times"]["text"]
    # JAX's own profiler, on the processor, knows nothing of the fake kernels.
    assert "counts differ" in rows["jax-agent"]["text"] and "250 and 0 kernels in 50 steps" in rows["jax-agent"]["text"]
    assert status == 1, "a bar was missed"
    left = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(left) == {"report.md", "findings.json", "figures.json", "logs.tar.gz", "traces.tar.gz"} and max(left.values()) < 16 << 20
    with tarfile.open(tmp_path / "traces.tar.gz") as archive:
        assert any(name.endswith(".xplane.pb") for name in archive.getnames())
    with tarfile.open(tmp_path / "logs.tar.gz") as archive:
        assert {"counts/sidecar.log", "counts/counts-1.json"} <= set(archive.getnames())


@pytest.mark.parametrize("fault, says", [("lose_every=97", "kernels are missing"), ("shift_ns=5000", "times are not within"),
                                         ("subscribe=39", "another profiler holds CUPTI")])
def test_what_is_wrong_is_seen(unpacked, tmp_path, fault, says):
    status, rows = run(unpacked, tmp_path, "times", fault)
    assert status == 1 and rows["times"]["result"] == MISSED and says in rows["times"]["text"], rows


def test_the_modes_of_devices_are_measured(unpacked, tmp_path):
    """What they cost is seen on a GPU only; here, that each is recorded and its figures are told."""
    status, rows = run(unpacked, tmp_path, "jax-modes,fifty")
    assert status == 0 and {name: row["result"] for name, row in rows.items()} == {"jax-modes": OK, "fifty": OK}, json.dumps(rows, indent=1)
    for mode in ("Kernels", "Launches", "Graphs", "All"):
        assert f"{mode} +" in rows["jax-modes"]["text"] or f"{mode} -" in rows["jax-modes"]["text"], rows
        assert f"{mode} 2" in rows["fifty"]["text"], rows


def test_the_bundles_bytes_depend_on_its_files_alone(unpacked):
    packed = (unpacked / "gpu.tar.gz").read_bytes()
    assert packed[3] == 0 and packed[4:8] == bytes(4), "neither a name nor a time in gzip's header"
    with tarfile.open(unpacked / "gpu.tar.gz") as archive:
        members = archive.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")} and {m.mode for m in members} <= {0o755, 0o644}
    assert [m.name for m in members] == sorted((m.name for m in members), key=lambda name: name.split("/"))
    assert len(packed) < 60 << 20


def test_without_a_driver_it_says_so(unpacked):
    done = subprocess.run([unpacked / "strobe-gpu/run"], env={"PATH": f"{unpacked}/path:/usr/bin:/bin"}, capture_output=True, text=True)
    assert done.returncode == 2 and "libcuda.so.1" in done.stderr


def test_traces_are_read_as_protobuf_reads_them(protos):
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace(errors=["an error"], warnings=["größer"])
    plane = space.planes.add(name="/device:GPU:0", id=3)
    plane.event_metadata[-7].name = "kernel"
    for number, name in enumerate(("correlation_id", "kernel_details", "other", "text", "negative")):
        plane.stat_metadata[number + 1].name = name
    plane.stats.add(metadata_id=4, str_value="of the plane")
    line = plane.lines.add(name="Stream #1", timestamp_ns=-5, id=1 << 40, duration_ps=9)
    event = line.events.add(metadata_id=-7, offset_ps=(1 << 40) + 1, duration_ps=300)
    event.stats.add(metadata_id=1, uint64_value=(1 << 64) - 1)
    event.stats.add(metadata_id=2, ref_value=4)
    event.stats.add(metadata_id=3, double_value=1.5)
    event.stats.add(metadata_id=5, int64_value=-2)
    line.events.add()
    found = xspace.parse(space.SerializeToString(), {"correlation_id", "kernel_details", "negative"})
    assert (found.errors, found.warnings) == (["an error"], ["größer"])
    read = found.plane("/device:GPU:0")
    assert read.stats == {"text": "of the plane"}
    begin = -5000 + (1 << 40) + 1
    assert read.lines == [xspace.Line("Stream #1", [
        xspace.Event("kernel", begin, begin + 300, {"correlation_id": (1 << 64) - 1, "kernel_details": "text", "negative": -2}),
        xspace.Event("", -5000, -5000, {})])]
    assert found.plane("/none").lines == []


def made(steps, per_step, lose=(), twice=()):
    """A recording of steps, each of one launch, whose kernels last 1 us and begin every 2 us; `lose` and `twice` name kernels."""
    kernels = [Kernel("k", (step * per_step + i) * 2_000_000, (step * per_step + i) * 2_000_000 + 1_000_000, step + 1)
               for step in range(steps) for i in range(per_step) for _ in range(0 if (step, i) in lose else 2 if (step, i) in twice else 1)]
    return Recording(kernels, [Step(step, step * per_step * 2_000_000, (step + 1) * per_step * 2_000_000 - 1, [step + 1]) for step in range(steps)],
                     set(range(1, steps + 1)), 1_000_000_000, [], [])


def test_missing_and_surplus_kernels_are_counted():
    window = (1_000_000_000, 2_000_000_000)
    whole = complete_steps(made(10, 4), window, 1, 4)
    assert (whole.kernels, whole.wrong, len(whole.steps)) == (40, 0, 10)
    assert complete_steps(made(10, 4, lose={(3, 1), (9, 3)}), window, 1, 4).kernels_missing == 2
    assert complete_steps(made(10, 4, twice={(0, 0)}), window, 1, 4).kernels_too_many == 1
    assert complete_steps(made(10, 4), window, 2, 4).launches_missing == 10
    assert len(complete_steps(made(10, 4), (1_000_000_001, 2_000_000_000), 1, 4).steps) == 9, "only steps within the window count"


def stamped(recorded, drift=0.0, zero=512_000_000, tick=1):
    noted = []
    for kernel in recorded.kernels:
        noted += [round((at / 1000 * (1 + drift) + zero) / tick) * tick for at in (kernel.begin_ps + 200_000, kernel.end_ps - 100_000)]
    return stamps.Stamps(1, 4, [tuple(noted)])


def test_times_are_compared_kernel_by_kernel():
    recorded = made(1000, 4)
    window = (1_000_000_000, 3_000_000_000)
    steps = complete_steps(recorded, window, 1, 4).steps
    apart = stamps.distances(steps, stamped(recorded, drift=5e-6))
    assert apart.kernels == 4000 and apart.begin_us < 0.01 and apart.end_us < 0.01 and abs(apart.drift_ppm + 5) < 0.1
    assert abs(apart.longer_us - 0.3) < 0.01, "a kernel notes its begin after it has begun"
    coarse = stamps.distances(steps, stamped(recorded, tick=32))
    assert coarse.tick_ns == 32 and apart.tick_ns == 1 and coarse.begin_us < 0.04
    moved = [kernel._replace(begin_ps=kernel.begin_ps + 1_500_000) if i % 50 == 0 else kernel for i, kernel in enumerate(recorded.kernels)]
    wrong = complete_steps(recorded._replace(kernels=moved), window, 1, 4).steps
    assert stamps.distances(wrong, stamped(recorded)).begin_us >= 1.4
    assert stamps.distances([(0, recorded.kernels[:3])], stamped(recorded)) is None, "a step that lacks a kernel cannot be matched"


def test_the_same_work_has_the_same_kernels():
    ours = [Kernel("a", 0, 5_000_000, 1), Kernel("b", 6_000_000, 7_000_000, 2), Kernel("a", 8_000_000, 13_000_000, 3)]
    theirs = [kernel._replace(end_ps=kernel.end_ps + 400_000) for kernel in ours]
    same = same_work(ours, theirs)
    assert (same.ours, same.theirs, same.differing) == (3, 3, {}) and abs(same.median_us - 0.4) < 1e-9
    assert same_work(ours, theirs[:2]).differing == {"a": (2, 1)}
    assert same_work([], theirs).differing == {"a": (0, 2), "b": (0, 1)}


class Bare:
    until, step, figures = 0.0, "a", {}


def test_a_step_that_fails_is_a_row_and_ends_in_time(monkeypatch):
    def raises(error):
        def step(_):
            raise error
        return step

    monkeypatch.setattr(main, "LEAST_SECONDS", 1)
    previous = main.signal.signal(main.signal.SIGALRM, main._out_of_time)
    try:
        assert main.run_step(Bare(), raises(NotHad("no such thing")), 20) == Finding(NOT_HAD, "no such thing")
        assert main.run_step(Bare(), raises(Failed("why")), 20) == Finding(FAILED, "why")
        assert main.run_step(Bare(), raises(KeyError("x")), 20) == Finding(FAILED, "KeyError: 'x'")
        assert main.run_step(Bare(), raises(KeyError("x")), 0.5).result == NOT_HAD, "with too little time it is not begun"
        assert main.run_step(Bare(), lambda _: time.sleep(120), 1).text == "took too long and was ended"
        Bare.figures = {"a": {"Kernels": 4.5}}
        assert main.run_step(Bare(), raises(Failed("why")), 20).text == 'why; known so far: {"Kernels": 4.5}'
    finally:
        main.signal.signal(main.signal.SIGALRM, previous)
    assert table([("a", 1.2, Finding(OK, "x | y\nz"))]).splitlines()[-1] == "| a | ok | 1 | x / y z |"


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_cut_leaves_what_it_knows(tmp_path, kill):
    code = """if True:
        import os, sys, time
        from tests.gpu.measure import main
        from tests.gpu.measure.findings import OK, Finding
        def cut(setup):
            setup.note({"Kernels": 4.5})
            (setup.folder / "a.log").write_text("line")
            os.kill(os.getpid(), SIGNAL)
            time.sleep(60)
        main._steps = lambda: [("a", lambda _: Finding(OK, "was seen"), 20), ("b", cut, 20), ("c", cut, 20)]
        main.steps_machine.driver_version = lambda: 13000
        main.python_with = lambda module: None
        sys.exit(main.main())"""
    env = {**os.environ, "OUT": str(tmp_path), "STROBE_GPU_BIN": str(tmp_path), "STROBE_GPU_PACKAGE": str(tmp_path)}
    done = subprocess.run([PYTHON, "-c", code.replace("SIGNAL", str(int(kill)))], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    rows = json.loads((tmp_path / "findings.json").read_text())
    assert [row["step"] for row in rows] == (["a", "b"] if kill == signal.SIGTERM else ["a"]), done.stderr
    assert rows[0]["text"] == "was seen" and json.loads((tmp_path / "figures.json").read_text()) == {"b": {"Kernels": 4.5}}
    if kill == signal.SIGTERM:
        assert done.returncode == 1 and "| b | FAILED |" in (tmp_path / "report.md").read_text()
        with tarfile.open(tmp_path / "logs.tar.gz") as archive:
            assert archive.getnames() == ["a.log"]


def test_programs_end_and_answer_in_time(tmp_path):
    program = Program("cat", ["cat"], tmp_path / "log")
    assert program.ask('noise\n{"a": 1}', 20) == {"a": 1}
    with pytest.raises(Failed, match="said nothing"):
        program.answer(0.2)
    program.kill()
    with pytest.raises(Failed, match="ended with 3: because"):
        Program("sh", ["sh", "-c", "echo because >&2; exit 3"], tmp_path / "log").answer(20)


def test_what_is_left_is_small(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    for number in range(3):
        (work / f"{number}.xplane.pb").write_bytes(random.Random(number).randbytes(7 << 20))
    (work / "huge.xplane.pb").write_bytes(random.Random(9).randbytes(40 << 20))
    (work / "a.log").write_text("line\n")
    monkeypatch.setenv("OUT", str(tmp_path / "out/deep"))
    outputs.leave("# R\n", [("a", 1.0, Finding(OK, "x"))], {}, work)
    left = list((tmp_path / "out/deep").iterdir())
    assert len(left) <= 8 and max(path.stat().st_size for path in left) <= 16 << 20
    with tarfile.open(tmp_path / "out/deep/traces.tar.gz") as archive:
        assert archive.getnames(), "some traces fit"
    assert "huge.xplane.pb" in (tmp_path / "out/deep/report.md").read_text()


def test_exceptions_pass_without_newer_functions_of_the_c_library(tmp_path):
    """The agent has its own of those that the C++ runtime in it calls."""
    source = tmp_path / "throws.cc"
    source.write_text("#include <vector>\nint main(int argc, char**) { try { std::vector<int>(1).at(argc); } catch (...) { return 0; } return 1; }\n")
    build = ["c++", "-std=c++17", "-static-libstdc++", "-static-libgcc", "-o", tmp_path / "throws", source, ROOT / "agent/recorder/old_glibc.cc"]
    subprocess.run(build, check=True)
    symbols = subprocess.run(["readelf", "--wide", "--dyn-syms", tmp_path / "throws"], check=True, capture_output=True, text=True).stdout
    assert "_dl_find_object" not in symbols and "arc4random" not in symbols
    assert subprocess.run([tmp_path / "throws"]).returncode == 0


def test_a_newer_library_than_the_oldest_machines_is_refused(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    source = tmp_path / "new.c"
    source.write_text("#include <stdlib.h>\nint main(void) { return (int)arc4random(); }\n")
    subprocess.run(["cc", "-o", tmp_path / "new", source], check=True)
    code = f"import runpy, sys; sys.argv = ['bundle']; runpy.run_path({str(ROOT / 'tests/gpu/bundle')!r})['check_glibc']({str(tmp_path / 'new')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 1 and "needs glibc 2.36" in done.stderr
