"""Lists of values, many at once: rows are ranges of one flat array, so that no row is touched by Python.

A `Ragged` is what a multi-value argument is evaluated as; functions over it say which positions of the flat values
stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.scalar.spec import Value


@dataclass(frozen=True)
class Ragged:
    """Rows as ranges of `flat`: row i is flat[starts[i] : starts[i] + counts[i]], starts ascending and without gaps."""

    flat: pa.Array
    offsets: Int64Array  # (rows + 1,), from 0 to len(flat)

    @classmethod
    def of(cls, lists: Value) -> Ragged:
        """The rows of a pa.ListArray without nulls."""
        offsets = lists.offsets.to_numpy().astype(np.int64)
        return cls(lists.flatten(), offsets - (offsets[0] if len(offsets) else 0))

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def starts(self) -> Int64Array:
        return self.offsets[:-1]

    @cached_property
    def counts(self) -> Int64Array:
        return np.diff(self.offsets)

    @cached_property
    def row_of(self) -> Int64Array:
        """The row of each flat value."""
        return np.repeat(np.arange(self.rows), self.counts)

    @cached_property
    def ranks(self) -> NDArray[Any]:
        """A number for each flat value in the order of values (text by bytes); equal values have equal numbers."""
        if pa.types.is_string(self.flat.type) or pa.types.is_binary(self.flat.type):
            encoded = self.flat.dictionary_encode()
            order = pc.array_sort_indices(encoded.dictionary).to_numpy()
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            ranks: NDArray[Any] = rank[encoded.indices.to_numpy()]
            return ranks
        values: NDArray[Any] = self.flat.to_numpy(zero_copy_only=False)
        return values

    def lists(self) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), self.flat)

    def kept(self, keep: NDArray[np.bool_]) -> Ragged:
        """Only the flat values where `keep`, in their order."""
        before = np.concatenate(([0], np.cumsum(keep)))
        return Ragged(self.flat.filter(pa.array(keep)), before[self.offsets])

    def taken(self, positions: Int64Array, counts: Int64Array) -> Ragged:
        """Rows of `counts` values each, which are flat[positions]."""
        return Ragged(self.flat.take(pa.array(positions)), np.concatenate(([0], np.cumsum(counts))))

    def first(self, hits: NDArray[np.bool_]) -> Int64Array:
        """Position in `flat` of the first hit of every row, -1 where it has none, shape (rows,)."""
        positions = np.flatnonzero(hits)
        if not len(positions):
            return np.full(self.rows, -1, np.int64)
        following = np.minimum(np.searchsorted(positions, self.starts), len(positions) - 1)
        candidates = positions[following]
        return np.where((candidates >= self.starts) & (candidates < self.offsets[1:]), candidates, -1)


def ranges(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """starts[0], starts[0] + 1, …, counts[0] of them, then those of the next row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    positions: Int64Array = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return positions
