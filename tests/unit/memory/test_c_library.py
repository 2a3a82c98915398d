"""Proves that the threads of a daemon take memory from few of the C library's arenas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pinotpy.memory.c_library import MALLOC_TRIM

# Threads that all have memory at one moment; then the C library tells its arenas.
PROGRAM = """
import ctypes, sys, threading
from pinotpy.memory.c_library import limit_arenas

if sys.argv[2] == "limited":
    limit_arenas()
library = ctypes.CDLL(None)
library.malloc.restype = library.fopen.restype = ctypes.c_void_p
library.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
library.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
library.fclose.argtypes = [ctypes.c_void_p]
together = threading.Barrier(9)

def take():
    library.malloc(1000)
    together.wait()

threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
together.wait()
file = library.fopen(sys.argv[1].encode(), b"w")
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(MALLOC_TRIM is None, reason="the C library is not glibc")
def test_threads_share_arenas_unless_the_environment_says_otherwise(tmp_path: Path) -> None:
    def num_arenas(argument: str, **environment: str) -> int:
        told = tmp_path / "arenas.xml"
        inherited = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
        command = [sys.executable, "-c", PROGRAM, str(told), argument]
        subprocess.run(command, env={**inherited, **environment}, check=True)
        return told.read_text().count("<heap nr=")

    few = max(2, len(os.sched_getaffinity(0)) // 4)
    assert num_arenas("limited") <= few
    assert num_arenas("") > few or few > 8
    assert num_arenas("limited", MALLOC_ARENA_MAX="5") > 2
