"""Sorted dictionaries, read in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.kernels.text.ordered_bytes import bytes_lower_bound

Stored = int | float | bytes


class FixedDictionary:
    """Distinct values of a fixed type, ascending, shape (cardinality,)."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self.cardinality = len(values)

    def value(self, dict_id: int) -> Stored:
        value: int | float = self._values[dict_id].item()
        return value

    def index_of(self, value: Stored) -> int:
        position = self.lower_bound(value)
        return position if position < self.cardinality and self._values[position].item() == value else -1

    def lower_bound(self, value: Stored) -> int:
        return self._bound(value, "left")

    def upper_bound(self, value: Stored) -> int:
        return self._bound(value, "right")

    def _bound(self, value: Stored, side: Any) -> int:
        assert not isinstance(value, bytes)
        if isinstance(value, float) and math.isnan(value):
            # NaN sorts after everything, and no dictionary holds one.
            return self.cardinality
        dtype = self._values.dtype
        if dtype.kind == "i":
            if isinstance(value, float):
                return self._bound_of_float(value, side)
            # A value outside the type would be compared as a float and lose its last digits.
            limits = np.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                return 0 if value < limits.min else self.cardinality
            return int(self._values.searchsorted(dtype.type(value), side))
        if dtype.itemsize == 8 and isinstance(value, float):
            return int(self._values.searchsorted(value, side))
        return self._bisect(value, side)

    def _bound_of_float(self, value: float, side: str) -> int:
        if value in (float("inf"), float("-inf")):
            return 0 if value < 0 else self.cardinality
        whole = int(value // 1)
        return self._bound(whole, side) if whole == value else self._bound(whole, "right")

    def _bisect(self, value: int | float, side: str) -> int:
        # Python compares int with float exactly; numpy would round the value to the dictionary's type first.
        low, high = 0, self.cardinality
        while low < high:
            middle = (low + high) >> 1
            candidate = self._values[middle].item()
            if candidate < value or (side == "right" and candidate == value):
                low = middle + 1
            else:
                high = middle
        return low

    def values(self) -> NDArray[Any]:
        return self._values

    def arrow(self) -> pa.Array:
        return pa.array(self._values)


class VarDictionary:
    """Distinct byte strings, ascending by bytes: offsets int32, shape (cardinality + 1,), and their bytes."""

    def __init__(self, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> None:
        self._offsets = offsets
        self._data = data
        self.cardinality = len(offsets) - 1

    def value(self, dict_id: int) -> Stored:
        if not 0 <= dict_id < self.cardinality:
            raise IndexError(f"dict id {dict_id} of {self.cardinality}")
        return self._data[self._offsets[dict_id] : self._offsets[dict_id + 1]].tobytes()

    def index_of(self, value: Stored) -> int:
        position = self.lower_bound(value)
        return position if position < self.cardinality and self.value(position) == value else -1

    def lower_bound(self, value: Stored) -> int:
        assert isinstance(value, bytes)
        return int(bytes_lower_bound(self._offsets, self._data, np.frombuffer(value, np.uint8)))

    def upper_bound(self, value: Stored) -> int:
        position = self.lower_bound(value)
        return position + 1 if position < self.cardinality and self.value(position) == value else position

    def values(self) -> NDArray[Any]:
        raise AssertionError("a VAR dictionary has no array of values: use arrow()")

    def arrow(self) -> pa.Array:
        return pa.Array.from_buffers(
            pa.binary(), self.cardinality, [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        )
