"""What README and docs/ show works as it is written: objects, flags and settings are accepted, and the commands of README and tutorial capture."""

import functools
import json
import os
import re
import shlex
import socket
import subprocess
import textwrap

import pytest
import yaml

from tests.support.inproc import TORCH_PYTHON, told_steps
from tests.support.ports import free_port
from tests.support.processes import BIN, PYTHON, ROOT, wait_until
from tests.support.secure import chart_objects
from tests.support.workers import Worker

README, FIRST = ROOT / "README.md", ROOT / "docs/tutorials/first-capture.md"
PAGES = [README, ROOT / "helm/strobe/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRAIN = ROOT / "docs/tutorials/train.yaml"
# Objects of these groups are in every cluster.
SERVED = re.compile(r"(v1|(apps|batch|rbac\.authorization\.k8s\.io|strobe\.dev)/\w+)")
PROGRAMS = ("strobe", "strobe-sidecar", "strobe-operator", "kubectl-strobe")


def blocks(page, language):
    """The code of this language on a page."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


def where(page):
    return str(page.relative_to(ROOT))


def shell_commands(page):
    """The words of each command of a page, without its comment."""
    for code in blocks(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            for command in re.split(r"\s(?:&&|\|\||\||;|&)(?=\s|$)", re.sub(r"(^|\s)#.*", "", line)):
                try:
                    words = shlex.split(command)
                except ValueError:  # A quoted text of several lines.
                    continue
                if words:
                    yield words


def our_command(words):
    """The program and its arguments if this is one of ours, such as (strobe, [capture, --workers, ...]); else None."""
    if words[0] == "kubectl" and words[1:2] == ["strobe"]:
        return "kubectl-strobe", words[2:]
    program = os.path.basename(words[0])
    return (program, words[1:]) if program in PROGRAMS else None


@functools.cache
def help_of(program, *commands):
    link = ["kube"] if program == "kubectl-strobe" else []
    done = subprocess.run([BIN / ("strobe" if link else program), *link, *commands, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def unknown_flags(program, arguments):
    """The flags that the command's help does not list."""
    if arguments[:1] == ["query"]:  # A command of the Python package; test_tables.py runs it.
        return
    commands = []
    for word in arguments:
        if not re.fullmatch(r"[a-z][a-z-]*", word) or not re.search(rf"^  {word} ", help_of(program, *commands), re.MULTILINE):
            break
        commands.append(word)
    for word in arguments:
        flag = re.match(r"--?[a-z][\w-]*", word)
        if flag and not re.search(rf"(?<![\w-]){flag[0]}(?![\w-])", help_of(program, *commands)):
            yield f"{' '.join([program, *commands])} has no {flag[0]}"


def test_each_flag_of_the_documents_exists():
    found = [(where(page), problem) for page in PAGES for words in shell_commands(page) if (ours := our_command(words))
             for problem in unknown_flags(*ours)]
    assert not found
    shown = {ours[0] for page in PAGES for words in shell_commands(page) if (ours := our_command(words))}
    assert shown >= {"strobe", "strobe-sidecar", "kubectl-strobe"}
    assert list(unknown_flags("strobe", ["capture", "--worker", "x"])) == ["strobe capture has no --worker"], "the check finds what is wrong"


def shown_objects():
    """Each object that a page shows as a whole, as (page, object)."""
    for page in PAGES:
        for code in blocks(page, "yaml"):
            for made in yaml.safe_load_all(code):
                if isinstance(made, dict) and "kind" in made and SERVED.fullmatch(str(made.get("apiVersion"))):
                    yield where(page), made
    yield from ((where(TRAIN), made) for made in yaml.safe_load_all(TRAIN.read_text()))


def test_the_api_server_accepts_each_object_of_the_documents(kubectl):
    kinds = set()
    for page, made in shown_objects():
        made["metadata"].pop("namespace", None)  # A namespace of the test's own.
        kinds.add(made["kind"])
        done = kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(made), check=False)
        assert done.returncode == 0, (page, made, done.stderr)
    assert kinds >= {"ProfileRequest", "ProfileSchedule", "ProfileTrigger", "ProfilePolicy", "Job", "Role", "PersistentVolumeClaim"}


