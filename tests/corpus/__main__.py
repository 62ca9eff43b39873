"""Reads real traces that others published, and compares every count with Python's json, Perfetto's engine and XProf, and the viewer's tables with own sums.

    python -m tests.corpus                  fetches the samples below into build/corpus and checks them all
    python -m tests.corpus FILE_OR_FOLDER...  checks these instead

Nothing of them is in this repository. A sample whose repository cannot be reached is told and left out. Exits 1 if a file was read wrongly."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.corpus.check import check
from tests.corpus.tables import check_tables
from tests.support.processes import BUILD
from tests.support.protos import generate

# Repositories, the commit whose files were looked at, and the folders that have traces: V100 to B200, MI210 to MI300X, MTIA, TPUs and CPUs, PyTorch 1.8
# to 2.9, JAX, TensorFlow, vLLM, SGLang and Diffusers.
SAMPLES = {
    "https://github.com/facebookresearch/HolisticTraceAnalysis": ("f4d0062c382f42bd8a74838bcdad1916c7d5d2da", "tests/data"),
    "https://github.com/AMD-AGI/TraceLens": ("171dd74721ca1ec45709e5805b68ae1f65e27811", "tests/traces"),
    "https://github.com/pytorch/kineto": ("486c083b84a53c60aec0d2c522c1fc5b99ce5284", "tb_plugin/samples"),
    "https://github.com/openxla/xprof": ("a27d00aa95eb5cc4f4e1a0fd56b4c89261685ec5", "xprof/convert/test_xplanes"),
}
LARGEST = 8 << 20  # Bytes of a compressed file; larger ones take minutes in Python's json.


def fetch(url, commit, folder):
    """The folder of a repository at a commit; None, with a word on stderr, if it cannot be reached."""
    into = BUILD / "corpus" / url.rsplit("/", 1)[1]
    if not (into / ".git").exists():
        subprocess.run(["git", "init", "--quiet", into], check=True)
    for arguments in (["fetch", "--quiet", "--depth", "1", "--filter", f"blob:limit={LARGEST}", url, commit], ["checkout", "--quiet", commit, "--", folder]):
        done = subprocess.run(["git", "-C", into, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{url}: not fetched: {done.stderr.strip()[-200:]}", file=sys.stderr)
            return None
    return into / folder


def traces_in(place):
    """The trace files of a folder; JSON that holds no trace is left out by what it begins with."""
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST and
                  path.name.endswith((".json", ".json.gz", ".xplane.pb")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", type=Path, help="trace files, or folders of them; none = the published samples")
    places = parser.parse_args().places or [place for url, (commit, folder) in SAMPLES.items() if (place := fetch(url, commit, folder))]
    generate(BUILD / "corpus" / "protos")
    wrong = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in (path for place in places for path in traces_in(place)):
            found = check(path, Path(folder))
            if found is None:
                continue
            if not path.name.endswith(".xplane.pb"):
                problems, names = check_tables(path)
                found.problems += problems
                found.figures += f", {names} names in tables"
            checked += 1
            wrong += bool(found.problems)
            print(f"{path}: {found.figures}" + "".join(f"\n    WRONG: {problem}" for problem in found.problems), flush=True)
    print(f"{checked} traces, {wrong} of them read wrongly")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
