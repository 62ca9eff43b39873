"""PyTorch in processes that nobody changed: PYTHONPATH and STROBE_DIR are all that they get. Real PyTorch (build/torch)."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import textwrap
import time

import pytest

from tests.support.inproc import LEFT_AS_EVIDENCE, MS, TORCH_PYTHON, Client, Trainer, is_locked, kineto_events, records_memory, told_steps
from tests.support.mounts import small_file_system
from tests.support.processes import PYTHON, ROOT, start_ticks, wait_until

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


@pytest.fixture
def trainer(group, tmp_path, python_package):
    return Trainer(group, tmp_path, python_package)


def check_operators(trainer, done, rank=0):
    """Each operator of each complete step is in the trace, as often as PyTorch's own profiler counted. Returns the number of steps."""
    found, expected, steps = trainer.compare_operators(kineto_events(trainer.agent / done["file"]), done["started_ns"], done["stopped_ns"], rank)
    assert found == expected
    return steps


def test_all_operators_of_the_window_are_recorded(trainer):
    announcement = trainer.announced()
    assert announcement["format"] == 1 and announcement["framework"] == "torch" and announcement["channel"] == "session"
    assert announcement["pid"] == trainer.process.pid and announcement["address"] is None and not announcement["is_launcher"]
    assert announcement["began"] == start_ticks(trainer.process.pid)
    assert announcement["program"].endswith("torch_loop.py") and announcement["rank"] is None
    client = trainer.client()
    start = client.capture(duration_ms=500)
    assert client.read()["state"] == "prepared"
    assert client.read()["state"] == "recording"
    assert client.read()["state"] == "stopped"
    done = client.last()
    assert done["state"] == "done" and done["format"] == "kineto" and "outcome" not in done, done
    assert start <= done["started_ns"] and done["stopped_ns"] >= start + 500 * MS
    assert done["bytes"] == (trainer.agent / done["file"]).stat().st_size
    assert trainer.names() == [done["file"]]
    assert check_operators(trainer, done) > 10


def test_kernels_only_leaves_operators_out_only_where_there_are_kernels(trainer):
    """A process without a GPU has nothing else to show. It does not leave its devices to the agent, which is not there."""
    announcement = trainer.announced()
    assert announcement["yields_cupti"] is False
    client = trainer.client()
    client.capture(tracers={"host": 2, "device": 1, "kernels_only": True, "detach": True}, duration_ms=200)
    assert check_operators(trainer, client.until("done")) > 3
    client = trainer.client()
    client.capture(tracers={"kernels_only": 1}, duration_ms=200)
    assert client.last()["outcome"] == "InvalidRequest"


# What PyTorch writes if an option is on, and not without it.
HAS_OPTION = {
    "shapes": lambda event: event.get("cat") == "cpu_op" and "Input Dims" in event["args"],
    "stacks": lambda event: event.get("cat") == "python_function" and "torch_loop.py" in event["name"],
    "memory": lambda event: event["name"] == "[memory]" and "Total Allocated" in event["args"],
    "flops": lambda event: event.get("cat") == "cpu_op" and "Input Dims" in event["args"],  # From which they are estimated.
    "modules": lambda event: event["name"].startswith("nn.Module: Linear"),
}


def test_each_option_reaches_the_profiler(group, tmp_path, python_package):
    trainer = Trainer(group, tmp_path, python_package, env={"PYTHONWARNINGS": "always"})
    trainer.announced()

    def recorded(**options):
        client = trainer.client()
        client.capture(torch=options, duration_ms=100)
        trace = json.loads((trainer.agent / client.until("done")["file"]).read_text())["traceEvents"]
        return {option for option, found in HAS_OPTION.items() if any(map(found, trace))}

    assert recorded() == set()
    assert recorded(shapes=True) == {"shapes", "flops"}
    assert recorded(flops=True) == {"shapes", "flops"}
    assert recorded(stacks=True) == {"stacks", "modules"}
    assert recorded(modules=True) == {"stacks", "modules"}
    without = set() if records_memory() else {"memory"}
    assert recorded(memory=True) == {"memory"} - without
    assert recorded(**dict.fromkeys(HAS_OPTION, True)) == set(HAS_OPTION) - without
    assert trainer.trains()
    assert "autograd/profiler.py" not in trainer.process.output(), "PyTorch warned in the program's output"


def test_two_ranks_under_torchrun(group, tmp_path, python_package):
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_loop.py", tmp_path / "notes", tmp_path / "orders"]
    trainer = Trainer(group, tmp_path, python_package, command=command)
    wait_until(lambda: len(trainer.announcements()) == 3, 60, "three announcements")
    launchers = [a for a in trainer.announcements() if a["is_launcher"]]
    ranks = sorted((a for a in trainer.announcements() if not a["is_launcher"]), key=lambda a: a["rank"])
    assert len(launchers) == 1 and [a["rank"] for a in ranks] == [0, 1]
    assert [a["local_rank"] for a in ranks] == [0, 1] and {a["world_size"] for a in ranks} == {2}
    assert {a["parent_pid"] for a in ranks} == {launchers[0]["pid"]} and ranks[0]["elastic_run"]
    wait_until(lambda: all(os.path.exists(f"{trainer.notes}.{rank}") for rank in (0, 1)) and len(trainer.steps(0, 1 << 63, 1)) > 3, 60, "steps of both")
    clients = [trainer.client(a) for a in ranks]
    start = time.time_ns() + 300 * MS
    for client in clients:
        client.ask(op="capture", start_ns=start, duration_ns=500 * MS)
    assert [client.read()["rank"] for client in clients] == [0, 1]
    for rank, client in enumerate(clients):
        done = client.until("done")
        assert start <= done["started_ns"], done
        check_operators(trainer, done, rank)
        information = json.loads((trainer.agent / done["file"]).read_text())["distributedInfo"]
        assert information["rank"] == rank and information["world_size"] == 2 and information["backend"] == "gloo"


TICKS = """
import threading
ticks = []
def tick():
    while True:
        ticks.append(time.time_ns())
        time.sleep(0.001)
def compute():
    while True:
        torch.add(batch, batch)
for work in (tick, compute):
    threading.Thread(target=work, daemon=True).start()
"""


def test_other_threads_go_on_while_a_recording_ends(trainer, tmp_path):
    """PyTorch before 2.14 held the interpreter's lock meanwhile: for a quarter of a second after 30,000 operators."""
    trainer.announced()
    trainer.order(TICKS)
    client = trainer.client()
    client.capture(duration_ms=1000)
    stopped = client.until("stopped")
    begin, took = stopped["stopped_ns"], stopped["stop_took_ns"]
    client.until("done")
    trainer.order(f"open({str(tmp_path / 'ticks')!r}, 'w').write(str(sum({begin} <= tick <= {begin + took} for tick in ticks)))")
    assert took < 100 * MS or int((tmp_path / "ticks").read_text()) >= 5, f"one of {took / MS:.0f} ms"


