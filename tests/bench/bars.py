"""The bars of the benchmarks: what they are meant to reach, and what was measured in this run.

A run of the benchmarks fails when a bar is missed by more than half. Machines are shared, so that a smaller miss says little. Where
a bar is known to be missed by more than that, a run fails when it is worse than the known figure by more than half.
"""

from dataclasses import dataclass


@dataclass
class Bar:
    what: str
    measured: float
    bar: float
    least: bool  # The bar is the least value; otherwise the largest.
    known: float | None = None  # An earlier measurement that missed the bar by more than half; docs/explanation/benchmarks.md says so.

    @property
    def reached(self):
        return self.measured >= self.bar if self.least else self.measured <= self.bar

    @property
    def far_missed(self):
        allowed = self.bar if self.known is None else self.known
        return self.measured < allowed / 2 if self.least else self.measured > allowed * 1.5

    def row(self, benchmark):
        verdict = "reached" if self.reached else "missed by more than half" if self.far_missed else "missed"
        if self.known is not None and not self.reached:
            verdict = f"worse than the known {self.known:g} by more than half" if self.far_missed else f"missed; known: {self.known:g}"
        return f"| {benchmark} | {self.what} | {self.measured:.3g} | {'>=' if self.least else '<='} {self.bar:g} | {verdict} |"


_told = []


def at_most(what, measured, bar, known=None):
    _told.append(Bar(what, measured, bar, least=False, known=known))


def at_least(what, measured, bar, known=None):
    _told.append(Bar(what, measured, bar, least=True, known=known))


def take():
    """The bars that were told since the last call."""
    taken = list(_told)
    _told.clear()
    return taken
