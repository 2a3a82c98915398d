"""State columns that aggregations share: how each kind is made, merged and read. numpy and Arrow only, so that a broker
merges without compiled kernels.

    counts      int64                     added
    extremes    int64, float64, binary    smaller or larger one wins; doubles totally: NaN above all, −0.0 = 0.0
    wide sums   decimal128(38, 0)         128-bit integers, added (sums of 2^31 values of any LONG fit)
    exact sums  list<int64>               doubles; see exact_sums.py
    decimals    binary                    BIG_DECIMAL sums, added exactly
    sets        list<value>               united

null = nothing seen, except for counts, which are 0.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.decimals import DIGITS_MAX, decode_decimal, encode_decimal
from pinotpy.errors import DataError, QueryExecutionError
from pinotpy.functions.state.exact_sums import merge_exact, round_exact
from pinotpy.functions.state.scattering import add_at

WIDE = pa.decimal128(38, 0)
EXACT = pa.list_(pa.int64())
DECIMAL = pa.binary()
_EXACT_DECIMALS = Context(prec=DIGITS_MAX, Emax=999_999_999, Emin=-999_999_999)


def sum_field(data_type: DataType) -> pa.Field:
    """The state column of a sum of this type."""
    if data_type is DataType.BIG_DECIMAL:
        return pa.field("sum", DECIMAL)
    return pa.field("sum", EXACT if data_type.stored.is_floating else WIDE)


def extreme_field(name: str, data_type: DataType) -> pa.Field:
    """The state column of a MIN or MAX of this type."""
    if data_type.stored is StoredType.VAR:
        return pa.field(name, pa.binary())
    return pa.field(name, pa.float64() if data_type.stored.is_floating else pa.int64())


# --- counts --------------------------------------------------------------------------------------------------------


def merge_counts(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    total = np.zeros(num_groups, np.int64)
    add_at(total, groups, states.to_numpy(zero_copy_only=False))
    return pa.array(total)


# --- sums ----------------------------------------------------------------------------------------------------------


def wide_array(low: Int64Array, high: Int64Array, seen: NDArray[np.bool_]) -> pa.Array:
    """Wide sums from their words; null where nothing was seen."""
    both = np.empty((len(low), 2), np.int64)
    both[:, 0], both[:, 1] = low, high
    return pa.Array.from_buffers(WIDE, len(low), [_validity(seen), pa.py_buffer(both)])


def _validity(seen: NDArray[np.bool_]) -> Any:
    return None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))


def _wide_words(states: pa.Array) -> Int64Array:
    both = np.frombuffer(states.buffers()[1], np.int64).reshape(-1, 2) if len(states) else np.empty((0, 2), np.int64)
    return both[states.offset : states.offset + len(states)]


def merge_sums(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    if pa.types.is_list(states.type):
        return merge_exact(states, groups, num_groups)
    if pa.types.is_decimal(states.type):
        return _merge_wide(states, groups, num_groups)
    return _merge_decimals(states, groups, num_groups)


def _merge_wide(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    valid = states.is_valid().to_numpy(zero_copy_only=False)
    both = _wide_words(states)
    if not valid.all():
        both, groups = both[valid], groups[valid]
    mask, shift = np.int64(0xFFFFFFFF), np.int64(32)
    bottom, middle, top = np.zeros((3, num_groups), np.int64)
    add_at(bottom, groups, both[:, 0] & mask)
    add_at(middle, groups, (both[:, 0] >> shift) & mask)
    add_at(top, groups, both[:, 1])
    middle += bottom >> shift
    low = (bottom & mask) | (middle << shift)
    return wide_array(low, top + (middle >> shift), _seen(groups, num_groups))


def _seen(groups: Int64Array, num_groups: int) -> NDArray[np.bool_]:
    seen = np.zeros(num_groups, np.bool_)
    seen[groups] = True
    return seen


def _merge_decimals(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    totals: list[Decimal | None] = [None] * num_groups
    for group, data in zip(groups.tolist(), states.to_pylist(), strict=True):
        if data is not None:
            before, value = totals[group], decode_decimal(data)
            totals[group] = value if before is None else _EXACT_DECIMALS.add(before, value)
    return pa.array([None if total is None else encode_decimal(total) for total in totals], DECIMAL)


def decimal_sums(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> pa.Array:
    """Exact sums from value sets of BIG_DECIMAL values."""
    encoded = values.dictionary_encode()
    numbers = [decode_decimal(data) for data in encoded.dictionary.to_pylist()]
    totals: list[Decimal | None] = [None] * num_rows
    for row, code, count in zip(rows.tolist(), encoded.indices.to_pylist(), counts.tolist(), strict=True):
        product = _EXACT_DECIMALS.multiply(numbers[code], Decimal(count))
        before = totals[row]
        totals[row] = product if before is None else _EXACT_DECIMALS.add(before, product)
    return pa.array([None if total is None else encode_decimal(total) for total in totals], DECIMAL)


def sums_as_doubles(states: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Sums rounded to double once, and which rows have seen anything."""
    seen = states.is_valid().to_numpy(zero_copy_only=False) if states.null_count else np.ones(len(states), np.bool_)
    if pa.types.is_list(states.type):
        return round_exact(states), seen
    if not pa.types.is_decimal(states.type):
        values = [0.0 if data is None else float(decode_decimal(data)) for data in states.to_pylist()]
        return np.array(values, np.float64).reshape(-1), seen
    both = _wide_words(states)
    out = both[:, 0].astype(np.float64)
    # Beyond 64 bits Python's integers round once and rightly.
    for i in np.flatnonzero(both[:, 1] != both[:, 0] >> np.int64(63)):
        if seen[i]:
            out[i] = float(int(both[i, 1]) * 2**64 + int(both[i, 0].astype(np.uint64)))
    return out, seen


