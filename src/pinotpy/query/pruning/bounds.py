"""Bounds and partitions of one column in all segments, as arrays.

Texts are numbered in their order, so that bounds of every type are arrays of numbers. What is not known is a bound that
excludes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.query.pruning.indexes import Flags, PartitionIndex, RangeIndex


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and greatest value of a column in each segment. What is made of them is kept.

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

    @cached_property
    def index(self) -> RangeIndex:
        """Over all segments."""
        return RangeIndex(self.known, self.low, self.high)

    @cached_property
    def listed(self) -> list[tuple[int, Any, Any]]:
        """(1 << row, low, high) of each segment that is known, of few segments."""
        bounds = enumerate(zip(self.known.tolist(), self.low.tolist(), self.high.tolist(), strict=True))
        return [(1 << row, low, high) for row, (is_known, low, high) in bounds if is_known]


@dataclass(frozen=True, eq=False)
class PartitionedColumn:
    """Into which partitions the values of a column fall, in each segment. What is made of them is kept.

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

    @cached_property
    def index(self) -> PartitionIndex:
        """Over all segments."""
        return PartitionIndex(len(self.schemes), self.scheme, self.ids, self.starts)

    @cached_property
    def listed(self) -> list[list[tuple[int, list[int]]]]:
        """By scheme (1 << row, ids) of each segment that has it, of few segments."""
        listed: list[list[tuple[int, list[int]]]] = [[] for _ in self.schemes]
        ids, ends = self.ids.tolist(), pairwise(self.starts.tolist())
        for row, (scheme, (first, end)) in enumerate(zip(self.scheme.tolist(), ends, strict=True)):
            if scheme >= 0:
                listed[scheme].append((1 << row, ids[first:end]))
        return listed


def first_from(texts: list[bytes], value: bytes) -> int:
    """The number of the first text that is not below `value`."""
    return bisect_left(texts, value)


def joined_bounds(first: Bounds, second: Bounds) -> Bounds:
    """Of the segments of `first`, then those of `second`, which are few; of one type."""
    low, high, texts = second.low, second.high, first.texts
    first_low, first_high = first.low, first.high
    if texts is not None and second.texts is not None:
        added = [text for text in second.texts if texts[(at := bisect_left(texts, text)) : at + 1] != [text]]
        places = [bisect_left(texts, text) for text in added]
        first_low, first_high = (each + np.searchsorted(places, each, "right") for each in (first_low, first_high))
        texts = _merged(texts, added, places)
        # Numbers of the second's texts among all, and behind them what is above all; -1 stays.
        numbers = np.array([*(bisect_left(texts, text) for text in second.texts), len(texts), -1], np.int64)
        low, high = numbers[low], numbers[high]
    return Bounds(
        np.concatenate([first.known, second.known]),
        np.concatenate([first_low, low]),
        np.concatenate([first_high, high]),
        np.concatenate([first.num_nulls, second.num_nulls]),
        texts,
    )


def _merged(texts: list[bytes], added: list[bytes], places: list[int]) -> list[bytes]:
    """`texts` with each of `added` before the text at its place; both ascend."""
    merged, begin = [], 0
    for text, place in zip(added, places, strict=True):
        merged += texts[begin:place]
        merged.append(text)
        begin = place
    return merged + texts[begin:] if added else texts


def joined_partitions(first: PartitionedColumn, second: PartitionedColumn) -> PartitionedColumn:
    """Of the segments of `first`, then those of `second`."""
    schemes = dict.fromkeys([*first.schemes, *second.schemes])
    places = {scheme: place for place, scheme in enumerate(schemes)}
    moved = np.array([*(places[scheme] for scheme in second.schemes), -1], np.int64)
    return PartitionedColumn(
        tuple(schemes),
        np.concatenate([first.scheme, moved[second.scheme]]),
        np.concatenate([first.ids, second.ids]),
        np.concatenate([first.starts, second.starts[1:] + first.starts[-1]]),
    )
