"""The document on tf.profiler.experimental.client.trace: what its reader tries, with TensorFlow and with Strobe."""

import json
import os
import subprocess
import textwrap
import threading
from concurrent import futures

import pytest

from tests.support.agent_rig import events
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON

ANNOTATED = """
import sys, time, strobe
server = strobe.server.start(int(sys.argv[1]))
print("ready", flush=True)
while True:
    with strobe.Trace("work"):
        time.sleep(0.002)
"""

# The loop with TensorFlow's own server and annotations.
STOCK = """
import sys, time
from tensorflow.profiler.experimental import Trace, server
server.start(int(sys.argv[1]))
print("ready", flush=True)
while True:
    with Trace("work"):
        time.sleep(0.002)
"""
# The packages that have client.trace.
CLIENTS = ["tensorflow.profiler.experimental", "strobe"]


@pytest.fixture
def environment(python_package):
    return {**os.environ, "PYTHONPATH": str(python_package), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.fixture
def python(environment, tmp_path):
    def run(program, *arguments):
        done = subprocess.run([PYTHON, "-c", textwrap.dedent(program), *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True,
                              timeout=120, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture
def start_server(group, environment, tmp_path):
    """Starts a program with a profiler server and returns the server's port. It runs in tmp_path."""

    def start(program=ANNOTATED):
        port = free_port()
        group.start(f"served-{port}", ["env", "-C", tmp_path, PYTHON, "-c", program, port], env=environment).wait_for("ready", 60)
        return port

    return start


@pytest.fixture
def server(start_server):
    """The port of a program that calls strobe.server.start(port), as the document's example."""
    return start_server()


def runs(logdir):
    return sorted(path.name for path in (logdir / "plugins/profile").iterdir())


def names_in(path):
    """The names of a trace's events, all planes together. Needs the fixture `protos`."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return {name for plane in space.planes for _, name, *_ in events(space, plane.name)}


def test_the_call_has_tensorflows_signature_and_options(python):
    out = python("""
        import inspect, strobe
        from tensorflow.profiler import experimental
        theirs, ours = (inspect.signature(package.client.trace).parameters for package in (experimental, strobe))
        assert [(name, theirs[name].default) for name in theirs] == [(name, ours[name].default) for name in list(ours)[:len(theirs)]]
        print(*list(ours)[len(theirs):])
        assert experimental.ProfilerOptions._fields == strobe.ProfilerOptions._fields
        assert tuple(experimental.ProfilerOptions()) == tuple(strobe.ProfilerOptions())
    """)
    assert out == "min_workers\n"


@pytest.mark.parametrize("package", CLIENTS)
@pytest.mark.parametrize("program", [STOCK, ANNOTATED], ids=["stock_server", "strobe_server"])
def test_each_client_records_each_server(start_server, python, protos, tmp_path, program, package):
    """With and without grpc://, into logdirs of every kind; the call blocks until the traces are there."""
    port = start_server(program)
    out = python(f"""
        import sys, time
        from pathlib import Path
        from {package} import client
        absolute = str(Path("absolute").resolve())
        for service_addr, logdir in ((f"grpc://localhost:{{sys.argv[1]}}", absolute), (f"localhost:{{sys.argv[1]}}", "file://" + absolute + "_url"),
                                     (f"localhost:{{sys.argv[1]}}", "relative"), (f"localhost:{{sys.argv[1]}}", Path("path"))):
            if isinstance(logdir, Path) and not {package!r}.startswith("strobe"):
                continue  # TensorFlow takes text only.
            before = time.monotonic()
            client.trace(service_addr, logdir, 500)
            print(time.monotonic() - before >= 0.5, sum(1 for _ in Path(".").glob("*/plugins/profile/*/*.xplane.pb")))
    """, port).splitlines()
    made = 4 if package == "strobe" else 3
    assert [line for line in out if line.startswith(("True", "False"))] == [f"True {number}" for number in range(1, made + 1)], out
    for logdir in ("absolute", "absolute_url", "relative", "path")[:made]:
        (trace,) = tmp_path.glob(f"{logdir}/plugins/profile/*/*.xplane.pb")
        assert "work" in names_in(trace), logdir


@pytest.mark.parametrize("package", CLIENTS)
def test_several_workers_each_save_a_trace_into_one_run(start_server, python, protos, tmp_path, package):
    """Strobe's own client also takes blanks after commas, records from one instant, and mixes servers of both kinds."""
    ports = [start_server(), start_server(), start_server(STOCK)]
    separator = ", " if package == "strobe" else ","
    out = python(f"""
        import sys
        from {package} import client
        manifest = client.trace({separator!r}.join("grpc://localhost:" + port for port in sys.argv[1:]), "logdir", 500)
        if manifest:
            print(manifest["synchronized"], manifest["skewErrorNs"] != "0", *(worker["outcome"] for worker in manifest["workers"]))
    """, *ports)
    (run,) = runs(tmp_path / "logdir")
    traces = sorted((tmp_path / "logdir/plugins/profile" / run).glob("*.xplane.pb"))
    assert len(traces) == 3 and all("work" in names_in(trace) for trace in traces)
    if package == "strobe":
        assert out == "True True Ok Ok Ok\n"


@pytest.mark.parametrize("package", CLIENTS)
def test_both_refuse_a_duration_that_is_not_above_zero(python, package):
    out = python(f"""
        from {package} import client
        for duration in (0, -1):
            try:
                client.trace("grpc://localhost:1", "logdir", duration)
            except Exception as error:
                print(type(error).__name__)
    """)
    assert out.split() == ["InvalidArgumentError"] * 2


EXAMPLES = """
  # Start a profiler server before your model runs.
  tf.profiler.experimental.server.start(6009)
  # (Model code goes here).
  # Send gRPC request to the profiler server to collect a trace of your model.
  tf.profiler.experimental.client.trace('grpc://localhost:6009',
                                        '/nfs/tb_log', 2000)
"""
EXAMPLES_GPUS = """
  # E.g. your worker IP addresses are 10.0.0.2, 10.0.0.3, 10.0.0.4, and you
  # would like to schedule start of profiling 1 second from now, for a
  # duration of 2 seconds.
  options['delay_ms'] = 1000
  tf.profiler.experimental.client.trace(
      'grpc://10.0.0.2:8466,grpc://10.0.0.3:8466,grpc://10.0.0.4:8466',
      'gs://your_tb_dir',
      2000,
      options=options)
"""


@pytest.mark.parametrize("package", CLIENTS)
def test_the_documents_first_example_runs_as_it_is(python, protos, tmp_path, package):
    """But for its port and its directory."""
    port = free_port()
    python(f"""
        import sys, textwrap, threading, time, types
        import {package}
        tf = types.SimpleNamespace(profiler=types.SimpleNamespace(experimental=sys.modules[{package!r}]))

        def model():
            while True:
                with tf.profiler.experimental.Trace("model code"):
                    time.sleep(0.002)

        threading.Thread(target=model, daemon=True).start()
        exec(textwrap.dedent(sys.argv[1]))
    """, EXAMPLES.replace("6009", str(port)).replace("/nfs/tb_log", str(tmp_path / "tb_log")))
    (trace,) = tmp_path.glob("tb_log/plugins/profile/*/*.xplane.pb")
    assert "model code" in names_in(trace)


def test_the_documents_example_with_a_delay_runs_as_it_is(start_server, python, protos, tmp_path):
    """But for its addresses and its bucket. `options` is a dict in the document; TensorFlow's own client takes none."""
    text = EXAMPLES_GPUS.replace("gs://your_tb_dir", str(tmp_path / "logdir"))
    for number in (2, 3, 4):
        text = text.replace(f"10.0.0.{number}:8466", f"localhost:{start_server()}")
    out = python("""
        import sys, textwrap, time, types
        import strobe
        tf = types.SimpleNamespace(profiler=types.SimpleNamespace(experimental=strobe))
        options, before = {}, time.monotonic()
        exec(textwrap.dedent(sys.argv[1]))
        print(time.monotonic() - before >= 3)
    """, text)
    assert out == "True\n"
    (run,) = runs(tmp_path / "logdir")
    assert len(list((tmp_path / "logdir/plugins/profile" / run).glob("*.xplane.pb"))) == 3


def test_both_ask_the_master_of_a_tpu_pod_for_the_same(python, protos):
    """A made master with Cloud TPU's protocol; no TPU is here. TensorFlow 2.21 refuses the document's own list, because it has no
    ports, and takes the first of the list, not service_addr, for the master."""
    import grpc
    from tensorflow import profiler_analysis_pb2 as pb

    asked = []

    def new_session(request, _):
        asked.append(request)
        return pb.NewProfileSessionResponse(empty_trace=False)

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.ProfileAnalysis", {
        "NewSession": grpc.unary_unary_rpc_method_handler(new_session, pb.NewProfileSessionRequest.FromString,
                                                          pb.NewProfileSessionResponse.SerializeToString)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with_ports = f"localhost:{port},10.0.0.3:8466,10.0.0.4:8466"
    for package, workers in (("strobe", "10.0.0.2,10.0.0.3,10.0.0.4"), ("strobe", with_ports), ("tensorflow.profiler.experimental", with_ports)):
        python(f"""
            import sys
            from {package} import client
            client.trace("grpc://localhost:" + sys.argv[1], "gs://your_tb_dir", 2000, sys.argv[2])
        """, port, workers)
    server.stop(None)
    plain, ours, theirs = asked
    assert list(plain.hosts) == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    assert list(ours.hosts) == list(theirs.hosts)
    for request in (plain, ours):
        assert request.repository_root.rstrip("/") == theirs.repository_root.rstrip("/")
        assert request.request.opts.duration_ms >= theirs.request.opts.duration_ms == 2000
        for field in ("version", "host_tracer_level", "device_tracer_level", "python_tracer_level", "enable_hlo_proto", "include_dataset_ops"):
            assert getattr(request.request.opts, field) == getattr(theirs.request.opts, field), field


def test_options_of_every_kind_are_taken(server, python):
    out = python("""
        import collections, sys, strobe
        from tensorflow.profiler.experimental import ProfilerOptions
        Own = collections.namedtuple("Own", "host_tracer_level delay_ms")
        for options in (ProfilerOptions(host_tracer_level=3), Own(1, None), {"device_tracer_level": 0}, strobe.ProfilerOptions(), None):
            print(strobe.client.trace(f"localhost:{sys.argv[1]}", "logdir", 50, options=options)["result"])
    """, server)
    assert out.split() == ["Succeeded"] * 5


def test_python_calls_of_a_stock_server_are_recorded(start_server, python, protos, tmp_path):
    """TensorFlow 2.21's own client gets none of them from the same server."""
    port = start_server(STOCK)
    for package in CLIENTS:
        python(f"""
            import sys
            from {package} import ProfilerOptions, client
            client.trace("grpc://localhost:" + sys.argv[1], {package!r}, 300, options=ProfilerOptions(python_tracer_level=1))
        """, port)
    ours, theirs = (names_in(next(tmp_path.glob(f"{package}/plugins/profile/*/*.xplane.pb"))) for package in reversed(CLIENTS))
    assert {"work", "$time sleep"} <= ours, ours
    assert "work" in theirs and "$time sleep" not in theirs, theirs


def test_python_calls_that_nobody_can_record_are_said(server, python):
    out = python("""
        import sys
        from strobe import client
        manifest = client.trace(f"localhost:{sys.argv[1]}", "logdir", 200, options={"python_tracer_level": 1})
        print(*manifest["workers"][0]["notes"])
    """, server)
    assert "Python calls were requested (tracers.python) but are missing" in out


def test_a_trace_that_could_not_be_saved_is_not_called_synchronized(server, tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--quiet", "--workers", f"localhost:{server}", "--attempts", "1",
                           "--logdir", tmp_path / "file/logdir", "--duration", "200ms"], capture_output=True, text=True, timeout=60)
    told = done.stdout + done.stderr
    assert done.returncode == 1 and "UploadFailed" in told and "synchronized: no" in told and "skew" not in told, told


def test_the_stock_client_needs_only_the_port_that_was_given(server, python, tmp_path):
    python("""
        import sys
        from tensorflow.profiler.experimental import client
        client.trace(f"grpc://localhost:{sys.argv[1]}", "logdir", 500)
    """, server)
    (trace,) = tmp_path.glob("logdir/plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size > 1000


@pytest.mark.parametrize("package", CLIENTS)
def test_one_dead_worker_of_two_does_not_cost_the_other_trace(server, python, tmp_path, package):
    out = python(f"""
        import sys, warnings
        from {package} import client
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            client.trace(f"localhost:{{sys.argv[1]}},localhost:1", "logdir", 500, num_tracing_attempts=1)
        print(*(str(w.message) for w in told if w.category is RuntimeWarning))
    """, server)
    assert len(list(tmp_path.glob("logdir/plugins/profile/*/*.xplane.pb"))) == 1
    if package == "strobe":
        assert out.startswith("1 of 2 workers were not recorded as requested: localhost_1: Unreachable"), out


def test_who_wants_all_workers_says_so(server, python, tmp_path):
    out = python("""
        import sys
        from strobe import client
        try:
            client.trace(f"localhost:{sys.argv[1]},localhost:1", "logdir", 500, num_tracing_attempts=1, min_workers=2)
        except client.UnavailableError as error:
            print(error)
    """, server)
    assert "at least 2 wanted" in out
    assert not list(tmp_path.glob("logdir/**/*.xplane.pb"))


def test_messages_name_arguments(python):
    out = python("""
        from strobe import client
        wrong = [dict(duration_ms=0), dict(duration_ms="2000"), dict(duration_ms=600_001), dict(num_tracing_attempts=11), dict(logdir=""),
                 dict(logdir="ftp://x"), dict(service_addr="nonsense"), dict(service_addr="localhost:1,"), dict(min_workers="many"),
                 dict(options={"host_tracer_level": 9}), dict(options={"host_tracer_levl": 1}), dict(options=5), dict(options={"delay_ms": -5})]
        for one in wrong:
            try:
                client.trace(**{**dict(service_addr="localhost:1", logdir="/tmp/x", duration_ms=10), **one})
                print(one, "was accepted")
            except client.InvalidArgumentError as error:
                print(error)
    """)
    lines = out.splitlines()
    expected = ["duration_ms must be a whole number from 1 to 600000, not 0", "duration_ms", "duration_ms", "num_tracing_attempts", "logdir", "logdir",
                "service_addr", "service_addr", "min_workers", "options host_tracer_level must be a whole number from 0 to 3, not 9",
                "options has no 'host_tracer_levl'", "options must be a ProfilerOptions or a dict", "options delay_ms"]
    assert len(lines) == len(expected)
    for line, part in zip(lines, expected):
        assert part in line and "--" not in line, line


def test_options_have_the_documented_fields(server, python, tmp_path):
    out = python("""
        import sys
        from strobe import ProfilerOptions, client
        options = ProfilerOptions(host_tracer_level=3, delay_ms=600)
        print(options, client.trace(f"localhost:{sys.argv[1]}", "logdir", 200, options=options)["result"])
    """, server)
    assert out == "ProfilerOptions(host_tracer_level=3, python_tracer_level=0, device_tracer_level=1, delay_ms=600) Succeeded\n"


def test_eight_recordings_in_a_row_are_all_kept(python, tmp_path):
    out = python("""
        import strobe
        for number in range(8):
            strobe.start("logdir")
            with strobe.Trace("work", number=number):
                pass
            print(strobe.stop()["run"])
    """).split()
    assert len(set(out)) == 8 and runs(tmp_path / "logdir") == sorted(out)
    # TensorFlow names its runs after the second, too, and replaces what is there.
    python("""
        from tensorflow.profiler.experimental import Trace, start, stop
        for number in range(8):
            start("theirs")
            with Trace("work", number=number):
                pass
            stop()
    """)
    assert 1 <= len(list(tmp_path.glob("theirs/plugins/profile/*/*.xplane.pb"))) < 8


def test_captures_that_choose_the_same_run_get_one_each(group, python_package, tmp_path):
    """At the same time, several per second, and one after the other; also beside a run of another tool."""
    foreign = tmp_path / "logdir/plugins/profile/taken"
    foreign.mkdir(parents=True)
    (foreign / "host.xplane.pb").write_bytes(b"theirs")
    ports = [free_port() for _ in range(4)]
    for port in ports:
        group.start(f"served-{port}", [PYTHON, "-c", ANNOTATED, port], env={"PYTHONPATH": str(python_package)}).wait_for("ready", 30)
    manifests = {}

    def capture(port, run):
        done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--quiet", "--output", "json", "--workers", f"localhost:{port}",
                               "--logdir", tmp_path / "logdir", "--duration", "200ms", "--run", run], capture_output=True, text=True, timeout=60)
        manifests[port, run] = json.loads(done.stdout)

    for run in ("mine", "taken"):
        threads = [threading.Thread(target=capture, args=(port, run)) for port in ports]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(manifest["result"] == "Succeeded" for manifest in manifests.values()), manifests
    names = [manifest["run"] for manifest in manifests.values()]
    assert sorted(names) == ["mine", "mine_2", "mine_3", "mine_4", "taken_2", "taken_3", "taken_4", "taken_5"]
    for manifest in manifests.values():
        directory = tmp_path / "logdir/plugins/profile" / manifest["run"]
        assert json.loads((directory / "strobe.json").read_text()) == manifest
        assert len(list(directory.glob("*.xplane.pb"))) == 1
    assert [path.name for path in foreign.iterdir()] == ["host.xplane.pb"]


IDLE = """
import sys, time, strobe
strobe.server.start(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(1000)
"""


def test_both_raise_unavailable_when_there_is_no_event(start_server, python):
    port = start_server(IDLE)
    out = python("""
        import sys
        from strobe import client as ours
        from tensorflow.profiler.experimental import client as theirs
        for client in (ours, theirs):
            try:
                client.trace(f"localhost:{sys.argv[1]}", "logdir", 100, num_tracing_attempts=1)
            except Exception as error:
                print("raised", type(error).__name__, "No trace event was collected" in str(error), "NoHostEvents" in str(error))
    """, port)
    # TensorFlow documents UnavailableError and raises a RuntimeError; ours is one, too.
    assert [line for line in out.splitlines() if line.startswith("raised")] == ["raised UnavailableError False True", "raised RuntimeError True False"], out


def test_attempts_without_an_event_leave_no_run_behind(start_server, python, tmp_path):
    port = start_server(IDLE)
    out = python("""
        import sys
        from strobe import client
        try:
            client.trace(f"localhost:{sys.argv[1]}", "logdir", 100, num_tracing_attempts=3)
        except client.UnavailableError as error:
            print(error.manifest["attempt"], error.manifest["workers"][0]["outcome"])
    """, port)
    assert out == "3 NoHostEvents\n"
    (left,) = runs(tmp_path / "logdir")
    assert left.endswith("_attempt3"), "the last one, which says why"
