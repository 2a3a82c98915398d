"""Proves that shells complete commands and options, and that the script for it installs into the user's home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CALLED = "import sys; sys.argv[0] = 'pinotpy'; from pinotpy.cli.main import main; main()"


def run(home: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CALLED, *arguments],
        env={**os.environ, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    asked = {"_PINOTPY_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert set(run(tmp_path, COMP_WORDS="pinotpy delete-", **asked).split()) == {
        "delete-schema",
        "delete-table",
        "delete-segments",
    }
    asked["COMP_CWORD"] = "2"
    assert "--retention" in run(tmp_path, COMP_WORDS="pinotpy delete-segments --ret", **asked).split()


def test_the_script_is_installed_for_the_shell(tmp_path: Path) -> None:
    run(tmp_path, "--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "pinotpy" in (tmp_path / ".bashrc").read_text()
    scripts = [path for path in tmp_path.rglob("*") if path.is_file() and "_PINOTPY_COMPLETE" in path.read_text()]
    assert scripts
