"""The Python package as users get it: a wheel, installed, in programs of their own."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, PYTHON, ROOT, wait_until
from tests.support.agent_rig import AgentRig, events


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


@pytest.fixture
def python(python_package):
    """Runs a program with the installed package and nothing else from this repository."""

    def run(program, check=True, **env):
        result = subprocess.run([PYTHON, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, cwd="/",
                                env={**os.environ, "PYTHONPATH": str(python_package), **env})
        assert not check or result.returncode == 0, result.stderr
        return result

    return run


def test_every_documented_example_runs(python):
    out = python("""
        import doctest, strobe, strobe._trace
        tests = [doctest.DocTestParser().get_doctest(text, {"Trace": strobe.Trace, "scope": strobe.scope}, name, None, 0)
                 for name, text in (("strobe", strobe.__doc__), ("Trace", strobe.Trace.__doc__), ("scope", strobe.scope.__doc__), ("client", strobe.client.__doc__), ("profiler", strobe.profiler.__doc__), ("start", strobe.start.__doc__))]
        runner = doctest.DocTestRunner()
        for test in tests:
            runner.run(test)
        print(runner.tries, runner.failures)
    """).stdout.split()
    assert int(out[0]) >= 5 and out[1] == "0"


def captured(rig, group, python_package, program):
    """All events of a capture of the program, and those of its steps in their order."""
    group.start("python-program", [PYTHON, "-c", program], env={"STROBE_DIR": str(rig.dir), "PYTHONPATH": str(python_package), "PYTHONUNBUFFERED": "1"}).wait_for("ready", 20)
    manifest = rig.sidecar().capture("--host-tracer-level", "2")
    assert manifest["workers"][0]["outcome"] == "Ok", manifest
    found = events(rig.space())
    trains = sorted((e for e in found if e[1] == "train"), key=lambda e: e[2])
    return found, trains


def test_annotations_reach_the_trace(rig, protos, python_package, group):
    program = textwrap.dedent("""
        import threading, time, strobe

        @strobe.Trace("decorated", 2, kind="slow")
        def work(depth):
            return work(depth - 1) if depth else time.sleep(0.001)

        def other():
            while True:
                with strobe.Trace("other"):
                    time.sleep(0.002)

        threading.Thread(target=other, daemon=True).start()
        print("ready", flush=True)
        step = 0
        while True:
            with strobe.Trace("train", step_num=step, first=step == 0) as trace:
                trace.set_metadata(loss=0.5, name="a b")
                work(2)
            step += 1
    """)
    found, trains = captured(rig, group, python_package, program)
    steps = [e[4]["step_num"] for e in trains]
    assert len(steps) > 50 and steps == list(range(steps[0], steps[0] + len(steps)))
    assert trains[0][4] == {"step_num": steps[0], "_r": 1, "first": 0, "loss": 0.5, "name": "a b"}
    decorated = [e for e in found if e[1] == "decorated"]
    assert len(decorated) >= 3 * (len(trains) - 2) and decorated[0][4] == {"kind": "slow"}, "recursion has a scope for each call"
    assert len({line for line, name, *_ in found if name in ("train", "other")}) == 2


def test_each_way_to_enter_a_trace_is_recorded(rig, protos, python_package, group):
    program = textwrap.dedent("""
        import contextlib, time, strobe

        class Mine(strobe.Trace):
            def __enter__(self):
                return super().__enter__()

            def __call__(self):
                raise AssertionError("a with block does not call the object")

        print("ready", flush=True)
        step = 0
        while True:
            with strobe.Trace("train", step_num=step):
                by_hand = strobe.Trace("by hand")
                assert by_hand.__enter__() is by_hand and by_hand.__exit__(None, None, None) is None
                with contextlib.ExitStack() as stack:
                    assert type(stack.enter_context(strobe.Trace("stack"))) is strobe.Trace
                with Mine("subclass") as mine:
                    mine.set_metadata(part="x")
                by_class = strobe.Trace("class")
                strobe.Trace.__enter__(by_class)
                strobe.Trace.__exit__(by_class, None, None, None)
                for _ in range(2):
                    with by_class as same:
                        assert same is by_class
                assert by_class(lambda: 5)() == 5
                try:
                    with strobe.Trace("raises"):
                        raise KeyError
                except KeyError:
                    pass
                time.sleep(0.001)
            step += 1
    """)
    found, trains = captured(rig, group, python_package, program)
    assert len(trains) > 20
    for train in trains[1:-1]:  # The window may have cut the first and the last one.
        within = Counter(e[1] for e in found if train[2] <= e[2] and e[3] <= train[3])
        assert within == {"train": 1, "by hand": 1, "stack": 1, "subclass": 1, "class": 4, "raises": 1}


def test_a_scope_made_once_is_recorded_each_time(rig, protos, python_package, group):
    """Nested in itself, by two threads, by generators that leave it in another order, and as a decorator."""
    program = textwrap.dedent("""
        import threading, time, strobe

        nested, shared, later = strobe.scope("nested"), strobe.scope("shared", kind="a b", number=7), strobe.scope("later")
        quiet = strobe.scope("not asked for", 3)
        decorated = strobe.scope("decorated")(lambda: time.sleep(0.001))

        def other():
            while True:
                with shared:
                    time.sleep(0.002)

        def generator():
            with later, quiet:
                yield
                time.sleep(0.001)

        threading.Thread(target=other, daemon=True).start()
        print("ready", flush=True)
        step = 0
        while True:
            with strobe.Trace("train", step_num=step), nested, nested:
                with shared:
                    decorated()
                first, second = generator(), generator()
                next(first), next(second)
                list(first), list(second)
            step += 1
    """)
    found, trains = captured(rig, group, python_package, program)
    assert len(trains) > 20
    (line,) = {e[0] for e in trains}

    def within(train, name):
        return [e for e in found if e[0] == line and e[1] == name and train[2] <= e[2] and e[3] <= train[3]]

    for train in trains[1:-1]:  # The window may have cut the first and the last one.
        assert [len(within(train, name)) for name in ("nested", "shared", "later", "decorated", "not asked for")] == [2, 1, 2, 1, 0]
        outer, inner = sorted(within(train, "nested"), key=lambda e: e[2])
        assert outer[2] <= inner[2] and inner[3] <= outer[3]
        assert within(train, "shared")[0][4] == {"kind": "a b", "number": 7}
        assert all(e[3] - e[2] >= 1e9 for e in within(train, "later") + within(train, "decorated")), "at least 1 ms, in ps"
    assert len({e[0] for e in found if e[1] == "shared"}) == 2


def test_both_profilers_count_from_one_zero(rig, python_package):
    """JAX's trace counts from its own start. In the joined trace, simultaneous events of both have equal times."""
    port = free_port()
    program = textwrap.dedent(f"""
        import time, jax, strobe
        server = jax.profiler.start_server({port})
        print("ready", flush=True)
        while True:
            with jax.profiler.TraceAnnotation("theirs"):
                with strobe.Trace("ours"):
                    time.sleep(0.005)
    """)
    rig.start([PYTHON, "-c", program], {"PYTHONPATH": str(python_package), "JAX_PLATFORMS": "cpu"})
    manifest = rig.sidecar(framework=f"localhost:{port}").capture(duration="500ms")
    assert manifest["workers"][0]["outcome"] == "Ok", manifest
    space = rig.space()
    theirs = sorted(e[2:4] for e in events(space) if e[1] == "theirs")
    ours = sorted(e[2:4] for e in events(space, "/host:CPU [agent]") if e[1] == "ours")
    assert len(ours) > 20 and 0 <= ours[0][0] < 10e12, "from the trace's start, not from 1970"
    slack = 50e6  # 50 us, in ps: the two libraries read two clocks.
    inside = sum(any(begin - slack <= o[0] and o[1] <= end + slack for begin, end in theirs) for o in ours)
    # The two recordings do not begin and end with the same event, and a thread that is preempted between two readings is no fault.
    assert inside >= 0.95 * len(ours) - 3, (len(ours), inside)