def test_the_end_of_a_recording_gives_way(python_package, tmp_path):
    """On one processor with the program, which inference servers bind to those that they compute on. It took half of it."""
    said = package_python(python_package, tmp_path, """
        import hashlib, os, threading, time
        from strobe._inproc.own_thread import give_way
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        before, ended, data = os.getpriority(os.PRIO_PROCESS, 0), [], bytes(1 << 22)
        def hash_for(seconds):  # Without the interpreter's lock.
            began, cpu = time.monotonic(), time.thread_time()
            while time.monotonic() < began + seconds:
                hashlib.sha256(data)
            return time.thread_time() - cpu
        program = threading.Thread(target=lambda: ended.append(hash_for(2.0)))
        program.start()
        took = give_way(lambda: hash_for(2.0))
        program.join()
        print(ended[0] > 2 * took > 0, os.getpriority(os.PRIO_PROCESS, 0) == before)
        try:
            give_way(lambda: 1 / 0)
        except ZeroDivisionError:
            print("raised")
    """)
    assert said.split("\n") == ["True True", "raised"]


def test_a_long_pause_is_told_and_refused(python_package, tmp_path):
    """Where PyTorch holds the interpreter while a recording ends: 20 s with stacks were seen, without a word before."""
    said = package_python(python_package, tmp_path, """
        from types import SimpleNamespace
        from strobe._inproc.request import Refused
        from strobe._inproc.torch_pauses import Pauses
        pauses = Pauses()
        def check(kind, seconds, may_stall=False, max_pause_ns=0):
            try:
                print(pauses.check(kind, SimpleNamespace(duration_ns=seconds * 10**9, may_stall=may_stall, max_pause_ns=max_pause_ns)))
            except Refused as refused:
                print(refused.outcome, refused.message)
        check(("stacks",), 2)
        pauses.ended(("stacks",), 2 * 10**9, 20 * 10**9)
        check(("stacks",), 2)
        check(("stacks",), 2, may_stall=True)
        check(("stacks", "devices"), 2)
        pauses.ended((), 2 * 10**9, 3 * 10**8)
        check((), 4)
        check((), 4, max_pause_ns=500 * 10**6)
        check(("stacks",), 2, may_stall=True, max_pause_ns=10**9)
        check((), 4, max_pause_ns=10**9)
        check(("memory",), 4, max_pause_ns=10**9)
    """)
    still = "the program stands still while a recording with stacks ends, which PyTorch 2.14 avoids"
    first, refused, allowed, other, plain, bounded, even_so, within, unknown = said.split("\n")
    assert first == still and refused.startswith(f"VersionMismatch PauseTooLong: {still}: for about 20 s") and "strobe.dev/allow-stalls" in refused
    assert allowed == f"{still}: for about 20 s, as after the last one"
    assert bounded.startswith("VersionMismatch PauseTooLong: ") and "for about 600 ms, as after the last one; maxPause is 500 ms" in bounded
    assert "for about 20 s" in even_so and "maxPause is 1.0 s" in even_so, "a bound counts although the pod may stand still"
    assert within == plain and unknown.endswith("for how long is known after the first")
    assert "with stacks and devices" in other and plain.endswith("for about 600 ms, as after the last one")


ENDS_UNLOCKED = """
import ctypes, sys, threading, types
import torch
import strobe_bootstrap
strobe_bootstrap._load()
from strobe._inproc import torch_unlocked
from torch.autograd import profiler
bindings = torch._C._autograd
x = torch.ones(4)
def record(stop, path):
    setting = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    session = profiler.profile(use_cpu=True, use_device=None, use_kineto=True, record_shapes=True, experimental_config=setting)
    session._prepare_trace()
    session._start_trace()
    other = threading.Thread(target=lambda: [torch.add(x, x) for _ in range(500)])
    other.start()
    for _ in range(500):
        torch.add(x, x)
    other.join()
    result = stop()
    torch_unlocked.save(result, path)
    torch_unlocked.empty(result)
    print(type(result).__name__, open(path).read().count('"aten::add"'))
assert torch_unlocked.can_stop(bindings)
for _ in range(3):
    record(lambda: torch_unlocked.stop(None, bindings), sys.argv[1])
record(bindings._disable_profiler, sys.argv[1])
print(torch_unlocked.stop(lambda: "nothing records", bindings))
torch_unlocked._word_at = lambda address: 7  # As if another version returned something else.
try:
    record(lambda: torch_unlocked.stop(None, bindings), sys.argv[1])
except RuntimeError as error:
    print("unknown form" in str(error), torch_unlocked.can_stop(bindings))
"""


def test_a_recording_that_is_ended_without_the_lock_is_whole(tmp_path, python_package):
    """Each operator of each thread, as often as the program ran it. Where PyTorch is not as expected, its own binding is used from then on."""
    done = subprocess.run([TORCH_PYTHON, "-c", ENDS_UNLOCKED, tmp_path / "trace.json"], capture_output=True, text=True, timeout=120,
                          env={"PYTHONPATH": str(python_package), "PYTHONWARNINGS": "ignore"})
    assert done.stdout.split("\n") == [*["Recorded 1000"] * 3, "_ProfilerResult 1000", "nothing records", "True False", ""], (done.stdout, done.stderr)


def test_a_capture_at_a_time(trainer):
    trainer.announced()
    first, second = trainer.client(), trainer.client()
    first.capture(duration_ms=500)
    assert first.read()["state"] == "prepared"
    assert second.last() == {"state": "refused", "outcome": "Busy", "message": "another capture records this process"}
    third = trainer.client()
    assert third.last()["outcome"] == "Busy"
    assert first.until("done")
    fourth = trainer.client()
    fourth.capture(duration_ms=50)
    assert fourth.until("done")


def test_cancelling_leaves_nothing_behind(trainer):
    trainer.announced()
    for state in ("prepared", "recording", "stopped"):
        client = trainer.client()
        client.capture(duration_ms=100 if state == "stopped" else 60_000)
        client.until(state)
        client.close()
        after = trainer.client()  # Answered only after the one before has ended.
        while True:
            after.capture(duration_ms=50)
            answer = after.last()
            if answer.get("outcome") != "Busy":
                break
            after = trainer.client()
        assert answer["state"] == "done", answer
        (trainer.agent / answer["file"]).unlink()
        if state == "stopped":  # The trace may have been finished before the client was gone; then it is the client's, and complete.
            for name in trainer.names():
                assert name.endswith(".pt.trace.json") and json.loads((trainer.agent / name).read_text())["traceEvents"]
                (trainer.agent / name).unlink()
        wait_until(lambda: trainer.names() == [], 10, "the files to be gone")
    assert trainer.trains()


def test_an_early_end_keeps_what_was_recorded(trainer):
    trainer.announced()
    client = trainer.client()
    client.capture(ahead_ms=0, duration_ms=60_000)
    client.until("recording")
    time.sleep(0.3)
    client.ask(op="stop")
    done = client.until("done")
    assert done["stopped_ns"] - done["started_ns"] < 30_000 * MS
    assert check_operators(trainer, done) > 1


def test_too_large_traces_are_not_kept(trainer):
    trainer.announced()
    client = trainer.client()
    client.capture(max_bytes=1000)
    answer = client.last()
    assert answer["state"] == "failed" and answer["outcome"] == "Truncated" and "1000" in answer["message"], answer
    assert trainer.names() == []


def test_a_full_volume_is_said_and_stays_usable(group, tmp_path, python_package):
    """Kineto says nothing of it, and leaves the file that it could not finish."""
    (tmp_path / "strobe").mkdir()
    with small_file_system(tmp_path / "strobe", "256k") as mounted:
        if not mounted:
            pytest.skip("file systems cannot be mounted")
        trainer = Trainer(group, tmp_path, python_package)
        trainer.announced()
        before = shutil.disk_usage(trainer.agent).free
        for _ in range(2):
            client = trainer.client()
            client.capture(duration_ms=1000)
            answer = client.last()
            assert answer["state"] == "failed" and answer["outcome"] == "SpoolFull" and "agent-memory" in answer["message"], answer
            # The announcement is replaced when it changes, and the one before stays open.
            wait_until(lambda: before - shutil.disk_usage(trainer.agent).free <= 16 << 10, 5, "the room")
        assert trainer.names() == [] and trainer.process.running()


