"""Groups after merging, before anything is decoded: their words, and keys that are decoded for the rows that are
wanted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import Overflow, SlotPlan
from pinotpy.kernels.group import shared_direct_table
from pinotpy.query.aggregate.layout import AggregationLayout, Layout, state_columns


class MergedGroups:
    """Groups whose aggregations all have slots.

    Args:
        table: int64[rows, row words]. A row whose word 0 is 0 is no group; hold its memory as long as this.
        overflow: int64[n, 5]: row, word, window, low, high of parts of double sums outside the main window.
        decode: key columns of rows of the table.
    """

    def __init__(self, table: Int64Array, overflow: Int64Array, decode: Callable[[Int64Array], list[pa.Array]]) -> None:
        self.table = table
        self.overflow = overflow
        self._decode = decode
        self._all: Int64Array | None = None

    @property
    def num_rows_max(self) -> int:
        """There are at most so many groups."""
        return len(self.table)

    def all_rows(self) -> Int64Array:
        """The rows that are groups, ascending."""
        if self._all is None:
            self._all = shared_direct_table.present(self.table)
        return self._all

    def num_rows(self) -> Int64Array:
        """Selected rows of every group, in the order of `all_rows`."""
        counts: Int64Array = self.table[self.all_rows(), 0]
        return counts

    def partial_rows(self, layout: Layout, rows: Int64Array | None = None) -> pa.Table | None:
        """The rows of a PartialResult: all groups, or those in these rows (ascending). None: no groups."""
        rows = self.all_rows() if rows is None else rows
        if not len(rows):
            return None
        columns = {f"k{i}": column for i, column in enumerate(self._decode(rows))}
        return pa.table(columns | state_columns(layout, [self._states(entry, rows) for entry in layout.aggregations]))

    def _states(self, entry: AggregationLayout, rows: Int64Array) -> list[pa.Array]:
        assert isinstance(entry.plan, SlotPlan)
        last = entry.first_word + len(entry.plan.words)
        part = self.overflow[(self.overflow[:, 1] >= entry.first_word) & (self.overflow[:, 1] < last)]
        part = part[np.isin(part[:, 0], rows)] if len(part) else part
        overflow = Overflow(
            rows.searchsorted(part[:, 0]), part[:, 1] - entry.first_word, part[:, 2], part[:, 3], part[:, 4]
        )
        return entry.plan.collect(
            self.table[:, entry.first_word : last][rows], self.table[rows, entry.seen_word], overflow
        )
