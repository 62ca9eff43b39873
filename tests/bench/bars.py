"""The bars of the benchmarks: what they are meant to reach, and what was measured in this run.

A run of the benchmarks fails when a bar is missed by more than half. Machines are shared, so that a smaller miss says little.
"""

from dataclasses import dataclass


@dataclass
class Bar:
    what: str
    measured: float
    bar: float
    least: bool  # The bar is the least value; otherwise the largest.

    @property
    def reached(self):
        return self.measured >= self.bar if self.least else self.measured <= self.bar

    @property
    def far_missed(self):
        return self.measured < self.bar / 2 if self.least else self.measured > self.bar * 1.5

    def row(self, benchmark):
        verdict = "reached" if self.reached else "missed by more than half" if self.far_missed else "missed"
        return f"| {benchmark} | {self.what} | {self.measured:.3g} | {'>=' if self.least else '<='} {self.bar:g} | {verdict} |"


_told = []


def at_most(what, measured, bar):
    _told.append(Bar(what, measured, bar, least=False))


def at_least(what, measured, bar):
    _told.append(Bar(what, measured, bar, least=True))


def take():
    """The bars that were told since the last call."""
    taken = list(_told)
    _told.clear()
    return taken
