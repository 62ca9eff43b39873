"""The hooks in engines of inference servers, with classes of vLLM's and SGLang's shape and without PyTorch: numbers, counts and names."""

import json
import os
import re
import subprocess
import textwrap

import pytest

from tests.support.processes import PYTHON, ROOT

# A server's modules, with the smallest classes that have the methods, and a recorder of annotations.
PRELUDE = """
import struct, sys, types
import strobe_bootstrap
strobe_bootstrap._load()
from strobe._inproc.serving import engine, forget, look, profiler_words, server
from strobe._inproc.steps import set_annotator, steps_of

def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made

class WorkerBase:
    pass
class WorkerWrapperBase:
    vllm_config = types.SimpleNamespace(kv_transfer_config=types.SimpleNamespace(kv_role="kv_producer"))
    result = None
    def execute_model(self, scheduler_output):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result
class Worker(WorkerBase):
    def sample_tokens(self, grammar_output):
        return "tokens"
    def execute_dummy_batch(self):
        return "dummy"
class OtherWorker(WorkerBase):  # Another device has it.
    def sample_tokens(self, grammar_output):
        return "others"
class Scheduler:
    vllm_config = types.SimpleNamespace(kv_transfer_config=None)
    def __init__(self):
        self.running, self.waiting = ["a", "b"], ["c"]
    def schedule(self, throttle_prefills=False):
        return batch()

def batch(new=("a",), cached=(("b", 0), ("c", 4)), tokens=None):
    tokens = {"a": 30, "b": 5, "c": 1} if tokens is None else tokens
    return types.SimpleNamespace(
        scheduled_new_reqs=[types.SimpleNamespace(req_id=name) for name in new],
        scheduled_cached_reqs=types.SimpleNamespace(req_ids=[name for name, _ in cached], num_output_tokens=[made for _, made in cached]),
        num_scheduled_tokens=tokens, total_num_scheduled_tokens=sum(tokens.values()))

def vllm(version="0.32.0"):
    module("vllm", __version__=version)
    module("vllm.v1.worker.worker_base", WorkerWrapperBase=WorkerWrapperBase, WorkerBase=WorkerBase)
    module("vllm.v1.worker.gpu_worker", Worker=Worker)
    module("vllm.v1.core.sched.scheduler", Scheduler=Scheduler)
    module("vllm.v1.executor.ray_utils", RayWorkerWrapper=None)

shared = []
def share(size):
    shared.append(bytearray(size))
    return f"{len(shared)}.engine", shared[-1]
changes = []
def looks():
    look(share, lambda: changes.append(1))

names = []
class Annotation:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        names.append(self.name)
    def __exit__(self, *error):
        names.append("end")
recording = types.SimpleNamespace(record_function=Annotation, enter=lambda number: None, leave=lambda: None)

def header():
    return struct.unpack("8q", shared[-1][:64])[1:]
def mark(n):
    return struct.unpack("5q", shared[-1][64 + 40 * n:104 + 40 * n])
def last():
    return steps_of("torch").last("engine")
"""


def run(code, **environment):
    """What the code prints after PRELUDE, as JSON."""
    done = subprocess.run([PYTHON, "-c", PRELUDE + textwrap.dedent(code)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "agent/sdk/python"), "PYTHONDONTWRITEBYTECODE": "1", **environment})
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


SAY = "import json\nsay = lambda *values: print(json.dumps(values))\n"


def test_each_batch_of_vllm_is_a_step_with_its_shape():
    idle, queue, first, annotated, work, told = run(SAY + textwrap.dedent("""
        vllm(); looks()
        wrapper, worker, scheduler = WorkerWrapperBase(), Worker(), Scheduler()
        scheduler.schedule()
        wrapper.execute_model(batch())
        say(engine.is_open, last(), names)
        worker.sample_tokens(None)
        say(header()[:4], header()[5] > 0, header()[6] > 0)
        number, began, ended, requests, tokens = mark(0)
        say(number, 0 < began <= ended, requests, tokens, engine.is_open)
        set_annotator(recording)
        scheduler.schedule()
        wrapper.execute_model(scheduler_output=batch(new=(), cached=(("c", 4),), tokens={"c": 1}))
        worker.sample_tokens(None)
        wrapper.result = "whole"  # Then sample_tokens is not called.
        wrapper.execute_model(batch())
        worker.execute_dummy_batch()
        say(names, last())
        set_annotator(None)
        say(engine.work_of(recording, True), engine.work_of(object(), True)["iterations"], engine.work_of(recording, False))
        say(server.told())
    """))
    assert idle == [True, 1, []]
    assert queue == [[1, 0, 2, 1], True, True], "begun, dummies, running and waiting; it worked, and is busy"
    assert first == [1, True, 3, 36, False]
    assert annotated == [["engine.schedule r=2 w=1", "end", "engine#2 p=0/0 d=1/1 r=2 w=1", "end", "engine#3 p=2/35 d=1/1 r=2 w=1", "end",
                          "engine dummy", "end"], 3]
    assert work == [{"iterations": 2, "prefills": 1, "dummies": 1, "requests": 3, "prefill_tokens": 35, "decode_tokens": 2, "running": 2, "waiting": 1},
                    0, {"running": 2, "waiting": 1}]
    assert told == [{"program": "vllm", "version": "0.32.0", "file": "1.engine", "schedules": True, "note": None}]