def test_nobody_waits_for_a_device(trainer, tmp_path):
    """PyTorch waits for the current device when a profile ends. In a thread of ours that is the first one, whichever the program uses."""
    trainer.announced()
    trainer.order(f"""
import strobe._inproc.torch_session as session, torch
def started(self, at, start=session.TorchRecorder.start):
    start(self, at)
    self.session.use_device = "cuda"  # As where there are devices.
session.TorchRecorder.start = started
torch.cuda.synchronize = lambda *_: open({str(tmp_path / "waited")!r}, "w").close()
""")
    client = trainer.client()
    client.capture(duration_ms=300)
    done = client.last()
    assert done["state"] == "done", done
    assert not (tmp_path / "waited").exists()
    assert check_operators(trainer, done) > 5


HOSTILE = [
    b"\n", b"{}\n", b"[]\n", b"null\n", b"\xff\xfe\n", b"[" * 8000 + b"\n", b"{" * 9000, b"x" * 100_000, b'{"op":"capture"}\n', b'{"op":["capture"]}\n',
    b'{"op":"capture","start_ns":1e308,"duration_ns":1000000}\n', b'{"op":"capture","start_ns":-1,"duration_ns":1000000}\n',
    b'{"op":"capture","duration_ns":' + b"9" * 5000 + b"}\n", b'{"op":"capture","duration_ns":true}\n', b'{"op":"capture","duration_ns":NaN}\n',
    b'{"op":"capture","duration_ns":1000000,"start_ns":9223372036854775807}\n', b'{"op":"capture","duration_ns":1000000,"tracers":{"host":9}}\n',
    b'{"op":"capture","duration_ns":1000000,"tracers":3}\n', b'{"op":"capture","duration_ns":1000000,"torch":{"shapes":"yes"}}\n',
    b'{"op":"capture","duration_ns":1000000,"framework":"../../etc"}\n', b'{"op":"capture","duration_ns":1000000,"framework":{}}\n',
    b'{"op":"capture","duration_ns":1000000,"id":"\\u0000"}\n', b'{"op":"capture","duration_ns":1000000,"max_bytes":0}\n',
]


def test_hostile_clients_get_one_line_and_harm_nothing(trainer):
    trainer.announced()
    for data in HOSTILE:
        client = trainer.client()
        client.send(data)
        answer, more = client.read(), client.read()
        assert answer["state"] == "refused" and answer["outcome"] in ("InvalidRequest", "NoSource") and more is None, (data[:80], answer)
    silent = [trainer.client() for _ in range(20)]
    random.seed(1)
    for client in silent:
        client.send(random.randbytes(100).replace(b"\n", b""))
    for client in silent:
        assert client.read()["state"] == "refused"
    client = trainer.client()
    client.capture(duration_ms=100)
    assert client.until("done") and trainer.trains()


@pytest.mark.parametrize("during", [b"garbage\n", b"x" * 20_000, b'{"op":"resume"}\n'])
def test_garbage_during_a_capture_ends_it(trainer, during):
    trainer.announced()
    client = trainer.client()
    client.capture(duration_ms=60_000)
    client.until("recording")
    client.send(during)
    answers = []
    try:
        while (answer := client.read()) is not None:
            answers.append(answer["state"])
    except ConnectionResetError:
        pass
    assert "done" not in answers
    assert trainer.trains() and trainer.names() == []


def test_a_profile_of_the_programs_own_that_fails_leaves_captures_possible(trainer):
    trainer.announced()
    trainer.order("""
import torch.autograd.profiler as profiler
try:
    profiler._prepare_profiler("no configuration", set())
except TypeError:
    pass
""")
    client = trainer.client()
    client.capture(duration_ms=200)
    assert client.last()["state"] == "done"


def test_a_forked_child_finds_no_lock_held(trainer, tmp_path):
    """Another thread may have been in our hook, or about to begin a recording, when the program forked."""
    trainer.announced()
    trainer.order(f"""
import os, signal, sys, torch
from strobe._inproc import changes, steps
interval = sys.getswitchinterval()
with steps._optimizers[0].lock, changes.short_switch_interval():
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # It would wait for ever.
        weight = torch.nn.Parameter(torch.ones(1))
        weight.grad = torch.ones(1)
        torch.optim.SGD([weight], lr=1).step()
        with changes.short_switch_interval():
            pass
        os._exit(0 if sys.getswitchinterval() == interval else 3)
with open({str(tmp_path / "status")!r}, "w") as file:
    file.write(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
""")
    assert (tmp_path / "status").read_text() == "0"
    assert trainer.trains()


def test_a_killed_program_is_seen(trainer):
    trainer.announced()
    (path,) = trainer.agent.glob("*.process")
    assert is_locked(path)
    client = trainer.client()
    client.capture(duration_ms=60_000)
    client.until("recording")
    trainer.process.popen.kill()
    trainer.process.popen.wait(10)
    assert client.read() is None and not is_locked(path)


@pytest.mark.parametrize("phase", ["idle", "waiting", "recording", "stopping", "done"])
def test_exits_are_as_without_us(trainer, phase):
    trainer.announced()
    if phase != "idle":
        client = trainer.client()
        client.capture(ahead_ms=60_000 if phase == "waiting" else 0, duration_ms=500 if phase in ("stopping", "done") else 60_000)
        if phase == "recording":
            client.until("recording")
            time.sleep(0.2)
        elif phase == "stopping":
            client.until("recording")
            time.sleep(0.52)
        elif phase == "done":
            client.until("stopped")
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(30) == 0, trainer.process.output()
    assert not [path for path in trainer.agent.iterdir() if path.suffix not in (".json", ".rings", *LEFT_AS_EVIDENCE)]


TERMINATED = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"


@pytest.mark.parametrize("how", ["exit", "SIGTERM"])
def test_an_end_of_the_program_keeps_what_was_recorded(trainer, how):
    """As when a pod is deleted during a capture: the program ends by itself, and its trace used to be lost."""
    trainer.announced()
    trainer.order(TERMINATED)
    client = trainer.client()
    client.capture(ahead_ms=0, duration_ms=60_000)
    client.until("recording")
    time.sleep(0.5)
    if how == "exit":
        trainer.order("sys.exit(0)", wait=False)
    else:
        trainer.process.signal(signal.SIGTERM)
    done = client.until("done")
    assert done["outcome"] == "Truncated" and "the program ended while it was recorded" in done["message"], done
    assert trainer.process.popen.wait(30) == 0, trainer.process.output()
    assert check_operators(trainer, done) > 3


ENDING_CHILD = """
import multiprocessing, sys, time, torch
def infer():
    model = torch.nn.Linear(8, 8)
    until = time.time() + 4
    while time.time() < until:
        model(torch.ones(1, 8))
        time.sleep(0.001)  # A trace that is saved within the seconds that an ending program has.
if __name__ == "__main__":
    time.sleep(1.5)  # Until the service is there.
    child = multiprocessing.get_context("fork").Process(target=infer)
    child.start()
    print("ready", flush=True)
    child.join()
    print("ended", child.exitcode, flush=True)
    time.sleep(60)
"""


