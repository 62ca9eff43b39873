"""`kubectl strobe`: the plugin for kubectl, on a real API server with the real operator and sidecars."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.operator import condition, wait_finished
from tests.support.processes import BIN, TOOLS, wait_until
from tests.support.secure import allow, make_pod

PATH = {"PATH": f"{BIN}:{TOOLS}:{os.environ['PATH']}", "HOME": "/nonexistent"}
QUICK = ("--duration=200ms", "--attempts=1", "--ready-timeout=0s")


class Plugin:
    """Runs `kubectl strobe` as a user does: kubectl finds the plugin in $PATH."""

    def __init__(self, kubectl, cache, user=None):
        self.connection = [f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={kubectl.namespace}", f"--cache-dir={cache}"]
        if user:
            self.connection.append(f"--as={user}")

    def start(self, command, *arguments):
        return subprocess.Popen([TOOLS / "kubectl", "strobe", command, *map(str, arguments), *self.connection], env=PATH, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, command, *arguments, code=0):
        process = self.start(command, *arguments)
        out, err = process.communicate(timeout=90)
        assert process.returncode == code, (process.returncode, out, err)
        return out, err


@pytest.fixture
def plugin(kubectl, tmp_path):
    return Plugin(kubectl, tmp_path / "cache")


def job(kubectl, pods):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "trainer"}]}}
    kubectl.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llm"},
                   "spec": {"parallelism": pods, "completions": pods, "template": template}})


def train(kubectl, workers, pods=None):
    """A Job llm whose pods are the workers."""
    job(kubectl, pods or len(workers))
    for worker in workers:
        worker.register(kubectl, {"batch.kubernetes.io/job-name": "llm"})


def requests(kubectl):
    return [item["metadata"]["name"] for item in kubectl.get("profreq")["items"]]


def findings(out):
    answer = json.loads(out)
    return answer["passed"], [(f["level"], f["subject"], f["message"], f["remedy"]) for f in answer["findings"]]


def test_a_capture_from_its_beginning_to_its_deletion(kubectl, operator, make_workers, plugin, logdir, tmp_path):
    train(kubectl, make_workers(2))
    out, err = plugin.run("capture", "job/llm", *QUICK, f"--logdir={logdir}")
    assert "AllWorkersOk: 2 of 2 workers Ok" in out
    assert "synchronized: yes" in out and re.search(r"skew: \S+ \+-", out)
    (run,) = logdir.glob("plugins/profile/*")
    assert f"open it: strobe view file://{run}" in out and f"see it: https://viewer.test/?run={run.name}" in out
    assert "Recording: attempt 1 of 1; 2/2 workers armed" in err or "2/2 workers armed" in err, err
    (name,) = requests(kubectl)
    assert name.startswith("llm-") and f"profilerequests.strobe.dev/{name} created" in err

    heading, row = plugin.run("ls")[0].splitlines()
    assert heading.split() == ["NAME", "RESULT", "WORKERS", "SKEW", "SIZE", "AGE", "RUN"]
    assert row.split()[:3] == [name, "AllWorkersOk", "2/2"] and row.endswith(str(run))
    assert json.loads(plugin.run("ls", "-o", "json")[0])["items"][0]["metadata"]["name"] == name
    assert kubectl.namespace in plugin.run("ls", "-A")[0]
    assert "AllWorkersOk" in plugin.run("get", name)[0]
    assert plugin.run("get", name, "-o", "name")[0].strip() == f"profilerequest.strobe.dev/{name}"

    events = wait_until(lambda: (found := plugin.run("logs", name)[0]).count("Capture") >= 2 and found, 15, "the events")
    assert "CaptureArmed" in events and "CaptureSucceeded" in events
    plugin.run("cp", name, tmp_path / "copy", "--quiet")
    assert (tmp_path / "copy/plugins/profile" / run.name / "strobe.json").exists()

    out, err = plugin.run("rm", name)
    assert "deleted" in out and f"its run is kept: file://{run}; delete it with: strobe rm" in err
    assert requests(kubectl) == [] and run.exists()
    for command in (("get", name), ("rm", name), ("cancel", name), ("logs", name), ("cp", name, tmp_path / "none")):
        assert "NotFound" in plugin.run(*command, code=1)[1], command


def test_the_exit_code_counts_workers_and_each_cause_has_its_remedy(kubectl, operator, make_workers, plugin, logdir):
    workers = make_workers(2)
    train(kubectl, workers, pods=3)
    out, _ = plugin.run("capture", "job/llm", *QUICK, f"--logdir={logdir}", code=1)
    assert "1 of 3" not in out and "  (rank 2): WorkerMissing: the Job should have 3 workers; 2 of them have a pod" in out
    assert "WorkerMissing (1 worker): " in out, "the remedy of the table of outcomes"
    assert list(logdir.glob("plugins/profile/*/*.xplane.pb")) == []
    out, _ = plugin.run("capture", "job/llm", *QUICK, "--min-workers=2", f"--logdir={logdir}", "--name=enough", "--quiet")
    assert "EnoughWorkersOk" in out and "2 of 3 workers Ok" in out
    assert kubectl.get("profreq", "enough")["spec"]["minWorkers"] == 2
    # A rank of the job, and nothing else.
    out, _ = plugin.run("capture", "jobs.batch/llm", *QUICK, "--ranks=1", f"--logdir={logdir}", "--name=one")
    request = kubectl.get("profreq", "one")
    assert request["spec"]["target"]["workers"] == {"policy": "Sample", "ranks": [1]}
    assert request["status"]["workers"]["summary"] == "1/1"


def test_ctrl_c_cancels_the_capture(kubectl, operator, make_workers, plugin, logdir):
    train(kubectl, make_workers(1))
    process = plugin.start("capture", "job/llm", "--delay=10m", f"--logdir={logdir}", "--name=slow")
    wait_until(lambda: condition(kubectl.get("profreq", "slow"), "Started")["status"] == "True" if requests(kubectl) else False, 30, "it is armed")
    told = wait_until(lambda: kubectl.get("profreq", "slow")["status"].get("progress"), 15, "what the worker does")
    assert told == [{"state": "Armed", "workers": 1, "pods": ["worker-0"]}]
    assert "  Armed (1): worker-0\n" in plugin.run("get", "slow", code=1)[0]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, (out, err)
    assert "workers armed, starts in" in err and "; Armed (1): worker-0\n" in err
    assert "progress" not in kubectl.get("profreq", "slow")["status"]
    assert "cancelling slow" in err and "Cancelled: spec.cancel was set" in out
    assert kubectl.get("profreq", "slow")["spec"]["cancel"] is True

    process = plugin.start("capture", "job/llm", "--delay=10m", f"--logdir={logdir}", "--name=other")
    wait_until(lambda: "other" in requests(kubectl), 30, "it is created")
    assert "profilerequests.strobe.dev/other cancelled" in plugin.run("cancel", "other")[0]
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "Cancelled" in out, (out, err)


def test_ctrl_c_cancels_a_request_whose_creation_is_not_answered_yet(kubectl, operator, plugin, logdir, tmp_path):
    """Ctrl-C reaches kubectl too, which then says nothing of what it has created."""
    slow = tmp_path / "kubectl"
    slow.write_text(f'#!/bin/sh\nout=$({TOOLS}/kubectl "$@")\ncase "$*" in *create*) echo "$out" >{tmp_path}/created; sleep 60;; esac\necho "$out"\n')
    slow.chmod(0o755)
    process = subprocess.Popen([BIN / "kubectl-strobe", "capture", "job/llm", "--delay=10m", f"--logdir={logdir}", *plugin.connection], text=True,
                               env={**PATH, "PATH": f"{tmp_path}:{PATH['PATH']}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: (tmp_path / "created").exists(), 30, "it is created")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    (name,) = requests(kubectl)
    assert process.returncode == 1 and f"interrupted; the request {name} is cancelled" in err, (out, err)
    assert kubectl.get("profreq", name)["spec"]["cancel"] is True


def test_a_request_is_followed_in_the_namespace_that_its_file_names(kubectl, operator, make_workers, plugin, logdir, tmp_path):
    """It was watched in the context's namespace, where it is not: "the request was deleted"."""
    train(kubectl, make_workers(1))
    plugin.connection.remove(f"--namespace={kubectl.namespace}")
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": "filed", "namespace": kubectl.namespace},
                                "spec": {"target": {"jobRef": {"kind": "Job", "name": "llm"}}, "logdir": str(logdir)}}))
    out, _ = plugin.run("check", "--from", file)
    assert "ok       worker worker-0: sidecar " in out and requests(kubectl) == []
    out, err = plugin.run("capture", "--from", file, *QUICK)
    assert "AllWorkersOk" in out and requests(kubectl) == ["filed"], (out, err)


