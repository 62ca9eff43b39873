"""The operator is killed after each of its writes: the end state is the same, with exactly one capture per attempt."""

import json

from tests.support.operator import Operator, condition, profile_request, wait_finished
from tests.support.processes import wait_until


def test_kill_after_every_write(group, kubectl, proxy, make_workers, logdir, tmp_path):
    worker, = make_workers(1, kubectl)
    config = {"watch": {"namespace": kubectl.namespace}}
    kubeconfig = proxy.kubeconfig(tmp_path / "proxied")
    number = fatal = 0
    while True:
        fatal += 1
        name = f"look{fatal}"
        operator = Operator(group, kubeconfig, f"operator-{number}", ["--no-leader-election"], config).start().wait_ready()
        number += 1
        victim = operator.process
        with proxy.faults.lock:
            proxy.faults.writes = 0
            proxy.faults.on_write = lambda count: victim.popen.kill() if count == fatal else None
        kubectl.apply(profile_request(name, logdir, run=name, duration="300ms"))
        wait_until(lambda: not victim.running() or condition(kubectl.get("profilerequest", name), "Succeeded")["status"] == "True",
                   30, "death or success")
        died = not victim.running()
        proxy.faults.on_write = None
        if died:
            operator = Operator(group, kubeconfig, f"operator-{number}", ["--no-leader-election"], config).start().wait_ready()
            number += 1
        request = wait_finished(kubectl, name, 40)
        assert condition(request, "Succeeded")["status"] == "True", (fatal, request["status"])
        assert request["status"]["attempt"] == 1, fatal
        assert request["status"]["workers"]["summary"] == "1/1"
        assert json.loads((logdir / f"plugins/profile/{name}/strobe.json").read_text())["result"] == "Succeeded"
        operator.process.kill()
        if not died:
            break
    # There are at least four writes: finalizer, preflight, armed and final status.
    assert fatal > 4
    armed = [line for line in worker.sidecar.output().splitlines() if " armed " in line]
    assert len(armed) == fatal, "exactly one capture per request"


def test_sidecars_go_on_alone(group, kubectl, plane, make_workers, logdir):
    make_workers(2, kubectl)
    config = {"watch": {"namespace": kubectl.namespace}}
    operator = Operator(group, plane.kubeconfig, "first", ["--no-leader-election"], config).start().wait_ready()
    kubectl.apply(profile_request("look", logdir, duration="1s"))
    kubectl.run("wait", "--for=condition=Started", "profilerequest/look", "--timeout=10s")
    operator.process.kill()
    wait_until(lambda: len(list(logdir.rglob("*.xplane.pb"))) == 2, 20, "both traces, with no operator")
    Operator(group, plane.kubeconfig, "second", ["--no-leader-election"], config).start()
    request = wait_finished(kubectl, "look", 20)
    assert condition(request, "Succeeded")["status"] == "True"
    assert request["status"]["attempt"] == 1
    assert len(list(logdir.rglob("*.xplane.pb"))) == 2
