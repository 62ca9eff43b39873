"""The strobe command: captures without Kubernetes, help texts and completion."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from tests.support.ports import free_port
from tests.support.processes import BIN, ROOT, wait_until
from tests.support.step_rig import TRY_AGAIN


def capture(*arguments, timeout=60):
    return subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout)


def test_sidecars_and_stock_servers_in_one_capture(make_workers, trainers, logdir):
    worker, = make_workers(1)
    stock = f"grpc://localhost:{trainers[1].profiler_port}"
    result = capture("--workers", f"{worker.address},{stock}", "--logdir", logdir, "--duration", "300ms", "--delay", "500ms", *TRY_AGAIN)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(" Ok ") == 2 and "skew:" in result.stdout and "open it: strobe view " in result.stdout and "or xprof --logdir" in result.stdout
    # A run's name begins with its time, so the greatest path belongs to the last attempt.
    report_file = max(logdir.rglob("report.json"))
    assert len(list(report_file.parent.glob("*.xplane.pb"))) == 2
    report = json.loads(report_file.read_text())
    assert f"report: {report['headline']}\n" in result.stdout and len(report["workers"]) == 2
    assert "armed" in result.stderr, "progress for people"


def test_json_is_the_manifest(trainers, logdir):
    result = capture("--workers", f"localhost:{trainers[0].profiler_port}", "--logdir", logdir, "--duration", "200ms", "--output", "json", "--quiet")
    assert result.returncode == 0 and result.stderr == ""
    printed = json.loads(result.stdout)
    assert printed["workers"][0]["coversWindow"]
    assert printed == json.loads(next(logdir.rglob("strobe.json")).read_text())


def test_the_delay_is_honoured(trainers, logdir):
    began = time.time_ns()
    result = capture("--workers", f"localhost:{trainers[0].profiler_port}", "--logdir", logdir, "--duration", "100ms", "--delay", "2s",
                     "--output", "json", "--quiet")
    assert int(json.loads(result.stdout)["instantNs"]) - began > 2_000_000_000


def test_the_exit_code_says_the_truth(trainers, logdir):
    dead = f"127.0.0.1:{free_port()}"
    alive = f"localhost:{trainers[0].profiler_port}"
    result = capture("--workers", f"{alive},{dead}", "--logdir", logdir, "--duration", "100ms", "--attempts", "2")
    assert result.returncode == 1, "one good host is not success"
    assert result.stderr.rstrip().splitlines()[-1].startswith("Unavailable: ")
    assert "attempt 1:" in result.stderr and "again in" in result.stderr
    result = capture("--workers", f"{alive},{dead}", "--logdir", logdir, "--duration", "100ms", "--min-workers", "50%")
    assert result.returncode == 0


def test_a_logdir_that_accepts_no_trace_is_refused_before_the_recording_and_once(trainers, tmp_path):
    (tmp_path / "file").touch()
    result = capture("--workers", f"localhost:{trainers[0].profiler_port}", "--logdir", tmp_path / "file/logs", "--duration", "20s", timeout=15)
    assert result.returncode == 1 and "again in" not in result.stderr, result.stderr
    assert result.stderr.rstrip().splitlines()[-1].startswith("Unavailable: ") and "Not a directory" in result.stderr, result.stderr


def test_servers_save_for_themselves_when_asked(trainers, logdir):
    address = f"localhost:{trainers[0].profiler_port}"
    result = capture("--workers", f"grpc://{address}", "--logdir", logdir, "--duration", "200ms", "--run", "r", "--server-saves")
    assert result.returncode == 0, result.stderr
    assert (logdir / "plugins/profile/r" / f"{address.replace(':', '_')}.xplane.pb").stat().st_size > 0
    result = capture("--workers", f"127.0.0.1:{free_port()}", "--logdir", logdir, "--duration", "200ms", "--server-saves", "--attempts", "1")
    assert result.returncode == 1 and "Unavailable: no trace event was collected" in result.stderr


def test_servers_that_save_are_told_as_json_and_interrupted(trainers, logdir):
    """--output json printed text, Ctrl-C killed the command, and flags that such servers do not know were dropped."""
    address = f"localhost:{trainers[0].profiler_port}"
    process = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", address, "--logdir", logdir, "--server-saves",
                                "--duration", "5m", "--run", "r", "--output", "json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)  # The servers' age is asked first.
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and errors == "", errors
    manifest = json.loads(out)
    assert manifest["result"] == "Succeeded" and [worker["outcome"] for worker in manifest["workers"]] == ["Ok"], manifest
    assert not manifest.get("skewKnown") and next((logdir / "plugins/profile/r").glob("*.xplane.pb")).stat().st_size > 0
    refused = capture("--workers", address, "--logdir", logdir, "--server-saves", "--steps", "3")
    assert refused.returncode == 2 and "--steps cannot be combined with --server-saves" in refused.stderr


def test_a_tpu_master_profiles_the_worker_list(protos, logdir):
    """Cloud TPU's own protocol: one NewSession call to the master, which forwards it to the workers."""
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from tensorflow import profiler_analysis_pb2 as pb

    asked = []

    def new_session(request, _):
        asked.append(request)
        return pb.NewProfileSessionResponse(empty_trace=len(asked) == 1)  # The first answer is an empty trace.

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.ProfileAnalysis", {
        "NewSession": grpc.unary_unary_rpc_method_handler(new_session, pb.NewProfileSessionRequest.FromString,
                                                          pb.NewProfileSessionResponse.SerializeToString)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    result = capture("--workers", f"grpc://127.0.0.1:{port}", "--logdir", "gs://bucket/logs", "--duration", "2s", "--worker-list", "10.0.0.2,10.0.0.3")
    server.stop(None)
    assert result.returncode == 0, result.stderr
    assert len(asked) == 2, "tried again, because nothing was collected"
    assert list(asked[1].hosts) == ["10.0.0.2", "10.0.0.3"]
    assert asked[1].repository_root == "gs://bucket/logs/plugins/profile"
    assert asked[1].request.opts.version == 1 and asked[1].request.opts.duration_ms >= 2000