def averages_as_doubles(states: pa.Array, counts: Int64Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Sums over counts, and which rows have seen anything. Of integers and BIG_DECIMAL the exact quotient is rounded,
    once; of doubles the rounded sum is divided.
    """
    sums, seen = sums_as_doubles(states)
    out: NDArray[np.float64] = sums / np.maximum(counts, 1)
    if pa.types.is_list(states.type):
        return out, seen
    # Below 2^53 sum and count are exact doubles; beyond, Python divides integers with one rounding.
    words = None if pa.types.is_binary(states.type) else _wide_words(states)
    for i in np.flatnonzero(seen & ((np.abs(sums) >= 2.0**53) | (words is None))).tolist():
        if words is None:
            out[i] = _quotient(decode_decimal(states[i].as_py()), int(counts[i]))
        else:
            low, high = words[i].tolist()
            out[i] = (high * 2**64 + low % 2**64) / int(counts[i])
    return out, seen


def _quotient(total: Decimal, count: int) -> float:
    try:
        return float(Fraction(total) / count)
    except OverflowError:
        return float("-inf") if total < 0 else float("inf")


# --- extremes ------------------------------------------------------------------------------------------------------

_SIGN = np.uint64(1 << 63)
_NAN_KEY = np.uint64(0x7FF8 << 48) | _SIGN


def order_keys(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """uint64 that orders like the doubles: totally, −0.0 = 0.0, NaN above all."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)
    keys = np.where(bits >= _SIGN, ~bits, bits | _SIGN)
    keys[np.isnan(values)] = _NAN_KEY
    return keys


def doubles_of_keys(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Inverse of `order_keys`."""
    bits = np.where(keys >= _SIGN, keys ^ _SIGN, ~keys)
    return bits.view(np.float64)


def extreme_array(keys: NDArray[np.uint64], seen: NDArray[np.bool_], *, floating: bool) -> pa.Array:
    """An extremes column from order keys (of i64 values: the value with its sign bit turned)."""
    values: NDArray[Any] = doubles_of_keys(keys) if floating else (keys ^ _SIGN).view(np.int64)
    return pa.array(values, mask=None if seen.all() else ~seen)


def merge_extremes(states: pa.Array, groups: Int64Array, num_groups: int, *, is_min: bool) -> pa.Array:
    valid = states.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        states, groups = states.drop_null(), groups[valid]
    seen = _seen(groups, num_groups)
    if pa.types.is_binary(states.type):
        ranked = states.dictionary_encode()
        order = pc.sort_indices(ranked.dictionary).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        best = _grow(rank[ranked.indices.to_numpy()].astype(np.uint64), groups, num_groups, is_min)
        best[~seen] = 0
        taken = ranked.dictionary.take(pa.array(order)).take(pa.array(best.astype(np.int64), mask=~seen))
        return taken.cast(pa.binary())
    floating = pa.types.is_floating(states.type)
    values = states.to_numpy(zero_copy_only=False)
    keys = order_keys(values) if floating else values.view(np.uint64) ^ _SIGN
    return extreme_array(_grow(keys, groups, num_groups, is_min), seen, floating=floating)


def _grow(keys: NDArray[np.uint64], groups: Int64Array, num_groups: int, is_min: bool) -> NDArray[np.uint64]:
    if is_min:
        best = np.full(num_groups, np.iinfo(np.uint64).max, np.uint64)
        np.minimum.at(best, groups, keys)
    else:
        best = np.zeros(num_groups, np.uint64)
        np.maximum.at(best, groups, keys)
    return best


def extremes_of(rows: Int64Array, values: pa.Array, num_rows: int, *, is_min: bool) -> pa.Array:
    """Extremes from value sets (BIG_DECIMAL)."""
    return merge_extremes(values, rows, num_rows, is_min=is_min)


def extremes_of_dictionary(dictionary: pa.Array, which: tuple[str, ...]) -> list[pa.Array]:
    """One row of extremes of a sorted dictionary (stored form); null if it is empty."""
    kind = (
        dictionary.type
        if pa.types.is_binary(dictionary.type)
        else pa.float64()
        if pa.types.is_floating(dictionary.type)
        else pa.int64()
    )
    ends = {"min": dictionary[:1], "max": dictionary[len(dictionary) - 1 :]} if len(dictionary) else {}
    return [ends[name].cast(kind) if ends else pa.nulls(1, kind) for name in which]


def extremes_as_doubles(states: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Extremes rounded to double, and which rows have seen anything."""
    seen = states.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_binary(states.type):
        values = [0.0 if data is None else float(decode_decimal(data)) for data in states.to_pylist()]
        return np.array(values, np.float64).reshape(-1), seen
    filled = states if seen.all() else pc.fill_null(states, 0)
    return filled.to_numpy(zero_copy_only=False).astype(np.float64), seen


def double_result(
    values: NDArray[np.float64], seen: NDArray[np.bool_], *, nothing: float, null_handling: bool
) -> pa.Array:
    """A DOUBLE result column: `nothing` (or null under null handling) where nothing was seen; never −0.0."""
    if seen.all():
        return pa.array(values + 0.0)
    if null_handling:
        return pa.array(values + 0.0, mask=~seen)
    return pa.array(np.where(seen, values, nothing) + 0.0)


# --- sets ----------------------------------------------------------------------------------------------------------


def distinct_sets(rows: Int64Array, values: pa.Array, num_rows: int) -> pa.Array:
    """Sets (list column, num_rows long) from (row, value) pairs; doubles with −0.0 = 0.0 and one NaN."""
    from pinotpy.functions.state.grouping import distinct_pairs

    if pa.types.is_floating(values.type):
        raw = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)
        raw[np.isnan(raw)] = np.nan
        values = pa.array(raw, values.type)
    distinct = distinct_pairs(rows, values)
    kept_rows = rows[distinct]
    order = np.argsort(kept_rows, kind="stable")
    ends = np.cumsum(np.bincount(kept_rows, minlength=num_rows)) if num_rows else np.empty(0, np.int64)
    offsets = np.concatenate([[0], ends]).astype(np.int32 if len(distinct) < 2**31 else np.int64)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(pa.array(distinct[order])))


