"""`kubectl strobe view` as a user runs it on a real node."""

import os
import re
import signal
import subprocess

from .processes import BIN, ROOT, TOOLS
from .rights import await_right


class Viewing:
    """A running command, `view` unless another one is named."""

    def __init__(self, kubectl, *arguments, user="jane", command="view"):
        flags = ["--no-open"] if command == "view" else []
        self.process = subprocess.Popen(
            [TOOLS / "kubectl", "strobe", command, *arguments, f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={kubectl.namespace}",
             f"--as={user}", *flags],
            env={"PATH": f"{BIN}:{TOOLS}:{os.environ['PATH']}", "HOME": "/nonexistent"}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def address(self):
        """Where the viewer is shown, once it answers."""
        for line in self.process.stdout:
            if shown := re.search(r" at (http://localhost:\d+/) ", line):
                return shown[1]
        raise AssertionError(self.process.communicate())

    def end(self, how=signal.SIGINT):
        """Returns its exit code and what it wrote to stderr."""
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


def viewers(kubectl):
    """The Jobs and pods of all viewers of the namespace."""
    return kubectl.get("jobs,pods", "-l", "strobe.dev/viewer")["items"]


def grant_viewing(kubectl, user):
    """Gives the user the Role that the documentation shows."""
    page = (ROOT / "docs/how-to/capture.md").read_text()
    (role,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", page, re.DOTALL)
    kubectl.run("apply", "-f", "-", stdin=role)
    kubectl.run("create", "rolebinding", "viewer", "--role=strobe-viewer", f"--user={user}")
    await_right(kubectl, "create", "jobs.batch", user=user)
