"""How long the program stands still when PyTorch ends a recording with the interpreter's lock held:
what is expected, and a bound on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .request import Refused

if TYPE_CHECKING:
    from .request import Request

_LONGEST_NS = 5 * 10**9
# Seconds per second of a server's first recording of Python's functions: one of 2 s under load,
# with 2.5 million events, took 19.6 s to end.
_SERVERS_STACKS = 10.0


class Pauses:
    """What the recordings of this process showed.

    A recording of one kind, such as one with stacks, tells nothing of another kind.
    """

    def __init__(self) -> None:
        # How long the last recording of each kind took to end, per time that was recorded.
        self._shares: dict[tuple[str, ...], float] = {}

    def ended(self, kind: tuple[str, ...], recorded_ns: int, took_ns: int) -> None:
        self._shares[kind] = took_ns / max(recorded_ns, 1)

    def check(self, kind: tuple[str, ...], request: Request, serves: bool = False) -> str:
        """What to tell of a recording of this kind before it begins.

        Raises Refused if the pause would be long, unless that is allowed. A process that serves has
        users who wait, so that its first recording of stacks is not tried either.
        """
        what = f"a recording with {' and '.join(kind)}" if kind else "a recording"
        who = "all requests wait" if serves else "the program stands still"
        why = f"{who} while {what} ends, which PyTorch 2.14 avoids"
        share = self._shares.get(kind)
        by = "as after the last one" if share is not None else "as seen in other servers"
        if share is None and serves and "stacks" in kind:
            share = _SERVERS_STACKS
        if share is None:
            return f"{why}: for how long is known after the first" if request.max_pause_ns else why
        expected_ns = share * request.duration_ns
        too_long = f"PauseTooLong: {why}: for about {_words(expected_ns)}, {by}"
        if request.max_pause_ns and expected_ns > request.max_pause_ns:
            raise Refused(
                "VersionMismatch",
                f"{too_long}; maxPause is {_words(request.max_pause_ns)}. Ask for a shorter window "
                "or for less, or for a longer maxPause",
            )
        if expected_ns > _LONGEST_NS and not request.may_stall:
            raise Refused(
                "VersionMismatch",
                f"{too_long}. Ask for a shorter window or for less, or allow it: "
                'strobe.dev/allow-stalls: "true" on the pod (--allow-stalls of the sidecar)',
            )
        return f"{why}: for about {_words(expected_ns)}, {by}"


def _words(time_ns: float) -> str:
    if time_ns >= 10 * 10**9:
        return f"{time_ns / 1e9:.0f} s"
    return f"{time_ns / 1e9:.1f} s" if time_ns >= 10**9 else f"{time_ns / 1e6:.0f} ms"
