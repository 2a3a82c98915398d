"""Values at some ranks of each group, exactly, in one pass over its runs (value_lists.py), without sorting them.

A sample of a group says between which two values (a *bracket*) the ranks must lie; the pass counts what is below, and
copies the few values inside; only these are put in order. Should the ranks lie outside after all, the group is read
again with a wider bracket: the sample decides how long it takes, never what comes out.

    brackets        sample → least and greatest word of every group
    count_and_copy  a range of runs: words below, equal to the ends, and copies of those inside
    pick            copies → the word at a rank, or means of values between ranks
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, int64, njit, uint64

from pinotpy.kernels.aggregate.result_context import G_ARENA, G_CONTROL, vector_at
from pinotpy.kernels.runtime.abi import C_CANCEL, CONTROL_WORDS, E_CANCELLED, E_OK, inner, words
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, reserve
from pinotpy.kernels.runtime.views import double_of_bits

# Smaller groups are copied whole.
WHOLE_MAX: Final = 1 << 13
SAMPLE_MAX: Final = 1 << 12
_SAMPLED_SHIFT: Final = 6  # at most every 64th value is looked at
# Words of the counts of a group.
BELOW, EQUAL_LEAST, INSIDE, EQUAL_GREATEST, COUNT_WORDS = 0, 1, 2, 3, 4
_MAGNITUDE: Final = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST_WORD: Final = np.int64(-0x8000000000000000)
_RAISED: Final = 2.0**500
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True)
def _sample(addresses: Any, sizes: Any, total: int, out: Any) -> None:
    # One value at a random place of each of len(out) equal stretches.
    seed = uint64(total) * _STEP + uint64(len(out))
    run, before = 0, int64(0)
    for i in range(len(out)):
        low, high = total * i // len(out), total * (i + 1) // len(out)
        seed = (seed ^ (seed >> uint64(29))) * _STEP + uint64(1)
        place = low + int64((seed >> uint64(32)) % uint64(high - low))
        while before + sizes[run] <= place:
            before += sizes[run]
            run += 1
        out[i] = words(addresses[run] + (place - before) * 8, 1)[0]


@njit(cache=True, nogil=True)
def brackets(
    addresses: Any, sizes: Any, starts: Any, totals: Any, first_ranks: Any, last_ranks: Any, lows: Any, highs: Any
) -> None:
    """Words that most likely enclose the ranks first_ranks[g] … last_ranks[g] of each group.

    Args:
        addresses, sizes: of all runs, by group; starts: int64[groups + 1], runs of a group; totals: int64[groups], its
            values.
        lows, highs: int64[groups], written.
    """
    sample = np.empty(SAMPLE_MAX, np.int64)
    for group in range(len(totals)):
        total = totals[group]
        lows[group], highs[group] = _LEAST_WORD, _MAGNITUDE
        if total <= WHOLE_MAX:
            continue
        count = min(max(total >> _SAMPLED_SHIFT, 64), SAMPLE_MAX)
        taken = sample[:count]
        low, high = starts[group], starts[group + 1]
        _sample(addresses[low:high], sizes[low:high], total, taken)
        taken.sort()
        # Three and a half standard deviations of the number of sampled values below a rank.
        part = first_ranks[group] / total
        below = int64(np.floor(part * count - 3.5 * np.sqrt(count * part * (1 - part)))) - 2
        part = last_ranks[group] / total
        above = int64(np.ceil(part * count + 3.5 * np.sqrt(count * part * (1 - part)))) + 2
        if below >= 0:
            lows[group] = taken[below]
        if above < count:
            highs[group] = taken[above]


@njit(nogil=True)
def _count_run(values: Any, low: Any, high: Any, copies: Any, counts: Any) -> Any:
    # `copies` has room for all values.
    inside, below, least, greatest = uint64(0), int64(0), int64(0), int64(0)
    for i in range(len(values)):
        value = values[i]
        copies[inside] = value
        inside += uint64((value > low) & (value < high))
        below += value < low
        least += value == low
        greatest += value == high
    counts[BELOW] += below
    counts[EQUAL_LEAST] += least
    counts[INSIDE] += int64(inside)
    # Where both ends are one word it is counted once.
    counts[EQUAL_GREATEST] += greatest if high != low else int64(0)
    return int64(inside)


@njit(cache=True, nogil=True)
def count_and_copy(
    context: Any, addresses: Any, sizes: Any, groups: Any, first: int, last: int, lows: Any, highs: Any, counts: Any
) -> Any:
    """Read runs first … last - 1: counts[g] (int64[groups, COUNT_WORDS]) += its words; those inside the bracket →
    G_ARENA of `context`, run after run. Returns E_OK or an error word.

    Args:
        groups: group of every run, ascending. A group whose low is above its high is passed by.
    """
    control = words(context[G_CONTROL], CONTROL_WORDS)
    for run in range(first, last):
        group = groups[run]
        if lows[group] > highs[group]:
            continue
        if control[C_CANCEL] != 0:
            return E_CANCELLED
        code = reserve(context[G_CONTROL], vector_at(context, G_ARENA), sizes[run] + 1)
        if code != E_OK:
            return code
        copies = words(context[G_ARENA + V_ADDRESS] + context[G_ARENA + V_USED] * 8, sizes[run] + 1)
        inside = _count_run(words(addresses[run], sizes[run]), lows[group], highs[group], copies, counts[group])
        context[G_ARENA + V_USED] += inside
    return E_OK


# --- the few values inside -------------------------------------------------------------------------------------------


@inner
def _middle(a: Any, b: Any, c: Any) -> Any:
    return max(min(a, b), min(max(a, b), c))


@inner
def _cut(keys: Any, low: Any, high: Any, bound: Any) -> Any:
    # Keys below `bound` come first; gives where the others begin.
    position = low
    for i in range(low, high):
        key = keys[i]
        keys[i] = keys[position]
        keys[position] = key
        position += uint64(key < bound)
    return position


@njit(nogil=True)
def _place_rank(keys: Any, low: Any, high: Any, rank: Any) -> None:
    # Afterwards keys[rank] is the key of that rank, none before it is greater, none behind it less.
    seed = uint64(high - low) + _STEP
    while high - low > uint64(1):
        first, second, third = int64(0), int64(0), int64(0)
        size = high - low
        for _ in range(3):
            seed = seed * _STEP + uint64(1)
            a = keys[low + (seed >> uint64(32)) % size]
            seed = seed * _STEP + uint64(1)
            b = keys[low + (seed >> uint64(32)) % size]
            seed = seed * _STEP + uint64(1)
            c = keys[low + (seed >> uint64(32)) % size]
            first, second, third = second, third, _middle(a, b, c)
        pivot = _middle(first, second, third)
        position = _cut(keys, low, high, pivot)
        if rank < position:
            high = position
            continue
        low = position
        if pivot == _MAGNITUDE:
            return  # all that is left is equal
        position = _cut(keys, low, high, pivot + int64(1))
        if rank < position:
            return  # equal to the pivot, all of them
        low = position


@njit(cache=True, nogil=True)
def pick(keys: Any, counts: Any, low: Any, high: Any, rank: int) -> Any:
    """(whether the bracket holds the rank, its word). keys: int64[INSIDE], put in another order; counts:
    int64[COUNT_WORDS].
    """
    position = rank - counts[BELOW]
    if position < 0 or position >= counts[EQUAL_LEAST] + counts[INSIDE] + counts[EQUAL_GREATEST]:
        return False, int64(0)
    if position < counts[EQUAL_LEAST]:
        return True, low
    position -= counts[EQUAL_LEAST]
    if position >= counts[INSIDE]:
        return True, high
    _place_rank(keys, uint64(0), uint64(len(keys)), uint64(position))
    return True, keys[uint64(position)]


@njit(nogil=True, inline="always")
def _value(word: Any, doubles: bool) -> Any:
    return double_of_bits(word ^ _MAGNITUDE if word < 0 else word) if doubles else float64(word)


@njit(nogil=True)
def _mean(keys: Any, low: Any, num_low: int, high: Any, num_high: int, doubles: bool) -> Any:
    # Of `keys` and so many times the ends. Summed as integers in units of the last bit of the largest: the same for any
    # order.
    count = len(keys) + num_low + num_high
    least, greatest = (low, low) if num_low > 0 else (high, high)
    if num_low + num_high == 0:
        least, greatest = keys[0], keys[0]
    if num_high > 0:
        greatest = high
    for i in range(len(keys)):
        least, greatest = min(least, keys[i]), max(greatest, keys[i])
    first, last = _value(least, doubles), _value(greatest, doubles)
    largest = max(abs(first), abs(last))
    if first == last or not largest < np.inf:
        # All equal, or with infinities or NaN, which the sum of the ends tells.
        return first if first == last else first + last
    # Powers of two beyond the doubles are two steps: the smallest values are raised first.
    raised = _RAISED if largest < 1.0 / _RAISED else 1.0
    scale = 2.0 ** (int64(51) - int64(np.ceil(np.log2(largest * raised))))
    bottom, top = int64(0), int64(0)
    for i in range(len(keys)):
        part = int64(np.rint(_value(keys[i], doubles) * raised * scale))
        bottom += part & int64(0xFFFFFFFF)
        top += part >> int64(32)
    for value, times in ((low, num_low), (high, num_high)):
        if times > 0:
            part = int64(np.rint(_value(value, doubles) * raised * scale))
            bottom += (part & int64(0xFFFFFFFF)) * times
            top += (part >> int64(32)) * times
    mean = (float64(top) * 4294967296.0 + float64(bottom)) / float64(count) / scale / raised
    return min(max(mean, first), last)


@njit(cache=True, nogil=True)
def pick_means(keys: Any, counts: Any, low: Any, high: Any, begin: int, middle: int, end: int, doubles: bool) -> Any:
    """(whether the bracket holds the ranks, mean of the values at ranks begin … middle - 1, and at middle … end - 1,
    which is the first again where that is none).
    """
    first = counts[BELOW]
    inside = first + counts[EQUAL_LEAST]
    behind = inside + counts[INSIDE]
    if begin < first or end > behind + counts[EQUAL_GREATEST]:
        return False, 0.0, 0.0
    means = np.zeros(2)
    for half in range(2):
        left, right = (begin, middle) if half == 0 else (middle, end)
        if left >= right:
            means[half] = means[0]
            continue
        num_low, num_high = max(min(right, inside) - left, 0), max(right - max(left, behind), 0)
        own_left, own_right = max(left, inside) - inside, min(right, behind) - inside
        if own_left < own_right:
            _place_rank(keys, uint64(0), uint64(len(keys)), uint64(own_left))
            if own_right < len(keys):
                _place_rank(keys, uint64(own_left), uint64(len(keys)), uint64(own_right))
            means[half] = _mean(keys[own_left:own_right], low, num_low, high, num_high, doubles)
        else:
            means[half] = _mean(keys[:0], low, num_low, high, num_high, doubles)
    return True, means[0], means[1]


def warm() -> None:
    """Compile for the argument types that queries use."""
    one, none, counts = np.ones(1, np.int64), np.empty(0, np.int64), np.zeros((1, COUNT_WORDS), np.int64)
    brackets(none, none, np.zeros(2, np.int64), np.zeros(1, np.int64), one, one, one.copy(), one.copy())
    count_and_copy(np.zeros(64, np.int64), none, none, none, 0, 0, one, one, counts)
    pick(one.copy(), counts[0], 0, 1, 0)
    pick_means(one.copy(), counts[0], 0, 1, 5, 6, 7, True)
