"""Groups by one raw column of text whose numbers are the same in all segments (project/text_codes.py): the number is
the group, in one table a thread over all its morsels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX
from pinotpy.kernels.aggregate.result_context import G_NUM_GROUPS, G_OVERFLOW_ARENA, G_TABLE, ResultContext
from pinotpy.kernels.group import direct_table, text_direct_table, thread_hash_table
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, values_bound, word_kinds
from pinotpy.query.group.groups import MergedGroups
from pinotpy.query.group.shared_direct_table import add_up, has_only_words, null_fetch
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

    def emit(self, shape: Shape, found: Sequence[Source]) -> int:
        """Instructions up to the group numbers; gives their register."""
        shape.begin(text_direct_table.begin_text_table.address, self.num_rows)
        ids, nulls = fetch_ids(shape, found[0]), null_fetch(shape, self.key, found[0])
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


def make_text_direct_table(plan: ScanPlan, layout: Layout, keys: list[Key]) -> TextDirectTable | None:
    """The table for a query, None where its key is no numbered text or the table would be too large."""
    if len(keys) != 1 or not isinstance(keys[0].expression, Identifier) or not has_only_words(layout, keys):
        return None
    numbers = plan.numbered.get(keys[0].expression.name)
    if numbers is None or values_bound(plan, layout, ()) > MORSEL_DOCS_MAX:
        return None
    num_rows = numbers.num_ids + keys[0].nullable
    if num_rows * layout.row_words * 8 * plan.num_threads > plan.control.share("group table"):
        return None
    return TextDirectTable(plan, keys[0], numbers, num_rows)
