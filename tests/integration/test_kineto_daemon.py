"""Kineto's on-demand protocol: the sidecar is the daemon that unchanged programs with PyTorch look for. Real PyTorch (build/torch).

Pods have network namespaces of their own, because the daemon's abstract name is that of the whole namespace.
"""

import random
import re
import signal
import socket
import subprocess
import time

import pytest

from tests.integration.test_unchanged import check_operators as compare_operators, host_stats, trace_of
from tests.support.inproc import TORCH_PYTHON, torch_package
from tests.support.kineto import BUSY_MACHINE, DAEMON, DROPPED, Pod, await_phase, client_socket, kill, kineto_rows, question, result
from tests.support.mounts import small_file_system
from tests.support.network import own_network
from tests.support.processes import ROOT, Group, wait_until
from tests.support.step_rig import host_events

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


@pytest.fixture(scope="module", autouse=True)
def network():
    try:
        with own_network():
            yield
    except OSError as error:
        pytest.skip(f"no network namespace: {error}")


@pytest.fixture
def pod(group, protos):
    """A pod in a network of its own, because the one of `shared` may have its daemon."""
    with own_network():
        pod = Pod(group)
        yield pod
        group.stop()
    pod.close()


@pytest.fixture(scope="module")
def shared(protos, tmp_path_factory):
    """A pod with one trainer, for tests that leave it as it was."""
    with Group(tmp_path_factory.mktemp("logs")) as group:
        pod = Pod(group).start_sidecar()
        pod.loop = pod.trainer()
        pod.await_clients(1)
        yield pod
    pod.close()


def check_operators(pod, trainer, worker):
    """Checks the operators of the window that was asked for. Captures have a guard, because Kineto notes the start of its recording up to
    milliseconds before its first operator."""
    begin, end = worker["window"]
    found, expected = compare_operators(trainer, {"startedNs": begin, "stoppedNs": end}, pod.dir, run=worker["run"])
    assert found == expected


def test_an_unchanged_program_is_captured(shared):
    sources, lead = shared.sources()
    (source,) = sources.values()
    assert source.address == f"torch {shared.loop.process.pid}" and source.detail.startswith("Kineto, polls every 1"), source
    # A second between questions, a second of warm-up, a second of Kineto's own, and a margin.
    assert 3.3 <= lead < 4
    worker = shared.capture(run="one")
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    (row,) = kineto_rows(worker)
    assert row["name"] == f"torch {shared.loop.process.pid}" and row["outcome"] == "OK" and row["source"] == "SOURCE_FRAMEWORK"
    check_operators(shared, shared.loop, worker)
    assert shared.leftovers() == [], "the process's own file is gone"
    # Without the warm-up of GPUs the same. On a machine without a free processor Kineto may drop a request that it has read, and it does not
    # say why. The outcome then says so, and the next capture works.
    for run in ("two", "two-again"):
        worker = shared.capture("--device-tracer-level", "0", run=run)
        if worker["outcome"] == "Ok":
            break
        assert worker["outcome"] == "ProfilerStartFailed" and "read the request but did not begin" in worker["message"], worker
    assert worker["outcome"] == "Ok", worker
    check_operators(shared, shared.loop, worker)
    assert shared.loop.trains()


def test_python_functions_are_recorded_if_asked_for(shared):
    worker = shared.capture("--python-tracer-level", "1", run="python", duration="100ms")
    assert worker["outcome"] == "Ok", worker
    assert any(name.startswith("torch_loop.py") or "torch/" in name for name, _, _ in host_events(trace_of(shared.dir, worker["run"])))


def test_options_of_the_request_are_in_the_trace(shared):
    worker = shared.capture("--shapes", "--flops", "--modules", run="options", duration="100ms")
    assert worker["outcome"] == "Ok" and not worker["notes"], worker
    events = list(host_stats(shared.dir, worker["run"]))
    products = [stats for name, stats in events if name == "aten::mm" and stats.get("Input Dims") == "[[64, 32], [32, 64]]"]
    assert products and {stats["flops"] for stats in products} == {2 * 64 * 32 * 64}
    assert any(name.startswith("nn.Module: Linear") for name, _ in events)


