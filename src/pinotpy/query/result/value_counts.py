"""How many different values do sets have together? Counted a part of the values at a time, so that what it takes beside
the sets is what one part takes, and the one set of all values is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.grouping import distinct_pairs, number_rows
from pinotpy.query.result.partition_rows import BLOCK_ROWS, divided


def count_values(
    sets: Sequence[pa.Array], groups: Int64Array, num_groups: int, num_parts: int, check: Callable[[], None]
) -> Int64Array:
    """int64[num_groups]: the number of different values in the sets of each group.

    Args:
        sets: list arrays of one type, null free but for whole lists: nothing was seen there.
        groups: of each list, those of all arrays one after the other.
        num_parts: of the values, a power of two, at most PARTITIONS_MAX.
        check: called between blocks and parts; what it raises ends this.
    """
    counts = np.zeros(num_groups, np.int64)
    blocks = _blocks(sets, groups, with_owners=num_groups > 1)
    if not blocks:
        return counts
    if num_parts == 1:
        _add(counts, blocks)
        return counts
    rows_of = divided(blocks, num_parts, check)
    for part in range(num_parts):
        check()
        _add(
            counts,
            [
                [column.take(pa.array(rows[part])) for column in block]
                for block, rows in zip(blocks, rows_of, strict=True)
                if len(rows[part])
            ],
        )
    return counts


def _blocks(sets: Sequence[pa.Array], groups: Int64Array, *, with_owners: bool) -> list[list[pa.Array]]:
    """Values, and the group of each, of at most so many as are hashed at once."""
    blocks, first_row = [], 0
    for lists in sets:
        values = lists.flatten()
        columns = [values]
        if with_owners:
            lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
            owners = groups[first_row : first_row + len(lists)].astype(np.int32)
            columns.append(pa.array(np.repeat(owners, lengths)))
        first_row += len(lists)
        blocks += [
            [column.slice(start, BLOCK_ROWS) for column in columns] for start in range(0, len(values), BLOCK_ROWS)
        ]
    return blocks


def _add(counts: Int64Array, blocks: list[list[pa.Array]]) -> None:
    """Count these values, which no others are equal to."""
    if not blocks:
        return
    columns = [pa.concat_arrays([block[i] for block in blocks]) for i in range(len(blocks[0]))]
    if len(columns) == 1:
        counts[0] += len(number_rows(columns)[1])
        return
    owners = columns[1].to_numpy().astype(np.int64)
    counts += np.bincount(owners[distinct_pairs(owners, columns[0])], minlength=len(counts))
