"""What ranks do that hold up the others of their job."""

import ctypes
import os
import queue
import signal
import threading
import time

FOR_EVER = 100_000


def load_batch_slowly():
    time.sleep(FOR_EVER)


def keep_the_lock():
    ctypes.PyDLL(None).sleep(FOR_EVER)


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def spin():
    while True:
        pass


def read_from_a_pipe():
    read, _write = os.pipe()
    os.read(read, 1)


def wait_for_a_loader():
    queue.Queue().get()


def go_on_elsewhere():
    """An exception was swallowed, and the program goes on without the others."""
    while True:
        time.sleep(0.5)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def leave(code):
    os._exit(code)


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise ValueError("the batch has no labels")


def rest():
    time.sleep(6)


# While a step loads its batch.
WHILE_LOADING = {
    "sleep": load_batch_slowly, "gil": keep_the_lock, "lock": wait_for_a_lock, "spin": spin, "io": read_from_a_pipe, "loader": wait_for_a_loader,
    "swallowed": go_on_elsewhere, "sigstop": stop, "exit0": lambda: leave(0), "exit": lambda: leave(1), "kill": be_killed, "raise": fail, "pause": rest}
