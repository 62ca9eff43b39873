"""Orders to the evidence thread of a process, as the sidecar gives them, and the stacks that it writes (agent/wire/evidence_file.h)."""

import os
import re
import struct
import time
from pathlib import Path

from tests.support.processes import BIN, PATIENCE, PYTHON, wait_until

AGENT = BIN / "libstrobe_agent.so"
PYTHONS = {"the tests' own": PYTHON, **{path.parents[1].name: path for path in sorted((Path.home() / ".pyenv/versions").glob("3.*/bin/python3"))
                                        if (3, 9) <= tuple(int(part) for part in path.parents[1].name.split(".")[:2] if part.isdigit()) <= (3, 14)}}
BETWEEN, ORDER, ANSWERED = 192, 208, 264  # Offsets in EvidenceHeader.
STACKS, COLLECTIVES = 1, 2


def evidence_file(directory):
    return wait_until(lambda: sorted(directory.glob("*.evidence")), 20, "the evidence thread's file")[0]


def cpu_ns(pid, name):
    """The processor time of the thread with this name."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int((task / "schedstat").read_text().split()[0])
    raise LookupError(name)


def order(path, wants=STACKS, between_ms=1, number=None):
    """Gives an order, and waits until it is done; returns after how many seconds."""
    number, began = number or time.time_ns(), time.monotonic()
    file = os.open(path, os.O_RDWR)
    try:
        os.pwrite(file, struct.pack("<QI", between_ms * 1_000_000, wants), BETWEEN)
        os.pwrite(file, struct.pack("<Q", number), ORDER)
        while struct.unpack("<Q", os.pread(file, 8, ANSWERED))[0] != number:
            assert time.monotonic() - began < 10 * PATIENCE, "the evidence thread does not answer"
            time.sleep(0.002)
    finally:
        os.close(file)
    return time.monotonic() - began


def stacks(path, look="a"):
    """The threads of one look, by their identifier: (heading, [(file, line, name without its outer ones)])."""
    threads, current = {}, None
    for line in path.with_suffix(f".{look}.stacks").read_text().splitlines():
        heading = re.match(r"Thread (0x[0-9a-f]+) ", line)
        frame = re.fullmatch(r'  File "(.*)", line (-?\d+) in (.*)', line)
        if heading:
            current = threads[int(heading[1], 16)] = (line, [])
        elif frame:
            current[1].append((frame[1], int(frame[2]), frame[3].rsplit(".", 1)[-1]))
    return threads


def faulthandler_stacks(text):
    threads, current = {}, None
    for line in text.splitlines():
        heading = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)", line)
        frame = re.fullmatch(r'  File "(.*)", line (\d+) in (.*)', line)
        if heading:
            current = threads[int(heading[1], 16)] = []
        elif frame:
            current.append((frame[1], int(frame[2]), frame[3].encode().decode("unicode_escape")))
    return threads