def test_the_end_of_a_forked_child_of_multiprocessing(group, tmp_path, python_package):
    """It ends by os._exit(), without what `atexit` knows: its recording is kept, and its files are gone, all the same."""
    program = tmp_path / "ending.py"
    program.write_text(ENDING_CHILD)
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, program])
    wait_until(lambda: len(trainer.announcements()) == 2, 30, "parent and child")
    (child,) = (a for a in trainer.announcements() if a["multiprocessing"])
    client = trainer.client(child)
    client.capture(ahead_ms=0, duration_ms=60_000)
    done = client.until("done")
    assert done["outcome"] == "Truncated", done
    assert {"aten::linear"} <= {name for name, _, _ in kineto_events(trainer.agent / done["file"])}
    trainer.process.wait_for("ended 0", 20)
    assert {a["pid"] for a in trainer.announcements()} == {trainer.process.pid}


FORKING = """
import multiprocessing, os, sys, time, torch
from torch.utils.data import DataLoader
def train():
    weight = torch.nn.Parameter(torch.ones(64))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    parent = multiprocessing.parent_process().pid
    while os.getppid() == parent:
        weight.exp().sum().backward()
        optimizer.step()
        time.sleep(0.002)
context = multiprocessing.get_context("fork")
if sys.argv[1] == "profiles":
    # What runs before our thread has seen PyTorch, at most a second after its import, is not known.
    while not hasattr(torch.autograd.profiler._prepare_profiler, "strobe_original"):
        time.sleep(0.01)
    with torch.autograd.profiler.profile():
        torch.ones(1)
trainer = context.Process(target=train, name="rank")
trainer.start()  # At once: our thread loads its modules at this moment.
loader = iter(DataLoader(list(range(1000)), num_workers=1, multiprocessing_context=context))
next(loader)
print("ready", trainer.pid, flush=True)
trainer.join()
print("joined", flush=True)
time.sleep(60)
"""


def test_a_forked_child_that_trains_is_recorded(group, tmp_path, python_package):
    """A worker of a data loader is not."""
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, program, "trains"])
    wait_until(lambda: len(trainer.announcements()) == 2, 60, "parent and child")
    child, = (a for a in trainer.announcements() if a["multiprocessing"])
    assert child["multiprocessing"] == {"name": "rank", "daemon": False} and child["parent_pid"] == trainer.process.pid
    client = trainer.client(child)
    client.capture(duration_ms=200)
    done = client.until("done")
    names = {name for name, _, _ in kineto_events(trainer.agent / done["file"])}
    assert {"aten::exp", "aten::sum"} <= names, names
    assert len(told_steps(trainer.agent / f"{child['pid']}-{child['began']}.process")["ProfilerStep"]) == 16
    os.kill(child["pid"], signal.SIGTERM)
    trainer.process.wait_for("joined", 20)
    assert [is_locked(path) for path in trainer.agent.glob("*.process")].count(True) == 1 == sum(a["pid"] == trainer.process.pid for a in trainer.announcements())


def test_a_forked_child_of_a_program_that_has_profiled_is_left_alone(group, tmp_path, python_package):
    """It has Kineto's state without its threads."""
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, program, "profiles"])
    trainer.announced()
    time.sleep(2)
    assert len(trainer.announcements()) == 1


def test_a_program_forks_between_two_things_that_our_thread_does(python_package, tmp_path):
    """A child would wait for ever for a module that our thread was just loading, and would keep a locked file open that it was just making."""
    said = package_python(python_package, tmp_path, """
        import os, sys, threading, time
        import strobe_bootstrap
        inproc = strobe_bootstrap._load()
        class Slow:  # An import of our thread's that takes long.
            def find_spec(self, name, path=None, target=None):
                if name == "strobe._inproc.service":
                    begun.set()
                    time.sleep(0.3)
        begun = threading.Event()
        sys.meta_path.insert(0, Slow())
        strobe_bootstrap.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            threading.Timer(10, os._exit, (3,)).start()
            import strobe._inproc.service
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), inproc._forker)
        inproc._busy.acquire()  # As a thread that hangs.
        inproc._SECONDS_TO_FORK = 0.1
        child = os.fork()
        if child == 0:
            os._exit(0)
        print(os.waitpid(child, 0)[1], inproc._busy.locked())
        inproc._busy.release()
    """)
    assert said == "0 None\n0 True"


@pytest.mark.parametrize("recording", [False, True])
def test_a_forked_child_is_not_announced(trainer, recording):
    """Nor does its end hang in Kineto's destructors, as it does in a process that used torch.profiler."""
    trainer.announced()
    client = trainer.client()
    client.capture(duration_ms=60_000 if recording else 50)
    client.until("recording" if recording else "done")
    trainer.order("""
child = os.fork()
if child == 0:
    for _ in range(20):
        model(batch)  # PyTorch's backward pass does not survive a fork.
    print("child has", [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")], flush=True)
    sys.exit(0)
print("child ended with", os.waitpid(child, 0)[1], flush=True)
""")
    assert "child ended with 0" in trainer.process.output(), trainer.process.output()
    assert "strobe-inproc" not in trainer.process.output().split("child has")[1].split("\n")[0]
    assert len(trainer.announcements()) == 1 and all(is_locked(path) for path in trainer.agent.glob("*.process"))
    if recording:
        assert trainer.trains()
        client.ask(op="stop")
        assert check_operators(trainer, client.until("done"))
    other = trainer.client()
    other.capture(duration_ms=100)
    assert other.until("done") and trainer.trains()


def test_the_programs_own_profiler_wins(trainer):
    trainer.announced()
    begin = "own = torch.profiler.profile(); own.__enter__(); train()"
    end = "train(); own.__exit__(None, None, None); print('own', len([e for e in own.events() if e.name == 'aten::addmm']), flush=True)"
    trainer.order(begin)
    client = trainer.client()
    client.capture()
    refused = client.last()
    assert refused["outcome"] == "Busy" and "torch.profiler" in refused["message"], refused
    trainer.order(end)
    # During ours: ours ends, with what it has.
    client = trainer.client()
    client.capture(ahead_ms=0, duration_ms=60_000)
    client.until("recording")
    time.sleep(0.3)
    trainer.order(begin)
    done = client.until("done")
    assert done["outcome"] == "Truncated" and "session of its own" in done["message"], done
    assert check_operators(trainer, done)
    client = trainer.client()
    client.capture()
    assert client.last()["outcome"] == "Busy"
    trainer.order(end)
    # Before ours begins.
    client = trainer.client()
    client.capture(ahead_ms=60_000)
    time.sleep(0.2)
    trainer.order(begin)
    assert client.last()["outcome"] == "Busy"
    trainer.order(end)
    client = trainer.client()
    client.capture(duration_ms=100)
    assert check_operators(trainer, client.until("done"))
    counts = [int(line.split()[1]) for line in trainer.process.output().splitlines() if line.startswith("own ")]
    assert len(counts) == 3 and all(count >= 4 for count in counts), counts