def test_garbage_and_forged_questions_harm_nobody(shared):
    """Also while a capture is under way: what is counted is not used, and the capture is as without it."""
    before = shared.refused()
    process = shared.begin("--duration", "500ms", run="garbage")
    random.seed(5)
    forger = client_socket(b"-forger")
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stranger.bind(b"\0somebody\0")
    unbound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    good = question([shared.loop.process.pid])
    sent = 0
    while process.poll() is None:
        for sender in (forger, stranger, unbound):
            sender.setblocking(False)
            for data in (random.randbytes(random.randrange(1, 300)), b"", b"x" * 100_000, good[:-1], good + b"x", good[:8] + b"ctxt" + good[12:]):
                try:
                    sender.sendto(data, DAEMON)
                    sent += 1
                except BlockingIOError:
                    pass
        try:
            forger.sendto(good, DAEMON)  # In the trainer's name, which the kernel does not confirm.
            stranger.sendto(good, DAEMON)
        except BlockingIOError:
            pass
        time.sleep(0.05)
    worker = {**result(process), "run": "garbage"}
    assert worker["outcome"] == "Ok", worker
    assert [row["outcome"] for row in kineto_rows(worker)] == ["OK"], worker
    check_operators(shared, shared.loop, worker)
    after = shared.refused()
    assert after["garbage"] - before["garbage"] > sent / 2 and after["forged"] > before["forged"]
    assert len(shared.sources()[0]) == 1
    forger.setblocking(True)
    forger.settimeout(0.1)
    with pytest.raises(TimeoutError):
        forger.recv(4096)


def test_strangers_that_ask_by_the_rules_are_rows_and_bounded(shared):
    """A process may ask without having PyTorch. It gets an order, does nothing, and the worker's outcome names it."""
    import os
    import threading

    ended = threading.Event()
    strangers = [client_socket(b"-%03d" % i) for i in range(80)]

    def ask():
        while not ended.wait(0.5):
            for stranger in strangers:
                try:
                    stranger.sendto(question([os.getpid()]), DAEMON)
                except OSError:
                    pass

    before = shared.refused()["full"]
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        wait_until(lambda: shared.refused()["full"] > before, 20, "the table to be full")
        assert len(shared.sources()[0]) == 64
    finally:
        ended.set()
        thread.join()
    for stranger in strangers[1:]:
        stranger.close()
    wait_until(lambda: len(shared.sources()[0]) <= 2, 10, "those who ended to be forgotten")
    ended.clear()
    del strangers[1:]
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        shared.await_clients(2)
        worker = shared.capture(run="stranger")
    finally:
        ended.set()
        thread.join()
        strangers[0].close()
    rows = {row["name"]: row for row in kineto_rows(worker)}
    trainer = rows[f"torch {shared.loop.process.pid}"]
    assert trainer["outcome"] == "OK", trainer
    stranger = rows[f"torch {os.getpid()}"]
    assert stranger["outcome"] == "PROFILER_START_FAILED" and "read the request but did not begin" in stranger["message"], stranger
    assert worker["outcome"] == "ProfilerStartFailed" and int(worker["events"]) > 100, "what there is of the trainer is kept"
    wait_until(lambda: len(shared.sources()[0]) == 1, 10, "it to be forgotten")


def test_the_programs_own_profiler_wins(shared):
    begin = "own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]); own.__enter__(); train()"
    end = ("train(); own.__exit__(None, None, None); events = own.profiler.kineto_results.events(); "
           "print('own', sum(event.name() == 'aten::addmm' for event in events), flush=True); del own, events")
    # Before: the order is held until it is too late.
    shared.loop.order(begin)
    worker = shared.capture(run="busy")
    assert worker["outcome"] == "Busy" and "its profiler was in use" in worker["message"], worker
    shared.loop.order(end)
    # In mid-capture: it ends ours.
    process = shared.begin("--duration", "1900ms", run="preempted")
    wait_until(lambda: any(name.endswith(".tmp") for name in shared.leftovers()), 20, "the recording to be accepted")
    time.sleep(1.5)
    shared.loop.order(begin)
    worker = result(process)
    assert worker["outcome"] == "Busy" and "own profiler session" in worker["message"], worker
    shared.loop.order(end)
    assert shared.leftovers() == []
    counts = [int(line.split()[1]) for line in shared.loop.process.output().splitlines() if line.startswith("own ")]
    assert len(counts) == 2 and all(count >= 4 for count in counts), "its own traces are complete"
    assert shared.loop.trains()


