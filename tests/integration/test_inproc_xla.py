"""JAX and TensorFlow in processes that nobody changed: the framework's own server, closed to other machines, or a session."""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.inproc import MS, Trainer
from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, PYTHON, ROOT, wait_until

JAX = BUILD / "jax"
VERSIONS = [*(ROOT / "tests/frameworks/jax_versions").read_text().split(), "newest"]
STALLS = ["0.4.38", "0.7.2"]  # Training stands still while a recording stops.
WITH_SERVER = [version for version in VERSIONS if version not in ("0.4.38", "0.7.2", "0.8.3")]
PLAIN_PYTHON = Path(sys.base_prefix) / "bin/python3"  # Cannot import TensorFlow.


def jax_trainer(group, directory, package, version, more_paths=(), **more):
    path = ":".join(str(part) for part in (package, JAX / version, JAX / "common", *more_paths) if part)
    command = [PLAIN_PYTHON, ROOT / "tests/e2e/framework_loop.py", "jax", directory / "notes.0", directory / "orders.0"]
    return Trainer(group, directory, path, framework="jax", command=command, **more)


@pytest.fixture
def trainer(group, tmp_path, python_package):
    return jax_trainer(group, tmp_path, python_package, "newest")


def steps_in(data):
    """{step_num: (begin, end)} in Unix nanoseconds, of the annotations "train"; and the profiler's start."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace.FromString(data)
    began = next((stat.uint64_value or stat.int64_value for plane in space.planes if plane.name == "Task Environment" for stat in plane.stats
                  if plane.stat_metadata[stat.metadata_id].name == "profile_start_time"), 0)
    found = set()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                if plane.event_metadata[event.metadata_id].name == "train":
                    found |= {stat.int64_value for stat in event.stats if plane.stat_metadata[stat.metadata_id].name == "step_num"}
    return found, began


def check_steps(trainer, data, begin_ns, end_ns):
    expected = {step[0] for step in trainer.steps(begin_ns, end_ns)}
    found, _ = steps_in(data)
    assert expected and expected <= found, (len(expected), len(found))


def ask_server(protos, address, duration_ms, start_ns=0, session="test"):
    import grpc
    from tensorflow import profiler_service_pb2 as pb
    from tensorflow import profiler_service_pb2_grpc

    stub = profiler_service_pb2_grpc.ProfilerServiceStub(grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]))
    request = pb.ProfileRequest(session_id=session, emit_xspace=True, repository_root="/proc/strobe")
    request.opts.version, request.opts.duration_ms, request.opts.host_tracer_level = 1, duration_ms, 2
    if start_ns:
        request.opts.start_timestamp_ns = start_ns
    return stub, stub.Profile.future(request, timeout=60)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_of_jax_is_recorded_by_a_session(group, tmp_path, python_package, protos, version):
    trainer = jax_trainer(group, tmp_path, python_package, version)
    announcement = trainer.announced()
    assert announcement["framework"] == "jax" and announcement["channel"] == ("server" if version in WITH_SERVER else "session"), announcement
    assert bool(announcement["address"]) == (version in WITH_SERVER)
    assert ("training pauses" in (announcement["note"] or "")) == (version in STALLS)
    client = trainer.client()
    start = client.capture(ahead_ms=300, may_stall=version in STALLS)
    done = client.until("done")
    assert done["format"] == "xspace" and start <= done["started_ns"], done
    data = (trainer.agent / done["file"]).read_bytes()
    assert len(data) == done["bytes"] and steps_in(data)[1] == done["started_ns"]
    check_steps(trainer, data, done["started_ns"], done["stopped_ns"])
    client = trainer.client()
    client.capture(duration_ms=60_000, may_stall=version in STALLS)
    client.until("recording")
    client.close()
    wait_until(lambda: trainer.names() == [done["file"]], 20, "the cancelled capture's end")
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(30) == 0 and not list(trainer.agent.glob("*.process"))


def test_the_server_is_recorded_by_a_client_of_this_machine(trainer, protos):
    start = time.time_ns() + 300 * MS
    _, answer = ask_server(protos, trainer.announced()["address"], 500, start)
    xspace = answer.result().xspace
    data = xspace if isinstance(xspace, bytes) else xspace.SerializeToString()
    _, began = steps_in(data)  # A busy machine begins late.
    check_steps(trainer, data, max(start, began) + 50 * MS, start + 450 * MS)


def test_the_programs_own_server_is_still_possible(trainer):
    trainer.announced()
    trainer.order("jax.profiler.start_server(0); jax.profiler.stop_server(); print('server', flush=True)")
    assert "server" in trainer.process.output()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_programs_own_trace_wins(group, tmp_path, python_package, protos, version):
    trainer = jax_trainer(group, tmp_path, python_package, version)
    trainer.announced()
    begin = f"jax.profiler.start_trace({str(tmp_path / 'own')!r}); print('began', flush=True)"
    end = "jax.profiler.stop_trace(); print('stopped', flush=True)"
    trainer.order(begin)
    client = trainer.client()
    client.capture()
    assert client.last()["outcome"] == "Busy"
    trainer.order(end)
    client = trainer.client()
    client.capture(ahead_ms=0, duration_ms=60_000, may_stall=version in STALLS)
    client.until("recording")
    time.sleep(0.3)
    trainer.order(begin)
    done = client.until("done")
    assert done["outcome"] == "Truncated", done
    check_steps(trainer, (trainer.agent / done["file"]).read_bytes(), done["started_ns"], done["stopped_ns"])
    trainer.order(end)
    trainer.order(begin)
    trainer.order(end)
    assert trainer.process.running() and trainer.process.output().count("stopped") == 3, trainer.process.output()
    assert len(list((tmp_path / "own").rglob("*.xplane.pb"))) >= 1
    client = trainer.client()
    client.capture(duration_ms=100, may_stall=version in STALLS)
    assert client.until("done")


def test_the_programs_own_trace_ends_a_session_of_the_server(trainer, protos, tmp_path):
    """The sidecar holds the turn while it records through the server, and ends its session when it is told to yield."""
    from tensorflow import profiler_service_pb2 as pb

    announcement = trainer.announced()
    holder = trainer.client()
    holder.ask(op="hold", id="test", start_ns=time.time_ns(), duration_ns=60_000 * MS)
    assert holder.read().items() >= {"state": "held", "leads": True, "joined": False}.items()
    stub, answer = ask_server(protos, announcement["address"], 60_000)
    time.sleep(1)
    trainer.order(f"jax.profiler.start_trace({str(tmp_path / 'own')!r}); print('began', flush=True)", wait=False)
    assert holder.read()["state"] == "yield"
    stub.Terminate(pb.TerminateRequest(session_id="test"), timeout=10)
    assert answer.result()
    holder.close()
    wait_until(lambda: "began" in trainer.process.output(), 20, "the program's trace")
    trainer.order("jax.profiler.stop_trace(); print('stopped', flush=True)")
    assert "stopped" in trainer.process.output() and trainer.trains()


# What XLA's profiler does when a session ends on an NVIDIA GPU. This machine has none, so JAX is made to say that it uses one.
ON_A_GPU = """
import ctypes
from jax._src import xla_bridge
xla_bridge._backends['cuda'] = xla_bridge._backends['cpu']
ctypes.CDLL({driver!r})
cupti = ctypes.CDLL({cupti!r})
"""
DETACH = "print('finalize', cupti.cuptiFinalize(), flush=True)"


@pytest.mark.parametrize("through", ["server", "session"])
def test_the_end_of_a_recording_does_not_detach_cupti(trainer, through):
    trainer.announced()
    trainer.order(ON_A_GPU.format(driver=str(BIN / "fakes/libcuda.so.1"), cupti=str(BIN / "fakes/13/libcupti.so.13")))
    trainer.order(DETACH)
    assert trainer.process.output().count("detached") == 1
    client = trainer.client()
    if through == "server":
        client.ask(op="hold", id="test", start_ns=time.time_ns(), duration_ns=1000 * MS)
        held = client.read()
        assert held["state"] == "held" and held["safe"] is True and "CUPTI stays attached" in held["note"]
    else:
        client.capture(duration_ms=100)
        assert "CUPTI stays attached" in client.until("prepared")["note"]
        client.until("recording")
    trainer.order(DETACH)
    client.close()
    trainer.order(DETACH)
    output = trainer.process.output()
    assert output.count("finalize 0") == 3 and output.count("detached") == 1 and trainer.trains(), output


def test_cupti_that_xla_will_only_load_is_not_detached_either(trainer, tmp_path):
    trainer.announced()
    wheel = tmp_path / "site/nvidia/cuda_cupti/lib/libcupti.so.13"
    wheel.parent.mkdir(parents=True)
    shutil.copy(BIN / "fakes/13/libcupti.so.13", wheel)
    trainer.order(f"""
