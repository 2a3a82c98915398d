"""The facts of all segments of a table, a column at a time: a condition is compared with all segments at once. Arrays
and indexes of a column are made when the first query needs them, and kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn, joined_bounds, joined_partitions
from pinotpy.query.pruning.facts import NOT_KNOWN, SegmentFacts, ValueRange
from pinotpy.query.pruning.indexes import Flags

# One segment in so many may be another for arrays to be made of those before.
NEW_PART_MAX: Final = 8
# Texts that arrays of earlier segments may keep, a segment: some bound none any more.
TEXTS_MAX: Final = 4
_NUM_DOCS: Final = attrgetter("num_docs")
_SLICE: Final = 1_000
# Between which all values of a fixed type are.
_ENDS: Final[dict[StoredType, tuple[float, float]]] = {
    StoredType.INT: (-(1 << 31), (1 << 31) - 1),
    StoredType.LONG: (-(1 << 63), (1 << 63) - 1),
    StoredType.FLOAT: (-math.inf, math.inf),
    StoredType.DOUBLE: (-math.inf, math.inf),
}


class Facts(ABC):
    """n segments. num_docs: int64[n], NOT_KNOWN where that is not known; has_empty: whether it is 0 anywhere. Never
    changed; what is made of a column is kept.
    """

    def __init__(self, num_docs: Int64Array) -> None:
        self.num_docs = num_docs
        self.has_empty = not num_docs.all()
        self._bounds: dict[tuple[str, DataType], Bounds | None] = {}
        self._partitions: dict[str, PartitionedColumn | None] = {}

    def __len__(self) -> int:
        return len(self.num_docs)

    def bounds(self, column: str, data_type: DataType) -> Bounds | None:
        """None if no segment has a range of the column in this type."""
        key = column, data_type
        try:
            return self._bounds[key]
        except KeyError:
            found = self._bounds[key] = self._collect(column, data_type)
            return found

    def partitions(self, column: str) -> PartitionedColumn | None:
        """None if no segment is partitioned by the column."""
        try:
            return self._partitions[column]
        except KeyError:
            found = self._partitions[column] = self._collect_partitions(column)
            return found

    @abstractmethod
    def _collect(self, column: str, data_type: DataType) -> Bounds | None: ...

    @abstractmethod
    def _collect_partitions(self, column: str) -> PartitionedColumn | None: ...


class FactsTable(Facts):
    """The segments of a table, by name in `names`. previous: the table as it was before; columns that it has arrays of
    are made of these where few segments are others.
    """

    def __init__(self, facts: Mapping[str, SegmentFacts], previous: FactsTable | None = None) -> None:
        self.names = tuple(facts)
        self._facts: Sequence[SegmentFacts] = tuple(facts.values())
        super().__init__(np.fromiter(map(_NUM_DOCS, self._facts), np.int64, len(self._facts)))
        if previous is not None:
            self._take_over(previous)

    def part(self, rows: Int64Array) -> Facts:
        """The segments at `rows`, shape (m,), ascending."""
        return _Part(self, rows)

    def _collect(self, column: str, data_type: DataType) -> Bounds | None:
        bounds = _bounds(self._facts, column, data_type)
        return bounds if bounds.known.any() else None

    def _collect_partitions(self, column: str) -> PartitionedColumn | None:
        partitions = _partitions(self._facts, column)
        return partitions if partitions.schemes else None

    def _take_over(self, previous: FactsTable) -> None:
        source = _sources(self._facts, previous._facts)
        new = np.flatnonzero(source < 0)
        if len(new) * NEW_PART_MAX > len(self):
            return
        facts = [self._facts[row] for row in new.tolist()]
        # Where each segment stands in the old ones and the new ones behind them.
        places = source.copy()
        places[new] = len(previous) + np.arange(len(new))
        for (column, data_type), bounds in previous._bounds.items():
            of_new = _bounds(facts, column, data_type)
            if bounds is None:
                if not of_new.known.any():
                    self._bounds[column, data_type] = None
            elif bounds.texts is None or len(bounds.texts) <= TEXTS_MAX * len(self):
                joined = joined_bounds(bounds, of_new).part(places)
                self._bounds[column, data_type] = joined if joined.known.any() else None
        for column, partitions in previous._partitions.items():
            of_new_ones = _partitions(facts, column)
            if partitions is not None:
                self._partitions[column] = joined_partitions(partitions, of_new_ones).part(places)
            elif not of_new_ones.schemes:
                self._partitions[column] = None


def _sources(facts: Sequence[SegmentFacts], before: Sequence[SegmentFacts]) -> Int64Array:
    """Of every segment the place of the same facts in `before`, -1: none. Most stand before or behind what changed."""
    length = min(len(facts), len(before))
    first = _num_alike(facts, before, length)
    last = _num_alike(facts[::-1], before[::-1], length - first)
    source = np.arange(len(facts))
    source[len(facts) - last :] += len(before) - len(facts)
    rows = {id(before[row]): row for row in range(first, len(before) - last)}
    for row in range(first, len(facts) - last):
        source[row] = rows.get(id(facts[row]), -1)
    return source


def _num_alike(facts: Sequence[SegmentFacts], before: Sequence[SegmentFacts], length: int) -> int:
    """At how many places from the first one on both are equal. Slices of the same objects are compared without a look
    at what is in them.
    """
    for begin in range(0, length, _SLICE):
        end = min(begin + _SLICE, length)
        if facts[begin:end] != before[begin:end]:
            return next(place for place in range(begin, end) if facts[place] != before[place])
    return length


class _Part(Facts):
    def __init__(self, table: FactsTable, rows: Int64Array) -> None:
        super().__init__(table.num_docs[rows])
        self._table, self._rows = table, rows

    def _collect(self, column: str, data_type: DataType) -> Bounds | None:
        bounds = self._table.bounds(column, data_type)
        return None if bounds is None else bounds.part(self._rows)

    def _collect_partitions(self, column: str) -> PartitionedColumn | None:
        partitions = self._table.partitions(column)
        return None if partitions is None else partitions.part(self._rows)


def _bounds(facts: Sequence[SegmentFacts], column: str, data_type: DataType) -> Bounds:
    ranges = [each.ranges.get(column) for each in facts]
    usable = [each if each is not None and each.data_type is data_type else None for each in ranges]
    known = np.array([each is not None for each in usable], np.bool_)
    nulls = np.array([NOT_KNOWN if each is None else each.num_nulls for each in usable], np.int64)
    if not data_type.stored.is_fixed:
        return _text_bounds(usable, known, nulls)
    least, most = _ENDS[data_type.stored]
    dtype = np.float64 if data_type.stored.is_floating else np.int64
    low = np.array([least if each is None or each.low is None else each.low for each in usable], dtype)
    high = np.array([most if each is None or each.high is None else each.high for each in usable], dtype)
    return Bounds(known, low, high, nulls, None)


def _text_bounds(usable: Sequence[ValueRange | None], known: Flags, nulls: Int64Array) -> Bounds:
    texts = sorted(
        {bound for each in usable if each is not None for bound in (each.low, each.high) if isinstance(bound, bytes)}
    )
    numbers: dict[Any, int] = {text: number for number, text in enumerate(texts)}
    low = np.array([-1 if each is None or each.low is None else numbers[each.low] for each in usable], np.int64)
    high = np.array(
        [len(texts) if each is None or each.high is None else numbers[each.high] for each in usable], np.int64
    )
    return Bounds(known, low, high, nulls, texts)


def _partitions(facts: Sequence[SegmentFacts], column: str) -> PartitionedColumn:
    schemes: dict[tuple[str, int], int] = {}
    scheme = np.full(len(facts), -1, np.int64)
    starts = np.zeros(len(facts) + 1, np.int64)
    ids: list[int] = []
    for row, each in enumerate(facts):
        partitions = each.partitions
        if partitions is not None and partitions.column == column:
            key = partitions.function_name.lower(), partitions.num_partitions
            scheme[row] = schemes.setdefault(key, len(schemes))
            ids.extend(partitions.ids)
        starts[row + 1] = len(ids)
    return PartitionedColumn(tuple(schemes), scheme, np.array(ids, np.int64), starts)
