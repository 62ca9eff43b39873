"""A profiler server whose traces are ready when a recording ends: ready_profiler.py PROTOS PORT TRACE.

Answers with the events of the file TRACE and the times of the recording. Says "sends NS" when a recording is over: from then on a client waits for
nothing but the bytes.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.big_profiler import add_times, serve, wait_for_start  # noqa: E402


def environment(xplane, start_ns, stop_ns):
    """An encoded XSpace with the times of a recording."""
    space = xplane.XSpace(hostnames=["ready"])
    add_times(space, start_ns, stop_ns)
    return space.SerializeToString()


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def main():
    protos, port, trace = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
    sys.path.insert(0, protos)
    import grpc
    from tensorflow import profiler_service_pb2 as wire
    from tensorflow import xplane_pb2

    def profile(request, _):
        began = wait_for_start(request)
        stop = began + request.opts.duration_ms * 1_000_000
        # An encoded ProfileResponse, put together while it records: two encoded XSpaces, one after the other, are one with the planes of both.
        head = environment(xplane_pb2, began, stop)
        answer = b"".join((b"\x42", varint(len(head) + len(trace)), head, trace))
        time.sleep(max(0, stop - time.time_ns()) / 1e9)
        print(f"sends {time.time_ns()}", flush=True)
        return answer

    def refuse(_, context):
        context.abort(grpc.StatusCode.INTERNAL, "there are no snapshots")

    method = grpc.unary_unary_rpc_method_handler
    methods = grpc.method_handlers_generic_handler("tensorflow.ProfilerService", {
        "Profile": method(profile, request_deserializer=wire.ProfileRequest.FromString),
        "Terminate": method(lambda *_: b""),
        "GetSnapshot": method(refuse),
    })
    serve(port, lambda server: server.add_generic_rpc_handlers([methods]))


if __name__ == "__main__":
    main()
