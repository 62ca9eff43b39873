"""The commands of jax_trainer.py and torch_trainer.py, one a line; each is answered by a JSON object. The frameworks know nothing of Strobe.

run SECONDS         steps for that long; times of a step
steps N             N steps
profile N DIR       N steps within the framework's own profiler; the trace's path
profile-run S DIR   run within the framework's own profiler
own-start DIR       starts the framework's own profiler; the error, if it fails
own-stop            ends it likewise
"""

import json
import sys
import time
from pathlib import Path

CHUNK = 10  # Steps between two waits for the device.


def train(trainer, seconds):
    """Begin, by the wall clock, and microseconds per step of each chunk."""
    chunks, until = [], time.perf_counter() + seconds
    while not chunks or time.perf_counter() < until:
        began, before = time.time_ns(), time.perf_counter()
        for _ in range(CHUNK):
            trainer.step()
        trainer.wait()
        chunks.append([began, (time.perf_counter() - before) / CHUNK * 1e6])
    return {"chunks": chunks}


def steps(trainer, count):
    trainer.wait()
    began = time.time_ns()
    for _ in range(count):
        trainer.step()
    trainer.wait()
    return {"steps": count, "began_ns": began, "ended_ns": time.time_ns()}


def _newest(folder):
    files = [path for path in Path(folder).rglob("*") if path.name.endswith((".xplane.pb", ".pt.trace.json"))]
    return str(max(files, key=lambda path: path.stat().st_mtime)) if files else None


def within(trainer, folder, action):
    trainer.start_own(folder)
    answer = action()
    before = time.perf_counter()
    trainer.stop_own(folder)
    return {**answer, "stop_s": time.perf_counter() - before, "file": _newest(folder)}


def attempt(action):
    try:
        action()
        return {"error": None}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def obey(trainer, command, *arguments):
    if command == "run":
        return train(trainer, float(arguments[0]))
    if command == "steps":
        return steps(trainer, int(arguments[0]))
    if command == "profile":
        return within(trainer, arguments[1], lambda: steps(trainer, int(arguments[0])))
    if command == "profile-run":
        return within(trainer, arguments[1], lambda: train(trainer, float(arguments[0])))
    if command == "own-start":
        trainer.folder = arguments[0]
        return attempt(lambda: trainer.start_own(trainer.folder))
    if command == "own-stop":
        return {**attempt(lambda: trainer.stop_own(trainer.folder)), "file": _newest(trainer.folder)}
    raise ValueError(command)


def serve(trainer):
    for _ in range(3):  # The first steps compile and choose algorithms.
        trainer.step()
        trainer.wait()
    print(json.dumps({"device": trainer.device}), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(trainer, *line.split())), flush=True)
