"""The agent as the profiler plugin of NCCL. A harness calls it as NCCL does (tests/fakes/nccl); the other plugin is a fake
that writes down each call. tests/gpu/run does the same with NCCL on a GPU."""

import json
import os
import struct
import subprocess
import time

import pytest

from tests.support.agent_rig import AgentRig, events
from tests.support.processes import BIN

AGENT = BIN / "libstrobe_agent.so"
FAKES = BIN / "fakes/nccl"
CALLS = 200
# What plugins ask for: the default of the fake, nothing, groups only, calls of the program only, all of the proxy, all.
MASKS = [1 | 2 | 4 | 8 | 64, 0, 1, 256, 512 | 1024 | 2048, 8 | 16 | 128, 64, 4096 | 8192, 32767]


def harness(*arguments, plugin, env=None):
    result = subprocess.run([BIN / "nccl_harness", "--calls", str(CALLS), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                            env={**os.environ, "NCCL_PROFILER_PLUGIN": str(plugin), **(env or {})})
    assert result.returncode == 0 and not result.stderr, result.stderr
    return json.loads(result.stdout)


def log_of(path):
    return path.read_text().splitlines() if path.exists() else None


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("other", [4, 5, 6])
@pytest.mark.parametrize("interface", [4, 5, 6])
def test_another_plugin_gets_exactly_the_events_that_it_gets_alone(tmp_path, interface, other, mask):
    plugin = FAKES / f"nccl_other{other}.so"
    asks = {"FAKE_NCCL_MASK": str(mask)}
    harness("--interface", interface, plugin=plugin, env={**asks, "FAKE_NCCL_LOG": str(tmp_path / "alone")})
    for directory, log in ((tmp_path, "recorded"), ("", "not-recorded")):
        harness("--interface", interface, plugin=AGENT,
                env={**asks, "FAKE_NCCL_LOG": str(tmp_path / log), "STROBE_NCCL_CHAIN": str(plugin), "STROBE_DIR": str(directory)})
        chained, alone = log_of(tmp_path / log), log_of(tmp_path / "alone")
        assert chained == alone
    if other <= interface:
        assert alone[-1] == "end" and not any("?" in line or "foreign" in line for line in alone)
        assert len(alone) > CALLS or mask != MASKS[0], "the log says something"
    else:
        assert alone is None, "NCCL does not know that version"
    assert len(list((tmp_path / "agent").glob("*.nccl"))) == 1


def test_a_plugin_that_nobody_names_works_on(tmp_path):
    """NCCL finds libnccl-profiler.so by itself, and Strobe's stands before it."""
    os.symlink(FAKES / "nccl_other6.so", tmp_path / "libnccl-profiler.so")
    harness(plugin=AGENT, env={"LD_LIBRARY_PATH": str(tmp_path), "FAKE_NCCL_LOG": str(tmp_path / "log"), "STROBE_DIR": str(tmp_path)})
    assert len(log_of(tmp_path / "log")) > CALLS


class File:
    """A file of collectives, read by the offsets in agent/wire/README.md's terms and not by the code under test."""

    def __init__(self, directory):
        (path,) = (directory / "agent").glob("*.nccl")
        self.bytes = path.read_bytes()
        self.version, self.record_bytes, self.communicator_bytes, self.communicators, self.records = (
            struct.unpack_from("<I", self.bytes, at)[0] for at in (8, 20, 24, 28, 32))
        self.library, self.library_version, self.interface, self.chained, self.device_times = struct.unpack_from("<5I", self.bytes, 36)

    def communicator(self, index):
        return struct.unpack_from("<Qiii", self.bytes, 4096 + index * self.communicator_bytes)

    def record(self, number):
        """stamp, begin, launched, ordinal, count, key's four parts, how's five parts, sequence"""
        at = 4096 + self.communicators * self.communicator_bytes + number % self.records * self.record_bytes
        return struct.unpack_from("<QQQQQHBBiBBBBIQ", self.bytes, at)


@pytest.mark.parametrize("interface", [4, 5, 6])
def test_each_call_is_in_the_file(tmp_path, interface):
    assert harness("--interface", interface, plugin=AGENT, env={"STROBE_DIR": str(tmp_path)})["mask"] == 2 | 4
    file = File(tmp_path)
    assert (file.version, file.library, file.library_version, file.interface, file.chained) == (1, 1, 22809, interface, 0)
    assert file.communicator(0) == (0xabc0, 3, 8, 1) and file.communicator(1) == (0xabc1, 3, 8, 1)
    ordinals, sequences, last = {}, {}, 0
    for number in range(CALLS):
        stamp, begin, launched, ordinal, count, communicator, call, kind, peer, *_, sequence = file.record(number)
        assert stamp == 2 * number + 2 and last < begin <= launched
        last = begin
        transfer = number % 5 == 4
        assert communicator == number % 2 and call == (9 if transfer else [1, 2, 3][number % 3])
        key = (communicator, transfer)
        ordinals[key] = ordinals.get(key, 0) + 1
        assert ordinal == ordinals[key]
        # NCCL's own number begins at 0 and counts each function by itself; that of a transfer begins at 1.
        key = (communicator, call)
        assert sequence == sequences.get(key, 1 if transfer else 0)
        sequences[key] = sequence + 1
        if transfer:
            assert peer == 4 and (count, kind) == ((1 << 20, 8) if interface > 4 else (4 << 20, 1))
        else:
            assert (count, kind) == (1024, 8)


@pytest.mark.parametrize(("version", "asked", "allowed"), [(22809, "times", 1), (22809, "calls", 0), (23102, "times", 2)])
def test_devices_are_measured_only_where_it_is_asked_for_and_cheap(tmp_path, version, asked, allowed):
    harness(plugin=AGENT, env={"STROBE_DIR": str(tmp_path), "STROBE_COLLECTIVES": asked, "FAKE_NCCL_VERSION": str(version)})
    assert File(tmp_path).device_times == allowed


def test_the_switch_leaves_only_the_other_plugin(tmp_path):
    env = {"STROBE_DIR": str(tmp_path), "STROBE_DISABLE": "collectives"}
    assert harness(plugin=AGENT, env=env)["mask"] == 0
    assert not list((tmp_path / "agent").glob("*.nccl"))
    plugin = FAKES / "nccl_other6.so"
    harness(plugin=AGENT, env={**env, "STROBE_NCCL_CHAIN": str(plugin), "FAKE_NCCL_LOG": str(tmp_path / "log")})
    assert len(log_of(tmp_path / "log")) > CALLS


@pytest.fixture
def rig(group, tmp_path, protos):
    return AgentRig(group, tmp_path)


def trainer(group, rig, *arguments, env=None):
    return group.start(f"trainer-{time.monotonic_ns()}", [str(BIN / "nccl_harness"), *map(str, arguments)],
                       env={"STROBE_DIR": str(rig.dir), "NCCL_PROFILER_PLUGIN": str(AGENT), **(env or {})})


@pytest.mark.parametrize("asked", ["calls", "times"])
def test_collectives_become_rows_of_a_trace(rig, group, asked):
    trainer(group, rig, "--calls", 1_000_000, "--pause-us", 1000, env={"STROBE_COLLECTIVES": asked})
    (worker,) = rig.sidecar().capture(duration="500ms")["workers"]
    assert worker["outcome"] == "Ok", worker
    rows = events(rig.space(), "/host:NCCL")
    calls = [row for row in rows if not row[0].endswith("(device)")]
    measured = [row for row in rows if row[0].endswith("(device)")]
    assert {row[1] for row in calls} == {"nccl:AllReduce", "nccl:AllGather", "nccl:ReduceScatter", "nccl:Send"}
    assert {row[0] for row in calls} == {"tensor 0xabc0 rank 3 of 8", "tensor 0xabc1 rank 3 of 8"}
    for line in {row[0] for row in calls}:
        numbers = [row[4]["Seq"] for row in calls if row[0] == line and row[1] != "nccl:Send"]
        assert len(numbers) > 10 and numbers == list(range(numbers[0], numbers[0] + len(numbers))), "none is missing"
    assert bool(measured) == (asked == "times")
    begins = {(row[4]["Process Group Name"], row[1] == "nccl:Send", row[4]["Seq"]): row for row in calls}
    for row in measured:
        call = begins.get((row[4]["Process Group Name"], row[1] == "nccl:Send", row[4]["Seq"]))
        if call is not None:
            # The fake's device takes 20 us and begins within its program's call; a busy machine tells the end late.
            assert row[3] - row[2] >= 20_000_000 and abs(row[2] - call[2]) < 50_000_000_000, (row, call)


def test_two_ranks_of_which_one_does_not_come(rig, group, tmp_path):
    """The file tells, while the processes hang, which rank has not begun the last call."""
    sizes = {}
    for rank in (0, 1):
        flags = ["--skip-last"] if rank == 1 else []
        trainer(group, rig, "--calls", 11, "--rank", rank, "--ranks", 2, "--stay", *flags).wait_for('"version"', 20)
        for path in (rig.dir / "agent").glob("*.nccl"):
            if path not in sizes:
                sizes[path] = rank
    assert len(sizes) == 2
    made = {rank: struct.unpack_from("<Q", path.read_bytes(), 256)[0] for path, rank in sizes.items()}
    assert made == {0: 11, 1: 10}
