"""Indexes over the bounds and the partitions of a column: the segments that a value leaves are found without a look at
the others.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

Flags = NDArray[np.bool_]

# Segments that changed since an index was made, at most: each is compared by itself at every query.
STALE_MAX: Final = 32


class RangeIndex:
    """Finds the segments whose range of a column overlaps another, in time that grows with those that are found where
    ranges are about equally long, as those of time are. Made of what Bounds has.

    unknown: rows of the segments without a range, which overlap everything, and of those that changed since it was
        made: at most `num_stale`.
    """

    def __init__(self, known: Flags, low: NDArray[Any], high: NDArray[Any]) -> None:
        rows = np.flatnonzero(known)
        self._fill(known, rows[np.argsort(low[rows], kind="stable")], low, high)

    def _fill(self, known: Flags, rows: Int64Array, low: NDArray[Any], high: NDArray[Any]) -> None:
        """rows: those that are known, in the order of `low`."""
        self.unknown: Int64Array = np.flatnonzero(~known)
        self.num_stale = 0
        self._rows, self._low, self._high = rows, low[rows], high[rows]
        # How far all ranges that begin before reach: those before the first that reaches a value all end below it.
        self._reach = np.maximum.accumulate(self._high)

    def with_stale(self, rows: Int64Array) -> RangeIndex | None:
        """Of the same segments but those at `rows`, of which nothing is known here; None: too many changed."""
        return _with_stale(self, rows)

    def changed(self, source: Int64Array, known: Flags, low: NDArray[Any], high: NDArray[Any]) -> RangeIndex:
        """Of segments of which most are here, at `source`, in the same order of `low`; -1: others."""
        if self.num_stale:
            return RangeIndex(known, low, high)
        is_here = source >= 0
        moved = np.full(len(self._rows) + len(self.unknown), -1)
        moved[source[is_here]] = np.flatnonzero(is_here)
        rows = moved[self._rows]
        rows = rows[rows >= 0]
        new = np.flatnonzero(~is_here)
        new = new[known[new]]
        new = new[np.argsort(low[new], kind="stable")]
        index = RangeIndex.__new__(RangeIndex)
        index._fill(known, np.insert(rows, np.searchsorted(low[rows], low[new]), new), low, high)
        return index

    def overlapping(self, low: float, high: float) -> Int64Array:
        """Rows of the segments whose range has a value in [low, high], in no order, without `unknown`."""
        end, first = int(self._low.searchsorted(high, "right")), int(self._reach.searchsorted(low, "left"))
        if first >= end:
            return self._rows[:0]
        rows: Int64Array = self._rows[first:end][self._high[first:end] >= low]
        return rows


class PartitionIndex:
    """Finds the segments with a partition. Made of what PartitionedColumn has.

    unknown: rows of those without any, and of those that changed since it was made: at most `num_stale`.
    """

    def __init__(self, num_schemes: int, scheme: Int64Array, ids: Int64Array, starts: Int64Array) -> None:
        self.unknown: Int64Array = np.flatnonzero(scheme < 0)
        self.num_stale = 0
        rows = np.repeat(np.arange(len(scheme)), np.diff(starts))
        # Small numbers are sorted without comparisons.
        order = np.argsort(ids if ids.max(initial=0) >> 16 else ids.astype(np.uint16), kind="stable")
        if num_schemes > 1:
            order = order[np.argsort(scheme[rows[order]], kind="stable")]
        self._rows, self._ids = rows[order], ids[order]
        self._starts = np.searchsorted(scheme[self._rows], np.arange(num_schemes + 1))

    def with_stale(self, rows: Int64Array) -> PartitionIndex | None:
        """Of the same segments but those at `rows`, of which nothing is known here; None: too many changed."""
        return _with_stale(self, rows)

    def of_scheme(self, scheme: int) -> Int64Array:
        """Rows of all segments of a scheme, some more than once."""
        return self._rows[self._starts[scheme] : self._starts[scheme + 1]]

    def holding(self, scheme: int, partition: int) -> Int64Array:
        """Rows of the segments of a scheme that have the partition, ascending."""
        first, end = self._starts[scheme], self._starts[scheme + 1]
        ids = self._ids[first:end]
        low, high = np.searchsorted(ids, [partition, partition + 1])
        return self._rows[first + low : first + high]


_Index = TypeVar("_Index", RangeIndex, PartitionIndex)


def _with_stale(index: _Index, rows: Int64Array) -> _Index | None:
    """What it finds of a segment that changed says nothing: as all that is unknown, such a one is always found."""
    num_stale = index.num_stale + len(rows)
    if num_stale > STALE_MAX:
        return None
    changed = copy(index)
    changed.num_stale, changed.unknown = num_stale, np.concatenate([index.unknown, rows])
    return changed
