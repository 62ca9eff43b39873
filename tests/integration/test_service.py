"""One instant over a whole service: several Deployments in one request, on a real API server. A trainer with its sidecar stands in for each server."""

import json

import pytest

from tests.conftest import read_manifest
from tests.integration.test_kubectl import Plugin
from tests.integration.test_serving import Tree, engines_told
from tests.support.inproc import TORCH_PYTHON
from tests.support.operator import WIDE_GUARD, condition, wait_finished
from tests.support.processes import wait_until
from tests.support.workers import Worker, mark_running

QUICK = {"attempts": 1, "duration": "200ms", "start": {"guard": WIDE_GUARD, "readyTimeout": "3s"}}


def deployment(kubectl, name, workers, replicas=None, labels=None, args=()):
    """A Deployment and the pods that its controller would make; there is no controller here."""
    labels = {"app": name, **(labels or {})}
    container = {"name": "server", "image": "vllm", **({"args": list(args)} if args else {})}
    kubectl.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": replicas or len(workers), "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
    for worker in workers:
        pod = worker.pod({**labels, "pod-template-hash": "5f7c"})
        del pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
        pod["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-5f7c", "controller": True,
                                               "uid": "00000000-0000-0000-0000-000000000000"}]
        pod["spec"]["containers"] = [container]
        kubectl.apply(pod)
        mark_running(kubectl, worker.name)


def request(name, logdir, *targets, **spec):
    return {"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": name},
            "spec": {"targets": list(targets), "logdir": str(logdir), **QUICK, **spec}}


def of_deployment(name, deployment, **more):
    return {"name": name, "jobRef": {"kind": "Deployment", "name": deployment}, **more}


@pytest.fixture
def service(kubectl, make_workers):
    """Prefill with one replica, decode with two, a router with one."""
    workers = make_workers(4)
    deployment(kubectl, "vllm-p", workers[:1])
    deployment(kubectl, "vllm-d", workers[1:3])
    deployment(kubectl, "router", workers[3:])
    return workers


def test_three_deployments_are_one_capture(kubectl, operator, service, logdir):
    kubectl.apply(request("look", logdir, of_deployment("prefill", "vllm-p"), of_deployment("decode", "vllm-d"), of_deployment("router", "router")))
    done = wait_finished(kubectl, "look")
    assert condition(done, "Succeeded")["status"] == "True", done["status"]
    assert "prefill: 1 of 1, decode: 1 of 1, router: 1 of 1 pods Ok" in condition(done, "Succeeded")["message"]
    assert "decode: 2/2 workers are present; 1 of them are selected" in condition(done, "Accepted")["message"], "never all of a live service"
    targets = {target["name"]: target for target in done["status"]["targets"]}
    assert list(targets) == ["prefill", "decode", "router"]
    assert all((target["pods"], target["ok"]) == (1, 1) for target in targets.values())
    assert done["status"]["skew"]["achieved"] and done["status"]["workers"]["summary"] == "3/3"

    manifest = read_manifest(logdir)
    by_role = {worker["role"]: worker for worker in manifest["workers"]}
    assert sorted(by_role) == ["decode", "prefill", "router"] and len(manifest["workers"]) == 3
    assert {worker["roleFrom"] for worker in manifest["workers"]} == {"request"}
    assert by_role["prefill"]["name"] == "prefill.worker-0" and by_role["prefill"]["pod"] == "worker-0"
    assert [role["role"] for role in manifest["roles"]] == ["prefill", "decode", "router"]
    (run,) = logdir.glob("plugins/profile/*")
    traces = sorted(path.name for path in run.glob("*.xplane.pb"))
    assert [name.split(".")[0] for name in traces] == ["decode", "prefill", "router"]
    assert len({worker["startedNs"] for worker in manifest["workers"]}) == 3 and int(manifest["instantNs"]) > 0

    report = json.loads((run / "report.json").read_text())
    assert [part["role"] for part in report["roles"]] == ["decode", "prefill", "router"]
    assert report["headline"].startswith("decode: ") and done["status"]["report"]["headline"].startswith("decode: ")


def test_all_replicas_are_recorded_if_the_request_says_so(kubectl, operator, service, logdir):
    kubectl.apply(request("look", logdir, of_deployment("decode", "vllm-d", workers={"policy": "All"})))
    done = wait_finished(kubectl, "look")
    assert done["status"]["targets"] == [{"name": "decode", "pods": 2, "ok": 2, "skew": done["status"]["targets"][0]["skew"]}]
    assert [worker["name"] for worker in read_manifest(logdir)["workers"]] == ["decode.worker-1", "decode.worker-2"]


