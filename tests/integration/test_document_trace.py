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
from tests.support.traces import MS

PROGRAM = """
import enum, sys, threading, time
import numpy

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
    with Trace("doc more values", t=(1, "a"), y=b"bytes", i=numpy.int64(7), f=numpy.float32(0.5), b=numpy.bool_(True)):
        pass
    with Trace("doc grammar", comma="x,y", hash="x#y", quoted='"a,b"', list="[a,b]", equals="k=v"):
        pass
    with Trace("doc named#a=1,b=two#", c=3):  # What stands between # and # is metadata, too.
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
    with Trace("doc late step") as tm:
        tm.set_metadata(step_num=11)
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

def misuse():
    # Prints what is refused.
    for wrong in (lambda: Trace(), lambda: Trace("refused").set_metadata(1), lambda: start("other")):
        try:
            wrong()
            print("accepted")
        except Exception as error:
            print(type(error).__name__ if isinstance(error, TypeError) else "refused")

with Trace("doc before"):
    pass
open_at_start = Trace("doc open at start")
open_at_start.__enter__()
start(sys.argv[2])
print(open_at_start.__exit__(None, None, None))
scenarios()
misuse()
open_at_stop = Trace("doc open at stop")
print(open_at_stop.__enter__() is open_at_stop)
stop()
open_at_stop.__exit__(None, None, None)
with Trace("doc after"):
    pass
"""

# Both examples, word for word. `tf` is TensorFlow or stands for Strobe.
EXAMPLES = """
def call(function):
  with tf.profiler.experimental.Trace("call",
       function_name=function.name) as tm:
    binary, in_cache = jit_compile(function)
    tm.set_metadata(in_cache=in_cache)
    execute(binary)

tf.profiler.experimental.start('logdir')
for step in range(num_steps):
  # Creates a trace event for each training step with the step number.
  with tf.profiler.experimental.Trace("Train", step_num=step):
    train_fn()
tf.profiler.experimental.stop()
"""

EXAMPLES_PROGRAM = """
import sys, time, types
if sys.argv[1] == "tensorflow":
    import tensorflow as tf
else:
    import strobe
    tf = types.SimpleNamespace(profiler=types.SimpleNamespace(experimental=strobe))
num_steps, compiled = 5, set()

def jit_compile(function):
    in_cache = function.name in compiled
    compiled.add(function.name)
    return function.run, in_cache

def execute(binary):
    binary()

def train_fn():
    call(types.SimpleNamespace(name="myfn", run=lambda: time.sleep(0.005)))

exec(sys.argv[2])
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


def run_as(kind, program, argument, directory, python_package):
    """Runs a program in a directory, as "tensorflow" or as "strobe"; returns what it printed."""
    done = subprocess.run([PYTHON, "-c", textwrap.dedent(program), kind, argument], cwd=directory, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(python_package), "TF_CPP_MIN_LOG_LEVEL": "3"})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory, python_package, protos):
    """What PROGRAM printed, and its logdir, by kind. The logdir is relative, as in the document's example."""
    directories = {kind: tmp_path_factory.mktemp(kind) for kind in ("tensorflow", "strobe")}
    return {kind: (run_as(kind, PROGRAM, "logdir", directory, python_package), directory / "logdir") for kind, directory in directories.items()}


@pytest.fixture(scope="module")
def traces(runs):
    return {kind: annotations(logdir) for kind, (_, logdir) in runs.items()}


@pytest.fixture(scope="module")
def examples(tmp_path_factory, python_package, protos):
    """The trace of the document's examples, by kind."""
    found = {}
    for kind in ("tensorflow", "strobe"):
        directory = tmp_path_factory.mktemp(kind)
        run_as(kind, EXAMPLES_PROGRAM, EXAMPLES, directory, python_package)
        (found[kind],) = directory.glob("logdir/plugins/profile/*/*.xplane.pb")
    return found


def test_both_record_the_same_events_with_the_same_metadata(traces):
    ours, theirs = ([event[:2] for event in traces[kind]] for kind in ("strobe", "tensorflow"))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    assert ours == theirs


