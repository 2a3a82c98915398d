"""The first sort key against the worst row so far, in the column as it lies: most docs of a long scan end here.

`drop_behind_threshold` comes before anything is fetched. It compares the column of the first key, whole blocks of it
where most of their docs are selected, with bounds made of the worst row's first words (top_n.py): bounds of values for
raw numbers, bounds of dict ids where there is a dictionary, looked up when the worst row is another than last time.
Docs that can still be among the best stay selected, with those that tie; what they cost afterwards is as nothing. Texts
without dictionary are not for it: to look at their first bytes is to fetch them. Not for morsels that gather docs of
several blocks (U_GATHER): mask 0 must be of the block in hand.

Arguments: A0 address of the column's meta, A1 1 = descending, A2 what null flags are before the key's words: 0 there
are none, 1 nulls sort last, 2 nulls sort first. A3 to A6 are the function's own: for which worst row its bounds of ids
are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import uint8, uint64

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK, clear_tail, count_ones, mask_address
from pinotpy.kernels.order.dictionary_sort_keys import find_ids
from pinotpy.kernels.order.sort_keys import ALL, double_of_word, flip_of, integer_of_word
from pinotpy.kernels.order.top_n import T_SHARED, T_VERSION, T_WIDTH, T_WORST, top_of
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_NULLS,
    M_NUM_DOCS,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    S_BASE,
    S_DENSE,
    S_LIST,
    S_NUM,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    T_DOUBLE,
    T_INT,
    T_LONG,
    block_function,
    inner,
    mask_register,
    words,
)
from pinotpy.kernels.runtime.selection import compress_list, compress_range
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32, view_u64

_LAST: Final = 1
_FIRST: Final = 2
_KNOWN: Final = A0 + 3  # version of the worst row, the shared word then, low, high
# A block whose selection is thinner than this is read doc by doc.
_SPARSE: Final = 8
_INT_MIN, _INT_MAX = np.int64(-(2**31)), np.int64(2**31 - 1)
_LONG_MIN, _LONG_MAX = np.int64(-(2**63)), np.int64(2**63 - 1)


# --- flags: 1 = the value lies within the bounds ----------------------------------------------------------------------


@inner
def _between(flags: Any, values: Any, low: Any, high: Any) -> None:
    for i in range(len(flags)):
        flags[i] = (values[i] >= low) & (values[i] <= high)


@inner
def _between_at(flags: Any, values: Any, docs: Any, low: Any, high: Any) -> None:
    for i in range(len(flags)):
        flags[i] = (values[docs[i]] >= low) & (values[docs[i]] <= high)


@inner
def _doubles_between(flags: Any, values: Any, low: float, high: float, nan: Any) -> None:
    for i in range(len(flags)):
        value = np.float64(values[i])
        flags[i] = uint8((value >= low) & (value <= high)) | (uint8(np.isnan(value)) & nan)


@inner
def _doubles_between_at(flags: Any, values: Any, docs: Any, low: float, high: float, nan: Any) -> None:
    for i in range(len(flags)):
        value = np.float64(values[docs[i]])
        flags[i] = uint8((value >= low) & (value <= high)) | (uint8(np.isnan(value)) & nan)


@inner
def _flag(flags: Any, values: Any, whole: bool, base: int, docs: Any, low: Any, high: Any) -> None:
    if whole:
        _between(flags, values[base : base + len(flags)], low, high)
    else:
        _between_at(flags, values, docs, low, high)


@inner
def _flag_doubles(
    flags: Any, values: Any, whole: bool, base: int, docs: Any, low: float, high: float, nan: Any
) -> None:
    if whole:
        _doubles_between(flags, values[base : base + len(flags)], low, high, nan)
    else:
        _doubles_between_at(flags, values, docs, low, high, nan)


@inner
def _add_nulls(flags: Any, meta: Any, whole: bool, base: int, docs: Any) -> None:
    bits = view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3)
    for i in range(len(flags)):
        doc = base + i if whole else np.int64(docs[i])
        flags[i] |= (bits[doc >> 3] >> uint8(doc & 7)) & uint8(1)


# --- the block function -----------------------------------------------------------------------------------------------


@inner
def _flag_values(flags: Any, meta: Any, whole: bool, base: int, docs: Any, word: Any, descending: bool) -> None:
    # Raw numbers.
    stored, address, count = meta[M_STORED], meta[M_DATA], meta[M_NUM_DOCS]
    if stored in (T_INT, T_LONG):
        low = integer_of_word(~word) if descending else _LONG_MIN
        high = _LONG_MAX if descending else integer_of_word(word)
        if stored == T_LONG:
            _flag(flags, view_i64(address, count), whole, base, docs, low, high)
        elif low > _INT_MAX or high < _INT_MIN:
            flags[:] = 0
        else:
            _flag(
                flags,
                view_i32(address, count),
                whole,
                base,
                docs,
                np.int32(max(low, _INT_MIN)),
                np.int32(min(high, _INT_MAX)),
            )
        return
    # NaN is above all: behind any other worst value when ascending, before it when descending.
    limit = ~word if descending else word
    low_double, high_double, nan = -np.inf, np.inf, uint8(descending)
    if limit == ALL:
        nan = uint8(1)
        if descending:
            low_double, high_double = np.inf, -np.inf
    elif descending:
        low_double = double_of_word(limit)
    else:
        high_double = double_of_word(limit)
    if stored == T_DOUBLE:
        _flag_doubles(flags, view_f64(address, count), whole, base, docs, low_double, high_double, nan)
    else:
        _flag_doubles(flags, view_f32(address, count), whole, base, docs, low_double, high_double, nan)


@inner
def _flag_ids(flags: Any, args: Any, meta: Any, whole: bool, base: int, docs: Any) -> None:
    low, high, address, count = args[_KNOWN + 2], args[_KNOWN + 3], meta[M_DATA], meta[M_NUM_DOCS]
    if low > high:
        flags[:] = 0
    elif meta[M_WIDTH] == 1:
        _flag(flags, view_u8(address, count), whole, base, docs, np.uint8(low), np.uint8(high))
    elif meta[M_WIDTH] == 2:
        _flag(flags, view_u16(address, count), whole, base, docs, np.uint16(low), np.uint16(high))
    else:
        _flag(flags, view_u32(address, count), whole, base, docs, np.uint32(low), np.uint32(high))


@inner
def _and(flags: Any, mask: Any) -> None:
    for i in range(len(flags)):
        flags[i] &= mask[i]


@inner
def _select(state: Any, flags: Any, address: int, whole: bool) -> None:
    # The docs with a flag become the selection.
    n = len(flags)
    clear_tail(mask_register(state, SCRATCH_MASK), n)
    num_kept = count_ones(address, n)
    if num_kept == state[S_SELECTED]:
        return
    selected = state[S_SELECTION]
    docs = view_i32(selected, n)
    if num_kept > 0 and whole:
        compress_range(flags, address, state[S_BASE], docs, selected)
    elif num_kept > 0:
        compress_list(flags, address, docs, selected, docs, selected)
    state[S_SELECTED], state[S_DENSE] = num_kept, 0


@block_function
def drop_behind_threshold(state_address: int, args_address: int) -> Any:
    """Drop selected docs whose first key is behind the worst row's."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    top, meta, n = top_of(state), words(args[A0], META_WORDS), state[S_SELECTED]
    worst, shared = view_u64(top[T_WORST], top[T_WIDTH]), view_u64(top[T_SHARED], 1)[0]
    version, flip, nulls = top[T_VERSION], flip_of(args[A0 + 1]), args[A0 + 2]
    is_null = False
    word, is_worst = shared, False
    if nulls != 0:
        if version == 0:
            return E_OK
        is_null = (worst[0] & uint64(1)) != 0 if nulls == _LAST else (worst[0] & uint64(1)) == 0
        worst = worst[1:]
        word, is_worst = worst[0], True
        if is_null and nulls == _LAST:
            return E_OK
    elif version > 0 and worst[0] <= shared:
        word, is_worst = worst[0], True
    if (word == ALL and not is_worst) or n == 0:
        return E_OK
    listed = state[S_LIST] != 0
    by_id = meta[M_CARDINALITY] >= 0
    dense = state[S_DENSE] == 1 and not listed
    masked = not dense and not listed and n * _SPARSE >= state[S_NUM]
    whole = dense or masked
    flags = mask_register(state, SCRATCH_MASK)[: state[S_NUM] if whole else n]
    docs, base = view_u32(state[S_SELECTION], n), state[S_BASE]
    if is_null:
        flags[:] = 0  # nulls are first and the worst row is one: nothing else can enter
    elif by_id:
        if args[_KNOWN] != version + 1 or uint64(args[_KNOWN + 1]) != shared:
            args[_KNOWN + 2], args[_KNOWN + 3] = find_ids(meta, worst, word, flip, is_worst)
            args[_KNOWN], args[_KNOWN + 1] = version + 1, np.int64(shared)
        _flag_ids(flags, args, meta, whole, base, docs)
    else:
        _flag_values(flags, meta, whole, base, docs, word, flip != 0)
    if nulls == _FIRST and meta[M_NULLS] != 0:
        _add_nulls(flags, meta, whole, base, docs)
    if masked:
        _and(flags, mask_register(state, 0))
    _select(state, flags, mask_address(state, SCRATCH_MASK), whole)
    return E_OK