def test_the_role_is_that_of_the_servers_configuration():
    code = SAY + "vllm(); looks(); WorkerWrapperBase().execute_model(batch()); say(server.role, server.role_from, len(changes))"
    assert run(code) == [["prefill", "kv_transfer_config: kv_producer", 1]]


def test_batches_without_tokens_and_errors_leave_no_step_open():
    empty, failed, again = run(SAY + textwrap.dedent("""
        vllm(); looks()
        wrapper = WorkerWrapperBase()
        wrapper.result = "no output"
        wrapper.execute_model(batch(new=(), cached=(), tokens={}))
        say(last(), header()[0])
        wrapper.result = ValueError("of the model")
        try:
            wrapper.execute_model(batch())
        except ValueError as error:
            say(str(error), engine.is_open, last())
        wrapper.result = None
        wrapper.execute_model(batch())
        wrapper.execute_model(batch())  # As if the end had another name.
        say(last(), mark(1)[2] > 0, mark(2)[2])
    """))
    assert empty == [None, 0]
    assert failed == ["of the model", False, 1]
    assert again == [3, True, 0]


def test_whatever_the_objects_are_the_server_goes_on():
    """As with a release that nobody has read yet."""
    ((results, error_free),) = run(SAY + textwrap.dedent("""
        vllm(); looks()
        set_annotator(recording)
        wrapper, scheduler = WorkerWrapperBase(), Scheduler()
        wrapper.result = 7
        scheduler.running = None
        results = [wrapper.execute_model(None), wrapper.execute_model(object()), wrapper.execute_model(batch(cached=(("x", None),)))]
        odd = batch()
        odd.scheduled_new_reqs = None
        results.append(wrapper.execute_model(odd))
        scheduler.schedule()
        say(results, engine.is_open)
    """))
    assert results == [7, 7, 7, 7] and error_free is False


def test_missing_names_are_one_note_each():
    ((note, program),) = run(SAY + textwrap.dedent("""
        del WorkerWrapperBase.execute_model
        vllm("0.99.0")
        del sys.modules["vllm.v1.core.sched.scheduler"].Scheduler
        del sys.modules["vllm.v1.executor.ray_utils"].RayWorkerWrapper  # Since 0.33, Ray's workers run the other classes.
        looks(); looks()
        say(server.told()["note"], server.told()["program"])
    """))
    assert note == ("vllm 0.99.0: WorkerWrapperBase.execute_model was not found: iterations are not told; "
                    "vllm 0.99.0: Scheduler.schedule was not found: how many requests run and wait are not told") and program == "vllm"


def test_classes_that_come_later_are_wrapped_too_and_only_once():
    before, after, planned, other = run(SAY + textwrap.dedent("""
        looks()
        say(server.told(), shared == [])
        vllm(); looks(); looks()
        WorkerWrapperBase().execute_model(batch())
        say(last(), hasattr(Worker.sample_tokens, "strobe_counts"), hasattr(Worker.sample_tokens.__wrapped__, "strobe_counts"), len(shared))
        idle = server.told()["schedules"]
        Scheduler().schedule()
        say(idle, server.told()["schedules"], len(changes))
        class LateWorker(Worker):
            def sample_tokens(self, grammar_output):
                return super().sample_tokens(grammar_output)
        looks()
        say(LateWorker().sample_tokens(None), OtherWorker().sample_tokens(None), engine.is_open, hasattr(OtherWorker.sample_tokens, "strobe_counts"))
    """))
    assert before == [None, True] and after == [1, True, False, 1]
    assert planned == [False, True, 2], "front ends load the scheduler too; one that planned is a companion"
    assert other == ["tokens", "others", False, True]


