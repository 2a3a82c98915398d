"""HyperLogLog++ as stream-lib has it: 2^p registers of 5 bits from 64-bit hashes, and, where a sparse precision sp is
asked for, the sp-bit prefixes of the hashes themselves as long as there are at most 3/4 × 2^p of them.

State columns, one row a group:

    p          int8           null: nothing seen
    sp         int8           0: registers from the start
    registers  list<int32>    register << 5 | rank, as in hyperloglog.py
    sparse     list<int64>    codes of prefixes, ascending; null: in registers

A code is `prefix << 1`, or, where the sp − p bits behind the register's are all 0, `(prefix << 6 | rank ^ 63) << 1 |
1`. Which form a state has depends on the set of values alone, so that merging in any order gives one answer.

Serialized: int −2 (big-endian), then unsigned LEB128 numbers p, sp and form; form 0 is followed by the size in bytes
and the register words of hyperloglog.py, form 1 by the number of codes and their differences.

Estimates: up to a threshold for each p by the registers that are 0; else the harmonic mean, up to 5 × 2^p less its
bias. The reference interpolates a table of simulated biases; here the bias is computed (`_bias_curve`); recorded
answers differ by a quarter of a percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches.bits import bit_lengths
from pinotpy.functions.sketches.hyperloglog import (
    agreed_log2m,
    alphas,
    highest_ranks,
    num_words,
    pack_registers,
    register_ranks,
    unpacked_registers,
)
from pinotpy.functions.whole_numbers import whole_number

P_DEFAULT: Final = 14
P_MIN, P_MAX = 4, 24
SP_MAX: Final = 25  # codes of 32 bits
_RANK_BITS, _RANK_MAX = 5, 31
_VERSION: Final = (-2).to_bytes(4, "big", signed=True)
# Heule, Nunkesser, Hall: "HyperLogLog in Practice": below, counting zeros is the better estimate; p = 4 … 18.
_THRESHOLDS: Final = (10, 20, 40, 80, 220, 400, 900, 1800, 3100, 6500, 11500, 20000, 50000, 120000, 350000)
_BIAS_P_MAX: Final = 18


def state_fields() -> list[pa.Field]:
    """The state columns."""
    return [
        pa.field("p", pa.int8()),
        pa.field("sp", pa.int8()),
        pa.field("registers", pa.list_(pa.int32())),
        pa.field("sparse", pa.list_(pa.int64())),
    ]


def precisions(parameters: Sequence[Any], function: str) -> tuple[int, int]:
    """(p, sp) of a call; raises InvalidQueryError."""
    texts = [str(value).strip() for value in parameters[:2]]
    p = whole_number(texts[0]) if texts else P_DEFAULT
    sp = whole_number(texts[1]) if texts[1:] else 0
    if p is None or not P_MIN <= p <= P_MAX:
        raise InvalidQueryError(
            f"expected a whole number between {P_MIN} and {P_MAX} as p of {function}, found '{texts[0][:40]}'"
        )
    if sp is None or (sp and not p <= sp <= SP_MAX):
        raise InvalidQueryError(
            f"expected 0 or a whole number between p = {p} and {SP_MAX} as sp of {function}, found '{texts[1][:40]}'"
        )
    return p, sp


# --- from hashes ---------------------------------------------------------------------------------------------------


def register_entries(hashes: NDArray[np.uint64], p: int) -> Int64Array:
    """register << 5 | rank of each hash."""
    register = (hashes >> np.uint64(64 - p)).astype(np.int64)
    return (register << _RANK_BITS) | np.minimum(_ranks(hashes, p), _RANK_MAX)


def _ranks(hashes: NDArray[np.uint64], p: int) -> Int64Array:
    return 65 - bit_lengths((hashes << np.uint64(p)) | np.uint64(1 << (p - 1)))


def states_of_hashes(rows: Int64Array, hashes: NDArray[np.uint64], num_rows: int, p: int, sp: int) -> list[pa.Array]:
    """State columns from (row, hash) pairs in any order."""
    if not sp:
        return states_of_entries(rows, register_entries(hashes, p), num_rows, p)
    prefix = (hashes >> np.uint64(64 - sp)).astype(np.int64)
    flagged = (prefix & ((1 << (sp - p)) - 1)) == 0
    codes = np.where(flagged, (((prefix << 6) | (_ranks(hashes, p) ^ 63)) << 1) | 1, prefix << 1)
    seen = np.zeros(num_rows, np.int8)
    seen[rows] = 1
    return _assembled(seen * np.int8(p), seen * np.int8(sp), np.zeros(num_rows, np.bool_), *_NO_ENTRIES, rows, codes)


def states_of_entries(rows: Int64Array, entries: Int64Array, num_rows: int, p: int) -> list[pa.Array]:
    """State columns from (row, register << 5 | rank) pairs in any order."""
    seen = np.zeros(num_rows, np.int8)
    seen[rows] = p
    return _assembled(seen, np.zeros(num_rows, np.int8), seen > 0, rows, entries, *_NO_ENTRIES)


_NO_ENTRIES: Final = (np.empty(0, np.int64), np.empty(0, np.int64))


def _assembled(
    p: NDArray[np.int8],
    sp: NDArray[np.int8],
    normal: NDArray[np.bool_],
    rows: Int64Array,
    entries: Int64Array,
    sparse_rows: Int64Array,
    codes: Int64Array,
) -> list[pa.Array]:
    """State columns from register entries and codes in any order; p 0: nothing seen. Rows of too many codes become
    registers.
    """
    order = np.lexsort((codes, sparse_rows))
    sparse_rows, codes = sparse_rows[order], codes[order]
    prefix = _prefixes(codes)
    first = np.ones(len(codes), np.bool_)
    np.not_equal(prefix[1:], prefix[:-1], out=first[1:])
    first[1:] |= sparse_rows[1:] != sparse_rows[:-1]
    sparse_rows, codes = sparse_rows[first], codes[first]
    sizes = np.bincount(sparse_rows, minlength=len(p))
    normal = normal | (sizes > np.ldexp(0.75, p.astype(np.int32)))
    moved = normal[sparse_rows]
    if moved.any():
        more_rows = sparse_rows[moved]
        rows = np.concatenate([rows, more_rows])
        entries = np.concatenate(
            [entries, _entries_of_codes(codes[moved], p[more_rows].astype(np.int64), sp[more_rows].astype(np.int64))]
        )
        sparse_rows, codes = sparse_rows[~moved], codes[~moved]
    precision, registers = highest_ranks(rows, entries, p)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(sparse_rows, minlength=len(p)))]).astype(np.int32)
    nothing = p == 0
    sparse = pa.ListArray.from_arrays(pa.array(offsets), pa.array(codes), mask=pa.array(normal | nothing))
    return [precision, pa.array(sp, mask=nothing), registers, sparse]


def _prefixes(codes: Int64Array) -> Int64Array:
    return np.where(codes & 1, codes >> 7, codes >> 1)


def _entries_of_codes(codes: Int64Array, p: Int64Array, sp: Int64Array) -> Int64Array:
    prefix = _prefixes(codes)
    behind = prefix & ((1 << (sp - p)) - 1)
    rank = np.where(codes & 1, ((codes >> 1) & 63) ^ 63, sp - p + 1 - bit_lengths(behind.astype(np.uint64)))
    return ((prefix >> (sp - p)) << _RANK_BITS) | np.minimum(rank, _RANK_MAX)


# --- merging -------------------------------------------------------------------------------------------------------


def merge_states(states: Sequence[pa.Array], groups: Int64Array, num_groups: int) -> list[pa.Array]:
    """State columns of `num_groups` rows; raises QueryExecutionError for different p or sp in one group."""
    p, sp = (pc.fill_null(state, 0).to_numpy(zero_copy_only=False) for state in states[:2])
    filled = (pc.fill_null(pc.list_value_length(states[2]), 0).to_numpy(zero_copy_only=False) > 0) | (
        _sparse_lengths(states) > 0
    )
    seen = p > 0
    normal = np.zeros(num_groups, np.bool_)
    normal[groups[seen & filled & states[3].is_null().to_numpy(zero_copy_only=False)]] = True
    own_p = agreed_log2m(groups, p, filled, num_groups)
    own_sp = np.zeros(num_groups, np.int8)
    np.maximum.at(own_sp, groups, sp)
    # An empty one of registers among those that have codes keeps the registers' form of nothing: it says nothing.
    normal |= (own_sp == 0) & (own_p > 0)
    if (sp[seen & filled] != own_sp[groups[seen & filled]]).any():
        raise QueryExecutionError(
            "Caught exception while merging HyperLogLogPlus: they have different sparse precisions (sp)"
        )
    parents, register, ranks = register_ranks(states[2])
    codes_of = pc.list_parent_indices(states[3]).to_numpy(zero_copy_only=False).astype(np.int64)
    codes = states[3].flatten().to_numpy(zero_copy_only=False)
    return _assembled(own_p, own_sp, normal, groups[parents], (register << _RANK_BITS) | ranks, groups[codes_of], codes)


def _sparse_lengths(states: Sequence[pa.Array]) -> Int64Array:
    lengths: Int64Array = (
        pc.fill_null(pc.list_value_length(states[3]), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths


# --- results -------------------------------------------------------------------------------------------------------


def estimates(states: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values of each row, int64; 0 where nothing was seen."""
    p = pc.fill_null(states[0], P_DEFAULT).to_numpy(zero_copy_only=False).astype(np.int64)
    parents, _, ranks = register_ranks(states[2])
    size = np.ldexp(1.0, p.astype(np.int32))
    zeros = size - np.bincount(parents, minlength=len(p))
    inverse = zeros + np.bincount(parents, np.ldexp(1.0, -ranks), len(p))
    raw = alphas(p) * size * size / inverse
    unbiased = raw.copy()
    for precision in np.unique(p[p <= _BIAS_P_MAX]).tolist():
        biased = np.flatnonzero((p == precision) & (raw <= 5 * size))
        unbiased[biased] = np.interp(raw[biased], *_bias_curve(precision))
    counted = np.where(zeros > 0, size * np.log(size / np.maximum(zeros, 1)), unbiased)
    thresholds = np.array([*_THRESHOLDS, *([np.inf] * (P_MAX - _BIAS_P_MAX))])[p - P_MIN]
    by_zeros = np.where(p <= _BIAS_P_MAX, counted < thresholds, raw <= 5 * size)
    estimated = np.where(by_zeros, counted, unbiased)
    sparse = states[3].is_valid().to_numpy(zero_copy_only=False)
    if sparse.any():
        places = np.ldexp(1.0, pc.fill_null(states[1], 0).to_numpy(zero_copy_only=False).astype(np.int32))
        free = np.maximum(places - _sparse_lengths(states), 1)
        estimated = np.where(sparse, places * np.log(places / free), estimated)
    return pa.array(np.floor(estimated + 0.5).astype(np.int64))