import ctypes
from jax._src import xla_bridge
xla_bridge._backends['cuda'] = xla_bridge._backends['cpu']
ctypes.CDLL({str(BIN / "fakes/libcuda.so.1")!r})
sys.modules['jax_plugins.xla_cuda13'] = ctypes
sys.path.append({str(tmp_path / "site")!r})
""")
    client = trainer.client()
    client.capture(duration_ms=100)
    assert client.until("done")
    trainer.order(f"cupti = ctypes.CDLL({str(wheel)!r}); {DETACH}")
    output = trainer.process.output()
    assert "finalize 0" in output and "detached" not in output, output


@pytest.mark.parametrize("generation", ["12", "13"])
def test_a_recording_that_could_detach_cupti_is_refused(trainer, generation):
    """With CUDA 12, XLA counts on detaching it. With 13, its code cannot be replaced here."""
    trainer.announced()
    trainer.order(ON_A_GPU.format(driver=str(BIN / "fakes/libcuda.so.1"), cupti=str(BIN / f"fakes/{generation}/libcupti.so.{generation}")))
    if generation == "13":
        trainer.order("from strobe._inproc import cupti_detach; cupti_detach._RETURN_SUCCESS = {}")
    client = trainer.client()
    client.capture(duration_ms=100)
    last = client.last()
    assert last["outcome"] == "ProfilerStartFailed" and "STROBE_BOOTSTRAP=off" in last["message"], last
    client = trainer.client()
    client.ask(op="hold", id="test", start_ns=time.time_ns(), duration_ns=100 * MS)
    assert client.last()["outcome"] == "ProfilerStartFailed" and trainer.trains()


@pytest.mark.parametrize("through", ["server", "session"])
def test_the_end_of_the_program_does_not_wait_for_a_capture(trainer, protos, through):
    announcement = trainer.announced()
    if through == "server":
        _, answer = ask_server(protos, announcement["address"], 50_000)
        time.sleep(1)
    else:
        client = trainer.client()
        client.capture(ahead_ms=0, duration_ms=50_000)
        client.until("recording")
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(40) == 0, trainer.process.output()
    assert not list(trainer.agent.glob("*.process")) and not list(trainer.agent.glob("*.sock"))


def test_steps_are_told_while_the_program_holds_its_interpreter(trainer):
    """By the program's own notes. No thread of the program could answer meanwhile."""
    wait_until(lambda: len(trainer.steps(0, 1 << 63)) > 20 and trainer.agent.exists() and list(trainer.agent.glob("*.process")), 30, "steps")
    trainer.order("import ctypes; print('holds', flush=True); ctypes.PyDLL(None).usleep(5_000_000)", wait=False)
    trainer.process.wait_for("holds", 20)
    told, noted = trainer.told_steps()["train"], trainer.steps(0, 1 << 63)[-16:]
    assert [step.number for step in told] == [number for number, _, _ in noted]
    for step, (_, begin, end) in zip(told, noted):
        assert begin - MS // 20 <= step.began_ns < step.ended_ns <= end + MS // 20
    trainer.trains()