def test_the_switch_leaves_the_classes_as_they_are():
    (told,) = run(SAY + "vllm(); looks(); say(server.told(), hasattr(WorkerWrapperBase.execute_model, 'strobe_counts'))", STROBE_DISABLE="serving")
    assert told == [None, False]


def test_a_forked_child_does_not_write_into_its_parents_file():
    ((parent, child),) = run(SAY + textwrap.dedent("""
        vllm(); looks()
        WorkerWrapperBase().execute_model(batch())
        forget()
        WorkerWrapperBase().execute_model(batch())
        before = header()[0]
        looks()
        say(before, struct.unpack("8q", shared[1][:64])[1])
    """))
    assert (parent, child) == (1, 1)


def test_the_file_has_the_layout_that_the_sidecar_reads():
    header = (ROOT / "agent/wire/engine_file.h").read_text()
    size = int(re.search(r"sizeof\(EngineFile\) == (\d+)", header)[1])
    magic = int(re.search(r"kEngineMagic = (0x[0-9a-f']+)ull", header)[1].replace("'", ""), 16)
    marks = int(re.search(r"kEngineMarks = (\d+)", header)[1])
    words = re.search(r"struct EngineFile \{(.*?)std::array", header, re.DOTALL)[1]
    names = re.findall(r"\w+(?=[,;])", re.sub(r"//.*", "", words))
    assert names == ["magic", "begun", "dummies", "running", "waiting", "queue_told_ns", "worked_ns", "busy_ns"]
    mark = re.search(r"struct EngineMark \{(.*?)\};", header, re.DOTALL)[1]
    assert re.findall(r"\w+(?=[,;])", re.sub(r"//.*", "", mark)) == ["number", "began_ns", "ended_ns", "requests", "tokens"]
    assert size == 8 * (len(names) + 5 * marks)
    assert run(SAY + "vllm(); looks(); say(len(shared[0]), struct.unpack('Q', shared[0][:8])[0])") == [[size, magic]]


def test_sglangs_batches_have_the_engines_own_numbers():
    numbers, annotated, idle, told = run(SAY + textwrap.dedent("""
        import enum
        class Mode(enum.Enum):
            EXTEND, DECODE, MIXED, IDLE, SPLIT_PREFILL = range(5)
            def is_decode(self):
                return self is Mode.DECODE
        class Scheduler:
            disaggregation_mode = types.SimpleNamespace(value="decode")
            forward_ct, waiting_queue = 41, [1, 2]
            def run_batch(self, batch, pp_proxy_tensors=None):
                self.forward_ct += 1
                return "result"
            def process_batch_result(self, batch, result):
                return None
        def sglang(mode, requests, tokens=None, decoding=()):
            reqs = [types.SimpleNamespace(rid=f"r{i}") for i in range(requests)]
            return types.SimpleNamespace(reqs=reqs, forward_mode=mode, extend_num_tokens=tokens, decoding_reqs=list(decoding))
        module("sglang", __version__="0.5.23")
        module("sglang.srt.managers.scheduler", Scheduler=Scheduler)
        looks()
        scheduler = Scheduler()
        one = sglang(Mode.DECODE, 3)
        result = scheduler.run_batch(one)
        say(result, last(), engine.is_open)
        scheduler.process_batch_result(one, result)
        set_annotator(recording)
        for batch in (sglang(Mode.EXTEND, 2, 512), sglang(Mode.MIXED, 5, 90, [1, 2, 3]), sglang(Mode.SPLIT_PREFILL, 1, 64)):
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        say(names, last(), engine.is_open)
        scheduler.run_batch(sglang(Mode.IDLE, 0))
        say(last(), header()[1])
        say(server.role, engine.work_of(recording, True)["requests"])
    """))
    assert numbers == ["result", 42, True]
    assert annotated == [["engine#43 p=2/512 d=0/0 r=2 w=2", "end", "engine#44 p=2/87 d=3/3 r=5 w=2", "end",
                          "engine#45 p=1/64 d=0/0 r=1 w=2", "end"], 45, False]
    assert idle == [45, 1] and told == ["decode", 5]


