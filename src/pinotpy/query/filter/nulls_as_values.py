"""Which columns of a query have stored nulls that may count as values: in the mode of default values, mostly.

A null reads as its column's default value there, in sums and groups, on the screen, and in conditions. It counts
nowhere if a condition that every row must pass refuses it: `IS NOT NULL`, or a comparison that the default value fails
(`delay > 0` where the default is the lowest INT). A comparison counts a null as a value only if the default passes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.pql.ast import Identifier
from pinotpy.query.filter.normal_form import AllOf, AnyOf, Computed, Node, normal_form
from pinotpy.query.model.context import (
    AggregationRef,
    ColumnRef,
    Comparison,
    ExpressionPredicate,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.model.options import columns_without_nulls, counted_columns
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Nothing,
    NullTest,
    TypedPredicate,
    VarMembers,
    VarRange,
)
from pinotpy.query.model.result_types import columns_with_nulls_in
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.data_source import Stored

_NULL_TESTS: Final = (Comparison.IS_NULL, Comparison.IS_NOT_NULL)


def columns_read_as_values(context: QueryContext, sets: Sequence[SegmentSet]) -> list[str]:
    """Names of the columns of which some segment has nulls that may count as values: of those that the query reads,
    which every segment has, and of those that it counts without reading them.
    """
    counted = [] if context.null_handling else counted_columns(context.options)
    columns = {
        column.name: column
        for column in context.columns
        if not (context.null_handling and column.single_value)
        and column.default_null is not None
        and any(len(one.num_nulls(column.name)) for one in sets)
    }
    if not columns and not counted:
        return []
    condition = normal_form(context.filter, context)
    refused = _refused(condition, columns)
    if context.null_handling:
        return [name for name in _lists_as_keys(context) if name in columns and name not in refused]
    read = dict.fromkeys([*_read_in(condition, columns), *_shown_or_counted(context, columns)])
    found = [name for name in read if name in columns and name not in refused]
    known, without_nulls = {column.name for column in context.columns}, columns_without_nulls(context.options)
    for aggregation, names in zip(context.aggregations, counted, strict=False):
        own = _refused(normal_form(aggregation.filter, context), columns) if names else ()
        for name in names:
            # Those that are not read have no condition that could refuse them.
            has_nulls = name in columns or (
                name not in known and any(_has_nulls(one, name, name in without_nulls) for one in sets)
            )
            if has_nulls and name not in refused and name not in own and name not in found:
                found.append(name)
    return found


def _has_nulls(segments: SegmentSet, name: str, is_without_nulls: bool) -> bool:
    """Whether docs have no value; of a table that keeps no nulls of the column only where a segment says so."""
    rows = np.flatnonzero(segments.num_nulls(name)).tolist()
    return any(not is_without_nulls or segments[row].has_column(name) for row in rows)


def _lists_as_keys(context: QueryContext) -> list[str]:
    """Lists whose values are groups: a row without a list is in the group of the default value in both modes, as in the
    reference.
    """
    keys = context.group_by
    if context.kind is QueryKind.DISTINCT:
        keys = tuple(
            column.expression for column in context.output if not isinstance(column.expression, AggregationRef)
        )
    lists = {column.name for column in context.columns if not column.single_value}
    return list(dict.fromkeys(key.name for key in keys if isinstance(key, Identifier) and key.name in lists))


def _shown_or_counted(context: QueryContext, columns: dict[str, ColumnRef]) -> Iterator[str]:
    expressions = [*(column.expression for column in context.output), *context.group_by]
    expressions += [key.expression for key in context.order_by]
    for expression in expressions:
        if not isinstance(expression, AggregationRef):
            yield from columns_with_nulls_in(expression)
    for aggregation in context.aggregations:
        own = _refused(normal_form(aggregation.filter, context), columns)
        yield from (name for arg in aggregation.args for name in columns_with_nulls_in(arg) if name not in own)
        if aggregation.filter is not None:
            yield from _read_in(normal_form(aggregation.filter, context), columns)


def _read_in(node: Node, columns: dict[str, ColumnRef]) -> Iterator[str]:
    """Columns of conditions that hold for a null because they hold for the default value."""
    match node:
        case AllOf(children) | AnyOf(children):
            for child in children:
                yield from _read_in(child, columns)
        case TypedPredicate(column=name):
            if name in columns and _default_passes(node, columns[name]):
                yield name
        case Computed(condition):
            yield from _values_of(condition)


def _values_of(condition: Predicate | ExpressionPredicate) -> Iterator[str]:
    if isinstance(condition, ExpressionPredicate):
        yield from columns_with_nulls_in(condition.expression)
    elif condition.comparison not in _NULL_TESTS:
        yield from columns_with_nulls_in(condition.lhs)


def _refused(node: Node, columns: dict[str, ColumnRef]) -> frozenset[str]:
    """Columns that are no nulls in any row that passes."""
    children = node.children if isinstance(node, AllOf) else (node,)
    return frozenset(
        child.column
        for child in children
        if isinstance(child, TypedPredicate)
        and child.column in columns
        and (_is_not_null(child) or not _default_may_pass(child, columns[child.column]))
    )


def _is_not_null(bound: TypedPredicate) -> bool:
    return isinstance(bound.test, NullTest) and bound.negated


def _default_passes(bound: TypedPredicate, column: ColumnRef) -> bool:
    return not isinstance(bound.test, NullTest) and _default_may_pass(bound, column)


def _default_may_pass(bound: TypedPredicate, column: ColumnRef) -> bool:
    """Also where only the column's own values could tell."""
    value = column.default_null
    assert value is not None
    passes = _passes(bound, value)
    return True if passes is None else passes is not bound.negated


def _passes(bound: TypedPredicate, value: Stored) -> bool | None:
    """Whether the value passes the test; None: not known here."""
    match bound.test:
        case Nothing():
            return False
        case FixedRange(low, high) if not isinstance(value, bytes):
            return bool(low <= value <= high)
        case VarRange(low, end) if isinstance(value, bytes):
            return low <= value and (end is None or value < end)
        case FixedMembers(values) if not isinstance(value, bytes):
            return bool((values == value).any())
        case VarMembers(data, offsets) if isinstance(value, bytes):
            lengths = np.diff(offsets)
            blob = data.tobytes()
            ends = offsets[1:][lengths == len(value)].tolist()
            return any(blob[end - len(value) : end] == value for end in ends)
    return None


class NullsRead:
    """Stored nulls of some columns in the segments that a query reads; each segment counts once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._of_segments: dict[int, list[int]] = {}

    def read(self, segments: SegmentSet, rows: Int64Array) -> None:
        """Segments at `rows` are read."""
        zeros = np.zeros(len(segments), np.int64)
        nulls = [of_all if len(of_all := segments.num_nulls(name)) else zeros for name in self._names]
        for row in rows[np.any([of_all[rows] for of_all in nulls], axis=0)].tolist():
            self._of_segments[id(segments[row])] = [int(of_all[row]) for of_all in nulls]

    def counts(self) -> dict[str, int]:
        """By column, where there are some."""
        sums = [sum(of_all) for of_all in zip(*self._of_segments.values(), strict=True)]
        return {name: count for name, count in zip(self._names, sums, strict=False) if count}
