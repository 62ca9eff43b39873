"""What this machine is and permits. Nothing of it is changed."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .findings import OK, Finding, judge
from .kernels import complete_steps
from .processes import NotHad
from .rig import Rig, told, window_ns

NOBODY = 65534
PARAMETERS = Path("/proc/driver/nvidia/params")


def query(*names):
    """The first GPU's answer of nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        raise NotHad("there is no nvidia-smi")
    done = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.strip():
        raise NotHad(f"nvidia-smi: {(done.stdout + done.stderr).strip()[:200]}")
    return [word.strip() for word in done.stdout.splitlines()[0].split(",")]


def driver_version():
    """CUDA's version by the driver, such as 13000; None without a driver."""
    try:
        driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return None
    driver.cuDriverGetVersion(ctypes.byref(version))
    return version.value


def _cupti_version(path):
    code = f"import ctypes; v = ctypes.c_uint(); ctypes.CDLL({path!r}).cuptiGetVersion(ctypes.byref(v)); print(v.value)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout.strip() or "?"


def _versions(setup):
    code = ("import importlib.metadata as m, sys\nfor d in ('jax', 'torch', 'nvidia-cuda-cupti', 'nvidia-cuda-cupti-cu13', 'protobuf'):\n try: print(d, m.version(d))\n"
            " except m.PackageNotFoundError: pass")
    found = []
    for python in dict.fromkeys(python for python in setup.pythons.values() if python):
        found += subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60).stdout.splitlines()
    return list(dict.fromkeys(found))


def machine(setup):
    """Says on what the figures were seen."""
    name, driver, mig, mode = query("name", "driver_version", "mig.mode.current", "compute_mode")
    system = next((line.split("=", 1)[1].strip('"') for line in Path("/etc/os-release").read_text().splitlines() if line.startswith("PRETTY_NAME=")), "?")
    cupti = setup.cuda.get("STROBE_CUPTI") or os.environ.get("STROBE_CUPTI")
    parts = [name, f"driver {driver}", f"CUDA {driver_version()}", f"CUPTI for programs without a CUDA runtime: {cupti or 'not found'}",
             *([f"version {_cupti_version(cupti)}"] if cupti else []), f"MIG {mig}", f"compute mode {mode}", system, " ".join(os.confstr("CS_GNU_LIBC_VERSION").split()),
             f"{os.cpu_count()} cores", f"Python {sys.version.split()[0]}", *_versions(setup)]
    return Finding(OK, ", ".join(parts))


def package(setup):
    """The Python package, its extension and the agent load in the Python of this machine."""
    python = next((python for python in setup.pythons.values() if python), sys.executable)
    code = "import ctypes, os, strobe, strobe._trace as t\nwith strobe.Trace('step'): pass\nctypes.CDLL(os.environ['STROBE_AGENT'])\nprint('loaded', t.__file__)"
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "PYTHONPATH": str(setup.place.python), "STROBE_AGENT": setup.place.agent, "STROBE_DIR": directory, "STROBE_BOOTSTRAP": "off"}
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    if "No module named 'strobe._trace'" in done.stderr:
        raise NotHad("only the bundle has the package with its extension; this is a built tree")
    why = (done.stderr.strip().splitlines() or ["?"])[-1]
    return judge(done.stdout.strip() or f"{python}", (done.returncode == 0, f"does not load: {why}"))


def permission(setup):
    """A program of a user who is not root, which some drivers do not let record."""
    if os.geteuid() != 0:
        raise NotHad("only root can start a program as another user")
    told_by_driver = [line for line in PARAMETERS.read_text().splitlines() if line.startswith("RmProfilingAdminOnly")] if PARAMETERS.exists() else []
    with Rig(setup, "permission") as rig:
        rig.cuda("cuda_program", 100, 5, user=NOBODY)
        manifest = rig.capture(setup.seconds(1))
        worker, found = manifest["worker"], rig.recording()
        text = f"{told_by_driver[0] if told_by_driver else 'the driver does not tell RmProfilingAdminOnly'}; as user {NOBODY}: {told(worker)}"
        if worker["outcome"] == "PermissionDenied":
            return judge(text, (not found.kernels, "kernels in spite of it"))
        complete = complete_steps(found, window_ns(manifest), 5, 5)
        return judge(f"{text}; permission denied cannot be had here", (worker["outcome"] == "Ok", "outcome"), (complete.steps and not complete.wrong, "kernels are missing"))


def mig(setup):
    """Whether all of this ran on a slice of a GPU."""
    (mode,) = query("mig.mode.current")
    if mode != "Enabled":
        raise NotHad(f"MIG is {mode}, and its setting is not changed")
    return Finding(OK, "all steps ran on a MIG device")


def mps(setup):
    """Two programs that share the GPU through MPS, by a daemon of this step's own that ends with it."""
    control = shutil.which("nvidia-cuda-mps-control")
    (mode,) = query("compute_mode")
    if control is None or mode != "Default" or "CUDA_MPS_PIPE_DIRECTORY" in os.environ or Path("/tmp/nvidia-mps/control").exists():
        raise NotHad(f"MPS: {'no nvidia-cuda-mps-control' if control is None else f'compute mode {mode}, or a daemon runs'}; nothing is changed")
    with Rig(setup, "mps") as rig:
        env = {"CUDA_MPS_PIPE_DIRECTORY": str(rig.folder / "p"), "CUDA_MPS_LOG_DIRECTORY": str(rig.folder / "l")}
        for folder in env.values():
            Path(folder).mkdir()
        daemon = rig.start("mps", [control, "-f"], env)
        try:
            for _ in range(2):
                rig.cuda("cuda_program", 100, 5, env=env)
            manifest = rig.capture(setup.seconds(1))
            complete = complete_steps(rig.recording(), window_ns(manifest), 5, 5)
            return judge(f"{complete.kernels} kernels in {len(complete.steps)} steps of two programs; {told(manifest['worker'])}",
                         (manifest["worker"]["outcome"] == "Ok", "outcome"), (complete.steps and not complete.wrong, "kernels are missing"))
        finally:
            subprocess.run([control], input="quit -t 5\n", text=True, timeout=30, env={**os.environ, **env}, capture_output=True)
            daemon.stop(10)
