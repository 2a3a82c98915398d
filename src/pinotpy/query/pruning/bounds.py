"""Bounds and partitions of one column in all segments, as arrays.

Texts are numbered in their order, so that bounds of every type are arrays of numbers. What is not known is a bound that
excludes nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.query.pruning.facts import NOT_KNOWN, Stored
from pinotpy.query.pruning.indexes import Flags, PartitionIndex, RangeIndex

# Texts of earlier segments that are kept, a segment: above that those that bound none any more are left out.
TEXTS_MAX: Final = 4
# Between which all values of a fixed type are.
_ENDS: Final[dict[StoredType, tuple[float, float]]] = {
    StoredType.INT: (-(1 << 31), (1 << 31) - 1),
    StoredType.LONG: (-(1 << 63), (1 << 63) - 1),
    StoredType.FLOAT: (-math.inf, math.inf),
    StoredType.DOUBLE: (-math.inf, math.inf),
}


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and greatest value of a column in each segment. What is made of them is kept.

    known: segments that have a range of the column; shape (n,) as all.
    low, high: both included; int64, or float64 of floating types; of texts numbers in `texts`, -1 and len(texts) where
        there is no bound.
    num_nulls: NOT_KNOWN where that is not known.
    texts: distinct, ascending; None of fixed types.
    """

    data_type: DataType
    known: Flags
    low: NDArray[Any]
    high: NDArray[Any]
    num_nulls: Int64Array
    texts: list[bytes] | None

    def part(self, rows: Int64Array) -> Bounds:
        """Of the segments at `rows`."""
        return Bounds(
            self.data_type, self.known[rows], self.low[rows], self.high[rows], self.num_nulls[rows], self.texts
        )

    def replaced(self, rows: Int64Array, added: Bounds) -> Bounds:
        """Of the same segments, at `rows` with the bounds of `added`, which has the same texts."""
        return Bounds(
            self.data_type,
            _replaced(self.known, rows, added.known),
            _replaced(self.low, rows, added.low),
            _replaced(self.high, rows, added.high),
            _replaced(self.num_nulls, rows, added.num_nulls),
            self.texts,
        )

    @cached_property
    def index(self) -> RangeIndex:
        """Over all segments."""
        return RangeIndex(self.known, self.low, self.high)

    @cached_property
    def listed(self) -> list[tuple[int, Any, Any]]:
        """(1 << row, low, high) of each segment that is known, of few segments."""
        bounds = enumerate(zip(self.known.tolist(), self.low.tolist(), self.high.tolist(), strict=True))
        return [(1 << row, low, high) for row, (is_known, low, high) in bounds if is_known]

    def changed(self, source: Int64Array, added: Bounds | None, stays: bool) -> Bounds:
        """Of segments of which each is here, at `source`, or where that is -1 the next one of `added`; None: nothing is
        known of these, as where they are of another type. stays: whether all that are here are at their places. An
        index that is here is made use of.
        """
        new = np.flatnonzero(source < 0)
        if added is None or added.data_type is not self.data_type:
            added = unknown_bounds(self.data_type, len(new))
        first, second = self, added
        if self.texts is not None and added.texts is not None:
            texts, unseen = self.texts, [text for text in added.texts if not _has(self.texts, text)]
            if unseen:
                before = [bisect_left(texts, text) for text in unseen]
                # A number grows by the new texts before it; what is above all stays so, and -1 below all.
                numbers = np.arange(len(texts) + 2)
                numbers += np.searchsorted(before, numbers, "right")
                numbers[-1] = -1
                texts = _merged(texts, unseen, before)
                first = self._numbered(numbers, texts)
            second = added._numbered(np.array([*(bisect_left(texts, t) for t in added.texts), len(texts), -1]), texts)
        changed = (first if stays else first.part(source)).replaced(new, second)
        if changed.texts is not None and len(changed.texts) > TEXTS_MAX * max(len(source), 1):
            changed = changed._without_old_texts()
        if "index" in self.__dict__:
            index = self.index.with_stale(new) if stays and changed.texts is self.texts else None
            if index is None:
                index = self.index.changed(source, changed.known, changed.low, changed.high)
            changed.__dict__["index"] = index
        return changed

    def _numbered(self, numbers: Int64Array, texts: list[bytes]) -> Bounds:
        """With other texts. numbers: of each text there, of what is above all, and -1 for what is below all."""
        return Bounds(self.data_type, self.known, numbers[self.low], numbers[self.high], self.num_nulls, texts)

    def _without_old_texts(self) -> Bounds:
        assert self.texts is not None
        ends = np.concatenate([self.low, self.high])
        used = np.unique(ends[(ends >= 0) & (ends < len(self.texts))])
        numbers = np.full(len(self.texts) + 2, -1)
        numbers[used] = np.arange(len(used))
        numbers[len(self.texts)] = len(used)
        return self._numbered(numbers, [self.texts[number] for number in used.tolist()])