def quiet_python(package, tmp_path, code, **env):
    """Runs code with our package on the path; returns its output, and the names in the agent directory while it ran."""
    (tmp_path / "strobe").mkdir(exist_ok=True)
    code += "\nimport os, time; time.sleep(0.5)\nprint(sorted(os.listdir(os.environ['D'])))"
    result = subprocess.run([TORCH_PYTHON, "-c", code], capture_output=True, text=True, timeout=60, env={
        **os.environ, "PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore", "D": str(tmp_path / "strobe"), "STROBE_DIR": str(tmp_path / "strobe"), **env})
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("env", [{"STROBE_BOOTSTRAP": "off"}, {"STROBE_DIR": ""}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}])
def test_it_can_be_switched_off(tmp_path, python_package, env):
    said = quiet_python(python_package, tmp_path, "import torch, threading; print([t.name for t in threading.enumerate()])", **env)
    assert said.splitlines() == ["['MainThread']", "[]"]


def test_nothing_else_is_loaded(tmp_path, python_package):
    said = quiet_python(python_package, tmp_path, "import sys, time, torch; time.sleep(0.5); print('strobe' in sys.modules, 'strobe._inproc' in sys.modules)")
    assert said.splitlines() == ["False True", "['agent']"]
    # `import strobe` afterwards finds the same one, and a second bootstrap adds nothing.
    said = quiet_python(python_package, tmp_path, "import torch, strobe, sys, time, strobe._inproc\nstrobe._inproc.bootstrap('torch'); time.sleep(0.5)\n"
                        "from glob import glob\nnames = [open(path).read() for path in glob('/proc/self/task/*/comm')]\n"
                        "print(strobe._inproc is sys.modules['strobe._inproc'], names.count('strobe-inproc\\n'))")
    assert said.splitlines()[0] == "True 1"


def test_a_program_without_a_framework_pays_nothing(tmp_path, python_package):
    said = quiet_python(python_package, tmp_path, "import sys, threading; print([m for m in sys.modules if 'strobe' in m], threading.active_count())")
    assert said.splitlines() == ["[] 1", "[]"]


@pytest.mark.parametrize("harm", ["readonly", "missing", "file"])
def test_a_directory_that_cannot_be_used_harms_nobody(tmp_path, python_package, harm):
    place = tmp_path / "place"
    if harm == "file":
        place.write_text("")
    elif harm == "readonly":
        place = "/proc/self"
    said = quiet_python(python_package, tmp_path, "import torch; print(torch.ones(2).sum().item())", STROBE_DIR=str(place))
    assert said.splitlines()[0] == "2.0"


def test_children_of_multiprocessing_say_so(tmp_path, python_package, group):
    program = tmp_path / "spawn.py"
    program.write_text("""
import torch, torch.multiprocessing as mp, time
from torch.utils.data import DataLoader
def work(rank):
    time.sleep(60)
if __name__ == "__main__":
    context = mp.get_context("spawn")
    context.Process(target=work, args=(0,), name="trainer").start()
    loader = iter(DataLoader(list(range(64)), num_workers=1, multiprocessing_context="spawn"))
    next(loader)
    print("ready", flush=True)
    time.sleep(60)
""")
    trainer = Trainer(group, tmp_path, python_package, command=[TORCH_PYTHON, program])
    wait_until(lambda: len(trainer.announcements()) == 3, 60, "three announcements")
    children = {a["multiprocessing"] and a["multiprocessing"]["daemon"] for a in trainer.announcements()}
    assert children == {None, False, True}
    for announcement in trainer.announcements():
        if announcement["multiprocessing"]:
            os.kill(announcement["pid"], signal.SIGKILL)


def test_the_socket_is_for_the_pod_only(trainer):
    """A Unix socket has no port: nothing of this process listens on the network."""
    trainer.announced()
    inodes = {os.readlink(f"/proc/{trainer.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{trainer.process.pid}/fd")}
    with open("/proc/net/tcp") as tcp, open("/proc/net/tcp6") as tcp6:
        listening = {f"socket:[{line.split()[9]}]" for line in [*tcp, *tcp6] if line.split()[3] == "0A"}
    assert not inodes & listening
    assert isinstance(trainer.client(), Client) and socket.AF_UNIX


# Code for package_python: starts the service, `inproc._service`, and waits until it is there.
WAIT_FOR_SERVICE = """
        import sys, time
        import strobe_bootstrap
        strobe_bootstrap.start()
        inproc = sys.modules["strobe._inproc"]
        while inproc._service is None:
            time.sleep(0.01)"""


def package_python(package, directory, code, **env):
    """Runs code with the package, as in a pod with a sidecar; returns what it printed. Without a framework."""
    (directory / "agent").mkdir(exist_ok=True)
    done = subprocess.run([PYTHON, "-c", textwrap.dedent(code)], env={"PYTHONPATH": str(package), "STROBE_DIR": str(directory), **env},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_sockets_of_the_program_stay_blocking(python_package, tmp_path):
    """Also where new sockets of Python are not, because of a default timeout."""
    said = package_python(python_package, tmp_path, """
        import os, socket
        socket.setdefaulttimeout(30)
        server = socket.create_server(("127.0.0.1", 0))
        server.setblocking(True)
        from strobe._inproc.sockets import close_to_others, listening
        found = listening()
        print(list(found.values()) == [server.getsockname()[1]], close_to_others(set(found)), os.get_blocking(server.fileno()))
        print(server.getsockopt(socket.SOL_SOCKET, 25, 16).rstrip(b"\\0"))
    """)
    assert said.split("\n") == ["True True True", "b'lo'"]


def test_a_port_can_be_bound_again_while_sockets_are_looked_at(python_package, tmp_path):
    """A socket that listens was copied for a moment. A thread that closed it then and bound its port again got EADDRINUSE."""
    said = package_python(python_package, tmp_path, """
        import errno, socket, types
        from strobe._inproc import sockets
        libc = sockets._libc
        server = socket.create_server(("127.0.0.1", 0))
        port, said = server.getsockname()[1], []
        def getsockopt(*arguments):  # What another thread may do meanwhile.
            if not said:
                server.close()
                try:
                    said.append(socket.create_server(("127.0.0.1", port)))
                except OSError as error:
                    said.append(errno.errorcode[error.errno])
            return libc.getsockopt(*arguments)
        sockets._libc = types.SimpleNamespace(getsockopt=getsockopt, getsockname=libc.getsockname)
        sockets.listening()
        print(said[0] if isinstance(said[0], str) else "bound again", list(sockets.listening().values()) == [port])
    """)
    assert said == "bound again True"


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_a_server_stays_only_if_it_is_closed_to_others(python_package, tmp_path, framework, refused):
    """Otherwise the session socket is announced. Linux before 5.7, and some sandboxes, refuse to bind a socket to a device. The server is a stand-in."""
    said = package_python(python_package, tmp_path, f"""
        import ctypes, errno, json, os, socket, sys, types
        from strobe._inproc import service, sockets
        from strobe._inproc.recorder import Recorder
        opened = []
        def start_server(port):
            server = socket.create_server(("", port), reuse_port=True)  # As gRPC opens it.
            return server if {framework!r} == "jax" else opened.append(server)  # JAX's ends with its last reference, TensorFlow's never.
        for name in ("jax", "tensorflow"):
            sys.modules[name] = types.SimpleNamespace(__version__="9.0")
        for name in ("jaxlib._profiler", "tensorflow.python.profiler.internal._pywrap_profiler"):
            sys.modules[name] = types.SimpleNamespace(start_server=start_server)
        libc, asked = sockets._libc, []
        def setsockopt(fd, level, option, *value):
            asked.append(option)
            ctypes.set_errno(errno.EPERM)
            return -1
        if {refused}:
            sockets._libc = types.SimpleNamespace(getsockopt=libc.getsockopt, getsockname=libc.getsockname, shutdown=libc.shutdown, setsockopt=setsockopt)
        service.is_usable, service.recorder_for = lambda name: True, lambda name, directory: Recorder(directory)
        service.Service(os.environ["STROBE_DIR"], {{{framework!r}}}, None)._look()
        agent = os.environ["STROBE_DIR"] + "/agent/"
        (file,) = [name for name in os.listdir(agent) if name.endswith(".process")]
        with open(agent + file) as announcement:
            told = json.load(announcement)
        print(told["channel"], told["address"] in [f"127.0.0.1:{{port}}" for port in told["listens"]], len(told["listens"]), set(asked))
        print(told["socket"] in os.listdir(agent), len(sockets.listening()), [name for name in os.listdir(agent) if name.endswith(".failed")])
    """)
    assert said.split("\n") == (["session False 0 {25}", "True 0 []"] if refused else ["server True 1 set()", "True 1 []"])


def test_signals_that_the_program_waits_for_are_not_taken_from_it(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import os, signal, time
        import strobe_bootstrap
        strobe_bootstrap.start()
        time.sleep(0.3)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)
        print(signal.sigwait({signal.SIGTERM}))
    """)
    assert said in ("15", "Signals.SIGTERM")


def test_programs_that_wait_for_all_threads_end(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import threading, time
        import strobe_bootstrap
        strobe_bootstrap.start()
        time.sleep(0.3)
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join()
        with open("/proc/self/status") as status:
            print(next(line for line in status if line.startswith("Threads:")).split()[1], threading.active_count())
    """)
    assert said == "2 1"


