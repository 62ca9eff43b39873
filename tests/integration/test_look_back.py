"""Captures that reach back before their start, held against what the programs noted themselves."""

import fcntl
import json
import os
import signal
import time

import grpc
import pytest

from tests.support import oracle
from tests.support.agent_rig import AgentRig, events
from tests.support.ports import free_port
from tests.support.processes import BIN, start_ticks, wait_until
from tests.support.workers import Worker

SECOND = 1_000_000_000
KERNEL = "add_floats(float*, int)"
ARMED, FLUSHED, LEFT_TO_SERVER, LEFT_TO_KINETO = 4, 5, 6, 7  # See DevicePhase in agent/wire/layout.h.


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


def agents_row(worker):
    (row,) = [row for row in worker["processes"] if row["source"] == "SOURCE_AGENT"]
    return row


def kill_and_look_back(rig, program):
    """Kills the program after three seconds, and captures. When it was killed, the manifest, and the worker in it."""
    time.sleep(3)
    program.kill()
    killed = time.time_ns()
    time.sleep(2)
    manifest = rig.capture("--look-back", "20s", duration="100ms", run="crash")
    (worker,) = manifest["workers"]
    return killed, manifest, worker


def test_a_capture_asks_how_far_to_reach_back(rig):
    """Not only by the sidecar's flag. Where nobody recorded before, the manifest says so."""
    rig.sidecar(flags=["--flight-recorder", "1s"])
    rig.noting("rank=0")
    time.sleep(4)
    manifest = rig.capture("--look-back", "3s", duration="100ms", run="long")
    (worker,) = manifest["workers"]
    assert worker["outcome"] == "Ok" and int(manifest["lookBackNs"]) == int(worker["reachedBackNs"]) == 3 * SECOND, worker
    begin = int(manifest["instantNs"]) - int(manifest["guardNs"]) - 3 * SECOND
    noted = oracle.within(oracle.read_notes(rig.dir.parent / "notes.txt"), begin, int(manifest["instantNs"]))
    found = oracle.steps_of(rig.space("long"))
    assert len(noted) > 50 and not [note for note in noted if found[note.process, note.step] == 0], "every step that the program noted is there"
    (worker,) = rig.capture("--look-back", "1m", duration="100ms", run="longer")["workers"]
    assert 4 * SECOND < int(worker["reachedBackNs"]) < 60 * SECOND, "since the program began"
    rig.process.stop()
    rig.sidecar()
    (worker,) = rig.capture("--look-back", "3s", duration="100ms", run="none")["workers"]
    assert worker["outcome"] == "Ok" and worker["reachedBackNs"] == "0", worker


def test_what_a_killed_program_did_last_can_be_looked_back_at(rig):
    rig.sidecar(flags=["--flight-recorder", "1s"])
    program = rig.noting("rank=0")
    killed, _, worker = kill_and_look_back(rig, program)
    row = agents_row(worker)
    assert worker["outcome"] == row["outcome"].title() == "Ok", worker
    assert "had ended before the capture without exiting normally; its last record ended" in row["message"], row
    noted = oracle.within(oracle.read_notes(rig.dir.parent / "notes.txt"), killed - 2 * SECOND, killed)
    found = oracle.steps_of(rig.space("crash"))
    assert len(noted) > 50 and not [note for note in noted if found[note.process, note.step] == 0], "its last two seconds"
    # A capture that is not asked to reach back finds nobody, and takes nothing away.
    (worker,) = rig.capture(run="nobody")["workers"]
    assert worker["outcome"] == "NoSource", worker
    rig.noting("rank=0", notes="second.txt")
    (worker,) = rig.capture("--look-back", "20s", duration="100ms", run="again")["workers"]
    assert worker["outcome"] == "Ok" and len([row for row in worker["processes"] if row["source"] == "SOURCE_AGENT"]) == 2, worker
    assert all(oracle.steps_of(rig.space("again"))[note.process, note.step] for note in noted)


