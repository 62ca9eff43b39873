"""A trainer that becomes slow or uses more memory while it is recorded."""

import textwrap
from pathlib import Path

from tests.support.processes import PYTHON, wait_until

# Trains in steps of 20 ms. While it is recorded, which it reads from its control word, steps take SLOW ms and, if GROW is
# set, each allocates another 8 MiB.
FRAGILE = textwrap.dedent("""
    import glob, os, struct, sys, time, strobe
    slow, grow = float(sys.argv[1]) / 1000, int(sys.argv[2])
    held = [bytearray(b"x") * (int(sys.argv[3]) << 20)]
    print("ready", flush=True)
    rings, step = [], 0
    while True:
        rings = rings or glob.glob(os.environ["STROBE_DIR"] + "/agent/*.rings")
        with open(rings[0], "rb") as file:
            recorded = struct.unpack("I", os.pread(file.fileno(), 4, 256))[0] >= 2
        began = time.monotonic()
        with strobe.Trace("train", step_num=step):
            time.sleep(slow if recorded else 0.02)
            if recorded and grow:
                held.append(bytearray(b"x") * (8 << 20))
        if not recorded:
            del held[1:]
        step += 1
        open(sys.argv[4] + ".new", "w").write(f"{step} {(time.monotonic() - began) * 1000:.1f} {len(held)}")
        os.replace(sys.argv[4] + ".new", sys.argv[4])
""")


class Fragile:
    def __init__(self, rig, python_package, slow=20, grow=False, holds=0, wrap=()):
        self.state = rig.dir / "state"
        self.process = rig.start([*wrap, PYTHON, "-c", FRAGILE, slow, int(grow), holds, self.state], {"PYTHONPATH": str(python_package)})
        wait_until(self.state.exists, 20, "the first step")

    def look(self):
        """Returns the number of steps, the duration of the last one in ms, and the number of memory blocks held."""
        step, took, held = self.state.read_text().split()
        return int(step), float(took), int(held)

    def trains_as_before(self):
        assert self.process.popen.poll() is None, self.process.output()
        first = self.look()[0]
        wait_until(lambda: self.look()[0] > first + 10, 20, "ten more steps")
        assert self.look()[2] == 1
        wait_until(lambda: not self.agent_threads(), 5, "the agent's threads to end")

    def agent_threads(self):
        names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{self.process.pid}/task").iterdir()]
        return [name for name in names if name.startswith("strobe")]