def test_ctrl_c_cancels_no_request_that_was_there_before(kubectl, operator, make_workers, plugin, logdir, tmp_path):
    train(kubectl, make_workers(1))
    plugin.run("capture", "job/llm", "--delay=10m", f"--logdir={logdir}", "--name=nightly", "--no-wait")
    refused = tmp_path / "kubectl"
    refused.write_text(f'#!/bin/sh\ntrap "" INT\ncase "$*" in *create*) touch {tmp_path}/asked; sleep 2;; esac\nexec {TOOLS}/kubectl "$@"\n')
    refused.chmod(0o755)
    process = subprocess.Popen([BIN / "kubectl-strobe", "capture", "job/llm", f"--logdir={logdir}", "--name=nightly", *plugin.connection], text=True,
                               env={**PATH, "PATH": f"{tmp_path}:{PATH['PATH']}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: (tmp_path / "asked").exists(), 30, "it is being created")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "already exists" in err, err
    assert kubectl.get("profreq", "nightly")["spec"]["cancel"] is False
    plugin.run("cancel", "nightly")


def test_without_waiting_it_prints_what_kubectl_prints(kubectl, operator, plugin, logdir, tmp_path):
    out, _ = plugin.run("capture", "job/llm", f"--logdir={logdir}", "--steps=5", "--at-step=*100", "--dry-run=server", "-o", "json")
    spec = json.loads(out)["spec"]
    assert spec["target"]["jobRef"] == {"kind": "Job", "name": "llm"} and spec["duration"] == "2s", "the schema's defaults are filled in"
    assert (spec["steps"], spec["start"]["step"]) == (5, {"multipleOf": 100})
    assert "created (server dry run)" in plugin.run("capture", "job/llm", f"--logdir={logdir}", "--dry-run=server")[0]
    assert requests(kubectl) == []
    assert "kind: ProfileRequest" in plugin.run("capture", "pod/a", "po/b", f"--logdir={logdir}", "--dry-run=client", "-o", "yaml")[0]
    assert plugin.run("capture", "job/llm", f"--logdir={logdir}", "--name=later", "-o", "name")[0] == "profilerequest.strobe.dev/later\n"
    assert requests(kubectl) == ["later"]

    file = tmp_path / "request.yaml"
    file.write_text("apiVersion: strobe.dev/v1alpha1\nkind: ProfileRequest\nmetadata: {name: file}\n"
                    "spec: {target: {selector: {matchLabels: {app: x}}, container: c}, duration: 5s, logdir: /logs}\n")
    spec = json.loads(plugin.run("capture", "sts/web", "--from", file, "--duration=7s", "--dry-run=server", "-o", "json")[0])["spec"]
    assert (spec["duration"], spec["logdir"]) == ("7s", "/logs")
    assert {k: v for k, v in spec["target"].items() if k != "workers"} == {"container": "c", "jobRef": {"kind": "StatefulSet", "name": "web"}}

    for text in ("deploy/vllm", "deployments.apps/vllm"):
        spec = json.loads(plugin.run("capture", text, f"--logdir={logdir}", "--dry-run=server", "-o", "json")[0])["spec"]
        assert (spec["target"]["jobRef"]["kind"], spec["target"]["jobRef"]["name"]) == ("Deployment", "vllm")

    for arguments, code, words in [
        (("job/llm", f"--logdir={logdir}", "--duration=1h"), 2, "duration must be between 1ms and 10m"),
        (("job/llm",), 2, "logdir must be given"),
        (("llm", f"--logdir={logdir}"), 2, "write KIND/NAME, such as job/llm"),
        (("daemon/llm", f"--logdir={logdir}"), 2, "the kind daemon is not known"),
        (("--logdir=/logs",), 2, "name the workers"),
        (("job/llm", f"--logdir={logdir}", "--ranks=a"), 2, "--ranks"),
    ]:
        assert words in plugin.run("capture", *arguments, code=code)[1], arguments
    assert requests(kubectl) == ["later"]


def test_check_tells_that_a_capture_would_work_and_leaves_nothing(kubectl, operator, make_workers, plugin, logdir):
    train(kubectl, make_workers(2))
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}", "--output=json")
    passed, found = findings(out)
    assert passed and {level for level, *_ in found} == {"ok"}, found
    workers = [message for _, subject, message, _ in found if subject.startswith("worker ")]
    assert len(workers) == 2 and all(re.search(r"sidecar \d.*; Framework at localhost:\d+; clock \S+ \+-", message) for message in workers), workers
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}")
    assert "ok       worker worker-0: sidecar " in out
    assert requests(kubectl) == [] and not list(Path(logdir).rglob("*.*")), "nothing is left behind"