def test_one_role_that_fails_fails_the_capture(kubectl, operator, service, logdir):
    """The others record nothing for it: preflight is over all targets."""
    service[0].sidecar.kill()
    kubectl.apply(request("look", logdir, of_deployment("prefill", "vllm-p"), of_deployment("decode", "vllm-d")))
    done = wait_finished(kubectl, "look")
    assert "prefill: 0 of 1 pods Ok, at least 1 wanted" in condition(done, "Failed")["message"], done["status"]
    assert done["status"]["workers"]["armed"] == 0 and not list(logdir.glob("plugins/profile/*/*.xplane.pb"))


def test_fewer_workers_of_a_target_may_be_enough(kubectl, operator, service, logdir):
    service[1].sidecar.kill()
    everywhere = {"workers": {"policy": "All"}}
    kubectl.apply(request("look", logdir, of_deployment("prefill", "vllm-p"), of_deployment("decode", "vllm-d", minWorkers=1, **everywhere)))
    done = wait_finished(kubectl, "look")
    assert condition(done, "Succeeded")["status"] == "True", done["status"]
    assert [(t["pods"], t["ok"]) for t in done["status"]["targets"]] == [(1, 1), (2, 1)]


def test_a_target_whose_pods_are_not_there_is_named(kubectl, operator, service, logdir):
    deployment(kubectl, "later", [], replicas=1)
    kubectl.apply(request("look", logdir, of_deployment("prefill", "vllm-p"), of_deployment("decode", "later"), start={"readyTimeout": "60s"}))
    waits = wait_until(lambda: (message := condition(kubectl.get("profreq", "look"), "Succeeded").get("message", "")).startswith("decode: ") and message,
                       15, "the wait")
    assert waits == "decode: 0/1 workers are present"
    kubectl.apply(request("both", logdir, of_deployment("a", "vllm-p"), {"name": "b", "pods": ["worker-0"]}))
    done = wait_finished(kubectl, "both")
    assert condition(done, "Failed")["reason"] == "InvalidTarget"
    assert "pod worker-0 is in both a and b" in condition(done, "Failed")["message"]


def test_one_target_is_as_before_and_its_roles_come_from_labels(kubectl, operator, make_workers, logdir):
    """Without names in the request, llm-d's label and the server's own option say who does what; names of files stay."""
    workers = make_workers(2)
    deployment(kubectl, "p", workers[:1], labels={"stack": "llm", "llm-d.ai/role": "prefill"})
    deployment(kubectl, "d", workers[1:], labels={"stack": "llm"}, args=["--disaggregation-mode", "decode"])
    kubectl.apply({"apiVersion": "strobe.dev/v1alpha1", "kind": "ProfileRequest", "metadata": {"name": "look"},
                   "spec": {"target": {"selector": {"matchLabels": {"stack": "llm"}}}, "logdir": str(logdir), **QUICK}})
    done = wait_finished(kubectl, "look")
    assert condition(done, "Succeeded")["status"] == "True" and "targets" not in done["status"], done["status"]
    workers = {worker["name"]: worker for worker in read_manifest(logdir)["workers"]}
    assert (workers["worker-0"]["role"], workers["worker-0"]["roleFrom"]) == ("prefill", "label llm-d.ai/role")
    assert (workers["worker-1"]["role"], workers["worker-1"]["roleFrom"]) == ("decode", "command of container server")


def test_kubectl_strobe_names_targets(kubectl, operator, service, logdir, tmp_path):
    plugin = Plugin(kubectl, tmp_path / "cache")
    out, _ = plugin.run("capture", "prefill=deploy/vllm-p", "decode=deploy/vllm-d", "--duration=200ms", "--attempts=1", f"--logdir={logdir}")
    assert "AllWorkersOk: 2 of 2 workers Ok; prefill: 1 of 1, decode: 1 of 1 pods Ok" in out, out
    spec = json.loads(plugin.run("capture", "prefill=deploy/vllm-p", "decode=app=vllm-d", "--sample=2", f"--logdir={logdir}",
                                 "--dry-run=server", "-o", "json")[0])["spec"]
    assert [target["name"] for target in spec["targets"]] == ["prefill", "decode"] and "target" not in spec
    assert all(target["workers"] == {"policy": "Sample", "count": 2} for target in spec["targets"])
    assert spec["targets"][1]["selector"] == {"matchLabels": {"app": "vllm-d"}}