def test_nothing_can_call_a_recording_off_and_the_outcome_says_so(shared):
    process = shared.begin("--duration", "1900ms", run="off")
    wait_until(shared.leftovers, 20, "the recording to be accepted")
    process.terminate()
    worker = result(process)
    assert worker["outcome"] == "Cancelled", worker
    (row,) = kineto_rows(worker)
    assert row["outcome"] == "CANCELLED" and "cannot cancel a request; its trace will be removed" in row["message"], row
    # The next capture waits for its end, or is told of it.
    for attempt in range(5):
        worker = shared.capture(run=f"next-{attempt}")
        print(attempt, worker["outcome"], worker["message"])
        if worker["outcome"] == "Ok":
            break
        assert worker["outcome"] == "Busy", worker
        assert "still recording for an earlier capture" in worker["message"] or "was in use" in worker["message"], worker
    assert worker["outcome"] == "Ok", worker
    wait_until(lambda: shared.leftovers() == [], 20, "what the cancelled one left to be removed")
    assert shared.loop.trains()


def test_an_early_end_keeps_the_recording(shared):
    process = shared.begin("--duration", "1900ms", run="early")
    await_phase(process, ": record,")
    wait_until(shared.leftovers, 20, "the recording to be accepted")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    worker = result(process)
    assert worker["outcome"] == "Ok" and int(worker["events"]) > 100, worker
    # Before anything was told, there is nothing to keep.
    process = shared.begin("--duration", "500ms", "--delay", "20s", run="too-early")
    await_phase(process, ": delay,")
    process.send_signal(signal.SIGINT)
    assert result(process)["outcome"] != "Ok"
    worker = shared.capture(run="after-early")
    assert worker["outcome"] == "Ok", worker


def test_of_a_long_window_the_beginning_is_recorded(pod):
    pod.start_sidecar("--kineto-max-duration", "300ms")
    trainer = pod.trainer()
    pod.await_clients(1)
    worker = pod.capture(duration="2s")
    assert worker["outcome"] == "LateStart" and "only the first 300ms" in worker["message"], worker
    assert int(worker["events"]) > 100
    assert trainer.trains()


def test_both_ranks_of_a_torchrun_are_captured(pod):
    pod.start_sidecar()
    directory = pod.dir / "run"
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_loop.py", directory / "notes", directory / "orders"]
    trainer = pod.trainer("run", command=command)
    pod.await_clients(3, 60)
    worker = pod.capture(busy=(*BUSY_MACHINE, DROPPED))
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    rows = kineto_rows(worker)
    assert len(rows) == 2, "the launcher runs no operator and is no worker"
    assert all(row["outcome"] == "OK" and int(row["events"]) > 100 for row in rows)
    starts = [int(row["startedNs"]) for row in rows]
    print(f"skew of two ranks: {(max(starts) - min(starts)) / 1e6:.2f} ms")
    assert all(int(worker["startedNs"]) >= start for start in starts), "the worker's start is the latest"
    assert trainer.process.running()


def test_who_announced_itself_is_not_recorded_twice(pod, python_package):
    pod.start_sidecar()
    trainer = pod.trainer(package=python_package)
    trainer.announced()
    assert [source.detail for source in pod.sources()[0].values() if "Kineto" in source.detail] == []
    worker = pod.capture()
    assert worker["outcome"] == "Ok", worker
    assert kineto_rows(worker) == [] and worker["processes"][0]["name"] == f"torch_loop.py {trainer.process.pid}"


