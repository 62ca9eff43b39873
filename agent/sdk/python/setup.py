"""Builds the wheel: extensions, and programs that CMake built in $STROBE_BIN or build/bin."""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
SDK = HERE.parent  # Contains strobe/agent_api.h.
BIN = Path(os.environ.get("STROBE_BIN", HERE.parents[2] / "build" / "bin"))


class BuildWithPrograms(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib) / "strobe"
        for folder, names in (
            ("bin", ("strobe", "strobe-sidecar")),
            ("lib", ("libstrobe_agent.so",)),
        ):
            (package / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy2(BIN / name, package / folder / name)


class AnyPythonSince39(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.py_limited_api = "cp39"


WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-missing-field-initializers",
    "-Wno-cast-function-type",
]


def extension(name, include_dirs, more_sources=(), flags=()):
    return Extension(
        f"strobe.{name}",
        [f"strobe/{name}.c", *more_sources],
        include_dirs=[str(directory) for directory in include_dirs],
        define_macros=[("Py_LIMITED_API", "0x03090000")],
        extra_compile_args=["-O2", *flags],
        py_limited_api=True,
    )


extensions = [
    extension(
        "_trace",
        [SDK],
        [f"strobe/{part}.c" for part in ("_agent", "_scope", "_text")],
        flags=["-std=c11", "-I", str(HERE / "strobe"), *WARNINGS],
    )
]
# The directory of Intel's ITT library. Without it, VTune does not hear of the profiler's objects.
if "STROBE_ITT" in os.environ:
    itt = Path(os.environ["STROBE_ITT"])
    # The library is a part of the extension, and its symbols stay inside.
    library = str(itt / "src" / "ittnotify" / "ittnotify_static.c")
    extensions.append(
        extension("_itt", [itt / "include"], [library], ["-std=gnu11", "-fvisibility=hidden", "-w"])
    )

setup(
    cmdclass={"build_py": BuildWithPrograms, "bdist_wheel": AnyPythonSince39},
    ext_modules=extensions,
)
