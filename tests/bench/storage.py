"""Compares uploads and listings with rclone, in turns, on the same versitygw."""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import time

from tests.bench import bars
from tests.support.ports import free_port
from tests.support.processes import BIN, Group, high_water, wait_until
from tests.support.stores import Versity, strobe_env

GIB = 1 << 30
SIZE = 2 * GIB
ROUNDS = 3
OBJECTS = 100_000


def measured(command, env):
    """Runs a command. Returns its seconds and its peak RSS in MiB."""
    began = time.monotonic()
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:  # Not wait4's ru_maxrss, which includes the memory of this process at the time of the fork.
        peak = max(peak, high_water(process.pid))
        time.sleep(0.005)
    took = time.monotonic() - began
    if process.returncode != 0:
        raise RuntimeError(f"{command}: {process.stderr.read()[-2000:]}")
    return took, peak


def rclone_env(server):
    """The environment in which rclone uses the same server and keys. Without TLS, because Debian's rclone cannot use a private CA."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "RCLONE_"))}
    return {**clean, "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_GW_TYPE": "s3", "RCLONE_CONFIG_GW_PROVIDER": "Other",
            "RCLONE_CONFIG_GW_ENDPOINT": server.endpoint, "RCLONE_CONFIG_GW_ACCESS_KEY_ID": server.key,
            "RCLONE_CONFIG_GW_SECRET_ACCESS_KEY": server.secret, "RCLONE_CONFIG_GW_REGION": "us-east-1"}


def big_file(path):
    path.parent.mkdir(parents=True)
    piece = os.urandom(64 << 20)
    with open(path, "wb") as out:
        for i in range(SIZE // len(piece)):
            out.write(i.to_bytes(8, "big") + piece[8:])


def resumed_upload(group, server, directory, trace, number):
    """Starts a sidecar that finds a finished trace in its spool, as after a restart, so that only the upload
    is measured. Returns the seconds until the capture has ended, and the sidecar's peak RSS."""
    spool = directory / f"spool-{number}"
    spool.mkdir()
    os.link(trace, spool / "c.xplane.pb")
    digest = hashlib.sha256()
    with open(trace, "rb") as source:
        while piece := source.read(8 << 20):
            digest.update(piece)
    deadline = time.time_ns() + 600_000_000_000
    (spool / "c.report.json").write_text(json.dumps({
        "captureId": "c", "state": "UPLOADING", "outcome": "OK", "bytes": str(SIZE), "sha256": digest.hexdigest(),
        "plan": {"captureId": "c", "logdir": f"s3://{server.bucket}/side", "run": f"r{number}", "worker": "w0", "deadlineNs": str(deadline)}}))
    port = free_port()
    began = time.monotonic()
    sidecar = group.start(f"sidecar-{number}", [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{port}", "--framework", "localhost:1",
                                                "--insecure-plaintext", "--spool-dir", spool], env=strobe_env(server))
    wait_until(lambda: "capture ended" in sidecar.output(), 300, "the upload")
    took = time.monotonic() - began
    assert "outcome=Ok" in sidecar.output(), sidecar.output()[-2000:]
    peak = high_water(sidecar.pid)
    sidecar.kill()
    return took, peak


