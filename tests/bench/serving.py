"""What Strobe's hooks in an inference server cost per iteration of its engine, while nobody records and while it is recorded."""

import json
import subprocess

from tests.bench import bars
from tests.support.processes import PYTHON, ROOT

REQUESTS = 256

# The best of many short rounds: on a shared machine, most rounds are interrupted.
CODE = """
import json, sys, time, types
import strobe_bootstrap
strobe_bootstrap._load()
from strobe._inproc.serving import look
from strobe._inproc.steps import set_annotator

class WorkerBase: pass
class WorkerWrapperBase:
    vllm_config = None
    def execute_model(self, scheduler_output): return None
class Worker(WorkerBase):
    def sample_tokens(self, grammar_output): return 1
class Scheduler:
    vllm_config = None
    running, waiting = list(range(9)), []
    def schedule(self): return batch
names = [f"request-{n}" for n in range(%d)]
batch = types.SimpleNamespace(
    scheduled_new_reqs=[types.SimpleNamespace(req_id=names[0])],
    scheduled_cached_reqs=types.SimpleNamespace(req_ids=names[1:], num_output_tokens=[1] * (len(names) - 1)),
    num_scheduled_tokens=dict.fromkeys(names, 1), total_num_scheduled_tokens=len(names))

class Annotation:
    def __init__(self, name): pass
    def __enter__(self): pass
    def __exit__(self, *error): pass
recording = types.SimpleNamespace(record_function=Annotation, enter=lambda number: None, leave=lambda: None)

def best(call, count):
    least = float("inf")
    for _ in range(400):
        begin = time.perf_counter_ns()
        for _ in range(count): call()
        least = min(least, (time.perf_counter_ns() - begin) / count)
    return least / 1000

wrapper, worker, scheduler = WorkerWrapperBase(), Worker(), Scheduler()
def iterate():
    wrapper.execute_model(batch)
    worker.sample_tokens(None)
told = {"bare": best(iterate, 300), "bare schedule": best(scheduler.schedule, 300)}
for name, members in (("vllm", {}), ("vllm.v1.worker.worker_base", {"WorkerWrapperBase": WorkerWrapperBase, "WorkerBase": WorkerBase}),
                      ("vllm.v1.worker.gpu_worker", {"Worker": Worker}), ("vllm.v1.core.sched.scheduler", {"Scheduler": Scheduler})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)
look(lambda size: ("file", bytearray(size)), lambda: None)
assert hasattr(WorkerWrapperBase.execute_model, "strobe_counts")
told |= {"idle": best(iterate, 300), "idle schedule": best(scheduler.schedule, 300)}
set_annotator(recording)
told |= {"recorded": best(iterate, 30)}
print(json.dumps(told))
"""


def run(directory):
    done = subprocess.run([PYTHON, "-c", CODE % REQUESTS], capture_output=True, text=True, timeout=300, check=True,
                          env={"PYTHONPATH": str(ROOT / "agent/sdk/python"), "PYTHONDONTWRITEBYTECODE": "1"})
    told = json.loads(done.stdout)
    idle, schedule = told["idle"] - told["bare"], told["idle schedule"] - told["bare schedule"]
    bars.at_most("an iteration of a server's worker while nobody records, us", idle, 3)
    bars.at_most("an iteration of a server's scheduler while nobody records, us", schedule, 3)
    return "\n".join([f"### Hooks in an inference server, {REQUESTS} requests in a batch\n",
                      "| | a worker's iteration | a scheduler's |", "|---|---|---|",
                      f"| without hooks | {told['bare']:.2f} us | {told['bare schedule']:.2f} us |",
                      f"| nobody records | +{idle:.2f} us | +{schedule:.2f} us |",
                      f"| recorded, without PyTorch's annotation | +{told['recorded'] - told['bare']:.1f} us | |", ""])
