"""strobe fleet: three workers convert the runs of a logdir in an object store; what is left when they are stopped or killed in the middle, and what
another run of the same command makes of it; its Job before a real API server. 25 s."""

import json
import signal
import subprocess

import duckdb
import pytest

from tests.support import gpu_trace
from tests.support.processes import BIN, wait_until
from tests.support.store_gate import StoreGate
from tests.support.stores import Versity, run_strobe, strobe_env

SHARES = 3
GOOD = [f"2026_11_2{day}_bench" for day in range(6)]
WORKERS = ("w0", "w1 0=a%2Fb")  # Characters that would change a path or a partition's name.
RUNS = "logs/plugins/profile"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The traces of two ranks, as XSpaces."""
    folder = tmp_path_factory.mktemp("traces")
    gpu_trace.write(folder)
    made = {}
    for rank, worker in enumerate(WORKERS):
        path = folder / f"{worker}.xplane.pb"
        subprocess.run([BIN / "strobe", "convert", folder / f"rank{rank}.trace.json", "--to", "xplane", "--quiet", "-o", path], check=True)
        made[path.name] = path.read_bytes()
    return made


@pytest.fixture(scope="module")
def server(session_group, tmp_path_factory):
    return Versity(session_group, tmp_path_factory.mktemp("store")).start()


class Fleet:
    """A logdir with runs, a damaged one and an empty one, in a bucket's folder of the test's own."""

    def __init__(self, server, name, traces):
        self.server, self.name, self.gate = server, name, StoreGate(server)
        self.logdir, self.out = (f"s3://{server.bucket}/{name}/{what}" for what in ("logs", "tables"))
        self.traces = traces
        for run in GOOD:
            for file, trace in traces.items():
                self.write(run, file, trace)
        self.write("damaged", "w0.xplane.pb", traces["w0.xplane.pb"][:-5])
        self.write("empty", "report.json", b"{}")

    def write(self, run, file, content):
        self.server.write(f"{self.name}/{RUNS}/{run}/{file}", content)

    def command(self):
        return [BIN / "strobe", "fleet", self.logdir, "--to", "parquet", "--out", self.out, "--of", SHARES]

    def env(self, index):
        # As an Indexed Job tells it.
        return {**strobe_env(self.server), **self.gate.env(), "JOB_COMPLETION_INDEX": str(index)}

    def work(self, index):
        return run_strobe(*self.command(), env=self.env(index))

    def start(self, group, index):
        return group.start(f"{self.name}-{index}", self.command(), env=self.env(index))

    def written(self):
        prefix = f"{self.name}/tables/"
        return {key.removeprefix(prefix): size for key, size in self.server.objects().items() if key.startswith(prefix)}

    def rows(self):
        return {row["run"]: row for row in (json.loads(self.read(key)) for key in self.written() if key.startswith("runs/"))}

    def read(self, key):
        return self.server.read(f"{self.name}/tables/{key}")

    def copy(self, directory):
        """What was written, as files."""
        for key in self.written():
            path = directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.read(key))
        return directory


@pytest.fixture
def fleet(server, traces, request):
    fleet = Fleet(server, request.node.name.replace("[", "-").replace("]", ""), traces)
    yield fleet
    fleet.gate.stop()


def finish(fleet):
    """All shares to their ends. Returns what they wrote to stderr, and their exit codes."""
    done = [fleet.work(index) for index in range(SHARES)]
    return "".join(one.stderr for one in done), sorted(one.returncode for one in done)


def truth(traces, tmp_path):
    """What strobe convert makes of one run."""
    run, out = tmp_path / "one" / GOOD[0], tmp_path / "truth"
    run.mkdir(parents=True)
    for file, trace in traces.items():
        (run / file).write_bytes(trace)
    subprocess.run([BIN / "strobe", "convert", run, "--to", "parquet", "--quiet", "-o", out], check=True)
    return out


def counts(directory, table):
    files = f"read_parquet('{directory}/{table}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
    return dict(duckdb.sql(f"SELECT run, count(*) FROM {files} GROUP BY run").fetchall())


def assert_complete(fleet, tmp_path):
    rows = fleet.rows()
    assert {run: row["state"] for run, row in rows.items()} == {**dict.fromkeys(GOOD, "done"), "damaged": "failed", "empty": "empty"}
    assert "w0: damaged or cut" in rows["damaged"]["problem"]
    out, one = fleet.copy(tmp_path / "copy"), truth(fleet.traces, tmp_path)
    for table in ("events", "stats", "steps", "collectives", "workers"):
        (expected,) = counts(one, table).values()
        assert counts(out, table) == dict.fromkeys(GOOD, expected), table
    for run in GOOD:
        assert rows[run]["workers"] == 2 and rows[run]["events"] > 500 and rows[run]["headline"]
        assert rows[run]["trace_bytes"] == sum(map(len, fleet.traces.values()))
    reports = [json.loads(path.read_text()) for path in (out / "reports").glob("*/report.json")]
    assert sorted(report["run"] for report in reports) == sorted(GOOD)
    assert {report["headline"] for report in reports} == {row["headline"] for row in rows.values() if row["state"] == "done"}
    # The table of runs is read like the others.
    runs = duckdb.sql(f"SELECT state, count(*) FROM read_json('{out}/runs/*/run.json') GROUP BY state").fetchall()
    assert dict(runs) == {"done": len(GOOD), "failed": 1, "empty": 1}


def test_three_workers_convert_all_runs_once(fleet, tmp_path):
    told, codes = finish(fleet)
    assert codes == [0, 0, 3], told
    assert_complete(fleet, tmp_path)
    assert told.count(" workers, ") == len(GOOD)
    before = fleet.written()
    told, codes = finish(fleet)
    assert codes == [0, 0, 3] and told.count("done before") == len(GOOD) + 1 and fleet.written().keys() == before.keys()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_ends_in_the_middle_is_made_up_for(fleet, group, tmp_path, number):
    """It ends while the store takes the second table of its second run."""
    def is_table(method, path):
        return method == "PUT" and "/tables/events/" in path

    owner = next(index for index in range(SHARES) if sum(own(run, index) for run in GOOD) > 1)
    fleet.gate.add(is_table, times=2)  # The first run's two workers.
    fleet.gate.add(is_table)
    fleet.gate.add(is_table, stall=3)
    worker = fleet.start(group, owner)
    wait_until(lambda: fleet.gate.count(is_table) == 4, 60, "the second run's second table")
    worker.signal(number)
    code = worker.popen.wait(60)
    (done,) = (run for run, row in fleet.rows().items() if row["state"] == "done" and own(run, owner))
    tables_of = {key.split("/")[1] for key in fleet.written() if key.startswith("events/")}
    if number == signal.SIGTERM:
        assert code == 1 and "interrupted" in worker.output()
        assert len(tables_of) == 1, "what was there of the second run is gone"
        assert not any(part not in key for key in fleet.written() if key.startswith(("stats/", "reports/", "workers/")) for part in tables_of)
    fleet.gate.clear()
    told, codes = finish(fleet)
    assert codes == [0, 0, 3] and f"{done}: done before" in told
    assert_complete(fleet, tmp_path)


def own(run, index):
    """The share of a run, as docs/how-to/read-a-run.md describes it."""
    value = 0xcbf29ce484222325
    for byte in run.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value % SHARES == index


def test_a_run_that_has_changed_is_done_again(fleet, tmp_path):
    finish(fleet)
    before = fleet.written()
    fleet.server.client.delete_object(Bucket=fleet.server.bucket, Key=f"{fleet.name}/{RUNS}/{GOOD[0]}/{WORKERS[1]}.xplane.pb")
    fleet.write("damaged", "w0.xplane.pb", fleet.traces["w0.xplane.pb"])
    fleet.write(GOOD[1], "w0.xplane.pb", fleet.traces["w0.xplane.pb"][:-5])
    told, codes = finish(fleet)
    assert codes == [0, 0, 3] and told.count("done before") == len(GOOD) - 2 + 1
    rows, after = fleet.rows(), fleet.written()
    assert rows[GOOD[0]]["workers"] == 1 and rows["damaged"]["state"] == "done" and rows[GOOD[1]]["state"] == "failed"
    changed = {key.split("/")[1] for key in before.keys() - after.keys()}
    assert len(changed) == 2, "the tables of the lost worker and of the run that is damaged now are gone"
    out = fleet.copy(tmp_path / "copy")
    assert GOOD[1] not in counts(out, "events") and counts(out, "workers")[GOOD[0]] == 1


def test_files_work_as_well_and_wrong_flags_are_told(traces, tmp_path):
    logs, out = tmp_path / "logs", tmp_path / "tables"
    for run in GOOD[:2]:
        (logs / "plugins/profile" / run).mkdir(parents=True)
        (logs / "plugins/profile" / run / "w0.xplane.pb").write_bytes(traces["w0.xplane.pb"])

    def strobe(*arguments):
        return subprocess.run([BIN / "strobe", "fleet", *map(str, arguments)], capture_output=True, text=True, timeout=60)

    first = strobe(logs, "--to", "parquet", "--out", out, "--no-stats")
    assert first.returncode == 0 and first.stdout.startswith("written: 2 ("), first
    assert len(counts(out, "events")) == 2 and not (out / "stats").exists()
    assert strobe(logs, "--out", out, "--no-stats").stdout.startswith("written: 0 (0 B of traces), done before: 2, ")
    assert strobe(logs, "--out", out).stdout.startswith("written: 2 ("), "with stats there is more to write"
    assert len(counts(out, "stats")) == 2
    for wrong, said in (((logs, "--out", out, "--index", 3, "--of", 3), "there is no share 3 of 3"),
                        ((logs / "plugins/profile" / GOOD[0], "--out", out), "give a logdir"),
                        ((logs, "--out", logs / "plugins/profile/x"), "tables cannot be written into a run"),
                        ((logs, "--out", out, "--image", "i"), "--claim traces:/nfs")):
        done = strobe(*wrong)
        assert done.returncode == 2 and said in done.stderr, done


def test_the_api_server_takes_the_job_under_the_restricted_standard(kubectl):
    kubectl.run("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
    printed = subprocess.run([BIN / "strobe", "fleet", "s3://b/logs?region=eu-west-1", "--to", "parquet", "--out", "/nfs/tables", "--image", "r/strobe:1",
                              "--workers", "64", "--at-once", "16", "--service-account", "traces", "--secret", "keys", "--claim", "shared:/nfs"],
                             capture_output=True, text=True, check=True).stdout
    done = kubectl.run("apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=printed)
    assert not done.stderr, "no warning, of unknown fields or of the Pod Security Standard"
    spec = json.loads(done.stdout)["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (64, 16, "Indexed")
    assert spec["backoffLimitPerIndex"] == 3 and [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailIndex"]
