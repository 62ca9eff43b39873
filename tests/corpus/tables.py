"""Compares the tables of `strobe view` with sums over the file's own events, made here without anything of Strobe."""

import re
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.corpus.check import DEVICES, args_of, arrow_ends, events_of, kind_of, place_of, spans_of
from tests.support.processes import Group
from tests.support.viewer import View

# They are work if they say where they ran, or an arrow leads to them.
KERNELS = ("kernel", "concurrent_kernel", "Kernel", "Memcpy", "Memset")
ARROWS = ("ac2g", "async", "async_cpu_to_gpu", "async_gpu")
SIZES = {"Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Byte": 1, "Char": 1, "Bool": 1}
SUMS, LAUNCHED = ("count", "totalPs", "selfPs", "maxPs"), ("count", "totalPs", "selfPs", "maxPs", "devicePs", "deviceSelfPs")
LARGEST = 1000  # In ps: times in a file may be finer, and each is rounded.
TABLES = {"kernels": SUMS, "operators": LAUNCHED, "modules": LAUNCHED, "communication": (*SUMS, "bytes")}


@dataclass
class Frame:
    table: str
    name: str
    is_call: bool  # It is a call of a runtime: how the operator around it launches work.
    begin: int
    end: int
    event: dict
    around: dict  # By table, the outermost first.
    inside: list = field(default_factory=list)
    device: int = 0


def is_work(event, begin, ended):
    told = bool({"device", "stream"} & args_of(event).keys()) or place_of(event, begin) in ended
    return event.get("cat") in DEVICES or (event.get("cat") in KERNELS and told)


def is_call(event):
    return event.get("cat") == "Runtime" or event.get("cat", "").endswith(("_runtime", "_driver"))


def table_of(event):
    if event.get("cat") in ("cpu_op", "Operator", "user_annotation") or is_call(event):
        return "operators"
    return "modules" if event.get("cat") == "python_function" and event["name"].startswith("nn.Module: ") else None


def launch_ids(event, begin, ends):
    """What a launch and its work share: their correlation or, without it, the arrow that is there when they begin."""
    return {str(args_of(event)["correlation"])} if "correlation" in args_of(event) else ends.get(place_of(event, begin), ())


def frames_of(spans):
    """The events of a thread that are in a table, each with those around it: the ones that hold it wholly."""
    frames, opened = [], {"operators": [], "modules": []}
    for name, begin, length, event in sorted((span for span in spans if table_of(span[3])), key=lambda span: (span[1], -span[2])):
        table = table_of(event)
        opened = {key: [frame for frame in each if frame.end > begin] for key, each in opened.items()}
        around = {key: [frame for frame in each if frame.end >= begin + length] for key, each in opened.items()}
        frame = Frame(table, kind_of(re.sub(r"ProfilerStep#.*", "ProfilerStep*", name)), is_call(event), begin, begin + length, event, around)
        if around[table]:
            around[table][-1].inside.append(frame)
        opened[table].append(frame)
        frames.append(frame)
    return frames


def count(row, length, own):
    row.update(count=1, totalPs=length, selfPs=own)
    row["maxPs"] = max(row["maxPs"], length)


def add_launch(launch, length, rows):
    for table, around in launch.around.items():
        launchers = [frame for frame in around if not frame.is_call]
        for frame in launchers:
            frame.device += length
            rows[table][frame.name].update(devicePs=length, deviceSelfPs=length if frame is launchers[-1] else 0)


def add_work(name, length, event, rows):
    count(rows["kernels"][name], length, length)
    if name[:4].lower() == "nccl":
        args = args_of(event)
        group = [args.get(key, "") for key in ("Process Group Name", "Process Group Description")]
        row = rows["communication"][name.split("(")[0], " ".join(str(part) for part in group if part not in ("", "undefined"))]
        count(row, length, length)
        row["bytes"] += max(int(args.get("In msg nelems", 0)), int(args.get("Out msg nelems", 0))) * SIZES.get(args.get("dtype"), 0)


def sums_of(events):
    rows, work, threads = {table: defaultdict(Counter) for table in TABLES}, defaultdict(list), defaultdict(list)
    ended, begun = arrow_ends(events, "f", ARROWS), arrow_ends(events, "s", ARROWS)
    for name, begin, length, event in spans_of(events):
        if is_work(event, begin, ended):
            add_work(name, length, event, rows)
            for launch in launch_ids(event, begin, ended):
                work[launch].append(length)
        else:
            threads[place_of(event, 0)].append((name, begin, length, event))
    for frames in map(frames_of, threads.values()):
        for launch, id in ((frame, id) for frame in frames if frame.is_call for id in launch_ids(frame.event, frame.begin, begun)):
            for length in work[id]:
                add_launch(launch, length, rows)
        for frame in frames:
            row, length, inside = rows[frame.table][frame.name], frame.end - frame.begin, [inner.end - inner.begin for inner in frame.inside]
            count(row, length, max(length - sum(inside), 0))
            # As PyTorch's averages count an operator that only calls one of the same name.
            if [inner.name for inner in frame.inside] == [frame.name] and frame.table == "operators":
                row.subtract(count=1, totalPs=inside[0], devicePs=frame.inside[0].device)
    return rows


def differences(table, rows, shown):
    names = [f"{table}: {name!r} is missing" for name in rows.keys() - shown.keys()] + [f"{table}: {name!r} is not in the file" for name in shown.keys() - rows.keys()]
    return names + [f"{table}: {key} of {name!r} is {shown[name][key]}, by an own sum {rows[name][key]}" for name in rows.keys() & shown.keys()
                    for key in TABLES[table] if abs((shown[name][key] or 0) - rows[name][key]) > (LARGEST if key.endswith("Ps") else 0)]


def check_tables(path):
    """What differs, and how many names were compared."""
    rows = sums_of(events_of(path))
    with tempfile.TemporaryDirectory() as folder, Group(folder) as group:
        (view := View(group, "view", path, "--cache", "none")).loaded()
        answers = {table: view.json(f"/api/table?table={table}&worker=0")["rows"] for table in TABLES}
    # Scopes of devices and other libraries' collectives have no sums here.
    rest = {"modules": lambda row: row["kind"] != "module", "communication": lambda row: not row["name"].lower().startswith("nccl")}
    shown = {table: {(row["name"], row["group"]) if table == "communication" else row["name"]: row for row in answer if not (table in rest and rest[table](row))}
             for table, answer in answers.items()}
    return [problem for table in TABLES for problem in differences(table, rows[table], shown[table])], sum(map(len, rows.values()))