def phase_is(rig, phase, seconds=20, path=None):
    return wait_until(lambda: rig.header(path)["device_phase"] == phase, seconds, f"phase {phase} of recording the devices")


def rings_of(rig, program):
    (path,) = (rig.dir / "agent").glob(f"{program.pid}-*.rings")
    return path


def test_the_gpus_are_there_from_before_too(rig):
    """The program launches ten kernels in each step, which it annotates: none of a step may be missing, from before the request on."""
    program = rig.cuda_program(50, 10)
    rig.sidecar(flags=["--flight-recorder", "2s", "--flight-recorder-devices"])
    phase_is(rig, ARMED)
    time.sleep(2.5)
    for run in ("first", "second"):  # It is recorded again after a capture.
        manifest = rig.capture("--look-back", "2s", duration="100ms", run=run)
        (worker,) = manifest["workers"]
        assert worker["outcome"] == "Ok" and agents_row(worker)["devicesReachedBackNs"] == str(2 * SECOND), worker
        space = rig.space(run)
        assert not space.warnings and not space.errors, (space.warnings, space.errors)
        host, kernels = events(space), [e for e in events(space, "/device:GPU:0") if e[1] == KERNEL]
        steps = [e for e in host if e[1] == "train"]
        assert len(steps) > 80, "two seconds before the start"
        launches = {e[4]["correlation_id"]: e for e in host if e[1] == "cuLaunchKernel" and "correlation_id" in e[4]}
        launched = {e[4]["correlation_id"] for e in kernels}
        # The steps at the ends may lack what lies beyond them.
        for _, _, begin, end, _ in steps[1:-1]:
            inside = [number for number, e in launches.items() if begin <= e[2] and e[3] <= end]
            assert len(inside) == 10 and launched.issuperset(inside), (begin, len(inside))
        assert min(e[2] for e in kernels) < SECOND * 1000 // 10, "from the beginning of the trace on"
        phase_is(rig, ARMED)
        time.sleep(2.5)
    assert program.popen.poll() is None


def test_a_ring_of_the_gpus_that_is_too_small_says_how_far_it_reaches(rig):
    rig.cuda_program(50, 1000)
    rig.sidecar(flags=["--flight-recorder", "2m", "--flight-recorder-devices"])
    phase_is(rig, ARMED)
    time.sleep(8)
    rig.capture(duration="100ms")
    space = rig.space()
    (warning,) = [text for text in space.warnings if "GPUs" in text]
    assert "its GPUs were recorded only for the last" in warning and "2m were requested" in warning, warning
    names = {e[1] for e in events(space, "/device:GPU:0")}
    assert KERNEL in names and "?" not in names, "texts and devices are described again before they are overwritten"
    assert "cuLaunchKernel" in {e[1] for e in events(space)}


def test_what_the_gpus_of_a_killed_program_did_last_can_be_looked_back_at(rig):
    program = rig.cuda_program(100, 10)
    rig.sidecar(flags=["--flight-recorder", "1s", "--flight-recorder-devices"])
    phase_is(rig, ARMED)
    killed, manifest, worker = kill_and_look_back(rig, program)
    assert worker["outcome"] == "Ok" and "had ended before the capture" in agents_row(worker)["message"], worker
    kernels = [e for e in events(rig.space("crash"), "/device:GPU:0") if e[1] == KERNEL]
    # CUPTI had not handed over what was in its last buffer.
    assert len(kernels) > 1000
    begin = int(manifest["instantNs"]) - int(manifest["guardNs"]) - 20 * SECOND
    assert killed - 2 * SECOND < begin + max(e[3] for e in kernels) // 1000 < killed + SECOND // 10


