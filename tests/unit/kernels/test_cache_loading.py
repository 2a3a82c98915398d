"""Proves that cached kernels run without numba's tables of types and implementations, and that a kernel which has to
be compiled afterwards is, also where it calls one of them. In a process of its own: numba's state is the process's.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
from pinotpy.kernels.cache_loading import load_without_compiler

load_without_compiler()
from numba import njit
from pinotpy.kernels.codec import posting_builder

ids = np.array([2, 0, 1, 2], np.uint32)
expected = ([0, 1, 2, 4], [1, 2, 0, 3])
offsets, docs = posting_builder.inverted_index(ids, 3)
assert (offsets.tolist(), docs.tolist()) == expected
has_compiler = "numba.np.npyimpl" in sys.modules

fill = posting_builder._fill_single
@njit
def late(ids, offsets, docs):
    fill(ids, offsets, docs)
    return docs.sum() + np.log2(np.float64(len({(1, 2), (3, 4)})))

offsets, docs = np.zeros(4, np.uint32), np.zeros(4, np.int32)
assert late(ids, offsets, docs) == 7 and (offsets.tolist(), docs.tolist()) == expected
assert "numba.np.npyimpl" in sys.modules
print(has_compiler)
"""


# What a broker does with its first answers of many groups; nobody told this process how to load.
MERGE = """
import sys
import numpy as np
from pinotpy.functions.state.grouping import KERNEL_ROWS, number_keys

number_keys(np.arange(2 * KERNEL_ROWS))
assert "numba" in sys.modules
print("numba.np.npyimpl" in sys.modules)
"""


@pytest.mark.parametrize("script", [SCRIPT, MERGE], ids=["a server's", "a broker's merge"])
def test_cached_kernels_need_no_compiler_and_others_still_get_it(script: str) -> None:
    for _ in range(2):  # the first one may find no code in the cache
        done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"