def test_a_program_captures_itself(python, protos, tmp_path):
    out = python(f"""
        import json, threading, time, strobe
        def work():
            while True:
                with strobe.Trace("background"):
                    time.sleep(0.01)
        threading.Thread(target=work, daemon=True).start()
        try: strobe.stop()
        except RuntimeError as error: print(error)
        strobe.start({str(tmp_path)!r}, run="mine", options={{"host_tracer_level": 1}})
        try: strobe.start({str(tmp_path)!r})
        except RuntimeError as error: print(error)
        for step in range(20):
            with strobe.Trace("train", step_num=step):
                with strobe.Trace("not asked for", 2):
                    time.sleep(0.01)
        manifest = strobe.stop()
        print(manifest["run"], manifest["workers"][0]["outcome"], int(manifest["durationNs"]) < 60e9)
        strobe.start({str(tmp_path)!r}, run="given-up")
        print(strobe.stop(save=False))
        strobe.start({str(tmp_path)!r}, run="again")
        time.sleep(0.1)
        print(strobe.stop()["run"])
        try: strobe.start("wrong://place")
        except strobe.client.InvalidArgumentError as error: print(error)
    """).stdout.splitlines()
    assert out[0].startswith("nothing is being recorded") and out[1].startswith("a capture is already running")
    assert out[2:5] == ["mine Ok True", "None", "again"] and "wrong://place" in out[5]
    assert sorted(p.name for p in (tmp_path / "plugins/profile").iterdir()) == ["again", "mine"]
    from tensorflow import xplane_pb2

    (path,) = (tmp_path / "plugins/profile/mine").glob("*.xplane.pb")
    found = events(xplane_pb2.XSpace.FromString(path.read_bytes()))
    assert [e[4]["step_num"] for e in found if e[1] == "train"] == list(range(20)), "from start to stop, every step"
    assert {e[1] for e in found} == {"train", "background"}


