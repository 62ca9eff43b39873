"""strobe why and strobe stacks, as a user runs them, on jobs that stood still for known reasons."""

import json
import re
import subprocess
import tarfile

import pytest

from tests.support.processes import BIN, ROOT

CASES = ROOT / "tests/golden/hangs"
# A pause of six seconds that is looked at after three: nothing tells it from a hang.
PAUSE = "w4_slow3"
NVRX = {"lock_gil_1st": ("host", [9, 14]), "gpu_error_1st": ("device", [12, 14]), "gpu_error_2nd": ("device", [9, 14])}


def strobe(*arguments):
    return subprocess.run([BIN / "strobe", *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hangs")
    for archive in ("cases.tar.gz", "nvrx.tar.gz"):
        with tarfile.open(CASES / archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


def verdict(*paths):
    done = strobe("why", *paths, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_right_in_every_case(cases):
    judged = 0
    for folder in sorted(cases.iterdir()):
        if folder.name in NVRX:
            kind, ranks = NVRX[folder.name]
        elif folder.name == PAUSE:
            continue
        else:
            answer = json.loads((folder / "answer.json").read_text())
            kind, ranks = answer["class"], answer["ranks"]
        found = verdict(folder)
        assert (found["class"], found["ranks"]) == (kind, ranks), (folder.name, found["text"])
        judged += 1
    assert judged >= 35


def test_the_page_shows_what_it_prints(cases):
    page = (ROOT / "docs/how-to/stalled-jobs.md").read_text()
    shown = re.search(r"\n```\n(rank 2 .*?)```\n", page, re.DOTALL).group(1)
    assert strobe("why", cases / "w4_gil").stdout == shown
    table = set(re.findall(r"`([a-z-]+)`", page.split("| class | the rank |")[1].split("\n\n")[0]))
    assert table == {"host", "device", "mismatch", "other-branch", "silent", "gone", "network", "progressing", "unknown"}


def test_two_folders_are_two_looks(cases, tmp_path):
    for look in ("a", "b"):
        (tmp_path / look).mkdir()
        for rank in range(4):
            for kind in ("fr", "stacks"):
                (tmp_path / look / f"rank_{rank}.{kind}").write_bytes((cases / "w4_sleep" / f"{rank}.{look}.{kind}").read_bytes())
            (tmp_path / "a" / f"{rank}.pg").write_bytes((cases / "w4_sleep" / f"{rank}.pg").read_bytes())
    once, twice = verdict(tmp_path / "a"), verdict(tmp_path / "a", tmp_path / "b")
    assert (once["ranks"], once["confidence"]) == ([2], "probably")
    assert (twice["ranks"], twice["confidence"]) == ([2], "firm")


def test_stacks_come_with_the_odd_ones_first(cases):
    text = strobe("stacks", cases / "w4_gil").stdout
    assert "rank 2 (1 of 4), Python's lock: all\n  /app/job.py:39 in train.<locals>.culprit_gil\n" in text
    sizes = [int(size) for size in re.findall(r"\((\d+) of 4\)", text)]
    assert sizes == sorted(sizes) and sum(sizes) == 4
    groups = json.loads(strobe("stacks", cases / "w4_gil", "--threads", "--output", "json").stdout)
    assert {group["thread"] for group in groups} == {"main", "python"}


def test_errors_name_the_file_and_the_remedy(cases, tmp_path):
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x02cos\nsystem\n")
    done = strobe("why", tmp_path)
    assert done.returncode == 1 and "nccl_trace_rank_0: offset 2, opcode GLOBAL (0x63)" in done.stderr
    (tmp_path / "rank_1.txt").write_bytes((cases / "w4_gil/1.a.stacks").read_bytes())
    done = strobe("why", tmp_path)
    assert done.returncode == 0 and "left out: " in done.stderr and "nobody is named" in done.stdout
    (tmp_path / "notes.txt").write_text("it stood still at noon\n")
    done = strobe("why", tmp_path / "notes.txt")
    assert done.returncode == 2 and "TORCH_NCCL_DEBUG_INFO_TEMP_FILE" in done.stderr
    assert strobe("why").returncode == 2 and strobe("why", tmp_path / "none").returncode == 1
    (tmp_path / "ras.txt").write_bytes((ROOT / "tests/fuzz/corpus/ras/stalled.txt").read_bytes())
    done = strobe("stacks", tmp_path / "ras.txt")
    assert done.returncode == 1 and "py-spy dump" in done.stderr