def test_under_gevent_it_is_a_thread_all_the_same(python_package, tmp_path):
    """gevent replaces functions of the standard library, and keeps the originals."""
    said = package_python(python_package, tmp_path, """
        import _thread, os, select, socket, sys, threading, time, types
        def replaced(*arguments, **options):
            print("gevent's was called", flush=True)
            raise RuntimeError
        saved = {}
        for module, name in ((_thread, "start_new_thread"), (select, "poll"), (time, "sleep"), (socket, "socket")):
            saved[module.__name__, name] = getattr(module, name)
            setattr(module, name, replaced)
        monkey = types.ModuleType("gevent.monkey")
        monkey.get_original = lambda module, name: saved.get((module, name)) or getattr(sys.modules[module], name)
        sys.modules["gevent.monkey"] = monkey
        import strobe_bootstrap
        strobe_bootstrap.start()
        agent = os.environ["STROBE_DIR"] + "/agent/"
        client = saved["socket", "socket"](socket.AF_UNIX)
        client.settimeout(30)
        while not any(client.connect_ex(agent + name) == 0 for name in os.listdir(agent) if name.endswith(".sock")):
            saved["time", "sleep"](0.01)
        client.sendall(b"{}\\n")
        print(b"refused" in client.recv(999), len(os.listdir("/proc/self/task")), [name for name in os.listdir(agent) if name.endswith(".failed")])
    """)
    assert said == "True 2 []"


def test_under_gevent_locks_are_those_of_threads(python_package, tmp_path):
    """gevent's would make a thread that waits for one begin an event loop, and its identifiers are those of greenlets."""
    said = package_python(python_package, tmp_path, """
        import _thread, functools, sys, threading, types
        saved = {}
        def replace(module, name):
            saved[module.__name__, name] = original = getattr(module, name)
            @functools.wraps(original)
            def replaced(*arguments, **options):
                if sys._getframe(1).f_globals["__name__"].startswith("strobe._inproc"):
                    raise RuntimeError("gevent's was called")
                return original(*arguments, **options)
            setattr(module, name, replaced)
        for name in ("allocate_lock", "get_ident"):
            replace(_thread, name)
        for name in ("Lock", "RLock", "Condition", "get_ident"):
            replace(threading, name)
        monkey = types.ModuleType("gevent.monkey")
        monkey.get_original = lambda module, name: saved.get((module, name)) or getattr(sys.modules[module], name)
        sys.modules["gevent.monkey"] = monkey
        import strobe_bootstrap
        strobe_bootstrap._load()._after_fork()
        from types import SimpleNamespace
        from strobe._inproc import changes, steps
        from strobe._inproc.own_thread import OwnThread, new_lock
        from strobe._inproc.step_gate import StepGate
        from strobe._inproc.turn import Turn

        turn, order, is_taken, is_wanted, errors = Turn(), [], new_lock(), new_lock(), []
        def capture():
            assert turn.take(is_wanted.release) and turn.is_ours()
            is_taken.release()
            is_wanted.acquire()
            order.append("ours ends")
            turn.release()
        is_taken.acquire()
        is_wanted.acquire()
        OwnThread(capture, "capture", errors.append).start()
        is_taken.acquire()
        turn.program_begins()
        order.append("the program's begins")

        began = []
        recorder = SimpleNamespace(turn=turn, start=lambda at: began.append(turn.is_ours()))
        gate = StepGate(SimpleNamespace(loop="train", first=1, count=1), recorder, lambda: None)
        gate.begin("train", 1)
        gate.close()
        for _ in range(2):
            steps.steps_of("torch").begin("train", 1)
            steps._Optimizers(steps.steps_of("torch"))(None, None, None)
            with changes.short_switch_interval():
                pass
            steps.forget()
            changes.forget_switch_interval()
        print(order, began, gate.error, steps.steps_of("torch").loops, errors)
    """)
    assert said == "['ours ends', \"the program's begins\"] [True] None {} []"


def test_a_program_that_closes_all_descriptors_keeps_its_own(python_package, tmp_path):
    """As daemons do. Its files then have the numbers of ours, in it and in its children."""
    said = package_python(python_package, tmp_path, """
        import os, time
""" + WAIT_FOR_SERVICE + """
        time.sleep(0.3)  # It rests.
        os.closerange(3, 64)
        pipes = [os.pipe() for _ in range(15)]
        for _, end in pipes:
            os.write(end, b"data")
        inproc._service.first.channel.wake()
        ended = inproc._thread.join(30)
        child = os.fork()
        if child == 0:
            for pair in pipes:
                for end in pair:
                    os.fstat(end)
            os._exit(0)
        left = inproc._service.first.channel.listener.fileno()  # The end of the interpreter closes what a socket still has.
        print(ended, left, os.waitpid(child, 0)[1], {os.read(end, 9) for end, _ in pipes})
    """)
    assert said == "True -1 0 {b'data'}"


def test_a_program_does_not_wait_long_for_a_trace_at_its_end(python_package, tmp_path):
    """What C++ registered is left out then, because it may destroy what our thread uses. The exit code stays."""
    package_python(python_package, tmp_path, """
        import ctypes, time
        libc = ctypes.CDLL(None)
        libc.__cxa_atexit(libc.abort, None, None)  # A destructor.
""" + WAIT_FOR_SERVICE + """
        inproc._SECONDS_TO_END = 0.1
        called = []
        inproc._service.first.serve = lambda seconds: called.append(seconds) or libc.sleep(1000)  # As PyTorch while it writes.
        inproc._service.look_again()
        while not called:
            time.sleep(0.01)
        sys.exit(0)
    """)


