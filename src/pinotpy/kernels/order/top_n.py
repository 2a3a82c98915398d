"""The rows that sort first, of all docs that a thread selects: a buffer of candidates, cut to the best when it is full.

A row is the words of its keys (sort_keys.py) and its place, morsel << 32 | doc, so that no two rows are equal and rows
with equal keys keep the order of docs. When the buffer is full the `wanted` best are kept, found by quickselect; the
last of them is the *worst*: from then on only rows before it enter. It costs little per candidate, however many are
wanted, and the candidates become rare: of n rows in random order wanted * ln(n / wanted) or so. Threads tell each other
the first word of their worst, since nothing behind the worst of one thread can be among the best of all.

Context (S_USER, int64[TOP_WORDS], T_*). Block functions: `drop_behind_worst` after each key drops docs that are
behind the worst already, so that the next key is fetched for few; `tell_bound` after the first key those that the rest
of the block puts behind; `keep_rows` at the end puts what is left into the buffer.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, njit, types, uint8, uint64

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK
from pinotpy.kernels.order.sort_keys import ALL, K_WORD, order_rows
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_DENSE,
    S_MORSEL,
    S_REGISTERS,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    inner,
    mask_register,
    pointer,
    register_u8,
    selection,
    words,
)
from pinotpy.kernels.runtime.views import view_i64, view_u64

T_COUNT: Final = 0  # rows in the buffer
T_CAPACITY: Final = 1  # rows that fit: more than are wanted, or as many as there are docs
T_WANTED: Final = 2
T_WIDTH: Final = 3  # words a row, its place included
T_ROWS: Final = 4  # address of uint64[capacity * width]
T_WORST: Final = 5  # address of uint64[width]: the last of the wanted best, once there is one
T_VERSION: Final = 6  # 0: no worst yet; grows with every new one
T_SHARED: Final = 7  # address of one word for all threads: nothing above it by the first word is among the best
T_KINDS: Final = 8  # address of int64[width]: kinds of the words
TOP_WORDS: Final = 16

# Registers with key words, from register 0 on.
KEY_WORDS_MAX: Final = 16
# So many selected docs of a block for every row wanted are worth a look for a bound.
_BLOCK_ROWS_PER_LANE: Final = 4
_SHORT: Final = 16  # runs of rows that are sorted by insertion
SORT_STACK_WORDS: Final = 128


@inner
def top_of(state: Any) -> Any:
    """The top context of this thread."""
    return words(state[S_USER], TOP_WORDS)


@inner
def _key_words(state: Any, count: int) -> Any:
    return carray(pointer(state[S_REGISTERS], types.uint64), count * BLOCK)


# --- quickselect and quicksort of rows --------------------------------------------------------------------------------


@inner
def _copy(rows: Any, to: int, other: Any, position: int, width: int) -> None:
    for k in range(width):
        rows[to * width + k] = other[position * width + k]


@inner
def _swap(rows: Any, a: int, b: int, width: int) -> None:
    for k in range(width):
        rows[a * width + k], rows[b * width + k] = rows[b * width + k], rows[a * width + k]


@inner
def _before(rows: Any, position: int, other: Any, other_at: int, kinds: Any) -> Any:
    width = len(kinds)
    left, right = rows[position * width], other[other_at * width]
    if left != right:
        return left < right
    return order_rows(rows, position * width, 1, other, other_at * width, kinds) < 0


@njit(nogil=True)
def _split(rows: Any, low: int, high: int, kinds: Any, pivot: Any, random: Any) -> Any:
    # Hoare's partition of rows[low..high] (low < high) about one of them, never the last: gives j < high with
    # rows[low..j] <= rows[j + 1..high]. Pivots are drawn, so that no order of rows is a bad one.
    width = len(kinds)
    _copy(pivot, 0, rows, low + np.int64(random % uint64(high - low)), width)
    i, j = low - 1, high + 1
    while True:
        i += 1
        while _before(rows, i, pivot, 0, kinds):
            i += 1
        j -= 1
        while _before(pivot, 0, rows, j, kinds):
            j -= 1
        if i >= j:
            return j
        _swap(rows, i, j, width)


@inner
def _next_random(random: Any) -> Any:
    random ^= random << uint64(13)
    random ^= random >> uint64(7)
    return random ^ (random << uint64(17))


@njit(nogil=True)
def _select(rows: Any, count: int, wanted: int, kinds: Any, pivot: Any) -> None:
    # The first `wanted` of `count` rows to the front, the last of them at wanted - 1.
    low, high, random = 0, count - 1, uint64(0x9E3779B97F4A7C15)
    while low < high:
        random = _next_random(random)
        j = _split(rows, low, high, kinds, pivot, random)
        if wanted - 1 <= j:
            high = j
        else:
            low = j + 1


@inner
def _insert(rows: Any, low: int, high: int, kinds: Any, row: Any) -> None:
    width = len(kinds)
    for i in range(low + 1, high + 1):
        j = i
        _copy(row, 0, rows, i, width)
        while j > low and _before(row, 0, rows, j - 1, kinds):
            _copy(rows, j, rows, j - 1, width)
            j -= 1
        _copy(rows, j, row, 0, width)


@inner
def _sort(rows: Any, low: int, high: int, kinds: Any, row: Any, stack: Any) -> None:
    # Quicksort of rows[low..high]; the longer half waits, so that the stack stays short.
    depth, random = 0, uint64(0x9E3779B97F4A7C15)
    while True:
        if high - low < _SHORT:
            _insert(rows, low, high, kinds, row)
            if depth == 0:
                return
            depth -= 2
            low, high = stack[depth], stack[depth + 1]
            continue
        random = _next_random(random)
        j = _split(rows, low, high, kinds, row, random)
        if j - low > high - j - 1:
            stack[depth], stack[depth + 1] = low, j
            low = j + 1
        else:
            stack[depth], stack[depth + 1] = j + 1, high
            high = j
        depth += 2


@njit(cache=True, nogil=True)
def sort_value_lists(
    rows_address: int, count: int, column: int, kinds_address: int, width: int, scratch_address: int
) -> None:
    """Sort the rows of each run whose word `column` is the same.

    Args:
        rows_address: of uint64[count, width], changed in place. kinds_address: of int64[width], kinds of its words.
        scratch_address: of SORT_STACK_WORDS + width words of the caller's. Views of addresses, not arrays: those of
            Python would be counted at each of millions of calls, and one of this function's own is gone once its
            address was taken.
    """
    rows, kinds = view_u64(rows_address, count * width), view_i64(kinds_address, width)
    stack, pivot = view_i64(scratch_address, SORT_STACK_WORDS), view_u64(scratch_address + SORT_STACK_WORDS * 8, width)
    first = 0
    for i in range(1, count + 1):
        if i == count or rows[i * width + column] != rows[first * width + column]:
            if i - first > 1:
                _sort(rows, first, i - 1, kinds, pivot, stack)
            first = i


# --- block functions --------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _cut(top: Any, rows: Any, kinds: Any) -> None:
    # Keep the wanted best of a full buffer.
    width, wanted = top[T_WIDTH], top[T_WANTED]
    worst, shared = view_u64(top[T_WORST], width), view_u64(top[T_SHARED], 1)
    _select(rows, top[T_COUNT], wanted, kinds, worst)
    _copy(worst, 0, rows, wanted - 1, width)
    top[T_COUNT] = wanted
    top[T_VERSION] += 1
    # Without a lock: two threads at once may lose the better of two words until the next one is told, which only costs
    # time.
    shared[0] = min(shared[0], worst[0])


@block_function
def keep_rows(state_address: int, args_address: int) -> Any:
    """Offer the selected docs, the words of whose keys lie in registers 0 to A0 - 1; `drop_behind_worst` has seen
    all of these keys.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top, num_words = top_of(state), args[A0]
    width, capacity, version = top[T_WIDTH], top[T_CAPACITY], top[T_VERSION]
    if capacity == 0:
        return E_OK
    keys, docs, kinds = _key_words(state, num_words), selection(state), view_i64(top[T_KINDS], width)
    rows, worst = view_u64(top[T_ROWS], capacity * width), view_u64(top[T_WORST], width)
    place = uint64(state[S_MORSEL]) << uint64(32)
    for i in range(len(docs)):
        if top[T_COUNT] == capacity:
            _cut(top, rows, kinds)
        # Places ascend: a row with the keys of the worst comes after it.
        if top[T_VERSION] != version and order_rows(keys, i, BLOCK, worst, 0, kinds[:num_words]) >= 0:
            continue
        position = top[T_COUNT] * width
        for k in range(num_words):
            rows[position + k] = keys[k * BLOCK + i]
        rows[position + num_words] = place | uint64(docs[i])
        top[T_COUNT] += 1
    return E_OK


