"""Exact sums of doubles between scan and answer: made from 128-bit windows, merged as digits, rounded once.

A sum is an integer in units of 2^-1076 (docs/adr/0003-sums.md) and travels as list<int64>:

    [flags * 65536 + first, d0, d1, … dn]      sum = (d0 + d1 * 2^32 + … ) * 2^(32 * first) * 2^-1076

Digits are 0 .. 2^32-1, the last one is signed and may be longer. Flags as in kernels/aggregate/exact_sums.py: an
infinity or NaN was among the values. Adding integers is associative and commutative, so any order of merging gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.grouping import KERNEL_ROWS
from pinotpy.functions.state.scattering import add_at

WINDOW: Final = 48  # as kernels/aggregate/exact_sums.py, which a broker does not load; a test compares them
WINDOW_MAIN: Final = 21
WINDOW_SPECIAL: Final = 63
UNIT_BIAS: Final = 1076
PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER = 1, 2, 4
_MASK: Final = np.int64(0xFFFFFFFF)
_SHIFT: Final = np.int64(32)
EXACT_HEADER: Final = 65536  # of a header: flags above, the index of the first digit below


def exact_array(low: Int64Array, high: Int64Array, seen: NDArray[np.bool_], overflow: Sequence[Int64Array]) -> pa.Array:
    """Sums of one state row each: the main window's words, and overflow entries (rows, windows, low, high)."""
    rows, windows, overflow_low, overflow_high = overflow
    special = windows == WINDOW_SPECIAL
    flags = np.zeros(len(low), np.int64)
    np.bitwise_or.at(flags, rows[special], overflow_low[special])
    plain = ~special
    bases = np.concatenate([[WINDOW * WINDOW_MAIN], windows[plain] * WINDOW])
    first, last = int(bases.min()) >> 5, (int(bases.max()) >> 5) + 5
    digits = np.zeros((len(low), last - first + 1), np.int64)
    _add_column(digits, first, WINDOW * WINDOW_MAIN, low, high)
    if plain.any():
        _add_words(digits, first, rows[plain], windows[plain] * WINDOW, overflow_low[plain], overflow_high[plain])
    return _encode(digits, first, flags, seen)


def exact_of_columns(
    columns: Sequence[tuple[int, Int64Array, Int64Array]], overflow: Sequence[Int64Array], seen: NDArray[np.bool_]
) -> pa.Array:
    """Sums of one state row each, from columns (position, low, high) of 128-bit integers at a bit position that counts
    from the lowest bit of the sum's unit, and from overflow entries (rows, positions, low, high).
    """
    rows, places, overflow_low, overflow_high = overflow
    positions = [position for position, _, _ in columns] + (
        [int(places.min()), int(places.max())] if len(places) else []
    )
    first, last = min(positions) >> 5, (max(positions) >> 5) + 5
    digits = np.zeros((len(seen), last - first + 1), np.int64)
    for position, low, high in columns:
        _add_column(digits, first, position, low, high)
    if len(rows):
        _add_words(digits, first, rows, places, overflow_low, overflow_high)
    return _encode(digits, first, np.zeros(len(seen), np.int64), seen)


def exact_integers(states: pa.Array) -> tuple[list[int], int, Int64Array]:
    """(integers, bit, flags): row i is integers[i] * 2^bit units; 0 for null."""
    digits, first, flags, _ = _decode(states, np.arange(len(states), dtype=np.int64), len(states))
    _carry(digits)
    width = digits.shape[1] * 4
    data = digits.astype("<u4").tobytes()  # the last digit is but a sign
    return (
        [int.from_bytes(data[offset : offset + width], "little", signed=True) for offset in range(0, len(data), width)],
        32 * first,
        flags,
    )


