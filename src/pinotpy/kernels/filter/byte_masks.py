"""Byte masks of one block: counting, combining with the predicates before, clearing nulls, listing the survivors.

Mask register SCRATCH_MASK holds what a predicate's test says of each position; the predicate's result is in & (test ^
negated) & not null. Counts of all registers stand in the state, so that an AND that has nothing left skips its other
predicates.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, types, uint64

from pinotpy.kernels.runtime.abi import (
    BLOCK,
    M_NULLS,
    M_NUM_DOCS,
    NUM_MASKS,
    S_BASE,
    S_LIST,
    S_MASK_COUNTS,
    S_MASKS,
    S_NUM,
    S_ONES,
    S_SCRATCH,
    inner,
    mask_register,
    pointer,
)
from pinotpy.kernels.runtime.bit_flags import any_from, flags_at, flags_from
from pinotpy.kernels.runtime.selection import compress_range
from pinotpy.kernels.runtime.views import view_i32, view_u8, view_u64

SCRATCH_MASK: Final = NUM_MASKS - 1
_ALL: Final = np.uint64(0x0101010101010101)
_CHUNK: Final = 128  # words whose byte sums are added before a byte could overflow


@inner
def mask_address(state: Any, register: int) -> Any:
    """Address of a mask register; -1 is the mask of all ones."""
    return state[S_ONES] if register < 0 else state[S_MASKS] + register * BLOCK


@inner
def mask_count(state: Any, register: int) -> Any:
    """Ones in a mask register."""
    return state[S_NUM] if register < 0 else state[S_MASK_COUNTS + register]


@inner
def _sum_words(words: Any) -> Any:
    total = uint64(0)
    for i in range(len(words)):
        total += words[i]
    return total


@inner
def count_ones(mask: int, n: int) -> Any:
    """Ones in the n bytes at address `mask`; bytes up to the next multiple of 8 must be 0."""
    num_words = (n + 7) >> 3
    all_words = carray(pointer(mask, types.uint64), BLOCK // 8)
    total = 0
    first = 0
    while first < num_words:
        last = min(first + _CHUNK, num_words)
        lanes = _sum_words(all_words[first:last])
        pairs = (lanes & uint64(0x00FF00FF00FF00FF)) + ((lanes >> uint64(8)) & uint64(0x00FF00FF00FF00FF))
        total += int((pairs * uint64(0x0001000100010001)) >> uint64(48))
        first = last
    return total


@inner
def clear_tail(mask: Any, n: int) -> None:
    """Zero the bytes from n to the next multiple of 8."""
    for i in range(n, min((n + 7) & ~7, BLOCK)):
        mask[i] = 0


# Masks are combined a word at a time, eight flags. A loop over three arrays of which two may be one is not vectorised
# (0.4 ns a doc instead of 0.02), so that each case has its own. What a word holds beyond the block is cleared at the
# end.


@inner
def _mask_words(state: Any, register: int) -> Any:
    # The words of the block's docs.
    return view_u64(mask_address(state, register), (state[S_NUM] + 7) >> 3)


@inner
def _combine(out: Any, mask: Any, test: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = mask[i] & (test[i] ^ flip)


@inner
def _keep(out: Any, test: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] &= test[i] ^ flip


@inner
def _take(out: Any, test: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = test[i] ^ flip


@inner
def _or(out: Any, left: Any, right: Any) -> None:
    for i in range(len(out)):
        out[i] = left[i] | right[i]


@inner
def _add(out: Any, other: Any) -> None:
    for i in range(len(out)):
        out[i] |= other[i]


@inner
def _clear_nulls(state: Any, register: int, meta: Any) -> None:
    # The test's mask has been used by now: null flags may lie there.
    n = state[S_NUM]
    bits = view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3)
    if state[S_LIST] != 0:
        flags_at(mask_register(state, SCRATCH_MASK)[:n], bits, view_i32(state[S_LIST], n))
    elif any_from(meta[M_NULLS], state[S_BASE], n):
        flags_from(mask_address(state, SCRATCH_MASK), bits, state[S_BASE], n)
    else:
        return
    _keep(_mask_words(state, register), _mask_words(state, SCRATCH_MASK), _ALL)


@inner
def set_empty(state: Any, register: int) -> None:
    """Mask register `register` becomes all zeros."""
    _mask_words(state, register)[:] = 0
    state[S_MASK_COUNTS + register] = 0


@inner
def finish(state: Any, mask: int, register: int, negated: int, nulls: int, meta: Any) -> None:
    """register = kept & (scratch ^ negated), and 0 where the column is null if `nulls`; counts it."""
    out, test = _mask_words(state, register), _mask_words(state, SCRATCH_MASK)
    flip = _ALL if negated != 0 else uint64(0)
    if mask < 0:
        _take(out, test, flip)
    elif mask == register:
        _keep(out, test, flip)
    else:
        _combine(out, _mask_words(state, mask), test, flip)
    if nulls != 0 and meta[M_NULLS] != 0:
        _clear_nulls(state, register, meta)
    _counted(state, register)


@inner
def finish_or(state: Any, left: int, right: int, register: int) -> None:
    """register = left | right; counts it."""
    out = _mask_words(state, register)
    if register == left:
        _add(out, _mask_words(state, right))
    elif register == right:
        _add(out, _mask_words(state, left))
    else:
        _or(out, _mask_words(state, left), _mask_words(state, right))
    _counted(state, register)


@inner
def _counted(state: Any, register: int) -> None:
    n = state[S_NUM]
    clear_tail(mask_register(state, register), n)
    state[S_MASK_COUNTS + register] = count_ones(mask_address(state, register), n)


@inner
def survivors(state: Any, mask: int) -> Any:
    """Positions of the block where mask `mask` is set into scratch 0, their doc ids into scratch 1; gives how many."""
    n = state[S_NUM]
    address = mask_address(state, mask)
    positions = view_i32(state[S_SCRATCH], BLOCK)
    count = compress_range(view_u8(address, n), address, 0, positions, state[S_SCRATCH])
    docs = view_i32(state[S_SCRATCH] + BLOCK * 4, BLOCK)
    if state[S_LIST] == 0:
        _shift(docs[:count], positions, state[S_BASE])
    else:
        _pick(docs[:count], positions, view_i32(state[S_LIST], n))
    return count


@inner
def _shift(docs: Any, positions: Any, base: int) -> None:
    for i in range(len(docs)):
        docs[i] = positions[i] + base


@inner
def _pick(docs: Any, positions: Any, listed: Any) -> None:
    for i in range(len(docs)):
        docs[i] = listed[positions[i]]
