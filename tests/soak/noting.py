"""Workers whose programs log their own steps, and a check of captures against these logs."""

import json

from tests.support import oracle
from tests.support.mounts import mount_small, unmount
from tests.support.processes import BIN
from tests.support.workers import Worker


class NotingWorker(Worker):
    """A pod of two processes: a trainer with a profiler server, and a program with the agent that forks children."""

    def __init__(self, group, number, directory, env=None, flags=(), modes=(), framework="jax",
                 agent=BIN / "libstrobe_agent.so", wrap=list):
        self.place = directory / f"pod-{number}"
        self.agent_dir = self.place / "strobe"
        self.agent_dir.mkdir(parents=True)
        # A volume of limited size, as a pod has one. If that is not possible, the directory is unlimited.
        self.mounted = mount_small(self.agent_dir, "24m")
        self.modes, self.framework, self.agent, self.agent_lives = modes, framework, agent, 0
        super().__init__(group, f"worker-{number}", number, trainer_env=env, sidecar_env=env,
                         sidecar_flags=["--agent-dir", self.agent_dir / "agent", *flags], wrap=wrap)
        self.notes = self.place / "trainer.txt" if framework == "jax" else None
        self.agent_notes = self.place / "agent.txt"
        self.program = None
        self.read_sizes, self.read = None, []

    def start_trainer(self):
        self.start_program()
        return super().start_trainer() if self.framework == "jax" else self

    def start_program(self):
        self.agent_lives += 1
        self.program = self.group.start(f"{self.name}-program", [
            BIN / "noting_program", self.agent_notes, 100, f"rank=main-{self.agent_lives}", "fork=150", *self.modes],
            env={**self.trainer_env, "STROBE_DIR": str(self.agent_dir), "STROBE_AGENT": str(self.agent), "STROBE_RING_KB": "128"})
        return self

    def wait(self, timeout=90):
        self.program.wait_for("ready", 20)
        return super().wait(timeout)

    def unmount(self):
        if self.mounted:
            unmount(self.agent_dir)

    def read_notes(self):
        files = [path for path in (self.agent_notes, self.notes) if path and path.exists()]
        sizes = [path.stat().st_size for path in files]
        if sizes != self.read_sizes:  # Parses again only after a change, because the notes of a storm have hundreds of thousands of lines.
            self.read_sizes, self.read = sizes, [note for path in files for note in oracle.read_notes(path)]
        return self.read


def held_against_notes(run, workers):
    """Looks for the noted steps in the traces of workers that ended Ok. Returns messages about missing steps, and the number of steps looked for."""
    from tensorflow import xplane_pb2

    manifest = json.loads((run / "strobe.json").read_text())
    by_name = {worker.name: worker for worker in workers}
    wrong, wanted = [], 0
    for told in manifest["workers"]:
        if told["outcome"] != "Ok":
            continue
        space = xplane_pb2.XSpace.FromString((run / f"{told['name']}.xplane.pb").read_bytes())
        lost, looked_for = oracle.missing_by_true_time(by_name[told["name"]].read_notes(), manifest, told, space)
        wanted += looked_for
        if lost:
            rows = [f"{row['name']}: {row['outcome']} {row.get('message', '')}" for row in told.get("processes", [])]
            wrong.append(f"{told['name']} is Ok and {len(lost)} of {looked_for} noted steps are not in its trace: {lost[:3]}; its processes: {rows}")
    return wrong, wanted
