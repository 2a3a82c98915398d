"""Proves that what daemons import has byte code afterwards, also where Python may write none."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest

from pinotpy.cli.byte_code import byte_code_beside


@pytest.mark.full
def test_modules_of_daemons_have_byte_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PYTHONPYCACHEPREFIX", str(tmp_path)), ("PYTHONDONTWRITEBYTECODE", "1")):
        monkeypatch.setenv(name, value)
    with byte_code_beside() as wait:
        wait()
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    for name in (
        "numba.core.dispatcher",
        "numba.np.arrayobj",
        "pyarrow.compute",
        "pinotpy.server.service",
        "kazoo.client",
    ):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None and Path(cache_from_source(spec.origin)).is_file(), name


@pytest.mark.full
def test_a_folder_that_cannot_be_written_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "file")}
    program = "from pinotpy.cli import byte_code; byte_code._IMPORTED = (); byte_code.write_byte_code()"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
