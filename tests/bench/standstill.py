"""How long the operator takes to say who holds up a job of 512 ranks, and what that takes: a real API server with pods that no node runs, and all sidecars
in one process (fleet.cc), which answer as long after a question as real ones do. Each rank tells a full Flight Recorder, twice, and stacks.
"""

import json
import os
import statistics
import struct
import time

from tests.bench import bare_writes, bars, scale
from tests.support.api_writes import writes
from tests.support.control_plane import ControlPlane, Kubectl
from tests.support.operator import Operator
from tests.support.ports import free_port
from tests.support.processes import BIN, Group, high_water, memory, wait_until

RANKS, PAIRED, CULPRIT = int(os.environ.get("STROBE_RANKS", "512")), 8, 300
STEPS = 660  # Each has three collectives, and PyTorch keeps 2,000.
ROUNDS = 3
GAP_NS = 100_000_000


def dump(value):
    """A pickle of dicts, lists, pairs, texts, numbers and None, as PyTorch's recorder writes it, which uses few of the format's codes."""
    memo, out = {}, [b"\x80\x02"]

    def add(one):
        if one is None or isinstance(one, bool):
            out.append({None: b"N", True: b"\x88", False: b"\x89"}[one])
        elif isinstance(one, int):
            out.append(b"K" + bytes([one]) if 0 <= one < 256 else struct.pack("<cH", b"M", one) if 0 <= one < 65536 else
                       struct.pack("<ci", b"J", one) if abs(one) < 2**31 else b"\x8a\x08" + struct.pack("<q", one))
        elif isinstance(one, str):
            if one in memo:
                out.append(b"h" + bytes([memo[one]]))
            else:
                memo[one] = len(memo)
                out.append(struct.pack("<ci", b"X", len(one)) + one.encode() + b"q" + bytes([memo[one]]))
        elif isinstance(one, tuple):
            add(one[0])
            add(one[1])
            out.append(b"\x86")
        else:
            begin, end = (b"}(", b"u") if isinstance(one, dict) else (b"](", b"e")
            out.append(begin)
            for part in (part for pair in one.items() for part in pair) if isinstance(one, dict) else one:
                add(part)
            out.append(end)

    add(value)
    return b"".join([*out, b"."])


def groups_of(rank):
    pair, replica = rank // PAIRED, rank % PAIRED
    return [("0", "default_pg", list(range(RANKS))), (f"tp{pair:03}", "TP", list(range(pair * PAIRED, (pair + 1) * PAIRED))),
            (f"dp{replica:03}", "DP", list(range(replica, RANKS, PAIRED)))]


def record(rank, began_ns):
    """The culprit lacks the last collective of its pair, its pair those behind it, and the others wait in the second of the step."""
    world, pair, replica = groups_of(rank)
    last = 0 if rank == CULPRIT else 1 if CULPRIT in pair[2] else 2
    entries = []
    for step in range(1, STEPS + 1):
        launched = ((pair, "all_gather"), (replica, "all_reduce"), (world, "all_reduce"))[:3 if step < STEPS else last]
        for place, ((name, desc, _), op) in enumerate(launched):
            entries.append({
                "record_id": len(entries), "pg_id": place, "process_group": (name, desc), "thread_name": "python", "thread_id": "140663994071936",
                "collective_seq_id": step, "p2p_seq_id": 0, "op_id": step, "profiling_name": f"gloo:{op}",
                "time_created_ns": began_ns + step * GAP_NS + place * 1_000_000, "input_sizes": [[4096, 4096]], "input_dtypes": ["Float"],
                "output_sizes": [[4096, 4096]], "output_dtypes": ["Float"], "state": "scheduled", "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None, "retired": step < STEPS or place < last - 1, "timeout_ms": 120000, "is_p2p": False})
    return dump({"version": "2.10", "pg_config": {}, "comm_lib_version": "", "pg_status": {}, "entries": entries})


def stacks_of(rank, looked_at_ns):
    def thread(number, frames, wchan="futex_do_wait"):
        return f"Thread 0x7fee{number:08x} tid {1000 + number} proven state S wchan {wchan} syscall 202 comm python\n" + "".join(
            f'  File "{file}", line {line} in {name}\n' for file, line, name in frames)

    loader = [("/usr/lib/python3.13/threading.py", 327 + i, f"Loader.wait_{i}") for i in range(10)]
    here = [("/app/train.py", 88, "Loader.next")] if rank == CULPRIT else [
        ("/usr/lib/python3.13/site-packages/torch/distributed/distributed_c10d.py", 3651, "all_reduce")]
    main = [*here, *(("/app/train.py", 100 + i, f"Trainer.step_{i}") for i in range(20))]
    return "".join([f"# python 3.13 threads 13 gil_locked 0 at {looked_at_ns}\n", *(thread(i, loader) for i in range(12)),
                    thread(99, main, "hrtimer_nanosleep" if rank == CULPRIT else "futex_do_wait")])


def write_evidence(folder):
    """What each rank tells, as its sidecar would answer. Returns the bytes of all."""
    looked_at_ns = time.time_ns()
    began_ns, made, total = looked_at_ns - (STEPS * GAP_NS + 5_000_000_000), {}, 0
    for rank in range(RANKS):
        own = folder / str(rank)
        own.mkdir(parents=True)
        # Ranks differ by the names of their groups only, except those that are held up first.
        role = CULPRIT if rank == CULPRIT else -1 if rank // PAIRED == CULPRIT // PAIRED else -2
        if role not in made:
            made[role] = (rank, record(rank, began_ns))
        like, flight = made[role]
        for (of, _, _), (name, _, _) in zip(groups_of(like), groups_of(rank)):
            flight = flight.replace(of.encode(), name.encode()) if of != name else flight
        told = [{"name": name, "desc": desc, "backend": "gloo", "ranks": members} for name, desc, members in groups_of(rank)]
        files = {"groups": json.dumps(told).encode(), "a.fr": flight, "b.fr": flight, "a.stacks": stacks_of(rank, looked_at_ns).encode()}
        files["b.stacks"] = files["a.stacks"]
        for kind, content in files.items():
            (own / f"{rank}.{kind}").write_bytes(content)
        (own / "processes.json").write_text(json.dumps({"world": RANKS, "process_states": {rank: "S"}, "exceptions": {}}))
        total += sum(map(len, files.values()))
    return total


def create_pods(plane, port):
    pods = "/api/v1/namespaces/llm/pods"

    def running(rank):
        made, address = scale.pod(rank, port, {"job": "llm"}), f"127.64.{rank // 250}.{rank % 250 + 1}"
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}]}
        return [("POST", pods, bare_writes.PLAIN, made), ("PATCH", f"{pods}/{made['metadata']['name']}/status", bare_writes.MERGE, {"status": status})]

    scale.Api(plane).write_many([running(rank) for rank in range(RANKS)])


