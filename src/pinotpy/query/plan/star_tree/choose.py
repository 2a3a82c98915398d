"""Whether a star-tree can answer a query, and which: the manual's "check metadata", decided for whole sets of segments.

A tree fits if every column of the filter, of GROUP BY and of the aggregations' own filters is one of its dimensions and
every aggregation has its states. The filter may be any combination of AND, OR and NOT: the walk goes to records that
have a value in each of its columns, so that it means of a record what it means of each of the record's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.functions.aggregate.distinctcounthll import DistinctCountHll
from pinotpy.functions.aggregate.percentiletdigest import PercentileTDigest
from pinotpy.functions.sketches.hyperloglog import LOG2M_DEFAULT
from pinotpy.functions.sketches.multiset import BUCKETS
from pinotpy.functions.spec import AggregateFunction, aggregation_function
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression, Identifier, Literal, Star
from pinotpy.query.model.context import (
    Aggregation,
    And,
    Comparison,
    Constant,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.segments.segment_set import Attachment, SegmentSet
from pinotpy.segment.data_source import Segment
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.reader import StarTree
from pinotpy.segment.star_tree.spec import STATES_OF

_HIDES: Final = "some of the rows that it was built from must not be seen"
_NULL_TESTS: Final = (Comparison.IS_NULL, Comparison.IS_NOT_NULL)


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Trees of a set's segments with the same dimensions, states and kinds of sums.

    number: their place among the trees of their segments; rows: int64, their segments in the set.
    """

    number: int
    dimensions: tuple[str, ...]
    states: frozenset[tuple[str, str]]
    trees: SegmentSet
    rows: Int64Array


class _TreeShapes(Attachment):
    """The trees of a set; None until somebody asks."""

    def __init__(self) -> None:
        self.shapes: tuple[TreeShape, ...] | None = None

    def let_go(self) -> None:
        shapes, self.shapes = self.shapes or (), None
        for shape in shapes:
            shape.trees.let_go()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query asks of a tree.

    conditions: columns of WHERE; null_tests: those of them whose nulls are asked for; keys: columns of GROUP BY and of
    the aggregations' filters; counted: columns of COUNT(column); states: (kind, column).
    """

    conditions: tuple[str, ...]
    null_tests: tuple[str, ...]
    keys: tuple[str, ...]
    counted: tuple[str, ...]
    states: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Segments of a set, by who answers.

    shapes: the trees that answer, each with the rows of their segments in the set.
    plain: rows of the segments that are read themselves; reasons: for each, why no tree answers ("" if it has none).
    """

    shapes: tuple[tuple[TreeShape, Int64Array], ...]
    plain: Int64Array
    reasons: tuple[str, ...]


def choose(context: QueryContext, segments: SegmentSet) -> Chosen:
    """The first fitting tree of every segment, in the order of the table config."""
    remaining = np.ones(len(segments), np.bool_)
    reasons = [""] * len(segments)
    if segments.hides_rows:
        reasons = ["" if segment.visible is None or not segment.star_trees else _HIDES for segment in segments]
    shapes = tree_shapes(segments)
    if not shapes or context.kind not in (QueryKind.AGGREGATION, QueryKind.GROUP_BY):
        return Chosen((), np.flatnonzero(remaining), tuple(reasons))
    wanted = wanted_of(context)
    chosen = []
    for shape in shapes:
        reason = wanted if isinstance(wanted, str) else _lacks(shape, wanted)
        fitting = np.zeros(0, np.int64) if reason else shape.rows[remaining[shape.rows]]
        if not reason:
            assert isinstance(wanted, Wanted)
            for column in _null_sensitive(context, wanted):
                has_nulls = (
                    segments.column(column).metas[fitting, abi.M_NULLS] != 0
                    if segments.has_column(column)
                    else np.ones(len(fitting), np.bool_)
                )
                for row in fitting[has_nulls].tolist():
                    reasons[row] = reasons[row] or f"column {column} has nulls, which a tree does not tell from values"
                fitting = fitting[~has_nulls]
        if len(fitting):
            chosen.append((shape, fitting))
            remaining[fitting] = False
        if reason:
            for row in shape.rows[remaining[shape.rows]].tolist():
                reasons[row] = reasons[row] or reason
    return Chosen(tuple(chosen), np.flatnonzero(remaining), tuple(reasons))


def tree_shapes(segments: SegmentSet) -> tuple[TreeShape, ...]:
    """The trees of a set, those that are alike together; collected once a set."""
    attachment = segments.attached(_TreeShapes)
    shapes = attachment.shapes
    if shapes is None:
        groups: dict[
            tuple[int, tuple[str, ...], frozenset[tuple[str, str]], frozenset[str]], tuple[list[StarTree], list[int]]
        ] = {}
        for row, segment in enumerate(segments):
            for number, tree in enumerate(segment.star_trees if segment.visible is None else ()):
                key = (number, tree.metadata.dimensions, tree.states, tree.wide_columns)
                trees, rows = groups.setdefault(key, ([], []))
                trees.append(tree)
                rows.append(row)
        ordered = sorted(groups.items(), key=lambda item: item[0][0])
        shapes = tuple(
            TreeShape(key[0], key[1], key[2], SegmentSet(trees), np.array(rows, np.int64))
            for key, (trees, rows) in ordered
        )
        attachment.shapes = shapes
    return shapes


