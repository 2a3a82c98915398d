"""Which groups the answer can show: only these are decoded and sent by a server whose result is all that the answer is
made of. They are chosen by bounds that leave nothing out (kernels/group/top_n_groups.py); the reduce decides
(`reduce.without_hidden_groups` does so on the server, of what is left).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array, distinct
from pinotpy.functions.state.plans import SlotPlan
from pinotpy.kernels.group import top_n_groups
from pinotpy.pql.ast import Call, Dialect, Expression, Literal
from pinotpy.query.aggregate.layout import Layout
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.model.context import AggregationRef, QueryContext
from pinotpy.query.result.reduce import SMALLEST_FIRST, has_own_lists

# Choosing pays off where this many times as many groups are there as are shown, and enough of them.
GROUPS_PER_SHOWN_MIN: Final = 4
GROUPS_MIN: Final = 4096


@dataclass(frozen=True, slots=True)
class Ranking:
    """What decides which groups the answer shows: the first `shown` by an aggregation. kind, word, seen_word: how a row
    gives its value (kernels/group/top_n_groups.py); num_words: of the aggregation, from `word` on.
    """

    kind: int
    word: int
    num_words: int
    seen_word: int
    ascending: bool
    shown: int


def rankings(context: QueryContext, layout: Layout) -> list[Ranking] | None:
    """The rankings of an answer, which may show groups of each; None: all groups may be needed, or it is not known
    which.
    """
    shown = context.offset + context.limit
    if not shown or context.having is not None:
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
    orders = []
    for index, ascending in wanted:
        entry = layout.aggregations[index]
        if not isinstance(entry.plan, SlotPlan) or entry.plan.rank is None:
            return None
        num_words = len(entry.plan.words)
        orders.append(
            Ranking(
                int(entry.plan.rank),
                entry.first_word if num_words else entry.seen_word,
                num_words,
                entry.seen_word,
                ascending,
                shown,
            )
        )
    return orders or None


def pays_off_to_choose(context: QueryContext, num_groups: int) -> bool:
    """Whether leaving out groups that the answer cannot show saves more than choosing them costs."""
    return context.options.num_groups_limit is None and num_groups >= max(
        GROUPS_MIN, (context.offset + context.limit) * GROUPS_PER_SHOWN_MIN
    )


def needed_groups(context: QueryContext, layout: Layout, merged: MergedGroups) -> Int64Array | None:
    """The rows of the table that the answer may need, ascending; None: all, or not known."""
    if not pays_off_to_choose(context, merged.num_rows_max):
        return None
    candidates = [_candidates(merged, ranking) for ranking in rankings(context, layout) or ()]
    parts = [part for part in candidates if part is not None]
    if not parts or len(parts) < len(candidates):
        return None
    return parts[0] if len(parts) == 1 else distinct(np.concatenate(parts))


def _aggregation(expression: Expression | AggregationRef) -> int | None:
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return index
        case _:
            return None


def _candidates(merged: MergedGroups, ranking: Ranking) -> Int64Array | None:
    """Rows of the table; None where a value lies outside the words or is missing."""
    if ((merged.overflow[:, 1] >= ranking.word) & (merged.overflow[:, 1] < ranking.word + ranking.num_words)).any():
        return None
    table = merged.table
    rows: Int64Array = top_n_groups.candidates(
        table.reshape(-1),
        table.shape[1],
        ranking.kind,
        ranking.word,
        ranking.seen_word,
        ranking.ascending,
        np.empty(ranking.shown),
    )
    return None if len(rows) == 1 and rows[0] < 0 else rows
