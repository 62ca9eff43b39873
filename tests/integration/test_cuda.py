"""Programs that use CUDA, recorded through the agent and CUPTI. The driver and CUPTI are fakes with the true record
structs of CUDA 12 and 13; tests/gpu/run does the same on a real GPU."""

import json
import signal
import textwrap
import time

import pytest

from tests.support.agent_rig import AgentRig, events, plane, value_of
from tests.support.processes import BIN, PYTHON, ROOT, wait_until

FAKES = BIN / "fakes"


class Rig(AgentRig):
    def capture(self, *flags, run="r", duration="500ms"):
        (worker,) = super().capture(*flags, run=run, duration=duration)["workers"]
        return worker


@pytest.fixture
def rig(group, tmp_path, protos):
    return Rig(group, tmp_path)


def plane_stats(found):
    return {found.stat_metadata[stat.metadata_id].name: value_of(found, stat) for stat in found.stats}


def test_devices_of_a_trainer_with_a_profiler_server_are_the_servers(rig, trainers):
    """The agent then records annotations only, and this is not a fault."""
    rig.cuda_program(100, 10)
    worker = rig.sidecar(framework=f"localhost:{trainers[0].profiler_port}").capture()
    assert worker["outcome"] == "Ok", worker
    names = {plane.name for plane in rig.space().planes}
    assert "/device:GPU:0" not in names and {event[1] for event in events(rig.space())} >= {"train"}
    # A request for no device trace at all is not a fault either.
    assert rig.capture("--device-tracer-level", "0", run="without")["outcome"] == "Ok"