def test_a_gate_begins_and_ends_at_iterations():
    """So does a capture of steps: strobe/_inproc/step_gate.py."""
    (seen,) = run(SAY + textwrap.dedent("""
        vllm(); looks()
        seen = []
        steps_of("torch").gate = types.SimpleNamespace(begin=lambda *step: seen.append(["begin", *step]), end=lambda *step: seen.append(["end", *step]))
        for _ in range(2):
            WorkerWrapperBase().execute_model(batch()); Worker().sample_tokens(None)
        say(seen)
    """))
    assert seen == [[["begin", "engine", 1], ["end", "engine", 1], ["begin", "engine", 2], ["end", "engine", 2]]]


def test_the_servers_own_profiler_is_named():
    ((nothing, words),) = run(SAY + "a = profiler_words(12.0); vllm(); looks(); say(a, profiler_words(12.0))")
    assert nothing is None
    assert words == ("vLLM's own profiler runs since 12 s (POST /start_profile); POST /stop_profile ends it, which can take minutes in which nothing is "
                     "served")


@pytest.mark.parametrize("title, actor, expected", [
    ("ray::Rollout.run", None, "ray::Rollout"),
    ("ray::Rollout", "", "ray::Rollout"),
    ("ray::vLLMHttpServer.generate()", "vllm_server_0_0", "ray::vLLMHttpServer vllm_server_0_0"),
    ("VLLM::Worker_TP0", "x", "VLLM::Worker_TP0"),
    ("sglang::scheduler_TP0", None, "sglang::scheduler_TP0"),
])
def test_an_actor_of_ray_has_its_class_and_name(title, actor, expected):
    """Its title also has the method that runs, so that its label would change from capture to capture."""
    worker = "" if actor is None else textwrap.dedent(f"""
        ids = types.SimpleNamespace(is_nil=lambda: False)
        module("ray._private.worker", WORKER_MODE=1, global_worker=types.SimpleNamespace(mode=1, actor_id=ids, actor_name={actor!r}))
    """)
    ((found,),) = run(SAY + worker + f"from strobe._inproc.process import title\nsay(title([{title!r}]))")
    assert found == expected


@pytest.mark.parametrize("title, expected", [
    (None, None), ("python", None), ("VLLM::Worker", None), ("ray::Anything", None),
    ("ray::vLLMHttpServer vllm_server_0_0", "rollout"), ("ray::vLLMHttpServer vllm_server_reward_0_0", "reward"),
    ("ray::ReferenceModelActor", "ref"), ("ray::SGLangEngine", "rollout"), ("ray::MegatronTrainRayActor", "trainer"),
])
def test_roles_of_reinforcement_learning(title, expected):
    ((role, told_by),) = run(SAY + f"from strobe._inproc.serving import role_of_actor\nsay(*role_of_actor({title!r}))")
    assert role == expected and (told_by is None) == (expected is None)


def test_the_first_recording_of_a_servers_stacks_is_not_tried():
    ((allowed, refused, trainer),) = run(SAY + textwrap.dedent("""
        from strobe._inproc.request import Refused
        from strobe._inproc.torch_pauses import Pauses
        def check(seconds, serves):
            request = types.SimpleNamespace(duration_ns=int(seconds * 1e9), may_stall=False, max_pause_ns=0)
            try:
                return Pauses().check(("stacks",), request, serves)
            except Refused as error:
                return error.message
        say(check(0.1, True), check(2, True), check(2, False))
    """))
    assert "for about 1.0 s, as seen in other servers" in allowed
    assert refused.startswith("PauseTooLong: all requests wait while a recording with stacks ends") and "for about 20 s" in refused
    assert trainer.startswith("the program stands still")


def test_the_stand_ins_keep_the_contract_of_the_releases():
    """tests/serving/hook_contract checks wheels of vLLM and SGLang in the same way."""
    done = subprocess.run([PYTHON, ROOT / "tests/serving/hook_contract", ROOT / "tests/e2e/engines"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "engines: all there\n"), done.stdout + done.stderr


def test_the_contract_names_what_a_release_lacks(tmp_path):
    folder = tmp_path / "vllm/v1/worker"
    folder.mkdir(parents=True)
    (tmp_path / "vllm/__init__.py").touch()
    (folder / "worker_base.py").write_text("class WorkerWrapperBase:\n    def execute_model(self, plan, scheduler_output): pass\n")
    done = subprocess.run([PYTHON, ROOT / "tests/serving/hook_contract", tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "WorkerWrapperBase.execute_model takes ['self', 'plan', 'scheduler_output']" in done.stdout
    assert "vllm.v1.worker.gpu_worker.Worker.sample_tokens is missing" in done.stdout
    assert "RayWorkerWrapper" not in done.stdout and "SchedulerOutput has no scheduled_new_reqs" in done.stdout
