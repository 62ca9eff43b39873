"""MXNet's profiler objects: strobe/profiler.h for C++ programs and the document's Python, alone and with Intel's ITT library."""

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from tests.support.processes import BIN, BUILD, wait_until


def run(what, file, program=BIN / "profiler_program", **env):
    done = subprocess.run([program, file, what], capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_objects_measure_becomes_a_file_and_a_table(tmp_path):
    file = tmp_path / "profile.json"
    table, as_json, by_count = run("all", file).split("---\n")
    events = json.loads(file.read_text())["traceEvents"]
    spans = Counter(e["name"] for e in events if e["ph"] == "X")
    assert spans == {"load": 3, "iteration": 3, "on a thread": 400, "evaluate": 1}, "nothing before, while paused, or after"
    loads = [e for e in events if e["name"] == "load"]
    assert all(e["cat"] == 'training "quoted"' and e["dur"] >= 2000 for e in loads)
    frames = [e for e in events if e["name"] == "iteration"]
    assert all(f["ts"] <= load["ts"] and load["ts"] + load["dur"] <= f["ts"] + f["dur"] + 0.002 for f, load in zip(frames, loads))
    assert len({e["tid"] for e in events if e["name"] == "on a thread"}) == 4
    assert [e["args"]["images"] for e in events if e["ph"] == "C"] == [37, 69, 101, 95]
    assert [e["s"] for e in events if e["ph"] == "i"] == ["p", "t"]

    rows = {line[:11].strip(): line[11:].split() for line in table.splitlines()[2:]}
    assert rows["on a thread"][0] == "400" and rows["load"][0] == "3"
    count, total, least, most, average = map(float, rows["load"])
    assert least <= average <= most and abs(total - 3 * average) < 0.001 and total >= 6
    assert json.loads(as_json)["time"]["load"]["count"] == 3
    counts = [int(line[11:].split()[0]) for line in by_count.splitlines()[2:]]
    assert counts == sorted(counts)


def test_continuous_dump_writes_while_it_runs(tmp_path):
    file = tmp_path / "profile.json"
    process = subprocess.Popen([BIN / "profiler_program", file, "continuous"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "half\n"
    wait_until(file.exists, 10, "a first dump")
    assert 0 < len(json.loads(file.read_text())["traceEvents"]) < 1000, "whole whenever it is looked at"
    assert process.wait(30) == 0
    assert len(json.loads(file.read_text())["traceEvents"]) == 1000


def readable(file):
    """The counters' values in a file that a strict parser takes, as browsers have one."""
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return [value for e in json.loads(file.read_text(), parse_constant=refuse)["traceEvents"] if e["ph"] == "C" for value in e["args"].values()]


def test_a_counter_that_is_no_number_leaves_the_file_readable(tmp_path):
    file = tmp_path / "profile.json"
    run("nan", file)
    assert readable(file) == [1.5, None, None]


def test_a_python_counter_that_is_no_number_leaves_the_file_readable(python_package, tmp_path):
    run_python("""
        from strobe import profiler
        profiler.set_config(filename="profile.json")
        profiler.set_state("run")
        loss = profiler.Domain("training").new_counter("loss", 1.5)
        loss.set_value(float("nan"))
        loss -= float("inf")
        profiler.dump()
    """, tmp_path, python_package)
    assert readable(tmp_path / "profile.json") == [1.5, None, None]


def test_forked_children_do_not_wait_for_threads_that_they_lack(tmp_path):
    """A thread of the parent may hold a lock during the fork, such as that of a data loader's process."""
    assert run("fork", tmp_path / "profile.json") == "0 hung, 0 ran\n"


def test_forked_children_of_python_do_not_wait_for_threads_that_they_lack(python_package, tmp_path):
    out = run_python("""
        import os, signal
        from strobe import profiler

        class Forks(float):
            # Forks while the counter adds it.

            def __radd__(self, other):
                with profiler._state.lock:
                    self.child = os.fork()
                if not self.child:
                    signal.alarm(10)
                    images.set_value(5)
                    with domain.new_task("child"):
                        pass
                    os._exit(profiler._state.running)
                return other + 1

        profiler.set_config(filename="profile.json", continuous_dump=True)
        profiler.set_state("run")
        domain = profiler.Domain("training")
        images = domain.new_counter("images", 0)
        forks = Forks(1)
        images += forks
        print(os.waitstatus_to_exitcode(os.waitpid(forks.child, 0)[1]))
        profiler.set_state("stop")
    """, tmp_path, python_package)
    assert out == "0\n"
    assert readable(tmp_path / "profile.json") == [0, 1], "the parent's measurements"


def test_mistakes_are_explained(tmp_path):
    assert run("errors", tmp_path / "p.json").splitlines() == [
        "filename must be the path of a file", "dump_period must be a number of seconds from 0.1 to 3600", "state must be run or stop, not walk",
        'the profiler is running; call set_state("stop") before set_config', "cannot write /nowhere/profile.json"]


def test_vtune_hears_of_it(tmp_path):
    """Intel's own reference collector takes the place of VTune."""
    run("all", tmp_path / "p.json", BUILD / "peers/profiler_program_itt", INTEL_LIBITTNOTIFY64=str(BUILD / "peers/libittnotify_refcol.so"),
        INTEL_LIBITTNOTIFY_LOG_DIR=str(tmp_path), STROBE_ITT_NOTES=str(tmp_path / "notes"))
    (log,) = tmp_path.glob("libittnotify_refcol*.log")
    text = log.read_text()
    calls = Counter(re.findall(r"__itt_\w+", text))
    assert calls["__itt_task_begin"] == calls["__itt_task_end"] == 3 + 400 + 3, "VTune itself knows of pauses"
    assert calls["__itt_frame_begin_v3"] == calls["__itt_frame_end_v3"] == 3
    assert calls["__itt_pause"] == calls["__itt_resume"] == 1
    assert 'domain=training "quoted" handle=load' in text
    notes = Counter(note.split()[0] for note in (tmp_path / "notes").read_text().splitlines())
    assert notes["event_start"] == notes["event_end"] == 1 and notes["counter"] == 5 and notes["marker"] == 3


PYTHON_PROGRAM = """
from strobe import profiler
domain = profiler.Domain("training \\u00e9")
task, frame, event = domain.new_task("load"), domain.new_frame("iteration"), profiler.Event("evaluate")
counter, marker = domain.new_counter("images", 5), domain.new_marker("epoch")
for _ in range(3):
    with frame, task:
        counter += 32
with event:
    profiler.pause()
    profiler.resume()
for scope in ("global", "process", "thread", "task", "marker"):
    marker.mark(scope)
"""


def test_vtune_hears_of_python_objects(tmp_path, python_package):
    """As the C++ ones; Intel's own reference collector takes the place of VTune."""
    subprocess.run([sys.executable, "-c", PYTHON_PROGRAM], check=True, timeout=60,
                   env={**os.environ, "PYTHONPATH": str(python_package), "INTEL_LIBITTNOTIFY_LOG_DIR": str(tmp_path),
                        "STROBE_ITT_NOTES": str(tmp_path / "notes"), "INTEL_LIBITTNOTIFY64": str(BUILD / "peers/libittnotify_refcol.so")})
    (log,) = tmp_path.glob("libittnotify_refcol*.log")
    text = log.read_text()
    calls = Counter(re.findall(r"__itt_\w+", text))
    assert calls["__itt_task_begin"] == calls["__itt_task_end"] == 3
    assert calls["__itt_frame_begin_v3"] == calls["__itt_frame_end_v3"] == 3
    notes = (tmp_path / "notes").read_text().splitlines()
    assert [note for note in notes if note.startswith("event")] == ["event_start evaluate", "event_end evaluate"]
    assert [note for note in notes if note.startswith("counter")] == [f"counter training é/images/1 {n}" for n in (5, 37, 69, 101)]
    assert [note for note in notes if note.startswith("marker")] == [f"marker training é/epoch {n}" for n in (1, 2, 3, 4, 5)], "as ITT numbers the scopes"
    assert calls["__itt_pause"] == calls["__itt_resume"] == 1
    assert "domain=training \u00e9 handle=load" in text


def test_a_collector_that_cannot_be_loaded_harms_nobody(tmp_path, python_package):
    done = subprocess.run([sys.executable, "-c", PYTHON_PROGRAM], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(python_package), "INTEL_LIBITTNOTIFY64": str(tmp_path / "nothing.so")})
    assert done.returncode == 0, done.stderr


EXAMPLE = """
    profiler.set_config(profile_all=True,
                        filename='chrome_tracing_profile.json',  # File used for chrome://tracing visualization
                        continuous_dump=True,
                        aggregate_stats=True)  # Stats printed by dumps() call
                        
    profiler.set_state('run')  # Start profiling engine
    #
    # Profile this section of code
    #
    profiler.pause()  # Pause profiling
    #
    # Don't profile this section
    #
    profiler.resume()  # Resume profiling
    #
    # Profile this section of code 
    #
    profiler.set_state('stop')  # Stop profiling engine (optional)
    print(profiler.dumps())  # Print aggregate statistics if aggregate_stats was set to True
"""


def run_python(program, directory, python_package):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=directory, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(python_package)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_documents_example_runs_as_it_is(python_package, tmp_path):
    """Its comments stand for the program's own sections."""
    text = textwrap.dedent(EXAMPLE).replace("# Profile this section", "\nwith domain.new_task('profiled'): pass\n#").replace(
        "# Don't profile this section", "\nwith domain.new_task('not profiled'): pass\n#")
    out = run_python("from strobe import profiler\ndomain = profiler.Domain('sections')\n" + text, tmp_path, python_package)
    (row,) = out.rstrip().splitlines()[2:]
    assert row.split()[:2] == ["profiled", "2"]
    spans = [e["name"] for e in json.loads((tmp_path / "chrome_tracing_profile.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert spans == ["profiled"] * 2


def test_every_key_and_former_name_of_mxnet_is_taken(python_package, tmp_path):
    out = run_python("""
        import warnings
        from strobe import profiler
        for flag in (True, 0):
            profiler.set_config(profile_all=flag, profile_symbolic=flag, profile_imperative=flag, profile_memory=flag, profile_api=flag,
                                contiguous_dump=flag, dump_period=2, aggregate_stats=flag, profile_process="worker", filename="new.json")
        warnings.simplefilter("error", DeprecationWarning)
        try:
            profiler.profiler_set_state("run")
        except DeprecationWarning as told:
            print(told)
        warnings.simplefilter("ignore")
        profiler.profiler_set_config(mode="symbolic", filename="former.json")
        profiler.profiler_set_state("run")
        with profiler.Event("measured"):
            pass
        profiler.dump_profile()
        for wrong in (lambda: profiler.set_config(profile_process="server"), lambda: profiler.set_state("run", profile_process="server"),
                      lambda: profiler.set_config(profile_all="yes")):
            try:
                wrong()
                print("accepted")
            except ValueError as error:
                print(error)
    """, tmp_path, python_package).splitlines()
    assert out[0] == "strobe.profiler.profiler_set_state() is deprecated; use set_state()"
    assert out[1:3] == ["profile_process must be 'worker', not 'server'"] * 2 and out[3] == "profile_all must be True or False"
    assert [e["name"] for e in json.loads((tmp_path / "former.json").read_text())["traceEvents"] if e["ph"] == "X"] == ["measured"]
    assert not (tmp_path / "new.json").exists()


def test_states_dumps_and_names_are_as_documented(python_package, tmp_path):
    out = run_python("""
        import json
        from strobe import profiler
        profiler.set_config(filename="profile.json")
        domain = profiler.Domain("training")
        task, frame, event = domain.new_task("load"), domain.new_frame("iteration"), profiler.Event("evaluate")
        counter, marker = domain.new_counter("images", 5), domain.new_marker("epoch")
        print(*map(str, (domain, task, frame, event, counter, marker)))
        shown = lambda: [e["name"] for e in json.load(open("profile.json"))["traceEvents"] if e["ph"] == "X"]
        profiler.set_state("run")
        profiler.set_state("run")  # Twice is once.
        with task:
            pass
        profiler.dump(finished=False)
        print(*shown())
        with frame:
            pass
        task.start()
        profiler.pause()
        task.stop()  # What ends in a pause is lost.
        profiler.resume()
        for scope in ("global", "process", "thread", "task", "marker"):
            marker.mark(scope)
        profiler.dump()  # finished=True also stops.
        with event:
            pass
        profiler.set_state()  # The default is "stop".
        print(*shown())
        print(*(e["s"] for e in json.load(open("profile.json"))["traceEvents"] if e["ph"] == "i"))
        profiler.set_config(filename="/nowhere/profile.json")
        try:
            profiler.dump()
        except OSError as error:
            print(type(error).__name__)
    """, tmp_path, python_package).splitlines()
    assert out == ["training load iteration evaluate images epoch", "load", "load iteration", "g p t t t", "FileNotFoundError"]


@pytest.fixture(autouse=True)
def no_agent(monkeypatch):
    monkeypatch.delenv("STROBE_DIR", raising=False)