def bounds_of(
    data_type: DataType,
    size: int,
    rows: Sequence[int],
    lows: Sequence[Stored | None],
    highs: Sequence[Stored | None],
    nulls: Sequence[int],
) -> Bounds:
    """Of `size` segments, of which those at `rows` have a range; None as an end: there is no bound."""
    texts: list[bytes] | None = None
    numbers: dict[Any, Any] = {}
    if data_type.stored.is_fixed:
        least, most = _ENDS[data_type.stored]
    else:
        texts = sorted({each for ends in (lows, highs) for each in ends if isinstance(each, bytes)})
        least, most = -1, len(texts)
        numbers = {text: number for number, text in enumerate(texts)}
    dtype = np.float64 if data_type.stored.is_floating else np.int64
    known, num_nulls = np.zeros(size, np.bool_), np.full(size, NOT_KNOWN, np.int64)
    known[rows], num_nulls[rows] = True, nulls

    def filled(ends: Sequence[Stored | None], unbounded: float) -> NDArray[Any]:
        array: NDArray[Any] = np.full(size, unbounded, dtype)
        array[rows] = [unbounded if each is None else numbers.get(each, each) for each in ends]
        return array

    return Bounds(data_type, known, filled(lows, least), filled(highs, most), num_nulls, texts)


def unknown_bounds(data_type: DataType, size: int) -> Bounds:
    """Of segments of which nothing is known."""
    return bounds_of(data_type, size, [], [], [], [])


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

    @staticmethod
    def nothing(size: int) -> PartitionedColumn:
        """Of segments that are not partitioned by it."""
        return PartitionedColumn((), np.full(size, -1, np.int64), np.zeros(0, np.int64), np.zeros(size + 1, np.int64))

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

    def replaced(self, rows: Int64Array, added: PartitionedColumn) -> PartitionedColumn | None:
        """Of the same segments, at `rows` those of `added`; None where these have other schemes, or more or fewer
        partitions. An index that is here is made use of.
        """
        firsts, counts = self.starts[rows], np.diff(added.starts)
        is_alike = np.array_equal(self.starts[rows + 1] - firsts, counts)
        if not is_alike or not set(added.schemes).issubset(self.schemes):
            return None
        moved = np.array([*map(self.schemes.index, added.schemes), -1], np.int64)
        places = np.arange(len(added.ids)) + np.repeat(firsts - added.starts[:-1], counts)
        replaced = PartitionedColumn(
            self.schemes,
            _replaced(self.scheme, rows, moved[added.scheme]),
            _replaced(self.ids, places, added.ids),
            self.starts,
        )
        if "index" in self.__dict__ and (index := self.index.with_stale(rows)) is not None:
            replaced.__dict__["index"] = index
        return replaced

    def joined(self, second: PartitionedColumn) -> PartitionedColumn:
        """Of the segments that are here, then those of `second`."""
        schemes = dict.fromkeys([*self.schemes, *second.schemes])
        places = {scheme: place for place, scheme in enumerate(schemes)}
        moved = np.array([*(places[scheme] for scheme in second.schemes), -1], np.int64)
        return PartitionedColumn(
            tuple(schemes),
            np.concatenate([self.scheme, moved[second.scheme]]),
            np.concatenate([self.ids, second.ids]),
            np.concatenate([self.starts, second.starts[1:] + self.starts[-1]]),
        )


def first_from(texts: list[bytes], value: bytes) -> int:
    """The number of the first text that is not below `value`."""
    return bisect_left(texts, value)


def _replaced(array: NDArray[Any], places: Int64Array, values: NDArray[Any]) -> NDArray[Any]:
    """With these values there; the same array where they are there already."""
    if np.array_equal(array[places], values):
        return array
    changed = array.copy()
    changed[places] = values
    return changed


def _has(texts: list[bytes], text: bytes) -> bool:
    place = bisect_left(texts, text)
    return texts[place : place + 1] == [text]


def _merged(texts: list[bytes], added: list[bytes], places: list[int]) -> list[bytes]:
    """`texts` with each of `added` before the text at its place; both ascend."""
    merged, begin = [], 0
    for text, place in zip(added, places, strict=True):
        merged += texts[begin:place]
        merged.append(text)
        begin = place
    return merged + texts[begin:] if added else texts
