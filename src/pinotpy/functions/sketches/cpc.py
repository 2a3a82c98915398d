"""CPC sketches (compressed probabilistic counting), as Apache DataSketches has them: a set of coupons of 2^lgK rows and
64 columns.

State columns, one row a group, of values:

    lg_k      int8            null: nothing seen
    coupons   list<int32>     row << 6 | column, ascending
    values    list<int64>, list<double> or list<binary>
                              only where the sketch itself is asked for: a value for each coupon that has it

and of serialized sketches (BYTES): `sketch binary`, their union.

A value's row are the low bits of its MurmurHash3_x64_128 (seed 9001), its column the zeros before the first bit of the
second half. The set depends on the set of values alone. The estimate is ICON's, the one that the library gives of a
union: the number of values of which so many coupons are expected. The library alone writes and reads sketches: it is
given the values that are kept, and of the sketches in columns those that `cpc_bytes.py` has found to be whole, for it
would write beyond its memory for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import cpc_sketch, cpc_union
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError, InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches.bits import bit_lengths, sorted_set
from pinotpy.functions.sketches.cpc_bytes import check
from pinotpy.functions.sketches.hash64 import java_texts
from pinotpy.functions.sketches.murmur import byte_strings, murmur3_bytes, murmur3_words
from pinotpy.functions.whole_numbers import whole_number

LG_K_DEFAULT: Final = 12
LG_K_MIN, LG_K_MAX = 4, 20
_COLUMN_BITS: Final = 6
_SEED: Final = 9001
_CURVE_STEPS: Final = 256  # points of the estimate's curve for each doubling
_COUNT_MAX_LOG2: Final = 62


def state_fields(data_type: DataType, *, with_values: bool) -> list[pa.Field]:
    """The state columns of a column of this type."""
    if data_type is DataType.BYTES:
        return [pa.field("sketch", pa.binary())]
    fields = [pa.field("lg_k", pa.int8()), pa.field("coupons", pa.list_(pa.int32()))]
    return [*fields, pa.field("values", pa.list_(_value_type(data_type)))] if with_values else fields


def _value_type(data_type: DataType) -> pa.DataType:
    if not data_type.stored.is_fixed:
        return pa.binary()
    return pa.float64() if data_type.stored.is_floating else pa.int64()


def lg_k_parameter(parameters: Sequence[Any], function: str) -> int:
    """The lgK of a call: a number, or 'nominalEntries=…;accumulatorThreshold=…', of which the second changes no
    answer.
    """
    text = str(parameters[0]).replace(" ", "") if parameters else str(LG_K_DEFAULT)
    lg_k = whole_number(text)
    if "=" in text:
        lg_k = LG_K_DEFAULT
        for setting in text.split(";"):
            key, _, value = setting.partition("=")
            number = whole_number(value)
            if key.lower() not in ("nominalentries", "accumulatorthreshold") or number is None:
                raise InvalidQueryError(
                    f"expected 'nominalEntries=<n>' as second argument of {function}, found '{text[:60]}'"
                )
            if key.lower() == "nominalentries":
                lg_k = max(number - 1, 0).bit_length()
    if lg_k is None or not LG_K_MIN <= lg_k <= LG_K_MAX:
        raise InvalidQueryError(
            f"expected lgK between {LG_K_MIN} and {LG_K_MAX} as second argument of {function}, found '{text[:60]}'"
        )
    return lg_k


# --- from values ---------------------------------------------------------------------------------------------------


def states_of_values(
    rows: Int64Array, values: pa.Array, num_rows: int, data_type: DataType, lg_k: int, *, with_values: bool
) -> list[pa.Array]:
    """State columns from (row, value) pairs (stored form, no nulls). Empty texts are no values, as in DataSketches."""
    lg_ks = np.zeros(num_rows, np.int8)
    lg_ks[rows] = lg_k
    if data_type.stored.is_fixed:
        plain = _as_hashed(values, data_type)
        hashes, values = murmur3_words(plain.view(np.uint64), _SEED), pa.array(plain)
    else:
        values = java_texts(values, data_type).cast(pa.binary())
        filled = np.flatnonzero(byte_strings(values)[1])
        rows, values = rows[filled], values.take(pa.array(filled))
        hashes = murmur3_bytes(values, _SEED)
    return _states(rows, coupons_of_hashes(*hashes, lg_k), values if with_values else None, lg_ks)


def _as_hashed(values: pa.Array, data_type: DataType) -> NDArray[Any]:
    """What the library hashes: whole numbers as 64 bits, others as doubles, −0.0 as 0.0, one NaN."""
    plain = values.to_numpy(zero_copy_only=False)
    if not data_type.stored.is_floating:
        whole: NDArray[Any] = plain.astype(np.int64)
        return whole
    wide: NDArray[Any] = plain.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    return wide


def coupons_of_numbers(values: pa.Array, data_type: DataType, lg_k: int) -> Int64Array:
    """row << 6 | column of each number (stored form)."""
    return coupons_of_hashes(*murmur3_words(_as_hashed(values, data_type).view(np.uint64), _SEED), lg_k)


def coupons_of_hashes(first: NDArray[np.uint64], second: NDArray[np.uint64], lg_k: int) -> Int64Array:
    """row << 6 | column of each hash."""
    column = np.minimum(64 - bit_lengths(second), 63)
    return ((first & np.uint64((1 << lg_k) - 1)).astype(np.int64) << _COLUMN_BITS) | column


def states_of_coupons(rows: Int64Array, coupons: Int64Array, num_rows: int, lg_k: int) -> list[pa.Array]:
    """State columns without values."""
    lg_ks = np.zeros(num_rows, np.int8)
    lg_ks[rows] = lg_k
    return _states(rows, coupons, None, lg_ks)


def _states(rows: Int64Array, coupons: Int64Array, values: pa.Array | None, lg_k: NDArray[np.int8]) -> list[pa.Array]:
    keys = (rows << 32) | coupons
    if values is None:
        keys = sorted_set(keys)
    else:
        # Of the values of a coupon the least: whichever part saw it first, the state is one.
        order = pc.array_sort_indices(values).to_numpy()
        order = order[np.argsort(keys[order], kind="stable")]
        keys = keys[order]
        fresh = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        keys, values = keys[fresh], values.take(pa.array(order[fresh]))
    if len(keys) >= 2**31:
        raise QueryExecutionError(
            f"the groups of this query keep {len(keys)} coupons, more than 2^31: lower lgK or group by less"
        )
    offsets = pa.array(np.concatenate([[0], np.cumsum(np.bincount(keys >> 32, minlength=len(lg_k)))]).astype(np.int32))
    nothing = lg_k == 0
    lists = [pa.array((keys & 0xFFFFFFFF).astype(np.int32)), *([] if values is None else [values])]
    return [
        pa.array(lg_k, mask=nothing),
        *(pa.ListArray.from_arrays(offsets, items, mask=pa.array(nothing)) for items in lists),
    ]


# --- merging -------------------------------------------------------------------------------------------------------


def merge_states(states: Sequence[pa.Array], groups: Int64Array, num_groups: int) -> list[pa.Array]:
    """State columns of `num_groups` rows."""
    if len(states) == 1:
        return [_unions(groups, states[0], num_groups)]
    lg_k = np.zeros(num_groups, np.int8)
    np.maximum.at(lg_k, groups, pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False))
    parents = pc.list_parent_indices(states[1]).to_numpy(zero_copy_only=False).astype(np.int64)
    coupons = states[1].flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return _states(groups[parents], coupons, states[2].flatten() if len(states) == 3 else None, lg_k)


def _unions(groups: Int64Array, sketches: pa.Array, num_groups: int, lg_k: int = LG_K_MAX) -> pa.Array:
    """The union of each group's serialized sketches; its lgK is the least of theirs and `lg_k`."""
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(num_groups + 1))
    texts = sketches.to_pylist()
    unions: list[bytes | None] = []
    for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        distinct = {texts[i] for i in order[begin:end].tolist()} - {None, b""}
        if len(distinct) == 1:
            only = distinct.pop()
            unions.append(only if _read(only).lg_k <= lg_k else _union([only], lg_k))
        else:
            # Sorted: unions of the same sketches have the same bytes.
            unions.append(_union(sorted(distinct), lg_k) if distinct else None)
    return pa.array(unions, pa.binary())


