"""Which groups the answer can show: only these are decoded and sent by a server whose result is all that the answer is made
of. They are chosen by bounds that leave nothing out (kernels/top_groups.py); the reduce decides."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.functions.spec import SlotPlan
from pinotpy.kernels import top_groups
from pinotpy.pql.ast import Call, Dialect, Expression, Literal
from pinotpy.query.context import AggregationRef, QueryContext
from pinotpy.query.operators.layout import AggregationLayout, Layout
from pinotpy.query.operators.merged_groups import MergedGroups
from pinotpy.query.reduce import SMALLEST_FIRST, has_own_lists

# Choosing pays off where this many times as many groups are there as are shown, and enough of them.
GROUPS_PER_SHOWN_MIN: Final = 4
GROUPS_MIN: Final = 4096


def needed_groups(context: QueryContext, layout: Layout, merged: MergedGroups) -> NDArray[np.int64] | None:
    """The rows of the table that the answer may need, ascending; None: all, or not known."""
    shown = context.offset + context.limit
    if merged.num_rows_max < max(GROUPS_MIN, shown * GROUPS_PER_SHOWN_MIN) or context.having is not None or context.options.num_groups_limit is not None:
        return None
    wanted: list[tuple[int, bool]] = []  # aggregation, whether the least are first
    if has_own_lists(context):
        for column in context.output:
            index = _aggregation(column.expression)
            if index is None:
                return None
            wanted.append((index, context.aggregations[index].function in SMALLEST_FIRST))
    elif context.dialect is Dialect.SQL and context.order_by:
        index = _aggregation(context.order_by[0].expression)
        if index is None:
            return None
        wanted.append((index, context.order_by[0].ascending))
    if not wanted or not shown:
        return None
    found = [_candidates(layout.aggregations[index], merged, ascending, shown) for index, ascending in wanted]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _aggregation(expression: Expression | AggregationRef) -> int | None:
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return index
        case _:
            return None


def _candidates(entry: AggregationLayout, merged: MergedGroups, ascending: bool, shown: int) -> NDArray[np.int64] | None:
    """Rows of the table; None where a value lies outside the words or is missing."""
    if not isinstance(entry.plan, SlotPlan) or entry.plan.rank is None:
        return None
    first, last = entry.first_word, entry.first_word + len(entry.plan.words)
    if ((merged.spilled[:, 1] >= first) & (merged.spilled[:, 1] < last)).any():
        return None
    table = merged.table
    rows: NDArray[np.int64] = top_groups.candidates(
        table.reshape(-1), table.shape[1], int(entry.plan.rank), first if entry.plan.words else entry.seen_word, entry.seen_word, ascending, np.empty(shown)
    )
    return None if len(rows) == 1 and rows[0] < 0 else rows
