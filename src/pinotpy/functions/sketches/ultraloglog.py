"""UltraLogLog (O. Ertl, 2023), as hash4j has it: 2^p registers of a byte, each what its values' hashes have shown of
their ranks.

State columns, one row a group:

    p          int8           null: nothing seen
    registers  list<int32>    register << 8 | byte of the registers that are not 0, ascending

A byte says which the highest rank k is (k << 2; p − 1 more than the number of zeros behind the register's bits) and
whether k − 1 (bit 1) and k − 2 (bit 0) were seen too. Of different p the lower is kept: the registers are folded. The
state depends on the set of values alone. Serialized it is its 2^p registers (hash4j); in BYTES columns the byte p may
stand before them (Pinot). The estimate is the paper's optimal FGRA estimator.
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
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.sketches.answer_size import check_answer_size
from pinotpy.functions.sketches.bits import bit_lengths, sorted_set
from pinotpy.functions.whole_numbers import whole_number

P_DEFAULT: Final = 12
P_MIN, P_MAX = 3, 22  # 2^26 registers, what hash4j allows, would not fit the entries of a column
_BYTE: Final = 8
_RANK_BITS: Final = 6

# The paper's constants of the optimal estimator: exponent τ, weights η of a register by its two lowest bits, variance
# v.
_TAU: Final = 0.8194911375910897
_ETA: Final = np.array([4.663135422063788, 2.1378502137958524, 2.781144650979996, 0.9824082545153715])
_V: Final = 0.6118931496978437
_SIGMA_TERMS: Final = 64

Doubles = NDArray[np.float64]


def state_fields() -> list[pa.Field]:
    """The state columns."""
    return [pa.field("p", pa.int8()), pa.field("registers", pa.list_(pa.int32()))]


def precision(parameters: Sequence[Any], function: str) -> int:
    """The p of a call; raises InvalidQueryError."""
    if not parameters:
        return P_DEFAULT
    text = str(parameters[0]).strip()
    p = whole_number(text)
    if len(parameters) > 1 or p is None or not P_MIN <= p <= P_MAX:
        shown = f"'{text[:40]}'" if len(parameters) == 1 else f"{len(parameters)} constants"
        raise InvalidQueryError(
            f"expected a whole number between {P_MIN} and {P_MAX} as p of {function}, found {shown}"
        )
    return p


def register_ranks(hashes: NDArray[np.uint64], p: int) -> Int64Array:
    """register << 6 | rank of each hash."""
    register = (hashes >> np.uint64(64 - p)).astype(np.int64)
    zeros = 64 - bit_lengths((hashes << np.uint64(p)) | np.uint64((1 << p) - 1))
    return (register << _RANK_BITS) | (zeros + p - 1)


def states_of_ranks(rows: Int64Array, entries: Int64Array, num_rows: int, p: int) -> list[pa.Array]:
    """State columns from (row, register << 6 | rank) pairs in any order."""
    entries = ((entries >> _RANK_BITS) << _BYTE) | ((entries & ((1 << _RANK_BITS) - 1)) << 2)
    seen = np.zeros(num_rows, np.int8)
    seen[rows] = p
    return _states(rows, entries, seen)


def _states(rows: Int64Array, entries: Int64Array, p: NDArray[np.int8]) -> list[pa.Array]:
    keys = sorted_set((rows << 32) | entries)
    places = keys >> _BYTE
    first = np.ones(len(keys), np.bool_)
    np.not_equal(places[1:], places[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    if len(starts):
        ranks = np.bitwise_or.reduceat(_ranks_of_bytes(keys & 0xFF), starts)
        keys = (places[starts] << _BYTE) | _bytes_of_ranks(ranks)
    if len(keys) >= 2**31:
        raise QueryExecutionError(
            f"the groups of this query fill {len(keys)} UltraLogLog registers, more than 2^31: lower p or group by less"
        )
    offsets = np.concatenate([[0], np.cumsum(np.bincount(keys >> 32, minlength=len(p)))]).astype(np.int32)
    nothing = pa.array(p == 0)
    return [
        pa.array(p, mask=p == 0),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array((keys & 0xFFFFFFFF).astype(np.int32)), mask=nothing),
    ]


def _ranks_of_bytes(registers: Int64Array) -> NDArray[np.uint64]:
    """The ranks that registers (not 0) tell of, as bits."""
    return (np.uint64(4) | (registers & 3).astype(np.uint64)) << ((registers >> 2) - 2).astype(np.uint64)


def _bytes_of_ranks(ranks: NDArray[np.uint64]) -> Int64Array:
    highest = bit_lengths(ranks) - 1
    return (highest << 2) | ((ranks >> (highest - 2).astype(np.uint64)) & np.uint64(3)).astype(np.int64)


# --- merging -------------------------------------------------------------------------------------------------------


def merge_states(states: Sequence[pa.Array], groups: Int64Array, num_groups: int) -> list[pa.Array]:
    """State columns of `num_groups` rows, each of the lowest p of its parts."""
    p = pc.fill_null(states[0], 0).to_numpy(zero_copy_only=False)
    lowest = np.full(num_groups, P_MAX + 1, np.int8)
    np.minimum.at(lowest, groups[p > 0], p[p > 0])
    lowest[lowest > P_MAX] = 0
    parents, entries = _entries(states[1])
    rows = groups[parents]
    return _states(rows, _folded(entries, p[parents].astype(np.int64), lowest[rows].astype(np.int64)), lowest)


def _entries(registers: pa.Array) -> tuple[Int64Array, Int64Array]:
    parents = pc.list_parent_indices(registers).to_numpy(zero_copy_only=False).astype(np.int64)
    return parents, registers.flatten().to_numpy(zero_copy_only=False).astype(np.int64)


def _folded(entries: Int64Array, from_p: Int64Array, to_p: Int64Array) -> Int64Array:
    """Entries of lower precision. The bits that a register's number loses are the first of its values' ranks: where one
    of them is set, it alone says the rank.
    """
    if (from_p == to_p).all():
        return entries
    register, lost = entries >> _BYTE, from_p - to_p
    lost_bits = register & ((1 << lost) - 1)
    byte = np.where(lost_bits > 0, (from_p - 1 - bit_lengths(lost_bits.astype(np.uint64))) << 2, entries & 0xFF)
    return ((register >> lost) << _BYTE) | byte


# --- results -------------------------------------------------------------------------------------------------------


def estimates(states: Sequence[pa.Array]) -> pa.Array:
    """The number of distinct values of each row, int64; 0 where nothing was seen."""
    p = pc.fill_null(states[0], P_DEFAULT).to_numpy(zero_copy_only=False).astype(np.int64)
    parents, entries = _entries(states[1])
    num_rows, size = len(p), np.ldexp(1.0, p.astype(np.int32))
    byte = entries & 0xFF
    # Registers by their distance from the least that says all of its three ranks: below it four values are possible.
    place = byte - 4 * p[parents] - 4
    full = place >= 0
    weights = _ETA[place[full] & 3] * np.exp2(-_TAU * (3 + (place[full] >> 2)))
    total = np.bincount(parents[full], weights, num_rows).astype(np.float64)
    c4, c8, c10 = (
        np.bincount(parents[place == which], minlength=num_rows).astype(np.float64) for which in (-8, -4, -2)
    )
    c0 = size - np.bincount(parents, minlength=num_rows)
    z = _share_of_unseen(c0, c4, c8, c10, size)
    half, quarter = 2.0**-_TAU, 4.0**-_TAU
    few = (c0 + c4 + c8 + c10) > 0
    total += np.where(few, c4 * half * _psi(z), 0.0)
    total += np.where(
        few,
        c8 * quarter * (z * (_ETA[0] - _ETA[1]) + _ETA[1]) + c10 * quarter * (z * (_ETA[2] - _ETA[3]) + _ETA[3]),
        0.0,
    )
    empty = c0 >= size
    unseen = (c0 > 0) & ~empty
    total[unseen] += c0[unseen] * _sigma(z[unseen])
    total[empty] = np.inf
    factor = size ** (1 + 1 / _TAU) / (1 + (1 + _TAU) * _V / (2 * size))
    return pa.array(np.floor(factor * total ** (-1 / _TAU) + 0.5).astype(np.int64))


def _share_of_unseen(c0: Doubles, c4: Doubles, c8: Doubles, c10: Doubles, size: Doubles) -> Doubles:
    """An estimate of exp(−n / m) by the registers with few ranks."""
    alpha, beta = size + 3 * (c0 + c4 + c8 + c10), size - c0 - c4
    gamma = 4 * c0 + 2 * c4 + 3 * c8 + c10
    root: Doubles = (np.sqrt(beta * beta + 4 * alpha * gamma) - beta) / (2 * alpha)
    return root**4


def _psi(z: Doubles) -> Doubles:
    cubic = _ETA[0] - _ETA[1] - _ETA[2] + _ETA[3]
    value: Doubles = ((cubic * z + _ETA[2] - _ETA[3]) * z + _ETA[1] - _ETA[3]) * z + _ETA[3]
    return value


def _sigma(z: Doubles) -> Doubles:
    """Σ 2^(τ u) (z^(2^u) − z^(2^(u+1))) ψ(z^(2^(u+1))) / z over u = 0, 1, …, for 0 < z < 1: until nothing is added."""
    power, total, scale = z.copy(), np.zeros_like(z), 1.0
    for _ in range(_SIGMA_TERMS):
        following = power * power
        more = scale * (power - following) * _psi(following)
        if not (more > total * 1e-17).any():
            break
        total += more
        power, scale = following, scale * 2.0**_TAU
    return total / z


# --- serialized ----------------------------------------------------------------------------------------------------


def serialized(states: Sequence[pa.Array], p_of_nothing: int) -> list[bytes]:
    """The registers of each row."""
    p = pc.fill_null(states[0], p_of_nothing).to_numpy(zero_copy_only=False).astype(np.int64)
    parents, entries = _entries(states[1])
    starts = np.concatenate([[0], np.cumsum(1 << p)])
    check_answer_size(int(starts[-1]), len(p), "UltraLogLogs", "p")
    out = np.zeros(int(starts[-1]), np.uint8)
    out[starts[parents] + (entries >> _BYTE)] = entries & 0xFF
    return [out[begin:end].tobytes() for begin, end in pairwise(starts.tolist())]


def states_of_serialized(rows: Int64Array, values: pa.Array, num_rows: int) -> list[pa.Array]:
    """State columns from (row, serialized sketch) pairs; empty bytes, the default of null, hold nothing. Raises
    QueryExecutionError for bytes that are no sketch."""
    encoded = values.dictionary_encode()
    read = [_read(data) for data in encoded.dictionary.to_pylist()]
    if not read:
        return [pa.nulls(num_rows, field.type) for field in state_fields()]
    columns = [pa.array([state[i] for state in read], field.type) for i, field in enumerate(state_fields())]
    return merge_states([column.take(encoded.indices) for column in columns], rows, num_rows)


def _read(data: bytes) -> tuple[int | None, Any]:
    """One sketch as a state row."""
    if not data:
        return None, None
    p = len(data).bit_length() - 1
    with_p = len(data) == (1 << p) + 1 and data[0] == p
    if not P_MIN <= p <= P_MAX or (len(data) != 1 << p and not with_p):
        raise _not_serialized(f"{len(data)} bytes that begin with {data[0]}")
    registers = np.frombuffer(data, np.uint8, offset=int(with_p)).astype(np.int64)
    place = np.flatnonzero(registers)
    byte = registers[place]
    # The least ranks have fewer below them: a register of one value is 4 p − 4, and of two 4 p or 4 p + 2.
    if ((byte < 4 * p - 4) | ((byte < 4 * p + 4) & ~np.isin(byte, (4 * p - 4, 4 * p, 4 * p + 2)))).any():
        raise _not_serialized("registers that no values can give")
    return p, (place << _BYTE) | byte


def _not_serialized(content: str) -> QueryExecutionError:
    return QueryExecutionError(
        "Caught exception while merging UltraLogLogs: expected 2^p registers, perhaps behind the byte p, found "
        f"{content}: name a column that holds them"
    )
