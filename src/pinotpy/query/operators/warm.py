"""Run the aggregation kernels once, so that no first query waits for a compiler.

Block functions are compiled (or loaded from the cache) when their module is imported; what Python calls by its argument
types is called here.
"""

from __future__ import annotations

import numpy as np

from pinotpy.functions.spec import functions
from pinotpy.kernels import abi, distributions, groups, hashing, merge, numbering, updates, walk
from pinotpy.kernels.result_context import G_SETS, ResultContext

BLOCK_MODULES = (distributions, groups, hashing, updates, walk)


def warm_aggregation_kernels() -> None:
    """Called by a server before it says that it is ready."""
    functions()
    merge.warm()
    numbering.warm()
    control = np.zeros(abi.CONTROL_WORDS, np.int64)
    context = ResultContext(control, row_words=1, num_sets=1)
    assert context.address and len(context.words) > G_SETS
    context.close()