def sum_doubles(groups: Int64Array, values: NDArray[np.float64], num_groups: int) -> pa.Array:
    """Exact sums of doubles by group, null where a group has none."""
    seen = np.zeros(num_groups, np.bool_)
    seen[groups] = True
    flags = np.zeros(num_groups, np.int64)
    special = ~np.isfinite(values)
    if special.any():
        marks = np.where(np.isnan(values), NOT_A_NUMBER, np.where(values > 0, PLUS_INFINITY, MINUS_INFINITY))
        np.bitwise_or.at(flags, groups[special], marks[special])
        groups, values = groups[~special], values[~special]
    if len(values) >= KERNEL_ROWS:
        return _encode(*_digits_by_kernel(groups, values, num_groups), flags, seen)
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    # A subnormal has fewer bits than 53 below its first; those that it lacks are zeros.
    positions = exponents.astype(np.int64) - 53 + UNIT_BIAS
    short = np.maximum(-positions, 0)
    mantissas, positions = mantissas >> short, positions + short
    first, last = (int(positions.min()) >> 5, (int(positions.max()) >> 5) + 5) if len(positions) else (0, 5)
    digits = np.zeros((num_groups, last - first + 1), np.int64)
    _add_words(digits, first, groups, positions, mantissas, mantissas >> np.int64(63))
    return _encode(digits, first, flags, seen)


def _digits_by_kernel(groups: Int64Array, values: NDArray[np.float64], num_groups: int) -> tuple[Int64Array, int]:
    """(digits, the index of the first) of finite doubles."""
    from pinotpy.kernels.aggregate.double_digits import add_doubles

    bits = np.ascontiguousarray(values).view(np.int64)
    exponents = np.maximum((bits >> 52) & 0x7FF, 1)
    first, last = (int(exponents.min()) + 1) >> 5, ((int(exponents.max()) + 1) >> 5) + 5
    digits = np.zeros((num_groups, last - first + 1), np.int64)
    add_doubles(bits, groups, first, digits)
    return digits, first


def _add_column(digits: Int64Array, first: int, position: int, low: Int64Array, high: Int64Array) -> None:
    """As `_add_words`, one integer a row, all at one position."""
    digit, shift = (position >> 5) - first, position & 31
    for j, limb in enumerate((low & _MASK, (low >> _SHIFT) & _MASK, high & _MASK, high >> _SHIFT)):
        moved = limb << shift
        digits[:, digit + j] += moved & _MASK
        digits[:, digit + j + 1] += moved >> _SHIFT


def _add_words(
    digits: Int64Array, first: int, rows: Int64Array, positions: Int64Array, low: Int64Array, high: Int64Array
) -> None:
    # Add 128-bit integers at bit `positions`: four limbs, each moved by less than a digit, so it falls into two digits.
    flat = digits.reshape(-1)
    places = positions & 31
    digit_positions = rows * digits.shape[1] + (positions >> 5) - first
    for j, limb in enumerate((low & _MASK, (low >> _SHIFT) & _MASK, high & _MASK, high >> _SHIFT)):
        moved = limb << places
        add_at(flat, digit_positions + j, moved & _MASK)
        add_at(flat, digit_positions + j + 1, moved >> _SHIFT)


def _carry(digits: Int64Array) -> None:
    # All but the last digit into 0 .. 2^32-1.
    for k in range(digits.shape[1] - 1):
        digits[:, k + 1] += digits[:, k] >> _SHIFT
        digits[:, k] &= _MASK


def _encode(digits: Int64Array, first: int, flags: Int64Array, seen: NDArray[np.bool_]) -> pa.Array:
    _carry(digits)
    used = digits.shape[1]
    while used > 1 and (np.abs(digits[:, used - 1]) < 2**20).all():
        digits[:, used - 2] += digits[:, used - 1] << _SHIFT
        used -= 1
    start = 0
    while start < used - 1 and not digits[:, start].any():
        start += 1
    out = np.empty((len(digits), used - start + 1), np.int64)
    out[:, 0] = flags * EXACT_HEADER + first + start
    out[:, 1:] = digits[:, start:used]
    lengths = np.where(seen, out.shape[1], 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = out if seen.all() else out[seen]
    mask = None if seen.all() else pa.array(~seen)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)), mask=mask)