@pytest.fixture
def engines(kubectl, group, tmp_path, python_package):
    """Two Deployments, each with an engine of vLLM's shape that gets no requests until its file notes.load is there. Returns these files."""
    if not TORCH_PYTHON.exists():
        pytest.skip("build/torch is missing; tools/setup test installs it")
    loads = []
    for index, name in enumerate(("vllm-p", "vllm-d")):
        directory = tmp_path / name
        directory.mkdir()
        tree = Tree(group, directory, python_package, "vllm_idle", 4)
        engines_told(tree, 3)
        worker = Worker(group, f"worker-{index}", index)
        worker.port = tree.port
        deployment(kubectl, name, [worker])
        loads.append(directory / "notes.load")
    return loads


def test_a_capture_waits_until_requests_run_in_each_server(kubectl, operator, engines, logdir, tmp_path):
    def waits(worker):
        """Until the message names it as the first that has too few requests."""
        text = f"{worker}: NoSource: NoRequests: 0 of 3 requests run or wait in its server"
        wait_until(lambda: text in condition(kubectl.get("profreq", "look"), "Succeeded").get("message", ""), 10, text)

    plugin = Plugin(kubectl, tmp_path / "cache")
    plugin.run("capture", "prefill=deploy/vllm-p", "decode=deploy/vllm-d", "--name=look", "--min-running-requests=3", "--ready-timeout=2m",
               "--duration=500ms", "--attempts=1", f"--logdir={logdir}", "--no-wait")
    waits("worker-0")
    engines[0].touch()
    waits("worker-1")
    engines[1].touch()
    done = wait_finished(kubectl, "look")
    assert condition(done, "Succeeded")["status"] == "True", done["status"]
    assert [(target["name"], target["ok"]) for target in done["status"]["targets"]] == [("prefill", 1), ("decode", 1)]
    iterations = [int(row["engine"]["iterations"]) for worker in read_manifest(logdir)["workers"] for row in worker["processes"]
                  if "iterations" in row.get("engine", {})]
    assert len(iterations) == 4 and min(iterations) > 10, "two ranks of each server"

    kubectl.apply(request("more", logdir, of_deployment("prefill", "vllm-p"), of_deployment("decode", "vllm-d"),
                          start={"minRunningRequests": 4, "readyTimeout": "2s"}))
    failed = condition(wait_finished(kubectl, "more"), "Failed")
    assert "NoRequests: 3 of 4 requests run or wait in its server; send load to it" in failed["message"], failed


@pytest.mark.parametrize("targets, more, words", [
    ([], {}, "spec.targets"),
    ([{"name": f"t{i}", "pods": ["a"]} for i in range(17)], {}, "spec.targets"),
    ([{"pods": ["a"]}], {}, "name"),
    ([{"name": "Prefill", "pods": ["a"]}], {}, "spec.targets[0].name"),
    ([{"name": "a", "pods": ["a"]}, {"name": "a", "pods": ["b"]}], {}, "Duplicate value"),
    ([{"name": "a"}], {}, "exactly one of selector, jobRef and pods for each target"),
    ([{"name": "a", "pods": ["a"], "minWorkers": 0}], {}, "spec.targets[0].minWorkers"),
    ([{"name": "a", "pods": ["a"], "minWorkers": "101%"}], {}, "spec.targets[0].minWorkers"),
    ([{"name": "a", "pods": ["a"], "workers": {"policy": "Sample"}}], {}, "workers.count"),
    ([{"name": "a", "pods": ["a"]}], {"target": {"pods": ["a"]}}, "exactly one of target and targets"),
    ([{"name": "a", "pods": ["a"]}, {"name": "b", "pods": ["b"]}], {"steps": 5}, "steps needs one target"),
])
def test_the_schema_refuses_targets(kubectl, targets, more, words):
    refused = kubectl.run("apply", "-f", "-", stdin=json.dumps(request("bad", "/logs", *targets, **more)), check=False)
    assert refused.returncode != 0 and words in refused.stderr, refused.stderr


def test_neither_target_nor_targets_is_refused_and_targets_stay(kubectl):
    bare = request("bare", "/logs")
    del bare["spec"]["targets"]
    assert "exactly one of target and targets" in kubectl.run("apply", "-f", "-", stdin=json.dumps(bare), check=False).stderr
    fixed = request("fixed", "/logs", {"name": "a", "pods": ["a"]}, minWorkers=1)
    kubectl.apply(fixed)
    fixed["spec"]["targets"][0]["pods"] = ["b"]
    assert "targets is immutable" in kubectl.run("apply", "-f", "-", stdin=json.dumps(fixed), check=False).stderr