# A stand-in for PyTorch before 2.7, whose profiler has no setting for all threads. Strobe looks for it when it announces the process.
AS_BEFORE_2_7 = """
import os, runpy, sys
import torch
original = torch._C._profiler._ExperimentalConfig
def before_2_7(**options):
    if "profile_all_threads" in options:
        raise TypeError
    return original(**options)
torch._C._profiler._ExperimentalConfig = before_2_7
torch.__version__ = os.environ["AS_VERSION"]
del os.environ["STROBE_BOOTSTRAP"]
import strobe_bootstrap
strobe_bootstrap.start("torch")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def trainer_as_before_2_7(pod, package, version="2.6.0", **env):
    command = [TORCH_PYTHON, "-c", AS_BEFORE_2_7, ROOT / "tests/e2e/torch_loop.py", pod.dir / "train/notes", pod.dir / "train/orders"]
    trainer = pod.trainer(package=package, command=command, STROBE_BOOTSTRAP="off", AS_VERSION=version, **env)
    assert trainer.announced()["refuses"] == (version == "2.6.0"), trainer.announced()
    return trainer


def test_versions_that_kineto_would_crash_are_refused(pod, python_package):
    pod.start_sidecar()
    trainer = trainer_as_before_2_7(pod, python_package, version="2.3.1+cu121")
    wait_until(lambda: any(source.ready for source in pod.sources()[0].values()), 20, "a source")
    worker = pod.capture()
    assert worker["outcome"] == "VersionMismatch" and "PyTorch 2.3.1" in worker["message"], worker
    assert kineto_rows(worker) == [], worker
    assert trainer.trains()


def test_an_announced_process_that_cannot_record_itself_is_recorded_by_kineto(pod, python_package):
    pod.start_sidecar()
    trainer = trainer_as_before_2_7(pod, python_package, LOCAL_RANK="3")
    wait_until(lambda: trainer.announced()["kineto"], 20, "the announcement of Kineto's socket")
    pod.await_clients(1)
    assert [source.address for source in pod.sources()[0].values() if source.ready] == [f"torch {trainer.process.pid}"]
    worker = pod.capture()
    assert worker["outcome"] == "Ok", worker
    assert [row["name"] for row in worker["processes"] if row["name"].startswith("torch")] == [f"torch {trainer.process.pid}"], worker
    assert kineto_rows(worker)[0]["rank"]["localRank"] == 3, worker
    check_operators(pod, trainer, worker)
    assert trainer.trains()


def test_it_is_refused_by_name_where_another_daemon_has_the_socket(pod, python_package):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as squatter:
        squatter.bind(DAEMON)
        pod.start_sidecar()
        trainer = trainer_as_before_2_7(pod, python_package)
        rows = {row["name"]: row for row in pod.capture()["processes"]}
        row = rows[f"torch_loop.py {trainer.process.pid}"]
        assert row["outcome"] == "VERSION_MISMATCH" and "2.7 records all" in row["message"], rows


def test_sockets_may_be_files(pod):
    """For pods on the host's network, where abstract names would be those of the whole node."""
    pod.start_sidecar("--kineto-socket-files")
    trainer = pod.trainer(KINETO_IPC_SOCKET_DIR=str(pod.kineto))
    pod.await_clients(1)
    worker = pod.capture()
    assert worker["outcome"] == "Ok", worker
    check_operators(pod, trainer, worker)
    assert trainer.trains()
    with pytest.raises(ConnectionRefusedError):
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", DAEMON)


def test_programs_that_ask_every_five_seconds_need_a_longer_lead(pod):
    pod.start_sidecar()
    trainer = pod.trainer(KINETO_CONFIG="/nowhere")
    wait_until(lambda: any(source.ready for source in pod.sources()[0].values()), 20, "the program")
    assert pod.sources()[1] >= 7.3
    worker = pod.capture()
    assert worker["outcome"] == "Ok", worker
    check_operators(pod, trainer, worker)


def test_where_the_program_may_not_write_the_message_says_what_to_set(pod):
    pod.start_sidecar()
    trainer = pod.trainer(KINETO_ONDEMAND_TRACE_DIR="/nowhere/")
    pod.await_clients(1)
    worker = pod.capture()
    assert worker["outcome"] == "ProfilerStartFailed" and "$KINETO_ONDEMAND_TRACE_DIR" in worker["message"], worker
    assert trainer.trains()
    subprocess.run(["rm", "-f", f"/tmp/libkineto_activities_{trainer.process.pid}.json"], check=True)


def test_a_full_volume_is_told(pod):
    pod.kineto.mkdir(parents=True)
    with small_file_system(pod.kineto, "256k") as mounted:
        assert mounted
        pod.start_sidecar()
        trainer = pod.trainer()
        pod.await_clients(1)
        worker = pod.capture()
        assert worker["outcome"] == "SpoolFull" and "stopped writing its trace" in worker["message"], worker
        assert pod.leftovers() == [] and trainer.trains()
        pod.group.stop()


def check_that_a_kill_is_told(pod, trainer):
    pod.await_clients(1)
    process = pod.begin("--duration", "1900ms", run="killed")
    wait_until(pod.leftovers, 20, "the recording to be accepted")
    time.sleep(1.5)
    kill(trainer.process)
    worker = result(process)
    assert worker["outcome"] == "WorkerLost" and "was lost while it recorded" in worker["message"], worker
    assert pod.leftovers() == []
    worker = pod.capture(run="after")
    assert worker["outcome"] == "NoSource", "a later capture does not wait for it"
    assert "torch::global_kineto_init()" in worker["message"], "nor for a program without Python that never asked"