def test_steps_of_a_forked_child_are_not_told_as_its_parents(trainer):
    trainer.announced()
    step = "with jax.profiler.StepTraceAnnotation('train', step_num=10**9 + len(told)):\n        told.append(1)"
    trainer.order(f"told, child = [], os.fork()\nif child == 0:\n    {step}\n    {step}\n    os._exit(len(told))\nprint('child', os.waitpid(child, 0)[1] >> 8, flush=True)")
    trainer.process.wait_for("child 2", 20)
    trainer.trains()
    assert all(step.number < 10**9 for step in trainer.told_steps()["train"])


def test_a_forked_child_is_not_announced(trainer):
    trainer.announced()
    trainer.order("child = os.fork()\nif child == 0:\n    os._exit(0)\nprint('child', os.waitpid(child, 0)[1], flush=True)")
    assert "child 0" in trainer.process.output() and len(trainer.announcements()) == 1
    client = trainer.client()
    client.capture(duration_ms=100)
    assert client.until("done")


def test_a_program_that_never_uses_a_backend_is_not_announced(tmp_path, python_package):
    (tmp_path / "agent").mkdir()
    code = "import jax, os, threading, time; time.sleep(0.5); print(os.listdir(os.environ['STROBE_DIR'] + '/agent'), threading.active_count())"
    said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, env={
        **os.environ, "PYTHONPATH": str(python_package), "STROBE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu"})
    assert said.stdout == "[] 1\n", said


