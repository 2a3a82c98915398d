"""What pyproject.toml cannot say: the .pth file that lets Python find `pinotpy`, and the marker of typed packages."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PTH, SOURCES = "pinotpy_client.pth", "pinotpy_client/sources"


class BuildClient(build_py):
    def run(self) -> None:
        # A module that is gone from the list would stay from an earlier build.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        built = Path(self.build_lib)
        (built / PTH).write_text(f"{SOURCES}\n")
        (built / SOURCES / "pinotpy" / "py.typed").touch()


setup(cmdclass={"build_py": BuildClient})