def test_check_names_what_keeps_a_worker_from_recording(kubectl, operator, make_workers, plugin, logdir, tmp_path):
    workers = make_workers(3)
    train(kubectl, workers, pods=5)
    plain = workers[0].pod({"batch.kubernetes.io/job-name": "llm", "batch.kubernetes.io/job-completion-index": "3"})
    plain["metadata"]["name"] = "plain"
    del plain["spec"]["initContainers"]
    kubectl.apply(plain)
    workers[1].sidecar.kill()
    # A file where the logdir should be.
    (tmp_path / "file").write_text("")
    out, _ = plugin.run("check", "job/llm", f"--logdir={tmp_path / 'file'}", "--output=json", code=1)
    passed, found = findings(out)
    causes = {subject: (level, message.split(":")[0], remedy) for level, subject, message, remedy in found if subject.startswith("worker ")}
    assert not passed
    assert causes["worker plain"][:2] == ("failed", "SidecarMissing") and "strobe.dev/inject=true" in causes["worker plain"][2]
    assert causes["worker worker-1"][:2] == ("failed", "Unreachable")
    assert causes["worker (rank 4)"][:2] == ("failed", "WorkerMissing")
    for name in ("worker-0", "worker-2"):
        assert causes[f"worker {name}"][1] in ("UploadFailed", "UploadDenied"), causes
    assert all(remedy for _, _, remedy in causes.values())
    assert requests(kubectl) == []
    # Enough of them is enough.
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}", "--min-workers=2", "--output=json")
    assert ("warning", "SidecarMissing") in [(level, message.split(":")[0]) for level, _, message, _ in findings(out)[1]]
    out, _ = plugin.run("check", "job/none", f"--logdir={logdir}", code=1)
    assert "failed   target: " in out


