"""The document on tf.profiler.experimental.Trace: what its reader tries, with TensorFlow and with Strobe.

One program makes the same annotations with TensorFlow's Trace and with Strobe's, each in a process of
its own, and both traces must contain the same events."""

import json
import os
import subprocess
import textwrap

import pytest

from tests.support.agent_rig import events
from tests.support.processes import BIN, PYTHON

PROGRAM = """
import enum, sys, threading, time

if sys.argv[1] == "tensorflow":
    from tensorflow.profiler.experimental import Trace, start, stop
else:
    from strobe import Trace, start, stop

class Colour(enum.Enum):
    RED = 1

class Subclass(Trace):
    def __init__(self, number):
        super().__init__("doc subclass", number=number)

def nested(depth):
    with Trace("doc nested", depth=depth):
        if depth:
            nested(depth - 1)

def on_a_thread():
    with Trace("doc thread"):
        time.sleep(0.001)

def scenarios():
    for step in range(3):  # The document's own example.
        with Trace("doc train", step_num=step):
            time.sleep(0.001)
    with Trace("doc call", function_name="f") as tm:  # The example of set_metadata.
        tm.set_metadata(in_cache=True)
    with Trace(name="doc keyword", a=1):
        pass
    with Trace("doc values", i=-3, f=0.5, s="text", b=False, n=None, l=[1, 2], d={"k": 1}, e=Colour.RED, u="\\u00e4"):
        pass
    with Trace("doc level", level="high"):
        pass
    with Trace("doc long", text="x" * 2500, after=1):
        pass
    with Trace("doc longer", text="y" * 20000, after=2):
        pass
    with Trace("doc metadata") as tm:
        tm.set_metadata(a=1)
        tm.set_metadata(a=2, b=3)
        tm.set_metadata()
    early = Trace("doc early")
    early.set_metadata(early=1)
    with early:
        pass
    with Subclass(7) as made:
        assert isinstance(made, Trace)
    nested(2)
    try:
        with Trace("doc raises"):
            raise KeyError
    except KeyError:
        pass
    thread = threading.Thread(target=on_a_thread, name="loader-1")
    thread.start()
    thread.join()
    try:
        Trace("positional").set_metadata(1)
    except TypeError:
        pass

with Trace("doc before"):
    pass
start(sys.argv[2])
scenarios()
stop()
with Trace("doc after"):
    pass
"""


def annotations(logdir):
    """(name, metadata, thread) of the program's own events, sorted."""
    from tensorflow import xplane_pb2

    (path,) = logdir.glob("plugins/profile/*/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    found = []
    for plane in space.planes:
        names = {i: m.name for i, m in plane.event_metadata.items()}
        stats = {i: m for i, m in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id]
                if not name.startswith("doc "):
                    continue
                metadata = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    value = getattr(stat, kind)
                    metadata[stats[stat.metadata_id].name] = stats[value].name if kind == "ref_value" else value
                found.append((name, {key: str(value) for key, value in metadata.items() if key not in ("_r", "group_id", "step_name")}, line.name))
    return sorted(found, key=lambda event: (event[0], sorted(event[1].items())))


@pytest.fixture(scope="module")
def traces(tmp_path_factory, python_package, protos):
    found = {}
    for kind in ("tensorflow", "strobe"):
        directory = tmp_path_factory.mktemp(kind)
        # The relative logdir of the document's example.
        done = subprocess.run([PYTHON, "-c", PROGRAM, kind, "logdir"], cwd=directory, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(python_package), "TF_CPP_MIN_LOG_LEVEL": "3"})
        assert done.returncode == 0, done.stderr[-2000:]
        found[kind] = annotations(directory / "logdir")
    return found


def test_both_record_the_same_events_with_the_same_metadata(traces):
    ours, theirs = ([event[:2] for event in traces[kind]] for kind in ("strobe", "tensorflow"))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    assert ours == theirs


def test_the_long_values_are_whole(traces):
    metadata = {name: stats for name, stats, _ in traces["strobe"]}
    assert metadata["doc long"] == {"text": "x" * 2500, "after": "1"}
    assert metadata["doc longer"] == {"text": "y" * 20000, "after": "2"}


def test_threads_have_the_names_that_python_gives_them(traces):
    (line,) = {line for name, _, line in traces["strobe"] if name == "doc thread"}
    assert line.startswith("loader-1/")


