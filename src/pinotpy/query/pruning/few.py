"""The segments that a filter keeps of a few, one after the other: for so few each call of numpy costs more than what it
does. It keeps what `prune` keeps; what it does not know how to compare is left to `prune`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import (
    And,
    ColumnRef,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Nothing,
    NullTest,
    Test,
    VarMembers,
    VarRange,
    typed_predicate,
    values_of_members,
    wanted_values,
)
from pinotpy.query.pruning.facts import Partitions, SegmentFacts
from pinotpy.query.pruning.leaves import TEXT_MEMBERS_MAX
from pinotpy.query.pruning.prune import DEPTH_MAX, PATTERNS, VALUES_MAX
from pinotpy.segment.partition import partition_of, partition_text

FEW_MAX: Final = 64
# Of one column: each segment's number as a bit, with the bounds that it has.
_Ranges = list[tuple[int, Any, Any]]
# Partitions by (function, their number): each segment's bit with those that it has.
_Schemes = dict[tuple[str, int], list[tuple[int, frozenset[int]]]]


class FewFacts:
    """At most FEW_MAX segments. Sets of them are numbers whose bits are segments, the first one the lowest. Never
    changed; what is made of a column is kept.
    """

    def __init__(self, facts: Sequence[SegmentFacts]) -> None:
        assert len(facts) <= FEW_MAX
        self._facts = facts
        self._all = (1 << len(facts)) - 1
        self._empty = sum(1 << row for row, each in enumerate(facts) if each.num_docs == 0)
        self._ranges: dict[tuple[str, DataType], _Ranges] = {}
        self._schemes: dict[str, _Schemes] = {}

    def kept_rows(self, context: QueryContext) -> list[int] | None:
        """Rows of the segments that may have a row that passes the filter, ascending; None: it is for `prune`."""
        excluded = self._empty
        if context.filter is not None:
            found = self._visit(context.filter, context, 0)
            if found is None:
                return None
            excluded |= found
        return [row for row in range(len(self._facts)) if not excluded >> row & 1]

    def _visit(self, node: Filter, context: QueryContext, depth: int) -> int | None:
        """The segments that `node` excludes."""
        if depth > DEPTH_MAX:
            return 0
        if isinstance(node, Predicate):
            return self._leaf(node, context)
        if isinstance(node, And):
            excluded = 0
            for child in node.children:
                found = self._visit(child, context, depth + 1)
                if found is None:
                    return None
                excluded |= found
            return excluded
        if isinstance(node, Or):
            excluded = self._all if node.children else 0
            for child in node.children:
                found = self._visit(child, context, depth + 1)
                if found is None:
                    return None
                excluded &= found
                if not excluded:
                    break
            return excluded
        if isinstance(node, Constant):
            return 0 if node.value else self._all
        assert isinstance(node, (Not, ExpressionPredicate))
        return None if isinstance(node, Not) else 0

    def _leaf(self, node: Predicate, context: QueryContext) -> int | None:
        if not isinstance(node.lhs, Identifier):
            return None
        name = node.lhs.name
        column = next((each for each in context.columns if each.name == name), None)
        if column is None or name.startswith("$") or node.comparison in PATTERNS or len(node.values) > VALUES_MAX:
            return 0
        try:
            bound = typed_predicate(node, column, context.dialect)
        except PinotError:
            return 0
        test = bound.test
        if bound.negated or isinstance(test, NullTest):
            return None
        if isinstance(test, Nothing):
            return self._all
        excluded = self._by_range(test, column)
        schemes = self._schemes.get(name)
        if schemes is None:
            schemes = self._schemes[name] = _schemes(self._facts, name)
        return excluded | _by_partition(test, column, schemes) if schemes else excluded

    def _by_range(self, test: Test, column: ColumnRef) -> int:
        key = column.name, column.data_type
        ranges = self._ranges.get(key)
        if ranges is None:
            ranges = self._ranges[key] = _ranges(self._facts, column.name, column.data_type)
        if not ranges:
            return 0
        excluded = 0
        match test:
            case FixedRange(least, most):
                for bit, low, high in ranges:
                    if (high is not None and high < least) or (low is not None and low > most):
                        excluded |= bit
            case VarRange(start, end):
                for bit, low, high in ranges:
                    if (high is not None and high < start) or (end is not None and low is not None and low >= end):
                        excluded |= bit
            case FixedMembers() | VarMembers():
                members: Sequence[Any] = (
                    test.values.tolist() if isinstance(test, FixedMembers) else values_of_members(test)
                )
                if isinstance(test, VarMembers) and len(members) > TEXT_MEMBERS_MAX:
                    return 0
                for bit, low, high in ranges:
                    first = 0 if low is None else bisect_left(members, low)
                    if first == (len(members) if high is None else bisect_right(members, high)):
                        excluded |= bit
        return excluded


def _ranges(facts: Sequence[SegmentFacts], column: str, data_type: DataType) -> _Ranges:
    found = ((1 << row, each.ranges.get(column)) for row, each in enumerate(facts))
    return [(bit, each.low, each.high) for bit, each in found if each is not None and each.data_type is data_type]


def _schemes(facts: Sequence[SegmentFacts], column: str) -> _Schemes:
    schemes: _Schemes = {}
    for row, each in enumerate(facts):
        partitions: Partitions | None = each.partitions
        if partitions is not None and partitions.column == column:
            key = partitions.function_name.lower(), partitions.num_partitions
            schemes.setdefault(key, []).append((1 << row, frozenset(partitions.ids)))
    return schemes


def _by_partition(test: Test, column: ColumnRef, schemes: _Schemes) -> int:
    values = wanted_values(test)
    if values is None:
        return 0
    texts = [partition_text(value, column.data_type) for value in values]
    excluded = 0
    for (function, num_partitions), segments in schemes.items():
        try:
            wanted = {partition_of(function, num_partitions, text) for text in texts if text is not None}
        except ValueError:
            continue
        if wanted and None not in texts:
            for bit, ids in segments:
                if ids.isdisjoint(wanted):
                    excluded |= bit
    return excluded
