"""Generates the Python code of our .proto files."""

import subprocess
import sys

from .processes import PYTHON, ROOT


def generate(out):
    """Generates the code into `out` and puts that directory first in the import path."""
    out.mkdir(parents=True, exist_ok=True)
    files = [str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto")]
    subprocess.run([PYTHON, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}", f"--grpc_python_out={out}", *files],
                   check=True, cwd=ROOT / "proto")
    # Makes it a regular package, so that it is found before the one in TensorFlow's wheel.
    (out / "tensorflow" / "__init__.py").touch()
    sys.path.insert(0, str(out))
    return out
