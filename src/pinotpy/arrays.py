"""Names of array types that the whole engine uses, and what numpy lacks."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# Row numbers, offsets, addresses, words of states: one-dimensional unless a docstring gives another shape.
Int64Array = NDArray[np.int64]

_Number = TypeVar("_Number", bound=np.generic)


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """The values, each once, ascending; NaN as often as it is there.

    numpy's `unique` hashes from version 2.3 on: three million numbers take 1.5 s instead of 0.04, and Python's
    lock for a part of it.
    """
    ascending = np.sort(values)
    is_first = np.empty(len(ascending), np.bool_)
    is_first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]
