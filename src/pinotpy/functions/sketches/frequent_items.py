"""Frequent items as Apache DataSketches has them: the heaviest values with their counts, and by how much these may be
too low.

State columns, one row a group:

    total    int64                       how many values were seen; null: nothing
    offset   int64                       counts may be too low by at most this
    items    list<int64> or list<binary>
    counts   list<int64>                 of each item, > 0; items by falling count, then ascending

A state keeps up to 16 × the map's capacity (3/4 of its size): so many different values a group are counted exactly, in
any order and split. Of more, the heaviest stay and all counts become lower by the count of the first that goes (Misra
and Gries), which is added to `offset`. Serialized:

    u8 words of the preamble (1 if empty, else 4) | u8 version 1 | u8 family 10 | u8 log2 of the largest map
    | u8 of this one | u8 flags (5 if empty) | u16 0 | u32 items | u32 0 | u64 total | u64 offset | u64 counts …
    | items: i64, or u32 length and UTF-8
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.whole_numbers import whole_number

MAP_SIZE_DEFAULT: Final = 256
MAP_SIZE_MIN, MAP_SIZE_MAX = 8, 1 << 26
_KEPT_FACTOR: Final = 16
_LOG2_MIN: Final = 3
_FAMILY, _VERSION, _EMPTY = 10, 1, 5
_HEAD: Final = struct.Struct("<BBBBBBHIIqq")


def map_size_parameter(parameters: Sequence[Any], function: str) -> int:
    """The size of the map that a call asks for, a power of two; raises InvalidQueryError."""
    if not parameters:
        return MAP_SIZE_DEFAULT
    text = str(parameters[0]).strip()
    size = whole_number(text) or 0
    if not MAP_SIZE_MIN <= size <= MAP_SIZE_MAX or size & (size - 1):
        raise InvalidQueryError(
            f"expected a power of two between {MAP_SIZE_MIN} and {MAP_SIZE_MAX} as maxMapSize of {function}, found "
            f"'{text[:40]}'"
        )
    return size


def state_fields(item: pa.DataType) -> list[pa.Field]:
    """The state columns of a sketch of int64 or binary items."""
    return [
        pa.field("total", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("items", pa.list_(item)),
        pa.field("counts", pa.list_(pa.int64())),
    ]


# --- states --------------------------------------------------------------------------------------------------------


def states_of_values(
    rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int, map_size: int
) -> list[pa.Array]:
    """State columns from (row, item, count) entries in any order."""
    totals, seen = np.zeros(num_rows, np.int64), np.zeros(num_rows, np.bool_)
    np.add.at(totals, rows, counts)
    seen[rows] = True
    return _states(rows, values, counts, totals, np.zeros(num_rows, np.int64), seen, _KEPT_FACTOR * _capacity(map_size))


def _capacity(map_size: int) -> int:
    return map_size * 3 // 4


def _states(
    rows: Int64Array,
    items: pa.Array,
    counts: Int64Array,
    totals: Int64Array,
    offsets: Int64Array,
    seen: NDArray[np.bool_],
    kept_max: int,
) -> list[pa.Array]:
    num_rows = len(totals)
    encoded = items.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
    # Equal items of a row become one.
    by_item = np.lexsort((codes, rows))
    rows, codes, counts = rows[by_item], codes[by_item], counts[by_item]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(fresh)
    counts = np.add.reduceat(counts, starts) if len(starts) else counts
    rows, codes = rows[starts], codes[starts]
    by_count = np.lexsort((codes, -counts, rows))
    rows, codes, counts = rows[by_count], codes[by_count], counts[by_count]
    sizes = np.bincount(rows, minlength=num_rows)
    first = np.cumsum(sizes) - sizes
    full = np.flatnonzero(sizes > kept_max)
    if len(full):
        lost = np.zeros(num_rows, np.int64)
        lost[full] = counts[first[full] + kept_max]
        counts, offsets = counts - lost[rows], offsets + lost
        rows, codes, counts = rows[counts > 0], codes[counts > 0], counts[counts > 0]
        sizes = np.bincount(rows, minlength=num_rows)
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    nothing = pa.array(~seen)
    kept_items = encoded.dictionary.take(pa.array(order[codes]))
    lists = [pa.ListArray.from_arrays(ends, children, mask=nothing) for children in (kept_items, pa.array(counts))]
    return [pa.array(totals, mask=~seen), pa.array(offsets, mask=~seen), *lists]


def merge_states(states: Sequence[pa.Array], groups: Int64Array, num_groups: int, map_size: int) -> list[pa.Array]:
    """State columns of `num_groups` rows."""
    return _merged(states, groups, num_groups, _KEPT_FACTOR * _capacity(map_size))


def _merged(states: Sequence[pa.Array], groups: Int64Array, num_groups: int, kept_max: int) -> list[pa.Array]:
    present = states[0].is_valid().to_numpy(zero_copy_only=False)
    totals, offsets, seen = (
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.bool_),
    )
    np.add.at(totals, groups, pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False))
    np.add.at(offsets, groups, pc.fill_null(states[1], 0).to_numpy(zero_copy_only=False))
    seen[groups[present]] = True
    parents = pc.list_parent_indices(states[2]).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = states[3].flatten().to_numpy(zero_copy_only=False)
    return _states(groups[parents], states[2].flatten(), counts, totals, offsets, seen, kept_max)


# --- serialized ----------------------------------------------------------------------------------------------------


def serialized(states: Sequence[pa.Array], map_size: int) -> list[bytes]:
    """Each row as DataSketches reads it, with at most the capacity of the map."""
    num_rows, log2_max = len(states[0]), map_size.bit_length() - 1
    columns = [state.to_pylist() for state in _merged(states, np.arange(num_rows), num_rows, _capacity(map_size))]
    sketches = []
    for total, offset, items, counts in zip(*columns, strict=True):
        if not total:
            sketches.append(bytes([1, _VERSION, _FAMILY, log2_max, _LOG2_MIN, _EMPTY, 0, 0]))
            continue
        log2 = next(log2 for log2 in range(_LOG2_MIN, log2_max + 1) if len(items) <= _capacity(1 << log2))
        head = _HEAD.pack(4, _VERSION, _FAMILY, log2_max, log2, 0, 0, len(items), 0, total, offset)
        sketches.append(head + np.array(counts, "<i8").tobytes() + _items(items))
    return sketches


def _items(items: list[Any]) -> bytes:
    if items and isinstance(items[0], int):
        return np.array(items, "<i8").tobytes()
    return b"".join(struct.pack("<I", len(item)) + item for item in items)


def states_of_serialized(
    rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int, map_size: int, item: pa.DataType
) -> list[pa.Array]:
    """State columns from (row, serialized sketch, how often it was seen) entries; empty bytes, the default of null,
    hold nothing. Raises QueryExecutionError for bytes that are no sketch of such items.
    """
    encoded = values.dictionary_encode()
    read = [_read(data, item) for data in encoded.dictionary.to_pylist()]
    columns = [
        pa.array([state[i] for state in read], field.type).take(encoded.indices)
        for i, field in enumerate(state_fields(item))
    ]
    times = pa.array(counts)
    repeated = pa.array(
        np.repeat(counts, pc.fill_null(pc.list_value_length(columns[3]), 0).to_numpy(zero_copy_only=False))
    )
    weighed = pa.ListArray.from_arrays(
        columns[3].offsets, pc.multiply(columns[3].flatten(), repeated), mask=columns[3].is_null()
    )
    columns = [pc.multiply(columns[0], times), pc.multiply(columns[1], times), columns[2], weighed]
    return _merged(columns, rows, num_rows, _KEPT_FACTOR * _capacity(map_size))


def _read(data: bytes, item: pa.DataType) -> tuple[int | None, int | None, Any, Any]:
    """One sketch as a state row."""
    if not data:
        return None, None, None, None
    if len(data) < 8 or data[1] != _VERSION or data[2] != _FAMILY or data[0] & 0x3F not in (1, 4):
        raise _not_serialized(f"{len(data)} bytes that begin with {data[:3].hex()}")
    if data[0] & 0x3F == 1:
        return 0, 0, [], []
    if len(data) < _HEAD.size:
        raise _not_serialized(f"{len(data)} bytes")
    *_, size, _, total, offset = _HEAD.unpack_from(data)
    if len(data) < _HEAD.size + (16 if pa.types.is_integer(item) else 12) * size:
        raise _not_serialized(f"{size} items in {len(data)} bytes")
    counts = np.frombuffer(data, "<i8", size, _HEAD.size).astype(np.int64)
    position = _HEAD.size + 8 * size
    items: Any
    if pa.types.is_integer(item):
        items, end = np.frombuffer(data, "<i8", size, position).astype(np.int64), position + 8 * size
    else:
        items, end = _read_texts(data, position, size)
    if end != len(data) or (counts <= 0).any() or total < 0 or offset < 0:
        raise _not_serialized(f"{len(data)} bytes whose parts do not fit together")
    return total, offset, items, counts


def _read_texts(data: bytes, offset: int, size: int) -> tuple[list[bytes], int]:
    items = []
    for _ in range(size):
        length = int.from_bytes(data[offset : offset + 4], "little")
        if offset + 4 + length > len(data):
            raise _not_serialized(f"a text of {length} bytes beyond the end")
        items.append(data[offset + 4 : offset + 4 + length])
        offset += 4 + length
    return items, offset


def _not_serialized(content: str) -> QueryExecutionError:
    return QueryExecutionError(
        f"Caught exception while merging frequent items: expected sketches of Apache DataSketches, found {content}: "
        "name a column that holds them"
    )