def test_misuse_is_said_and_values_never_break_a_program(python):
    out = python("""
        import strobe
        for wrong in (lambda: strobe.Trace(), lambda: strobe.Trace(5), lambda: strobe.Trace("a", "b"), lambda: strobe.Trace("a", 4),
                      lambda: strobe.Trace("a", 1, 2), lambda: strobe.Trace(name=5), lambda: strobe.Trace("a").set_metadata(1), lambda: strobe.Trace("a")(3),
                      lambda: strobe.Trace("a")(), lambda: strobe.Trace("a")(None, None, None),
                      lambda: strobe.scope(), lambda: strobe.scope(5), lambda: strobe.scope("a", 4), lambda: strobe.scope("a", 1, 2), lambda: strobe.scope("a", step_num=1)):
            try:
                wrong()
                print("accepted")
            except (TypeError, ValueError) as error:
                print(type(error).__name__, error)

        class Bad:
            def __str__(self):
                raise RuntimeError("no")

        try:
            with strobe.Trace("a", bad=Bad()):
                raise KeyError("the program's own")
        except KeyError:
            print("kept")
        assert not strobe.active()
    """).stdout
    assert "accepted" not in out and "name must be one str" in out and "level must be 1" in out and out.endswith("kept\n")


def test_bad_values_while_recording(rig, protos, python_package, group):
    program = textwrap.dedent("""
        import time, strobe

        class Bad:
            def __str__(self):
                raise RuntimeError("no")

        print("ready", flush=True)
        while True:
            with strobe.Trace("bad", value=Bad()):
                pass
            with strobe.Trace("long", text="x" * 100_000):
                pass
            with strobe.Trace("unicode", text="\\u00e4"):
                time.sleep(0.005)
    """)
    # Long texts fill the usual ring in a second, for which a busy machine may leave the sidecar without a processor.
    environment = {"STROBE_DIR": str(rig.dir), "PYTHONPATH": str(python_package), "STROBE_RING_KB": "16384"}
    process = group.start("bad-program", [PYTHON, "-c", program], env=environment).wait_for("ready", 20)
    assert rig.sidecar().capture()["workers"][0]["outcome"] == "Ok"
    found = events(rig.space())
    names = {name for _, name, *_ in found}
    assert {"unicode", "bad", "long"} <= names
    assert next(e for e in found if e[1] == "bad")[4] == {"value": "<unprintable>"}
    long = next(e for e in found if e[1] == "long")[4]["text"]
    assert 60_000 < len(long) < 65_536 and long.endswith("x...")
    assert next(e for e in found if e[1] == "unicode")[4] == {"text": "\u00e4"}
    assert process.running()