def test_scopes_that_were_not_entered_and_left_while_it_recorded_are_absent(traces):
    for kind in ("tensorflow", "strobe"):
        names = {name for name, *_ in traces[kind]}
        assert "doc train" in names and not names & {"doc before", "doc after", "doc open at start", "doc open at stop"}, kind


def test_both_refuse_the_same_and_return_the_same(runs):
    printed = {kind: out.splitlines() for kind, (out, _) in runs.items()}
    assert printed["strobe"] == printed["tensorflow"] == ["None", "TypeError", "TypeError", "refused", "True"]


def test_both_examples_of_the_document_run_as_they_are(examples):
    from tensorflow import xplane_pb2

    for kind, path in examples.items():
        found = events(xplane_pb2.XSpace.FromString(path.read_bytes()))
        trains, calls = (sorted((event for event in found if event[1] == name), key=lambda event: event[2]) for name in ("Train", "call"))
        assert [train[4]["step_num"] for train in trains] == list(range(5)), kind
        assert [(call[4]["function_name"], int(call[4]["in_cache"])) for call in calls] == [("myfn", 0)] + [("myfn", 1)] * 4, kind
        for train, call in zip(trains, calls):
            assert train[2] <= call[2] and call[3] <= train[3], "from entering to leaving: the inner scope lies in the outer one"
            assert call[3] - call[2] >= 5 * MS, "it slept for 5 ms"


def test_xprofs_trace_viewer_shows_the_events_and_groups_them_by_step(examples):
    from xprof.convert import raw_to_tool_data

    shown = {}
    for kind, path in examples.items():
        data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], "trace_viewer@", {"trace_viewer_options": {"resolution": "0"}})
        of_program = sorted((event for event in json.loads(data)["traceEvents"] if event.get("name", "").split(" ")[0] in ("Train", "call")),
                            key=lambda event: event["ts"])
        shown[kind] = [(event["name"], event["args"].get("group_id")) for event in of_program]
    # XProf forms no group of what TensorFlow's own Trace writes for this example; it asks for _r=1.
    assert shown["tensorflow"] == [("Train", None), ("call", None)] * 5
    assert [(name, int(group)) for name, group in shown["strobe"]] == [event for step in range(5) for event in ((f"Train {step}", step), ("call", step))]


def test_the_long_values_are_whole(traces):
    metadata = {name: stats for name, stats, _ in traces["strobe"]}
    assert metadata["doc long"] == {"text": "x" * 2500, "after": "1"}
    assert metadata["doc longer"] == {"text": "y" * 20000, "after": "2"}


def test_threads_have_the_names_that_python_gives_them(traces):
    (line,) = {line for name, _, line in traces["strobe"] if name == "doc thread"}
    assert line.startswith("loader-1/")


def test_what_is_beyond_the_limit_is_said(python_package, protos, tmp_path):
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
    # A start at once has no guard, so that it may be late on a busy machine.
    assert worker["outcome"] in ("Ok", "LateStart") and any("3 annotations were truncated" in note for note in worker["notes"]), worker
    events = annotations(tmp_path / "logdir")
    assert [name for name, *_ in events] == ["doc huge"] * 3, "the name is never damaged"
    text = events[0][1]["text"]
    assert events[0][1]["first"] == "1" and 60_000 < len(text) < 65_536 and text.endswith("...")


IMPORT = """
import sys
if sys.argv[1] == "tensorflow":
    from tensorflow.profiler.experimental import Profile, ProfilerOptions, Trace, start, stop
else:
    from strobe import Profile, ProfilerOptions, Trace, start, stop
"""


def test_an_object_is_used_again_without_the_metadata_of_its_first_use(python_package, protos, tmp_path):
    """TensorFlow records the first use only."""
    program = IMPORT + textwrap.dedent("""
        start(sys.argv[2])
        again = Trace("doc again", always=1)
        with again:
            again.set_metadata(once=2)
        with again:
            pass
        stop()
    """)
    for kind in ("strobe", "tensorflow"):
        run_as(kind, program, kind, tmp_path, python_package)
    assert [stats for _, stats, _ in annotations(tmp_path / "strobe")] == [{"always": "1"}, {"always": "1", "once": "2"}]
    assert [stats for _, stats, _ in annotations(tmp_path / "tensorflow")] == [{"always": "1", "once": "2"}]


