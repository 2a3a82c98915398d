"""Theta sketches: the `nominal entries` smallest 63-bit hashes of what was seen, and theta, the bound below which all
were kept.

State columns, one row a group:

    theta   int64          null: nothing seen; 2^63 − 1: every hash is kept, the count is exact
    hashes  list<int64>    ascending, below theta

A state depends only on the set of values, not on their order or on how they were split: keeping the k smallest hashes
and the (k+1)-th as theta is associative. Hashes (MurmurHash3_x64_128, seed 9001, first 64 bits >> 1) and the serialized
form, compact sketches of serial version 3, are those of Apache DataSketches, so sketches are exchanged with its
libraries:

    u8 preamble longs (1, 2, 3) | u8 3 | u8 family 3 | u16 0 | u8 flags | u16 seed hash | u32 count | f32 1.0
    | u64 theta | u64 hashes …
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.sketches.murmur import byte_strings, murmur3_bytes, murmur3_words

NOMINAL_ENTRIES_DEFAULT: Final = 4096
NOMINAL_ENTRIES_MIN: Final = 16
NOMINAL_ENTRIES_MAX: Final = 1 << 26
EXACT: Final = 2**63 - 1
_SEED: Final = 9001
_SEED_HASH: Final = 0x93CC
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_EMPTY_SKETCH: Final = bytes([1, 3, 3, 0, 0, _READ_ONLY | _EMPTY | _COMPACT | _ORDERED, 0, 0])


def state_fields() -> list[pa.Field]:
    """The state columns."""
    return [pa.field("theta", pa.int64()), pa.field("hashes", pa.list_(pa.int64()))]


# --- from values ---------------------------------------------------------------------------------------------------


def states_of_values(
    rows: Int64Array, values: pa.Array, num_rows: int, data_type: DataType, nominal_entries: int
) -> list[pa.Array]:
    """State columns from (row, value) pairs (stored form, no nulls). Empty texts are no values, as in DataSketches."""
    hashes = _hash_values(values, data_type)
    retained = hashes != 0
    if not data_type.stored.is_fixed:
        retained &= byte_strings(values)[1] > 0
    theta = np.full(num_rows, -1, np.int64)
    theta[rows] = EXACT
    return _states(rows[retained], hashes[retained], theta, nominal_entries)


def _hash_values(values: pa.Array, data_type: DataType) -> Int64Array:
    """63 bits of each value; 0 is never a hash of a sketch. FLOAT as the double, −0.0 as 0.0, one NaN; BOOLEAN as 0 and
    1.
    """
    if not data_type.stored.is_fixed:
        first, _ = murmur3_bytes(values, _SEED)
    else:
        plain = values.to_numpy(zero_copy_only=False)
        if data_type.stored.is_floating:
            wide = plain.astype(np.float64) + 0.0
            wide[np.isnan(wide)] = np.nan
            words = wide.view(np.uint64)
        else:
            words = plain.astype(np.int64).view(np.uint64)
        first, _ = murmur3_words(words, _SEED)
    return (first >> np.uint64(1)).view(np.int64)


def _states(rows: Int64Array, hashes: Int64Array, theta: Int64Array, nominal_entries: int) -> list[pa.Array]:
    """State columns from (row, hash) pairs in any order. theta (−1: nothing seen) is at most the bound of each row's
    parts.
    """
    num_rows = len(theta)
    below = hashes < theta[rows]
    rows, hashes = rows[below], hashes[below]
    if num_rows == 1:
        hashes = np.sort(hashes)  # np.unique goes through a hash table, many times slower
    else:
        order = np.lexsort((hashes, rows))
        rows, hashes = rows[order], hashes[order]
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (hashes[1:] != hashes[:-1])
    rows, hashes = rows[fresh], hashes[fresh]
    sizes = np.bincount(rows, minlength=num_rows)
    starts = np.cumsum(sizes) - sizes
    full = np.flatnonzero(sizes > nominal_entries)
    if len(full):
        theta = theta.copy()
        theta[full] = hashes[starts[full] + nominal_entries]
        hashes = hashes[np.arange(len(hashes)) - starts[rows] < nominal_entries]
        sizes = np.minimum(sizes, nominal_entries)
    if len(hashes) >= 2**31:
        raise QueryExecutionError(
            f"the groups of this query keep {len(hashes)} hashes, more than 2^31: lower nominalEntries or group by less"
        )
    offsets = np.zeros(num_rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    nothing = theta < 0
    return [
        pa.array(theta, mask=nothing),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(hashes), mask=pa.array(nothing)),
    ]


# --- merging -------------------------------------------------------------------------------------------------------


def merge_states(
    states: Sequence[pa.Array], groups: Int64Array, num_groups: int, nominal_entries: int
) -> list[pa.Array]:
    """State columns of `num_groups` rows: the union of each group's sketches."""
    seen = states[0].is_valid().to_numpy(zero_copy_only=False)
    thetas = pc.fill_null(states[0], EXACT).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(states[1]).to_numpy(zero_copy_only=False).astype(np.int64)
    return _states(
        groups[parents],
        states[1].flatten().to_numpy(zero_copy_only=False),
        _bounds(groups[seen], thetas[seen], num_groups),
        nominal_entries,
    )