def _decode(
    states: pa.Array, groups: Int64Array, num_groups: int
) -> tuple[Int64Array, int, Int64Array, NDArray[np.bool_]]:
    """Digits of the sums by group (not carried), the index of their first digit, flags, and who has seen anything."""
    valid = states.is_valid().to_numpy(zero_copy_only=False)
    flags, seen = np.zeros(num_groups, np.int64), np.zeros(num_groups, np.bool_)
    offsets = states.offsets.to_numpy().astype(np.int64)
    starts, lengths = offsets[:-1][valid], np.diff(offsets)[valid]
    groups = groups[valid]
    seen[groups] = True
    if not len(starts):
        return np.zeros((num_groups, 3), np.int64), 0, flags, seen
    words = states.values.to_numpy(zero_copy_only=False)
    headers = words[starts]
    np.bitwise_or.at(flags, groups, headers // EXACT_HEADER)
    firsts, counts = headers % EXACT_HEADER, lengths - 1
    first, last = int(firsts.min()), int((firsts + counts).max())
    width = last - first + 3
    digits = np.zeros(num_groups * width, np.int64)
    for k in range(int(counts.max())):
        inner = counts > k + 1
        targets = groups * width + firsts - first + k
        add_at(digits, targets[inner], words[starts[inner] + 1 + k])
        top = counts == k + 1
        value = words[starts[top] + 1 + k]
        add_at(digits, targets[top], value & _MASK)
        add_at(digits, targets[top] + 1, value >> _SHIFT)
    return digits.reshape(num_groups, width), first, flags, seen


def merge_exact(states: pa.Array, groups: Int64Array, num_groups: int) -> pa.Array:
    """Sums by group; null where a group has no sum."""
    digits, first, flags, seen = _decode(states, groups, num_groups)
    return _encode(digits, first, flags, seen)


def round_exact(states: pa.Array) -> NDArray[np.float64]:
    """Sums as doubles, rounded to nearest even once; 0.0 for null; infinities and NaN by their flags."""
    digits, first, flags, _ = _decode(states, np.arange(len(states), dtype=np.int64), len(states))
    _carry(digits)
    negative = digits[:, -1] < 0
    digits[negative] = -digits[negative]
    _carry(digits)
    padded = np.concatenate([np.zeros((len(digits), 2), np.int64), digits], axis=1)  # two digits below the lowest
    nonzero = padded != 0
    top = padded.shape[1] - 1 - np.argmax(nonzero[:, ::-1], axis=1)
    top = np.maximum(top, 2)
    rows = np.arange(len(padded))
    high, middle, low = (padded[rows, top - k].astype(np.uint64) for k in range(3))
    below = (
        np.cumsum(nonzero, axis=1)[rows, top] - nonzero[rows, top] - nonzero[rows, top - 1] - nonzero[rows, top - 2] > 0
    )
    # 64 bits with a leading one; what is cut is or-ed into the last bit, so that the conversion rounds rightly.
    room = np.uint64(32) - _bit_length(high)
    mantissa = ((high << np.uint64(32) | middle) << room) | (low >> (np.uint64(32) - room))
    rest = (low << room) & np.uint64(0xFFFFFFFF)
    mantissa |= ((rest != 0) | below).astype(np.uint64)
    exponent = (first + top - 3) * 32 - room.astype(np.int64) - UNIT_BIAS
    with np.errstate(over="ignore", under="ignore"):
        rounded: NDArray[np.float64] = np.ldexp(mantissa.astype(np.float64), exponent)
    out = np.where(negative, -rounded, rounded)
    out[flags == PLUS_INFINITY] = np.inf
    out[flags == MINUS_INFINITY] = -np.inf
    out[(flags & NOT_A_NUMBER != 0) | (flags & 3 == 3)] = np.nan
    return out


def _bit_length(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # Of numbers below 2^32 (exact as doubles).
    return np.frexp(values.astype(np.float64))[1].astype(np.uint64)
