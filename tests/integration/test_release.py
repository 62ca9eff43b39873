"""tools/release on the programs of this build: what it makes is opened, started and verified by other programs than ours."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile

import pytest
import yaml

from tests.support.processes import PYTHON, ROOT

ADDRESS = "https://downloads.example/v1"
HOME = "https://github.com/example/strobe"


def own_architecture():
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


def release(*arguments, root=ROOT):
    return subprocess.run([root / "tools/release", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of the programs that are there: the folder, and its version."""
    place = tmp_path_factory.mktemp("release")
    subprocess.run([ROOT / "tools/wheel"], check=True)
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", place / "key.pem"], check=True)
    subprocess.run(["openssl", "ec", "-in", place / "key.pem", "-pubout", "-out", place / "public.pem"], check=True, capture_output=True)
    architectures = [own_architecture()] + (["arm64"] if (ROOT / "build/arm64/wheels").exists() else [])
    done = release("--trial", "--no-compile", "--architectures", ",".join(architectures), "--address", ADDRESS, "--home", HOME, "--key", place / "key.pem",
                   "--out", place / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def bundle(place, architecture):
    (archive,) = (place / "out").glob(f"strobe-*-linux-{architecture}.tar.gz")
    return archive


def test_the_signature_and_the_sums_are_right(made):
    out = made / "out"
    raw = made / "raw.sig"
    raw.write_bytes(base64.b64decode((out / "SHA256SUMS.sig").read_text()))
    verify = ["openssl", "dgst", "-sha256", "-verify", made / "public.pem", "-signature", raw, out / "SHA256SUMS"]
    assert subprocess.run(verify, capture_output=True).returncode == 0
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    listed = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    assert listed == {file.name for file in out.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
    (out / "strobe.yaml").write_bytes((out / "strobe.yaml").read_bytes() + b"\n")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=out, capture_output=True).returncode != 0


def test_the_command_runs_without_any_library_of_this_machine(made, tmp_path):
    """In a root that has a shell and readlink, but neither a C library for other programs nor any of ours, and through a link, as krew makes it."""
    with tarfile.open(bundle(made, own_architecture())) as archive:
        archive.extractall(tmp_path / "opt", filter="data")
    (folder,) = (tmp_path / "opt").iterdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "kubectl-strobe").symlink_to(f"/opt/{folder.name}/kubectl-strobe")
    # The shell and readlink of this machine keep their libraries in a folder that the loader does not look into by itself.
    for program in ("sh", "readlink"):
        found = os.path.realpath(shutil.which(program))
        libraries = subprocess.run(["ldd", found], check=True, capture_output=True, text=True).stdout
        for path in {word for word in libraries.split() if word.startswith("/")}:
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o755)
        shutil.copyfile(found, tmp_path / "bin" / program)
        (tmp_path / "bin" / program).chmod(0o755)
    done = subprocess.run([shutil.which("chroot"), tmp_path, "/kubectl-strobe", "--version"], capture_output=True, text=True, env={"PATH": "/bin"})
    assert done.returncode == 0 and done.stdout.strip() == folder.name.split("-")[1], done.stderr


def test_the_python_package_brings_the_plugin(made, tmp_path):
    (wheel,) = (made / "out").glob("*_x86_64.whl" if own_architecture() == "amd64" else "*_aarch64.whl")
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path, wheel], check=True)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = {name: subprocess.run([tmp_path / "bin" / name, "--help"], capture_output=True, text=True, env=env).stdout
             for name in ("strobe", "kubectl-strobe")}
    assert "  check " in shown["kubectl-strobe"] and "  check " not in shown["strobe"]
    assert "convert" in shown["strobe"] and "convert" not in shown["kubectl-strobe"]
    completed = subprocess.run([tmp_path / "bin/kubectl_complete-strobe", "ch"], capture_output=True, text=True, env=env).stdout
    assert completed.startswith("check"), completed


def test_the_python_package_has_the_same_bytes_each_time(made):
    (wheel,) = (made / "out").glob("*_x86_64.whl" if own_architecture() == "amd64" else "*_aarch64.whl")
    subprocess.run([ROOT / "tools/wheel", "--again"], check=True)
    (again,) = (ROOT / "build/wheels").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()


def test_krews_manifest_names_the_archives(made):
    out = made / "out"
    manifest = yaml.safe_load((out / "strobe.yaml").read_text())
    assert manifest["metadata"]["name"] == "strobe" and manifest["spec"]["version"].startswith("v") and manifest["spec"]["homepage"] == HOME
    for platform in manifest["spec"]["platforms"]:
        name = platform["uri"].removeprefix(ADDRESS + "/")
        assert platform["sha256"] == hashlib.sha256((out / name).read_bytes()).hexdigest()
        (rule,) = platform["files"]
        with tarfile.open(out / name) as archive:
            assert rule["from"].removesuffix("*") + platform["bin"] in archive.getnames()


