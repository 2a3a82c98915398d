"""Indexes over the bounds and the partitions of a column: the segments that a value leaves are found without a look at
the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

Flags = NDArray[np.bool_]


class RangeIndex:
    """Finds the segments whose range of a column overlaps another, in time that grows with those that are found where
    ranges are about equally long, as those of time are. Made of what Bounds has.

    unknown: rows of the segments without a range, which overlap everything.
    """

    def __init__(self, known: Flags, low: NDArray[Any], high: NDArray[Any]) -> None:
        rows = np.flatnonzero(known)
        self.unknown: Int64Array = np.flatnonzero(~known)
        self._rows: Int64Array = rows[np.argsort(low[rows], kind="stable")]
        self._low, self._high = low[self._rows], high[self._rows]
        # How far all ranges that begin before reach: those before the first that reaches a value all end below it.
        self._reach = np.maximum.accumulate(self._high)

    def overlapping(self, low: float, high: float) -> Int64Array:
        """Rows of the segments whose range has a value in [low, high], in no order, without `unknown`."""
        end = int(np.searchsorted(self._low, high, "right"))
        first = int(np.searchsorted(self._reach, low, "left"))
        if first >= end:
            return self._rows[:0]
        rows: Int64Array = self._rows[first:end][self._high[first:end] >= low]
        return rows


class PartitionIndex:
    """Finds the segments with a partition. Made of what PartitionedColumn has. unknown: rows of those without any."""

    def __init__(self, num_schemes: int, scheme: Int64Array, ids: Int64Array, starts: Int64Array) -> None:
        self.unknown: Int64Array = np.flatnonzero(scheme < 0)
        rows = np.repeat(np.arange(len(scheme)), np.diff(starts))
        order = np.argsort(ids, kind="stable")
        if num_schemes > 1:
            order = order[np.argsort(scheme[rows[order]], kind="stable")]
        self._rows, self._ids = rows[order], ids[order]
        self._starts = np.searchsorted(scheme[self._rows], np.arange(num_schemes + 1))

    def of_scheme(self, scheme: int) -> Int64Array:
        """Rows of all segments of a scheme, some more than once."""
        return self._rows[self._starts[scheme] : self._starts[scheme + 1]]

    def holding(self, scheme: int, partition: int) -> Int64Array:
        """Rows of the segments of a scheme that have the partition, ascending."""
        first, end = self._starts[scheme], self._starts[scheme + 1]
        ids = self._ids[first:end]
        low, high = np.searchsorted(ids, [partition, partition + 1])
        return self._rows[first + low : first + high]