@inner
def _flag_words(flags: Any, tied: Any, keys: Any, limit: Any) -> None:
    for i in range(len(flags)):
        flags[i] = (tied[i] ^ uint8(1)) | uint8(keys[i] <= limit)
        tied[i] &= uint8(keys[i] == limit)


@inner
def _flag_texts(flags: Any, tied: Any, keys: Any, worst: Any, kinds: Any) -> None:
    # After _flag_words: texts that begin alike.
    for i in range(len(flags)):
        if tied[i] != 0:
            order = order_rows(keys, i, BLOCK, worst, 0, kinds)
            flags[i], tied[i] = order <= 0, order == 0


@inner
def _drop_ties(flags: Any, tied: Any) -> None:
    for i in range(len(flags)):
        flags[i] &= tied[i] ^ uint8(1)


@inner
def _count(flags: Any) -> Any:
    count = 0
    for i in range(len(flags)):
        count += flags[i]
    return count


@inner
def _compact(values: Any, flags: Any) -> None:
    position = 0
    for i in range(len(flags)):
        values[position] = values[i]
        position += flags[i]


@inner
def keep_flagged(state: Any, flags: Any, tied: Any, registers: int, is_last: bool) -> None:
    """Keep the selected docs that have a flag, with their words in `registers`, a bit each, and drop docs that tie by
    the last key.
    """
    if is_last:
        _drop_ties(flags, tied)
    num_kept = _count(flags)
    if num_kept == len(flags):
        return
    if num_kept > 0:
        keys = _key_words(state, KEY_WORDS_MAX)
        for k in range(KEY_WORDS_MAX):
            if (registers >> k) & 1 != 0:
                _compact(keys[k * BLOCK :], flags)
        _compact(tied, flags)
        _compact(selection(state), flags)
    state[S_SELECTED], state[S_DENSE] = num_kept, 0


