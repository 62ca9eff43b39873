"""Captures of programs that nobody changed, from the sidecar to the trace. Real PyTorch (build/torch) and JAX."""

import collections
import gzip
import json
import subprocess
import time

import pytest

from tests.support.inproc import TORCH_PYTHON, Trainer, records_memory
from tests.support.operator import WIDE_GUARD
from tests.support.perfetto import perfetto
from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT
from tests.support.step_rig import host_events
from tests.support.xprof import XProf

pytestmark = pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup test installs it")


@pytest.fixture
def sidecar(group, tmp_path):
    """A sidecar beside a trainer of this directory, as injection configures it: one profiler server, which is not there."""
    port = free_port()

    def start(*flags):
        group.start("sidecar", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", f"127.0.0.1:{free_port()}",
                                "--agent-dir", tmp_path / "strobe/agent", "--insecure-plaintext", *flags]).wait_for("strobe-sidecar serves", 20)
        return f"127.0.0.1:{port}"

    return start


def command(address, directory, duration, run):
    return [BIN / "strobe", "capture", "--insecure-plaintext", "--workers", address, "--logdir", directory / "logdir", "--run", run,
            "--duration", duration, "--guard", WIDE_GUARD, "--output", "json", "--attempts", "1"]


def capture(address, directory, *flags, run="r"):
    done = subprocess.run([*command(address, directory, "500ms", run), *flags], capture_output=True, text=True, timeout=120)
    manifest = json.loads(done.stdout)
    return manifest["workers"][0], done.stderr


