"""How long the program stands still when PyTorch ends a recording with the interpreter's lock held: what is expected, and a bound on it."""

from .request import Refused

_LONGEST_NS = 5 * 10**9


class Pauses:
    """What the recordings of this process showed. A recording of one kind, such as one with stacks, tells nothing of another kind."""

    def __init__(self):
        self._shares = {}  # Of the last recording of each kind: how long it took to end, per time that was recorded.

    def ended(self, kind, recorded_ns, took_ns):
        self._shares[kind] = took_ns / max(recorded_ns, 1)

    def check(self, kind, request):
        """What to tell of a recording of this kind before it begins. Raises Refused if the pause would be long, unless that is allowed."""
        why = f"the program stands still while a recording with {' and '.join(kind)} ends, which PyTorch 2.15 avoids" if kind else \
            "the program stands still while a recording ends, which PyTorch 2.15 avoids"
        if kind not in self._shares:
            return why
        expected_ns = self._shares[kind] * request.duration_ns
        if expected_ns > _LONGEST_NS and not request.may_stall:
            raise Refused("VersionMismatch", f"{why}: for about {expected_ns / 1e9:.0f} s, as after the last one. Ask for a shorter window or for less, or allow it: "
                          "strobe.dev/allow-stalls: \"true\" on the pod (--allow-stalls of the sidecar)")
        return f"{why}: for about {expected_ns / 1e9:.1f} s, as after the last one"
