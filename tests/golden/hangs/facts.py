"""Writes facts.tsv: what Python's own pickle finds in each Flight Recorder's dump of the cases."""

import io
import pickle
import tarfile
from pathlib import Path

HERE = Path(__file__).parent


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def rows():
    for archive in ("cases.tar.gz", "nvrx.tar.gz"):
        with tarfile.open(HERE / archive) as tar:
            for member in sorted(tar.getmembers(), key=lambda m: m.name):
                if not member.isfile() or not (member.name.endswith(".fr") or "_dump_" in member.name):
                    continue
                dump = Plain(io.BytesIO(tar.extractfile(member).read())).load()
                entries = dump.get("entries", [])
                yield (
                    member.name,
                    dump["version"],
                    len(entries),
                    sum(e["collective_seq_id"] for e in entries),
                    sum(e["retired"] or e["state"] == "completed" for e in entries),
                    sum(e["is_p2p"] for e in entries),
                    sum(e["time_created_ns"] % 1_000_000_007 for e in entries),
                    sum(len(e["profiling_name"]) for e in entries),
                    sum(s["last_enqueued_collective"] for s in dump["pg_status"].values()),
                    sum(len(c["ranks"].split(",")) for c in dump["pg_config"].values() if c["name"]),
                )


if __name__ == "__main__":
    (HERE / "facts.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows()))
