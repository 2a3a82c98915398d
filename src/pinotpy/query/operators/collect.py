"""From the arenas of all threads to state columns by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.spec import RegisterPlan, SlotPlan, Spilled
from pinotpy.kernels import merge
from pinotpy.kernels.exact_sums import UNIT_DOCS_MAX
from pinotpy.kernels.result_context import G_SPILL_ARENA, ResultContext
from pinotpy.query.operators.distributions import collect_distribution
from pinotpy.query.operators.layout import Layout, state_columns, word_kinds
from pinotpy.query.operators.registers import collect_registers
from pinotpy.query.operators.sources import Sources
from pinotpy.query.operators.value_bits import collect_bits
from pinotpy.query.operators.value_runs import collect_runs
from pinotpy.query.plan import ScanPlan
from pinotpy.query.star_tree.sketches import collect_sketches

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArenaRows:
    """The rows of one thread: int64[n, key words + row words], the unit of each, and its number among all rows."""

    context: ResultContext
    rows: Words
    units: Words
    first: int


def arena_rows(contexts: Sequence[ResultContext], numbers: Words | None = None) -> list[ArenaRows]:
    """The rows that the threads left; `numbers`: of units, where they are not those of the plan (prepared.py)."""
    out, first = [], 0
    for context in contexts:
        rows = context.arena()
        units = merge.units_of_rows(context.units(), len(rows))
        out.append(ArenaRows(context, rows, units if numbers is None else numbers[units], first))
        first += len(rows)
    return out


def collect_states(
    layout: Layout, threads: Sequence[ArenaRows], key_words: int, groups: Words, num_groups: int, sources: Sources, values_max: int, plan: ScanPlan
) -> dict[str, pa.Array]:
    """State columns of all aggregations, `num_groups` rows.

    Args:
        groups: group of every row of all threads.
        values_max: at most so many values were added to one group: within UNIT_DOCS_MAX rows are added up as they are,
            beyond it as state columns, whose sums have no bound.
        plan: the one that ran; that of `sources` may be shared by several queries (prepared.py).
    """
    wide = values_max > UNIT_DOCS_MAX and len(groups) != num_groups
    rows = np.arange(len(groups), dtype=np.int64) if wide else groups
    slots = iter(_collect_slots(layout, threads, key_words, rows, len(groups) if wide else num_groups))
    states = []
    for index, entry in enumerate(layout.aggregations):
        if isinstance(entry.plan, SlotPlan):
            columns = next(slots)
            states.append(entry.function.merge(columns, groups, num_groups) if wide else columns)
        elif sources.plan.pre_aggregated:
            states.append(collect_sketches(sources.plan, entry, threads, groups, num_groups))
        elif isinstance(entry.plan, RegisterPlan):
            left = [(thread.context, len(thread.rows), thread.first) for thread in threads]
            states.append(collect_registers(entry, entry.plan, left, groups, num_groups, grouped=key_words > 0))
        else:
            if entry.runs:
                own = [(thread.context, thread.first) for thread in threads]
                states.append(collect_runs(plan, entry, entry.plan, own, groups, num_groups))
                continue
            if entry.bits is not None:
                own = [(thread.context, thread.first) for thread in threads]
                states.append(collect_bits(plan, entry, entry.plan, own, groups, num_groups))
                continue
            rows_of_threads = [(thread.context, thread.units, thread.first) for thread in threads]
            states.append(collect_distribution(index, entry, entry.plan, rows_of_threads, groups, num_groups, sources, plan))
    return state_columns(layout, states)


def _collect_slots(layout: Layout, threads: Sequence[ArenaRows], key_words: int, groups: Words, num_groups: int) -> list[list[pa.Array]]:
    """State columns of the aggregations that have slots, in their order."""
    merged = np.zeros((num_groups, layout.row_words), np.int64)
    kinds = word_kinds(layout)
    spilled = []
    for thread in threads:
        own = groups[thread.first : thread.first + len(thread.rows)]
        merge.merge_rows(thread.rows, key_words, own, kinds, merged)
        entries = thread.context.vector(G_SPILL_ARENA).reshape(-1, 5)
        if len(entries):
            spilled.append(np.column_stack([own[entries[:, 0]], entries[:, 1:]]))
    outside = np.concatenate(spilled) if spilled else np.empty((0, 5), np.int64)
    states = []
    for entry in layout.aggregations:
        if isinstance(entry.plan, SlotPlan):
            last = entry.first_word + len(entry.plan.words)
            part = outside[(outside[:, 1] >= entry.first_word) & (outside[:, 1] < last)]
            parts = Spilled(part[:, 0], part[:, 1] - entry.first_word, part[:, 2], part[:, 3], part[:, 4])
            states.append(entry.plan.collect(merged[:, entry.first_word : last], merged[:, entry.seen_word], parts))
    return states


_STORED_ARROW = {
    StoredType.INT: pa.int32(),
    StoredType.LONG: pa.int64(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
    StoredType.VAR: pa.binary(),
}


def decode(words: Words, units: Words, metas: Words, stored: StoredType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values (Arrow, stored form) of key words, and which of them are null.

    Args:
        words: dict ids where metas[unit] is an address, else the values' 64 bits; ids past the dictionary are null.
    """
    nulls = np.zeros(len(words), np.bool_)
    words = np.ascontiguousarray(words)
    if stored is StoredType.VAR:
        offsets = np.empty(len(words) + 1, np.int64)
        merge.decode_var_lengths(words, units, metas, offsets, nulls)
        if offsets[-1] >= 2**31:
            raise QueryExecutionError(f"the values of the groups take {offsets[-1]} bytes, more than an answer holds: group by shorter values or fewer")
        body = np.empty(max(int(offsets[-1]), 1), np.uint8)
        merge.decode_var_bytes(words, units, metas, offsets, body)
        return pa.Array.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)]), nulls
    if metas.all() or not len(words):
        values = np.empty(len(words), np.int64)
        merge.decode_fixed(words, units, metas, values, nulls)
    elif not metas.any():
        values = words
    else:
        values = words.copy()
        by_id = np.flatnonzero(metas[units])
        decoded, null_ids = np.empty(len(by_id), np.int64), np.zeros(len(by_id), np.bool_)
        merge.decode_fixed(words[by_id], units[by_id], metas, decoded, null_ids)
        values[by_id], nulls[by_id] = decoded, null_ids
    plain = values.view(np.float64) if stored.is_floating else values
    with np.errstate(over="ignore"):
        return pa.array(plain.astype(stored.numpy, copy=False), _STORED_ARROW[stored]), nulls


def key_array(values: pa.Array, nulls: NDArray[np.bool_], data_type: DataType) -> pa.Array:
    """A key column of a partial result: the type's Arrow form, null where `nulls`."""
    if nulls.any():
        keep = pa.array(~nulls)
        values = pc.if_else(keep, values, pa.scalar(None, values.type))
    return values if values.type == data_type.arrow else values.cast(data_type.arrow)
