"""Sort keys with a dictionary: what is behind the worst row is told by dict ids, whatever the values are.

A dictionary ascends, so that the values that are not behind the worst row's are the first or the last ids, and at most
one id has its very value. Both are looked up when the worst row is another than last time, then ids are compared.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import uint8, uint32

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK
from pinotpy.kernels.order.sort_keys import (
    dictionary_text,
    first_bytes,
    flip_of,
    order_texts,
    word_of_double,
    word_of_integer,
)
from pinotpy.kernels.order.top_n import T_VERSION, T_WIDTH, T_WORST, keep_flagged, top_of
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DICTIONARY,
    M_STORED,
    META_WORDS,
    S_SELECTED,
    STATE_WORDS,
    T_FLOAT,
    T_INT,
    T_LONG,
    T_VAR,
    block_function,
    inner,
    mask_register,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u64

_KNOWN: Final = A0 + 8  # version of the worst row; low, high, the id of its value


@inner
def _order_of_id(meta: Any, dict_id: int, worst: Any, word: Any, flip: Any, is_worst: bool) -> Any:
    # -1, 0 or 1 as a dictionary's value sorts before, beside or after the worst row's.
    stored, count = meta[M_STORED], meta[M_CARDINALITY]
    if stored == T_VAR:
        address, length = dictionary_text(meta, dict_id)
        own = first_bytes(address, length) ^ flip
        if own == word and is_worst:
            order = order_texts(address, length, np.int64(worst[1]), np.int64(worst[2]))
            return order if flip == 0 else -order
    elif stored == T_INT:
        own = word_of_integer(np.int64(view_i32(meta[M_DICTIONARY], count)[dict_id])) ^ flip
    elif stored == T_LONG:
        own = word_of_integer(view_i64(meta[M_DICTIONARY], count)[dict_id]) ^ flip
    elif stored == T_FLOAT:
        own = word_of_double(np.float64(view_f32(meta[M_DICTIONARY], count)[dict_id])) ^ flip
    else:
        own = word_of_double(view_f64(meta[M_DICTIONARY], count)[dict_id]) ^ flip
    return int(own > word) - int(own < word)


@inner
def find_ids(meta: Any, worst: Any, word: Any, flip: Any, is_worst: bool) -> Any:
    """First and last id whose values are not behind the worst row's; the first is above the last where there are none.

    Args:
        worst: the words of the key in the worst row; word: what the key's first word may be at most.
        flip: of the key's words. is_worst: `word` is the worst row's own, so that a text's other bytes count.
    """
    descending = flip != 0
    low, high = 0, meta[M_CARDINALITY]
    while low < high:
        middle = (low + high) >> 1
        if (_order_of_id(meta, middle, worst, word, flip, is_worst) > 0) == descending:
            low = middle + 1
        else:
            high = middle
    if descending:
        return low, meta[M_CARDINALITY] - 1
    return 0, low - 1


@inner
def _flag_ids(flags: Any, tied: Any, ids: Any, low: Any, high: Any, same: Any) -> None:
    for i in range(len(flags)):
        flags[i] = (tied[i] ^ uint8(1)) | uint8((ids[i] >= low) & (ids[i] <= high))
        tied[i] &= uint8(ids[i] == same)


@block_function
def drop_ids_behind_worst(state_address: int, args_address: int) -> Any:
    """As top_rows.narrow, by the ids in register A0 of the column whose meta is at A1: A2 1 = descending, A3 first word
    of the key in a row, A4 register of flags of docs that tie, A5 1 = nothing comes before, A6 1 = this is the last
    key, A7 a bit for each register of words that are known. A8 to A11 are the function's own.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top, n = top_of(state), state[S_SELECTED]
    if top[T_VERSION] == 0 or n == 0:
        return E_OK
    if args[_KNOWN] != top[T_VERSION]:
        meta, flip = words(args[A0 + 1], META_WORDS), flip_of(args[A0 + 2])
        worst = view_u64(top[T_WORST] + args[A0 + 3] * 8, top[T_WIDTH] - args[A0 + 3])
        low, high = find_ids(meta, worst, worst[0], flip, True)
        last = low if flip != 0 else high  # of the values that are not behind: the one that may be the worst row's
        same = low <= high and _order_of_id(meta, last, worst, worst[0], flip, True) == 0
        if low > high:
            low, high = 1, 0
        args[_KNOWN], args[_KNOWN + 1], args[_KNOWN + 2], args[_KNOWN + 3] = (
            top[T_VERSION],
            low,
            high,
            last if same else -1,
        )
    flags, tied = mask_register(state, SCRATCH_MASK)[:n], register_u8(state, args[A0 + 4])[:n]
    if args[A0 + 5] != 0:
        tied[:] = 1
    _flag_ids(
        flags,
        tied,
        register_u32(state, args[A0]),
        uint32(args[_KNOWN + 1]),
        uint32(args[_KNOWN + 2]),
        uint32(args[_KNOWN + 3]),
    )
    keep_flagged(state, flags, tied, args[A0 + 7], args[A0 + 6] != 0)
    return E_OK
