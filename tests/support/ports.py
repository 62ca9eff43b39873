"""Free ports for servers that cannot choose one themselves."""

import random
import socket
import threading

# This range is below the one from which the kernel takes ports for outgoing connections.
_FIRST, _END, _BLOCK = 10_000, 32_000, 100


def _ports():
    """Yields each port once. Suites run in parallel, and a server often binds its port seconds after it
    was chosen, so that a process reserves ports in blocks. It owns a block while it has bound the
    block's name in the abstract namespace of Unix sockets; the kernel releases the name when the
    process ends, even if it is killed."""
    blocks = list(range(_FIRST, _END, _BLOCK))
    random.shuffle(blocks)
    for block in blocks:
        with socket.socket(socket.AF_UNIX) as owner:
            try:
                owner.bind(f"\0strobe-test-ports-{block}")
            except OSError:
                continue
            yield from range(block, block + _BLOCK)
            owner.detach()  # The name stays bound until the process ends.


_own = _ports()
_lock = threading.Lock()


def free_port():
    """Returns a port that this process has not used before and on which no other process listens."""
    with _lock:
        for port in _own:
            with socket.socket(socket.AF_INET6) as probe:
                try:
                    probe.bind(("::", port))
                    return port
                except OSError:
                    continue
    raise RuntimeError(f"every port from {_FIRST} to {_END - 1} is taken")
