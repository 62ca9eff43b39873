"""Measures on a real node how long a user waits for `kubectl strobe view`, and what killed commands leave behind.

The peer is the least that Kubernetes takes: `kubectl run` of the same image until the pod is ready.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.bench import bars
from tests.support.control_plane import Kubectl
from tests.support.installation import SPACE, NodeStore, install, profiled_namespace, start_node, training_job
from tests.support.processes import PYTHON, ROOT, Group, wait_until
from tests.support.viewing import Viewing, grant_viewing, viewers

VIEWS, KILLS = 7, 30


def captured(node, store):
    """A namespace in which jane has captured a job, and may view it."""
    Kubectl(node.kubeconfig).create_namespace(SPACE)
    install(node, store)
    team = profiled_namespace(node, store, "ml")
    grant_viewing(team, "jane")
    team.apply(training_job(node, "llm"))
    pods = wait_until(lambda: len(found := team.get("pods", "-l", "job-name=llm")["items"]) == 2 and found, 60, "two pods")
    for pod in pods:
        wait_until(lambda: "ready 9012" in team.run("logs", pod["metadata"]["name"], "-c", "train", check=False).stdout, 120, "training")
    return team


def seconds_to_picture(kubectl, *arguments, command="view"):
    begin = time.monotonic()
    viewing = Viewing(kubectl, *arguments, command=command)
    with urllib.request.urlopen(viewing.address() + "api/run", timeout=60) as answer:
        json.load(answer)
    taken = time.monotonic() - begin
    code, err = viewing.end()
    assert code == 0, err
    return taken


def seconds_to_pod(kubectl, image):
    begin = time.monotonic()
    kubectl.run("run", "floor", f"--image={image}", "--image-pull-policy=Never", "--restart=Never", "--command", "--",
                "/opt/strobe/bin/strobe", "view", "/tmp", "--listen=127.0.0.1:6016")
    wait_until(lambda: kubectl.get("pod", "floor")["status"].get("containerStatuses", [{}])[0].get("state", {}).keys() & {"running", "terminated"}, 60, "the pod")
    taken = time.monotonic() - begin
    kubectl.run("delete", "pod", "floor", "--now", "--wait")
    return taken


def left_by_killed_commands(kubectl, request):
    """How many Jobs and pods are left while commands are being killed, and when their viewers' time is over."""
    most = 0
    for _ in range(KILLS // 5):
        viewings = [Viewing(kubectl, request) for _ in range(5)]
        moments = sorted(random.uniform(0, 6) for _ in viewings)
        begin = time.monotonic()
        for viewing, moment in zip(viewings, moments):
            time.sleep(max(0, begin + moment - time.monotonic()))
            viewing.end(signal.SIGKILL)
        most = max(most, len(viewers(kubectl)))
    begin = time.monotonic()
    try:
        wait_until(lambda: not viewers(kubectl), 240, "the viewers' end")
    except TimeoutError:
        pass  # The table says how many there are.
    return most, len(viewers(kubectl)), time.monotonic() - begin


def measure():
    with Group(Path(os.environ["STROBE_NODE_DIR"]) / "logs") as group:
        node = start_node(group)
        store = NodeStore(group, node.root / "store", tls=False).start()
        team = captured(node, store)
        logdir = f"--logdir={store.url}/ml"
        opened = seconds_to_picture(team, "job/llm", "--duration=1s", logdir, "--name=look", "--open", command="capture")
        named = team.run("get", "pods", "-o", "jsonpath={..metadata.annotations.strobe\\.dev/viewer-image}").stdout
        image = re.search(r"\S*strobe-viewer:\S+", named)[0]
        pairs = [(seconds_to_picture(team, "look"), seconds_to_pod(team, image)) for _ in range(VIEWS)]
        left = left_by_killed_commands(team, "look")
        group.kill()
    return {"opened": opened, "views": [a for a, _ in pairs], "pods": [b for _, b in pairs], "left": left}


def run(directory):
    out = directory / "result.json"
    done = subprocess.run([ROOT / "tests/cluster/inside", PYTHON, "-m", "tests.bench.cluster_view", out], cwd=ROOT)
    if not out.exists():
        return f"## A viewer in the cluster\n\nnot measured: the node ended with {done.returncode}\n"
    seen = json.loads(out.read_text())
    view, pod = statistics.median(seen["views"]), statistics.median(seen["pods"])
    most, left, wait = seen["left"]
    bars.at_most("kubectl strobe view to the answer of the run, s, median", view, 10)
    bars.at_most("kubectl strobe capture --open to the answer, s, without the recording", seen["opened"] - 1, 10)
    bars.at_most(f"Jobs and pods that {KILLS} killed commands left", left, 0)
    return "\n".join([
        "## A viewer in the cluster (a real node, two JAX workers, a run in S3)\n",
        "| | seconds | bar |", "|---|---|---|",
        f"| `kubectl strobe view` to the answer of the run, median of {len(seen['views'])} | {view:.1f} ({min(seen['views']):.1f} to {max(seen['views']):.1f}) | 10 |",
        f"| `kubectl run` of the same image until it runs | {pod:.1f} | |",
        f"| ratio | {view / pod:.2f} | |",
        f"| `kubectl strobe capture --duration 1s --open` to the answer, without the second of recording | {seen['opened'] - 1:.1f} | 10 |",
        f"| Jobs and pods after {KILLS} commands killed at random: most, and {wait:.0f} s after the last one | {most}, {left} | 0 |", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure()))
