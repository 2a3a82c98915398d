"""Few rows of many morsels. `put_together` in one pass: their dict ids become shared codes, equal packed keys one
group, numbered by first appearance; words of rows are added up by `merge_rows.add_row`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.result_context import G_ARENA, G_KEY_WORDS, G_MORSELS, G_ROW_WORDS
from pinotpy.kernels.group.merge_rows import add_row, flat
from pinotpy.kernels.runtime.abi import words
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED
from pinotpy.kernels.runtime.hashing import find_number, first_slot, mix
from pinotpy.kernels.runtime.views import view_i32

# Of 128 bits that begin anywhere in a digit, and a carry.
EXACT_DIGITS: Final = 6


@njit(cache=True, nogil=True)
def put_together(
    context: Any,
    segments: Any,
    code_maps: Any,
    cardinalities: Any,
    sizes: Any,
    kinds: Any,
    index: Any,
    groups: Any,
    first: int,
    keys: Any,
    out: Any,
    known: int,
) -> Any:
    """Add the rows of one thread's arena to the groups; gives how many there are then.

    Args:
        context: words of the thread's result context; a row's key words come first.
        segments: int64, of every morsel its row in the next two.
        code_maps, cardinalities: int64[n, keys], address of int32[cardinality]: dict id → shared code. Ids past the
            dictionary are null.
        sizes: int64[keys]: shared codes of each key, the last of them null where there are nulls; their product is
            below 2^62.
        kinds: how each word of a row is added (merge_rows.py).
        index: int64[2^b], zeros at first, at least twice as many as rows of all threads: number of a group + 1.
        groups: int64, written from `first` on: the group of each row.
        keys: int64, packed key of each group; out: int64[rows, row words], zeros at first.
        known: groups that there are already.
    """
    num_keys, width = context[G_KEY_WORDS], context[G_KEY_WORDS] + context[G_ROW_WORDS]
    num_rows, num_morsels = context[G_ARENA + V_USED] // width, context[G_MORSELS + V_USED] // 2
    arena, morsels = (
        words(context[G_ARENA + V_ADDRESS], num_rows * width),
        words(context[G_MORSELS + V_ADDRESS], num_morsels * 2),
    )
    mask, count = uint64(len(index) - 1), known
    target, row_words = flat(out), out.shape[1]
    slots, packed = words(index.ctypes.data, len(index)), words(keys.ctypes.data, len(keys))
    for u in range(num_morsels):
        segment = segments[morsels[2 * u]]
        end = morsels[2 * u + 3] if u + 1 < num_morsels else num_rows
        for row in range(morsels[2 * u + 1], end):
            base, key = row * width, int64(0)
            for k in range(num_keys):
                local, cardinality = arena[base + k], cardinalities[segment, k]
                digit = (
                    int64(view_i32(code_maps[segment, k], cardinality)[local]) if local < cardinality else sizes[k] - 1
                )
                key = key * sizes[k] + digit
            slot = find_number(slots, first_slot(mix(key), mask), mask, packed, key)
            group = slots[slot] - 1
            if group < 0:
                group = count
                count += 1
                slots[slot], packed[group] = count, key
            groups[first + row] = group
            add_row(target, group * row_words, arena, base + num_keys, kinds)
    return count


@njit(cache=True, nogil=True)
def exact_lists(table: Any, word: int, position: int) -> Any:
    """Exact sums whose parts all lie in one window, as they travel (functions/state/exact_sums.py).

    Args:
        table: int64[n, row words], the 128-bit integers of the window in words `word` and `word` + 1; position: their
            bit 0.

    Returns: int64[n, k], a list of equal length for each row: [index of the first digit, digits of 32 bits …, the
        signed last one].
    """
    n, shift, mask = len(table), position & 31, int64(0xFFFFFFFF)
    digits = np.zeros((n, EXACT_DIGITS), np.int64)
    for i in range(n):
        low, high = table[i, word], table[i, word + 1]
        for j in range(4):
            limb = low & mask if j == 0 else (low >> 32) & mask if j == 1 else high & mask if j == 2 else high >> 32
            moved = limb << shift
            digits[i, j] += moved & mask
            digits[i, j + 1] += moved >> 32
        for j in range(EXACT_DIGITS - 1):
            digits[i, j + 1] += digits[i, j] >> 32
            digits[i, j] &= mask
    used = EXACT_DIGITS
    while used > 1:
        is_short = True
        for i in range(n):
            is_short &= abs(digits[i, used - 1]) < 1 << 20
        if not is_short:
            break
        used -= 1
        for i in range(n):
            digits[i, used - 1] += digits[i, used] << 32
    start, is_zero = 0, True
    while start < used - 1:
        for i in range(n):
            is_zero &= digits[i, start] == 0
        if not is_zero:
            break
        start += 1
    out = np.empty((n, used - start + 1), np.int64)
    for i in range(n):
        out[i, 0] = (position >> 5) + start
        for j in range(start, used):
            out[i, j - start + 1] = digits[i, j]
    return out


def warm() -> None:
    """Compile for the argument types that queries use."""
    none, two = np.zeros(0, np.int64), np.zeros((1, 1), np.int64)
    context = np.zeros(G_MORSELS + 64, np.int64)
    context[G_ROW_WORDS] = 1
    exact_lists(np.zeros((1, 2), np.int64), 0, 0)
    put_together(context, none, two, two, none, none, np.zeros(2, np.int64), none, 0, none, two, 0)
