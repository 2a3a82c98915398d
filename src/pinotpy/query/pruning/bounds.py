"""Bounds and partitions of one column in all segments, as arrays.

Texts are numbered in their order, so that bounds of every type are arrays of numbers. What is not known is a bound that
excludes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest value of a column in each segment.

    known: segments that have a range of the column, in the type that the query knows; shape (n,) as all.
    low, high: both included; int64, or float64 of floating types; of texts numbers in `texts`, -1 and len(texts) where
        there is no bound.
    num_nulls: NOT_KNOWN where that is not known.
    texts: distinct, ascending; None of fixed types.
    """

    known: Flags
    low: NDArray[Any]
    high: NDArray[Any]
    num_nulls: Int64Array
    texts: list[bytes] | None

    def part(self, rows: Int64Array) -> Bounds:
        """Of the segments at `rows`."""
        return Bounds(self.known[rows], self.low[rows], self.high[rows], self.num_nulls[rows], self.texts)


@dataclass(frozen=True, slots=True)
class PartitionedColumn:
    """Into which partitions the values of a column fall, in each segment.

    schemes: distinct (function, number of partitions); scheme: which of them a segment has, -1: none; shape (n,).
    ids, starts: the partitions of segment s are ids[starts[s]:starts[s + 1]].
    """

    schemes: tuple[tuple[str, int], ...]
    scheme: Int64Array
    ids: Int64Array
    starts: Int64Array

    def part(self, rows: Int64Array) -> PartitionedColumn:
        """Of the segments at `rows`."""
        counts = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        # Place i of the part is as far behind the start of its segment here as there.
        places = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], counts)
        return PartitionedColumn(self.schemes, self.scheme[rows], self.ids[places], starts)


def first_from(texts: list[bytes], value: bytes) -> int:
    """The number of the first text that is not below `value`."""
    return bisect_left(texts, value)