@pytest.mark.parametrize("off", [{"STROBE_BOOTSTRAP": "off"}, {"STROBE_DIR": ""}])
def test_it_can_be_switched_off(group, tmp_path, python_package, off):
    trainer = jax_trainer(group, tmp_path, python_package, "newest", env=off)
    time.sleep(1)
    assert trainer.announcements() == [] and "strobe" not in "".join(os.readlink(f"/proc/{trainer.process.pid}/fd/{fd}")
                                                                    for fd in os.listdir(f"/proc/{trainer.process.pid}/fd") if fd not in "012")


def test_tensorflow_with_one_import(group, tmp_path, python_package, protos):
    trainer = Trainer(group, tmp_path, python_package, framework="tensorflow")
    announcement = trainer.announced("tensorflow")
    assert announcement["channel"] == "server", announcement
    start = time.time_ns() + 300 * MS
    _, answer = ask_server(protos, announcement["address"], 500, start)
    xspace = answer.result().xspace
    check_steps(trainer, xspace if isinstance(xspace, bytes) else xspace.SerializeToString(), start + 50 * MS, start + 450 * MS)
    client = trainer.client(announcement)
    client.capture(framework="tensorflow")
    done = client.until("done")
    check_steps(trainer, (trainer.agent / done["file"]).read_bytes(), done["started_ns"], done["stopped_ns"])
    # The program's own session ends ours.
    client = trainer.client(announcement)
    client.capture(framework="tensorflow", ahead_ms=0, duration_ms=60_000)
    client.until("recording")
    trainer.order(f"tf.profiler.experimental.start({str(tmp_path / 'own')!r})")
    assert client.until("done")["outcome"] == "Truncated"
    trainer.order("tf.profiler.experimental.stop(); print('stopped', flush=True)")
    assert "stopped" in trainer.process.output() and list((tmp_path / "own").rglob("*.xplane.pb"))
    assert trainer.names() and not [name for name in trainer.names() if name.startswith(".")]
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(30) == 0


def test_tensorflows_session_takes_the_tracers_that_were_asked_for(group, tmp_path, python_package, protos):
    """From 2.20 on, a session ignores levels that are Python's ints, and warns of each in the program's output."""
    trainer = Trainer(group, tmp_path, python_package, framework="tensorflow", env={"STROBE_HOST_NETWORK": "true"})
    assert trainer.announced("tensorflow")["channel"] == "session"

    def recorded(host, python):
        from tensorflow import xplane_pb2

        client = trainer.client()
        client.capture(framework="tensorflow", tracers={"host": host, "device": 0, "python": python})
        space = xplane_pb2.XSpace.FromString((trainer.agent / client.until("done")["file"]).read_bytes())
        names = {plane.event_metadata[event.metadata_id].name for plane in space.planes for line in plane.lines for event in line.events}
        return "train" in names, any(name.startswith("$framework_loop.py") for name in names)

    assert recorded(host=2, python=0) == (True, False)
    assert recorded(host=2, python=1) == (True, True)
    assert recorded(host=0, python=0) == (False, False)
    assert "expects an" not in trainer.process.output()
    # A program that ends while it records leaves no folder of the session behind.
    client = trainer.client()
    client.capture(framework="tensorflow", ahead_ms=0, duration_ms=60_000)
    client.until("recording")
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(40) == 0 and not list(trainer.agent.glob(".*")), trainer.process.output()


