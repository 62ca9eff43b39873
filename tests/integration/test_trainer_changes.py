"""Each change that Strobe makes in a trainer's process is listed (docs/reference/trainer-changes.md), and its switch leaves it out."""

import json
import re
import subprocess
import time

import pytest

from tests.integration.test_bootstrap import INJECTED, thread_names
from tests.integration.test_inproc import package_python
from tests.integration.test_inproc_xla import DETACH, ON_A_GPU, check_steps, jax_trainer
from tests.support.processes import BIN, ROOT, wait_until

PAGE = (ROOT / "docs/reference/trainer-changes.md").read_text()


def names_in(path, pattern):
    return set(re.findall(pattern, (ROOT / path).read_text()))


def test_every_switch_is_listed_and_every_listed_one_works():
    """The page, the operator, the chart and the code in the trainer have the same names."""
    known = names_in("common/protocol/trainer_changes.h", r'"([a-z-]+)"')
    tables = PAGE.split("## ")[1].split("\n\n")
    listed = [re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) for table in tables]
    assert [set(names) for names in listed if names] == [known, known], "what is changed, and how it is seen"
    schema = json.loads((ROOT / "helm/strobe/values.schema.json").read_text())
    assert set(schema["properties"]["injection"]["properties"]["disable"]["items"]["enum"]) == known
    used = set().union(*(names_in(path, r'(?:is_off|IsDisabled)\("([a-z-]+)"\)') for path in (ROOT / "agent").rglob("*.*") if path.suffix in (".cc", ".py")))
    assert used == known


