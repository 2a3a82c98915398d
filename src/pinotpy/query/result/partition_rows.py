"""Which partition is a row in? By a hash of its values: equal rows are in the same one, wherever they lie in memory,
and different ones spread over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.grouping import float_bits

PARTITIONS_MAX: Final = 64
# Rows that are hashed at once; their numbers fit into 16 bits.
BLOCK_ROWS: Final = 1 << 16
# A way of hashing is good enough if the largest partition has at most so many times the rows of an even one, or few.
_UNEVEN_MAX: Final = 1.5
_FEW_ROWS: Final = 1 << 10
# Texts are hashed by their length and so many bytes at their start, in their middle and at their end; where that does
# not tell them apart, by all bytes, so many at once.
_TEXT_BYTES: Final = 8
_HASHED_BYTES: Final = 1 << 20
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_WORD_BITS: Final = 64

_Words = NDArray[np.uint64]
RowNumbers = NDArray[np.uint16]


def divided(
    blocks: Sequence[Sequence[pa.Array]], num_partitions: int, check: Callable[[], None]
) -> list[list[RowNumbers]]:
    """The rows of each block by partition, ascending.

    Goes by as few columns as spread the rows of all blocks, numbers first: texts cost most.

    Args:
        blocks: columns alike of at most BLOCK_ROWS rows each; at least one block and one column.
        num_partitions: a power of two, at most PARTITIONS_MAX.
        check: called between blocks; what it raises ends this.
    """
    by_cost = sorted(range(len(blocks[0])), key=lambda i: _is_text(blocks[0][i].type))
    ways = [(by_cost[:count], False) for count in range(1, len(by_cost) + 1)]
    if _is_text(blocks[0][by_cost[-1]].type):
        ways.append((by_cost, True))
    rows_of: list[list[RowNumbers]] = []
    for chosen, whole_texts in ways:
        rows_of.clear()
        sizes = np.zeros(num_partitions, np.int64)
        is_last = (chosen, whole_texts) == ways[-1]
        for block in blocks:
            check()
            columns = [block[i] for i in chosen]
            rows_of.append(rows_by_partition(columns, num_partitions, whole_texts=whole_texts))
            sizes += list(map(len, rows_of[-1]))
            if not is_last and not _is_even(sizes):
                break
        else:
            break
    return rows_of


def rows_by_partition(
    columns: Sequence[pa.Array], num_partitions: int, *, whole_texts: bool = False
) -> list[RowNumbers]:
    """Row numbers of each partition, ascending. `whole_texts`: texts are hashed by all their bytes."""
    words = np.zeros(len(columns[0]), np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            words = _mixed(words ^ _words(column, whole_texts=whole_texts))
    partitions = (words >> np.uint64(_WORD_BITS - num_partitions.bit_length() + 1)).astype(np.uint8)
    order = np.argsort(partitions, kind="stable").astype(np.uint16)
    ends = np.cumsum(np.bincount(partitions, minlength=num_partitions))
    return np.split(order, ends[:-1])


def _is_even(sizes: Int64Array) -> bool:
    most = int(sizes.max())
    return most <= _FEW_ROWS or most * len(sizes) <= _UNEVEN_MAX * int(sizes.sum())


def _mixed(words: _Words) -> _Words:
    words = words * _FACTOR
    return (words ^ (words >> np.uint64(32))) * _FACTOR


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _words(column: pa.Array, *, whole_texts: bool) -> _Words:
    """A word a row, equal where the values are (as functions/state/grouping.py compares them)."""
    if _is_text(column.type):
        words = _words_of_whole_texts(column) if whole_texts else _words_of_texts(column)
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


def _bounds(column: pa.Array) -> tuple[Int64Array, NDArray[np.uint8] | None]:
    """Where each text begins, and the last ends, in the bytes of all of them (None: there are none)."""
    _, offsets_buffer, content = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return offsets, None if content is None or not content.size else np.frombuffer(content, np.uint8)


def _words_of_texts(column: pa.Array) -> _Words:
    offsets, data = _bounds(column)
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    words = lengths.astype(np.uint64)
    if data is None:
        return words
    for first in (starts, (starts + ends) // 2, np.maximum(ends - _TEXT_BYTES, starts)):
        for i in range(_TEXT_BYTES):
            at = first + i
            found = data[np.minimum(at, len(data) - 1)].astype(np.uint64)
            words = words * _FACTOR + np.where(at < ends, found, np.uint64(0))
    return words


def _words_of_whole_texts(column: pa.Array) -> _Words:
    """The sum of all bytes of a text, each times a number that its place in the text has."""
    offsets, data = _bounds(column)
    lengths = np.diff(offsets)
    words = lengths.astype(np.uint64)
    if data is None:
        return words
    first = 0
    while first < len(words):
        # As many texts as have so many bytes together, at least one.
        last = max(int(np.searchsorted(offsets, offsets[first] + _HASHED_BYTES, "right")) - 1, first + 1)
        filled = first + np.flatnonzero(lengths[first:last])
        if len(filled):
            starts = offsets[filled] - offsets[first]
            content = data[offsets[first] : offsets[last]].astype(np.uint64) + np.uint64(1)
            places = np.arange(len(content)) - np.repeat(starts, lengths[filled])
            words[filled] += np.add.reduceat(content * _mixed((places + 1).astype(np.uint64)), starts)
        first = last
    return words