def test_nothing_is_imported_while_tensorflow_is_found(tmp_path, python_package):
    """Python holds its import lock meanwhile, and a thread of the program that waits for it may itself be waited for."""
    package = tmp_path / "paths/tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import time; time.sleep(0.5)  # The service's thread begins.\n")
    code = ("import strobe, sys, threading; before = set(sys.modules); import tensorflow; "
            "print(sorted(set(sys.modules) - before), sys.modules['strobe._inproc']._service is not None)")
    said = subprocess.run([PLAIN_PYTHON, "-c", code], capture_output=True, text=True, timeout=60, env={
        **os.environ, "PYTHONPATH": f"{python_package}:{tmp_path / 'paths'}", "STROBE_DIR": str(tmp_path)})
    assert said.stdout == "['tensorflow'] True\n", said


NETWORKS = textwrap.dedent("""
    set -e
    ip link set lo up
    unshare --net sleep 300 & other=$!
    trap 'kill $other' EXIT
    until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
    ip link add ours type veth peer name theirs
    ip link set theirs netns $other
    ip addr add 10.99.0.1/24 dev ours
    ip link set ours up
    nsenter -t $other -n ip addr add 10.99.0.2/24 dev theirs
    nsenter -t $other -n ip link set theirs up
    echo $other > "$1"
    shift
    "$@"
""")


def can_connect(pid, host, port):
    """Whether a program in the network of a process can connect."""
    code = f"import socket; socket.create_connection(({host!r}, {port}), 5)"
    return subprocess.run(["nsenter", "-t", str(pid), "-n", sys.executable, "-c", code], capture_output=True).returncode == 0


