"""A sidecar of an older release, as far as the wire shows it: a proxy before a real sidecar that drops, in both directions, every field that
the older release's messages do not have. A newer operator gets no newer field from it, and a newer field that the operator sends is lost."""

from concurrent import futures

import grpc
from google.protobuf import descriptor_pool, message_factory

from tests.tools.check_protocol import RECORDED, described

from .ports import free_port
from .workers import Worker

SERVICE = "strobe.v1.Worker"
LONG = 86400.0


def older_messages(without=None):
    """The classes of the recorded release's messages, as a function of their full names. `without`: fields by message that it did not have either."""
    files = described(RECORDED)
    pool = descriptor_pool.DescriptorPool()
    for file in sorted(files.file, key=lambda file: len(file.dependency)):
        for message in file.message_type:
            dropped = (without or {}).get(message.name, ())
            assert set(dropped) <= {field.name for field in message.field}, f"{message.name} does not have all of {dropped}"
            kept = [field for field in message.field if field.name not in dropped]
            del message.field[:]
            message.field.extend(kept)
        pool.Add(file)
    return pool, lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


class OlderWorker(Worker):
    """A worker whose sidecar is reached through such a proxy only."""

    def __init__(self, group, name, profiler_port, without=None):
        super().__init__(group, name)
        self.profiler_port, self.dropped = profiler_port, 0
        self.pool, self.message = older_messages(without)
        self.start_sidecar().wait()
        self.channel = grpc.insecure_channel(self.address)
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {
            method.name: self._handler(method) for method in self.pool.FindServiceByName(SERVICE).methods})])
        self.port = free_port()  # That of the Pod object from now on.
        assert self.server.add_insecure_port(f"127.0.0.1:{self.port}") == self.port
        self.server.start()

    def _strip(self, kind, data):
        message = self.message(kind.full_name).FromString(data)
        message.DiscardUnknownFields()
        stripped = message.SerializeToString()
        self.dropped += stripped != data
        return stripped

    def _handler(self, method):
        streams = (method.client_streaming, method.server_streaming)
        shape = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}[streams]
        call = getattr(self.channel, shape)(f"/{SERVICE}/{method.name}")

        def asked(request):
            if method.client_streaming:
                return (self._strip(method.input_type, part) for part in request)
            return self._strip(method.input_type, request)

        def forward(request, context):
            left = context.time_remaining()
            try:
                # A call without a deadline has centuries left, which is more than a timeout takes.
                answer = call(asked(request), timeout=left if left is not None and left < LONG else None)
                if method.server_streaming:
                    context.add_callback(answer.cancel)
                    return self._parts(method, answer, context)
                return self._strip(method.output_type, answer)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())

        return getattr(grpc, f"{shape}_rpc_method_handler")(forward)

    def _parts(self, method, answer, context):
        try:
            for part in answer:
                yield self._strip(method.output_type, part)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    def stop(self):
        self.server.stop(0)
        self.channel.close()
        super().stop()
