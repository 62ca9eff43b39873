"""Every refused input gets one clear sentence that names the field and what to do."""

import subprocess

import pytest

from tests.support.operator import profile_request
from tests.support.processes import BIN


def refused(kubectl, request):
    result = kubectl.run("apply", "-f", "-", stdin=__import__("json").dumps(request), check=False)
    assert result.returncode != 0, "was accepted"
    return result.stderr


@pytest.mark.parametrize("change, words", [
    ({"duration": "11m"}, "duration must be between 1ms and 10m"),
    ({"duration": "soon"}, "duration must be between"),
    ({"duration": "0s"}, "duration must be between"),
    ({"logdir": "logs"}, "logdir must be an absolute path or begin with"),
    ({"logdir": "http://x/y"}, "logdir must be an absolute path or begin with"),
    ({"logdir": "/a/../b"}, "no .. part"),
    ({"logdir": "gs://me@bucket/x"}, "no user info"),
    ({"logdir": ""}, "logdir"),
    ({"start": {"delay": "1s", "at": "2030-01-01T00:00:00Z"}}, "at most one of start.delay and start.at"),
    ({"start": {"delay": "2h"}}, "start.delay must be at most 1h"),
    ({"start": {"guard": "11s"}}, "start.guard must be at most 10s"),
    ({"start": {"step": {"next": True}}}, "start.step needs steps"),
    ({"steps": 5, "start": {"step": {}}}, "spec.start.step"),
    ({"steps": 5, "start": {"step": {"next": True, "number": 3}}}, "spec.start.step"),
    ({"steps": 5, "start": {"step": {"next": False}}}, "start.step.next can only be true"),
    ({"steps": 5, "start": {"step": {"number": -1}}}, "spec.start.step.number"),
    ({"steps": 5, "start": {"step": {"multipleOf": 0}}}, "spec.start.step.multipleOf"),
    ({"steps": 5, "start": {"delay": "1s"}}, "leave start.delay and start.at out"),
    ({"steps": 5, "maxSkew": "1ms"}, "leave it out with steps"),
    ({"steps": 5, "tracers": {"host": "Disabled"}}, "tracers.host must be Critical, Info or Verbose"),
    ({"steps": 0}, "spec.steps"),
    ({"maxSkew": "0s"}, "maxSkew must be a positive duration"),
    ({"lookBack": "11m"}, "lookBack must be between 1ms and 10m"),
    ({"lookBack": "30s", "tracers": {"host": "Disabled"}}, "lookBack reads annotations"),
    ({"minWorkers": 0}, "minWorkers must be a number from 1"),
    ({"minWorkers": "101%"}, "minWorkers must be a number from 1"),
    ({"attempts": 0}, "spec.attempts"),
    ({"onLateStart": "Ignore"}, 'supported values: "Keep", "Discard"'),
    ({"run": "../up"}, "spec.run"),
    ({"tracers": {"host": "Loud"}}, 'spec.tracers.host: Unsupported value: "Loud": supported values: "Disabled", "Critical", "Info", "Verbose"'),
    ({"tracers": {"host": 2}}, 'spec.tracers.host: Unsupported value: 2: supported values: "Disabled", "Critical", "Info", "Verbose"'),
    ({"tracers": {"device": 1}}, 'spec.tracers.device: Unsupported value: 1: supported values: "Disabled", "Enabled", "Kernels", "Launches", "Graphs", "All"'),
    ({"tracers": {"python": False}}, 'supported values: "Disabled", "Enabled"'),
    ({"tracers": {"hostFilter": 0}}, "spec.tracers.hostFilter"),
    ({"tracers": {"shapes": 1}}, "spec.tracers.shapes"),
    ({"maxBytesPerWorker": 0}, "maxBytesPerWorker must be a positive quantity of bytes"),
    ({"maxBytesPerWorker": "1GiB"}, "maxBytesPerWorker must be a positive quantity of bytes"),
    ({"maxBytesPerWorker": "-1Gi"}, "leave it out for no limit"),
    ({"maxBytesPerWorker": 1.5}, "spec.maxBytesPerWorker"),
    ({"abortWhen": {"memoryPercent": 101}}, "abortWhen.memoryPercent must be a number from 1 to 100, or Never for no limit"),
    ({"abortWhen": {"memoryPercent": 0}}, "or Never for no limit"),
    ({"abortWhen": {"memoryPercent": "Off"}}, "or Never for no limit"),
    ({"abortWhen": {"slowdownPercent": 0}}, "spec.abortWhen.slowdownPercent"),
    ({"ttlAfterFinished": "1y"}, "ttlAfterFinished must be a duration"),
    ({"durration": "1s"}, 'unknown field "spec.durration"'),
    ({"target": {}}, "exactly one of target.selector"),
    ({"target": {"pods": ["a"], "jobRef": {"kind": "Job", "name": "x"}}}, "exactly one of target.selector"),
    ({"target": {"selector": {}}}, "target.selector is empty"),
    ({"target": {"pods": ["a"], "workers": {"policy": "Sample"}}}, "target.workers.count"),
    ({"target": {"pods": ["../x"]}}, "spec.target.pods"),
    ({"target": {"jobRef": {"kind": "Job", "name": "a/b"}}}, "spec.target.jobRef.name"),
])
def test_the_schema_refuses(kubectl, change, words):
    assert words in refused(kubectl, profile_request("bad", "/logs") | {"spec": {**profile_request("x", "/logs")["spec"], **change}})