def listening_ports(pid):
    """Returns the ports on which programs in the network of a process listen."""
    listed = subprocess.run(["nsenter", "-t", str(pid), "-n", "ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    return {int(line.split()[3].rsplit(":", 1)[1]) for line in listed.splitlines()}


def trainer_in_a_network(group, directory, package, start=None, **more):
    """A trainer with the address 10.99.0.1, and the ID of a process that can reach it from another network."""
    if subprocess.run(["unshare", "--net", "ip", "link", "add", "first", "type", "veth", "peer", "name", "second"], capture_output=True).returncode != 0:
        pytest.skip("this machine cannot make networks")
    other_file = directory / "other"
    start = start or functools.partial(jax_trainer, version="newest")
    trainer = start(group, directory, package, wrap=["unshare", "--net", "sh", "-c", NETWORKS, "sh", other_file], **more)
    return trainer, int(other_file.read_text())


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_a_stranger_in_another_network_is_refused(group, tmp_path, python_package, framework):
    """On every port of the pod, and so is who uses the pod's own address."""
    start = functools.partial(Trainer, framework="tensorflow") if framework == "tensorflow" else None
    trainer, stranger = trainer_in_a_network(group, tmp_path, python_package, start)
    announcement = trainer.announced(framework)
    port, inside = int(announcement["address"].rsplit(":", 1)[1]), announcement["pid"]
    ports = listening_ports(inside)
    assert port in ports, (port, ports)
    # The program's own server, which is open, shows that the network is there.
    trainer.order("import socket; open_one = socket.create_server(('::', 7777), family=socket.AF_INET6, dualstack_ipv6=True); print('open', flush=True)")
    shown = json.loads(subprocess.run(["nsenter", "-t", str(inside), "-n", "ip", "-j", "addr", "show", "ours"], capture_output=True, text=True).stdout)
    addresses = [("10.99.0.1", "10.99.0.1")]
    addresses += [(f"{info['local']}%theirs", f"{info['local']}%ours") for info in shown[0]["addr_info"] if info["family"] == "inet6"]
    for seen_by_stranger, own in addresses:
        wait_until(lambda: can_connect(stranger, seen_by_stranger, 7777) and can_connect(inside, own, 7777), 20, f"the open server at {own}")
        for closed in ports:
            assert not can_connect(stranger, seen_by_stranger, closed), (seen_by_stranger, closed)
            assert not can_connect(inside, own, closed), (own, closed)
    assert can_connect(inside, "127.0.0.1", port)


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_no_server_is_started_on_the_hosts_network(group, tmp_path, python_package, protos, framework):
    """The node's other programs would reach it over the loopback: without the variable, a program that is no part of the pod does."""
    def start(directory, **more):
        directory.mkdir()
        if framework == "jax":
            return jax_trainer(group, directory, python_package, "newest", **more)
        return Trainer(group, directory, python_package, framework=framework, **more)

    host, port = start(tmp_path / "pod").announced()["address"].split(":")
    with socket.create_connection((host, int(port)), 5):
        pass
    trainer = start(tmp_path / "host", env={"STROBE_HOST_NETWORK": "true"})
    announcement = trainer.announced()
    assert announcement["channel"] == "session" and announcement["address"] is None and announcement["listens"] == [], announcement
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert f"pid={announcement['pid']}," not in listening, listening
    client = trainer.client()
    client.capture(framework=framework, duration_ms=500)
    done = client.until("done")
    check_steps(trainer, (trainer.agent / done["file"]).read_bytes(), done["started_ns"], done["stopped_ns"])


def test_the_programs_own_server_can_be_closed_to_others(group, tmp_path, python_package):
    """What strobe.dev/close-profiler-port does."""
    trainer, stranger = trainer_in_a_network(group, tmp_path, python_package, env={"STROBE_CLOSE_PROFILER_PORT": "9012"})
    inside = trainer.announced()["pid"]
    trainer.order("import socket; open_one = socket.create_server(('0.0.0.0', 7777)); jax.profiler.start_server(9099); print('9099', flush=True)")
    assert "9099" in trainer.process.output() and not can_connect(stranger, "10.99.0.1", 9099), "closed when the call returns"
    assert not can_connect(inside, "10.99.0.1", 9099), "not even by the pod's own address"
    assert can_connect(inside, "127.0.0.1", 9099) and can_connect(inside, "::1", 9099)
    assert can_connect(stranger, "10.99.0.1", 7777), "other sockets are left alone"
    wait_until(lambda: trainer.announced()["closed"] == [9099], 10, "the announcement")
    assert {9099, 7777} <= set(trainer.announced()["listens"])


def test_a_server_from_before_is_closed_by_its_port(group, tmp_path, python_package):
    """The program's server may be there before Strobe's part. The agent starts that part late."""
    (tmp_path / "strobe/agent").mkdir(parents=True)
    trainer, stranger = trainer_in_a_network(group, tmp_path, None, env={"STROBE_CLOSE_PROFILER_PORT": "9012,9013"})
    trainer.order("jax.profiler.start_server(9012)")
    assert can_connect(stranger, "10.99.0.1", 9012)
    trainer.order(f"sys.path.insert(0, {str(python_package)!r}); import strobe_bootstrap; strobe_bootstrap.start()")
    wait_until(lambda: trainer.announced()["closed"] == [9012], 10, "the announcement")
    assert not can_connect(stranger, "10.99.0.1", 9012) and can_connect(trainer.announced()["pid"], "127.0.0.1", 9012)


def test_tensorflows_own_server_can_be_closed_to_others(group, tmp_path, python_package):
    trainer = Trainer(group, tmp_path, python_package, framework="tensorflow", env={"STROBE_CLOSE_PROFILER_PORT": "9012"})
    trainer.announced("tensorflow")
    port = free_port()
    trainer.order(f"tf.profiler.experimental.server.start({port})")
    wait_until(lambda: trainer.announced("tensorflow")["closed"] == [port], 10, "the announcement")
    assert trainer.trains()


def test_a_capture_goes_through_a_port_that_is_closed_to_others(group, tmp_path, python_package, protos):
    """The sidecar shares the pod's loopback, so that closing the program's port takes nothing from it."""
    port = free_port()
    trainer = jax_trainer(group, tmp_path, python_package, "newest", env={"STROBE_CLOSE_PROFILER_PORT": str(port)})
    trainer.announced()
    trainer.order(f"jax.profiler.start_server({port})")
    wait_until(lambda: trainer.announced()["closed"] == [port], 10, "the announcement")
    # The announcement is not shown to the sidecar: it asks the program's own server, by its port.
    sidecar = free_port()
    group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{sidecar}", "--framework", f"127.0.0.1:{port}",
                            "--insecure-plaintext"]).wait_for("strobe-sidecar serves", 20)
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", f"127.0.0.1:{sidecar}", "--logdir", tmp_path / "logdir",
                           "--duration", "300ms", "--guard", "1s", "--output", "json", "--attempts", "1", "--quiet"], capture_output=True, text=True, timeout=60)
    (worker,) = json.loads(done.stdout)["workers"]
    assert worker["outcome"] == "Ok" and worker["processes"][0]["name"] == f"127.0.0.1:{port}", worker
    assert trainer.trains()
