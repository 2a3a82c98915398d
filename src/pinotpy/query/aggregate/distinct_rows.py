"""COUNT(DISTINCT a, b) of an answer that is made here alone: how many different rows each group has, without the rows
themselves.

Values become words: numbers their 64 bits, texts their number among the texts of all blocks. The kernels of
distinct_rows.py count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import RowBlock
from pinotpy.functions.state.states import count_states
from pinotpy.kernels.aggregate import distinct_rows
from pinotpy.kernels.runtime import partitioning
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.runtime.parallel import run_pieces


def count_rows(
    plan: ScanPlan, blocks: Sequence[Callable[[], RowBlock]], num_arguments: int, num_groups: int
) -> list[pa.Array]:
    """The state column that stands for the sets of all groups (functions.state.states.count_states). `blocks`: the rows
    of each have their groups as numbers.

    Raises: MemoryLimitError; what arguments and the control raise.
    """
    parts: list[tuple[Int64Array, list[Int64Array | pa.DictionaryArray]]] = [(np.empty(0, np.int64), [])] * len(blocks)
    reserved = [0] * len(blocks)

    def read(index: int) -> None:
        plan.control.check()
        parts[index] = _words_of(blocks[index](), num_arguments)
        reserved[index] = sum(column.nbytes for column in (parts[index][0], *parts[index][1]))
        plan.control.reserve(reserved[index])

    try:
        run_pieces(plan, [partial(read, index) for index in range(len(blocks))])
        return count_states(_count(plan, parts, num_arguments, num_groups))
    finally:
        plan.control.release(sum(reserved))


def _words_of(block: RowBlock, num_arguments: int) -> tuple[Int64Array, list[Int64Array | pa.DictionaryArray]]:
    """Groups and values of the rows in which nothing is null."""
    columns = [block.argument(index) for index in range(num_arguments)]
    groups, valid = block.rows, np.ones(len(block.rows), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        groups, columns = groups[valid], [column.filter(pa.array(valid)) for column in columns]
    return groups, [_words(column) for column in columns]


def _words(column: pa.Array) -> Int64Array | pa.DictionaryArray:
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # -0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan
        return np.asarray(numbers.view(np.int64))
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        return column.dictionary_encode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _count(
    plan: ScanPlan,
    parts: list[tuple[Int64Array, list[Int64Array | pa.DictionaryArray]]],
    num_arguments: int,
    num_groups: int,
) -> Int64Array:
    starts = np.concatenate([[0], np.cumsum([len(groups) for groups, _ in parts])])
    total = int(starts[-1])
    size_bytes = 2 * total * (1 + num_arguments) * 8
    plan.control.reserve(size_bytes)
    try:
        rows = np.empty((total, 1 + num_arguments), np.int64)
        for start, (groups, _) in zip(starts, parts, strict=False):
            rows[start : start + len(groups), 0] = groups
        for index in range(num_arguments):
            plan.control.check()
            for start, values in zip(starts, _numbered([columns[index] for _, columns in parts]), strict=False):
                rows[start : start + len(values), 1 + index] = values
        return _count_different(plan, rows, num_groups)
    finally:
        plan.control.release(size_bytes)


def _numbered(columns: list[Any]) -> list[Int64Array]:
    """Words of one argument; of texts, their numbers in one dictionary of all blocks."""
    if not columns or not isinstance(columns[0], pa.DictionaryArray):
        return columns
    # The chunks of one encoding share its dictionary; empty ones are left out.
    deduplicated = pa.chunked_array([column.dictionary for column in columns]).dictionary_encode().chunks
    numbers = np.concatenate(
        [np.empty(0, np.int64), *(chunk.indices.to_numpy(zero_copy_only=False) for chunk in deduplicated)]
    )
    starts = np.concatenate([[0], np.cumsum([len(column.dictionary) for column in columns])])
    return [
        numbers[start + column.indices.to_numpy(zero_copy_only=False)]
        for start, column in zip(starts, columns, strict=False)
    ]


def _count_different(plan: ScanPlan, rows: Int64Array, num_groups: int) -> Int64Array:
    workers = plan.num_threads if len(rows) > distinct_rows.PART_ROWS else 1
    bits = min(max((len(rows) // distinct_rows.PART_ROWS).bit_length(), 1), distinct_rows.PART_BITS_MAX)
    num_parts = 1 << bits
    shares = [len(rows) * worker // workers for worker in range(workers + 1)]
    sizes = np.zeros((workers, num_parts), np.int64)
    row_groups = [rows[shares[worker] : shares[worker + 1]] for worker in range(workers)]
    run_pieces(
        plan,
        [partial(partitioning.count_rows, row_groups[worker], 0, bits, sizes[worker]) for worker in range(workers)],
    )
    starts, places = partitioning.places_of(sizes)
    scattered = np.empty_like(rows)
    plan.control.check()
    run_pieces(
        plan,
        [
            partial(partitioning.scatter_rows, row_groups[worker], 0, bits, places[worker], scattered)
            for worker in range(workers)
        ],
    )
    counts = np.zeros((workers, num_groups), np.int64)
    borders = [num_parts * worker // workers for worker in range(workers + 1)]
    plan.control.check()
    run_pieces(
        plan,
        [
            partial(distinct_rows.count_different, scattered, starts, borders[w], borders[w + 1], counts[w])
            for w in range(workers)
        ],
    )
    return np.asarray(counts.sum(axis=0))
