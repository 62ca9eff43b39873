"""Workers that implement strobe.v1.Worker and give whatever answers a test chooses. Needs the fixture `protos`."""

import socket
import threading
from concurrent import futures

import grpc

from .ports import free_port
from .workers import Worker


class MutePeer(threading.Thread):
    """Speaks just enough HTTP/2 to keep a connection alive, and answers no call."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    @staticmethod
    def _serve(connection):
        settings, ping, ack = 4, 6, 1
        stream = connection.makefile("rwb")
        try:
            stream.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            stream.write(b"\0\0\0" + bytes([settings, 0]) + b"\0\0\0\0")
            stream.flush()
            while header := stream.read(9):
                payload = stream.read(int.from_bytes(header[:3], "big"))
                if header[3] == settings and not header[4] & ack:
                    stream.write(b"\0\0\0" + bytes([settings, ack]) + b"\0\0\0\0")
                elif header[3] == ping and not header[4] & ack:
                    stream.write(b"\0\0\x08" + bytes([ping, ack]) + b"\0\0\0\0" + payload)
                stream.flush()
        except OSError:
            pass

    def stop(self):
        self.listener.close()


class HostileWorker(Worker):
    """A sidecar in this process. Each answer comes from a method that a test may replace; most take the request and the call's context."""

    def __init__(self, name, index=0):
        from strobe.v1 import worker_pb2 as pb
        from strobe.v1 import worker_pb2_grpc

        super().__init__(None, name, index)
        self.pb, self.plans = pb, {}
        outer = self

        class Servicer(worker_pb2_grpc.WorkerServicer):
            def Describe(self, request, context):
                return outer.describe(request, context)

            def ProbeClock(self, requests, context):
                for ping in requests:
                    yield outer.pong(ping)

            def Arm(self, request, context):
                outer.plans[request.plan.capture_id] = request.plan
                return outer.arm(request, context)

            def Watch(self, request, context):
                yield from outer.watch(request, context)

            def Cancel(self, request, context):
                return pb.CancelResponse(known=True)

            def Publish(self, request, context):
                return outer.publish(request, context)

            def Reclaim(self, request, context):
                return pb.ReclaimResponse()

        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        worker_pb2_grpc.add_WorkerServicer_to_server(Servicer(), self.server)
        self.port = free_port()
        assert self.server.add_insecure_port(self.address) == self.port
        self.server.start()

    def describe(self, request, context):
        # A second's lead gives this process nearly a second to answer Arm; with 20 ms a busy machine made it Unreachable.
        return self.pb.DescribeResponse(version="0.1.0", protocol=1, worker=self.name, lead_ns=1_000_000_000,
                                        sources=[self.pb.Source(kind=self.pb.SOURCE_FRAMEWORK, ready=True)])

    def pong(self, ping):
        import time

        return self.pb.ClockPong(sequence=ping.sequence, received_ns=time.time_ns(), sent_ns=time.time_ns())

    def arm(self, request, context):
        return self.pb.ArmResponse(accepted=True, report=self.report(request.plan.capture_id, state=self.pb.ARMED))

    def watch(self, request, context):
        yield self.report(request.capture_id, state=self.pb.DONE, outcome=self.pb.WORKER_LOST, message="gone")

    def publish(self, request, context):
        return self.pb.PublishResponse(url="file:///strobe.json")

    def report(self, capture, **fields):
        report = self.pb.Report(capture_id=capture, **fields)
        if capture in self.plans:
            report.plan.CopyFrom(self.plans[capture])
        return report

    def stop(self):
        self.server.stop(0).wait()
