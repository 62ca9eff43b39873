"""The wire protocol for Python clients, generated from our own files."""

import subprocess
import sys

from .processes import PYTHON, ROOT


def generate(out):
    """Into a directory, which is put in front of the import path."""
    out.mkdir(parents=True, exist_ok=True)
    files = [str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto")]
    subprocess.run([PYTHON, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}", f"--grpc_python_out={out}", *files],
                   check=True, cwd=ROOT / "proto")
    # A regular package, so that it is found before the one of TensorFlow's wheel.
    (out / "tensorflow" / "__init__.py").touch()
    sys.path.insert(0, str(out))
    return out
