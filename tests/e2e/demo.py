"""The second part of make demo (tools/demo): runs two JAX workers, the operator and one ProfileRequest, and shows the result.

With KUBECONFIG set, it uses that cluster's API server instead of starting one. With KEEP=1, everything
keeps running until Ctrl-C.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.control_plane import ControlPlane, Kubectl  # noqa: E402
from tests.support.operator import Operator  # noqa: E402
from tests.support.processes import BIN, BUILD, ROOT, TOOLS, Group  # noqa: E402
from tests.support.workers import start_workers  # noqa: E402


def say(text):
    print(f"\033[1m==> {text}\033[0m" if sys.stdout.isatty() else f"==> {text}", flush=True)


def show(kubectl, *arguments):
    print(f"$ kubectl {' '.join(arguments)}", flush=True)
    result = kubectl.run(*arguments, check=False)
    print((result.stdout + result.stderr).rstrip(), flush=True)
    return result.returncode


def main():
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp(prefix="strobe-demo-"))
    logdir = BUILD / "demo-logs" / "cluster"
    shutil.rmtree(logdir, ignore_errors=True)
    own_cluster = not os.environ.get("KUBECONFIG")
    ok = False
    with Group(directory / "logs") as group:
        try:
            if own_cluster:
                say("starting etcd and kube-apiserver")
                plane = ControlPlane(group, directory / "cluster").start()
                kubectl = Kubectl(plane.kubeconfig)
            else:
                say(f"using the cluster of KUBECONFIG={os.environ['KUBECONFIG']}")
                kubectl = Kubectl(os.environ["KUBECONFIG"])
            kubectl.install_crds()
            say("starting the operator and two workers, each a JAX training loop with its sidecar")
            operator = Operator(group, kubectl.kubeconfig).start()
            workers = start_workers(group, 2, prefix="demo-train")
            for worker in workers:
                worker.register(kubectl, {"app": "demo-train"})
            operator.wait_ready()

            say("applying a ProfileRequest")
            sample = (ROOT / "helm/strobe/crds/samples/profilerequest.yaml").read_text()
            sample = sample.replace("app: train", "app: demo-train").replace("gs://team-traces/ml", str(logdir))
            print(sample.rstrip(), flush=True)
            print(kubectl.run("apply", "-f", "-", stdin=sample).stdout.rstrip(), flush=True)
            waited = show(kubectl, "wait", "--for=condition=Succeeded", "profilerequest/first-look", "--timeout=60s")
            show(kubectl, "get", "profreq")
            show(kubectl, "get", "events", "--field-selector", "involvedObject.name=first-look")
            ok = waited == 0
            if ok:
                say("the run's files")
                print(subprocess.run(["find", logdir, "-type", "f", "-printf", "%10s  %p\n"], capture_output=True, text=True).stdout.rstrip())
                request = kubectl.get("profilerequest", "first-look")
                skew = request["status"]["skew"]
                say(f"skew {skew['achieved']} +-{skew.get('error', '?')}, {time.monotonic() - began:.1f} s from nothing to the result")
                say(f"open it: {BIN}/strobe view {logdir}")
                if (BUILD / "venv/bin/xprof").exists():  # Installed with the tests, not with the demo.
                    say(f"     or: {BUILD}/venv/bin/xprof --logdir {logdir} --port 8791   then http://localhost:8791")
            else:
                print(operator.process.output()[-4000:])
            if os.environ.get("KEEP") == "1":
                say(f"still up; try: {TOOLS}/kubectl --kubeconfig {kubectl.kubeconfig} get profreq   (Ctrl-C ends it)")
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            if not own_cluster:
                kubectl.run("delete", "profilerequest/first-look", "pod/demo-train-0", "pod/demo-train-1",
                            "--ignore-not-found", "--wait=true", "--grace-period=0", "--force", check=False)
    shutil.rmtree(directory, ignore_errors=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