def chart_settings(words):
    """The settings of a command that installs or upgrades our chart."""
    flags = [word.split("=", 1)[0] for word in words]
    return [part for i, flag in enumerate(flags) if flag in ("--set", "--set-json", "--set-string") and i + 1 < len(words) for part in words[i:i + 2]]


def test_the_chart_takes_each_setting_of_the_documents():
    count = 0
    for page in PAGES:
        for words in shell_commands(page):
            if words[0] == "helm" and "helm/strobe" in words and (settings := chart_settings(words)):
                assert chart_objects(*settings), where(page)
                count += 1
    assert count >= 4


def test_the_viewer_takes_the_configuration_of_the_documents(tmp_path):
    """The page shows viewer/service/defaults.yaml; only the required logdirs are missing in it."""
    text, file = (ROOT / "viewer/service/defaults.yaml").read_text(), tmp_path / "serve.yaml"
    for logdirs, why in (("[{url: /logs, namespace: ml}]", "kubeconfig /nowhere"), ("[]", "logdirs")):  # The kubeconfig is read after the file.
        file.write_text(text.replace("logdirs: []", f"logdirs: {logdirs}"))
        done = subprocess.run([BIN / "strobe", "serve", "--config", file, "--kubeconfig", "/nowhere"], capture_output=True, text=True)
        assert done.returncode == 2 and why in done.stderr, done.stderr


def test_the_cluster_of_readme_needs_no_registry():
    """The chart asks for the names that the archives of tools/image have, and the job has the volume on which captures may write."""
    code = next(code for code in blocks(README, "sh") if "kind load image-archive" in code)
    words = next(shlex.split(line) for line in code.replace("\\\n", " ").splitlines() if line.startswith("helm install"))
    objects = chart_objects(*chart_settings(words))
    version = re.search(r'"([\d.]+)"', (ROOT / "common/base/version.h").read_text())[1]
    (operator,) = [made for made in objects if made["kind"] == "Deployment"]
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"strobe-operator:{version}" and "imagePullPolicy" not in container
    (policy,) = [made for made in objects if made["kind"] == "ProfilePolicy"]
    _, job = yaml.safe_load_all(TRAIN.read_text())
    template = job["spec"]["template"]
    volume, _, path = template["metadata"]["annotations"]["strobe.dev/logdir-volume"].partition(":")
    assert policy["spec"]["allowedLogdirs"] == [policy["spec"]["defaultLogdir"]] == [f"file://{path}"]
    assert volume in [each["name"] for each in template["spec"]["volumes"]]
    names = re.search(r"^for name in (.*); do\n  kind load image-archive build/images/strobe-[$]name.tar", code, re.MULTILINE)[1].split()
    assert names == re.findall(r"^\t@tools/image (\w+)$", (ROOT / "Makefile").read_text(), re.MULTILINE), "those that make images makes"
    assert f"job/{job['metadata']['name']}" in code