def test_the_chart_names_its_home_and_alerts_lead_there(made):
    (package,) = (made / "out").glob("strobe-*.tgz")
    helm = ROOT / "build/tools/bin/helm"
    shown = yaml.safe_load(subprocess.run([helm, "show", "chart", package], check=True, capture_output=True, text=True).stdout)
    assert shown["home"] == HOME and shown["sources"] == [HOME]
    done = subprocess.run([helm, "template", "s", package, "--set", "metrics.prometheusRule.enabled=true"], check=True, capture_output=True, text=True)
    assert done.stderr == "", "Helm has nothing to warn of"
    links = {line.split(": ")[1].strip('"') for line in done.stdout.splitlines() if "runbook_url: " in line}
    assert len(links) > 10 and all(link.startswith(f"{HOME}/blob/") and "/docs/how-to/runbooks.md#Strobe" in link for link in links), links


def test_the_bill_lists_what_is_in_the_image(made, tmp_path):
    """Debian's packages are those that own the image's libraries, by the image's own list, and each library belongs to one."""
    bill = json.loads((made / "out" / f"sidecar-{own_architecture()}.cdx.json").read_text())
    assert subprocess.run([ROOT / "tools/image", "sidecar", "--rootfs", tmp_path]).returncode == 0
    packages = {file.name for file in (tmp_path / "var/lib/dpkg/status.d").iterdir()}
    assert {part["name"] for part in bill["components"] if part["purl"].startswith("pkg:deb/")} == packages - {"ca-certificates"}
    assert {"libssl3", "libc6", "libgrpc29"} <= packages and (tmp_path / "etc/os-release").exists()
    crates = {part["name"] for part in bill["components"] if part["purl"].startswith("pkg:cargo/")}
    assert {"object_store", "ittapi-sys"} <= crates
    assert len({part["bom-ref"] for part in bill["components"]}) == len(bill["components"])


def test_the_image_has_an_entry_for_each_architecture(made):
    with tarfile.open(made / "out/strobe-sidecar.tar") as archive:
        def read(digest):
            return json.load(archive.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}"))
        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]
        manifest = read(entry["digest"])
        manifests = manifest.get("manifests", [{**entry}])
        for one in manifests:
            assert read(read(one["digest"])["config"]["digest"])["architecture"] == one["platform"]["architecture"]
    assert own_architecture() in {one["platform"]["architecture"] for one in manifests}


@pytest.mark.skipif(not (ROOT / "build/arm64/wheels").exists() or not shutil.which("qemu-aarch64-static"),
                    reason="tools/release has not compiled for arm64 here, or there is no qemu-user-static")
def test_what_is_made_for_arm64_runs_there(made, tmp_path):
    for kind, program in (("operator", "strobe-operator"), ("sidecar", "strobe-sidecar"), ("viewer", "strobe")):
        root = tmp_path / kind
        assert subprocess.run([ROOT / "tools/image", kind, "--architectures", "arm64", "--rootfs", root]).returncode == 0
        shutil.copyfile(shutil.which("qemu-aarch64-static"), root / "qemu")
        (root / "qemu").chmod(0o755)
        done = subprocess.run(["chroot", root, "/qemu", f"/opt/strobe/bin/{program}", "--version"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_a_checkout_that_is_no_release_is_refused(tmp_path):
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, checkout], check=True)
    for name in ("release", "target.py"):
        shutil.copy2(ROOT / "tools" / name, checkout / "tools")
    git = ["git", "-C", checkout, "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "t"], check=True)
    (checkout / "new").write_text("")
    done = release(root=checkout)
    assert done.returncode != 0 and "1 files differ from the last commit, such as new" in done.stderr
    (checkout / "new").unlink()
    done = release(root=checkout)
    assert done.returncode != 0 and "CHANGELOG.md has no section" in done.stderr
    chart = checkout / "helm/strobe/Chart.yaml"
    chart.write_text(chart.read_text().replace("appVersion: ", "appVersion: 9"))
    done = release(root=checkout)
    assert done.returncode != 0 and "appVersion in helm/strobe/Chart.yaml says 9" in done.stderr
    assert not (checkout / "build").exists(), "nothing is made before all is checked"


@pytest.mark.parametrize("arguments, says", [
    (("--architectures", "s390x"), "s390x cannot be made here"),
    (("--key", "/none"), "/none is not a file"),
    (("--no-compile",), "--no-compile needs --trial"),
])
def test_wrong_arguments_are_refused(arguments, says):
    done = release(*arguments)
    assert done.returncode == 2 and says in done.stderr
