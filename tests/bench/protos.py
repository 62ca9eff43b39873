"""The wire protocol for Python, generated from our own files."""

import functools
import subprocess
import sys

from tests.support.processes import BUILD, PYTHON, ROOT


@functools.cache
def load():
    """grpc, profiler_service_pb2 and xplane_pb2."""
    out = BUILD / "bench" / "protos"
    out.mkdir(parents=True, exist_ok=True)
    files = [str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto")]
    subprocess.run([PYTHON, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}", f"--grpc_python_out={out}", *files],
                   check=True, cwd=ROOT / "proto")
    # A regular package, so that it is found before the one of TensorFlow's wheel.
    (out / "tensorflow" / "__init__.py").touch()
    sys.path.insert(0, str(out))
    import grpc
    from tensorflow import profiler_service_pb2, xplane_pb2

    return grpc, profiler_service_pb2, xplane_pb2
