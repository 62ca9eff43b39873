"""A Job that trains with JAX or PyTorch on a node of this machine (used by tests/cluster/train_job)."""

import argparse
import json
import sys
from pathlib import Path

from tests.support.inproc import TORCH_PYTHON
from tests.support.node import host_program
from tests.support.processes import PYTHON, ROOT

TRACES = "/tmp/strobe-traces"
COMMANDS = {
    "jax": [str(PYTHON), str(ROOT / "tests/e2e/framework_loop.py"), "jax", "/dev/shm/notes", "/dev/shm/orders"],
    "torch": [str(TORCH_PYTHON), str(ROOT / "tests/e2e/torch_loop.py"), "/dev/shm/notes", "/dev/shm/orders"],
}


def job(framework, name, pods):
    # What a user adds to a job: one label, one annotation for pods without CUDA, and one for logdirs that are a volume of the pod.
    template = host_program("train", COMMANDS[framework], {"PYTHONPATH": str(ROOT), "HOME": "/tmp", "JAX_PLATFORMS": "cpu", "OPERATORS": "none"},
                            labels={"strobe.dev/inject": "true"},
                            annotations={"strobe.dev/python": "true", "strobe.dev/logdir-volume": f"traces:{TRACES}"})
    template["spec"]["volumes"].append({"name": "traces", "hostPath": {"path": TRACES, "type": "Directory"}})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=sorted(COMMANDS))
    parser.add_argument("name", nargs="?", default="llm")
    parser.add_argument("pods", nargs="?", type=int, default=2)
    arguments = parser.parse_args()
    if not Path(COMMANDS[arguments.framework][0]).exists():
        sys.exit(f"train_job: {arguments.framework} is not installed; {'tools/setup torch' if arguments.framework == 'torch' else 'make node'} installs it")
    if not Path(TRACES).is_dir():
        sys.exit(f"train_job: the pods write their traces to {TRACES}, which is missing; mkdir -m 1777 {TRACES}")
    print(json.dumps(job(arguments.framework, arguments.name, arguments.pods), indent=2))


if __name__ == "__main__":
    main()
