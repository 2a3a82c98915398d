"""Shared codes of a column: numbers of its values that mean the same in all segments of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array


class Numbering(Protocol):
    """What gives the values of shared codes."""

    def values(self, ids: NDArray[np.integer[Any]]) -> pa.Array: ...


class TextIds(Numbering, Protocol):
    """Shared codes of raw texts, made for a query (project/text_codes.py): all are below `num_ids`."""

    num_ids: int

    def same(self) -> NDArray[np.int32]:
        """int32[num_ids], every id itself."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """num_ids: all shared codes are below it. code maps: int64[num_segments], address of int32[cardinality], 0 for
    segments without units. ascending: bool[num_segments], the code map ascends, so that walking it walks memory
    forwards.
    """

    num_ids: int
    code_maps: Int64Array
    ascending: NDArray[np.bool_]
    _ids: Numbering

    def values(self, ids: NDArray[np.integer[Any]]) -> pa.Array:
        """The values of shared codes, in stored form (int32, int64, float32, float64, binary)."""
        return self._ids.values(ids)
