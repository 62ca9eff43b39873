"""A profiler server whose traces are ready when a recording ends: ready_profiler.py PROTOS PORT TRACE.

Answers with the events of the file TRACE and the times of the recording. Says "sends NS" when a recording is over: from then on a client waits for
nothing but the bytes.
"""

import sys
import time
from concurrent import futures
from pathlib import Path


def environment(xplane, start_ns, stop_ns):
    """An encoded XSpace with the times of a recording."""
    space = xplane.XSpace(hostnames=["ready"])
    plane = space.planes.add(name="Task Environment")
    for number, (name, value) in enumerate((("profile_start_time", start_ns), ("profile_stop_time", stop_ns)), 1):
        plane.stat_metadata[number].id = number
        plane.stat_metadata[number].name = name
        plane.stats.add(metadata_id=number, uint64_value=value)
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
        start = max(request.opts.start_timestamp_ns, time.time_ns())
        while time.time_ns() < start:
            time.sleep(0.0005)
        began = time.time_ns()
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
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tensorflow.ProfilerService", {
        "Profile": method(profile, request_deserializer=wire.ProfileRequest.FromString),
        "Terminate": method(lambda *_: b""),
        "GetSnapshot": method(refuse),
    })])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
