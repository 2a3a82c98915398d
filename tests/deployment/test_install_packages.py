"""Proves that deploy/install_packages.py, with which `make` installs, tells what pip is at while pip is silent, returns
its status, and shows all that it said if it fails: with pip itself, and projects on this disk, one slow to build.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "install_packages.py"
# A build backend in the project itself, so that pip asks no index: it waits for the test before it builds.
BACKEND = """
import base64, hashlib, pathlib, time, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    with zipfile.ZipFile(pathlib.Path(folder, "slow-1.0-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("slow.py", "")
        wheel.writestr("slow-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: slow\\nVersion: 1.0\\n")
        wheel.writestr("slow-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("slow-1.0.dist-info/RECORD", "")
    return "slow-1.0-py3-none-any.whl"
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    project = tmp_path / "slow"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "slow"\nversion = "1.0"\n'
    )
    (project / "backend.py").write_text(BACKEND)
    return project


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--no-index", "--no-deps", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "INSTALL_TELL_EVERY_S": "0.05"},
    )


def test_a_slow_build_is_told_of_until_it_ends(slow: Path, tmp_path: Path) -> None:
    run = start("--target", str(tmp_path / "there"), str(slow))
    assert run.stdout is not None
    first = run.stdout.readline()
    assert first.startswith("installing ") and str(slow) in first
    told: list[str] = []
    while len(told) < 3:
        line = run.stdout.readline()
        assert line, "ended before the build could go on"
        told += [line] if "preparing metadata" in line else []
    (slow / "go").touch()
    rest, faults = run.communicate(timeout=120)
    assert run.returncode == 0, faults
    assert rest.splitlines()[-1].startswith("installed in ") and (tmp_path / "there" / "slow.py").is_file()


def test_what_pip_said_is_shown_if_it_fails(tmp_path: Path) -> None:
    run = start("--target", str(tmp_path / "there"), "no-such-project")
    _, faults = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "No matching distribution found for no-such-project" in faults and "pip ended with status 1" in faults