def output_of(page, command):
    """The lines that a page shows as the output of a capture of this logdir."""
    shown = re.findall(r"^```\n(WORKER .*?)```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (lines,) = [text.splitlines() for text in shown if command in text]
    return lines


def check_output(shown, printed):
    """The header of the table, as many workers that are Ok, and lines that begin as the page says."""
    lines = printed.splitlines()
    assert shown[0].split() in [line.split() for line in lines], printed
    for begin in [line.split(":")[0] + ":" for line in shown[3:]]:
        assert any(line.startswith(begin) for line in lines), (begin, printed)
    assert sum(line.startswith("localhost:") and " Ok " in line for line in lines) == 2, printed


def shell(command, env=None):
    """What a command prints, which has to end with 0."""
    done = subprocess.run(["sh", "-c", command], env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **(env or {})},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def capture(command):
    """What a capture prints. A busy machine may begin a recording too late, which is said; the user then tries again."""
    for _ in range(5):
        printed = shell(command)
        if " LateStart " not in printed:
            break
    return printed


def serves(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def lines_of(page):
    """The commands of a page, with lines that a backslash continues joined."""
    return [re.sub(r"\s+#.*", "", line) for code in blocks(page, "sh") for line in code.replace("\\\n", " ").splitlines()]


def test_the_capture_of_readme(group, tmp_path):
    """Its commands without Kubernetes, for two JAX trainers."""
    trainers = [Worker(group, f"train-{i}").start_trainer() for i in range(2)]
    printed = {}
    commands = [line for line in lines_of(README) if "/tmp/logs" in line and not line.startswith("strobe view")]  # That serves until it is ended.
    for command in commands:
        for trainer, port in zip(trainers, (9012, 9013)):
            command = command.replace(f"localhost:{port}", f"localhost:{trainer.wait().profiler_port}")
        printed[command.split()[1]] = capture(command.replace("/tmp/logs", str(tmp_path / "logs")))
    assert set(printed) == {"capture", "inspect", "report"}
    check_output(output_of(README, "/tmp/logs"), printed["capture"])


def test_the_first_capture_of_the_tutorial(group, tmp_path):
    ports = {9012: free_port(), 9013: free_port()}
    script = tmp_path / "train.py"
    script.write_text(blocks(FIRST, "python")[0])
    commands = lines_of(FIRST)
    for old, port in ports.items():
        assert f"python train.py {old} &" in commands
        group.start(f"train-{old}", [PYTHON, script, port], env={"JAX_PLATFORMS": "cpu"})
    for port in ports.values():
        wait_until(lambda port=port: serves(port), 60, "the profiler server")
    printed = {}
    for command in [line for line in commands if line.startswith(("strobe capture", "strobe inspect")) and "torch" not in line and "9470" not in line]:
        for old, port in ports.items():
            command = command.replace(f"localhost:{old}", f"localhost:{port}")
        printed[command.split()[1]] = capture(command.replace("/tmp/logs", str(tmp_path / "logs")))
    check_output(output_of(FIRST, "xprof --logdir /tmp/logs"), printed["capture"])
    assert "complete on all workers: " in printed["capture"] and "report: " in printed["capture"]
    assert printed["inspect"]


def ranks_that_train(agent):
    """How many announced processes, launchers left out, have reported a step."""
    ranks = [found for found in agent.glob("*.process") if not json.loads(found.read_text())["is_launcher"]]
    return sum(bool(told_steps(rank)) for rank in ranks)


@pytest.mark.skipif(not TORCH_PYTHON.exists(), reason="build/torch is missing; tools/setup torch installs it")
def test_the_first_capture_of_the_tutorial_with_pytorch(group, tmp_path, python_package):
    script, port = tmp_path / "train_torch.py", free_port()
    script.write_text(blocks(FIRST, "python")[1])
    env = {"PYTHONPATH": str(python_package), "STROBE_DIR": str(tmp_path / "strobe")}
    (tmp_path / "strobe").mkdir(mode=0o700)
    torchrun, sidecar, command = [line for line in lines_of(FIRST) if line.startswith(("torchrun", "strobe-sidecar")) or "localhost:9470" in line]
    assert torchrun.split()[-2:] == ["train_torch.py", "&"] and sidecar.endswith(" &")
    group.start("torchrun", [TORCH_PYTHON, "-m", "torch.distributed.run", *torchrun.split()[1:-2], script], env=env)
    words = sidecar.replace("$STROBE_DIR", env["STROBE_DIR"]).split()[1:-1]
    group.start("sidecar", [BIN / "strobe-sidecar", *words, "--listen", f"127.0.0.1:{port}"], env=env).wait_for("serves", 20)
    wait_until(lambda: ranks_that_train(tmp_path / "strobe/agent") == 2, 90, "both processes to train")
    printed = capture(command.replace("localhost:9470", f"localhost:{port}").replace("/tmp/torch-logs", str(tmp_path / "logs")))
    check_output(output_of(FIRST, "/tmp/torch-logs"), printed)


def test_the_job_of_the_tutorial_trains(tmp_path):
    """The trainer of its manifest, by this machine's JAX: it makes steps, and does not end by itself."""
    _, job = yaml.safe_load_all(TRAIN.read_text())
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["sh", "-c"]
    script = command[2].replace("pip install --quiet jax && ", "").replace("step += 1", "step += 1\n    if step == 20: raise SystemExit(7)")
    python = (ROOT / "build/venv/bin").resolve()
    done = subprocess.run(["sh", "-c", script], env={**os.environ, "PATH": f"{python}:{os.environ['PATH']}", "JAX_PLATFORMS": "cpu"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr
