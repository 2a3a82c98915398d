"""Columns of lists as states: the values of each row in order, put together, sorted, joined to texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.spec import Groups

JOINED_BYTES_MAX = 1 << 20


def lists_of(rows: Int64Array, values: pa.Array, num_rows: int) -> pa.Array:
    """The values of each row as a list, in their order; null values are left out. Raises QueryExecutionError for 2^31
    of them.
    """
    if values.null_count:
        valid = values.is_valid()
        rows, values = rows[valid.to_numpy(zero_copy_only=False)], values.filter(valid)
    if len(rows) > 1 and (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        values = values.take(pa.array(order))
    sizes = np.bincount(rows, minlength=num_rows)
    return _lists(sizes, values)


def merge_lists(states: pa.Array, groups: Groups, num_groups: int) -> pa.Array:
    """The lists of each group behind each other, in the order of the states."""
    parents = pc.list_parent_indices(states).to_numpy(zero_copy_only=False).astype(np.int64)
    return lists_of(groups[parents], states.flatten(), num_groups)


def without_null(states: pa.Array) -> pa.Array:
    """Null lists as empty ones."""
    if not states.null_count:
        return states
    return _lists(pc.fill_null(states.value_lengths(), 0).to_numpy(zero_copy_only=False), states.flatten())


def sorted_lists(states: pa.Array) -> pa.Array:
    """Every list ascending; null ones are empty. Texts by their bytes, NaN last."""
    parents, values = pc.list_parent_indices(states), states.flatten()
    order = pc.sort_indices(
        pa.table([parents, values], ["parent", "value"]), sort_keys=[("parent", "ascending"), ("value", "ascending")]
    )
    return _lists(pc.fill_null(states.value_lengths(), 0).to_numpy(zero_copy_only=False), values.take(order))


def joined(lists: pa.Array, separator: str, function: str) -> pa.Array:
    """The texts of every list with a separator between them; null for empty lists. Raises QueryExecutionError for a
    text of more than JOINED_BYTES_MAX.
    """
    counts = pc.fill_null(lists.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = lists.flatten().cast(pa.string())
    lengths = np.concatenate([[0], np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64))])
    ends = np.cumsum(counts)
    sizes = lengths[ends] - lengths[ends - counts] + np.maximum(counts - 1, 0) * len(separator.encode())
    longest = int(sizes.max(initial=0))
    if longest > JOINED_BYTES_MAX:
        raise QueryExecutionError(
            f"a text of {function} would take {longest} bytes, more than {JOINED_BYTES_MAX}: select fewer rows, or "
            "use ARRAYAGG"
        )
    results = pc.binary_join(_lists(counts, texts), separator)
    return pc.if_else(pa.array(counts > 0), results, pa.scalar(None, pa.string())) if (counts == 0).any() else results


def _lists(sizes: Int64Array, values: pa.Array) -> pa.Array:
    if len(values) >= 2**31:
        raise QueryExecutionError(
            f"the lists of this query have {len(values)} values, more than 2^31: select fewer rows or group by less"
        )
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