def assemble_sets(offsets: Int64Array, values: pa.Array, counts: Int64Array) -> list[pa.Array]:
    """The state column of sets from the distinct values of all rows, row after row (see ValueSetPlan.assemble)."""
    if offsets[-1] >= 2**31:
        raise QueryExecutionError(
            f"the groups of this query have {offsets[-1]} different values, more than 2^31: use distinctCountHLL or "
            "group by less"
        )
    return [pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)]


def count_states(sizes: Int64Array) -> list[pa.Array]:
    """What stands in the place of a column of sets that will not be merged any more: how many values each has."""
    return [pa.array(sizes, pa.int64())]


def merge_sets(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    if pa.types.is_integer(states.type):
        raise DataError(
            "a server counted different values for an answer of its own, but its result is one of several: ask again"
        )
    parents = pc.list_parent_indices(states).to_numpy(zero_copy_only=False).astype(np.int64)
    return distinct_sets(groups[parents], states.flatten(), num_groups)


def set_sizes(states: pa.Array) -> pa.Array:
    """DISTINCTCOUNT of each row."""
    if pa.types.is_integer(states.type):
        return states.cast(pa.int32())
    return pc.fill_null(pc.list_value_length(states), 0).cast(pa.int32())


def set_field(name: str, data_type: DataType) -> pa.Field:
    """The state column of a set of values of this type."""
    stored = {
        StoredType.INT: pa.int32(),
        StoredType.LONG: pa.int64(),
        StoredType.FLOAT: pa.float32(),
        StoredType.DOUBLE: pa.float64(),
    }
    return pa.field(name, pa.list_(stored.get(data_type.stored, pa.binary())))
