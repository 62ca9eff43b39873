"""The profiler protocol in Python, for the bare clients."""

import functools

from tests.support.processes import BUILD
from tests.support.protos import generate


@functools.cache
def load():
    """Returns the modules grpc, profiler_service_pb2 and xplane_pb2."""
    generate(BUILD / "bench" / "protos")
    import grpc
    from tensorflow import profiler_service_pb2, xplane_pb2

    return grpc, profiler_service_pb2, xplane_pb2