@pytest.mark.parametrize("generation", [12, 13])
def test_what_the_gpu_did_becomes_a_trace(rig, generation):
    rig.cuda_program(100, 10, generation=generation)
    worker = rig.sidecar().capture("--device-tracer-level", "All")
    assert worker["outcome"] == "Ok" and worker["coversWindow"], worker
    space = rig.space()
    device = events(space, "/device:GPU:0")
    by_name = {}
    for event in device:
        by_name.setdefault(event[1], []).append(event)
    assert set(by_name) == {"add_floats(float*, int)", "MemcpyH2D", "Memset", "MemoryAlloc", "MemoryFree"}
    steps = len(by_name["MemcpyH2D"])
    # 100 a second. A program that was held up by other work does its missed steps afterwards, those of some time before the window too.
    assert 30 < steps <= 130
    assert abs(len(by_name["add_floats(float*, int)"]) - 10 * steps) <= 10
    (lines,) = {line for line, name, *_ in device if name.startswith("add_floats")},
    assert lines == {"Stream #13(Compute,MemcpyH2D,Memset)"}
    details = by_name["add_floats(float*, int)"][0][4]
    assert details["kernel_details"] == "regs:32 static_shared:0 dynamic_shared:256 grid:32,1,1 block:128,1,1 occ_pct:100"
    assert details["context_id"] == "$$1"
    assert by_name["MemcpyH2D"][0][4]["memcpy_details"] == "kind_src:pageable kind_dst:device size:16384 dest:0 async:1"
    assert by_name["Memset"][0][4]["Memset_details"] == "kind:device num_bytes:1024 async:1"
    assert by_name["MemoryAlloc"][0][4]["memalloc_details"] == "kind:device num_bytes:1024"
    stats = plane_stats(plane(space, "/device:GPU:0"))
    assert stats["device_vendor"] == "Nvidia" and stats["gpu_device_name"] == "Fake H200" and stats["core_count"] == 132
    assert (stats["compute_cap_major"], stats["memory_bandwidth"]) == (9, 3201000 * 1000 * 2 * 6016 // 8)

    # Every launch lies within its step on its thread; its kernel has the same correlation ID and begins later.
    host = events(space)
    trains = [e for e in host if e[1] == "train"]
    launches = {e[4]["correlation_id"]: e for e in host if e[1] == "cuLaunchKernel" and "correlation_id" in e[4]}
    assert all(line.startswith("trainer-0/") for line, *_ in launches.values())
    matched = 0
    for kernel in by_name["add_floats(float*, int)"]:
        launch = launches.get(kernel[4]["correlation_id"])
        if launch is None:
            continue
        matched += 1
        assert launch[4]["device_id"] == 0 and launch[2] <= kernel[2]
        assert kernel[2] - launch[2] < 1e9, "the device's clock is the host's: the fake's queue is a few microseconds long"
    assert matched > 0.9 * 10 * steps
    inside = sum(any(t[2] <= launch[2] and launch[3] <= t[3] for t in trains) for launch in launches.values())
    assert inside > 0.9 * len(launches)

    ranges = events(space, "/host:NVTX-CUPTI")
    assert {name for _, name, *_ in ranges} == {"forward"} and abs(len(ranges) - steps) <= 2


KERNELS, LAUNCHES = {"add_floats(float*, int)", "MemcpyH2D", "Memset"}, {"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async"}
# What each mode shows of the program: on the device, of its calls, and whether its ranges.
MODES = {
    "Kernels": (KERNELS, set(), False),
    "Launches": (KERNELS, LAUNCHES, True),
    "Enabled": (KERNELS, LAUNCHES, True),
    "Graphs": (KERNELS, LAUNCHES, True),
    "All": (KERNELS | {"MemoryAlloc", "MemoryFree"}, LAUNCHES | {"cuMemAlloc_v2", "cuMemFree_v2"}, True),
}


@pytest.mark.parametrize("generation", [12, 13])
def test_each_mode_records_what_it_says_and_says_what_it_does_not(rig, generation):
    """By both generations of CUPTI's functions; the fake aborts if the two are mixed."""
    program = rig.cuda_program(100, 5, generation=generation)
    rig.sidecar()
    for mode, (device, calls, ranges) in MODES.items():
        worker = rig.capture("--device-tracer-level", mode, run=mode)
        assert worker["outcome"] == "Ok", worker
        space = rig.space(mode)
        assert {event[1] for event in events(space, "/device:GPU:0")} == device, mode
        assert {event[1] for event in events(space) if event[1].startswith("cu")} == calls, mode
        assert ("/host:NVTX-CUPTI" in {found.name for found in space.planes}) == ranges, mode
        (row,) = worker["processes"]
        assert ("mode Launches" if mode == "Enabled" else f"mode {mode}") in row["note"] or mode == "All" and row["note"] == "", row
        much = mode in ("Kernels", "Graphs")
        assert any(f"mode {mode}: the trace shows" in text for text in space.warnings) == much, (mode, space.warnings)
        if calls:  # Each kernel leads to its launch.
            joined = {event[4]["correlation_id"] for event in events(space) if event[1] == "cuLaunchKernel" and "correlation_id" in event[4]}
            kernels = [event[4]["correlation_id"] for event in events(space, "/device:GPU:0") if event[1].startswith("add_floats")]
            assert sum(kernel in joined for kernel in kernels) > 0.9 * len(kernels)
    assert program.popen.poll() is None


@pytest.mark.parametrize("generation", [12, 13])
def test_a_graph_is_one_event_at_graph_level_and_its_kernels_otherwise(rig, generation):
    program = rig.start([BIN / "cuda_stamps", rig.dir.parent / "stamps", 100, 7, 1, "graph"], {
        "CUDA_INJECTION64_PATH": str(BIN / "libstrobe_agent.so"), "FAKE_CUDA_VERSION": str(generation * 1000 + 80),
        "LD_LIBRARY_PATH": f"{FAKES}:{FAKES}/{generation}"})
    rig.sidecar()
    for mode in ("Graphs", "Launches"):
        worker = rig.capture("--device-tracer-level", mode, run=mode)
        assert worker["outcome"] == "Ok", worker
        space = rig.space(mode)
        launches = {event[4]["correlation_id"] for event in events(space) if event[1] == "cuGraphLaunch" and "correlation_id" in event[4]}
        ran = [event for event in events(space, "/device:GPU:0") if event[1] in ("stamp", "CUDA graph")]
        assert {event[1] for event in ran} == {"CUDA graph" if mode == "Graphs" else "stamp"}
        # As many events as the program launched graphs, or kernels in them; the window may cut the last one.
        of_launches = [event for event in ran if event[4]["correlation_id"] in launches]
        assert len(launches) > 10 and abs(len(of_launches) - len(launches) * (1 if mode == "Graphs" else 7)) <= 7
        assert all(event[4]["cuda_graph_id"] for event in of_launches)
    program.popen.terminate()
    assert program.popen.wait(20) == 0, program.output()


def test_busy_names_the_tool_that_holds_cupti(rig):
    """CUDA 13 tells it; the tool goes on."""
    program = rig.cuda_program(100, 5, generation=13, cupti="peer=Nsight-Systems")
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "Busy" and "another profiler holds CUPTI in this process: Nsight-Systems" in worker["message"], worker
    assert any("Nsight-Systems" in text for text in rig.space().errors)
    program.popen.terminate()
    assert program.popen.wait(20) == 0
    assert int(program.output().split("Nsight-Systems got ")[1].split()[0]) > 100, program.output()


def test_busy_is_without_a_name_where_cuda_tells_none(rig):
    rig.cuda_program(100, 5, generation=12, cupti="peer=Nsight-Systems")
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "Busy" and "another profiler holds CUPTI in this process" in worker["message"], worker
    assert "Nsight" not in worker["message"]


@pytest.mark.parametrize("version,shares,words", [
    (130500, 1, None), (130300, 1, None),
    (130300, 0, "Nsight-Systems"),  # The other one is not willing.
    (130200, 1, "Nsight-Systems"),  # A beta, which is not used.
    (130000, 1, "Nsight-Systems"),  # Its struct is smaller.
])
def test_willing_tools_record_together_from_cuda_13_3_on(rig, version, shares, words):
    program = rig.cuda_program(100, 5, generation=13, cupti=f"peer=Nsight-Systems peer_shares={shares} version={version}")
    worker = rig.sidecar().capture()
    if words is not None:
        assert worker["outcome"] == "Busy" and words in worker["message"], worker
        return
    assert worker["outcome"] == "Ok", worker
    assert "CUPTI was shared with Nsight-Systems" in worker["processes"][0]["note"], worker
    kernels = sum(event[1].startswith("add_floats") for event in events(rig.space(), "/device:GPU:0"))
    assert kernels > 100
    program.popen.terminate()
    assert program.popen.wait(20) == 0, program.output()
    assert int(program.output().split("Nsight-Systems got ")[1].split()[0]) >= kernels, "both recorded"


def test_who_changes_others_traces_does_not_share(rig):
    """Graph level is common to all tools that share CUPTI, until the process ends."""
    rig.cuda_program(100, 5, generation=13, cupti="peer=Nsight-Systems peer_shares=1")
    assert rig.sidecar().capture("--device-tracer-level", "Graphs")["outcome"] == "Busy"
    assert rig.capture("--detach", run="detach")["outcome"] == "Busy", "detaching CUPTI would take it from the other one"
    assert rig.capture(run="launches")["outcome"] == "Ok"


def test_a_program_can_keep_its_cupti_to_one_tool(rig):
    rig.cuda_program(100, 5, generation=13, cupti="peer=Nsight-Systems peer_shares=1", env={"STROBE_DEVICE": "alone"})
    assert rig.sidecar().capture()["outcome"] == "Busy"


@pytest.mark.parametrize("generation,fault,detached", [(13, "", 2), (13, "finalize=999", 0), (12, "", 0)])
def test_cupti_is_detached_where_that_was_asked_for_and_is_safe(rig, generation, fault, detached):
    """Within the program's next call. With CUDA 12 it stays attached, because a program with graphs could crash when it is attached again."""
    program = rig.cuda_program(100, 5, generation=generation, cupti=fault)
    rig.sidecar()
    for run in ("first", "again"):
        worker = rig.capture("--detach", run=run)
        assert worker["outcome"] == "Ok", worker
        assert any(event[1].startswith("add_floats") for event in events(rig.space(run), "/device:GPU:0"))
    assert rig.capture(run="kept")["outcome"] == "Ok"
    assert program.popen.poll() is None
    assert program.output().count("fake CUPTI: detached") == detached


def test_xprof_sees_steps_and_kernels(rig):
    rig.cuda_program(50, 20)
    rig.sidecar().capture(duration="1s")
    from xprof.convert import raw_to_tool_data

    def tool(name):
        data, _ = raw_to_tool_data.xspace_to_tool_data([str(rig.trace())], name, {})
        return data.decode() if isinstance(data, bytes) else data

    trace = json.loads(tool("trace_viewer@"))["traceEvents"]
    assert any(e.get("name") == "add_floats(float*, int)" for e in trace)
    kernels = json.loads(tool("kernel_stats"))
    rows = json.dumps(kernels)
    assert "add_floats(float*, int)" in rows
    overview = json.loads(tool("overview_page"))
    text = json.dumps(overview)
    assert "No step marker observed" not in text
    rows = [len(table.get("rows", [])) for table in overview if isinstance(table, dict)]
    assert any(count > 20 for count in rows), "the step-time graph has a row per step"


def test_nothing_is_armed_while_nobody_captures(rig):
    program = rig.cuda_program(0, 1000, 1, 2000)
    assert program.popen.wait(30) == 0
    assert rig.rings.stat().st_blocks * 512 < 64 << 10


ALL = ("--device-tracer-level", "All")

FAULTS = [
    ("subscribe=39", "Busy", "another profiler holds CUPTI"),
    ("subscribe=15", "ProfilerStartFailed", "no working driver"),
    ("enable:10=35", "PermissionDenied", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
    ("enable:10=14", "VersionMismatch", "CUPTI_ERROR_NOT_COMPATIBLE"),
    ("enable:1=26", "Busy", "DCGM"),
    ("register=1", "ProfilerStartFailed", "registering buffers with CUPTI"),
    ("timestamp=999", "ProfilerStartFailed", "CUPTI's clock"),
    ("enable:12=21 enable:39=27 enable:49=21", "Ok", ""),  # Optional activity kinds.
    ("late_ms=3", "EventsDropped", "faster than CUPTI's buffers could be read"),
    ("flush_ms=8000", "EventsDropped", "did not return its last records"),
    ("flush=999", "EventsDropped", "CUPTI_ERROR_UNKNOWN"),
    ("after_unsubscribe=1", "Ok", ""),
    ("busy_ms=100", "Ok", ""),
    ("dropped=3", "Ok", ""),
    ("foreign=1", "Ok", ""),  # Buffers that are not the agent's are left alone.
    ("unsubscribe=999", "ProfilerStartFailed", "could not be disabled"),
]


# These meet functions of CUPTI's second generation, by which the agent records with CUDA 13.
OF_BOTH = ("subscribe=39", "enable:10=35", "register=1", "dropped=3", "after_unsubscribe=1", "foreign=1", "unsubscribe=999")
CASES = [(*fault, 12) for fault in FAULTS] + [(*fault, 13) for fault in FAULTS if fault[0] in OF_BOTH]


@pytest.mark.parametrize("fault,outcome,words,generation", CASES, ids=[f"{case[0].replace(' ', ',')}-{case[3]}" for case in CASES])
def test_each_fault_has_its_outcome_and_harms_nobody(rig, fault, outcome, words, generation):
    program = rig.cuda_program(*((0, 500) if "late_ms" in fault else (100, 10)), generation=generation, cupti=fault)
    worker = rig.sidecar().capture(*ALL)
    assert worker["outcome"] == outcome, worker
    assert words in worker.get("message", ""), worker
    space = rig.space()
    assert any(e[1] == "train" for e in events(space)), "the annotations are there all the same"
    if outcome != "Ok":
        assert any(words in text for text in [*space.errors, *space.warnings]), (space.errors, space.warnings)
    if "flush_ms" not in fault:
        # The next capture has the same outcome: nothing was left partly enabled.
        if "late_ms" not in fault and "unsubscribe=" not in fault:
            assert rig.capture(*ALL, run="again")["outcome"] == outcome
    assert program.popen.poll() is None, "the program runs on"
    program.popen.terminate()
    assert program.popen.wait(20) == 0, program.output()


@pytest.mark.parametrize("off", [{"STROBE_DEVICE": "off"}, {"STROBE_DISABLE": "devices"}])
def test_a_program_that_keeps_its_devices_to_itself_is_recorded_without(rig, off):
    rig.cuda_program(100, 5, env=off)
    began = time.monotonic()
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "Ok", worker
    assert "STROBE_DEVICE=off" in worker["processes"][0]["message"], worker
    assert time.monotonic() - began < 5, "nobody is waited for who will not answer"
    assert {p.name for p in rig.space().planes} >= {"/host:CPU"} and any(e[1] == "train" for e in events(rig.space()))


def test_where_kineto_is_cupti_is_left_alone(rig):
    torch = {"LD_PRELOAD": str(FAKES / "libtorch_cpu.so")}
    rig.cuda_program(100, 5, env=torch)
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "Ok", worker
    assert "Kineto" in worker["processes"][0]["message"] and "STROBE_DEVICE=force" in worker["processes"][0]["message"], worker
    assert "/device:GPU:0" not in {p.name for p in rig.space().planes}
    rig.cuda_program(100, 5, env={**torch, "STROBE_DEVICE": "force"})
    assert rig.capture(run="forced")["outcome"] == "Ok"
    assert any(e[1].startswith("add_floats") for e in events(rig.space("forced"), "/device:GPU:0"))


def test_the_agent_leaves_the_devices_when_pytorchs_profiler_begins(rig):
    """Which would find CUPTI taken, and record no GPU until the program restarts. A process says in its announcement that it calls the agent then."""
    library = str(BIN / "libstrobe_agent.so")
    program = textwrap.dedent(f"""
        import ctypes, json, os, signal, sys, time
        sys.path.insert(0, {str(ROOT / "tests/gpu/trainers")!r})
        from rehearsal import FakeWork
        work = FakeWork(5)  # CUDA's driver loads the agent.
        ctypes.CDLL({str(FAKES / "libtorch_cpu.so")!r})
        began = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
        told = {{"format": 1, "pid": os.getpid(), "began": int(began), "framework": "torch", "version": "2.15", "socket": "none.sock",
                "yields_cupti": True, "asks_kineto": False}}
        with open(os.environ["STROBE_DIR"] + f"/agent/{{os.getpid()}}-x.process", "w") as file:
            file.write(json.dumps(told))
            file.flush()
            import fcntl
            fcntl.flock(file, fcntl.LOCK_EX)
            agent = ctypes.CDLL({library!r}, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            def leave(*_):
                before = time.monotonic()
                agent.strobe_agent_leave_devices()
                print(f"left after {{time.monotonic() - before:.3f}} s", flush=True)
            signal.signal(signal.SIGUSR1, leave)
            print("ready", flush=True)
            while True:
                work.step()
                time.sleep(0.005)
    """)
    child = rig.start([PYTHON, "-c", program], {"CUDA_INJECTION64_PATH": library, "FAKE_CUDA_VERSION": "13080", "STROBE_BOOTSTRAP": "off",
                                                "LD_LIBRARY_PATH": f"{FAKES}:{FAKES}/13"})
    rig.sidecar()
    kernels = ("--device-tracer-level", "Kernels")
    worker = rig.capture(*kernels, run="beside")
    assert worker["outcome"] == "Ok", worker
    assert any(event[1] == "rehearsed" for event in events(rig.space("beside"), "/device:GPU:0")), "the agent recorded beside Kineto"
    capture = rig.begin_capture(*kernels, duration="2s")
    wait_until(lambda: rig.header()["device_phase"] == 4, 20, "armed")
    child.popen.send_signal(signal.SIGUSR1)
    child.wait_for("left after", 10)
    wait_until(lambda: rig.header()["device_phase"] == 7, 10, "left to Kineto")
    capture.communicate(timeout=60)
    worker = rig.capture(*kernels, run="after")
    assert "Kineto" in worker["processes"][0]["message"], worker


def test_buffers_that_another_profiler_takes_are_counted(rig):
    program = rig.cuda_program(200, 20, cupti="steal_ms=1700")
    worker = rig.sidecar().capture(duration="2s")
    assert worker["outcome"] == "EventsDropped" and "took over CUPTI" in worker["message"], worker
    assert program.popen.poll() is None


def test_children_forked_while_cupti_is_armed_end_well(rig):
    program = rig.cuda_program(200, 20, env={"FORK_EVERY_MS": "20"})
    worker = rig.sidecar().capture(duration="2s")
    assert worker["outcome"] == "Ok", worker
    program.popen.terminate()
    assert program.popen.wait(30) == 0, program.output()
    assert "children failed" not in program.output(), program.output()
    assert any(row["name"] != worker["processes"][0]["name"] for row in worker["processes"]), "children have rows"


def test_without_cupti_it_says_so(rig):
    program = rig.cuda_program(100, 5, env={"LD_LIBRARY_PATH": str(FAKES)})
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "CuptiUnavailable" and "STROBE_CUPTI" in worker["message"], worker
    assert program.popen.poll() is None


@pytest.mark.parametrize("generation", [12, 13])
def test_the_real_cupti_without_a_gpu(rig, generation):
    library = BIN.parent / f"cuda/{generation}/lib/libcupti.so.{generation}"
    program = rig.cuda_program(100, 5, generation=generation, env={"STROBE_CUPTI": str(library), "LD_LIBRARY_PATH": str(FAKES)})
    worker = rig.sidecar().capture()
    assert worker["outcome"] != "Ok", worker
    assert "CUPTI" in worker["message"]
    assert any(e[1] == "train" for e in events(rig.space()))
    assert program.popen.poll() is None, program.output()


def test_a_clock_that_is_set_is_said(rig):
    rig.cuda_program(100, 5, cupti="jump_ns=50000000")
    worker = rig.sidecar().capture(duration="2s")
    assert worker["outcome"] == "Ok", worker
    (warning,) = rig.space().warnings
    assert "clock was set by 5" in warning or "clock was set by 4" in warning, warning


def test_several_programs_in_one_worker(rig):
    """One process per GPU, each of which sees its GPU as device 0, and one more process that shares the first GPU."""
    for uuid in (1, 2, 1):
        rig.cuda_program(100, 5, env={"FAKE_CUDA_FIRST_UUID": str(uuid)})
    worker = rig.sidecar().capture()
    assert worker["outcome"] == "Ok", worker
    space = rig.space()
    shared, own = plane(space, "/device:GPU:0"), plane(space, "/device:GPU:1")
    assert len([line for line in shared.lines if "Compute" in line.name]) == 2
    assert len([line for line in own.lines if "Compute" in line.name]) == 1
    assert len({line.id for line in shared.lines}) == len(shared.lines)
    launches, kernels = set(), {}
    for e in events(space):
        if e[1] == "cuLaunchKernel" and "correlation_id" in e[4]:
            launches.add((e[4]["correlation_id"], e[4]["device_id"]))
    for number, name in enumerate(("/device:GPU:0", "/device:GPU:1")):
        for e in events(space, name):
            if e[1].startswith("add_floats"):
                assert e[4]["correlation_id"] not in kernels, "numbers are unique in the worker"
                kernels[e[4]["correlation_id"]] = number
    assert sum((id, number) in launches for id, number in kernels.items()) > 0.9 * len(kernels)


def test_a_killed_program_leaves_its_kernels(rig):
    program = rig.cuda_program(200, 10)
    rig.sidecar()
    capture = rig.begin_capture(duration="3s")
    wait_until(lambda: rig.rings.stat().st_blocks * 512 > 15 << 20, 10, "the device to be recorded")
    time.sleep(2.5)
    program.kill()
    (worker,) = json.loads(capture.communicate(timeout=30)[0])["workers"]
    assert worker["outcome"] == "WorkerLost", worker
    kernels = [e for e in events(rig.space(), "/device:GPU:0") if e[1].startswith("add_floats")]
    assert len(kernels) > 500


def test_a_program_that_ends_hands_its_last_kernels_over(rig):
    rig.sidecar()
    rig.cuda_program(100, 5)  # A program must exist when the capture is planned.
    capture = rig.begin_capture(duration="4s")
    time.sleep(2)
    program = rig.cuda_program(100, 5, 1, 50)
    assert program.popen.wait(20) == 0
    (worker,) = json.loads(capture.communicate(timeout=30)[0])["workers"]
    # The program ended by itself, so it is not lost. It may be late, because CUPTI is armed shortly after CUDA starts.
    assert worker["outcome"] in ("Ok", "LateStart"), worker
    label = f"cuda_program {program.popen.pid}"
    kernels = [e for e in events(rig.space(), "/device:GPU:0") if e[1].startswith("add_floats") and label in e[0]]
    # Only kernels before CUPTI was armed may be missing; the last kernel is there.
    assert 200 <= len(kernels) <= 250


def test_a_dead_sidecar_does_not_leave_cupti_armed(rig):
    program = rig.cuda_program(100, 5)
    rig.sidecar()
    capture = rig.begin_capture(duration="20s")  # It is killed while it records.

    wait_until(lambda: rig.header()["device_phase"] == 4, 10, "armed")
    rig.process.kill()
    capture.communicate(timeout=60)
    wait_until(lambda: rig.header()["device_phase"] == 5, 15, "disarmed by itself")
    assert program.popen.poll() is None