def _union(sketches: Sequence[bytes], lg_k: int) -> bytes:
    read = [_read(data) for data in sketches]
    union = cpc_union(min(lg_k, *(sketch.lg_k for sketch in read)))
    for sketch in read:
        union.update(sketch)
    return _written(union.get_result())


def _written(sketch: Any) -> bytes:
    try:
        data: bytes = sketch.serialize()
    except RuntimeError as error:
        # The library writes no sketch of more than 2^32 / 1,000 coupons, which 2^20 rows have of 24 million values.
        raise QueryExecutionError(
            f"a CPC sketch of so many values cannot be written ({error}): ask for a lower lgK"
        ) from error
    return data


def states_of_serialized(rows: Int64Array, values: pa.Array, num_rows: int, lg_k: int) -> list[pa.Array]:
    """State columns from (row, serialized sketch) pairs; empty bytes, the default of null, hold nothing. Raises
    QueryExecutionError for bytes that are no CPC sketch."""
    for data in pc.unique(values).to_pylist():
        if data:
            try:
                check(data)
            except DecodeError as error:
                raise _no_sketch(data, error) from error
    return [_unions(rows, values, num_rows, lg_k)]


def _read(data: bytes) -> Any:
    """A sketch that was checked, or written by the library: states of other servers are."""
    try:
        return cpc_sketch.deserialize(data)
    except Exception as error:  # the library raises RuntimeError, ValueError and IndexError, by what it stumbles over
        raise _no_sketch(data, error) from error