# What each prints with and without its switch.
CHANGES = {
    "switch-interval": ("0.005", "0.0002", """
        import sys
        from strobe._inproc.changes import short_switch_interval
        with short_switch_interval():
            print(round(sys.getswitchinterval(), 6))
    """),
    "skip-destructors": ("destroyed", "", """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.strdup.restype = ctypes.c_void_p
        libc.__cxa_atexit(libc.puts, ctypes.c_void_p(libc.strdup(b"destroyed")), None)
        from strobe._inproc.changes import skip_destructors
        skip_destructors()
    """),
    "steps": ("True", "False", """
        import sys, types
        class StepTraceAnnotation:
            def __init__(self, name, **more): pass
            def __exit__(self, *error): pass
        sys.modules["jax.profiler"] = types.SimpleNamespace(StepTraceAnnotation=StepTraceAnnotation)
        before = StepTraceAnnotation.__init__
        from strobe._inproc.steps import count
        count("jax")
        print(StepTraceAnnotation.__init__ is before)
    """),
    "evidence": ("True", "False", """
        import sys, types
        from strobe._inproc.evidence import Evidence
        before = sys.excepthook
        Evidence(types.SimpleNamespace(path="/nowhere", stem="1-1")).start()
        print(sys.excepthook is before)
    """),
    "flight-recorder": ("None", "2000", """
        import os, sys, types
        sys.modules["torch"] = types.SimpleNamespace(__version__="2.8.0+cpu")
        from strobe._inproc.changes import record_collectives
        record_collectives()
        print(os.environ.get("TORCH_FR_BUFFER_SIZE"))
    """),
    "serving": ("False", "True", """
        import sys
        from types import SimpleNamespace as Some
        class Scheduler:
            def schedule(self): pass
        sys.modules["vllm.v1.core.sched.scheduler"] = Some(Scheduler=Scheduler)
        from strobe._inproc.serving import look
        look(lambda size: ("file", bytearray(size)), print)
        print(hasattr(Scheduler.schedule, "strobe_counts"))
    """),
    "teardown-cupti": ("None", "0", """
        import os, sys
        from types import SimpleNamespace as Some
        sys.modules["torch._inductor.config"] = Some(triton=Some(cudagraphs=True))
        from strobe._inproc.torch_session import TorchRecorder
        TorchRecorder._keep_cupti(Some(torch=Some(version=Some(cuda="12.4"))))
        print(os.environ.get("TEARDOWN_CUPTI"))
    """),
    "torch-results": ("saved", "looked for its address\nsaved\nlooked for its address", """
        from strobe._inproc import torch_unlocked
        class Result:
            def save(self, path): print("saved")
        torch_unlocked._object_of = lambda result: print("looked for its address")
        torch_unlocked.save(Result(), "trace.json")
        torch_unlocked.empty(Result())
    """),
    "in-process": ("[]", "['strobe-inproc']", """
        import os, time
        import strobe_bootstrap
        strobe_bootstrap.start("jax")
        time.sleep(0.3)
        names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
        print([name for name in names if name.startswith("strobe")])
    """),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_switch_leaves_the_change_out(python_package, tmp_path, name):
    without, usually, code = CHANGES[name]
    assert package_python(python_package, tmp_path, code, STROBE_DISABLE=f"none-such,{name}") == without
    assert package_python(python_package, tmp_path, code, STROBE_DISABLE="none-such") == usually


@pytest.mark.parametrize(("version", "variables", "set_to"), [
    ("2.15.0", {}, {}),
    ("2.10.0", {}, {"TORCH_FR_BUFFER_SIZE": "2000"}),
    ("2.7.1", {}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}),
    ("2.8.0", {"TORCH_FR_BUFFER_SIZE": "0"}, {"TORCH_FR_BUFFER_SIZE": "0"}),
    ("2.8.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "9"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "9"}),
])
def test_the_flight_recorder_is_switched_on_where_nobody_chose(python_package, tmp_path, version, variables, set_to):
    code = f"""
        import json, os, sys, types
        sys.modules["torch"] = types.SimpleNamespace(__version__={version!r})
        from strobe._inproc.changes import record_collectives
        record_collectives()
        print(json.dumps({{name: value for name, value in os.environ.items() if name.endswith("_BUFFER_SIZE")}}))
    """
    assert json.loads(package_python(python_package, tmp_path, code, **variables)) == set_to


@pytest.mark.parametrize("disabled", ["agent", "steps"])
def test_without_the_agent_a_program_with_cuda_has_none_of_it(group, tmp_path, disabled):
    (tmp_path / "agent").mkdir()
    process = group.start("program", [*INJECTED, "sh", "-c", "echo ready; exec sleep 60"], env={"STROBE_DIR": str(tmp_path), "STROBE_DISABLE": disabled})
    process.wait_for("ready", 10)
    if disabled == "steps":
        wait_until(lambda: "strobe-device" in thread_names(process.pid) and list((tmp_path / "agent").glob("*.rings")), 10, "the agent")
    else:
        time.sleep(0.5)
        assert len(thread_names(process.pid)) == 1 and not list((tmp_path / "agent").iterdir())


def test_without_a_server_the_process_listens_nowhere(group, tmp_path, python_package, protos):
    trainer = jax_trainer(group, tmp_path, python_package, "newest", env={"STROBE_DISABLE": "server"})
    announcement = trainer.announced()
    assert announcement["channel"] == "session" and announcement["address"] is None, announcement
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert f"pid={announcement['pid']}," not in listening, listening
    client = trainer.client()
    client.capture(duration_ms=500)
    done = client.until("done")
    check_steps(trainer, (trainer.agent / done["file"]).read_bytes(), done["started_ns"], done["stopped_ns"])


def test_where_cupti_is_not_kept_no_recording_may_detach_it(group, tmp_path, python_package):
    """The function is as it was, so that a recording of GPUs is refused."""
    trainer = jax_trainer(group, tmp_path, python_package, "newest", env={"STROBE_DISABLE": "keep-cupti"})
    trainer.announced()
    trainer.order(ON_A_GPU.format(driver=str(BIN / "fakes/libcuda.so.1"), cupti=str(BIN / "fakes/13/libcupti.so.13")))
    client = trainer.client()
    client.capture(duration_ms=100)
    last = client.last()
    assert last["outcome"] == "ProfilerStartFailed" and "keep-cupti is switched off" in last["message"], last
    trainer.order(DETACH)
    wait_until(lambda: "detached" in trainer.process.output(), 10, "the call of the original")
    assert trainer.trains()