# Records without a sidecar: sets the word `control` of the program's ring file, as one would.
RECORD = textwrap.dedent("""
    import glob, mmap, os, strobe
    (path,) = glob.glob(f"{os.environ['STROBE_DIR']}/agent/{os.getpid()}-*.rings")
    with open(path, "r+b") as file:
        mmap.mmap(file.fileno(), 4096)[256] = 1
    assert strobe.active()
""")


@pytest.mark.parametrize("handler, told", [("raise SystemExit(3)", "SystemExit(3)"), ("raise KeyboardInterrupt", "KeyboardInterrupt()"),
                                           ("raise TimeoutError('too long')", "TimeoutError('too long')")])
def test_what_a_signal_handler_raises_while_an_annotation_is_written_reaches_the_program(python, tmp_path, handler, told):
    """str() of a value is code in which a signal handler may run. The record is kept, and what comes after the value is not asked for."""
    out = python(RECORD + textwrap.dedent(f"""
        import signal, sys
        told = []
        sys.unraisablehook = lambda error: told.append(error.exc_value)

        def on_signal(*_):
            {handler}

        class Loss:
            def __str__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                return "1" * sum(1 for _ in range(10))

        signal.signal(signal.SIGTERM, on_signal)
        later = []
        later_loss = type("Later", (), {{"__str__": lambda self: later.append(1) or "late"}})()
        for prepare in (lambda: strobe.Trace("train", loss=Loss(), later=later_loss).__enter__().__exit__(None, None, None),
                        lambda: strobe.scope("train", loss=Loss(), later=later_loss)):
            try:
                prepare()
                print("swallowed")
            except BaseException as error:
                print(repr(error))
        assert not told and not later, (told, later)
        with strobe.Trace("after"):
            pass
        with open(path, "rb") as file:
            whole = file.read(1 << 20)
        assert b"train#loss=<unprintable>#" in whole and b"after" in whole
    """), STROBE_DIR=str(tmp_path)).stdout
    assert out.splitlines() == [told, told]


def test_a_signal_while_a_thread_is_named_reaches_the_program(python, tmp_path):
    out = python(RECORD + textwrap.dedent("""
        import signal, threading

        def on_signal(*_):
            raise SystemExit(3)

        signal.signal(signal.SIGTERM, on_signal)
        usual = threading.enumerate
        threading.enumerate = lambda: os.kill(os.getpid(), signal.SIGTERM) or usual()
        prepared = strobe.scope("prepared")
        for scope in (strobe.Trace("train"), prepared):
            try:
                with scope:
                    print("entered")
            except SystemExit as error:
                print(repr(error))
        threading.enumerate = usual
        with strobe.Trace("after"), prepared:
            print("recorded")
    """), STROBE_DIR=str(tmp_path)).stdout
    assert out.splitlines() == ["SystemExit(3)", "SystemExit(3)", "recorded"]


@pytest.fixture
def pod(python_package, tmp_path):
    """$STROBE_DIR as the sidecar's container fills it: the agent, and the package without one."""
    directory = tmp_path / "pod"
    unpack = "import sys, pathlib, target; target.python_package(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    subprocess.run([sys.executable, "-c", unpack, BUILD / "wheels", directory / "python"], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    (directory / "lib").mkdir()
    shutil.copy(BIN / "libstrobe_agent.so", directory / "lib")
    return directory


def test_the_package_of_a_pod_finds_the_pods_agent(python, pod):
    """It has no agent of its own: annotations were lost without a word."""
    assert not (pod / "python/strobe/lib").exists()
    out = python(RECORD + textwrap.dedent("""
        with strobe.Trace("recorded"):
            pass
        with open(path, "rb") as file:
            print(strobe.__file__, b"recorded" in file.read(1 << 20))
    """), STROBE_DIR=str(pod), PYTHONPATH=str(pod / "python")).stdout
    assert out.split() == [str(pod / "python/strobe/__init__.py"), "True"]


