"""The segments that a filter keeps, without looking at all others.

Indexes give the segments that one predicate, or several under OR, may keep; the smallest such set under AND holds all
that the filter keeps. Only these few are walked as `prune` walks all. Where no index helps, all are walked.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.errors import PinotError
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import And, ColumnRef, Comparison, Filter, Not, Or, Predicate, QueryContext
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Test,
    VarMembers,
    VarRange,
    typed_predicate,
    values_of_members,
    wanted_values,
)
from pinotpy.query.pruning.bounds import first_from
from pinotpy.query.pruning.facts_table import FactsTable
from pinotpy.query.pruning.indexes import PartitionIndex, RangeIndex
from pinotpy.query.pruning.prune import DEPTH_MAX, prune
from pinotpy.segment.partition import partition_of, partition_text

_FOUND_BY_INDEX: Final = (Comparison.EQ, Comparison.IN, Comparison.RANGE)
# Each member of a list is one look into an index.
_MEMBERS_MAX: Final = 256
# Of a larger part the arrays of all segments are compared as fast.
_PART_MAX: Final = 4


def kept_rows(context: QueryContext, table: FactsTable) -> Int64Array:
    """Rows of the segments that may have a row that passes the filter, ascending: those that `prune` keeps. Raises
    nothing.
    """
    found = None if context.filter is None else _Finder(context, table).visit(context.filter)
    if found is None or len(found) * _PART_MAX > len(table):
        return np.flatnonzero(prune(context, table).kept)
    rows = np.unique(found)
    return rows[prune(context, table.part(rows)).kept]


class _Finder:
    def __init__(self, context: QueryContext, table: FactsTable) -> None:
        self._table, self._dialect = table, context.dialect
        self._columns = {column.name: column for column in context.columns}

    def visit(self, node: Filter, depth: int = 0) -> Int64Array | None:
        """Rows of at least all segments that `node` keeps, in no order, perhaps more than once; None: not known."""
        if depth > DEPTH_MAX or isinstance(node, Not):
            return None
        if isinstance(node, And):
            found = [rows for child in node.children if (rows := self.visit(child, depth + 1)) is not None]
            return min(found, key=len, default=None)
        if isinstance(node, Or):
            either = []
            for child in node.children:
                rows = self.visit(child, depth + 1)
                if rows is None:
                    return None
                either.append(rows)
            return np.concatenate(either) if either else None
        if (
            not isinstance(node, Predicate)
            or node.comparison not in _FOUND_BY_INDEX
            or not isinstance(node.lhs, Identifier)
            or len(node.values) > _MEMBERS_MAX
            or (column := self._columns.get(node.lhs.name)) is None
        ):
            return None
        try:
            test = typed_predicate(node, column, self._dialect).test
        except PinotError:
            return None
        ranges = self._table.range_index(column.name, column.data_type)
        partitions = self._table.partition_index(column.name)
        by_range = None if ranges is None else _by_range(test, ranges, self._texts(column))
        by_partition = None if partitions is None else _by_partition(test, column, partitions)
        return min([rows for rows in (by_range, by_partition) if rows is not None], key=len, default=None)

    def _texts(self, column: ColumnRef) -> list[bytes]:
        bounds = self._table.bounds(column.name, column.data_type)
        return bounds.texts or [] if bounds is not None else []


def _by_range(test: Test, index: RangeIndex, texts: list[bytes]) -> Int64Array | None:
    """A text lies between the numbers of the texts around it (leaves.py)."""
    spans: list[tuple[float, float]]
    match test:
        case FixedRange(low, high):
            spans = [(low, high)]
        case VarRange(low=start, end=end):
            spans = [(first_from(texts, start), len(texts) if end is None else first_from(texts, end) - 1)]
        case FixedMembers(values):
            spans = [(value, value) for value in values.tolist()]
        case VarMembers():
            spans = [(first_from(texts, member), bisect_right(texts, member) - 1) for member in values_of_members(test)]
        case _:
            return None
    return np.concatenate([index.unknown, *(index.overlapping(low, high) for low, high in spans)])


def _by_partition(test: Test, column: ColumnRef, index: PartitionIndex) -> Int64Array | None:
    values = wanted_values(test)
    if values is None:
        return None
    texts = [partition_text(value, column.data_type) for value in values]
    if any(text is None for text in texts):
        return None
    found = [index.unknown]
    for scheme, (function, num_partitions) in enumerate(index.schemes):
        try:
            wanted = {partition_of(function, num_partitions, text) for text in texts if text is not None}
        except ValueError:
            found.append(index.of_scheme(scheme))
            continue
        found += [index.holding(scheme, partition) for partition in wanted]
    return np.concatenate(found)
