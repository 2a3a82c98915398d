"""Adding where several values meet in one place: of a few rows by numpy, of many by a kernel.

numpy holds Python's lock as long as it adds at places, 25 ms for three million values and several times a sum, and
nothing else in the process is answered meanwhile; the kernel takes 15 ms and does not.
"""

from __future__ import annotations

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.grouping import KERNEL_ROWS


def add_at(total: Int64Array, places: Int64Array, values: Int64Array) -> None:
    """Add values[i] to total[places[i]], wrapping; every place must be one of `total`, which is contiguous."""
    if len(places) < KERNEL_ROWS:
        np.add.at(total, places, values)
        return
    from pinotpy.kernels.aggregate.row_states import scatter_add

    # Contiguous, and not of Arrow's arrays that nobody may write: for these numba would compile another kernel.
    scatter_add(total, np.require(places, requirements=("C", "W")), np.require(values, requirements=("C", "W")))
