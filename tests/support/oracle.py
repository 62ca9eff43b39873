"""Checks traces against an independent source: the steps that a program noted by itself."""

import collections
import time

Note = collections.namedtuple("Note", "process step mono_begin mono_end wall_begin wall_end")


def read_notes(path):
    """Reads the notes that tests/e2e/noting_program.cc and train_loop.py --notes write."""
    notes = []
    for line in path.read_text().splitlines():
        process, *numbers = line.split()
        if len(numbers) == 5:  # The last line may be incomplete, because the writer was killed.
            notes.append(Note(process, *map(int, numbers)))
    return notes


def within(notes, begin_ns, end_ns):
    """The noted steps that are completely in the window, by the wall clock."""
    return [note for note in notes if begin_ns <= note.wall_begin and note.wall_end <= end_ns]


def window_of(manifest, worker):
    """The window that every worker must have recorded, on this worker's own clock."""
    begin = int(manifest["instantNs"]) + int(worker["clockOffsetNs"])
    return begin, begin + int(manifest["durationNs"])


def steps_of(space):
    """Counts the steps of all planes of a trace by (annotation's name, step_num)."""
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
    """Returns the noted steps in the window that the trace lacks, and the number of noted steps in the window."""
    wanted = within(notes, *window_of(manifest, worker))
    found = steps_of(space)
    return [note for note in wanted if found[note.process, note.step] == 0], len(wanted)


def missing_by_true_time(notes, manifest, worker, space):
    """Like missing(), but by the monotonic clock, which all processes of a machine share. Even if the worker's wall clock
    was stepped, a worker that ended Ok must have recorded the window as the operator's clock, which is this one, has it."""
    begin = int(manifest["instantNs"]) - (time.time_ns() - time.monotonic_ns())
    end = begin + int(manifest["durationNs"])
    slack = max(int(worker["clockErrorNs"]), 0)  # The error of the measured clock offset.
    wanted = [note for note in notes if begin + slack <= note.mono_begin and note.mono_end <= end - slack]
    found = steps_of(space)
    return [note for note in wanted if found[note.process, note.step] == 0], len(wanted)
