"""Proves that kernels stay inside their arrays: random queries with bounds checking compiled into every kernel, where
an index outside its array fails the run. Compiling all of them anew takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.full
def test_random_queries_stay_inside_their_arrays(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "PINOTPY_KERNEL_CACHE": str(tmp_path / "cache"),
        "PINOTPY_FUZZ": "500",
        "PINOTPY_FUZZ_START": "2000000",
    }
    command = [sys.executable, "-m", "pytest", str(FOLDER / "test_random_queries.py"), "-m", "not full"]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=2400, check=False, cwd=FOLDER.parents[1]
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert "20 passed" in ended.stdout
