"""Aggregations whose answer is one row of a group: of the first or last time, of the least or greatest measures.

State columns: `value`, what is shown of the row; `key0` …, what rows are chosen by; `place`, a text that orders rows of
all servers (RowBlock.places), so that rows with equal keys are chosen between alike, whoever has them and whichever
state is merged first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.spec import Groups
from pinotpy.functions.state.plans import RowBlock
from pinotpy.functions.state.states import order_keys

_SIGN = np.uint64(1 << 63)


def pick_rows(
    block: RowBlock, keys: Sequence[pa.Array], kept: NDArray[np.bool_], num_rows: int, *, greatest: bool, last: bool
) -> list[pa.Array]:
    """State columns: of every state row the row of the block that its keys choose, null where no row is `kept`.

    Args:
        keys: a value of every row of the block each; the first decides, the others where it is equal.
        greatest: the greatest keys, else the least. last: of equal ones the last row, else the first.
    """
    from pinotpy.kernels.aggregate.row_states import best_rows

    best, best_positions = np.zeros(num_rows, np.int64), np.full(num_rows, -1, np.int64)
    best_rows(block.rows, order_codes(keys), kept, greatest, last, best, best_positions)
    has_row = best_positions >= 0
    picked = best_positions[has_row]
    places = None if has_row.all() else pa.array(np.where(has_row, np.cumsum(has_row) - 1, 0), mask=~has_row)
    taken = [block.argument(0, picked), *(key.take(pa.array(picked)) for key in keys), block.places(picked)]
    return taken if places is None else [column.take(places) for column in taken]


def merge_picked(
    states: Sequence[pa.Array], groups: Groups, num_groups: int, *, greatest: bool, last: bool
) -> list[pa.Array]:
    """The state rows that keys and places choose among those of each group."""
    valid = np.flatnonzero(states[-1].is_valid().to_numpy(zero_copy_only=False))
    rows, codes = groups[valid], order_codes([key.take(pa.array(valid)) for key in states[1:-1]])
    order = np.lexsort((codes, rows))
    ends = (
        np.flatnonzero(np.diff(rows[order], append=-1))
        if greatest
        else np.flatnonzero(np.diff(rows[order], prepend=-1))
    )
    best = np.zeros(num_groups, np.int64)
    best[rows[order[ends]]] = codes[order[ends]]
    tied = np.flatnonzero(codes == best[rows])
    if len(tied) > len(ends):
        ranks = order_codes([states[-1].take(pa.array(valid[tied]))])
        order = tied[np.lexsort((ranks, rows[tied]))]
        ends = (
            np.flatnonzero(np.diff(rows[order], append=-1))
            if last
            else np.flatnonzero(np.diff(rows[order], prepend=-1))
        )
    chosen = np.full(num_groups, -1, np.int64)
    chosen[rows[order[ends]]] = valid[order[ends]]
    taken = pa.array(chosen, mask=chosen < 0)
    return [column.take(taken) for column in states]


def order_codes(columns: Sequence[pa.Array]) -> Int64Array:
    """Numbers that are ordered as the rows of these columns are: by the first, where it is equal by the next. −0.0 is
    0.0, NaN above all numbers, texts go by their bytes; what stands for null is not said.
    """
    codes = _codes(columns[0])
    for column in columns[1:]:
        more = _dense(_codes(column))
        codes = _dense(codes) * (int(more.max(initial=0)) + 1) + more
    return codes


def _dense(codes: Int64Array) -> Int64Array:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _codes(column: pa.Array) -> Int64Array:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column, 0.0).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray((order_keys(values) ^ _SIGN).view(np.int64))
    if pa.types.is_integer(column.type):
        filled = pc.fill_null(column, 0) if column.null_count else column
        return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    ranks: Int64Array = (
        pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return ranks