def begin_capture(address, directory, duration, *flags, run="r"):
    """A capture's process, once the capture records."""
    process = subprocess.Popen([*command(address, directory, duration, run), *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if ": record," in line:
            break
    return process


def trace_of(directory, run="r"):
    (path,) = (directory / "logdir/plugins/profile" / run).glob("*.xplane.pb")
    return path


def check_operators(trainer, worker, directory, rank=0, run="r"):
    """Each operator of each complete step is in the trace, as often as PyTorch's own profiler counted."""
    found, expected, steps = trainer.compare_operators(host_events(trace_of(directory, run)), int(worker["startedNs"]), int(worker["stoppedNs"]), rank)
    assert steps > 10
    return found, expected


def test_an_unchanged_program_is_captured(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package)
    announcement = trainer.announced()
    worker, stderr = capture(address, tmp_path)
    assert worker["outcome"] == "Ok" and worker["coversWindow"], (worker, stderr)
    (process,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
    assert process["name"] == f"torch_loop.py {announcement['pid']}" and process["outcome"] == "OK"
    found, expected = check_operators(trainer, worker, tmp_path)
    assert found == expected
    assert trainer.names() == [], "the process's own file is gone"
    assert trainer.trains()


def host_stats(directory, run):
    """(name of the event, its stats by name) of the trace's host events."""
    from tensorflow import xplane_pb2

    (path,) = (directory / "logdir/plugins/profile" / run).glob("*.xplane.pb")
    for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
        if not plane.name.startswith("/host:CPU"):
            continue
        names = {number: stat.name for number, stat in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    value = getattr(stat, kind)
                    stats[names[stat.metadata_id]] = names[value] if kind == "ref_value" else value
                yield plane.event_metadata[event.metadata_id].name, stats


def test_options_of_the_request_are_in_the_trace(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package)
    trainer.announced()
    worker, stderr = capture(address, tmp_path, "--shapes", "--stacks", "--memory", "--flops", "--modules", run="all")
    assert worker["outcome"] == "Ok" and not worker["notes"], (worker, stderr)
    events = list(host_stats(tmp_path, "all"))
    products = [stats for name, stats in events if name == "aten::mm" and stats.get("Input Dims") == "[[64, 32], [32, 64]]"]
    assert products and {stats["flops"] for stats in products} == {2 * 64 * 32 * 64}
    assert any(stats.get("cat") == "python_function" and "torch_loop.py" in name for name, stats in events)
    assert any(name.startswith("nn.Module: Linear") for name, stats in events)
    allocated = [stats for name, stats in events if name == "Total Allocated" and stats["Total Allocated"] > 0]
    (process,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
    assert bool(allocated) == records_memory() and ("no memory allocations were recorded" in process["note"]) != records_memory(), process
    worker, _ = capture(address, tmp_path, run="none")
    assert not {"flops", "Input Dims", "Total Allocated"} & {stat for _, stats in host_stats(tmp_path, "none") for stat in stats}
    (process,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
    assert int(process["stopTookNs"]) > 0
    inspected = subprocess.run([BIN / "strobe", "inspect", tmp_path / "logdir/plugins/profile/none", "--output", "json"],
                               capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(inspected.stdout)[0]["processes"][0]["stopTookNs"] == int(process["stopTookNs"])


def test_the_file_of_pytorchs_profiler_can_be_kept(group, tmp_path, python_package, protos, sidecar):
    import grpc
    from strobe.v1 import worker_pb2, worker_pb2_grpc

    address = sidecar("--spool-dir", tmp_path / "spool")
    trainer = Trainer(group, tmp_path, python_package)
    pid = trainer.announced()["pid"]
    worker, stderr = capture(address, tmp_path, "--keep-original")
    assert worker["outcome"] == "Ok", (worker, stderr)
    run = tmp_path / "logdir/plugins/profile/r"
    (process,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
    assert process["original"] == f"{worker['name']}.{pid}.pt.trace.json.gz" and process["note"] == ""
    original = run / process["original"]
    with gzip.open(original) as file:
        events = json.load(file)["traceEvents"]
    operators = collections.Counter(event["name"] for event in events if event.get("cat") == "cpu_op")
    assert operators["aten::addmm"] > 10
    assert operators == collections.Counter(name for name, stats in host_stats(tmp_path, "r") if stats.get("cat") == "cpu_op")
    (count,), (dropped,) = perfetto(original, "select count(*) from slice where category = 'cpu_op'",
                                    "select sum(value) from stats where name = 'slice_drop_overlapping_complete_event'")
    assert count[0] <= operators.total() <= count[0] + dropped[0], "Perfetto drops events that overlap without being nested"
    assert {path.suffix for path in (tmp_path / "spool").iterdir()} == {"", ".json"}, "only the lock and the report"
    # Neither XProf nor our own tools take it for another worker.
    xprof = XProf(group, tmp_path / "logdir")
    xprof.wait_for_runs()
    assert [host["hostname"] for host in json.loads(xprof.get("hosts", run="r", tag="trace_viewer@"))] == [worker["name"]]
    inspected = subprocess.run([BIN / "strobe", "inspect", run, "--output", "json"], capture_output=True, text=True, check=True, timeout=60)
    assert [seen["worker"] for seen in json.loads(inspected.stdout)] == [worker["name"]]
    # It is reclaimed with its run, and only it.
    (run / "other.pt.trace.json.gz").write_bytes(gzip.compress(b"{}"))
    capture_id = json.loads((run / "strobe.json").read_text())["captureId"]
    stub = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(address))
    stub.Reclaim(worker_pb2.ReclaimRequest(logdir=str(tmp_path / "logdir"), run="r", capture_id=capture_id), timeout=5)
    assert not original.exists() and (run / "other.pt.trace.json.gz").exists() and not list(run.glob("*.xplane.pb"))


def test_a_file_that_cannot_be_kept_is_told(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    Trainer(group, tmp_path, python_package).announced()
    worker, stderr = capture(address, tmp_path, "--keep-original")
    assert worker["outcome"] == "Ok", (worker, stderr)
    (process,) = [p for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"]
    assert process["original"] == "" and process["note"] == "its original was not kept: the sidecar has no --spool-dir"


def test_options_that_nobody_has_are_told(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    Trainer(group, tmp_path, python_package, "jax").announced()
    worker, stderr = capture(address, tmp_path, "--shapes", "--memory")
    assert worker["outcome"] == "Ok", (worker, stderr)
    assert [note for note in worker["notes"] if "tracers.shapes, tracers.memory were requested, which only PyTorch's profiler" in note], worker


def test_both_ranks_of_a_torchrun_are_captured(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    command = [TORCH_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
               ROOT / "tests/e2e/torch_loop.py", tmp_path / "notes", tmp_path / "orders"]
    trainer = Trainer(group, tmp_path, python_package, command=command)
    trainer.announced()
    worker, stderr = capture(address, tmp_path)
    assert worker["outcome"] == "Ok" and worker["rank"] == 0, (worker, stderr)
    manifest = json.loads((tmp_path / "logdir/plugins/profile/r/strobe.json").read_text())
    assert [w["rank"] for w in manifest["workers"]] == [0, 1], "the launcher is no worker"


def test_a_profiler_of_the_jobs_own_wins(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package)
    trainer.announced()
    trainer.order("own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]); own.start()")
    worker, _ = capture(address, tmp_path, run="busy")
    assert worker["outcome"] == "Busy" and "torch in torch_loop.py" in worker["message"], worker
    trainer.order("own.stop()")
    worker, stderr = capture(address, tmp_path, run="after")
    assert worker["outcome"] == "Ok", (worker, stderr)


def test_a_capture_can_be_called_off_and_ended_early(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package)
    trainer.announced()
    process = begin_capture(address, tmp_path, "60s", run="off")
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["workers"][0]["outcome"] == "Cancelled"
    worker, stderr = capture(address, tmp_path)
    assert worker["outcome"] == "Ok", (worker, stderr)
    assert trainer.names() == [] and trainer.trains()


def test_a_program_that_is_killed_is_told(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package)
    trainer.announced()
    process = begin_capture(address, tmp_path, "10s")
    trainer.process.popen.kill()
    out, _ = process.communicate(timeout=60)
    worker = json.loads(out)["workers"][0]
    assert worker["outcome"] == "WorkerLost" and "was lost while it recorded" in worker["message"], worker
    worker, _ = capture(address, tmp_path, run="after")
    assert worker["outcome"] == "NoSource", "a later capture does not wait for it"
    assert not [*trainer.agent.glob("*.process"), *trainer.agent.glob("*.sock"), *trainer.agent.glob(".*.new")]


def test_an_unchanged_jax_program_is_captured_by_its_own_server(group, tmp_path, python_package, protos, sidecar):
    address = sidecar()
    trainer = Trainer(group, tmp_path, python_package, "jax")
    announcement = trainer.announced()
    assert announcement["channel"] == "server"
    worker, stderr = capture(address, tmp_path)
    assert worker["outcome"] == "Ok" and worker["coversWindow"], (worker, stderr)
    assert [p["name"] for p in worker["processes"] if p["source"] == "SOURCE_FRAMEWORK"] == [announcement["address"]]
    assert int(worker["events"]) > 100
    # The program's own trace works after it and, ending ours, during it.
    trainer.order(f"jax.profiler.start_trace({str(tmp_path / 'own')!r}); jax.profiler.stop_trace()")
    process = begin_capture(address, tmp_path, "8s", run="cut")
    time.sleep(1)
    trainer.order(f"jax.profiler.start_trace({str(tmp_path / 'own2')!r}); jax.profiler.stop_trace()")
    out, _ = process.communicate(timeout=60)
    worker = json.loads(out)["workers"][0]
    assert worker["outcome"] == "Truncated" and "a profiler session of its own" in worker["message"], worker
    assert list(tmp_path.glob("own/plugins/profile/*/*.xplane.pb")) and list(tmp_path.glob("own2/plugins/profile/*/*.xplane.pb"))
    assert trainer.trains()