@pytest.mark.parametrize("agent", ["lib/libstrobe_agent.so", "elsewhere/libstrobe_agent.so"])
def test_a_program_with_the_wheel_shares_the_agent_that_cuda_loads(python, pod, agent):
    """CUPTI refuses the second of two agents in a process, and every capture of GPUs was Busy. CUDA's driver loads its agent by this path."""
    (pod / "elsewhere").mkdir()
    shutil.copy(BIN / "libstrobe_agent.so", pod / "elsewhere")
    out = python(f"""
        import ctypes, os, strobe
        ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"], mode=os.RTLD_NOW | os.RTLD_LOCAL).strobe_agent_api_v1()
        print(len(os.listdir({str(pod / "agent")!r})))
    """, STROBE_DIR=str(pod), CUDA_INJECTION64_PATH=str(pod / agent)).stdout
    assert out == "1\n"


def test_forked_children_record_for_themselves(rig, protos, python_package, group):
    program = textwrap.dedent("""
        import os, time, strobe
        name = "parent" if os.fork() else "child"
        print("ready", flush=True)
        while True:
            with strobe.Trace(name):
                time.sleep(0.002)
    """)
    parent = group.start("forking", [PYTHON, "-c", program], env={"STROBE_DIR": str(rig.dir), "PYTHONPATH": str(python_package)}).wait_for("ready", 20)
    manifest = rig.sidecar().capture()
    assert manifest["workers"][0]["outcome"] == "Ok", manifest
    lines = {name: line for line, name, *_ in events(rig.space())}
    assert set(lines) == {"parent", "child"} and lines["parent"] != lines["child"]
    subprocess.run(["pkill", "-KILL", "-P", str(parent.pid)])


def test_a_fork_by_a_thread_leaves_the_ring_to_its_thread(python, tmp_path):
    """In the child, the end of the thread must not release the ring in the parent's file: the parent's next thread would write into it too."""
    out = python(RECORD + textwrap.dedent("""
        import threading

        def work():
            with strobe.Trace("first"):
                pass
            pid = os.fork()
            if pid == 0:
                return  # The child ends with this thread.
            os.waitpid(pid, 0)
            other = threading.Thread(target=strobe.Trace("other")(lambda: None))
            other.start()
            other.join()
            with strobe.Trace("second"):
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with open(path, "rb") as file:
            print(int.from_bytes(file.read(516)[512:], "little"))  # `rings` of agent/wire/layout.h
    """), STROBE_DIR=str(tmp_path)).stdout
    assert out == "2\n"


def test_a_program_profiles_itself_with_nothing_around_it(python, tmp_path):
    out = python(f"""
        import glob, threading, time, strobe
        server = strobe.server.start(0)
        stop = threading.Event()
        def train():
            while not stop.is_set():
                with strobe.Trace("train"):
                    time.sleep(0.001)
        thread = threading.Thread(target=train)
        thread.start()
        for _ in range(4):  # On a busy machine a recording may start late, and this client sets no guard.
            manifest = strobe.client.trace(server.address, {str(tmp_path)!r}, 200, options={{"host_tracer_level": 1}})
            if manifest["workers"][0]["outcome"] != "LateStart":
                break
        stop.set()
        thread.join()
        print(manifest["result"], manifest["workers"][0]["outcome"], int(manifest["workers"][0]["events"]) > 20)
        server.stop()
        try:
            strobe.client.trace(server.address, {str(tmp_path)!r}, 200, num_tracing_attempts=1)
        except strobe.client.UnavailableError as error:
            print("Unavailable:", error, error.manifest["workers"][0]["outcome"])
        for wrong in (dict(duration_ms=0), dict(logdir=""), dict(service_addr="nonsense"), dict(num_tracing_attempts=0), dict(options=dict(host_tracer_level=9))):
            try:
                strobe.client.trace(**{{**dict(service_addr="localhost:1", logdir="/tmp/x", duration_ms=10), **wrong}})
            except strobe.client.InvalidArgumentError as error:
                print("InvalidArgument:", error)
    """).stdout.splitlines()
    assert out[0] == "Succeeded Ok True", out
    assert out[1].startswith("Unavailable: ") and out[1].endswith("Unreachable"), out[1]
    assert len(out) == 7 and all(line.startswith("InvalidArgument: ") for line in out[2:]), out


