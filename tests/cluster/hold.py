"""Starts a node and runs a command while the node is up (used by tests/cluster/up)."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.node import Node
from tests.support.processes import BIN, TOOLS, Group, BUILD


def main():
    with Group(Path(os.environ["STROBE_NODE_DIR"]) / "logs") as group:
        print("starting a node...", flush=True)
        node = Node(group).start()
        for kind in ("operator", "sidecar", "viewer"):
            archive = BUILD / "images" / f"strobe-{kind}.tar"
            if archive.exists():
                node.load(archive)
        environment = {**os.environ, "KUBECONFIG": str(node.kubeconfig), "PATH": f"{TOOLS}:{BIN}:{os.environ['PATH']}"}
        print(f"ready: KUBECONFIG={node.kubeconfig}; logs in {group.log_dir}; images loaded by tools/image are there", flush=True)
        try:
            code = subprocess.run(sys.argv[1:] or [os.environ.get("SHELL", "bash")], env=environment).returncode
        except KeyboardInterrupt:
            code = 130
        group.kill()  # Everything else ends with the namespaces.
        sys.exit(code)


if __name__ == "__main__":
    main()
