"""Traces in the form that profilers write, small enough that tests know every event."""

PS = 1
NS, US, MS = 1_000 * PS, 1_000_000 * PS, 1_000_000_000 * PS


class PlaneWriter:
    """Writes one plane of an XSpace; assigns ids to names and stats at their first use."""

    def __init__(self, space, name):
        self.plane = space.planes.add(id=len(space.planes) + 1, name=name)
        self.event_ids, self.stat_ids = {}, {}
        self.current = None

    def stat_id(self, name):
        if name not in self.stat_ids:
            self.stat_ids[name] = len(self.stat_ids) + 1
            metadata = self.plane.stat_metadata[self.stat_ids[name]]
            metadata.id, metadata.name = self.stat_ids[name], name
        return self.stat_ids[name]

    def event_id(self, name, **shared):
        if name not in self.event_ids:
            self.event_ids[name] = len(self.event_ids) + 1
            metadata = self.plane.event_metadata[self.event_ids[name]]
            metadata.id, metadata.name = self.event_ids[name], name
            self.add_stats(metadata, shared)
        return self.event_ids[name]

    def add_stats(self, to, stats):
        for name, value in stats.items():
            stat = to.stats.add(metadata_id=self.stat_id(name))
            if isinstance(value, str):
                stat.str_value = value
            elif isinstance(value, float):
                stat.double_value = value
            else:
                stat.int64_value = value

    def line(self, name, id=None):
        self.current = self.plane.lines.add(id=len(self.plane.lines) + 1 if id is None else id, name=name)
        return self

    def event(self, name, begin, length, shared=None, **stats):
        event = self.current.events.add(metadata_id=self.event_id(name, **(shared or {})), offset_ps=begin, duration_ps=length)
        self.add_stats(event, stats)
        return self


def varint(number):
    text = b""
    while number >= 0x80:
        text += bytes([number & 0x7F | 0x80])
        number >>= 7
    return text + bytes([number])


def field(number, value):
    """One field of a protobuf message: an integer, text, or the bytes of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def hlo_proto(module, instructions):
    """An HloProto with one computation of (id, name, opcode, operands), all f32[8,16]; the last one is its root. The field numbers are those of XLA's hlo.proto."""
    shape = field(2, 11) + field(3, bytes([8, 16])) + field(5, field(1, bytes([1, 0])))
    made = b"".join(
        field(2, field(1, name) + field(2, opcode) + field(3, shape) + field(35, id) + field(36, b"".join(map(varint, operands))))
        for id, name, opcode, operands in instructions)
    computation = field(1, "main") + field(5, 1) + field(6, instructions[-1][0]) + made
    return field(1, field(1, module) + field(3, computation) + field(6, 1))


HOSTILE = "<img src=x onerror=alert(1)>&\"'"
STEPS = 5
STEP = 10 * MS


def worker_trace(late=0, clock_offset_ns=0, slow=1.0, window=None):
    """The trace of one worker: TPU, SparseCore, GPU and host, with five steps of 10 ms that start `late` ps after the other workers'.
    `window`: begin and length of what the capture asked for, in ns from the trace's start."""
    from tensorflow import xplane_pb2

    space = xplane_pb2.XSpace()
    tpu = PlaneWriter(space, "/device:TPU:0")
    tpu.line("XLA Modules")
    for i in range(STEPS):
        tpu.event("jit_step(1234)", late + i * STEP + MS, 8 * MS, run_id=i)
    tpu.line("XLA Ops")
    for i in range(STEPS):
        at = late + i * STEP + MS
        tpu.event("fusion.1", at, 3 * MS, shared={"flops": 6_000_000_000, "bytes_accessed": 1_500_000, "hlo_category": "fusion",
                                                 "source_stack": "train.py:12 <module>\ntrain.py:8 step"}, hlo_op="fusion.1")
        tpu.event("dot.2", at + MS, MS, hlo_op="dot.2")
        tpu.event("all-reduce.3", at + 4 * MS, 2 * MS, hlo_op="all-reduce.3")
    tpu.line("Steps")
    for i in range(STEPS):
        tpu.event(str(i), late + i * STEP, STEP)
    core = PlaneWriter(space, "/device:TPU:0 SparseCore 0")
    core.line("Sparse Core Ops").event("gather", late + 2 * MS, MS)

    gpu = PlaneWriter(space, "/device:GPU:0")
    gpu.line("Stream #13(Compute)")
    for i in range(STEPS):
        for k in range(20):
            gpu.event(f"kernel_{k}", late + i * STEP + 2 * MS + k * 200 * US, 150 * US, correlation_id=i * 20 + k + 1)
    gpu.line("Stream #14(MemcpyH2D)").event("MemcpyH2D", late + MS, 500 * US, memcpy_details="kind_src:pageable kind_dst:device size:1048576 dest:0 async:1")
    gpu.line("Launch Stats").event("max 12 us", late, STEP)

    host = PlaneWriter(space, "/host:CPU")
    host.line("python", id=4711)
    for i in range(STEPS):
        length = int(9 * MS * (slow if i == 3 else 1))
        host.event("train", late + i * STEP, length, step_num=i, _r=1)
        for k in range(20):
            host.event("cudaLaunchKernel", late + i * STEP + MS + k * 50 * US, 30 * US, correlation_id=i * 20 + k + 1, device_id=0)
    host.line("pool", id=4712)
    host.event(HOSTILE, late, MS)
    for i in range(3):  # These overlap, so that each needs its own lane.
        host.event(f"overlap {i}", late + 20 * MS + i * MS, 5 * MS)
    for _ in range(600):
        host.event("tie", late + 30 * MS, 0)
    host.line("_counters_")
    for i in range(50):
        host.event("memory", late + i * MS, 0, bytes=i * 1000)

    start = 1_790_000_000_000_000_000 + clock_offset_ns
    environment = PlaneWriter(space, "Task Environment")
    environment.add_stats(environment.plane, {"profile_start_time": start})
    strobe = PlaneWriter(space, "Strobe")
    strobe.add_stats(strobe.plane, {"clock_offset_ns": clock_offset_ns, "clock_error_ns": 40_000})
    if window:
        strobe.add_stats(strobe.plane, {"instant_ns": start + window[0], "duration_ns": window[1]})
    return space


def write_run(logdir, name, **workers):
    """Writes a run. `workers` maps a worker's name to the arguments of worker_trace."""
    folder = logdir / "plugins" / "profile" / name
    folder.mkdir(parents=True)
    for worker, arguments in workers.items():
        (folder / f"{worker}.xplane.pb").write_bytes(worker_trace(**arguments).SerializeToString())
    return folder
