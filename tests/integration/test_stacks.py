"""Python stacks that a thread of the agent reads without the interpreter's lock, with each Python that is here."""

import subprocess

import pytest

from tests.integration.test_inproc_xla import jax_trainer
from tests.support.evidence import AGENT, PYTHONS, evidence_file, faulthandler_stacks, order, stacks
from tests.support.processes import PYTHON, ROOT, wait_until


def known_stacks(group, tmp_path, python, mode):
    process = group.start("known", [python, ROOT / "tests/e2e/known_stacks.py", AGENT, tmp_path, mode], env={"PYTHONPATH": ""}).wait_for("ready", 30)
    return process, evidence_file(tmp_path)


@pytest.mark.parametrize("version", PYTHONS)
def test_stacks_are_those_of_faulthandler(group, tmp_path, version):
    """faulthandler runs in the interpreter, with its lock."""
    _, path = known_stacks(group, tmp_path, PYTHONS[version], "wait")
    wait_until(lambda: order(path) and list(stacks(path).values())[-1][1][0][2] == "wait_here", 20, "the main thread to wait")
    truth, found = faulthandler_stacks((tmp_path / "truth").read_text()), stacks(path)
    assert set(truth) <= set(found) and len(truth) == 4
    for thread, frames in truth.items():
        heading, read = found[thread]
        assert " proven" in heading and " state S" in heading, heading
        if frames[-1][2] != "<module>":
            assert read == frames, heading
        else:
            assert [name for _, _, name in read] == ["wait_here", "<module>"], read
    assert list(found)[-1] == next(thread for thread, frames in truth.items() if frames[-1][2] == "<module>"), "the main thread is the last"
    assert stacks(path, "b") == found


@pytest.mark.parametrize("version", PYTHONS)
def test_a_thread_that_keeps_the_lock_is_named(group, tmp_path, version):
    """Nobody gets the interpreter's lock any more, and the order is answered all the same."""
    _, path = known_stacks(group, tmp_path, PYTHONS[version], "gil")
    wait_until(lambda: order(path) and list(stacks(path).values())[-1][1][0][2] == "hold_gil", 20, "the main thread to keep the lock")
    holders = [frames for heading, frames in stacks(path).values() if "HOLDS-GIL" in heading]
    assert [frames[0][2] for frames in holders] == ["hold_gil"]


@pytest.mark.parametrize("version", PYTHONS)
def test_many_orders_harm_nothing(group, tmp_path, version):
    """Threads that run all the time: whatever is read, the program goes on, and a stack that is said to be proven is a possible one."""
    process, path = known_stacks(group, tmp_path, PYTHONS[version], "busy")
    for _ in range(40):
        order(path, between_ms=0)
        for heading, frames in stacks(path).values():
            names = [name for _, _, name in frames]
            if " proven" in heading and "spin" in names:
                at = names.index("spin")
                assert names[:at] in (["recurse_briefly"] * at, ["is_set"]), names
    assert process.running(), process.output()


def test_what_is_not_known_is_refused(tmp_path):
    code = f"""
import ctypes
agent = ctypes.CDLL({str(AGENT)!r})
agent.strobe_evidence_start.restype = agent.strobe_evidence_check.restype = ctypes.c_char_p
print(agent.strobe_evidence_start({str(tmp_path).encode()!r}, b"1-1", 8), agent.strobe_evidence_check(b"<module>"))
"""
    said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert said == "None b'this version of Python is not known'\n"
    header = next(tmp_path.glob("*.evidence")).read_bytes()
    assert b"this version of Python is not known" in header[24:152] and header[152] == 0


def test_a_jax_program_shows_its_stacks(group, tmp_path, python_package):
    trainer = jax_trainer(group, tmp_path, python_package, "newest")
    trainer.announced()
    path = evidence_file(trainer.agent)
    order(path)
    _, main = list(stacks(path).values())[-1]
    assert any(file.endswith("framework_loop.py") for file, _, _ in main), main
    for _ in range(50):
        order(path, between_ms=0)
    assert trainer.trains()
