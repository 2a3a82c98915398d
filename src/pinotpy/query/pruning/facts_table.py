"""The facts of all segments of a table in arrays, a column at a time: a condition is compared with all of them at once.

Texts are numbered in their order, so that bounds of every type are arrays of numbers. What is not known is a bound that
excludes nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.query.pruning.facts import NOT_KNOWN, SegmentFacts, ValueRange

Flags = NDArray[np.bool_]
# Between which all values of a fixed type are.
_ENDS: Final[dict[StoredType, tuple[float, float]]] = {
    StoredType.INT: (-(1 << 31), (1 << 31) - 1),
    StoredType.LONG: (-(1 << 63), (1 << 63) - 1),
    StoredType.FLOAT: (-math.inf, math.inf),
    StoredType.DOUBLE: (-math.inf, math.inf),
}


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


class FactsTable:
    """n segments. num_docs: int64[n], NOT_KNOWN where that is not known. Never changed; what is made of a column is
    kept.
    """

    def __init__(self, facts: Mapping[str, SegmentFacts]) -> None:
        self.names = tuple(facts)
        self._facts: Sequence[SegmentFacts] = tuple(facts.values())
        self.num_docs: Int64Array = np.array([each.num_docs for each in self._facts], np.int64)
        self._bounds: dict[tuple[str, DataType], Bounds | None] = {}
        self._partitions: dict[str, PartitionedColumn | None] = {}

    def __len__(self) -> int:
        return len(self.names)

    def bounds(self, column: str, data_type: DataType) -> Bounds | None:
        """None if no segment has a range of the column in this type."""
        key = column, data_type
        if key not in self._bounds:
            self._bounds[key] = self._collect(column, data_type)
        return self._bounds[key]

    def partitions(self, column: str) -> PartitionedColumn | None:
        """None if no segment is partitioned by the column."""
        if column not in self._partitions:
            self._partitions[column] = self._collect_partitions(column)
        return self._partitions[column]

    def _collect(self, column: str, data_type: DataType) -> Bounds | None:
        ranges = [facts.ranges.get(column) for facts in self._facts]
        usable = [each if each is not None and each.data_type is data_type else None for each in ranges]
        known = np.array([each is not None for each in usable], np.bool_)
        if not known.any():
            return None
        nulls = np.array([NOT_KNOWN if each is None else each.num_nulls for each in usable], np.int64)
        if not data_type.stored.is_fixed:
            return _text_bounds(usable, known, nulls)
        least, most = _ENDS[data_type.stored]
        dtype = np.float64 if data_type.stored.is_floating else np.int64
        low = np.array([least if each is None or each.low is None else each.low for each in usable], dtype)
        high = np.array([most if each is None or each.high is None else each.high for each in usable], dtype)
        return Bounds(known, low, high, nulls, None)

    def _collect_partitions(self, column: str) -> PartitionedColumn | None:
        schemes: dict[tuple[str, int], int] = {}
        scheme = np.full(len(self), -1, np.int64)
        starts = np.zeros(len(self) + 1, np.int64)
        ids: list[int] = []
        for row, facts in enumerate(self._facts):
            each = facts.partitions
            if each is not None and each.column == column:
                key = each.function_name.lower(), each.num_partitions
                scheme[row] = schemes.setdefault(key, len(schemes))
                ids.extend(each.ids)
            starts[row + 1] = len(ids)
        return PartitionedColumn(tuple(schemes), scheme, np.array(ids, np.int64), starts) if schemes else None


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


def first_from(texts: list[bytes], value: bytes) -> int:
    """The number of the first text that is not below `value`."""
    return bisect_left(texts, value)