@lru_cache(maxsize=32)
def _bias_curve(p: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(raw estimate expected of n distinct values, n), ascending.

    With n values in m registers, those of a register are about Poisson with mean λ = n / m, so that its rank is at most
    k with probability exp(−λ / 2^k), and the mean μ and variance σ² of 2^−rank are sums over k. The raw estimate α m² /
    Σ 2^−rank is then α m / μ × (1 + σ² / (m μ²)) on average, to the second order.
    """
    m = float(1 << p)
    load = np.linspace(0.0, 7.0, 1401)
    at_most = np.exp(-load[:, None] * np.ldexp(1.0, -np.arange(65)))
    share = np.diff(at_most, axis=1, prepend=0.0)
    mean, square = share @ np.ldexp(1.0, -np.arange(65)), share @ np.ldexp(1.0, -2 * np.arange(65))
    # The number of registers that values share is fixed: what varies with λ itself does not count.
    slope = -(at_most * np.ldexp(1.0, -np.arange(65))) @ np.ldexp(1.0, -np.arange(65) - 1)
    variance = np.maximum(square - mean * mean - load * slope * slope, 0.0)
    raw = float(alphas(np.array([p]))[0]) * m / mean * (1 + variance / (m * mean * mean))
    return np.maximum.accumulate(raw), load * m


# --- serialized ----------------------------------------------------------------------------------------------------


def serialized(states: Sequence[pa.Array], p_of_nothing: int, sp_of_nothing: int) -> list[bytes]:
    """The sketches in stream-lib's form."""
    p = pc.fill_null(states[0], p_of_nothing).to_numpy(zero_copy_only=False).astype(np.int64)
    sp = pc.fill_null(states[1], sp_of_nothing).to_numpy(zero_copy_only=False).astype(np.int64)
    in_registers = states[3].is_null().to_numpy(zero_copy_only=False) & (
        (sp == 0) | states[0].is_valid().to_numpy(zero_copy_only=False)
    )
    parents, register, ranks = register_ranks(states[2])
    words, starts = pack_registers(np.where(in_registers, p, 1), parents, register, ranks)
    body, ends = words.astype(">u4").tobytes(), (4 * starts).tolist()
    code_ends = np.concatenate([[0], np.cumsum(_sparse_lengths(states))]).tolist()
    codes = states[3].flatten().to_numpy(zero_copy_only=False)
    sketches = []
    for row, ((begin, end), (first, last)) in enumerate(zip(pairwise(ends), pairwise(code_ends), strict=True)):
        head = _VERSION + _leb128([int(p[row]), int(sp[row])])
        if in_registers[row]:
            sketches.append(head + _leb128([0, end - begin]) + body[begin:end])
        else:
            sketches.append(head + _leb128([1, last - first, *np.diff(codes[first:last], prepend=0).tolist()]))
    return sketches


def _leb128(numbers: Sequence[int]) -> bytes:
    out = bytearray()
    for number in numbers:
        remaining = number & 0xFFFFFFFF
        while remaining > 0x7F:
            out.append((remaining & 0x7F) | 0x80)
            remaining >>= 7
        out.append(remaining)
    return bytes(out)


def states_of_serialized(rows: Int64Array, values: pa.Array, num_rows: int) -> list[pa.Array]:
    """State columns from (row, serialized sketch) pairs; empty bytes, the default of null, hold nothing. Raises
    QueryExecutionError for bytes that are no sketch and for sketches of different precisions in one row."""
    encoded = values.dictionary_encode()
    read = [_read(data) for data in encoded.dictionary.to_pylist()]
    if not read:
        return [pa.nulls(num_rows, field.type) for field in state_fields()]
    columns = [pa.array([state[i] for state in read], field.type) for i, field in enumerate(state_fields())]
    return merge_states([column.take(encoded.indices) for column in columns], rows, num_rows)


def _read(data: bytes) -> tuple[int | None, int | None, Any, Any]:
    """One sketch as a state row."""
    if not data:
        return None, None, None, None
    if data[:4] != _VERSION:
        raise _not_serialized(f"{len(data)} bytes that begin with {data[:4].hex()}")
    offset = 4
    numbers: list[int] = []
    while len(numbers) < 4:
        number, offset = _number_at(data, offset)
        numbers.append(number)
    p, sp, form, size = numbers
    if not P_MIN <= p <= P_MAX or (sp and not p <= sp <= SP_MAX) or form not in (0, 1):
        raise _not_serialized(f"p {p}, sp {sp}, form {form}")
    if form == 0:
        if size != 4 * int(num_words(p)) or len(data) != offset + size:
            raise _not_serialized(f"{len(data) - offset} bytes of registers for p {p}")
        _, entries = unpacked_registers(np.frombuffer(data, ">u4", size // 4, offset).reshape(1, -1), p)
        return p, sp, entries, None
    if size > len(data) - offset or not sp:
        raise _not_serialized(f"{size} codes in {len(data) - offset} bytes")
    codes, last = [], 0
    for _ in range(size):
        step, offset = _number_at(data, offset)
        last = (last + step) & 0xFFFFFFFF
        codes.append(last)
    return p, sp, [], np.unique(np.array(codes, np.int64))


def _number_at(data: bytes, offset: int) -> tuple[int, int]:
    """An unsigned LEB128 number and where the next one begins."""
    number = shift = 0
    while True:
        if offset >= len(data) or shift > 28:
            raise _not_serialized(f"{len(data)} bytes that end within a number")
        number |= (data[offset] & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if not data[offset - 1] & 0x80:
            return number & 0xFFFFFFFF, offset


def _not_serialized(content: str) -> QueryExecutionError:
    return QueryExecutionError(
        "Caught exception while merging HyperLogLogPlus: expected what stream-lib writes (version −2), found "
        f"{content}: name a column that holds them"
    )
