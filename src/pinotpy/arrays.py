"""Names of array types that the whole engine uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Row numbers, offsets, addresses, words of states: one-dimensional unless a docstring gives another shape.
Int64Array = NDArray[np.int64]
