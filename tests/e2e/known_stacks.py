"""Threads that stand still in known places, with the agent's evidence thread. Needs no package: known_stacks.py LIBRARY DIRECTORY MODE

Writes what faulthandler says of the threads into DIRECTORY/truth and prints "ready". MODE: "wait", "gil" (the main thread keeps the lock in C) or "busy"
(threads run until the end).
"""

import ctypes
import faulthandler
import os
import queue
import sys
import threading
import time

library, directory, mode = sys.argv[1:]
never = threading.Event()


class Loader:
    def get(self, queue_):
        return [
            item
            for item in self.items(queue_)
        ]

    def items(self, queue_):
        yield queue_.get()


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    try:
        never.wait()
    finally:
        pass


def größe():
    with threading.Lock():
        (lambda: never.wait(
            None,
        ))()


def spin():
    deep = [0]
    while not never.is_set():
        deep[0] = recurse_briefly(5) + 1


def recurse_briefly(depth):
    return recurse_briefly(depth - 1) if depth else 0


def hold_gil():
    ctypes.PyDLL(None).sleep(1000)


def wait_here():
    while True:
        time.sleep(1000)


def check(function):
    function(b"check")


def start_evidence():
    agent, agent_with_lock = ctypes.CDLL(library), ctypes.PyDLL(library)
    agent.strobe_evidence_start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    agent.strobe_evidence_start.restype = ctypes.c_char_p
    stem = f"{os.getpid()}-1"
    why = agent.strobe_evidence_start(directory.encode(), stem.encode(), sys.version_info[1])
    assert why is None, why
    agent_with_lock.strobe_evidence_check.argtypes = [ctypes.c_char_p]
    agent_with_lock.strobe_evidence_check.restype = ctypes.c_char_p
    refused = []
    wrong = agent_with_lock.strobe_evidence_check(b"another_function")
    assert wrong is not None, "a stack of another function passed"
    check(lambda name: refused.append(agent_with_lock.strobe_evidence_check(b"<lambda>")))
    assert refused == [None], refused


start_evidence()
targets = [(Loader().get, (queue.Queue(),)), (recurse, (40,)), (größe, ())] if mode != "busy" else [(spin, ())] * 4
for target, arguments in targets:
    threading.Thread(target=target, args=arguments, daemon=True).start()
time.sleep(1)
with open(os.path.join(directory, "truth"), "w") as truth:
    faulthandler.dump_traceback(truth, all_threads=True)
print("ready", flush=True)
if mode == "gil":
    time.sleep(0.5)
    hold_gil()
wait_here()
