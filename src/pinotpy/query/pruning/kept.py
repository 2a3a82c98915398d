"""The segments that a filter keeps, without looking at all others.

Indexes give the segments that one predicate, or several under OR, may keep; the smallest such set under AND holds all
that the filter keeps. Only these few are compared with the filter, unless one predicate's index has said all there is
to say. Where no index helps, all are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.query.model.context import QueryContext
from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn
from pinotpy.query.pruning.facts_table import Facts, FactsTable
from pinotpy.query.pruning.few import FEW_MAX, kept_of_few
from pinotpy.query.pruning.indexes import Flags
from pinotpy.query.pruning.leaves import Rule, Spans, Wanted
from pinotpy.query.pruning.prune import excluded_by_rules
from pinotpy.query.pruning.walk import Walk

# Of fewer segments all are compared before an index has found some.
WALKED_MAX: Final = 512
# Each member of a list is one look into an index.
_MEMBERS_MAX: Final = 256
# Of a larger part the arrays of all segments are compared as fast.
_PART_MAX: Final = 4


def kept_rows(context: QueryContext, table: FactsTable, *, walked_max: int = WALKED_MAX) -> list[int]:
    """Rows of the segments that may have a row that passes the filter, ascending. Raises nothing. walked_max: of more
    segments indexes are asked first.
    """
    walk, leaves = Walk(context), _IndexLeaves(table)
    found = walk.over(leaves) if table.size > walked_max else None
    if found is None or len(found) * _PART_MAX > len(table):
        return _kept(walk, table)
    numbers: list[int] = sorted(set(found.tolist())) if len(found) <= FEW_MAX else np.unique(found).tolist()
    if leaves.are_exact and not table.has_empty:
        return numbers
    return [numbers[place] for place in _kept(walk, table.part(np.array(numbers, np.int64)))]


def _kept(walk: Walk, table: Facts) -> list[int]:
    if table.size <= FEW_MAX:
        return kept_of_few(walk, table)
    rows: list[int] = np.flatnonzero(excluded_by_rules(walk, table) == Rule.KEPT).tolist()
    return rows


class _IndexLeaves:
    """Sets are the rows that are not excluded, in no order, perhaps more than once; and perhaps some that are, unless
    they are exact: what one predicate excludes is known as a whole, what several do under AND is not.
    """

    def __init__(self, table: FactsTable) -> None:
        self.table, self.are_exact = table, True

    def never(self) -> Int64Array:
        return np.zeros(0, np.int64)

    def by_range(self, bounds: Bounds, spans: Spans, negated: bool) -> Int64Array | None:
        if negated or len(spans[0]) > _MEMBERS_MAX:
            self.are_exact = False
            return None
        index = bounds.index
        self.are_exact &= not index.num_stale
        found = [index.overlapping(low, high) for low, high in zip(*spans, strict=True)]
        if len(found) == 1 and len(found[0]) + len(index.unknown) == self.table.size:
            return None
        return np.concatenate([index.unknown, *found])

    def by_partition(self, partitions: PartitionedColumn, wanted: Wanted) -> Int64Array:
        index = partitions.index
        self.are_exact &= not index.num_stale
        found = [index.unknown]
        for scheme, ids in enumerate(wanted):
            found += [index.of_scheme(scheme)] if ids is None else [index.holding(scheme, each) for each in ids]
        return np.concatenate(found)

    def by_flags(self, find: Callable[[], tuple[Flags | None, str]], rule: Rule) -> tuple[Int64Array | None, str]:
        self.are_exact = False
        return None, "there is no index"

    def of_and(self, sets: Sequence[Int64Array]) -> Int64Array:
        self.are_exact &= len(sets) == 1
        return min(sets, key=len)

    def of_or(self, sets: Sequence[Int64Array]) -> Int64Array:
        return np.concatenate(sets)