def test_without_a_webhook_there_is_no_default_logdir(kubectl):
    request = profile_request("bare", "/logs")
    del request["spec"]["logdir"]
    assert "logdir must be given, because no ProfilePolicy gives a default (defaultLogdir)" in refused(kubectl, request)


@pytest.mark.parametrize("field, value", [("duration", "3s"), ("logdir", "/other"), ("minWorkers", 1), ("maxSkew", "1ms"), ("lookBack", "30s"),
                                          ("run", "other"), ("start", {"delay": "1s"}), ("steps", 5), ("attempts", 1), ("abortWhen", {"memoryPercent": 50}), ("target", {"pods": ["b"]})])
def test_the_spec_is_immutable(kubectl, field, value):
    request = profile_request("fixed", "/logs", target={"pods": ["a"]})
    kubectl.apply(request)
    request["spec"][field] = value
    assert f"{field} is immutable; create a new ProfileRequest" in refused(kubectl, request)


def test_cancel_and_ttl_may_change_but_cancel_not_back(kubectl):
    request = profile_request("free", "/logs", target={"pods": ["a"]})
    kubectl.apply(request)
    request["spec"].update(cancel=True, ttlAfterFinished="1h")
    kubectl.apply(request)
    request["spec"]["cancel"] = False
    assert "cancel cannot be taken back" in refused(kubectl, request)


def test_defaults_are_filled_in(kubectl):
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": "small"},
                   "spec": {"target": {"pods": ["a"]}, "logdir": "/logs"}})
    spec = kubectl.get("profilerequest", "small")["spec"]
    assert spec["duration"] == "2s" and spec["attempts"] == 3 and spec["minWorkers"] == "100%"
    assert spec["tracers"] == {"host": "Info", "device": "Enabled", "python": "Disabled",
                               "shapes": False, "stacks": False, "memory": False, "flops": False, "modules": False, "keepOriginal": False, "detach": False}
    assert spec["reclaimPolicy"] == "Retain" and spec["cancel"] is False
    assert spec["abortWhen"] == {"memoryPercent": 95} and "maxBytesPerWorker" not in spec


def test_quantities_and_limits_that_are_switched_off_are_kept_as_written(kubectl):
    for size in (1000, "512Mi", "1e9", "1.5G"):
        kubectl.apply(profile_request(f"size-{str(size).lower()}", "/logs", maxBytesPerWorker=size, abortWhen={"memoryPercent": "Never"}))
        spec = kubectl.get("profilerequest", f"size-{str(size).lower()}")["spec"]
        assert spec["maxBytesPerWorker"] == size and spec["abortWhen"] == {"memoryPercent": "Never"}


