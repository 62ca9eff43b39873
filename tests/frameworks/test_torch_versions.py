"""Older versions of PyTorch, unchanged and started by the agent: recorded or refused by name, and unharmed. CI has no time for it.

    tests/frameworks/torch_version 2.3.1
    build/venv/bin/python -m pytest tests/frameworks/test_torch_versions.py
"""

import pytest

from tests.integration.test_bootstrap import INJECTED
from tests.integration.test_inproc import TICKS
from tests.support.beside import Pod
from tests.support.inproc import MS, Trainer
from tests.support.processes import BUILD, ROOT
from tests.support.step_rig import host_events

VERSIONS = sorted(path.parent.name for path in BUILD.glob("torch-versions/*/.installed"))
with_versions = pytest.mark.parametrize("version", VERSIONS or [pytest.param(None, marks=pytest.mark.skip(
    reason="build/torch-versions is empty; tests/frameworks/torch_version VERSION installs one"))])


@with_versions
def test_recorded_or_refused_by_name_and_unharmed(group, tmp_path, protos, python_package, version):
    (tmp_path / "strobe/agent").mkdir(parents=True)
    (tmp_path / "strobe/python").symlink_to(python_package)
    pod = Pod(group, tmp_path)
    python = BUILD / "torch-versions" / version / "bin/python"
    trainer = Trainer(group, tmp_path, "", wrap=INJECTED, command=[python, ROOT / "tests/e2e/torch_loop.py", tmp_path / "notes", tmp_path / "orders"])
    assert trainer.announced("torch")["version"].startswith(version)
    records = tuple(int(part) for part in version.split(".")[:2]) >= (2, 7)
    for run in ("first", "second"):
        worker = pod.worker("--duration", "500ms", run=run)
        if not records:
            assert worker["outcome"] == "VersionMismatch" and "2.7 records all" in worker["message"], worker
            continue
        assert worker["outcome"] == "Ok", worker
        found, expected, steps = trainer.compare_operators(host_events(pod.trace(worker, run)), int(worker["startedNs"]), int(worker["stoppedNs"]))
        assert found == expected and steps > 10
    trainer.order("own = torch.profiler.profile(); own.start(); own.stop(); print('traced', flush=True)")
    assert "traced" in trainer.process.output() and trainer.trains()
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(40) == 0, trainer.process.output()


@with_versions
def test_a_pause_is_told_where_there_is_one(group, tmp_path, python_package, version):
    """PyTorch's own binding ends a recording with memory. Version 2.14 was said to hold the interpreter's lock meanwhile."""
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 7):
        pytest.skip("it is not recorded")
    python = BUILD / "torch-versions" / version / "bin/python"
    trainer = Trainer(group, tmp_path, python_package, command=[python, ROOT / "tests/e2e/torch_loop.py", tmp_path / "notes", tmp_path / "orders"])
    trainer.announced("torch")
    trainer.order(TICKS)
    client = trainer.client()
    client.capture(duration_ms=1000, torch={"memory": True})
    note, stopped = client.until("prepared").get("note", ""), client.until("stopped")
    client.until("done")
    begin, took = stopped["stopped_ns"], stopped["stop_took_ns"]
    trainer.order(f"open({str(tmp_path / 'ticks')!r}, 'w').write(str(sum({begin} <= tick <= {begin + took} for tick in ticks)))")
    assert took > 100 * MS, "few operators were recorded"
    assert ("the program stands still" in note) == (int((tmp_path / "ticks").read_text()) < 5), note