def _no_sketch(data: bytes, error: Exception) -> QueryExecutionError:
    return QueryExecutionError(
        "Caught exception while merging CPC sketches: expected serialized CPC sketches, found BYTES of length "
        f"{len(data)} ({error}): "
        "name a column that holds them"
    )


# --- results -------------------------------------------------------------------------------------------------------


def estimates(states: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values of each row, int64; 0 where nothing was seen."""
    if len(states) == 1:
        return pa.array(
            [0 if data is None else round(_union_of(data).get_estimate()) for data in states[0].to_pylist()], pa.int64()
        )
    lg_k = pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False)
    counts = pc.fill_null(pc.list_value_length(states[1]), 0).to_numpy(zero_copy_only=False).astype(np.float64)
    estimated = np.zeros(len(counts))
    for row_lg_k in np.unique(lg_k[lg_k > 0]).tolist():
        members = lg_k == row_lg_k
        estimated[members] = np.interp(counts[members], *_expected_coupons(row_lg_k))
    return pa.array(np.floor(estimated + 0.5).astype(np.int64))


def _union_of(data: bytes) -> Any:
    """A sketch as a union has it: the estimate no longer depends on the order in which values came."""
    sketch = _read(data)
    union = cpc_union(sketch.lg_k)
    union.update(sketch)
    return union.get_result()


@lru_cache(maxsize=32)
def _expected_coupons(lg_k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(coupons expected of n values, n), ascending: of k × Σ over columns of 1 − (1 − 2^−(column + 1) / k)^n."""
    rows = float(1 << lg_k)
    few = np.arange(min(1 << 12, 1 << lg_k), dtype=np.float64)
    counts = np.concatenate([few, np.exp2(np.arange(np.log2(len(few)), _COUNT_MAX_LOG2, 1 / _CURVE_STEPS))])
    share = np.ldexp(1.0, -np.append(np.arange(1, 64), 63)) / rows
    expected = -np.expm1(counts[:, None] * np.log1p(-share)).sum(axis=1) * rows
    return expected, counts


def serialized(states: Sequence[pa.Array], lg_k_of_nothing: int) -> list[bytes]:
    """The sketches as the library writes them."""
    if len(states) == 1:
        return [
            cpc_sketch(lg_k_of_nothing).serialize() if data is None else _written(_union_of(data))
            for data in states[0].to_pylist()
        ]
    sketches = []
    for lg_k, values in zip(states[0].to_pylist(), states[2], strict=True):
        sketch = cpc_sketch(lg_k_of_nothing if lg_k is None else lg_k)
        for value in _values(values):
            sketch.update(value)
        sketches.append(_written(_union_of(_written(sketch))))
    return sketches


def _values(values: pa.ListScalar) -> list[Any]:
    """The values kept for the coupons of one row, as the library takes them."""
    if not values.is_valid:
        return []
    items = values.values
    if pa.types.is_integer(items.type):
        # A negative number would be taken for a double.
        items = pa.array(items.to_numpy(zero_copy_only=False).view(np.uint64))
    numbers: list[Any] = (items.cast(pa.string()) if pa.types.is_binary(items.type) else items).to_pylist()
    return numbers