def test_a_request_that_only_preflights_is_for_programs_too(kubectl, operator, make_workers, logdir):
    train(kubectl, make_workers(1))
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": "ask"},
                   "spec": {"target": {"jobRef": {"kind": "Job", "name": "llm"}}, "logdir": str(logdir), "preflightOnly": True}})
    request = wait_finished(kubectl, "ask")
    assert condition(request, "Succeeded")["reason"] == "AllWorkersOk"
    assert condition(request, "Synchronized")["reason"] == condition(request, "Started")["reason"] == "PreflightOnly"
    (told,) = request["status"]["preflight"]
    assert (told["pod"], told["cause"]) == ("worker-0", "Ok") and told["sources"] and told["clock"]["error"]
    assert "run" not in request["status"] and not list(Path(logdir).rglob("*.*"))
    changed = kubectl.run("patch", "profreq", "ask", "--type=merge", "-p", '{"spec":{"preflightOnly":false}}', check=False)
    assert "preflightOnly is immutable" in changed.stderr


def test_a_policy_is_told_as_the_reason(kubectl, secure, plugin, logdir):
    secure()
    job(kubectl, 1)
    make_pod(kubectl, "llm-0", 1, {"batch.kubernetes.io/job-name": "llm"})
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}", code=1)
    assert "no ProfilePolicy matches namespace" in out and "administrator" in out, out
    allow(kubectl, logdir, maxDuration="1s")
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}", "--duration=5s", code=1)
    assert "maxDuration" in out and "failed   worker" not in out
    assert "maxDuration" in "".join(plugin.run("capture", "job/llm", f"--logdir={logdir}", "--duration=5s", code=1))
    # What is allowed comes as far as the worker, which nobody answers for.
    out, _ = plugin.run("check", "job/llm", f"--logdir={logdir}", "--duration=1s", code=1)
    assert "ok       policy: " in out and "failed   worker llm-0: Unreachable" in out


