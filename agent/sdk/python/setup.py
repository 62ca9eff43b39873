"""Builds the wheel: the extension, and the programs that CMake built in $STROBE_BIN or build/bin."""

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
        for folder, names in (("bin", ("strobe", "strobe-sidecar")), ("lib", ("libstrobe_agent.so",))):
            (package / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy2(BIN / name, package / folder / name)


class AnyPythonSince39(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.py_limited_api = "cp39"


setup(
    cmdclass={"build_py": BuildWithPrograms, "bdist_wheel": AnyPythonSince39},
    ext_modules=[
        Extension(
            "strobe._trace",
            ["strobe/_trace.c"],
            include_dirs=[str(SDK)],
            define_macros=[("Py_LIMITED_API", "0x03090000")],
            extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wno-cast-function-type"],
            py_limited_api=True,
        )
    ],
)
