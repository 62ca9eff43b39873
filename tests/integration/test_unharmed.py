"""Each version of JAX, with and without TensorFlow, and whoever opened the profiler server: captured, or refused by name, and unharmed.

CI runs the cases in SOME. STROBE_TEST_MATRIX=all runs every combination with every version in build/jax (docs/how-to/trainers.md has the results).
"""

import itertools
import json
import os
import subprocess
import time

import pytest

from tests.integration.test_inproc_xla import JAX, VERSIONS, jax_trainer
from tests.integration.test_unchanged import capture
from tests.integration.test_versions import TENSORFLOW
from tests.support.ports import free_port
from tests.support.processes import BIN, wait_until

# announced: only Strobe's part is there. own: it is, and the program opens a server itself. alone: the program's server is all that there is.
WAYS = ["announced", "own", "alone"]
SOME = [("0.4.38", "none", "own"), ("0.7.2", "stub", "own"), ("0.8.3", "none", "own"), ("0.8.3", "real", "announced"), ("0.8.3", "none", "alone"),
        ("newest", "none", "own")]
ALL = [*itertools.product(sorted({*VERSIONS, *(path.parent.name for path in JAX.glob("*/.installed"))}), TENSORFLOW, WAYS)]
OLD = ("0.4.", "0.5.", "0.6.", "0.7.", "0.8.")
STALL = ("0.4.", "0.5.", "0.6.", "0.7.", "0.8.0", "0.8.1")


def traced(directory, run):
    """The names of the host events of a run's trace."""
    from tensorflow import xplane_pb2

    (path,) = (directory / "logdir/plugins/profile" / run).glob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return {plane.event_metadata[event.metadata_id].name for plane in space.planes for line in plane.lines for event in line.events}


def begin(address, directory, run, duration):
    """A capture that records already."""
    process = subprocess.Popen([BIN / "strobe", "capture", "--insecure-plaintext", "--workers", address, "--logdir", directory / "logdir", "--run", run,
                                "--duration", duration, "--output", "json", "--attempts", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if ": record," in line:
            break
    time.sleep(1)
    return process


def traces_itself(trainer, directory, name):
    place = directory / name
    trainer.order(f"jax.profiler.start_trace({str(place)!r}); time.sleep(0.2); jax.profiler.stop_trace(); print('traced {name}', flush=True)")
    assert f"traced {name}" in trainer.process.output(), trainer.process.output()
    assert list(place.rglob("*.xplane.pb")), "the program's own trace"


@pytest.mark.parametrize("version,tensorflow,way", ALL if os.environ.get("STROBE_TEST_MATRIX") == "all" else SOME)
def test_captured_or_refused_by_name_and_unharmed(group, tmp_path, protos, python_package, version, tensorflow, way):
    cwd, port, control = tmp_path / "cwd", free_port(), free_port()
    cwd.mkdir()
    trainer = jax_trainer(group, tmp_path, python_package if way != "alone" else None, version, TENSORFLOW[tensorflow], wrap=["env", "-C", cwd])
    trainer.agent.mkdir(exist_ok=True)
    if way != "announced":
        trainer.order(f"jax.profiler.start_server({port})")
    if way == "own":
        wait_until(lambda: port in trainer.announced()["listens"], 10, "the program's server to be announced")
    elif way == "announced":
        trainer.announced()
    serve = [BIN / "strobe-sidecar", "--listen", f"127.0.0.1:{control}", "--framework", f"localhost:{port}", "--agent-dir", trainer.agent,
             "--insecure-plaintext"]
    sidecar = group.start("sidecar", serve)
    sidecar.wait_for("strobe-sidecar serves", 20)
    address = f"127.0.0.1:{control}"
    if way != "alone" and version.startswith(STALL):
        worker, stderr = capture(address, tmp_path, run="refused")
        assert worker["outcome"] == "VersionMismatch" and "strobe.dev/allow-stalls" in worker["message"], (worker, stderr)
        sidecar.stop()
        group.start("sidecar that may", [*serve, "--allow-stalls"]).wait_for("strobe-sidecar serves", 20)

    worker, stderr = capture(address, tmp_path, run="first")
    if way == "alone" and version.startswith(OLD):
        assert worker["outcome"] == "VersionMismatch", (worker, stderr)
        assert f"localhost:{port}" in worker["message"] and ("before 2026" in worker["message"] or "--shared-dir" in worker["message"]), worker
    else:
        assert worker["outcome"] == "Ok" and worker["coversWindow"], (worker, stderr)
        assert "train" in traced(tmp_path, "first"), "the host's events are there"
        rows = [row for row in worker["processes"] if row["source"] == "SOURCE_FRAMEWORK"]
        assert rows and all(int(row["stopTookNs"]) > 0 for row in rows), rows
    traces_itself(trainer, tmp_path, "after")
    if way == "alone":
        assert trainer.trains() and list(cwd.iterdir()) == []
        return

    under_way = begin(address, tmp_path, "cut", "6s")
    traces_itself(trainer, tmp_path, "during")
    worker = json.loads(under_way.communicate(timeout=60)[0])["workers"][0]
    assert worker["outcome"] == "Truncated" and "a profiler session of its own" in worker["message"], worker
    traces_itself(trainer, tmp_path, "again")
    worker, stderr = capture(address, tmp_path, run="last")
    assert worker["outcome"] == "Ok", (worker, stderr)
    assert trainer.trains() and list(cwd.iterdir()) == []

    under_way = begin(address, tmp_path, "left", "30s")
    trainer.order("sys.exit(0)", wait=False)
    assert trainer.process.popen.wait(20) == 0, trainer.process.output()
    under_way.terminate()
    under_way.communicate(timeout=60)