@pytest.mark.parametrize("program, arguments, words", [
    ("strobe", ["capture"], "--workers is required"),
    ("strobe", ["capture", "--workers", "x:1", "--logdir", "/l"], "--insecure-plaintext"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "nohost", "--logdir", "/l"], '--workers: "nohost" has no port; write host:port'),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1,,b:2", "--logdir", "/l"], "is empty"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1,a:1", "--logdir", "/l"], "is listed twice"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:99999", "--logdir", "/l"], "port that is not a number from 1 to 65535"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "::1:80", "--logdir", "/l"], "brackets"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "ftp://x/y"], "unknown scheme ftp"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "/l", "--duration", "0"], "--duration"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "/l", "--delay", "soon"], "--delay"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "/l", "--min-workers", "0"], "--min-workers"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "/l", "--host-tracer-level", "9"], "--host-tracer-level"),
    ("strobe", ["capture", "--insecure-plaintext", "--workers", "a:1", "--logdir", "/l", "--run", "../x"], "--run"),
    ("strobe", ["report", "--output", "yaml", "x"], "strobe report: --output: yaml is not one of table, json, markdown, html"),
    ("strobe", ["report", "--top", "many", "x"], "strobe report --help explains its flags"),
    ("strobe", ["ls", "--limit", "0", "x"], "how many runs to list"),
    ("strobe", ["convert", "--to", "yaml", "x", "-o", "y"], "--to: yaml is not one of chrome, perfetto"),
    ("strobe", ["rm", "/", "--older-than", "soon"], "--older-than: \"soon\" is not a duration"),
    ("strobe", ["view", "/", "--end-when-idle", "soon"], "--end-when-idle: \"soon\" is not a duration"),
    ("strobe", ["kube", "check", "job/x", "--timeout", "soon"], "--timeout: \"soon\" is not a duration"),
    ("strobe", ["rm", "/", "--older-than", "soon"], "strobe rm --help explains its flags"),
    ("strobe", ["kube", "get", "-o", "xml"], "strobe kube get: --output: xml is not one of table, json, yaml, name"),
    ("kubectl-strobe", ["get", "-o", "xml"], "kubectl strobe get: --output: xml is not one of table, json, yaml, name"),
    ("strobe-sidecar", ["--exit-delay", "x"], "strobe-sidecar --help explains its flags"),
    ("strobe-operator", ["--log-levels", "x"], "strobe-operator --help explains its flags"),
    ("strobe", ["paint"], "there is no command paint\nstrobe --help lists the commands"),
    ("strobe", [], "no command is given"),
    ("strobe", ["captur", "--workers", "x:1"], "there is no command captur; did you mean capture?"),
    ("strobe", ["kube", "chexk", "job/llm"], "strobe kube: there is no command chexk; did you mean check?"),
    ("strobe", ["capture", "--worker", "x:1"], "strobe capture: there is no flag --worker; did you mean --workers?"),
    ("strobe", ["view", "x", "--listn=:1"], "there is no flag --listn; did you mean --listen?"),
    ("strobe", ["ls", "x", "--limit", "1", "--limit", "2"], "strobe ls: --limit is given more than once"),
    ("strobe", ["ls", "x", "y"], '"y" is one argument too many'),
    ("strobe-sidecar", [], "--insecure-plaintext"),
    ("strobe-sidecar", ["--insecure-plaintext", "--framework", "9012"], "is not a host:port"),
    ("strobe-sidecar", ["--insecure-plaintext", "--log-level", "loud"], "--log-level must be"),
    ("strobe-sidecar", ["--insecure-plaintext", "--listen", "localhost:99999"], '--listen "localhost:99999" must be host:port with a port from 0 to 65535'),
    ("strobe-sidecar", ["--insecure-plaintext", "--http-listen", "nonsense"], '--http-listen "nonsense" must be host:port'),
    ("strobe-sidecar", ["--enroll", "operator:9444"], "--enroll needs --roots"),
    ("strobe-sidecar", ["--enroll", "operator:9444", "--insecure-plaintext"], "either --enroll"),
    ("strobe-operator", ["--insecure-plaintext", "--config", "/nowhere"], "cannot read the configuration file"),
    ("strobe-operator", ["--insecure-plaintext", "--kubeconfig", "/nowhere"], "kubeconfig /nowhere"),
])
def test_flags_that_are_refused(program, arguments, words):
    result = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, timeout=20)
    assert result.returncode != 0
    assert words in result.stderr + result.stdout, result.stderr + result.stdout


def test_unknown_keys_of_the_configuration_file_are_shown_with_their_place(tmp_path):
    config = tmp_path / "operator.yaml"
    config.write_text("maxConcurrentReconciles: 2\nwatch:\n  namspace: team\n")
    result = subprocess.run([BIN / "strobe-operator", "--config", config], capture_output=True, text=True, timeout=20)
    assert result.returncode == 2
    assert f"{config}:3:3: unknown key watch.namspace; the known keys are namespace, timeout" in result.stderr


@pytest.mark.parametrize("program", ["strobe", "strobe-sidecar", "strobe-operator"])
def test_help_has_examples_and_version_is_one_line(program):
    help_text = subprocess.run([BIN / program, *(["capture"] if program == "strobe" else []), "--help"], capture_output=True, text=True)
    assert help_text.returncode == 0 and "Example" in help_text.stdout
    assert subprocess.run([BIN / program, "--version"], capture_output=True, text=True).stdout.strip().count("\n") == 0
