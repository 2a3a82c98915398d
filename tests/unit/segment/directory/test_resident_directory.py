"""Proves that the bytes of segments in memory go back to the system when they are let go of, whatever was allocated
meanwhile: in a process of its own, since what the C library does with room that was freed depends on all that was
allocated before.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SIZE_BYTES = 20 << 20
SCRIPT = """
import sys
from pathlib import Path

import numpy as np

from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.directory.resident_directory import ResidentDirectory
from pinotpy.server.idle_memory import own_memory_bytes

directory, others = ResidentDirectory(FileDirectory(Path(sys.argv[1]))), []

def read():
    data = directory.map("columns")
    others.append(np.ones(1000))
    return data

read()
before = own_memory_bytes()
files = [read() for _ in range(3)]
full = own_memory_bytes()
files.clear()
print(full - before, own_memory_bytes() - before)
"""


def test_bytes_that_were_let_go_of_go_back_to_the_system(tmp_path: Path) -> None:
    (tmp_path / "columns").write_bytes(bytes(SIZE_BYTES))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    full, left = map(int, done.stdout.split())
    assert full > 2.5 * SIZE_BYTES and left < SIZE_BYTES / 4, (full, left)