def test_every_rank_has_a_server_of_its_own_beside_the_injected_sidecar(rig, group, python, python_package, tmp_path):
    """Like the ranks that torchrun starts in an injected pod: they share the STROBE_DIR that the pod's sidecar serves."""
    rank = textwrap.dedent("""
        import sys, time, strobe
        server = strobe.server.start(0)
        print("ready", server.address, flush=True)
        while True:
            with strobe.Trace(f"rank-{sys.argv[1]}"):
                time.sleep(0.002)
    """)
    rig.sidecar()
    env = {"STROBE_DIR": str(rig.dir), "PYTHONPATH": str(python_package)}
    ranks = [group.start(f"rank-{i}", [PYTHON, "-c", rank, i], env=env).wait_for("ready", 30) for i in range(3)]
    addresses = [process.output().split()[1] for process in ranks]
    out = python(f"""
        import json, strobe
        manifest = strobe.client.trace({",".join(addresses)!r}, {str(tmp_path / "ranks")!r}, 300)
        print(json.dumps(manifest))
    """).stdout
    manifest = json.loads(out)
    assert [worker["outcome"] for worker in manifest["workers"]] == ["Ok"] * 3, manifest
    assert all(len(worker["processes"]) == 1 for worker in manifest["workers"]), "each server records its own rank"
    # The injected sidecar records all of them.
    (worker,) = rig.capture()["workers"]
    assert worker["outcome"] == "Ok" and len(worker["processes"]) == 3, worker
    assert {name for _, name, *_ in events(rig.space())} == {f"rank-{i}" for i in range(3)}


def test_a_program_of_an_injected_pod_records_itself(rig, python_package, tmp_path):
    """strobe.start works where the pod's own sidecar serves the directory, and leaves it as it was."""
    program = textwrap.dedent(f"""
        import time, strobe
        for attempt in range(3):  # On a busy machine, a recording may begin late, which it says.
            strobe.start({str(tmp_path)!r} + f"/own-{{attempt}}")
            for _ in range(50):
                with strobe.Trace("mine"):
                    time.sleep(0.002)
            manifest = strobe.stop()
            if manifest["workers"][0]["outcome"] != "LateStart":
                break
        print("ready", manifest["workers"][0]["outcome"], attempt, flush=True)
        while True:
            with strobe.Trace("later"):
                time.sleep(0.002)
    """)
    rig.sidecar()
    process = rig.start([PYTHON, "-c", program], {"PYTHONPATH": str(python_package)})
    assert process.output().split()[1] == "Ok"
    (worker,) = rig.capture()["workers"]
    assert worker["outcome"] == "Ok" and {name for _, name, *_ in events(rig.space())} == {"later"}, worker


def test_the_sidecar_ends_with_its_program(python, tmp_path):
    pid = int(python("""
        import os, strobe
        server = strobe.server.start(0)
        print(server._process.pid, flush=True)
        os._exit(0)
    """).stdout)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1][:3], 10, "the sidecar's end")


def test_a_client_with_tensorflows_options(python, trainers, tmp_path):
    out = python(f"""
        import collections, strobe
        Options = collections.namedtuple("ProfilerOptions", "host_tracer_level python_tracer_level device_tracer_level delay_ms")
        manifest = strobe.client.trace("grpc://localhost:{trainers[0].profiler_port}", {str(tmp_path)!r}, 100, "", 2, Options(2, 0, 1, None))
        print(manifest["result"], manifest["durationNs"])
    """).stdout
    assert out == "Succeeded 100000000\n"