def test_what_is_beyond_the_limit_is_said(python_package, tmp_path):
    program = textwrap.dedent("""
        import json, strobe
        strobe.start("logdir")
        for _ in range(3):
            with strobe.Trace("doc huge", first=1, text="z" * 200_000, last=2):
                pass
        print(json.dumps(strobe.stop()))
    """)
    done = subprocess.run([PYTHON, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(python_package)})
    (worker,) = json.loads(done.stdout)["workers"]
    assert worker["outcome"] == "Ok" and any("3 annotations were cut" in note for note in worker["notes"]), worker
    events = annotations(tmp_path / "logdir")
    assert [name for name, *_ in events] == ["doc huge"] * 3, "the name is never damaged"
    text = events[0][1]["text"]
    assert events[0][1]["first"] == "1" and 60_000 < len(text) < 65_536 and text.endswith("...")


def test_an_object_is_used_again_without_the_metadata_of_its_first_use(python_package, tmp_path):
    program = textwrap.dedent("""
        import strobe
        strobe.start("logdir")
        again = strobe.Trace("doc again", always=1)
        with again:
            again.set_metadata(once=2)
        with again:
            pass
        strobe.stop()
    """)
    subprocess.run([PYTHON, "-c", program], cwd=tmp_path, check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(python_package)})
    assert [stats for _, stats, _ in annotations(tmp_path / "logdir")] == [{"always": "1"}, {"always": "1", "once": "2"}]


def test_a_value_that_cannot_be_written_is_told_and_the_event_is_kept(python_package, tmp_path):
    """TensorFlow raises here while it records. A program must not fail only because it is recorded, so the error goes to sys.unraisablehook."""
    program = textwrap.dedent("""
        import strobe

        class Bad:
            def __str__(self):
                raise ValueError("no text")

        strobe.start("logdir")
        with strobe.Trace("doc bad", before=1, bad=Bad(), after=2):
            pass
        strobe.stop()
        print("goes on")
    """)
    done = subprocess.run([PYTHON, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(python_package)})
    assert done.stdout == "goes on\n" and "ValueError: no text" in done.stderr
    assert [stats for _, stats, _ in annotations(tmp_path / "logdir")] == [{"before": "1", "bad": "<unprintable>", "after": "2"}]


def test_a_cpp_program_records_itself(tmp_path, protos):
    done = subprocess.run([BIN / "profile_program", "logdir", BIN], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.splitlines() == ["recording 1 ", "saved 1 "], (done.stdout, done.stderr)
    from tensorflow import xplane_pb2

    (path,) = tmp_path.glob("logdir/plugins/profile/mine/*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    found = [event for event in events(space) if event[1] in ("train", "late")]
    assert [event[4]["step_num"] for event in found if event[1] == "train"] == list(range(20))
    assert not any(event[1] == "late" for event in found)


def test_a_cpp_program_without_the_programs_goes_on(tmp_path):
    done = subprocess.run([BIN / "profile_program", "logdir", "/nowhere"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[0] == "recording 0 cannot start /nowhere/strobe-sidecar: No such file or directory"
    assert done.returncode == 1 and not done.stderr


def test_profile_is_a_context_manager(python_package, tmp_path):
    program = textwrap.dedent("""
        import strobe, warnings
        with strobe.Profile("logdir", strobe.ProfilerOptions(host_tracer_level=3)) as profile:
            with strobe.Trace("doc profile", 3):
                pass
        print(profile.manifest["workers"][0]["outcome"])
        try:
            with strobe.Profile("logdir", run="broken"):
                with strobe.Trace("doc before the end"):
                    pass
                raise KeyError("the program's own")
        except KeyError:
            print("kept")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with strobe.Profile("logdir", run="empty") as empty:
                pass
        print(empty.manifest["workers"][0]["outcome"], len(told), told[0].message)
    """)
    done = subprocess.run([PYTHON, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(python_package)})
    first, kept, empty = done.stdout.splitlines()
    assert (first, kept) == ("Ok", "kept") and empty.startswith("NoHostEvents 1 "), (done.stdout, done.stderr)
    assert len(list(tmp_path.glob("logdir/plugins/profile/*/*.xplane.pb"))) == 3, "each trace is saved, also the empty one"
