"""The truth that is not ours: what a workload noted of its own steps, against what a capture's trace holds."""

import collections
import time

Note = collections.namedtuple("Note", "process step mono_begin mono_end wall_begin wall_end")


def read_notes(path):
    """The lines of tests/e2e/noting_program.cc, and of train_loop.py --notes."""
    notes = []
    for line in path.read_text().splitlines():
        process, *numbers = line.split()
        if len(numbers) == 5:  # The writer may have been killed within the last one.
            notes.append(Note(process, *map(int, numbers)))
    return notes


def within(notes, begin_ns, end_ns):
    """Those that lie wholly in the window, by the wall clock."""
    return [note for note in notes if begin_ns <= note.wall_begin and note.wall_end <= end_ns]


def window_of(manifest, worker):
    """The window that every worker must have recorded, on this worker's own clock."""
    begin = int(manifest["instantNs"]) + int(worker["clockOffsetNs"])
    return begin, begin + int(manifest["durationNs"])


def steps_of(space):
    """(annotation's name, step_num) of every step of a trace, of whatever plane."""
    found = collections.Counter()
    for plane in space.planes:
        names = {i: entry.name for i, entry in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {names[stat.metadata_id]: stat for stat in event.stats}
                if "step_num" not in stats:
                    continue
                stat = stats["step_num"]
                step = getattr(stat, stat.WhichOneof("value"))
                found[plane.event_metadata[event.metadata_id].name, step] += 1
    return found


def missing(notes, manifest, worker, space):
    """Noted steps of the window that the trace does not have; and how many there were."""
    wanted = within(notes, *window_of(manifest, worker))
    found = steps_of(space)
    return [note for note in wanted if found[note.process, note.step] == 0], len(wanted)


def missing_by_true_time(notes, manifest, worker, space):
    """The same by the monotonic clock, which all processes of a machine share: whatever was done to the worker's wall
    clock, the window of a worker that says Ok lies where the operator's clock, which is this one, had it."""
    begin = int(manifest["instantNs"]) - (time.time_ns() - time.monotonic_ns())
    end = begin + int(manifest["durationNs"])
    slack = max(int(worker["clockErrorNs"]), 0)  # Within which the worker knew the operator's clock.
    wanted = [note for note in notes if begin + slack <= note.mono_begin and note.mono_end <= end - slack]
    found = steps_of(space)
    return [note for note in wanted if found[note.process, note.step] == 0], len(wanted)
