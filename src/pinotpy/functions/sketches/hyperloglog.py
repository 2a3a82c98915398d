"""HyperLogLog as stream-lib 2.7 has it: 2^log2m registers of 5 bits, each the highest rank of its values' hashes.

State columns, one row a group:

    log2m      int8           null: nothing seen
    registers  list<int32>    register << 5 | rank of the registers that are not 0, ascending: a group of few values
                              is small

Serialized (BYTES columns, DISTINCTCOUNTRAWHLL), all integers big-endian: int log2m, int size of the words in bytes, int
words of six registers, register j in word j // 6 at bit 5 * (j % 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches.answer_size import check_answer_size
from pinotpy.functions.sketches.murmur import byte_strings, murmur2_bytes, murmur2_longs
from pinotpy.functions.whole_numbers import whole_number

LOG2M_DEFAULT: Final = 8
LOG2M_MAX: Final = 24
_RANK_BITS: Final = 5
_RANKS: Final = (1 << _RANK_BITS) - 1
_ENTRY_BITS: Final = LOG2M_MAX + _RANK_BITS
_REGISTERS_A_WORD: Final = 6
_HEADER_SIZE_BYTES: Final = 8
_CHUNK_REGISTERS: Final = 1 << 24  # registers that are unpacked or packed at once
_MERGE_FAULT: Final = "Caught exception while merging HyperLogLogs"
_ALPHAS: Final = {4: 0.673, 5: 0.697, 6: 0.709}


def state_fields() -> list[pa.Field]:
    """The state columns."""
    return [pa.field("log2m", pa.int8()), pa.field("registers", pa.list_(pa.int32()))]


def log2m_parameter(value: Any, function: str) -> int:
    """The log2m of a call; raises InvalidQueryError."""
    text = str(value).strip()
    log2m = whole_number(text)
    if isinstance(value, bool) or log2m is None or not 1 <= log2m <= LOG2M_MAX:
        raise InvalidQueryError(
            f"expected a whole number between 1 and {LOG2M_MAX} as log2m of {function}, found '{text[:40]}'"
        )
    return log2m


# --- from values ---------------------------------------------------------------------------------------------------


def hash_values(values: pa.Array, data_type: DataType) -> NDArray[np.uint32]:
    """The 32-bit hash of each value (stored form, no nulls). BOOLEAN is hashed as the text true or false, BIG_DECIMAL
    as its text; −0.0 as 0.0 and every NaN as one.
    """
    if data_type is DataType.BOOLEAN:
        of_truth: NDArray[np.uint32] = murmur2_bytes(pa.array([b"false", b"true"], pa.binary()))[
            (values.to_numpy(zero_copy_only=False) != 0).astype(np.int64)
        ]
        return of_truth
    if data_type is DataType.BIG_DECIMAL:
        encoded = values.dictionary_encode()
        texts = [format(decode_decimal(data), "f").encode() for data in encoded.dictionary.to_pylist()]
        of_texts: NDArray[np.uint32] = murmur2_bytes(pa.array(texts, pa.binary()))[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        return of_texts
    if not data_type.stored.is_fixed:
        return murmur2_bytes(values)
    plain = values.to_numpy(zero_copy_only=False)
    if data_type.stored.is_floating:
        plain = plain + plain.dtype.type(0)
        plain[np.isnan(plain)] = np.nan
        plain = plain.view(np.int32 if plain.dtype.itemsize == 4 else np.int64)
    return murmur2_longs(plain.astype(np.int64, copy=False))


def register_entries(hashes: NDArray[np.uint32], log2m: int) -> Int64Array:
    """register << 5 | rank of each hash."""
    register = hashes >> np.uint32(32 - log2m)
    # The bit below the register's keeps the rank within 33 − log2m; the reference's guard is one more than that bit.
    guarded = (hashes << np.uint32(log2m)) | np.uint32((1 << (log2m - 1)) + 1)
    rank = 33 - np.frexp(guarded.astype(np.float64))[1]
    entries: Int64Array = (register.astype(np.int64) << _RANK_BITS) | rank
    return entries


def states_of_values(
    rows: Int64Array, values: pa.Array, num_rows: int, data_type: DataType, log2m: int
) -> list[pa.Array]:
    """State columns from (row, value) pairs, as DistributionPlan.collect gets them."""
    return highest_ranks(
        rows, register_entries(hash_values(values, data_type), log2m), log2m_of_rows(rows, num_rows, log2m)
    )


def states_of_entries(rows: Int64Array, entries: Int64Array, num_rows: int, log2m: int) -> list[pa.Array]:
    """State columns from (row, register << 5 | rank) pairs in any order."""
    return highest_ranks(rows, entries, log2m_of_rows(rows, num_rows, log2m))


def log2m_of_rows(rows: Int64Array, num_rows: int, log2m: int) -> NDArray[np.int8]:
    log2m_by_row = np.zeros(num_rows, np.int8)
    log2m_by_row[rows] = log2m
    return log2m_by_row


def highest_ranks(rows: Int64Array, entries: Int64Array, log2m: NDArray[np.int8]) -> list[pa.Array]:
    """State columns of len(log2m) rows from (row, entry) pairs in any order: the highest rank of each register
    stays.
    """
    keys = np.sort((rows << _ENTRY_BITS) | entries)
    last = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:] >> _RANK_BITS, keys[:-1] >> _RANK_BITS, out=last[:-1])
    keys = keys[last]
    if len(keys) >= 2**31:
        raise QueryExecutionError(
            f"the groups of this query fill {len(keys)} HyperLogLog registers, more than 2^31: lower log2m or group "
            "by less"
        )
    offsets = np.zeros(len(log2m) + 1, np.int32)
    np.cumsum(np.bincount(keys >> _ENTRY_BITS, minlength=len(log2m)), out=offsets[1:])
    nothing = log2m == 0
    registers = pa.ListArray.from_arrays(
        pa.array(offsets), pa.array((keys & ((1 << _ENTRY_BITS) - 1)).astype(np.int32)), mask=pa.array(nothing)
    )
    return [pa.array(log2m, mask=nothing), registers]


# --- from serialized ones ------------------------------------------------------------------------------------------


def states_of_serialized(rows: Int64Array, values: pa.Array, num_rows: int) -> list[pa.Array]:
    """State columns from (row, serialized HyperLogLog) pairs; raises QueryExecutionError for bytes that are none and
    for HyperLogLogs of different log2m in one row.
    """
    begin, length, data = byte_strings(values)
    log2m, size_bytes = _big_endian_ints(data, begin), _big_endian_ints(data, begin + 4)
    expected = 4 * num_words(np.clip(log2m, 0, LOG2M_MAX))
    wrong = (
        (length < _HEADER_SIZE_BYTES)
        | (log2m < 1)
        | (log2m > LOG2M_MAX)
        | (size_bytes != expected)
        | (length != _HEADER_SIZE_BYTES + expected)
    )
    if wrong.any():
        raise not_serialized(f"BYTES of length {int(length[np.argmax(wrong)])}")
    parents, parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    filled = np.zeros(len(rows), np.bool_)
    for kind in np.unique(log2m).tolist():
        members = np.flatnonzero(log2m == kind)
        step = max(1, _CHUNK_REGISTERS >> kind)
        for first in range(0, len(members), step):
            chunk = members[first : first + step]
            block = data[(begin[chunk] + _HEADER_SIZE_BYTES)[:, None] + np.arange(int(expected[chunk[0]]))]
            place, entries = unpacked_registers(block.view(">u4"), kind)
            filled[chunk[place]] = True
            parents.append(rows[chunk[place]])
            parts.append(entries)
    return highest_ranks(
        np.concatenate(parents), np.concatenate(parts), agreed_log2m(rows, log2m.astype(np.int8), filled, num_rows)
    )


def not_serialized(found: str) -> QueryExecutionError:
    """The error for values that are no HyperLogLogs."""
    return QueryExecutionError(
        f"{_MERGE_FAULT}: expected serialized HyperLogLogs, found {found}: name a column that holds them"
    )


def _big_endian_ints(data: NDArray[np.uint8], begin: Int64Array) -> Int64Array:
    if not len(begin):
        return np.empty(0, np.int64)
    offsets = np.minimum(begin, len(data) - 4)
    return data[offsets[:, None] + np.arange(4)].view(">i4")[:, 0].astype(np.int64)


def num_words(log2m: Any) -> Any:
    return np.maximum((1 << log2m) // _REGISTERS_A_WORD, np.where(log2m < 3, 0, 1)) + 1


def unpacked_registers(words: NDArray[Any], log2m: int) -> tuple[Int64Array, Int64Array]:
    """(row, register << 5 | rank) of the registers that are not 0, of uint32[rows, words]."""
    shifts = np.arange(_REGISTERS_A_WORD, dtype=np.uint32) * np.uint32(_RANK_BITS)
    ranks = (words.astype(np.uint32)[:, :, None] >> shifts) & np.uint32(_RANKS)
    ranks = ranks.reshape(len(words), -1)[:, : 1 << log2m]
    row, register = np.nonzero(ranks)
    return row, (register << _RANK_BITS) | ranks[row, register].astype(np.int64)


# --- merging -------------------------------------------------------------------------------------------------------


def merge_states(states: Sequence[pa.Array], groups: Int64Array, num_groups: int) -> list[pa.Array]:
    """State columns of `num_groups` rows; raises QueryExecutionError for different log2m in one group."""
    log2m, registers = pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False), states[1]
    parents = pc.list_parent_indices(registers).to_numpy(zero_copy_only=False).astype(np.int64)
    filled = pc.fill_null(pc.list_value_length(registers), 0).to_numpy(zero_copy_only=False) > 0
    entries = registers.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return highest_ranks(groups[parents], entries, agreed_log2m(groups, log2m, filled, num_groups))


def agreed_log2m(
    groups: Int64Array, log2m: NDArray[np.int8], filled: NDArray[np.bool_], num_groups: int
) -> NDArray[np.int8]:
    """The log2m of each group: those of empty HyperLogLogs count only where all are empty."""
    high, low, of_empty = (
        np.zeros(num_groups, np.int8),
        np.full(num_groups, LOG2M_MAX + 1, np.int8),
        np.zeros(num_groups, np.int8),
    )
    np.maximum.at(high, groups[filled], log2m[filled])
    np.minimum.at(low, groups[filled], log2m[filled])
    np.maximum.at(of_empty, groups[~filled], log2m[~filled])
    differ = (high > 0) & (low != high)
    if differ.any():
        group = int(np.argmax(differ))
        raise QueryExecutionError(
            f"{_MERGE_FAULT}: expected one log2m, found {low[group]} and {high[group]} in one group: "
            "aggregate them apart"
        )
    return np.where(high > 0, high, of_empty)


# --- results -------------------------------------------------------------------------------------------------------


def estimates(states: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values of each row, int64; 0 where nothing was seen."""
    log2m = pc.fill_null(states[0], LOG2M_DEFAULT).to_numpy(zero_copy_only=False)
    parents, _, ranks = register_ranks(states[1])
    count = np.ldexp(1.0, log2m.astype(np.int32))
    zeros = count - np.bincount(parents, minlength=len(log2m))
    # Ranks are at most 33 − log2m: sums of these powers of two are exact in any order.
    inverse = zeros + np.bincount(parents, np.ldexp(1.0, -ranks), len(log2m))
    estimate = alphas(log2m) * count * count * (1.0 / inverse)
    counted = (estimate <= 2.5 * count) & (zeros > 0)
    estimate[counted] = count[counted] * np.log(count[counted] / zeros[counted])
    return pa.array(np.floor(estimate + 0.5).astype(np.int64))


