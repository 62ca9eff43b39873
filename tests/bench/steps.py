"""Counts how often eight ranks of different pace record the same training steps."""

import statistics

from tests.bench import bars
from tests.support.oracle import read_notes
from tests.support.processes import Group
from tests.support.step_rig import Job, recorded_steps
from tests.bench.protos import load

PACES = (80, 100, 120, 150, 180, 220, 260, 300)
STEPS = 5


def is_exact(job, rank, run, first):
    """Whether the trace has these steps, as the program noted them."""
    noted = {note.step: note for note in read_notes(rank.notes)}
    found = recorded_steps(job.trace(rank, run), "main")
    return all(number in found and noted[number].wall_begin - 50_000 <= found[number][0] and found[number][1] <= noted[number].wall_end + 50_000
               for number in range(first, first + STEPS))


def run(directory):
    load()
    rows = []
    # Ranks that never wait drift apart, so that each capture waits longer for the slowest.
    for name, waits, rounds in (("wait for one another every 10 steps", True, 100), ("never wait", False, 10)):
        same, refused, ahead, spreads = 0, [], [], []
        (directory / name[:4]).mkdir()
        with Group(directory / name[:4] / "logs") as group:
            job = Job(group, directory / name[:4])
            if waits:
                job.ranks_with_barriers(PACES, 10, "jitter=30")
            else:
                for pace in (90, 92, 94, 96, 98, 100, 102, 104):
                    job.rank(pace, "jitter=30")
            job.wait_for_step(5)
            for i in range(rounds):
                at = job.step()
                manifest = job.capture("--steps", STEPS, run=f"r{i}")
                if "steps" not in manifest or manifest["result"] != "Succeeded":
                    refused.append(manifest["message"])
                    continue
                first = int(manifest["steps"]["first"])
                spreads.append(int(manifest["steps"]["spreadNs"]) / 1e6)
                ahead.append(first - at)
                if int(manifest["steps"]["last"]) == first + STEPS - 1 and all(is_exact(job, rank, f"r{i}", first) for rank in job.ranks):
                    same += 1
        bars.at_least(f"the same steps, of all captures, ranks that {name}", same / rounds, 1)
        bars.at_most(f"other steps without a word of it, ranks that {name}", rounds - same - len(refused), 0)
        rows.append(f"| {name} | {same} of {rounds} | {len(refused)} | {statistics.median(ahead):.0f} | {statistics.median(spreads):.1f} ms |")
        rows += [f"\n{message}\n" for message in refused[:3]]
    return "\n".join([f"### The same {STEPS} steps on eight ranks\n",
                      "| ranks | the same steps, by the programs' own notes | failed, with the reason | steps ahead, median | ranks began it within, median |",
                      "|---|---|---|---|---|", *rows, ""])