def wanted_of(context: QueryContext) -> Wanted | str:
    """What the query asks of a tree, or why no tree can answer it."""
    if not context.options.use_star_tree:
        return "the option useStarTree is false"
    if (
        context.filter is None
        and not context.group_by
        and all(item.function == "count" and item.filter is None for item in context.aggregations)
    ):
        return "segments know how many rows they have"
    keys, null_tests, conditions = list[str](), list[str](), list[str]()
    for key in context.group_by:
        if not isinstance(key, Identifier):
            return "GROUP BY an expression"
        keys.append(key.name)
    for column in _columns_of(context.filter):
        if isinstance(column, str):
            return column
        conditions.append(column[0])
        null_tests += [column[0]] if column[1] else []
    counted, states = list[str](), list[tuple[str, str]]()
    for aggregation in context.aggregations:
        for column in _columns_of(aggregation.filter):
            if isinstance(column, str):
                return column
            keys.append(column[0])
            null_tests += [column[0]] if column[1] else []
        source: Expression = aggregation.args[0] if aggregation.args else Star()
        function = aggregation_function(aggregation.function, aggregation.args)
        kinds = _kinds(function)
        if kinds is None:
            return f"{aggregation.name} is not pre-aggregated"
        if isinstance(source, Identifier):
            if kinds:
                states += [(kind, source.name) for kind in kinds]
            else:
                counted.append(source.name)
        elif kinds or (isinstance(source, Literal) and source.value is None) or not isinstance(source, Star | Literal):
            return f"{aggregation.name} aggregates an expression"
    return Wanted(tuple(conditions), tuple(null_tests), tuple(keys), tuple(counted), tuple(states))


def record_context(context: QueryContext) -> QueryContext:
    """The query as it is asked of records: COUNT of a column without nulls counts rows."""
    counts: list[Aggregation] = [
        replace(item, args=()) if item.function == "count" else item for item in context.aggregations
    ]
    return replace(context, aggregations=tuple(counts))


def _kinds(function: AggregateFunction) -> tuple[str, ...] | None:
    if isinstance(function, DistinctCountHll) and function.log2m != LOG2M_DEFAULT:
        return None
    if isinstance(function, PercentileTDigest) and function.compression > BUCKETS:
        return None  # finer than what records keep
    return STATES_OF.get(function.name)


def _columns_of(condition: Filter | None) -> Iterator[tuple[str, bool] | str]:
    """(column, whether its nulls are asked for) of every predicate; a text says what a tree cannot decide."""
    match condition:
        case None | Constant():
            return
        case And(children) | Or(children):
            for child in children:
                yield from _columns_of(child)
        case Not(child):
            yield from _columns_of(child)
        case Predicate(Identifier(column), comparison):
            if comparison is Comparison.TEXT_MATCH:
                yield "TEXT_MATCH asks the text index"
            elif comparison is Comparison.JSON_MATCH:
                yield "JSON_MATCH reads documents"
            else:
                yield column, comparison in _NULL_TESTS
        case _:
            yield "a condition on an expression"


def _lacks(shape: TreeShape, wanted: Wanted) -> str:
    """What a tree has not; "" if nothing."""
    dimensions = set(shape.dimensions)
    for column in (*wanted.conditions, *wanted.keys):
        if column not in dimensions:
            return f"column {column} is not in its dimensionsSplitOrder"
    for kind, column in wanted.states:
        if (kind, column) not in shape.states:
            return f"it has no pair {_PAIR[kind]}__{column}"
    return ""


_PAIR: Final = {
    names.SUM: "SUM",
    names.MIN: "MIN",
    names.MAX: "MAX",
    names.HYPERLOGLOG: "DISTINCTCOUNTHLL",
    names.LONG_QUANTILES: "PERCENTILEEST",
    names.QUANTILES: "PERCENTILETDIGEST",
}


def _null_sensitive(context: QueryContext, wanted: Wanted) -> Sequence[str]:
    """Columns whose nulls would change the answer, so that their segments must have none."""
    if not context.null_handling:
        return wanted.null_tests
    return tuple(
        dict.fromkeys((*wanted.conditions, *wanted.keys, *wanted.counted, *(column for _, column in wanted.states)))
    )


def num_rows(trees: Sequence[Segment]) -> int:
    """Rows that the records of trees stand for."""
    return sum(tree.num_rows for tree in trees if isinstance(tree, StarTree))