def ask(kubectl, name):
    """Returns the seconds to the verdict and to the end of the run, and what was written."""
    before, began = writes(kubectl), time.monotonic()
    made = scale.request(name, {"job": "llm"}, record="Evidence")
    del made["spec"]["duration"]
    kubectl.apply(made)

    def status():
        return kubectl.get("profilerequest", name).get("status", {})

    stall = wait_until(lambda: status().get("stall"), 60, "the verdict")
    verdict = time.monotonic() - began
    wait_until(lambda: any(c["type"] == "Succeeded" and c["status"] == "True" for c in status()["conditions"]), 120, "the run's end")
    kept = time.monotonic() - began
    assert (stall["class"], stall["confidence"], [one["rank"] for one in stall["culprits"]]) == ("Host", "Firm", [CULPRIT]), stall
    time.sleep(3)  # Events are written last.
    return verdict, kept, writes(kubectl) - before, len(json.dumps(status()))


def run(directory):
    evidence, digests, port = directory / "evidence", directory / "digests", free_port()
    digests.mkdir()
    bytes_told = write_evidence(evidence)
    with Group(directory / "logs") as group:
        plane = ControlPlane(group, directory / "plane").start()
        Kubectl(plane.kubeconfig).install_crds()
        Kubectl(plane.kubeconfig).create_namespace("llm")
        kubectl = Kubectl(plane.kubeconfig, "llm")
        group.start("fleet", [BIN / "fleet", port, digests, evidence]).wait_for("serves", 10)
        create_pods(plane, port)
        operator = Operator(group, plane.kubeconfig, flags=["--no-leader-election"]).start().wait_ready()
        time.sleep(3)
        idle = memory(operator.process.pid, "VmRSS")
        rounds = [ask(kubectl, f"why-{i}") for i in range(ROUNDS)]
        resting, peak = memory(operator.process.pid, "VmRSS"), high_water(operator.process.pid)
        operator.process.kill()
    verdicts, kept = [one[0] for one in rounds], [one[1] for one in rounds]
    bars.at_most(f"from the question to the verdict over {RANKS} ranks, s", statistics.median(verdicts), 7)
    return "\n".join([
        f"### Who holds up a job of {RANKS} ranks\n",
        f"A real API server, its pods on no node, and all sidecars in one process share this machine with the operator. The ranks tell {bytes_told / 1e6:.0f} MB.\n",
        "| | | bar |", "|---|---|---|",
        f"| from the question to the verdict, median of {ROUNDS} (range); sidecars take 1.6 s of it, and look for the sign each second | "
        f"{statistics.median(verdicts):.1f} s ({min(verdicts):.1f} to {max(verdicts):.1f}) | 7 s |",
        f"| until each worker's files are in the run | {statistics.median(kept):.1f} s | |",
        f"| the operator's memory before, afterwards and at the peak | {idle:.0f} MiB, {resting:.0f} MiB, {peak:.0f} MiB | |",
        f"| writes to the API server for each question | {', '.join(f'{count} {what}' for what, count in rounds[-1][2].most_common(8))} | |",
        f"| the size of the status | {rounds[-1][3]} bytes | |\n"])
