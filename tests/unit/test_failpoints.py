"""Proves that a point does what a test asks for, in one process and once, and nothing where nobody asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pinotpy import failpoints
from pinotpy.failpoints import FailPoint

PROGRAM = "from pinotpy.failpoints import FailPoint as F, reach; reach(F.BUILT); reach(F.SEALED); print('on')"


def run(folder: Path | None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PINOTPY_FAILPOINTS"}
    if folder is not None:
        environment["PINOTPY_FAILPOINTS"] = str(folder)
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_done_where_nobody_asks(tmp_path: Path) -> None:
    assert run(None).stdout == run(tmp_path).stdout == "on\n"


def test_one_process_ends_and_the_next_one_does_not(tmp_path: Path) -> None:
    (tmp_path / FailPoint.SEALED).write_text("kill\n")
    assert run(tmp_path).returncode == -signal.SIGKILL
    assert [each.name.split(".")[0] for each in tmp_path.iterdir()] == [FailPoint.SEALED]
    assert run(tmp_path).stdout == "on\n"


def test_what_is_no_action_is_told(tmp_path: Path) -> None:
    (tmp_path / FailPoint.BUILT).write_text("explode")
    with pytest.raises(ValueError, match="expected one of kill, stop"):
        failpoints.act(tmp_path, FailPoint.BUILT)


def test_a_name_that_is_no_point_is_told(tmp_path: Path) -> None:
    (tmp_path / "S99").write_text("kill")
    with pytest.raises(ValueError, match="no failpoint is called 'S99': expected one of S1, "):
        failpoints.act(tmp_path, FailPoint.BUILT)