def test_a_value_that_cannot_be_written_is_told_and_the_event_is_kept(python_package, protos, tmp_path):
    """TensorFlow raises here while it records. A program must not fail only because it is recorded, so the error goes to sys.unraisablehook."""
    program = IMPORT + textwrap.dedent("""
        class Bad:
            def __str__(self):
                raise ValueError("no text")

        sys.unraisablehook = lambda told: print("told:", told.exc_value)
        start(sys.argv[2])
        try:
            with Trace("doc bad", before=1, bad=Bad(), after=2):
                pass
            print("goes on")
        except ValueError as error:
            print("raised:", error)
        stop()
    """)
    assert run_as("strobe", program, "logdir", tmp_path, python_package) == "told: no text\ngoes on\n"
    assert [stats for _, stats, _ in annotations(tmp_path / "logdir")] == [{"before": "1", "bad": "<unprintable>", "after": "2"}]
    assert run_as("tensorflow", program, "theirs", tmp_path, python_package) == "raised: no text\n"


EMPTY = """
with Trace("doc too early"):
    pass
with Profile(sys.argv[2], ProfilerOptions(host_tracer_level=3, python_tracer_level=0, device_tracer_level=1)) as profile:
    pass
with Trace("doc too late"):
    pass
if sys.argv[1] == "strobe":
    print(profile.manifest["run"])
"""


def test_a_recording_that_misses_the_work_is_saved_and_says_why(python_package, protos, tmp_path):
    """The document's first example: nothing runs while the profiler does. TensorFlow saves the empty trace without a word."""
    run_as("tensorflow", IMPORT + EMPTY, "theirs", tmp_path, python_package)
    assert annotations(tmp_path / "theirs") == []
    warned = 'import warnings\nwarnings.showwarning = lambda message, *_: print("warned:", message)\n'
    told = run_as("strobe", warned + IMPORT + EMPTY, "ours", tmp_path, python_package)
    assert annotations(tmp_path / "ours") == []
    inspected = subprocess.run([BIN / "strobe", "inspect", "ours/plugins/profile/" + told.splitlines()[-1], "--output", "json"], cwd=tmp_path,
                               capture_output=True, text=True, check=True)
    assert told.startswith("warned: ") and "NoHostEvents" in told, (told, inspected.stdout)
    (worker,) = json.loads(inspected.stdout)
    assert worker["verdict"]["outcome"] == "NoHostEvents" and worker["verdict"]["remedy"] and worker["verdict"]["evidence"], worker["verdict"]


def test_a_second_recording_at_the_same_time_is_refused(python_package, tmp_path):
    program = IMPORT + textwrap.dedent("""
        start(sys.argv[2])
        try:
            start("other")
        except Exception as error:
            print(error)
        stop()
    """)
    assert run_as("tensorflow", program, "theirs", tmp_path, python_package) == "Another profiler is running.\n"
    assert run_as("strobe", program, "ours", tmp_path, python_package).startswith("a capture is already running; call strobe.stop() first")


def test_what_the_document_on_empty_traces_invents_does_not_exist(python_package, protos, tmp_path):
    """`prof.trace`, `profile_name_scope`, `add_trace` and `save` are in no TensorFlow. The rest of its second example runs."""
    program = IMPORT + textwrap.dedent("""
        print([name for name in ("trace", "profile_name_scope", "add_trace", "save") if hasattr(Profile, name)])
        options = ProfilerOptions(
            host_tracer_level=3,
            python_tracer_level=1,
            device_tracer_level=1
        )
        with Profile(logdir=sys.argv[2], options=options) as prof:
            with Trace("doc my_op_name"):
                pass
    """)
    for kind in ("strobe", "tensorflow"):
        assert run_as(kind, program, kind, tmp_path, python_package) == "[]\n"
        assert [name for name, *_ in annotations(tmp_path / kind)] == ["doc my_op_name"], kind


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
    # A recording of a millisecond that begins at once is late where no processor is free, and says so.
    assert first in ("Ok", "LateStart") and kept == "kept" and empty.startswith("NoHostEvents 1 "), (done.stdout, done.stderr)
    assert len(list(tmp_path.glob("logdir/plugins/profile/*/*.xplane.pb"))) == 3, "each trace is saved, also the empty one"
