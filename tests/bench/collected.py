"""Measures the time from a recorded trace of 1 GiB to the stored one, and the sidecar's memory meanwhile, in comparison with a bare client that
downloads the same trace from the same profiler server and puts it into the same store.

STROBE_TRACE_MIB names another size.
"""

import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import threading
import time

from tests.bench import bars
from tests.bench.protos import load
from tests.support.ports import free_port
from tests.support.processes import BIN, BUILD, PYTHON, ROOT, Group, high_water, memory, status_of, wait_until
from tests.support.stores import Versity, strobe_env

MIB = int(os.environ.get("STROBE_TRACE_MIB", "1024"))
ROUNDS = 3
EVENT_BYTES = 29  # Each event of make_xspace takes so much in traces of this size.
LEAD, DURATION = 2_000_000_000, 1_000_000_000  # The profiler server puts its answer together meanwhile.
SECONDS = 300


class Profiler:
    """A profiler server that sends a trace of the size."""

    def __init__(self, group, directory):
        trace = directory / "trace.xplane.pb"
        subprocess.run([BIN / "make_xspace", str((MIB << 20) // EVENT_BYTES), trace], check=True)
        self.bytes, self.port = trace.stat().st_size, free_port()
        assert self.bytes < 1 << 31, "XProf cannot open such a trace, and a sidecar refuses it"
        self.process = group.start("profiler", [PYTHON, ROOT / "tests/bench/ready_profiler.py", BUILD / "bench/protos", self.port, trace])
        self.process.wait_for("ready", 60)
        trace.unlink()  # Files in memory take room.

    def sent_ns(self):
        """When the last recording was over."""
        return int([line for line in self.process.output().splitlines() if line.startswith("sends")][-1].split()[1])


@contextlib.contextmanager
def watched(pid):
    """Notes the peak of a process's RssAnon, in MiB, in the list that it yields."""
    peak, ended = [0], threading.Event()

    def watch():
        while not ended.wait(0.01):
            peak[0] = max(peak[0], int(status_of(pid).get("RssAnon", "0").split()[0]) / 1024)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def through_sidecar(group, server, profiler, name, flags):
    """Returns the seconds until the trace is stored, and what the sidecar's memory grew by, in traces: its RSS, and its RssAnon."""
    grpc, _, _ = load()
    from strobe.v1 import worker_pb2 as pb
    from strobe.v1 import worker_pb2_grpc

    port = free_port()
    sidecar = group.start(f"sidecar-{name}", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", f"localhost:{profiler.port}",
                                              "--worker-name", "w0", "--insecure-plaintext", *flags], env=strobe_env(server)).wait_for("serves", 20)
    time.sleep(1)
    idle, idle_own = memory(sidecar.pid, "VmRSS"), memory(sidecar.pid, "RssAnon")
    stub, now = worker_pb2_grpc.WorkerStub(grpc.insecure_channel(f"127.0.0.1:{port}")), time.time_ns()
    plan = pb.CapturePlan(capture_id=name, request="a benchmark", instant_ns=now + LEAD, duration_ns=DURATION, guard_ns=200_000_000, logdir=server.url,
                          run=name, worker="w0", deadline_ns=now + SECONDS * 1_000_000_000, tracers=pb.Tracers(host=2, device=1))
    with watched(sidecar.pid) as own:
        armed = stub.Arm(pb.ArmRequest(plan=plan), timeout=10)
        assert armed.accepted, armed.message
        report = next(told for told in stub.Watch(pb.WatchRequest(capture_id=name), timeout=SECONDS) if told.state == pb.DONE)
        took = (time.time_ns() - profiler.sent_ns()) / 1e9
        assert report.outcome == pb.OK and report.bytes > profiler.bytes, report
        # The digest is made beside the upload, and may take longer.
        wait_until(lambda: has_ended_digest(grpc, stub, pb, name), 120, "the digest")
    size, peak = profiler.bytes / (1 << 20), high_water(sidecar.pid)
    sidecar.kill()
    return took, (peak - idle) / size, (own[0] - idle_own) / size


def has_ended_digest(grpc, stub, pb, capture):
    try:
        return stub.ReadDigest(pb.ReadDigestRequest(capture_id=capture, worker="w0"), timeout=30)
    except grpc.RpcError as error:
        return error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def put_url(server, key):
    """A signed URL to which the bytes themselves are put, so that the bare client need not hash them."""
    import boto3
    from botocore.config import Config

    client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id=server.key, aws_secret_access_key=server.secret,
                          config=Config(signature_version="s3v4", request_checksum_calculation="when_required", s3={"addressing_style": "path"}))
    return client.generate_presigned_url("put_object", Params={"Bucket": server.bucket, "Key": key}, ExpiresIn=3600)


def by_bare_client(server, profiler, name):
    """Returns the seconds of the download, and those of the upload. Neither looks at the bytes."""
    grpc, pb, _ = load()
    url, key = put_url(server, f"bare/{name}"), f"bare/{name}"
    request = pb.ProfileRequest(session_id=name, emit_xspace=True)
    request.opts.version, request.opts.host_tracer_level, request.opts.device_tracer_level = 1, 2, 1
    request.opts.start_timestamp_ns, request.opts.duration_ms = time.time_ns() + LEAD, DURATION // 1_000_000
    with grpc.insecure_channel(f"localhost:{profiler.port}", options=[("grpc.max_receive_message_length", -1)]) as channel:
        profile = channel.unary_unary("/tensorflow.ProfilerService/Profile", request_serializer=pb.ProfileRequest.SerializeToString)
        answer = profile(request, timeout=SECONDS)
    here = time.time_ns()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request("PUT", url.removeprefix(server.endpoint), body=answer)
    told = connection.getresponse()
    text = told.read()
    stored = time.time_ns()
    assert told.status == 200, (told.status, text[:500])
    assert server.objects()[key] == len(answer) > profiler.bytes
    return (here - profiler.sent_ns()) / 1e9, (stored - here) / 1e9


def run(directory):
    load()
    with Group(directory / "logs") as group:
        server = Versity(group, directory, tls=False).start()
        profiler = Profiler(group, directory)
        ways = {"strobe-sidecar, with a spool": True, "strobe-sidecar, without a spool": False}
        ours, downloads, uploads = {way: [] for way in ways}, [], []
        for number in range(ROUNDS):
            for way, spools in ways.items():
                spool = directory / f"spool-{number}"
                ours[way].append(through_sidecar(group, server, profiler, f"c{number}-{'spool' if spools else 'memory'}", ["--spool-dir", spool] if spools else []))
                shutil.rmtree(server.dir / "data" / server.bucket / "logs")
                shutil.rmtree(spool, ignore_errors=True)
            download, upload = by_bare_client(server, profiler, f"b{number}")
            downloads.append(download)
            uploads.append(upload)
            shutil.rmtree(server.dir / "data" / server.bucket / "bare")
    floor = statistics.median(map(sum, zip(downloads, uploads)))
    lines = [f"### A trace of {profiler.bytes / (1 << 30):.2f} GiB, from recorded to stored", "",
             f"{ROUNDS} times each, in turns: from the end of the recording until the trace is in versitygw, plain HTTP on loopback. Profiler server, sidecar, "
             "store and its files in memory share two cores. The bare client downloads the same bytes from the same server and puts them unread, and unhashed, "
             "into the same store. Memory is what the sidecar's grew by at most, in sizes of the trace, its digest included; RSS contains the mapped files of "
             "the spool.", "",
             "| | seconds, median (range) | ratio to the bare client (bar 1.5) | RSS (bar 1.2) | of these not of files | copies at once (bar 2) |", "|---|---|---|---|---|---|"]
    for way, runs in ours.items():
        times, most, own = [r[0] for r in runs], max(r[1] for r in runs), max(r[2] for r in runs)
        took = statistics.median(times)
        bars.at_most(f"{way}: time to the bare client's", took / floor, 1.5)
        bars.at_most(f"{way}: RSS above idle, in traces", most, 1.2)
        bars.at_most(f"{way}: copies of the trace at once", round(most), 2)
        lines.append(f"| {way} | {took:.2f} ({min(times):.2f} to {max(times):.2f}) | {took / floor:.2f} | {most:.2f} | {own:.2f} | {round(most)} |")
    lines.append(f"| bare client: {statistics.median(downloads):.2f} to download, {statistics.median(uploads):.2f} to upload | {floor:.2f} | 1.00 | | | |")
    return "\n".join(lines) + "\n"