def test_interrupting_cancels_everywhere(make_workers, logdir):
    worker, = make_workers(1)
    process = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", logdir,
                                "--delay", "60s", "--duration", "1s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1 and "Cancelled" in errors
    assert "outcome=Cancelled" in worker.sidecar.output()


def test_interrupting_a_recording_keeps_it(make_workers, logdir):
    worker, = make_workers(1)
    process = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", logdir,
                                "--duration", "10m", "--output", "json", "--attempts", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if ": record," in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    manifest = json.loads(out)
    assert manifest["workers"][0]["outcome"] == "Ok" and manifest["workers"][0]["coversWindow"], manifest
    assert 0.3e9 < int(manifest["durationNs"]) < 30e9, "the manifest says how long it really was"


def test_programs_read_the_progress_as_events(make_workers, logdir):
    worker, = make_workers(1)
    done = subprocess.run([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", worker.address, "--logdir", logdir,
                           "--duration", "1s", "--progress", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(event["attempt"] == 1 and event["workers"] == 1 for event in events)
    phases = list(dict.fromkeys(event["phase"] for event in events))
    order = ["preflight", "arm", "delay", "record", "collect", "publish"]
    assert phases == [phase for phase in order if phase in phases] and "record" in phases, phases
    assert all(before != after for before, after in zip(events, events[1:])), "only changes are written"


def strobe(*arguments):
    return subprocess.run([BIN / "strobe", *arguments], capture_output=True, text=True)


def test_interrupting_a_copy_leaves_nothing_half_written(tmp_path):
    run = tmp_path / "from/plugins/profile/r"
    run.mkdir(parents=True)
    with open(run / "w0.xplane.pb", "wb") as trace:
        trace.truncate(2 << 30)
    process = subprocess.Popen([BIN / "strobe", "cp", run, tmp_path / "to"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    half = tmp_path / "to/plugins/profile/r/.w0.xplane.pb.partial"
    wait_until(lambda: half.exists() and half.stat().st_size > 0, 60, "the copy")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1 and errors.startswith("Cancelled: "), errors
    assert [path for path in (tmp_path / "to").rglob("*") if path.is_file()] == []


def test_the_outcomes_page_is_made_from_the_table():
    page = (ROOT / "docs/how-to/capture.md").read_text().split("<!-- generated: outcomes -->")[1]
    table = strobe("outcomes", "--markdown").stdout
    outcomes = json.loads(strobe("outcomes", "--output", "json").stdout)
    for rows in (table, page):
        assert [row.split("`")[1] for row in rows.splitlines() if row.startswith("| `")] == [each["name"] for each in outcomes]
    assert all(f"| {each['detected']} |" in table and f"| {each['remedy']} |" in table for each in outcomes)
    one = strobe("outcomes", "LateStart").stdout
    assert one.startswith("LateStart\n") and "start.guard" in one
    assert strobe("outcomes", "latestart").stdout == one
    assert strobe("outcomes", "Nonsense").returncode == 2


@pytest.mark.parametrize("arguments", [("ls",), ("rm", "--all", "--yes"), ("cp", "--all"), ("fleet", "--to", "parquet", "--out")])
def test_a_file_is_no_logdir(arguments, tmp_path):
    """An empty list, or nothing done with exit code 0, would hide the mistake."""
    file = tmp_path / "worker-0.xplane.pb"
    file.write_bytes(b"")
    command, *flags = arguments
    done = strobe(command, file, *flags, *([tmp_path / "to"] if command in ("cp", "fleet") else []))
    assert done.returncode == 1 and f"NotFound: {file} is a file, not a logdir" in done.stderr, done.stderr
    assert file.exists()


@pytest.mark.parametrize("arguments", [("ls",), ("rm", "--all", "--yes"), ("cp", "--all"), ("fleet", "--out")])
def test_a_folder_that_does_not_exist_is_no_empty_logdir(arguments, tmp_path):
    command, *flags = arguments
    done = strobe(command, tmp_path / "wrong", *flags, *([tmp_path / "to"] if command in ("cp", "fleet") else []))
    assert done.returncode == 1 and done.stderr == f"NotFound: there is no directory {tmp_path}/wrong\n", done.stderr


COMMANDS = ["capture", "view", "report", "inspect", "why", "stacks", "ls", "cp", "rm", "convert", "merge", "fleet", "serve", "kube", "outcomes", "completion"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    text = strobe(command, "--help").stdout
    first = text.splitlines()[0]
    assert first[0].isupper() and first.endswith("."), first
    assert "Example" in text and f"  strobe {command}" in text


@pytest.mark.parametrize("command", [("strobe", "capture"), ("kubectl-strobe", "capture"), ("strobe-sidecar",)])
def test_help_has_common_flags_first_and_the_others_below_headings(command):
    program, *arguments = command
    text = subprocess.run([BIN / program, *arguments, "--help"], capture_output=True, text=True).stdout
    groups = {heading: re.findall(r"^  (-[-\w,]+)", flags, re.MULTILINE) for heading, flags in re.findall(r"^([A-Z][^\n]*):\n((?: .*\n|\n(?= ))+)", text, re.MULTILINE)}
    flags = {heading: names for heading, names in groups.items() if names}
    assert next(iter(flags)) == "Options" and "-h,--help" in flags["Options"] and len(flags) >= 5, flags
    assert all(len(names) <= 15 for names in flags.values()), flags


def on_terminal(*command, columns=80, term="xterm"):
    """What the command prints on such a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([BIN / "strobe", *command], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": term}):
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # EIO at the end.
            while more := os.read(ours, 65536):
                text += more
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


def test_progress_is_rewritten_only_where_that_is_possible():
    command = ["capture", "--insecure-plaintext", "--workers", f"localhost:{free_port()}", "--logdir", "/tmp/none", "--attempts", "1"]
    assert "\033[J" in on_terminal(*command) and "\033" not in on_terminal(*command, term="dumb")


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_help_fits_the_terminal(columns):
    for command in [(), *((name,) for name in COMMANDS)]:
        explained = on_terminal(*command, "--help", columns=columns).partition("\nExample")[0]
        wide = [line for line in explained.splitlines() if len(line) > min(columns, 100) and " " in line.strip()]
        assert not [line for line in wide if not line.startswith("Usage: ")], wide


def test_the_list_of_commands_is_complete():
    listed = strobe("--help").stdout.partition("Subcommands:\n")[2].split("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "] == COMMANDS


def test_bash_completes_commands_and_flags():
    script = strobe("completion", "bash").stdout
    probe = script + '\nCOMP_WORDS=(strobe capture --log); COMP_CWORD=2; _strobe; echo "${COMPREPLY[@]}"\n' \
                     'COMP_WORDS=(strobe c); COMP_CWORD=1; _strobe; echo "${COMPREPLY[@]}"\n' \
                     'COMP_WORDS=(strobe kube ca); COMP_CWORD=2; _strobe; echo "${COMPREPLY[@]}"\n' \
                     'COMP_WORDS=(strobe kube capture --sel); COMP_CWORD=3; _strobe; echo "${COMPREPLY[@]}"\n' \
                     'COMP_WORDS=(strobe view ""); COMP_CWORD=2; _strobe; echo "${COMPREPLY[@]}"; complete -p strobe\n'
    assert subprocess.run(["bash", "-c", probe], capture_output=True, text=True).stdout.splitlines() == [
        "--logdir", "capture cp convert completion", "capture cancel", "--selector", "", "complete -o default -F _strobe strobe"], "and then files"
    assert strobe("completion", "tcsh").returncode == 2


def test_output_that_cannot_be_written_is_a_failure():
    for argument in ("outcomes", "--help"):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BIN / "strobe", argument], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (1, "strobe: what is printed cannot be written\n")
    result = subprocess.run(["sh", "-c", 'exec "$0" outcomes >&-', BIN / "strobe"], stderr=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == 1 and "cannot be written" in result.stderr


def test_a_reader_that_has_read_enough_is_no_failure():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as output:
        result = subprocess.run([BIN / "strobe", "outcomes"], stdout=output, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