def throughput(directory):
    with Group(directory / "logs") as group:
        server = Versity(group, directory, tls=False).start()
        trace = directory / "src/plugins/profile/big/w0.xplane.pb"
        big_file(trace)
        # By default rclone waits before each part one second for a "100 Continue" that this server never sends.
        # Without that wait the comparison is fair.
        rclone = ["rclone", "copy", "--expect-continue-timeout", "0"]
        rows = {"strobe-sidecar, from its spool": [], "strobe cp": [], " ".join(rclone): []}
        data = server.dir / "data" / server.bucket
        for number in range(ROUNDS):
            rows["strobe cp"].append(measured([BIN / "strobe", "cp", directory / "src", f"s3://{server.bucket}/ours", "--all", "--quiet"], strobe_env(server)))
            shutil.rmtree(data / "ours")
            rows[" ".join(rclone)].append(measured([*rclone, directory / "src", f"gw:{server.bucket}/peer"], rclone_env(server)))
            shutil.rmtree(data / "peer")
            rows["strobe-sidecar, from its spool"].append(resumed_upload(group, server, directory, trace, number))
            shutil.rmtree(data / "side")
        peer = statistics.median(seconds for seconds, _ in rows[" ".join(rclone)])
        lines = ["### A trace of 2 GiB to versitygw", "", f"{ROUNDS} times each, in turns, plain HTTP on loopback, server and client on the same two cores.", "",
                 "| | seconds, median | MB/s | ratio to rclone (bar >= 1.0) | largest RSS, MiB (bar 96) |", "|---|---|---|---|---|"]
        for name, runs in rows.items():
            seconds = statistics.median(s for s, _ in runs)
            if name.startswith("strobe"):
                bars.at_least(f"{name}: speed to rclone's", peer / seconds, 1)
                bars.at_most(f"{name}: MiB", max(m for _, m in runs), 96)
            lines.append(f"| {name} | {seconds:.2f} | {SIZE / seconds / 1e6:.0f} | {peer / seconds:.2f} | {max(m for _, m in runs):.0f} |")
    return "\n".join(lines) + "\n"


def listing(directory):
    with Group(directory / "logs") as group:
        server = Versity(group, directory, tls=False).start()
        runs = server.dir / "data" / server.bucket / "logs/plugins/profile"
        for i in range(OBJECTS // 100):
            run = runs / f"run-{i:05}"
            run.mkdir(parents=True)
            for j in range(100):
                (run / f"w{j:03}.xplane.pb").write_bytes(b"x")
        commands = {
            "strobe ls --objects": ([BIN / "strobe", "ls", f"s3://{server.bucket}/logs", "--objects"], strobe_env(server)),
            "rclone lsf -R": (["rclone", "lsf", "-R", "--files-only", "--format", "sp", f"gw:{server.bucket}/logs"], rclone_env(server)),
            "rclone lsf -R --fast-list": (["rclone", "lsf", "-R", "--fast-list", "--files-only", "--format", "sp", f"gw:{server.bucket}/logs"], rclone_env(server)),
        }
        times = {name: [] for name in commands}
        for _ in range(3):
            for name, (command, env) in commands.items():
                times[name].append(measured(command, env))
        listed = subprocess.run([str(c) for c in commands["strobe ls --objects"][0]], env=strobe_env(server), capture_output=True, text=True)
        assert listed.stdout.count("\n") == OBJECTS
        peer = min(statistics.median(s for s, _ in times[n]) for n in times if n.startswith("rclone"))
        lines = [f"### {OBJECTS:,} small objects listed from versitygw", "", "3 times each, in turns.", "",
                 "| | seconds, median | ratio to the faster rclone (bar <= 1.0) |", "|---|---|---|"]
        for name, runs_ in times.items():
            seconds = statistics.median(s for s, _ in runs_)
            if name.startswith("strobe"):
                bars.at_most(f"{name}: time to the faster rclone's", seconds / peer, 1)
            lines.append(f"| {name} | {seconds:.2f} | {seconds / peer:.2f} |")
        # 10,000 runs with a manifest each, as `strobe ls` lists them.
        shutil.rmtree(runs)
        manifest = json.dumps({"format": 1, "result": "Succeeded", "workers": [{"name": f"w{j}", "outcome": "Ok", "bytes": "1000"} for j in range(8)]})
        for i in range(10_000):
            run = runs / f"2026_11_{i % 28 + 1:02}_{i:05}"
            run.mkdir(parents=True)
            (run / "strobe.json").write_text(manifest)
        newest, _ = measured([BIN / "strobe", "ls", f"s3://{server.bucket}/logs"], strobe_env(server))
        everything, rss = measured([BIN / "strobe", "ls", f"s3://{server.bucket}/logs", "--all"], strobe_env(server))
        lines += ["", f"A logdir of 10,000 runs: `strobe ls` (the newest 100) {newest:.2f} s, `strobe ls --all` (10,000 manifests read) {everything:.2f} s, {rss:.0f} MiB."]
    return "\n".join(lines) + "\n"
