"""A profiler server whose traces have a given size: big_profiler.py PROTOS PORT MIB.

JAX on two cores cannot produce traces of gigabytes. Protocol, XSpace and behaviour are those of the
real servers. No two traces have the same bytes.
"""

import os
import sys
import time
from concurrent import futures


def add_times(space, start_ns, stop_ns):
    """Adds the plane that tells when a recording began and ended."""
    plane = space.planes.add(name="Task Environment")
    for number, (name, value) in enumerate((("profile_start_time", start_ns), ("profile_stop_time", stop_ns)), 1):
        plane.stat_metadata[number].id = number
        plane.stat_metadata[number].name = name
        plane.stats.add(metadata_id=number, uint64_value=value)


def wait_for_start(request):
    """Waits until the instant that a Profile request names; returns when recording begins."""
    start = max(request.opts.start_timestamp_ns, time.time_ns())
    while time.time_ns() < start:
        time.sleep(0.0005)
    return time.time_ns()


def serve(port, add_service):
    """Runs a profiler server, to which `add_service` adds its methods, until the process is killed."""
    import grpc

    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
    add_service(server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


def make_space(pb, start_ns, stop_ns, padding):
    space = pb.XSpace(hostnames=["big"])
    host = space.planes.add(name="/host:CPU")
    host.lines.add(name="train").events.add(offset_ps=1, duration_ps=5)
    add_times(space, start_ns, stop_ns)
    filler = space.planes.add(name="/host:filler")
    filler.stat_metadata[1].id = 1
    filler.stat_metadata[1].name = "bytes"
    # The content is random, so that mixed-up parts of an upload are detected.
    while padding > 0:
        some = min(padding, 1 << 20)
        filler.stats.add(metadata_id=1, bytes_value=os.urandom(some))
        padding -= some
    return space


def main():
    protos, port, mib = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    sys.path.insert(0, protos)
    from tensorflow import profiler_service_pb2 as wire
    from tensorflow import profiler_service_pb2_grpc, xplane_pb2

    class Profiler(profiler_service_pb2_grpc.ProfilerServiceServicer):
        def Profile(self, request, context):
            began = wait_for_start(request)
            time.sleep(request.opts.duration_ms / 1000)
            space = make_space(xplane_pb2, began, time.time_ns(), int(mib * (1 << 20)))
            return wire.ProfileResponse(xspace=space.SerializeToString())

        def Terminate(self, request, context):
            return wire.TerminateResponse()

    serve(port, lambda server: profiler_service_pb2_grpc.add_ProfilerServiceServicer_to_server(Profiler(), server))


if __name__ == "__main__":
    main()
