"""Groups by one raw column of text whose numbers are the same in all segments (project/text_codes.py): the number is
the group, in one table a thread over all its morsels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.result_context import G_NUM_GROUPS, G_OVERFLOW_ARENA, G_TABLE, ResultContext
from pinotpy.kernels.group import direct_table, text_direct_table, thread_hash_table
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, word_kinds
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.group.shared_direct_table import add_up, null_fetch
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.project.decode import key_array
from pinotpy.query.project.sources import Source, fetch_ids
from pinotpy.query.segments.shared_codes import TextIds


@dataclass(frozen=True, slots=True)
class TextDirectTable:
    """One row for every number of a text, and one more where null is a group."""

    plan: ScanPlan
    key: Key
    numbers: TextIds
    num_rows: int

    def emit(self, shape: Shape, key_sources: Sequence[Source]) -> int:
        """Instructions up to the group numbers; gives their register."""
        shape.begin(text_direct_table.begin_text_table.address, self.num_rows)
        ids, nulls = fetch_ids(shape, key_sources[0]), null_fetch(shape, self.key, key_sources[0])
        if nulls < 0:
            return ids
        register = shape.allocate()
        shape.emit(direct_table.first_key.address, register, ids, nulls, self.numbers.num_ids)
        shape.release(ids)
        shape.release(nulls)
        return register

    def merged(self, layout: Layout, contexts: Sequence[ResultContext]) -> MergedGroups:
        """The groups of all threads; raises MemoryLimitError."""
        for context in contexts:
            if thread_hash_table.leave_all_overflow(context.words) != abi.E_OK:
                self.plan.control.check()
                raise self.plan.control.memory_error()
        width, kinds = layout.row_words, word_kinds(layout)
        tables = [
            context.words_at(G_TABLE, int(context.words[G_NUM_GROUPS]) * width).reshape(-1, width)
            for context in contexts
        ]
        tables = [table for table in tables if len(table)] or [np.empty((0, width), np.int64)]
        for other in tables[1:]:
            add_up(self.plan, tables[0], other, kinds)
        overflow = [context.vector(G_OVERFLOW_ARENA).reshape(-1, 5) for context in contexts]
        return MergedGroups(tables[0], np.concatenate(overflow), self._decode)

    def _decode(self, rows: Int64Array) -> list[pa.Array]:
        """The key column of rows of the table."""
        nulls = rows >= self.numbers.num_ids
        return [key_array(self.numbers.values(rows), nulls, self.key.data_type)]


def why_not_text(plan: ScanPlan, keys: Sequence[Key]) -> str | None:
    """Why the codes of texts cannot number the groups; None: they can."""
    if len(keys) != 1:
        return "there are several keys"
    if _codes(plan, keys[0]) is None:
        return "the key is no raw text column that has codes in all segments"
    return None


def words_of_text_table(plan: ScanPlan, layout: Layout, keys: Sequence[Key]) -> float:
    """Words of the tables of all threads."""
    codes = _codes(plan, keys[0])
    assert codes is not None
    return float((codes.num_ids + keys[0].nullable) * layout.row_words * plan.num_threads)


def make_text_direct_table(plan: ScanPlan, keys: Sequence[Key]) -> TextDirectTable:
    """The table for a query that it can serve."""
    codes = _codes(plan, keys[0])
    assert codes is not None
    return TextDirectTable(plan, keys[0], codes, codes.num_ids + keys[0].nullable)


def _codes(plan: ScanPlan, key: Key) -> TextIds | None:
    return plan.numbered.get(key.expression.name) if isinstance(key.expression, Identifier) else None
