"""A filter against the facts of segments, walked once, whatever a set of segments is.

The filter is walked from the root down, NOT pushed to the leaves: AND excludes what any child excludes, OR what all
children exclude. What cannot be decided by the facts excludes nothing, so a segment that is excluded has no row that
passes. How a leaf finds its segments, and what a set of them is, is for `Leaves`: rules of all segments in arrays
(`prune`), bits (`few`), or the rows that an index does not exclude (`kept`).

Bounds are of all stored values, of nulls too, so they hold in both modes of nulls: a null passes with its default value
or not at all. A list-valued column passes a test if any value does, and its negation if none does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from pinotpy.errors import PinotError
from pinotpy.pql.ast import Call, Identifier
from pinotpy.query.model.context import (
    And,
    ColumnRef,
    Comparison,
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
    TypedPredicate,
    VarMembers,
    VarRange,
    typed_predicate,
)
from pinotpy.query.model.result_types import COMPARISONS, columns_in
from pinotpy.query.pruning.bounds import Bounds, PartitionedColumn
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.indexes import Flags
from pinotpy.query.pruning.leaves import (
    ColumnTest,
    Rule,
    Spans,
    Wanted,
    exclude_by_nulls,
    wanted_partitions,
    wanted_spans,
    why_no_more,
)
from pinotpy.query.pruning.monotone import exclude_by_function

# As deep as servers take filters (query/filter/normal_form.py), which say so.
DEPTH_MAX: Final = 200
# Values of one list: to convert more costs more than a server takes to leave its segments out.
VALUES_MAX: Final = 10_000
PATTERNS: Final = frozenset(
    {
        Comparison.LIKE,
        Comparison.NOT_LIKE,
        Comparison.REGEXP_LIKE,
        Comparison.TEXT_MATCH,
        Comparison.JSON_MATCH,
    }
)

S = TypeVar("S")
Leaf = Predicate | ExpressionPredicate | Constant
# Called with each leaf, whether it is negated, the segments that it excludes, and why not more.
Tell = Callable[[Leaf, bool, S | None, str], None]


class Leaves(Protocol[S]):
    """Finds the segments of `table` that a leaf excludes, as sets that AND and OR join. None for a set: no segment."""

    @property
    def table(self) -> Facts: ...

    def never(self) -> S | None:
        """All segments: no row passes."""
        ...

    def by_range(self, bounds: Bounds, spans: Spans, negated: bool) -> S | None:
        """Segments in whose range no value is in one of `spans`; negated: all values are."""
        ...

    def by_partition(self, partitions: PartitionedColumn, wanted: Wanted) -> S | None:
        """Segments that are in none of the partitions that are wanted."""
        ...

    def by_flags(self, find: Callable[[], tuple[Flags | None, str]], rule: Rule) -> tuple[S | None, str]:
        """Segments that `find` flags by looking at all of them, by `rule`; and why not more."""
        ...

    def of_and(self, sets: Sequence[S]) -> S | None:
        """What AND excludes of what some of its children exclude; there is one at least."""
        ...

    def of_or(self, sets: Sequence[S]) -> S | None:
        """What OR excludes of what all of its children exclude."""
        ...


class Walk:
    """Of the filter of one query, over one kind of sets after the other: its literals are converted once."""

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._typed: dict[int, TypedPredicate | str] = {}

    def over(self, leaves: Leaves[S], tell: Tell[S] | None = None) -> S | None:
        """The segments that the filter excludes. Raises nothing: a literal that is refused is for the servers to
        refuse.
        """
        node = self._context.filter
        return None if node is None else self._visit(node, leaves, tell, negated=False, depth=0)

    def _visit(self, node: Filter, leaves: Leaves[S], tell: Tell[S] | None, negated: bool, depth: int) -> S | None:
        if depth > DEPTH_MAX:
            return None
        if isinstance(node, Not):
            return self._visit(node.child, leaves, tell, not negated, depth + 1)
        if not isinstance(node, (And, Or)):
            found = self._leaf(node, leaves, negated, tell is not None)
            if tell is not None:
                tell(node, negated, *found)
            return found[0]
        is_and = isinstance(node, And) is not negated
        sets: list[S] = []
        for child in node.children:
            of_child = self._visit(child, leaves, tell, negated, depth + 1)
            if of_child is not None:
                sets.append(of_child)
            elif not is_and and tell is None:
                return None  # nothing that comes can exclude anything
        if not sets or (not is_and and len(sets) < len(node.children)):
            return None
        return leaves.of_and(sets) if is_and else leaves.of_or(sets)

    def _leaf(self, node: Leaf, leaves: Leaves[S], negated: bool, explains: bool) -> tuple[S | None, str]:
        """What it excludes, and why no more."""
        if isinstance(node, Constant):
            return (leaves.never(), "") if node.value is negated else (None, "it holds for every row")
        if isinstance(node, ExpressionPredicate):
            return None, _why_no_predicate(node) if explains else ""
        if len(node.values) > VALUES_MAX:
            return None, f"lists of more than {VALUES_MAX} values are left to the servers"
        if not isinstance(node.lhs, Identifier):
            return leaves.by_flags(
                lambda: exclude_by_function(node, negated, self._context, leaves.table), Rule.MIN_MAX
            )
        column = _column_of(self._context, node.lhs.name)
        if column is None or column.name.startswith("$"):
            return None, f"records know nothing of column '{node.lhs.name}'"
        if node.comparison in PATTERNS:
            return None, "records know nothing of patterns and searches"
        bound = self._typed_once(node, column)
        if isinstance(bound, str):
            return None, bound
        test, is_negated = bound.test, bound.negated is not negated
        if isinstance(test, Nothing):
            return (None, "it holds for every value") if is_negated else (leaves.never(), "")
        if isinstance(test, NullTest):
            return leaves.by_flags(lambda: exclude_by_nulls(column, is_negated, leaves.table), Rule.NULLS)
        if not isinstance(test, (FixedRange, VarRange, FixedMembers, VarMembers)):
            return None, "records know nothing of patterns and searches"
        if is_negated and not column.single_value:
            return None, "of several values in a row one may be another"
        if is_negated and column.data_type.stored.is_floating:
            return None, "a range does not say that no value is NaN"
        why = why_no_more(test, is_negated, column, leaves.table) if explains else ""
        return _by_facts(test, is_negated, column, leaves), why

    def _typed_once(self, node: Predicate, column: ColumnRef) -> TypedPredicate | str:
        """Why servers refuse it, where they do."""
        typed = self._typed.get(id(node))
        if typed is None:
            try:
                typed = typed_predicate(node, column, self._context.dialect)
            except PinotError as error:
                typed = f"servers refuse it: {error.message[:200]}"
            self._typed[id(node)] = typed
        return typed


def _why_no_predicate(node: ExpressionPredicate) -> str:
    expression = node.expression
    if isinstance(expression, Call) and expression.name in COMPARISONS and not all(map(columns_in, expression.args)):
        return "what it is compared with is left to the servers to compute"
    return "it is no comparison of a column with constants"


def _column_of(context: QueryContext, name: str) -> ColumnRef | None:
    """The column of this name that a query uses; there are few."""
    for column in context.columns:
        if column.name == name:
            return column
    return None


def _by_facts(test: ColumnTest, negated: bool, column: ColumnRef, leaves: Leaves[S]) -> S | None:
    """By its bounds first."""
    by_range = by_partition = None
    bounds = leaves.table.bounds(column.name, column.data_type)
    if bounds is not None and (spans := wanted_spans(test, bounds.texts, negated)) is not None:
        by_range = leaves.by_range(bounds, spans, negated)
    # A partition may hold other values beside those that are not wanted.
    partitions = None if negated else leaves.table.partitions(column.name)
    if partitions is not None:
        wanted = wanted_partitions(test, column, partitions.schemes)
        if not isinstance(wanted, str):
            by_partition = leaves.by_partition(partitions, wanted)
    if by_range is None or by_partition is None:
        return by_partition if by_range is None else by_range
    return leaves.of_and((by_range, by_partition))
