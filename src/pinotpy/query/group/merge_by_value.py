"""The last step of a GROUP BY whose morsels had tables of their own: rows of equal keys become one group, by value."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.grouping import number_rows
from pinotpy.functions.state.scattering import add_at
from pinotpy.kernels.aggregate.result_context import G_CUT
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.arena_rows import ArenaRows
from pinotpy.query.aggregate.collect import collect_states
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, values_bound
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.decode import decode, key_array
from pinotpy.query.project.sources import Sources
from pinotpy.query.result.merge_memory import MERGE_BYTES_A_VALUE
from pinotpy.query.segments.shared_codes import TextIds

# A text of 20 bytes with its offset, and its dictionary's code before.
KEY_WORDS: Final = 4


def column_bytes(layout: Layout, num_keys: int, num_groups: int) -> int:
    """What the columns of so many groups take, about: their states' words, and keys as values or texts."""
    return num_groups * (layout.row_words + num_keys * KEY_WORDS) * 8


def merge_by_value(
    plan: ScanPlan, layout: Layout, keys: list[Key], key_words: int, threads: list[ArenaRows], sources: Sources
) -> tuple[pa.Table | None, Int64Array | None]:
    """The groups of the rows that all morsels left, and how many docs each has where a limit may cut them.

    Raises: MemoryLimitError; what functions and the control raise.
    """
    num_rows = sum(len(thread.rows) for thread in threads)
    if num_rows == 0:
        return None, None
    plan.control.reserve(column_bytes(layout, len(keys), num_rows))
    columns = [pa.concat_arrays([_key_column(plan, key, thread) for thread in threads]) for key in keys]
    cut = np.concatenate([thread.first + thread.context.vector(G_CUT) for thread in threads])
    if not len(cut) and sum(len(thread.context.morsels()) for thread in threads) == 1:
        numbers = first = np.arange(num_rows, dtype=np.int64)
    else:
        numbering_bytes = num_rows * MERGE_BYTES_A_VALUE
        plan.control.reserve(numbering_bytes)
        numbers, first = _numbered(columns, cut)
        plan.control.release(numbering_bytes)
    num_groups = len(first) + (len(cut) > 0)
    plan.control.check()
    out = {
        f"k{i}": _texts(plan, key, column.take(pa.array(first)))
        for i, (key, column) in enumerate(zip(keys, columns, strict=True))
    }
    counts = None
    if plan.context.options.num_groups_limit is not None:
        counts = np.zeros(num_groups, np.int64)
        add_at(counts, numbers, np.concatenate([thread.rows[:, key_words] for thread in threads]))
        counts = counts[: len(first)]
    values_max = values_bound(plan, layout, expanded_columns(keys))
    states = collect_states(layout, threads, key_words, numbers, num_groups, sources, values_max, plan)
    return pa.table(out | {name: column[: len(first)] for name, column in states.items()}), counts


def _numbered(columns: list[pa.Array], cut: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The number of each row's group, and the first row of each group. `cut`: rows beyond the limit on groups, which
    stand behind all groups until states are made.
    """
    if not len(cut):
        return number_rows(columns)
    remaining = np.delete(np.arange(len(columns[0])), cut)
    numbers = np.full(len(columns[0]), -1, np.int64)
    numbers[remaining], first = number_rows([column.take(pa.array(remaining)) for column in columns])
    numbers[cut] = len(first)
    return numbers, remaining[first]


def expanded_columns(keys: list[Key]) -> tuple[str, ...]:
    """Multi-value columns of which every value is a key: each once, also if several keys are of it."""
    return tuple(dict.fromkeys(_name(key) for key in keys if key.expanded))


def _name(key: Key) -> str:
    assert isinstance(key.expression, Identifier)
    return key.expression.name


def _key_column(plan: ScanPlan, key: Key, thread: ArenaRows) -> pa.Array:
    numbers = _numbers(plan, key)
    if numbers is not None:  # they are told apart by number, and read when the groups are known
        words = thread.rows[:, key.word]
        return pa.array(words, mask=words >= numbers.num_ids)
    values, nulls = decode(thread.rows[:, key.word], thread.morsels, key.metas, key.data_type.stored)
    if key.has_flag:
        nulls |= thread.rows[:, key.word + 1] != 0
    return key_array(values, nulls, key.data_type)


def _texts(plan: ScanPlan, key: Key, column: pa.Array) -> pa.Array:
    """A key column, of numbers the texts."""
    numbers = _numbers(plan, key)
    if numbers is None:
        return column
    ids = column.fill_null(0).to_numpy(zero_copy_only=False)
    return key_array(numbers.values(ids), column.is_null().to_numpy(zero_copy_only=False), key.data_type)


def _numbers(plan: ScanPlan, key: Key) -> TextIds | None:
    return plan.numbered.get(key.expression.name) if isinstance(key.expression, Identifier) else None
