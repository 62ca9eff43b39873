"""What a step found: a row of the table."""

from typing import NamedTuple

OK, MISSED, FAILED, NOT_HAD = "ok", "MISSED", "FAILED", "not had"


class Finding(NamedTuple):
    result: str
    text: str


def judge(text, *checks):
    """`checks` are pairs of whether it holds and what does not. One that does not makes the bar missed."""
    broken = [what for holds, what in checks if not holds]
    return Finding(MISSED if broken else OK, "; ".join([*broken, text]))


def percent(value, base):
    return 100 * (value / base - 1)


def table(rows):
    """`rows` are (name, seconds, Finding)."""
    lines = ["| step | result | s | what was seen |", "|---|---|---|---|"]
    for name, seconds, finding in rows:
        lines.append(f"| {name} | {finding.result} | {seconds:.0f} | {' '.join(finding.text.split()).replace('|', '/')} |")
    return "\n".join(lines)
