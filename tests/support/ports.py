"""Ports for servers that must be told theirs."""

import random
import socket
import threading

# Below the range from which the kernel gives ports to outgoing connections.
_FIRST, _END, _BLOCK = 10_000, 32_000, 100


def _ports():
    """Each port once, in blocks that belong to this process while it lives. Suites run side by side,
    and a server often binds its port seconds after it was chosen. The owner of a block is whoever
    has bound its name in the abstract namespace of Unix sockets, which the kernel gives back when
    the process ends, even by force."""
    blocks = list(range(_FIRST, _END, _BLOCK))
    random.shuffle(blocks)
    for block in blocks:
        with socket.socket(socket.AF_UNIX) as owner:
            try:
                owner.bind(f"\0strobe-test-ports-{block}")
            except OSError:
                continue
            yield from range(block, block + _BLOCK)
            _kept.append(owner.detach())


_kept = []
_own = _ports()
_lock = threading.Lock()


def free_port():
    """A port of which this process was not told before, and which nobody else listens on."""
    with _lock:
        for port in _own:
            with socket.socket(socket.AF_INET6) as probe:
                try:
                    probe.bind(("::", port))
                    return port
                except OSError:
                    continue
    raise RuntimeError(f"every port from {_FIRST} to {_END - 1} is taken")
