"""Segments that smallest and largest values exclude, left out before any condition is looked up in any segment.

Of 720 segments by time a query of three hours needs three. What a condition is in a segment costs a few cache lines of
the column's meta; smallest and largest values of all segments lie together (query/segments/segment_set.py,
ColumnRanges), and are asked first.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.query.filter.normal_form import AllOf, Node
from pinotpy.query.model.predicate import FixedRange, TypedPredicate
from pinotpy.query.segments.segment_set import SegmentSet

# Of fewer segments nothing is gained.
SEGMENTS_MIN: Final = 32


def within_ranges(condition: Node, segments: SegmentSet) -> SegmentSet:
    """The segments in which every =, comparison and BETWEEN of fixed types under AND may hold: at least one, for the
    types of its columns, and all of them where most are left. Those left out count as pruned.
    """
    if len(segments) <= SEGMENTS_MIN:
        return segments
    outside: NDArray[np.bool_] | None = None
    for bound in condition.children if isinstance(condition, AllOf) else (condition,):
        if not isinstance(bound, TypedPredicate) or not bound.prunes or not isinstance(bound.test, FixedRange):
            continue
        ranges = segments.ranges(bound.column)
        # NaN, where no value is known to be smallest, is neither.
        found = (ranges.most < bound.test.low) | (ranges.least > bound.test.high)
        found &= ranges.known
        outside = found if outside is None else outside | found
    if outside is None:
        return segments
    rows = np.flatnonzero(~outside)
    return segments.part(rows if len(rows) else np.zeros(1, np.int64)) if len(rows) * 2 < len(segments) else segments