def test_a_program_that_is_killed_is_told(pod):
    pod.start_sidecar()
    check_that_a_kill_is_told(pod, pod.trainer())


@pytest.fixture(scope="module")
def libtorch(tmp_path_factory):
    """A directory with a training loop that links the wheel's libraries, and with the library that docs/how-to/without-python.md makes."""
    place, package = tmp_path_factory.mktemp("libtorch"), torch_package()
    (place / "kineto_init.c").write_text(re.search(r"```c\n(.*?)```", (ROOT / "docs/how-to/without-python.md").read_text(), re.DOTALL)[1])
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", place / "kineto_init.so", place / "kineto_init.c"], check=True)
    source, loop = ROOT / "tests/e2e/libtorch_loop.cc", place / "libtorch_loop"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-isystem", package / "include"]
    subprocess.run(["ccache", "g++", *flags, "-c", source, "-o", f"{loop}.o"], check=True)
    libraries = [f"-L{package / 'lib'}", f"-Wl,-rpath,{package / 'lib'}", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", f"{loop}.o", "-o", loop, *libraries], check=True)
    return place


def libtorch_trainer(pod, libtorch, name, *flags, **env):
    trainer = pod.trainer(name, command=[libtorch / "libtorch_loop", pod.dir / name / "notes.0", *flags], **env)
    assert trainer.operators()["aten::mm"] == 2, "PyTorch counted what the source says"
    return trainer


def test_a_program_without_python_is_captured_if_it_calls_kineto(pod, libtorch):
    pod.start_sidecar()
    silent = libtorch_trainer(pod, libtorch, "silent")
    trainer = libtorch_trainer(pod, libtorch, "train", "ask")
    pod.await_clients(1)
    assert list(pod.sources()[0]) == [f"torch {trainer.process.pid}"]
    worker = pod.capture()
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    assert [row["name"] for row in kineto_rows(worker)] == [f"torch {trainer.process.pid}"], "the other program does not ask"
    check_operators(pod, trainer, worker)
    assert silent.trains()
    check_that_a_kill_is_told(pod, trainer)


def test_an_unchanged_program_without_python_is_captured_if_a_library_is_preloaded(pod, libtorch):
    pod.start_sidecar()
    trainer = libtorch_trainer(pod, libtorch, "train", LD_PRELOAD=str(libtorch / "kineto_init.so"))
    pod.await_clients(1)
    worker = pod.capture()
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    check_operators(pod, trainer, worker)
    assert trainer.trains()


def test_another_daemon_is_left_in_peace(pod):
    """As dynolog has the name: the worker says so, and the sidecar takes over when it is gone."""
    squatter = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    squatter.bind(DAEMON)
    pod.start_sidecar()
    sources, lead = pod.sources()
    assert "another daemon, such as dynolog" in sources["Kineto's daemon"].detail and lead < 2
    worker = pod.capture()
    assert worker["outcome"] == "NoSource" and "another daemon" in worker["message"], worker
    trainer = pod.trainer()
    assert squatter.recv(4096), "the program asks whoever has the name"
    squatter.close()
    pod.await_clients(1)
    worker = pod.capture(run="after")
    assert worker["outcome"] == "Ok", worker
    assert trainer.trains()


def test_a_sidecar_may_be_restarted_at_any_time(pod):
    pod.start_sidecar()
    trainer = pod.trainer()
    for phase, seconds in {"idle": None, "waiting": 0, "told": 0, "recording": 1.8, "writing": 2.9}.items():
        pod.await_clients(1)
        if seconds is not None:
            process = pod.begin("--duration", "1s", run=f"cut-{phase}")
            await_phase(process, ": record,")
            if phase != "waiting":
                wait_until(pod.leftovers, 20, "the recording to be accepted")
            time.sleep(seconds)
        kill(pod.sidecar)
        if phase == "recording":
            assert result(process)["outcome"] == "WorkerLost"
        elif seconds is not None:
            process.kill()  # It would wait for the worker.
            process.communicate()
        pod.start_sidecar()
        pod.await_clients(1)
        wait_until(lambda: pod.leftovers() == [], 20, "what its predecessor asked for to be removed")
        worker = pod.capture(run=f"after-{phase}", duration="1s")
        assert worker["outcome"] == "Ok", (phase, worker)
        check_operators(pod, trainer, worker)
    assert trainer.trains()
