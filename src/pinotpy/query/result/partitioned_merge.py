"""Merging many groups a partition at a time: the rows of all partial results fall into partitions by a hash of their
keys, so a partition is merged, finished and cut to what the answer can show before the next one is touched. What the
merge takes beside the partial results is what one partition takes (a grace hash aggregation whose input stays in
memory).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.functions.state.grouping import float_bits
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result.combine import merge_all_but_rows, merge_tables
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduce import shows_any_groups, without_hidden_groups

PARTITIONS_MAX: Final = 64
# Rows that are hashed at once; their numbers fit into 16 bits.
_BLOCK_ROWS: Final = 1 << 16
# Texts are hashed by their length and so many bytes at their start, in their middle and at their end.
_TEXT_BYTES: Final = 8
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_WORD_BITS: Final = 64
# A column is enough if its largest partition has at most so many times the rows of an even one.
_UNEVEN_MAX: Final = 1.5

_Words = NDArray[np.uint64]
_Rows = NDArray[np.uint16]


def merge_by_partitions(
    context: QueryContext, partials: Sequence[PartialResult], num_partitions: int, check: Callable[[], None]
) -> PartialResult:
    """As `combine.merge_partials` of a GROUP BY, but only with groups that the answer may show, and in another order.

    Args:
        num_partitions: a power of two, at most PARTITIONS_MAX.
        check: called between partitions; what it raises ends the merge.
    """
    assert not exceeds_groups_limit(context, partials), "which groups a limit leaves out depends on all of them"
    merged = merge_all_but_rows(partials)
    tables = [rows for partial in partials if (rows := partial.rows) is not None]
    names = [f"k{i}" for i in range(len(context.group_by))]
    blocks = [block for table in tables for block in table.to_batches(max_chunksize=_BLOCK_ROWS) if block.num_rows]
    if not blocks:
        merged.rows = tables[0] if tables else None
        return merged
    chosen = _enough_columns(blocks[0], names, num_partitions)
    rows_of = []
    for block in blocks:
        check()
        rows_of.append(list(_rows_by_partition([block.column(name) for name in chosen], num_partitions)))
    kept = []
    for partition in range(num_partitions):
        check()
        parts = [
            pa.Table.from_batches([block.take(pa.array(rows[partition]))])
            for block, rows in zip(blocks, rows_of, strict=True)
            if len(rows[partition])
        ]
        if parts:
            groups = merge_tables(context, parts)
            # What HAVING refuses is gone, and so is what the answer cannot show.
            kept.append(without_hidden_groups(context, groups))
            if _is_enough(context, kept):
                break
    merged.rows = pa.concat_tables(kept)
    return merged


def exceeds_groups_limit(context: QueryContext, partials: Sequence[PartialResult]) -> bool:
    """Whether a limit on the number of groups may leave some out."""
    limit = context.options.num_groups_limit
    return limit is not None and sum(partial.num_rows for partial in partials) > limit


def _is_enough(context: QueryContext, kept: list[pa.Table]) -> bool:
    """Whether any groups are right and there are as many as the answer shows."""
    return shows_any_groups(context) and sum(table.num_rows for table in kept) >= context.offset + context.limit


def _enough_columns(block: pa.RecordBatch, names: list[str], num_partitions: int) -> list[str]:
    """The fewest key columns whose hash spreads rows over partitions, numbers first: texts cost most."""
    by_cost = sorted(names, key=lambda name: _is_text(block.schema.field(name).type))
    for count in range(1, len(by_cost)):
        rows = _rows_by_partition([block.column(name) for name in by_cost[:count]], num_partitions)
        if max(map(len, rows)) * num_partitions <= _UNEVEN_MAX * block.num_rows:
            return by_cost[:count]
    return by_cost


def _rows_by_partition(columns: Sequence[pa.Array], num_partitions: int) -> Iterator[_Rows]:
    """Row numbers of each partition, ascending."""
    words = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            words = _mixed(words ^ _words(column))
    partitions = (words >> np.uint64(_WORD_BITS - num_partitions.bit_length() + 1)).astype(np.uint8)
    order = np.argsort(partitions, kind="stable").astype(np.uint16)
    ends = np.cumsum(np.bincount(partitions, minlength=num_partitions))
    start = 0
    for end in ends.tolist():
        yield order[start:end]
        start = end


def _mixed(words: _Words) -> _Words:
    words = words * _FACTOR
    return (words ^ (words >> np.uint64(32))) * _FACTOR


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _words(column: pa.Array) -> _Words:
    """A word a row, equal where the values are (as functions/state/grouping.py compares them)."""
    if _is_text(column.type):
        words = _words_of_texts(column)
    else:
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        filled = pc.fill_null(column, 0) if column.null_count else column
        values = filled.to_numpy(zero_copy_only=False)
        bits = float_bits(values) if pa.types.is_floating(column.type) else values.astype(np.int64, copy=False)
        words = bits.view(np.uint64)
    if column.null_count:
        words = np.where(column.is_null().to_numpy(zero_copy_only=False), _FACTOR, words)
    return words


def _words_of_texts(column: pa.Array) -> _Words:
    _, offsets_buffer, content = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    words = lengths.astype(np.uint64)
    if content is None or not content.size:
        return words
    data = np.frombuffer(content, np.uint8)
    for first in (starts, (starts + ends) // 2, np.maximum(ends - _TEXT_BYTES, starts)):
        for i in range(_TEXT_BYTES):
            at = first + i
            found = data[np.minimum(at, len(data) - 1)].astype(np.uint64)
            words = words * _FACTOR + np.where(at < ends, found, np.uint64(0))
    return words