def test_a_trace_that_the_end_of_the_program_took_is_no_failure(python_package, tmp_path):
    """The connection is closed instead, so that the sidecar says that the program ended."""
    said = package_python(python_package, tmp_path, """
        from types import SimpleNamespace
        from strobe._inproc.capture import Capture, Exiting
        lines = []
        def save(directory, hidden):
            service.exiting = True  # Meanwhile the main thread has removed the files.
            raise FileNotFoundError(hidden)
        service = SimpleNamespace(exiting=False, stem="1-2", directory=SimpleNamespace(owns=lambda name: None, remove=lambda name: None))
        recorder = SimpleNamespace(stop=lambda: None, discard=lambda: None, save=save, turn=SimpleNamespace(release=lambda: None), suffix="json",
                                   started_ns=1, stopped_ns=2, stop_took_ns=3)
        connection = SimpleNamespace(say=lambda **fields: lines.append(fields["state"]) or True)
        try:
            Capture(SimpleNamespace(tell_memory=False), recorder, connection, service)._stop()
        except Exiting:
            print(lines)
    """)
    assert said == "['stopped']"


def test_a_clock_that_is_set_back_does_not_lengthen_a_recording(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import json, time
        from types import SimpleNamespace
        from strobe._inproc import capture
        from strobe._inproc.request import parse
        from strobe._inproc.turn import Turn
        calls, lines, back = [], [], [0]
        def start(at):
            recorder.started_ns, back[0] = time.time_ns(), 3_600_000_000_000
        capture.time = SimpleNamespace(time_ns=lambda: time.time_ns() - back[0], monotonic_ns=time.monotonic_ns, monotonic=time.monotonic)
        recorder = SimpleNamespace(turn=Turn(), note=None, stays=None, busy=lambda: None, make_safe=lambda: None, prepare=lambda *of: None, start=start, started_ns=0,
                                   stopped_ns=0, stop_took_ns=0, stop=lambda: calls.append("stop"), discard=lambda: calls.append("discard"),
                                   prepare_ahead_ns=lambda: 0, wake_ahead_ns=0, suffix="json")
        # The client goes away when the recording has stopped.
        connection = SimpleNamespace(buffer=b"", say=lambda **fields: lines.append(fields["state"]) or fields["state"] != "stopped", close=lambda: None)
        channel = SimpleNamespace(wake=lambda: None, wait=lambda seconds, active: time.sleep(seconds))
        service = SimpleNamespace(channel=channel, exiting=False, leads=lambda: True, would_disturb=lambda: None)
        request = parse(json.dumps({"op": "capture", "start_ns": time.time_ns() + 50_000_000, "duration_ns": 100_000_000}).encode(), ["jax"])
        began = time.monotonic()
        capture.Capture(request, recorder, connection, service).run()
        print(lines, calls, 0.1 < time.monotonic() - began < 20)
    """)
    assert said == "['prepared', 'recording', 'stopped'] ['stop', 'discard'] True"


def test_pytorch_for_amd_says_what_its_profiler_needs(python_package, tmp_path):
    """A build for AMD differs to the package by the version of HIP alone. This is no GPU of AMD."""
    program = textwrap.dedent("""
        import torch
        torch.version.hip, torch.version.cuda = "6.4.43484", None
        from strobe._inproc.request import parse
        from strobe._inproc.torch_session import TorchRecorder
        torch.cuda.is_initialized = lambda: True
        recorder = TorchRecorder(None)
        print("rocprofiler-sdk" in recorder.note, recorder.yields_devices())
        activities = torch._C._autograd._supported_activities() | {torch._C._profiler.ProfilerActivity.CUDA}
        torch._C._autograd._supported_activities = lambda: activities
        recorder.autograd.profile = lambda **options: __import__("types").SimpleNamespace(_prepare_trace=lambda: print(options["use_device"], options["use_cpu"]))
        request = parse(b'{"op": "capture", "duration_ns": 1000000, "tracers": {"kernels_only": true, "detach": true}}', ["torch"])
        recorder.prepare(request, 0)
        print("rocprofiler-sdk" in recorder.note, "CUPTI" in recorder.note)
    """)
    done = subprocess.run([TORCH_PYTHON, "-c", program], env={"PYTHONPATH": str(python_package), "STROBE_DIR": str(tmp_path), "STROBE_BOOTSTRAP": "off"},
                          capture_output=True, text=True, timeout=60)
    said = done.stdout.strip()
    assert done.returncode == 0, said + done.stderr
    assert said.split("\n") == ["True False", "cuda False", "True False"]


def test_steps_that_do_not_begin_in_time_are_a_late_start(python_package, tmp_path):
    """The message says where the process is, and a step that begins afterwards starts nothing."""
    said = package_python(python_package, tmp_path, """
        import json, time
        from types import SimpleNamespace
        from strobe._inproc.capture import Capture
        from strobe._inproc.request import parse
        from strobe._inproc.steps import steps_of
        from strobe._inproc.turn import Turn
        steps = steps_of("jax")
        def capture():
            lines, calls = [], []
            recorder = SimpleNamespace(turn=Turn(), note=None, stays=None, busy=lambda: None, make_safe=lambda: None, prepare=lambda *of: calls.append("prepare"),
                                       start=lambda at: calls.append("start"), discard=lambda: calls.append("discard"))
            connection = SimpleNamespace(buffer=b"", say=lambda **fields: lines.append(fields) or True, close=lambda: calls.append("close"))
            channel = SimpleNamespace(wake=lambda: None, wait=lambda seconds, active: time.sleep(seconds))
            service = SimpleNamespace(channel=channel, exiting=False, leads=lambda: True, would_disturb=lambda: None)
            step = {"loop": "train", "first": 7, "count": 2, "by_ns": time.time_ns() + 50_000_000}
            request = parse(json.dumps({"op": "capture", "duration_ns": 1_000_000, "step": step}).encode(), ["jax"])
            Capture(request, recorder, connection, service).run()
            steps.begin("train", 7)
            print([line["state"] for line in lines], calls, lines[-1]["outcome"], lines[-1]["message"], sep="|")
        capture()
        steps.begin("train", 3)
        capture()
    """)
    late = "['prepared', 'failed']|['prepare', 'discard', 'close']|LateStart|step 7 of train did not begin in time; the process is at "
    assert said.split("\n") == [late + "no step", late + "step 3"]


def test_steps_that_passed_before_the_gate_was_set_are_replaced_by_as_many(python_package, tmp_path):
    """A server's decoding is a hundred times faster than its prefill, by which the steps were planned: the trace was empty."""
    said = package_python(python_package, tmp_path, """
        from types import SimpleNamespace
        from strobe._inproc.step_gate import StepGate
        from strobe._inproc.turn import Turn
        for first in (7, 40):
            gate = StepGate(SimpleNamespace(loop="engine", first=first, count=3), SimpleNamespace(turn=Turn(), start=lambda at: None), lambda: None)
            for number in range(41, 50):
                gate.begin("engine", number)
                if gate.ended:
                    break
                gate.end("engine", number)
                if gate.ended:
                    break
            print(gate.began, number)
    """)
    assert said.split("\n") == ["41 43", "41 42"], "as many as asked, or the rest of those asked"


def test_a_trace_is_saved_without_the_interpreter_only_by_the_function_we_know(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        from strobe._inproc.torch_unlocked import _saves_as_expected
        def kind(doc):
            def save(self, path): pass
            save.__doc__ = doc
            return type("_ProfilerResult", (), {"save": save})()
        known = "save(self: torch._C._autograd._ProfilerResult, arg0: str) -> None"
        docs = known, known.replace("None", "bool"), known.replace("str)", "str, arg1: bool)"), "", None
        print([_saves_as_expected(kind(doc)) for doc in docs])
    """)
    assert said == "[True, False, False, False, False]"


def test_the_socket_of_kineto_is_found(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import os, socket
        from strobe._inproc.sockets import kineto_client
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        unique = f"dynoconfigclient{os.getpid()}"
        client.bind(f"\\0{unique}\\0")
        print(kineto_client())
        os.environ["KINETO_USE_DAEMON"] = "1"
        print(kineto_client() == unique)
        client.close()
        file = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        file.bind(os.environ["STROBE_DIR"] + f"/{unique}")
        print(kineto_client() == unique)
        file.close()
        print(kineto_client())
    """)
    assert said.split("\n") == ["None", "True", "True", "None"]


def test_a_forked_child_writes_into_no_file_of_its_own(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import os, tempfile
""" + WAIT_FOR_SERVICE + """
        service = inproc._service
        if os.fork() == 0:
            files = [tempfile.TemporaryFile() for _ in range(20)]  # They have the numbers that the service's pipe had.
            service.first.channel.wake()
            print(sum(os.fstat(file.fileno()).st_size for file in files), flush=True)
            os._exit(0)
        os.wait()
    """)
    assert said == "0"


def test_a_child_that_c_code_forked_does_not_stand_for_its_parent(python_package, tmp_path):
    """It keeps the announcement's flock, and Python does not know of it. The second lock is not inherited."""
    said = package_python(python_package, tmp_path, """
        import ctypes, fcntl, os, signal, time
        from strobe._inproc.announce import Directory

        def is_free(lock):
            with open(os.environ["STROBE_DIR"] + "/agent/1-2.process", "r+b") as file:
                try:
                    lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return False
                return True

        told, tell = os.pipe()
        program = os.fork()
        if program == 0:
            os.setpgid(0, 0)
            directory = Directory(os.environ["STROBE_DIR"], "1-2")
            directory.announce("1-2.process", {})
            if ctypes.PyDLL(None).fork() != 0:
                os.write(tell, b"x")
            time.sleep(60)
        os.read(told, 1)
        print(is_free(fcntl.flock), is_free(fcntl.lockf))
        os.kill(program, signal.SIGKILL)
        os.waitpid(program, 0)
        print(is_free(fcntl.flock), is_free(fcntl.lockf))
        os.killpg(program, signal.SIGKILL)
    """)
    assert said.split("\n") == ["False False", "False True"]


def test_other_import_hooks_see_tensorflow(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        import sys
        class Other:
            seen = []
            def find_spec(self, name, path=None, target=None):
                self.seen.append(name)
        sys.meta_path.insert(0, Other())
        from strobe._inproc import bootstrap_imported
        bootstrap_imported()
        import importlib.util
        importlib.util.find_spec("tensorflow")
        print(Other.seen.count("tensorflow"))
    """)
    assert said == "1"


def test_an_exception_of_a_signal_handler_is_the_programs(python_package, tmp_path):
    """Our code is what the interpreter happens to run. It lets such an exception pass, and no other one."""
    said = package_python(python_package, tmp_path, """
        import functools, signal, types
        from strobe._inproc.recorder import intercept
        def on_alarm(limit, number, frame):
            raise TimeoutError(limit)
        class Session: pass
        holder = types.SimpleNamespace(begin=lambda: "began", Session=Session)
        def before():
            signal.raise_signal(signal.SIGALRM)
        def broken():
            raise ValueError("ours")
        intercept(holder, "begin", before)
        signal.signal(signal.SIGALRM, functools.partial(on_alarm, "limit"))
        try:
            holder.begin()
        except TimeoutError as error:
            print(error)
        intercept(holder, "begin", broken)
        print(holder.begin())
        intercept(holder, "Session", broken)
        print(isinstance(holder.Session(), holder.Session), isinstance(3, holder.Session), issubclass(Session, holder.Session))
    """)
    assert said.split("\n") == ["limit", "began", "True False True"]


def test_a_session_that_a_signal_handler_prevents_leaves_captures_possible(python_package, tmp_path):
    """The program waits for our recording to stop, and its time limit passes meanwhile."""
    said = package_python(python_package, tmp_path, """
        import signal
        from strobe._inproc.own_thread import OwnThread, new_lock
        from strobe._inproc.turn import Turn
        turn, taken = Turn(), new_lock()
        def limit(*_):
            raise TimeoutError
        signal.signal(signal.SIGALRM, limit)
        taken.acquire()
        OwnThread(lambda: (turn.take(lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)), taken.release()), "capture", print).start()
        taken.acquire()
        try:
            turn.program_begins()
        except TimeoutError:
            print("limit")
        turn.release()
        print(turn.take(None))
    """)
    assert said == "limit\nTrue"


def test_ranks_are_those_of_the_framework_else_of_the_launcher(python_package, tmp_path):
    """As the agent reads them (agent/wire/ring_file.cc). A local rank that nobody tells is not invented here."""
    said = package_python(python_package, tmp_path, """
        import os, sys
        from types import SimpleNamespace
        from strobe._inproc.process import ranks
        def told(**env):
            os.environ.update(env)
            print(*ranks().values())
            for name in env:
                del os.environ[name]
        told()
        told(RANK="9", LOCAL_RANK="1", WORLD_SIZE="16")
        told(OMPI_COMM_WORLD_RANK="9", OMPI_COMM_WORLD_LOCAL_RANK="1", OMPI_COMM_WORLD_SIZE="16")
        told(SLURM_PROCID="9", SLURM_LOCALID="1", SLURM_NTASKS="16")
        told(JAX_PROCESS_ID="9", JAX_NUM_PROCESSES="16")
        told(TPU_WORKER_ID="9")
        told(RANK="9")
        told(RANK="x", JAX_PROCESS_ID="1234567890", SLURM_PROCID="12", TPU_WORKER_ID="3", LOCAL_RANK="-1", SLURM_LOCALID="4", WORLD_SIZE="")
        sys.modules["jax._src.distributed"] = SimpleNamespace(global_state=SimpleNamespace(client=None))
        told(TPU_WORKER_ID="1")
        sys.modules["jax._src.distributed"].global_state = SimpleNamespace(client=object(), process_id=5, num_processes=8)
        told(TPU_WORKER_ID="1")
    """)
    assert said.split("\n") == ["None None None False", *["9 1 16 False"] * 3, "9 None 16 False", *["9 None None False"] * 2, "12 4 None False",
                                "1 None None False", "5 None 8 True"]


def test_launchers_and_helpers_are_known_by_their_command(python_package, tmp_path):
    said = package_python(python_package, tmp_path, """
        from strobe._inproc.process import is_launcher
        for command in ("python -X dev -m torch.distributed.run t.py", "python -um torch.distributed.run t.py", "python -W ignore /bin/torchrun t.py",
                        "python /x/torch/_inductor/compile_worker/__main__.py --workers=8", "python t.py -m torch.distributed.run", "python -Wignore t.py",
                        "python -m train torchrun", "train"):
            print(int(is_launcher(command.split())), end="")
        print(int(is_launcher(["python", "-c", "from multiprocessing.forkserver import main; main(3)"])))
        import multiprocessing
        def tell():
            print(*(int(is_launcher(f"python {command}".split())) for command in ("-m torch.distributed.run", "/x/torch/_inductor/compile_worker/__main__.py")))
        child = multiprocessing.get_context("fork").Process(target=tell)
        child.start()
        child.join()
    """)
    assert said.split("\n") == ["111100001", "0 1"]
