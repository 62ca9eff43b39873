"""The way of `dyno gputrace`, at its best: a daemon that hands the same start time to each process with PyTorch, and nothing else.

It asks for no warm-up, because there is no GPU, and its clients ask it every second instead of every five.
"""

import json
import socket
import struct
import threading
import time

from tests.support.kineto import DAEMON

_HEADER = struct.Struct("<Q32s")
# A client may ask just after the order, Kineto looks at its orders once a second, and the rest is margin.
LEAD_SECONDS = 1 + 1 + 0.5


def environment(directory):
    """What makes PyTorch look for the daemon. Its own files go to the directory."""
    configuration = directory / "libkineto.conf"
    configuration.write_text("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n")
    return {"KINETO_USE_DAEMON": "1", "KINETO_CONFIG": str(configuration), "KINETO_ONDEMAND_TRACE_DIR": f"{directory}/"}


class BareDaemon:
    """Serves the network namespace of the thread that makes it."""

    def __init__(self, directory):
        self.directory = directory
        self.asked = {}  # When each process asked last, whose profiler was free.
        self._orders = {}
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(DAEMON)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            data, sender = self._socket.recvfrom(4096)
            if len(data) < 60:
                return  # close() woke it up.
            kind, _, _, pid = struct.unpack_from("<iiqi", data, _HEADER.size)
            with self._lock:
                if kind == 0:
                    continue
                self.asked[pid] = time.time()
                order = self._orders.pop(pid, None)
            if order:
                self._socket.sendto(_HEADER.pack(len(order), b"req") + order, sender)

    def starts(self, pids, run, duration_ms):
        """Orders one recording, and returns when it was ordered, and the starts of each process; see starts_of."""
        path = self.directory / f"{run}.json"
        ordered = time.time()
        start_ms = int((ordered + LEAD_SECONDS) * 1000)
        text = (f"ACTIVITIES_LOG_FILE={path}\nPROFILE_START_TIME={start_ms}\nACTIVITIES_DURATION_MSECS={duration_ms}\n"
                "ACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITY_TYPES=cpu_op,user_annotation\n").encode()
        with self._lock:
            self._orders = {pid: text for pid in pids}
        paths = [path.with_name(f"{run}_{pid}.json") for pid in pids]
        deadline = time.monotonic() + 30
        while not all(part.exists() for part in paths):
            if time.monotonic() > deadline:
                return ordered, None
            time.sleep(0.05)
        return ordered, [starts_of(part.read_bytes()) for part in paths]

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake:
            wake.sendto(b"", DAEMON)
        self._thread.join()
        self._socket.close()


def starts_of(text):
    """When a recording began by PyTorch's profiler, which is the time of the events that name the process, and when its first operator did. In Unix
    nanoseconds."""
    trace = json.loads(text)
    (moment,) = {event["ts"] for event in trace["traceEvents"] if event.get("name") == "process_name" and event["ph"] == "M"}
    operator = min(event["ts"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op")
    return tuple(trace["baseTimeNanoseconds"] + round(time * 1000) for time in (moment, operator))
