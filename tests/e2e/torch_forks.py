"""Many real PyTorch training loops that import PyTorch once: torch_forks.py NUMBER NOTES ORDERS [PAUSE]. See torch_loop.py.

Each process is forked before anything of PyTorch has run, and gets its rank and STROBE_DIR only then, so that Strobe's part begins in it as in
a program of its own. They share the memory of the import: a hundred of them fit into a small machine.
"""

import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path

directory = os.environ.pop("STROBE_DIR")
import torch  # noqa: E402, F401 - Strobe's part must not begin in this process.
import torch._inductor.config  # noqa: E402, F401 - torch.profiler imports it: seconds in each process.

number = int(sys.argv[1])
sys.argv = [str(Path(__file__).with_name("torch_loop.py")), *sys.argv[2:]]
children = []
for rank in range(number):
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its parent, whatever it does.
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), STROBE_DIR=directory)
        import strobe_bootstrap

        strobe_bootstrap.torch()
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