def test_a_stranger_is_refused_and_learns_no_name(kubectl, operator, plugin, logdir, tmp_path):
    job(kubectl, 1)
    make_pod(kubectl, "secret-pod", 1, {"batch.kubernetes.io/job-name": "llm"})
    plugin.run("capture", "job/llm", f"--logdir={logdir}", "--name=secret-request", "-o", "name")
    stranger = Plugin(kubectl, tmp_path / "cache", user="stranger")
    for command in (("capture", "job/llm", f"--logdir={logdir}"), ("ls",), ("get", "x"), ("cancel", "x"), ("rm", "x"), ("logs", "x"), ("cp", "x", tmp_path)):
        out, err = stranger.run(*command, code=1)
        assert "PermissionDenied" in err and "(Forbidden)" in err and out == "", (command, out, err)
        assert "secret" not in err
    out, _ = stranger.run("check", "job/llm", f"--logdir={logdir}", code=1)
    assert "failed   access: you may not create profilerequests" in out and "you may not profile pods" in out
    assert "rolebinding" in out and "secret" not in out
    assert requests(kubectl) == ["secret-request"]


def test_without_strobe_check_says_that_it_is_not_installed(kubectl, plugin, logdir, monkeypatch, tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    # The API server of this suite has the CRDs. A kubectl that knows none stands for one without.
    (fake / "kubectl").write_text("#!/bin/sh\nexit 0\n")
    (fake / "kubectl").chmod(0o755)
    done = subprocess.run([BIN / "kubectl-strobe", "check", "job/llm"], env={**PATH, "PATH": f"{fake}:{PATH['PATH']}"}, text=True, capture_output=True)
    assert done.returncode == 1 and "does not know profilerequests.strobe.dev" in done.stdout, done
    alone = subprocess.run([BIN / "strobe", "kube", "ls"], env={**PATH, "PATH": "/nonexistent"}, text=True, capture_output=True)
    assert alone.returncode == 1 and "kubectl is not in $PATH" in alone.stderr


def test_kubectl_completes(kubectl, plugin):
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": "mine"},
                   "spec": {"target": {"pods": ["a"]}, "logdir": "/logs"}})
    job(kubectl, 1)
    space = [f"--kubeconfig={kubectl.kubeconfig}", "-n", kubectl.namespace]

    def complete(*words):
        done = subprocess.run([TOOLS / "kubectl", "__complete", "strobe", *words], env=PATH, text=True, capture_output=True, check=True)
        *found, directive = done.stdout.splitlines()
        return sorted(found), directive

    assert complete("ca") == (["cancel", "capture"], ":4")
    assert complete("capture", *space, "j") == (["jaxjob/", "job/", "jobset/"], ":6")
    assert complete("capture", *space, "job/") == (["job/llm"], ":4")
    assert complete("get", *space, "") == (["mine"], ":4")
    assert complete("capture", "--dur") == (["--duration"], ":4")
    assert kubectl.namespace in complete("ls", f"--kubeconfig={kubectl.kubeconfig}", "-n", kubectl.namespace)[0]
    # These commands without kubectl's help.
    done = subprocess.run([BIN / "strobe", "kube", "ls", *space], env=PATH, text=True, capture_output=True)
    assert done.returncode == 0 and "mine" in done.stdout