@inner
def _least_of_lanes(lanes: Any, keys: Any) -> None:
    for i in range(len(lanes)):
        lanes[i] = min(lanes[i], keys[i])


@inner
def _bound(keys: Any, lanes: Any) -> Any:
    # The greatest of the least words of each lane (key i is in lane i mod lanes): as many keys as there are lanes are
    # not above.
    lanes[:] = ALL
    for first in range(0, len(keys) - len(lanes) + 1, len(lanes)):
        _least_of_lanes(lanes, keys[first : first + len(lanes)])
    bound = lanes[0]
    for i in range(len(lanes)):
        bound = max(bound, lanes[i])
    return bound


@block_function
def tell_bound(state_address: int, args_address: int) -> Any:
    """Tell all threads a bound of the first words, which lie in register 0, where many docs are selected for the rows
    wanted: what a block itself says keeps most of it out of the buffer, also where every row is before all rows so far
    (newest first, in docs that ascend by time). A0 a free register, A1 number of registers that hold words.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top, n = top_of(state), state[S_SELECTED]
    num_lanes = (top[T_WANTED] + 7) & ~7
    if top[T_WANTED] == 0 or n < _BLOCK_ROWS_PER_LANE * num_lanes:
        return E_OK
    lanes = view_u64(state[S_REGISTERS] + args[A0] * BLOCK * 8, num_lanes)
    keys, shared = _key_words(state, 1)[:n], view_u64(top[T_SHARED], 1)
    bound = min(_bound(keys, lanes), shared[0])
    shared[0] = bound
    flags = mask_register(state, SCRATCH_MASK)[:n]
    for i in range(n):
        flags[i] = keys[i] <= bound
    num_kept = _count(flags)
    if num_kept < n:
        for k in range(args[A0 + 1]):
            _compact(_key_words(state, KEY_WORDS_MAX)[k * BLOCK :], flags)
        _compact(selection(state), flags)
        state[S_SELECTED], state[S_DENSE] = num_kept, 0
    return E_OK


@block_function
def drop_behind_worst(state_address: int, args_address: int) -> Any:
    """Drop selected docs that sort after the worst row by the word or text whose words lie in registers A0 to A1 - 1,
    where they tie by what comes before it.

    A2 register of flags, 1 = the doc ties with the worst row by the keys so far; A3 1 = nothing comes before; A4 1 =
    this is the last key, so that docs that tie are behind the worst row too; A5 a bit for each register of words that
    are known.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top, first, end, n = top_of(state), args[A0], args[A0 + 1], state[S_SELECTED]
    if top[T_VERSION] == 0 or n == 0:
        return E_OK
    flags, tied = mask_register(state, SCRATCH_MASK)[:n], register_u8(state, args[A0 + 2])[:n]
    keys, kinds, worst = _key_words(state, end), view_i64(top[T_KINDS], end), view_u64(top[T_WORST], end)
    if args[A0 + 3] != 0:
        tied[:] = 1
    _flag_words(flags, tied, keys[first * BLOCK :], worst[first])
    if kinds[first] != K_WORD:
        _flag_texts(flags, tied, keys[first * BLOCK :], worst[first:], kinds[first:])
    keep_flagged(state, flags, tied, args[A0 + 5], args[A0 + 4] != 0)
    return E_OK
