"""JAX imports this package when a backend is used for the first time.

Any error but ImportError would end the program's start.
"""

try:
    from strobe_bootstrap import start as _start
except Exception:
    _start = None


def initialize():
    if _start is not None:
        _start("jax")