def alphas(log2m: NDArray[Any]) -> NDArray[np.float64]:
    """What the harmonic mean of so many registers is multiplied by."""
    factors: NDArray[np.float64] = 0.7213 / (1 + 1.079 / np.ldexp(1.0, log2m.astype(np.int32)))
    for small, value in _ALPHAS.items():
        factors[log2m == small] = value
    return factors


def serialized(states: Sequence[pa.Array], log2m_of_nothing: int) -> list[bytes]:
    """The HyperLogLogs in their serialized form."""
    log2m = pc.fill_null(states[0], log2m_of_nothing).to_numpy(zero_copy_only=False).astype(np.int64)
    parents, register, ranks = register_ranks(states[1])
    words, starts = pack_registers(log2m, parents, register, ranks)
    out = np.insert(
        words, np.repeat(starts[:-1], 2), np.column_stack([log2m, 4 * np.diff(starts)]).ravel().astype(np.uint32)
    )
    starts = starts + 2 * np.arange(len(starts))
    body, ends = out.astype(">u4").tobytes(), (4 * starts).tolist()
    return [body[begin:end] for begin, end in pairwise(ends)]


def pack_registers(
    log2m: Int64Array, parents: Int64Array, register: Int64Array, ranks: NDArray[np.int32]
) -> tuple[NDArray[np.uint32], Int64Array]:
    """(words of all rows, where those of each row begin and the last ends), six registers a word."""
    starts = np.concatenate([[0], np.cumsum(num_words(log2m))])
    check_answer_size(4 * int(starts[-1]), len(log2m), "HyperLogLogs", "log2m")
    words = np.zeros(int(starts[-1]), np.uint32)
    shifted = ranks.astype(np.uint32) << (_RANK_BITS * (register % _REGISTERS_A_WORD)).astype(np.uint32)
    np.bitwise_or.at(words, starts[parents] + register // _REGISTERS_A_WORD, shifted)
    return words, starts


def register_ranks(registers: pa.Array) -> tuple[Int64Array, Int64Array, NDArray[np.int32]]:
    """(row, register, rank) of all registers that are not 0."""
    parents = pc.list_parent_indices(registers).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = registers.flatten().to_numpy(zero_copy_only=False)
    return parents, (entries >> _RANK_BITS).astype(np.int64), entries & _RANKS
