"""Filter predicates on multi-values: a doc passes if any of its values does.

The values of neighbouring docs lie side by side, so that a predicate's test runs over them as if they were docs, BLOCK
at a time and as fast as on a single-value column. What it says becomes one bit a value; a doc's answer is a shift and a
mask of the word that its bits begin in. Docs of more values than such a word is sure to have are looked through word by
word.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, uint64

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK, mask_address
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    E_OK,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    S_BASE,
    S_ENTRIES_FILTER,
    S_MASKS,
    S_NUM,
    S_SCRATCH,
    call_block,
    inner,
    mask_register,
    words,
)
from pinotpy.kernels.runtime.bits import bits_of_bytes, word_at
from pinotpy.kernels.runtime.views import mv_offsets, view_u8, view_u64

# One survivor in so many docs, and a predicate tests all values of the block: it reads them in a row, a survivor's it
# has to jump to.
SPARSE_MANY: Final = 8
# Values of a block that have a bit each: scratch 0 and 1 less a word to read beyond the end. Blocks of more are tested
# doc by doc.
VALUES_MAX: Final = 2 * BLOCK * 32 - 64
# A word read at a byte has so many bits from any bit of that byte on.
_BITS_OF_WORD: Final = 57


@inner
def _pack(mask: int, bits: Any) -> None:
    for i in range(len(bits)):
        bits[i] = bits_of_bytes(mask + i * 64)


@inner
def _longest(offsets: Any) -> Any:
    longest = int64(0)
    for i in range(len(offsets) - 1):
        longest = max(longest, int64(offsets[uint64(i) + uint64(1)]) - int64(offsets[uint64(i)]))
    return longest


@inner
def _any_in_word(out: Any, starts: Any, ends: Any, first: int, bits: int) -> None:
    for i in range(len(out)):
        start, end = int64(starts[i]) - first, int64(ends[i]) - first
        word = word_at(bits + (start >> 3)) >> uint64(start & 7)
        out[i] = word & ((uint64(1) << uint64(end - start)) - uint64(1)) != uint64(0)


@inner
def _any_in_words(out: Any, starts: Any, ends: Any, first: int, bits: int) -> None:
    for i in range(len(out)):
        start, end = int64(starts[i]) - first, int64(ends[i]) - first
        passing = uint64(0)
        while start < end:
            count = min(end - start, _BITS_OF_WORD)
            passing |= (word_at(bits + (start >> 3)) >> uint64(start & 7)) & ((uint64(1) << uint64(count)) - uint64(1))
            start += count
        out[i] = passing != uint64(0)


@inner
def _values_of(mask: Any, starts: Any, ends: Any) -> Any:
    total = int64(0)
    for i in range(len(mask)):
        total += (int64(ends[i]) - int64(starts[i])) * int64(mask[i])
    return total


@inner
def tests_whole_block(state: Any, meta: Any, count: int) -> Any:
    """Whether a block of docs [base, base + n), `count` of them left, is worth testing whole."""
    if count * SPARSE_MANY < state[S_NUM]:
        return False
    offsets, base = mv_offsets(meta), state[S_BASE]
    return int64(offsets[base + state[S_NUM]]) - int64(offsets[base]) <= VALUES_MAX


@inner
def any_of_block(state: Any, state_address: int, row: int, meta: Any, kept: int) -> Any:
    """Run the predicate's test, the instruction at address `row`, over all values of the block; what it says of docs is
    in the scratch mask. S_ENTRIES_FILTER counts the values of the docs in mask `kept`.
    """
    base, n = state[S_BASE], state[S_NUM]
    offsets = mv_offsets(meta)
    first, end = int64(offsets[base]), int64(offsets[base + n])
    mask, bits = state[S_MASKS] + SCRATCH_MASK * BLOCK, state[S_SCRATCH]
    function = words(row, INSTRUCTION_WORDS)[I_FUNCTION]
    code = E_OK
    for value in range(first, end, BLOCK):
        state[S_BASE], state[S_NUM] = value, min(BLOCK, end - value)
        code = call_block(function, state_address, row)
        if code != E_OK:
            break
        _pack(mask, view_u64(bits + ((value - first) >> 3), (state[S_NUM] + 63) >> 6))
    state[S_BASE], state[S_NUM] = base, n
    out, starts, ends = (
        mask_register(state, SCRATCH_MASK)[:n],
        offsets[base : base + n],
        offsets[base + 1 : base + n + 1],
    )
    if _longest(offsets[base : base + n + 1]) <= _BITS_OF_WORD:
        _any_in_word(out, starts, ends, first, bits)
    else:
        _any_in_words(out, starts, ends, first, bits)
    state[S_ENTRIES_FILTER] += (
        end - first if kept < 0 else _values_of(view_u8(mask_address(state, kept), n), starts, ends)
    )
    return code
