"""Proves that kernels whose bitcode stays packed run, and can still be linked by what is compiled later: with a
function that one process compiles into a cache and another loads.
"""

from __future__ import annotations

from pathlib import Path

from kernel_programs import run_with_cache

FUNCTION = """
from numba import njit

@njit("int64(int64)", cache=True)
def doubled(value):
    return 2 * value
"""
PROGRAM = """
import json, sys
from pinotpy.kernels.packed_bitcode import keep_bitcode_packed
keep_bitcode_packed()
keep_bitcode_packed()
from numba import njit
from function import doubled
(loaded,) = doubled.overloads.values()
before = loaded.library._shared_module is None, loaded.library._packed_module is not None
hits = sum(doubled.stats.cache_hits.values())
value = doubled(21)

@njit("int64(int64)")
def doubled_twice(value):
    return doubled(doubled(value))

print(json.dumps([hits, *before, value, doubled_twice(3), loaded.library._shared_module is not None]))
"""


def test_a_kernel_with_packed_bitcode_runs_and_is_linked(tmp_path: Path) -> None:
    (tmp_path / "function.py").write_text(FUNCTION)
    run_with_cache(tmp_path, "import pinotpy.kernels, function")
    assert run_with_cache(tmp_path, PROGRAM) == [1, True, True, 42, 12, True]
