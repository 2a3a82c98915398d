"""Segments that cannot hold a value that is asked for: by their smallest and largest values, by their Bloom filters and
by their partitions, all segments at once.

Of 720 segments by time a query of three hours needs three. What a condition is in a segment costs a few cache lines of
the column's meta; smallest and largest values of all segments lie together (query/segments/segment_set.py,
ColumnRanges), and are asked first. What they told goes on to query/filter/bind.py, which does not ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.kernels.codec.bloom import exclude
from pinotpy.kernels.filter.predicate_table import PLACE_OUTSIDE, range_places
from pinotpy.kernels.runtime.abi import M_BLOOM
from pinotpy.query.filter.normal_form import AllOf, Node
from pinotpy.query.model.predicate import FixedRange, Stored, Test, TypedPredicate, VarRange, wanted_values
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import ColumnRanges, Partitionings, SegmentSet
from pinotpy.segment.index.bloom import stored_hashes
from pinotpy.segment.partition import partition_of, partition_text

# Rules by which a segment is pruned; the statistics count them apart.
NOT_PRUNED: Final = 0
BY_MIN_MAX: Final = 1
BY_BLOOM: Final = 2
BY_PARTITION: Final = 3

# Of fewer segments nothing is gained by leaving some out before conditions are bound.
SEGMENTS_MIN: Final = 32

# Where the values of each segment lie beside a range, u8[num_segments] (kernels/filter/predicate_table.py, PLACE_*).
Places = NDArray[np.uint8]
NO_PLACES: Final[Places] = np.zeros(0, np.uint8)


@dataclass(slots=True)
class RangePruning:
    """The segments that smallest and largest values leave.

    asked: all segments; rows: where those of `kept` stand in it, None: `kept` are all of them.
    places: by identity of a condition that was compared, in `kept`; compared: the same in `asked`, in the filter's
    order.
    """

    asked: SegmentSet
    kept: SegmentSet
    rows: Int64Array | None
    places: Mapping[int, Places]
    compared: list[tuple[TypedPredicate, Places]]

    @property
    def numbers(self) -> Int64Array:
        """Of every segment of `asked` its number in `kept`, -1 if it was left out."""
        if self.rows is None:
            return np.arange(len(self.asked))
        numbers = np.full(len(self.asked), -1, np.int64)
        numbers[self.rows] = np.arange(len(self.rows))
        return numbers

    def who_prunes(self, row: int) -> TypedPredicate:
        """The first condition that leaves out the segment at `row` of `asked`."""
        return next(one for one, places in self.compared if places[row] == PLACE_OUTSIDE)


def prune_by_ranges(condition: Node, segments: SegmentSet) -> RangePruning:
    """Leave the segments in which every =, comparison and BETWEEN of fixed types under AND may hold: at least one, for
    the types of its columns, and all of them where most are left. Those left out count as pruned.
    """
    compared: list[tuple[TypedPredicate, Places]] = []
    if len(segments) <= SEGMENTS_MIN:
        return RangePruning(segments, segments, None, {}, compared)
    outside: NDArray[np.bool_] | None = None
    for one in condition.children if isinstance(condition, AllOf) else (condition,):
        if not isinstance(one, TypedPredicate) or not one.prunes or not isinstance(one.test, FixedRange):
            continue
        places = places_of(one.test, segments.ranges(one.column))
        compared.append((one, places))
        beyond = places == PLACE_OUTSIDE
        outside = beyond if outside is None else outside | beyond
    rows = None if outside is None else np.flatnonzero(~outside)
    if rows is None or len(rows) * 2 >= len(segments):
        return RangePruning(segments, segments, None, {id(one): places for one, places in compared}, compared)
    if not len(rows):
        rows = np.zeros(1, np.int64)
    remaining = {id(one): places[rows] for one, places in compared}
    return RangePruning(segments, segments.part(rows), rows, remaining, compared)


def places_of(test: FixedRange, ranges: ColumnRanges) -> Places:
    """Where the values of each segment lie beside a range of numbers."""
    known, least, most = ranges.addresses
    if known == 0:
        return NO_PLACES
    places = np.empty(len(ranges.known), np.uint8)
    range_places(ranges.least.dtype == np.int64, known, least, most, *range_words(test), places)
    return places


def range_words(test: FixedRange) -> tuple[int, float, int, float]:
    """Both ends of a range, included, each as whole number (0 if it is none) and as double."""
    is_whole = isinstance(test.low, int) and isinstance(test.high, int)
    return int(test.low) if is_whole else 0, float(test.low), int(test.high) if is_whole else 0, float(test.high)


def texts_outside(test: VarRange, ranges: ColumnRanges) -> NDArray[np.bool_]:
    """Segments whose smallest and largest text say that none passes."""
    beyond = ranges.most < as_object(test.low)
    if test.end is not None:
        beyond |= ranges.least >= as_object(test.end)
    return ranges.known & beyond.astype(np.bool_)


def as_object(value: bytes) -> NDArray[Any]:
    """An array of one object: as plain bytes numpy would drop zero bytes at the end, and every end of a closed range
    has one.
    """
    one = np.empty(1, object)
    one[0] = value
    return one


def excluded_by(test: Test, name: str, metas: ColumnMetas) -> NDArray[np.int8]:
    """For every segment the rule (BY_*) that tells that no value of column `name` passes `test`, or NOT_PRUNED."""
    rules = np.zeros(len(metas.segments), np.int8)
    words, partitionings = metas.planned(name).metas, metas.partitionings(name)
    has_filter = bool(words[:, M_BLOOM].any())
    if not has_filter and partitionings is None:
        return rules
    values = wanted_values(test)
    if values is None:
        return rules
    if has_filter:
        excluded = np.zeros(len(words), np.uint8)
        exclude(words, stored_hashes(values), excluded)
        rules[excluded != 0] = BY_BLOOM
    if partitionings is not None:
        rules[_outside_partitions(values, metas.column(name).data_type, partitionings)] = BY_PARTITION
    return rules


def _outside_partitions(values: list[Stored], data_type: DataType, partitionings: Partitionings) -> NDArray[np.bool_]:
    outside = np.zeros(len(partitionings.of_segment), np.bool_)
    texts = [partition_text(value, data_type) for value in values]
    if any(text is None for text in texts):
        return outside
    for number, (function, num_partitions) in enumerate(partitionings.functions):
        try:
            wanted = {partition_of(function, num_partitions, text) for text in texts if text is not None}
        except (KeyError, ValueError):
            continue  # not a function that is known here, or not one for these values: nothing is excluded
        rows = np.flatnonzero(partitionings.of_segment == number)
        outside[rows] = [wanted.isdisjoint(partitionings.held[segment]) for segment in rows.tolist()]
    return outside
