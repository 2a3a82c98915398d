"""Proves that kernels run whose functions were compiled to be linked only: one process compiles them into a cache,
another loads and calls them. Loops, exceptions, functions of functions, and one that is a kernel of its own.
"""

from __future__ import annotations

from pathlib import Path

from kernel_programs import run_with_cache

FUNCTIONS = """
import numpy as np
from numba import njit

@njit(nogil=True)
def half(value):
    if value % 2:
        raise ValueError("odd")
    return value // 2

@njit(nogil=True)
def sum_of(values, times):
    total = 0.0
    for value in values:
        total += value * half(times)
    return total

@njit("int64(int64)", cache=True, nogil=True)
def next_of(value):
    return value + 1

@njit("float64(float64[::1], int64)", cache=True, nogil=True)
def kernel(values, times):
    return sum_of(values, times) + sum_of(values[1:], times) + half(next_of(5))
"""
COMPILE = """
import json
from pinotpy.kernels.linked_functions import link_functions_without_cache
link_functions_without_cache()
link_functions_without_cache()
import functions
callable_of = {name: type(next(iter(getattr(functions, name).overloads.values())).entry_point).__name__
               for name in ("half", "sum_of", "next_of", "kernel")}
print(json.dumps(callable_of))
"""
RUN = """
import json
import numpy as np
import pinotpy.kernels
from functions import kernel, next_of, half
values = np.arange(1001) / 4
try:
    kernel(values, 3)
    failure = ""
except ValueError as error:
    failure = str(error)
hits = [sum(each.stats.cache_hits.values()) for each in (kernel, next_of)]
print(json.dumps([hits, kernel(values, 8), next_of(1), half(4), failure]))
"""


def test_kernels_of_functions_that_are_only_linked_run_with_cache(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    made = run_with_cache(tmp_path, COMPILE)
    assert made["half"] == made["sum_of"] == "_LinkedOnly"
    assert "_LinkedOnly" not in (made["next_of"], made["kernel"])
    assert run_with_cache(tmp_path, RUN) == [[1, 1], 500.5 * 250 * 4 * 2 + 3, 2, 2, "odd"]
