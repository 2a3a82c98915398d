"""From the arenas of all threads to state columns by group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import Overflow, RowPlan, SketchPlan, SlotPlan
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX
from pinotpy.kernels.aggregate.result_context import G_OVERFLOW_ARENA
from pinotpy.kernels.group import merge_rows
from pinotpy.query.aggregate.arena_rows import ArenaRows
from pinotpy.query.aggregate.distinct_bitmaps import collect_bitmaps
from pinotpy.query.aggregate.layout import Layout, state_columns, word_kinds
from pinotpy.query.aggregate.pre_aggregated import collect_sketches
from pinotpy.query.aggregate.rows import collect_rows
from pinotpy.query.aggregate.sketches import collect_hash_sketches
from pinotpy.query.aggregate.value_lists import collect_value_lists
from pinotpy.query.aggregate.value_sets import collect_value_sets
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.sources import Sources


def collect_states(
    layout: Layout,
    threads: Sequence[ArenaRows],
    key_words: int,
    groups: Int64Array,
    num_groups: int,
    sources: Sources,
    values_max: int,
    plan: ScanPlan,
) -> dict[str, pa.Array]:
    """State columns of all aggregations, `num_groups` rows.

    Args:
        groups: group of every row of all threads.
        values_max: at most so many values were added to one group: within MORSEL_DOCS_MAX rows are added up as they
            are, beyond it as state columns, whose sums have no bound.
        plan: the one that ran; that of `sources` may be shared by several queries (prepared.py).
    """
    wide = values_max > MORSEL_DOCS_MAX and len(groups) != num_groups
    rows = np.arange(len(groups), dtype=np.int64) if wide else groups
    slots = iter(_collect_slots(layout, threads, key_words, rows, len(groups) if wide else num_groups))
    states = []
    for index, entry in enumerate(layout.aggregations):
        if isinstance(entry.plan, SlotPlan):
            columns = next(slots)
            states.append(entry.function.merge(columns, groups, num_groups) if wide else columns)
        elif sources.plan.pre_aggregated:
            states.append(collect_sketches(sources.plan, entry, threads, groups, num_groups))
        elif isinstance(entry.plan, SketchPlan):
            tails = [(thread.context, len(thread.rows), thread.first) for thread in threads]
            states.append(collect_hash_sketches(entry, entry.plan, tails, groups, num_groups, grouped=key_words > 0))
        elif isinstance(entry.plan, RowPlan):
            noted = [(thread.context, thread.morsels, thread.first) for thread in threads]
            states.append(collect_rows(plan, entry, entry.plan, noted, groups, num_groups))
        else:
            if entry.runs:
                thread_groups = [(thread.context, thread.first) for thread in threads]
                states.append(collect_value_lists(plan, entry, entry.plan, thread_groups, groups, num_groups))
                continue
            if entry.bits is not None:
                thread_groups = [(thread.context, thread.first) for thread in threads]
                states.append(collect_bitmaps(plan, entry, entry.plan, thread_groups, groups, num_groups))
                continue
            rows_of_threads = [(thread.context, thread.morsels, thread.first) for thread in threads]
            states.append(
                collect_value_sets(index, entry, entry.plan, rows_of_threads, groups, num_groups, sources, plan)
            )
    return state_columns(layout, states)


def _collect_slots(
    layout: Layout, threads: Sequence[ArenaRows], key_words: int, groups: Int64Array, num_groups: int
) -> list[list[pa.Array]]:
    """State columns of the aggregations that have slots, in their order."""
    merged = np.zeros((num_groups, layout.row_words), np.int64)
    kinds = word_kinds(layout)
    overflow = []
    for thread in threads:
        group_numbers = groups[thread.first : thread.first + len(thread.rows)]
        merge_rows.merge_rows(thread.rows, key_words, group_numbers, kinds, merged)
        entries = thread.context.vector(G_OVERFLOW_ARENA).reshape(-1, 5)
        if len(entries):
            overflow.append(np.column_stack([group_numbers[entries[:, 0]], entries[:, 1:]]))
    outside = np.concatenate(overflow) if overflow else np.empty((0, 5), np.int64)
    states = []
    for entry in layout.aggregations:
        if isinstance(entry.plan, SlotPlan):
            last = entry.first_word + len(entry.plan.words)
            part = outside[(outside[:, 1] >= entry.first_word) & (outside[:, 1] < last)]
            parts = Overflow(part[:, 0], part[:, 1] - entry.first_word, part[:, 2], part[:, 3], part[:, 4])
            states.append(entry.plan.collect(merged[:, entry.first_word : last], merged[:, entry.seen_word], parts))
    return states
