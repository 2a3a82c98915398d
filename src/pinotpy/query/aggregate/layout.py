"""Where the aggregations of a query keep their state: words of a group's row, and value sets.

Row: word 0 counts the rows of the group; then for every aggregation a word of its own for the values it saw (only if
that differs from the rows: flagged rows, multi-values), then its slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import AggregateFunction, Argument, aggregation_function
from pinotpy.functions.state.plans import Plan, RowPlan, SlotPlan, ValueSetPlan, Word
from pinotpy.kernels.aggregate import result_context
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression, Identifier, Literal, Star
from pinotpy.query.model.context import Aggregation, Filter, QueryContext
from pinotpy.query.model.result_types import argument_of, columns_in, expressions_of, has_null, is_strict, types_of
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.star_tree.choose import num_rows
from pinotpy.query.segments.shared_codes import ColumnIds
from pinotpy.segment.star_tree import metadata as tree_names
from pinotpy.segment.star_tree.spec import STATES_OF

ROW_WORDS_MAX = 65_535  # overflow keys have 16 bits for the word

_SKETCHES: Final = (tree_names.HYPERLOGLOG, tree_names.LONG_QUANTILES, tree_names.QUANTILES)


@dataclass(frozen=True, slots=True)
class AggregationLayout:
    """One aggregation: its function, argument, and where its state is.

    seen_word: word of the row that counts its values (0: the group's row count serves).
    first_word: of its slots; value set: word of its value set in the context, -1 if it has none. Functions that
    read rows share one where they have the same filter: the docs of each group.
    unnests: it sees each value of a multi-value column.
    runs: its value set keeps runs of values (value_lists.py). bits: shared codes of its values, where it keeps a bit
    for each (distinct_bitmaps.py).
    """

    aggregation: Aggregation
    function: AggregateFunction
    argument: Argument
    plan: Plan
    seen_word: int
    first_word: int
    value_set: int
    unnests: bool
    flagged: bool
    runs: bool = False
    bits: ColumnIds | None = field(default=None, compare=False)

    @property
    def source(self) -> Expression:
        """The argument's expression; Star for COUNT(*) and COUNT()."""
        return self.aggregation.args[0] if self.aggregation.args else Star()


@dataclass(frozen=True, slots=True)
class Layout:
    """All aggregations of a query; words of a group's row, and how many value sets there are."""

    aggregations: tuple[AggregationLayout, ...]
    row_words: int
    num_value_sets: int


def make_layout(plan: ScanPlan) -> Layout:
    """Decide the layout of a plan's query; raises QueryExecutionError or InvalidQueryError for arguments that a
    function refuses.
    """
    context = plan.context
    entries: list[AggregationLayout] = []
    fits: dict[Expression, bool] = {}
    docs: dict[Filter | None, int] = {}
    word, value_sets = 1, 0
    for aggregation in context.aggregations:
        function = aggregation_function(aggregation.function, aggregation.args)
        source = aggregation.args[0] if aggregation.args else Star()
        argument = argument_of(aggregation.args, types_of(context), function.num_expressions)
        if not (isinstance(source, Star) and function.name == "count"):
            function.check([argument], context.dialect)
        if source not in fits:
            fits[source] = _sum_fits_long(source, plan)
        state_plan = (_sketch_plan(function) if plan.pre_aggregated else None) or function.plan(
            argument, sum_fits_long=fits[source]
        )
        skips_nulls = context.null_handling and not function.reads_rows
        flagged = aggregation.filter is not None or (skips_nulls and _may_be_null(source, plan))
        unnests = not argument.single_value and function.name != "count"
        seen_word = 0
        if flagged or unnests:
            seen_word, word = word, word + 1
        value_set = -1
        first_word = word
        if isinstance(state_plan, SlotPlan):
            word += len(state_plan.words)
        elif isinstance(state_plan, RowPlan) and aggregation.filter in docs:
            value_set = docs[aggregation.filter]
        else:
            value_set = result_context.G_SETS + value_sets * result_context.SET_WORDS
            value_sets += 1
            if isinstance(state_plan, RowPlan):
                docs[aggregation.filter] = value_set
        entries.append(
            AggregationLayout(
                aggregation, function, argument, state_plan, seen_word, first_word, value_set, unnests, flagged
            )
        )
    if word > ROW_WORDS_MAX:
        raise InvalidQueryError(
            f"the aggregations of a query keep at most {ROW_WORDS_MAX} words a group, found {word}: compute fewer at "
            "once"
        )
    return Layout(tuple(entries), word, value_sets)


def _may_be_null(source: Expression, plan: ScanPlan) -> bool:
    if isinstance(source, Literal):
        return source.value is None
    if not is_strict(source, plan.context) or has_null(source):
        return True  # CASE without ELSE, NULL + 1
    return (
        any((plan.metas.of(name)[:, abi.M_NULLS] != 0).any() for name in columns_in(source)) if plan.segments else False
    )


def _sum_fits_long(source: Expression, plan: ScanPlan) -> bool:
    """Whether no sum over all docs of the plan can leave int64, by the type or else by the min/max of the segments."""
    if not isinstance(source, Identifier) or not plan.segments:
        return False
    metas = plan.metas.of(source.name)
    if (metas[:, abi.M_STORED] == abi.T_INT).all():
        return int(metas[:, abi.M_NUM_VALUES].sum()) < 2**32
    if (metas[:, abi.M_STORED] > abi.T_LONG).any():
        return False
    total = 0
    for segment in plan.segments:
        column = segment.column(source.name)
        low, high = column.min_value, column.max_value
        if not isinstance(low, int) or not isinstance(high, int):
            return False
        total += max(-low, high) * column.num_values
    return total < 2**63


def word_kinds(layout: Layout) -> Int64Array:
    """For every word of a row, how two rows are merged (functions.state.plans.Word)."""
    kinds = np.full(layout.row_words, Word.ADD, np.int64)
    for entry in layout.aggregations:
        if isinstance(entry.plan, SlotPlan):
            kinds[entry.first_word : entry.first_word + len(entry.plan.words)] = entry.plan.words
    return kinds


def state_columns(layout: Layout, states: Sequence[Sequence[pa.Array]]) -> dict[str, pa.Array]:
    """State columns of all aggregations by their names in a PartialResult: a<i>_<state>."""
    out: dict[str, pa.Array] = {}
    for i, (entry, columns) in enumerate(zip(layout.aggregations, states, strict=True)):
        for state, column in zip(entry.function.state_fields(entry.argument), columns, strict=True):
            out[f"a{i}_{state.name}"] = column
    return out


def projected_columns(context: QueryContext) -> tuple[str, ...]:
    """Columns that the scan reads after the filter, each once."""
    names = [
        name for aggregation in context.aggregations for arg in expressions_of(aggregation) for name in columns_in(arg)
    ]
    names += [name for expression in context.group_by for name in columns_in(expression)]
    return tuple(dict.fromkeys(names))


def values_bound(plan: ScanPlan, layout: Layout, expanded: tuple[str, ...]) -> int:
    """At most so many values go to one group."""
    walked = {name for entry in layout.aggregations if entry.unnests for name in columns_in(entry.source)}
    docs = (
        int((plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).sum())
        if not plan.pre_aggregated
        else num_rows(plan.segments)
    )
    for names in (walked, expanded):
        widest = [
            max((segment.column(name).max_values_per_doc for segment in plan.segments), default=1) for name in names
        ]
        docs *= math.prod(widest) if names is expanded else max(widest, default=1)
    return docs


def _sketch_plan(function: AggregateFunction) -> ValueSetPlan | None:
    """The plan of an aggregation whose records keep sketches, None for others: the scan notes which records each group
    saw.
    """
    if not set(STATES_OF.get(function.name, ())) & set(_SKETCHES):
        return None

    def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
        raise AssertionError("collect_sketches makes the states")

    return ValueSetPlan(collect)
