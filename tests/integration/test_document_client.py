"""The document on tf.profiler.experimental.client.trace: what its reader tries, with TensorFlow and with Strobe."""

import json
import os
import subprocess
import textwrap
import threading

import pytest

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
def server(group, python_package, tmp_path):
    """The port of a program that calls strobe.server.start(port), as the document's example. It runs in tmp_path."""
    port = free_port()
    group.start("served", ["env", "-C", tmp_path, PYTHON, "-c", ANNOTATED, port], env={"PYTHONPATH": str(python_package)}).wait_for("ready", 30)
    return port


def runs(logdir):
    return sorted(path.name for path in (logdir / "plugins/profile").iterdir())


def test_the_stock_client_needs_only_the_port_that_was_given(server, python, tmp_path):
    python("""
        import sys
        from tensorflow.profiler.experimental import client
        client.trace(f"grpc://localhost:{sys.argv[1]}", "logdir", 500)
    """, server)
    (trace,) = tmp_path.glob("logdir/plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size > 1000


@pytest.mark.parametrize("package", ["tensorflow.profiler.experimental", "strobe"])
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
        assert out.startswith("1 of 2 workers were not recorded as asked: localhost_1: Unreachable"), out


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


def test_attempts_without_an_event_leave_no_run_behind(group, python_package, python, tmp_path):
    port = free_port()
    idle = "import sys, time, strobe; strobe.server.start(int(sys.argv[1])); print('ready', flush=True); time.sleep(1000)"
    group.start("idle", [PYTHON, "-c", idle, port], env={"PYTHONPATH": str(python_package)}).wait_for("ready", 30)
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