def test_the_mxnet_style_profiler(python, tmp_path):
    """The example from MXNet's documentation, and what its objects write to the file and the table."""
    path = tmp_path / "chrome_tracing_profile.json"
    out = python(f"""
        import time
        from strobe import profiler
        profiler.set_config(profile_all=True,
                            filename={str(path)!r},
                            continuous_dump=True, dump_period=0.2,
                            aggregate_stats=True)
        domain = profiler.Domain("training")
        task, frame, event = domain.new_task("load"), domain.new_frame("iteration"), profiler.Event("step")
        counter, marker = domain.new_counter("images"), domain.new_marker("epoch")
        task.start(); task.stop()       # The profiler does not run yet.
        profiler.set_state('run')
        for _ in range(3):
            with frame:
                task.start(); time.sleep(0.01); task.stop()
            counter += 5
        counter -= 3; counter.set_value(100); counter.increment(); counter.decrement(2)
        marker.mark("thread")
        time.sleep(0.5)
        import os; print(os.path.exists({str(path)!r}))
        profiler.pause()
        with event: pass
        profiler.resume()
        with event: pass
        profiler.set_state('stop')
        print(profiler.dumps(format="json", sort_by="count"))
        print(profiler.dumps(sort_by="avg", ascending=True, reset=True))
        print(len(profiler.dumps().splitlines()))
        for wrong in (lambda: profiler.set_config(colour=1), lambda: profiler.set_config(profile_all=1), lambda: profiler.set_config(dump_period=0),
                      lambda: profiler.set_config(filename=""), lambda: profiler.set_state("go"), lambda: profiler.dumps(format="xml"),
                      lambda: profiler.dumps(sort_by="name"), lambda: marker.mark("here"), lambda: profiler.pause("server")):
            try:
                wrong()
                print("accepted")
            except ValueError as error:
                print("ValueError", error)
        profiler.set_state("run")
        try:
            profiler.set_config(profile_all=False)
        except RuntimeError as error:
            print(error)
    """).stdout
    lines = out.splitlines()
    assert lines[0] == "True", "dumped while it ran"
    stats = json.loads(lines[1])["time"]
    assert {name: row["count"] for name, row in stats.items()} == {"load": 3, "iteration": 3, "step": 1}
    assert stats["load"]["min"] >= 10 and stats["load"]["total"] >= 30 and stats["iteration"]["total"] >= stats["load"]["total"]
    assert [line.split()[0] for line in lines[4:7]] == ["step", "load", "iteration"]
    assert "2" in lines and out.count("ValueError") == 8 and out.count("accepted") == 1 and "set_state('stop') before set_config" in out
    trace = json.loads(path.read_text())
    # The file is from the last run, which was still in progress when the program ended.
    assert trace["traceEvents"] == [] and trace["otherData"] == {"dropped_events": 0}


def test_the_profilers_file_is_what_chrome_reads(python, tmp_path):
    path = tmp_path / "trace.json"
    python(f"""
        from strobe import profiler
        profiler.set_config(filename={str(path)!r})
        profiler.set_state("run")
        domain = profiler.Domain("training")
        with domain.new_task("load"): pass
        counter = domain.new_counter("images", 7)
        domain.new_marker("epoch").mark()
        profiler.dump()
    """)
    events = {e["name"]: e for e in json.loads(path.read_text())["traceEvents"]}
    assert events["thread_name"]["args"] == {"name": "MainThread"}
    assert events["load"]["ph"] == "X" and events["load"]["cat"] == "training" and events["load"]["dur"] >= 0
    assert events["images"]["ph"] == "C" and events["images"]["args"] == {"images": 7}
    assert events["epoch"]["ph"] == "i" and events["epoch"]["s"] == "p"


def test_the_wheel_carries_the_programs(python_package):
    env = {**os.environ, "PYTHONPATH": str(python_package)}
    for name in ("strobe", "strobe-sidecar"):
        result = subprocess.run([PYTHON, python_package / "bin" / name, "--version"], capture_output=True, text=True, env=env)
        assert result.returncode == 0 and result.stdout.strip() == "0.1.0", result.stderr