def _bounds(groups: Int64Array, thetas: Int64Array, num_groups: int) -> Int64Array:
    """The smallest theta of each group, −1 where there is none."""
    theta = np.full(num_groups, EXACT, np.int64)
    np.minimum.at(theta, groups, thetas)
    seen = np.zeros(num_groups, np.bool_)
    seen[groups] = True
    theta[~seen] = -1
    return theta


# --- results and serialized sketches -------------------------------------------------------------------------------


def estimates(states: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values of each row, int64; 0 where nothing was seen."""
    theta = pc.fill_null(states[0], EXACT).to_numpy(zero_copy_only=False)
    sizes = pc.fill_null(pc.list_value_length(states[1]), 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return pa.array(np.floor(np.where(theta == EXACT, sizes, sizes * (2.0**63 / theta)) + 0.5).astype(np.int64))


def serialized(states: Sequence[pa.Array]) -> list[bytes]:
    """Each row as a compact, ordered sketch."""
    theta = pc.fill_null(states[0], EXACT).to_numpy(zero_copy_only=False).tolist()
    hashes = states[1].flatten().to_numpy(zero_copy_only=False).astype("<i8")
    ends = np.concatenate(
        [[0], np.cumsum(pc.fill_null(pc.list_value_length(states[1]), 0).to_numpy(zero_copy_only=False))]
    ).tolist()
    return [
        _preamble(bound, end - begin) + hashes[begin:end].tobytes()
        for bound, (begin, end) in zip(theta, pairwise(ends), strict=True)
    ]


def _preamble(theta: int, count: int) -> bytes:
    flags = _READ_ONLY | _COMPACT | _ORDERED
    if theta == EXACT and count == 0:
        return _EMPTY_SKETCH
    if theta == EXACT and count == 1:
        return struct.pack("<BBBHBH", 1, 3, 3, 0, flags | _SINGLE, _SEED_HASH)
    head = struct.pack("<BBBHBHIf", 2 if theta == EXACT else 3, 3, 3, 0, flags, _SEED_HASH, count, 1.0)
    return head if theta == EXACT else head + struct.pack("<q", theta)


def states_of_serialized(rows: Int64Array, values: pa.Array, num_rows: int, nominal_entries: int) -> list[pa.Array]:
    """State columns from (row, serialized sketch) pairs; raises QueryExecutionError for bytes that are no compact
    sketch.
    """
    encoded = values.dictionary_encode()
    read = [_read(data) for data in encoded.dictionary.to_pylist()]
    sizes = np.array([len(hashes) for _, hashes in read], np.int64)
    pool = np.concatenate([np.empty(0, np.int64), *(hashes for _, hashes in read)])
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = sizes[codes]
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    hashes = pool[np.repeat((np.cumsum(sizes) - sizes)[codes], lengths) + within]
    thetas = np.array([theta for theta, _ in read], np.int64)[codes]
    return _states(np.repeat(rows, lengths), hashes, _bounds(rows, thetas, num_rows), nominal_entries)


def _read(data: bytes) -> tuple[int, Int64Array]:
    """(theta, hashes) of a compact sketch of serial version 3."""
    if len(data) < 8 or data[1] != 3 or data[2] != 3 or not data[5] & _COMPACT:
        raise QueryExecutionError(
            "Caught exception while merging Theta Sketches: expected compact theta sketches of serial version 3, "
            f"found BYTES of length {len(data)}: "
            "name a column that holds them"
        )
    longs, seed_hash = data[0] & 0x3F, int.from_bytes(data[6:8], "little")
    if data[5] & _EMPTY:
        return EXACT, np.empty(0, np.int64)
    count = 1 if longs == 1 else int.from_bytes(data[8:12], "little")
    theta = int.from_bytes(data[16:24], "little") if longs == 3 else EXACT
    if longs not in (1, 2, 3) or seed_hash != _SEED_HASH or len(data) != 8 * (longs + count) or not 0 < theta <= EXACT:
        raise QueryExecutionError(
            f"Caught exception while merging Theta Sketches: expected {8 * (longs + count)} bytes with seed hash "
            f"{_SEED_HASH}, "
            f"found {len(data)} bytes with {seed_hash}"
        )
    hashes = np.frombuffer(data, "<i8", count, 8 * longs).astype(np.int64)
    if ((hashes <= 0) | (hashes >= theta)).any():
        raise QueryExecutionError(
            "Caught exception while merging Theta Sketches: expected hashes between 0 and theta, found others"
        )
    return theta, hashes
