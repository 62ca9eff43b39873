"""What the tools that pack programs know of an architecture: its programs, and the Debian libraries that they load."""

import gzip
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STARTER = """#!/bin/sh
# Starts the program with the libraries that came with it, whatever this machine has.
self=$(readlink -f "$0") || exit 127
lib=${{self%/*}}/{lib}
exec "$lib/{loader}" --library-path "$lib" --argv0 "$0" "$lib/{program}" "$@"
"""


def version():
    return re.search(r'kVersion\[\] = "([^"]+)"', (ROOT / "common/base/version.h").read_text()).group(1)


@dataclass(frozen=True)
class Target:
    """`name` is Debian's and OCI's word for the architecture. `root` has its libraries: this machine's, or tools/sysroot's."""

    name: str
    triple: str
    machine: str
    bin: Path
    wheels: Path
    root: Path
    binutils: str = ""  # Prefix of the programs that read and strip its files.

    @cached_property
    def _places(self):
        return [self.root / place / self.triple for place in ("lib", "usr/lib")] + [self.root / place for place in ("lib", "usr/lib", "lib64")]

    def strip(self, source, to):
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([f"{self.binutils}strip", "-o", to, source], check=True)

    def program(self, name):
        file = self.bin / name
        if not file.exists():
            sys.exit(f"{file} is not there; run {'make wheel' if self.root == Path('/') else 'tools/release, which compiles for ' + self.name}")
        return file

    def libraries(self, *programs):
        """What the loader would load, and the loader: path on the target -> file here."""
        found, waiting = {}, list(programs)
        while waiting:
            for needed in _needs(waiting.pop()):
                if any(place.endswith(f"/{needed}") for place in found):
                    continue  # Libraries name the loader without its folder.
                file = self._find(needed)
                found["/" + str(file.relative_to(self.root))] = file.resolve()
                waiting.append(file)
        return found

    def _find(self, needed):
        if needed.startswith("/"):
            return self.root / needed.lstrip("/")
        for place in self._places:
            if (place / needed).exists():
                return place / needed
        sys.exit(f"{needed} is not among {self.name}'s libraries in {self.root}")

    def write_licenses(self, files, folder):
        """Copies what Debian says of the copyright of the packages that the files (paths on the target) are from."""
        folder.mkdir(parents=True)
        for package in self.packages(files):
            (folder / package).write_bytes((self.root / "usr/share/doc" / package / "copyright").read_bytes())

    def packages(self, files):
        """What dpkg tells about the Debian packages that the files (paths on the target) are from: name -> paragraph."""
        # A package names its files as before Debian moved /lib to /usr/lib, or as after.
        plain = {"/" + str((self.root / file.lstrip("/")).resolve().relative_to(self.root)).removeprefix("usr/") for file in files}
        owners = {}
        for line in self._dpkg("--search", *plain, *("/usr" + path for path in plain)).splitlines():
            names, _, path = line.partition(": ")
            owners[path.removeprefix("/usr")] = names.split(",")[0]
        unknown = plain - owners.keys()
        if unknown:
            sys.exit(f"{unknown.pop()}: no Debian package of {self.root} has it")
        return self.paragraphs(*sorted(set(owners.values())))

    def paragraphs(self, *packages):
        blocks = [block + "\n" for block in self._dpkg("--status", *packages).split("\n\n") if block.strip()]
        return {re.search(r"^Package: (.+)$", block, re.MULTILINE)[1]: block for block in blocks}

    def _dpkg(self, *arguments):
        # Exits with 1 where it does not know one of several files, which is usual here.
        return subprocess.run(["dpkg-query", f"--admindir={self.root / 'var/lib/dpkg'}", *arguments], capture_output=True, text=True).stdout


def add_files(tar, folder):
    """Adds a folder's content to a tar whose bytes depend on the files alone."""
    for path in sorted(folder.rglob("*")):
        entry = tar.gettarinfo(path, str(path.relative_to(folder)))
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o1777 if path.name == "tmp" and path.is_dir() else 0o755 if path.is_dir() or entry.mode & 0o111 else 0o644
        if path.is_file():
            with path.open("rb") as file:
                tar.addfile(entry, file)
        else:
            tar.addfile(entry)


def write_archive(folder, out, level=9):
    """Packs a folder's content as .tar.gz; the same files give the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file, gzip.GzipFile("", "wb", level, file, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add_files(tar, folder)


def pack_starters(target, programs, folder, lib):
    """Puts the programs, their libraries and the loader into `lib`, and scripts that start them with one another into `folder`. Returns the libraries,
    as Target.libraries does."""
    libraries = target.libraries(*(target.program(name) for name in programs))
    (loader,) = [Path(name).name for name in libraries if Path(name).name.startswith("ld-linux")]
    folder.mkdir(parents=True, exist_ok=True)
    for name in programs:
        target.strip(target.program(name), lib / name)
        (lib / name).chmod(0o755)
        write_starter(folder / name, lib, loader, name)
    for name, file in libraries.items():
        (lib / Path(name).name).write_bytes(file.read_bytes())
    (lib / loader).chmod(0o755)
    return libraries


def write_starter(file, lib, loader, program):
    file.write_text(STARTER.format(lib=os.path.relpath(lib, file.parent), loader=loader, program=program))
    file.chmod(0o755)


def python_package(wheels, to):
    """Unpacks the Python package that tools/wheel has built, as it lies beside trainers."""
    found = sorted(wheels.glob("*.whl"))
    if not found:
        sys.exit(f"{wheels} has no Python package; run tools/wheel")
    with zipfile.ZipFile(found[-1]) as wheel:
        for name in wheel.namelist():
            parts = Path(name).parts
            # Leaves out the programs and the agent in the wheel, because they are in other places, and what only pip reads.
            # entry_points.txt, which needs METADATA beside it, is how PyTorch and JAX find the package.
            if parts[0] == "strobe" and parts[1] in ("bin", "lib") or name.endswith(".c"):
                continue
            if not parts[0].endswith(".dist-info") or parts[1] in ("METADATA", "entry_points.txt"):
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                (to / name).write_bytes(wheel.read(name))


@cache
def _needs(file):
    """The libraries and the loader that an ELF file names."""
    text = subprocess.run(["readelf", "--wide", "--dynamic", "--program-headers", file], check=True, capture_output=True, text=True).stdout
    return re.findall(r"program interpreter: ([^]]+)\]", text) + re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", text)


def _targets():
    build = ROOT / "build"
    cross = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
    own = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    for name, triple in cross.items():
        native = name == own
        yield Target(name, triple, triple.split("-")[0], build / "bin" if native else build / name / "bin",
                     build / "wheels" if native else build / name / "wheels",
                     Path("/") if native else build / "sysroot" / name, "" if native else f"{triple}-")


TARGETS = {target.name: target for target in _targets()}
OWN = next(target.name for target in TARGETS.values() if target.root == Path("/"))