def test_nothing_stays_armed_without_the_sidecar(rig):
    program = rig.cuda_program(100, 5)
    flags = ["--flight-recorder", "1s", "--flight-recorder-devices"]
    rig.sidecar(flags=flags)
    phase_is(rig, ARMED)
    # A sidecar that is stopped for a while goes on afterwards.
    rig.process.popen.send_signal(signal.SIGSTOP)
    phase_is(rig, FLUSHED)
    rig.process.popen.send_signal(signal.SIGCONT)
    phase_is(rig, ARMED)
    rig.process.kill()
    phase_is(rig, FLUSHED)
    rig.sidecar(flags=flags)
    phase_is(rig, ARMED)
    rig.process.stop()
    assert rig.header()["device_wish"] and rig.header()["device_phase"] in (ARMED, FLUSHED)
    phase_is(rig, FLUSHED, 2)
    assert program.popen.poll() is None


def test_programs_with_a_profiler_of_their_own_get_their_gpus_back(rig):
    """CUPTI has one subscriber: the framework's profiler would find it taken."""
    port, late_port = free_port(), free_port()
    program = rig.cuda_program(100, 5)
    loads = rig.cuda_program(100, 5, env={"LOAD_ON_USR1": str(BIN / "fakes/libtorch_cpu.so")})
    server = rig.cuda_program(100, 5, env={"LISTEN": str(port)})
    listens = rig.cuda_program(100, 5, env={"LISTEN_ON_USR1": str(late_port)})
    rings, loads_rings, server_rings, listens_rings = (rings_of(rig, one) for one in (program, loads, server, listens))
    rig.sidecar(framework=f"localhost:{port},localhost:{late_port}", flags=["--flight-recorder", "1s", "--flight-recorder-devices"])
    phase_is(rig, ARMED, path=rings)
    phase_is(rig, ARMED, path=loads_rings)
    phase_is(rig, LEFT_TO_SERVER, path=server_rings)
    phase_is(rig, ARMED, path=listens_rings)
    loads.popen.send_signal(signal.SIGUSR1)
    listens.popen.send_signal(signal.SIGUSR1)
    pid = program.pid
    began = start_ticks(pid)
    announcement = rig.dir / f"agent/{pid}-{began}.process"
    with open(announcement, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # As strobe._inproc holds it.
        file.write(json.dumps({"format": 1, "pid": pid, "began": began, "framework": "jax", "socket": f"{pid}-{began}.sock"}))
        file.flush()
        phase_is(rig, FLUSHED, 5, rings)
        phase_is(rig, LEFT_TO_KINETO, 15, loads_rings)
        time.sleep(2)
        assert rig.header(rings)["device_phase"] == FLUSHED
        os.remove(announcement)
    phase_is(rig, ARMED, 5, rings)
    phase_is(rig, LEFT_TO_SERVER, 15, listens_rings)
    assert rig.header(server_rings)["device_phase"] == LEFT_TO_SERVER
    assert all(program.popen.poll() is None for program in rig.programs)


def test_a_refusal_is_told_by_the_capture(rig):
    faults = {"subscribe=39": "BUSY", "enable:10=35": "PERMISSION_DENIED"}
    programs = {rig.cuda_program(100, 5, cupti=fault).popen.pid: outcome for fault, outcome in faults.items()}
    rig.sidecar(flags=["--flight-recorder", "1s", "--flight-recorder-devices"])
    time.sleep(8)
    (worker,) = rig.capture("--look-back", "1s")["workers"]
    rows = [row for row in worker["processes"] if row["source"] == "SOURCE_AGENT"]
    assert {int(row["name"].split()[1]): row["outcome"] for row in rows} == programs, worker
    assert not any("devicesReachedBackNs" in row for row in rows), "nothing was recorded"
    assert all(program.popen.poll() is None for program in rig.programs)


# In a pod with TPUs. JAX's own server has the protocol; without a TPU, its snapshots are empty.
TPU_POD = ["--flight-recorder", "10s", "--flight-recorder-devices", "--tpu-metrics", "localhost:1"]
RECORDS = "a profiler server records TPUs at all times"


class JaxServer:
    """A JAX trainer with its own profiler server, and a client of that."""

    def __init__(self, group):
        from tensorflow import profiler_service_pb2, profiler_service_pb2_grpc

        self.pb = profiler_service_pb2
        self.worker = Worker(group, "jax").start_trainer().wait()
        self.address = f"localhost:{self.worker.profiler_port}"
        channel = grpc.insecure_channel(self.address, options=[("grpc.max_receive_message_length", -1)])
        self.stub = profiler_service_pb2_grpc.ProfilerServiceStub(channel)

    def begin(self):
        request = self.pb.ProfileRequest(session_id="somebody", emit_xspace=True)
        request.opts.version, request.opts.host_tracer_level = 1, 2
        self.stub.StartContinuousProfiling(request, timeout=20)

    def snapshot(self):
        return self.stub.GetSnapshot(self.pb.GetSnapshotRequest(), timeout=30)

    def refusal(self, call):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        return refused.value.code()


@pytest.fixture
def jax_server(group, protos):
    return JaxServer(group)


def test_a_profiler_server_records_at_all_times_and_gives_way_to_captures(rig, jax_server):
    rig.sidecar(framework=jax_server.address, flags=TPU_POD)
    rig.process.wait_for(RECORDS, 20)
    assert jax_server.refusal(jax_server.begin) == grpc.StatusCode.ALREADY_EXISTS
    (worker,) = rig.capture(run="window")["workers"]
    assert worker["outcome"] == "Ok" and any(e[1] == "train" for e in events(rig.space("window"))), worker
    wait_until(lambda: rig.process.output().count(RECORDS) == 2, 20, "another session after the capture")
    (worker,) = rig.capture("--look-back", "3s", run="back")["workers"]
    assert worker["outcome"] == "NoDeviceActivity" and worker["reachedBackNs"] == "0", worker
    assert "no activity of TPUs in the window or in 3s before it" in worker["message"], worker
    assert jax_server.refusal(jax_server.begin) == grpc.StatusCode.ALREADY_EXISTS, "the server goes on"
    rig.process.stop()
    assert jax_server.refusal(jax_server.snapshot) == grpc.StatusCode.NOT_FOUND, "the session has ended"
    assert jax_server.worker.trainer.running()


def test_a_killed_sidecar_leaves_a_session_that_the_next_one_knows(rig, jax_server):
    rig.sidecar(framework=jax_server.address, flags=[*TPU_POD, "--state-dir", rig.logdir.parent])
    rig.process.wait_for(RECORDS, 20)
    rig.process.kill()
    assert jax_server.refusal(jax_server.begin) == grpc.StatusCode.ALREADY_EXISTS
    rig.sidecar(framework=jax_server.address, flags=[*TPU_POD, "--state-dir", rig.logdir.parent])
    rig.process.wait_for(RECORDS, 20)
    assert rig.capture()["workers"][0]["outcome"] == "Ok"
    rig.process.stop()
    assert jax_server.refusal(jax_server.snapshot) == grpc.StatusCode.NOT_FOUND


def test_continuous_profiling_of_another_client_is_left_alone(rig, jax_server):
    jax_server.begin()
    rig.sidecar(framework=jax_server.address, flags=TPU_POD)
    rig.process.wait_for("of another client", 20)
    (worker,) = rig.capture("--look-back", "3s", run="back")["workers"]
    assert worker["outcome"] == "Busy", worker
    (row,) = worker["processes"]
    assert f"does not reach back: {jax_server.address}: continuous profiling of another client" in row["note"], row
    rig.process.stop()
    assert b"train" in jax_server.snapshot().xspace, "it has what it recorded"
    jax_server.stub.StopContinuousProfiling(jax_server.pb.StopContinuousProfilingRequest(), timeout=20)


def test_without_tpus_no_server_is_asked(rig, jax_server):
    rig.sidecar(framework=jax_server.address, flags=TPU_POD[:3])
    (worker,) = rig.capture("--look-back", "3s")["workers"]
    assert worker["outcome"] == "Ok" and not worker["processes"][0]["note"], worker
    assert jax_server.refusal(jax_server.snapshot) == grpc.StatusCode.NOT_FOUND
