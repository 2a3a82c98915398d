"""Exact sums of doubles: 128-bit fixed point in windows of exponents (docs/adr/0003-sums.md).

A double is m * 2^(e - 1075) with a 53-bit integer m and a biased exponent e. Exponents are cut into windows of
WINDOW; within one, values are integers in units of the window's lowest bit and their sum is a 128-bit integer: adding
is exact, so any order and any split gives the same bits. The main window (3e-5 .. 8.6e9, and zero) has its two words in
the group's row; what lies outside goes to the **overflow**, an open-addressing table by (group, slot, window), which is
exact as well. Infinities and NaN are flags in window WINDOW_SPECIAL.

    value of window w = (high * 2^64 + low) * 2^(WINDOW * w - 1076)

128 bits hold 2^26 values of the largest exponent of a window: a unit has at most MORSEL_DOCS_MAX docs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.result_context import (
    G_CONTROL,
    G_OVERFLOW,
    G_OVERFLOW_ARENA,
    G_OVERFLOW_MASK,
    G_OVERFLOW_USED,
    G_ROW_WORDS,
    G_TABLE,
    vector_at,
)
from pinotpy.kernels.runtime.abi import E_OK, inner, words
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, reserve, reserve_zeroed
from pinotpy.kernels.runtime.hashing import first_slot, mix, probe

WINDOW: Final = 48
WINDOW_MAIN: Final = 21
WINDOW_SPECIAL: Final = 63
UNIT_BIAS: Final = 1076
MORSEL_DOCS_MAX: Final = 1 << 26
PLUS_INFINITY: Final = 1
MINUS_INFINITY: Final = 2
NOT_A_NUMBER: Final = 4

_MAIN_BASE: Final = np.uint64(WINDOW * WINDOW_MAIN - 1)
_IMPLICIT: Final = np.uint64(1 << 52)
_FRACTION: Final = np.uint64((1 << 52) - 1)
_OVERFLOW_WORDS: Final = 3  # key + 1, low, high
_OVERFLOW_ARENA_WORDS: Final = 5
_OVERFLOW_FIRST: Final = 256


@njit(nogil=True)
def split_doubles(bits: Any, low: Any, high: Any) -> Any:
    """128-bit integers of doubles of the main window; others become 0 and are counted (zeros are not).

    Args:
        bits: uint64[n], the doubles. low, high: int64[n], written.
    """
    outside = 0
    for i in range(len(bits)):
        b = bits[i]
        shift = ((b >> np.uint64(52)) & np.uint64(0x7FF)) - _MAIN_BASE
        inside = (shift - np.uint64(1)) < np.uint64(WINDOW)
        magnitude = int64((b & _FRACTION) | _IMPLICIT) if inside else int64(0)
        places = shift if inside else np.uint64(1)
        sign = int64(b) >> 63
        m = (magnitude ^ sign) - sign
        low[i] = m << int64(places)
        high[i] = m >> (int64(64) - int64(places))
        outside += (not inside) and (b << np.uint64(1)) != np.uint64(0)
    return outside


@njit(nogil=True, inline="always")
def add_wide(table: Any, word: Any, low: Any, high: Any) -> None:
    """Add the 128-bit integer (low, high) to the one at `word`."""
    before = uint64(table[word])
    after = before + uint64(low)
    table[word] = int64(after)
    table[word + uint64(1)] += high + (int64(1) if after < before else int64(0))


@njit(nogil=True)
def is_outside(b: Any) -> Any:
    """Whether this double (as bits) is neither zero nor in the main window."""
    shift = ((b >> np.uint64(52)) & np.uint64(0x7FF)) - _MAIN_BASE
    return (shift - np.uint64(1)) >= np.uint64(WINDOW) and (b << np.uint64(1)) != np.uint64(0)


@inner
def _holds_entry(entries: Any, slot: Any, known: Any, key: Any) -> Any:
    return entries[slot * uint64(_OVERFLOW_WORDS)] == key


_find_entry = probe(_holds_entry, _OVERFLOW_WORDS)


@njit(nogil=True)
def _slot_of(entries: Any, mask: int, key: int) -> Any:
    slot_mask = uint64(mask)
    slot = _find_entry(entries, first_slot(mix(key), slot_mask), slot_mask, entries, key)
    return int64(slot) * _OVERFLOW_WORDS


@njit(nogil=True)
def _grow_overflow(context: Any) -> Any:
    # Twice the entries; the old ones are kept in a copy while the table is made anew.
    old_count = context[G_OVERFLOW_MASK] + 1 if context[G_OVERFLOW_MASK] > 0 else 0
    count = max(old_count * 2, _OVERFLOW_FIRST)
    entries_before = (
        words(context[G_OVERFLOW + V_ADDRESS], old_count * _OVERFLOW_WORDS).copy()
        if old_count > 0
        else np.empty(0, np.int64)
    )
    if old_count > 0:
        words(context[G_OVERFLOW + V_ADDRESS], old_count * _OVERFLOW_WORDS)[:] = 0
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_OVERFLOW), count * _OVERFLOW_WORDS)
    if code != E_OK:
        return code
    context[G_OVERFLOW_MASK] = count - 1
    entries = words(context[G_OVERFLOW + V_ADDRESS], count * _OVERFLOW_WORDS)
    for i in range(old_count):
        if entries_before[i * _OVERFLOW_WORDS] != 0:
            slot = _slot_of(entries, count - 1, entries_before[i * _OVERFLOW_WORDS])
            for k in range(_OVERFLOW_WORDS):
                entries[slot + k] = entries_before[i * _OVERFLOW_WORDS + k]
    return E_OK


@njit(nogil=True)
def _overflow_entry(context: Any, group: int, slot: int, window: int) -> Any:
    """(code, position of the entry's words) in the overflow of (group, slot, window), made if it is new."""
    if context[G_OVERFLOW_USED] * 2 >= context[G_OVERFLOW_MASK]:
        code = _grow_overflow(context)
        if code != E_OK:
            return code, int64(0)
    key = (group << 24 | slot << 8 | window) + 1  # 16 bits of a slot: query/aggregate/layout.py keeps rows within them
    mask = context[G_OVERFLOW_MASK]
    entries = words(context[G_OVERFLOW + V_ADDRESS], (mask + 1) * _OVERFLOW_WORDS)
    at = _slot_of(entries, mask, key)
    if entries[at] == 0:
        entries[at] = key
        context[G_OVERFLOW_USED] += 1
    return E_OK, at


@njit(nogil=True)
def overflow_row(context: Any, group: int, slot: int, b: Any) -> Any:
    """Add the double with bits `b` to the overflow of (group, slot). Returns E_OK or E_MEMORY."""
    exponent = int64((b >> np.uint64(52)) & np.uint64(0x7FF))
    fraction = int64(b & _FRACTION)
    window = WINDOW_SPECIAL if exponent == 0x7FF else exponent // WINDOW
    sign = int64(b) >> 63
    if window == WINDOW_SPECIAL:
        flag = NOT_A_NUMBER if fraction != 0 else (MINUS_INFINITY if sign else PLUS_INFINITY)
        return overflow_part(context, group, slot, window, flag, 0)
    if exponent == 0:
        exponent = 1  # subnormal: same unit, no implicit bit
    else:
        fraction |= int64(_IMPLICIT)
    places = exponent - (WINDOW * window - 1)
    m = (fraction ^ sign) - sign
    return overflow_part(context, group, slot, window, m << places, m >> (64 - places))


@njit(nogil=True)
def overflow_part(context: Any, group: int, slot: int, window: int, low: int, high: int) -> Any:
    """Add a 128-bit integer in units of `window` (of WINDOW_SPECIAL: flags in `low`) to the overflow of (group, slot).
    Returns E_OK or E_MEMORY.
    """
    code, at = _overflow_entry(context, group, slot, window)
    if code != E_OK:
        return code
    entries = words(context[G_OVERFLOW + V_ADDRESS], (context[G_OVERFLOW_MASK] + 1) * _OVERFLOW_WORDS)
    if window == WINDOW_SPECIAL:
        entries[at + 1] |= low
        return E_OK
    add_wide(entries, uint64(at + 1), low, high)
    return E_OK


@njit(nogil=True)
def end_overflow(context: Any) -> Any:
    """When a unit ends and word 0 of its groups' rows is their arena row: move the overflow to the overflow arena."""
    return _leave(context, False)


@njit(nogil=True)
def leave_overflow(context: Any) -> Any:
    """Move the overflow to the overflow arena, where groups keep their numbers."""
    return _leave(context, True)


@njit(nogil=True)
def _leave(context: Any, by_number: bool) -> Any:
    if context[G_OVERFLOW_USED] == 0:
        return E_OK
    code = reserve(
        context[G_CONTROL], vector_at(context, G_OVERFLOW_ARENA), context[G_OVERFLOW_USED] * _OVERFLOW_ARENA_WORDS
    )
    if code != E_OK:
        return code
    width = context[G_ROW_WORDS]
    count = context[G_OVERFLOW_MASK] + 1
    entries = words(context[G_OVERFLOW + V_ADDRESS], count * _OVERFLOW_WORDS)
    out = words(
        context[G_OVERFLOW_ARENA + V_ADDRESS],
        context[G_OVERFLOW_ARENA + V_USED] + context[G_OVERFLOW_USED] * _OVERFLOW_ARENA_WORDS,
    )
    position = context[G_OVERFLOW_ARENA + V_USED]
    for i in range(count):
        if entries[i * _OVERFLOW_WORDS] == 0:
            continue
        key = entries[i * _OVERFLOW_WORDS] - 1
        out[position] = (
            (key >> 24) if by_number else words(context[G_TABLE + V_ADDRESS] + (key >> 24) * width * 8, 1)[0]
        )
        out[position + 1], out[position + 2] = (key >> 8) & 0xFFFF, key & 0xFF
        out[position + 3], out[position + 4] = entries[i * _OVERFLOW_WORDS + 1], entries[i * _OVERFLOW_WORDS + 2]
        position += _OVERFLOW_ARENA_WORDS
    context[G_OVERFLOW_ARENA + V_USED] = position
    entries[:] = 0
    context[G_OVERFLOW_USED] = 0
    return E_OK
