"""Texts searched where they lie: the texts of neighbouring docs are one run of bytes, so that a block is looked through
as a whole.

A search has a *needle*, bytes that every text has that passes. Three bytes of it, the rarest, are compared at 64 places
at a time (rare_bytes.py); where they are there the needle is compared, then the text that holds the place is found
among the offsets, which are not read otherwise, and tested. A needle across two texts is no hit. Texts that are asked
for one by one are tested without a needle.

Search words (int64[SEARCH_WORDS], see W_*), one set for a predicate.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK
from pinotpy.kernels.filter.predicate_frame import A_META, A_TEST
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_DATA,
    M_MV_OFFSETS,
    M_NUM_VALUES,
    M_RAW_OFFSETS,
    META_WORDS,
    S_BASE,
    S_ENTRIES_FILTER,
    S_NUM,
    S_SCRATCH,
    S_SURVIVORS,
    STATE_WORDS,
    block_function,
    inner,
    mask_register,
    words,
)
from pinotpy.kernels.runtime.byte_words import (
    find_bytes,
    fold_word,
    has_high_bytes,
    load_word,
    same_bytes,
    same_folded,
    trailing_zeros,
)
from pinotpy.kernels.runtime.views import mv_offsets, view_i64, view_u8, view_u32
from pinotpy.kernels.text.block_blooms import may_hold
from pinotpy.kernels.text.byte_automaton import accepts
from pinotpy.kernels.text.rare_bytes import LANES, few_rare_bits, next_rare, rare_bits

# What LIKENESS tests.
W_PIECES: Final = 0  # address of the bytes of pieces
W_OFFSETS: Final = 1  # address of int64[count + 1]
W_COUNT: Final = 2
W_ANCHORS: Final = 3  # ANCHOR_*, FOLD_*
# What is looked for in a block; EQUALITY tests it alone.
W_NEEDLE: Final = 4  # address of its bytes
W_SIZE: Final = 5  # how many; 0: no needle, every text is tested
W_FIRST: Final = 6  # places in the needle, below 64 and ascending, of the three bytes that are looked for
W_SECOND: Final = 7
W_THIRD: Final = 8
W_HEAD: Final = 9  # the first eight bytes of the needle, zeros behind it
W_HEAD_MASK: Final = 10  # ones where the head has bytes
W_DECIDES: Final = 11  # 1: a text with the needle passes
W_FIXED: Final = (
    12  # 1: where in a text the needle may be is known, so that testing a long text takes less than searching it
)
# What MATCHING tests (byte_automaton.py).
W_TABLE: Final = 13  # address of its table
W_CLASSES: Final = 14  # address of the classes of bytes
W_STRIDE: Final = 15
W_ENTRIES: Final = 16  # entries of the table
W_LEADS: Final = 17  # 1: every match begins with the needle
W_OFTEN: Final = 18  # 1: so many texts have the needle that each is tested without it
W_TEST: Final = 19  # EQUALITY, LIKENESS or MATCHING
W_HASH: Final = 20  # of the needle, where filters say which blocks may have it (block_blooms.py)
SEARCH_WORDS: Final = 24

EQUALITY: Final = 0  # the text is the needle
LIKENESS: Final = 1  # the text has the pieces one behind another
MATCHING: Final = 2  # the automaton matches the text

ANCHOR_START: Final = 1
ANCHOR_END: Final = 2
FOLD_CASE: Final = 4  # the pieces are ASCII in lower case, and match letters of either case
FOLD_LETTERS: Final = 8  # … and among them are k or s, which have a third form beyond ASCII

# Texts longer than this on average are tested one by one if the needle's place in them is known.
_LONG_BYTES: Final = 64
_SAMPLES: Final = 16
SAMPLE_BYTES: Final = 4096


# --- places -----------------------------------------------------------------------------------------------------------


@inner
def _case_bit(byte: Any, fold: bool) -> Any:
    return np.uint8(0x20) if fold and 0x61 <= byte <= 0x7A else np.uint8(0)


@inner
def _has_needle(find: Any, address: int, room: int, fold: bool) -> Any:
    """Whether the needle is at an address; `room`: bytes that may be read there."""
    size = find[W_SIZE]
    if room < 8:
        return same_folded(address, find[W_NEEDLE], size, fold)
    word = load_word(address)
    if fold:
        word = fold_word(word)
    if word & uint64(find[W_HEAD_MASK]) != uint64(find[W_HEAD]):
        return False
    return size <= 8 or same_folded(address + 8, find[W_NEEDLE] + 8, size - 8, fold)


@inner
def _text_at(starts: Any, low: int, high: int, place: int) -> Any:
    """The text of [low, high) that has the byte at `place`, not before text `low`: near ones first."""
    step = 1
    while low + step < high and starts[low + step] <= place:
        low += step
        step += step
    high = min(low + step, high)
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= place:
            low = middle
        else:
            high = middle
    return low


# --- tests of one text ------------------------------------------------------------------------------------------------


@inner
def _equals(text: int, length: int, find: Any) -> Any:
    return length == find[W_SIZE] and same_bytes(text, find[W_NEEDLE], length)


@inner
def _has_pieces(text: int, length: int, pieces: int, offsets: Any, count: int, anchors: int) -> Any:
    # Pieces in their order, each at its first place behind the one before; the last one at the end if it is anchored
    # there.
    first, last, fold = 0, count, anchors & FOLD_CASE != 0
    if anchors & ANCHOR_START:
        size = offsets[1] - offsets[0]
        if length < size or not same_folded(text, pieces + offsets[0], size, fold):
            return False
        text, length, first = text + size, length - size, 1
    if anchors & ANCHOR_END:
        last -= 1
        size = offsets[last + 1] - offsets[last]
        if length < size or not same_folded(text + length - size, pieces + offsets[last], size, fold):
            return False
        length -= size
    for piece in range(first, last):
        size = offsets[piece + 1] - offsets[piece]
        position = find_bytes(text, length, pieces + offsets[piece], size, fold)
        if position < 0:
            return False
        text, length = text + position + size, length - position - size
    return True


@inner
def _plain_letters(text: int, length: int, out: Any) -> Any:
    # The two letters beyond ASCII that are another case of one in it: U+017F of s, U+212A of k. Gives the new length.
    data, n, i = view_u8(text, length), 0, 0
    while i < length:
        if data[i] == 0xC5 and i + 1 < length and data[i + 1] == 0xBF:
            out[n], i = 0x73, i + 2
        elif data[i] == 0xE2 and i + 2 < length and data[i + 1] == 0x84 and data[i + 2] == 0xAA:
            out[n], i = 0x6B, i + 3
        else:
            out[n], i = data[i], i + 1
        n += 1
    return n


@inner
def _like(text: int, length: int, find: Any) -> Any:
    pieces, count, anchors = find[W_PIECES], find[W_COUNT], find[W_ANCHORS]
    offsets = view_i64(find[W_OFFSETS], count + 1)
    if anchors & FOLD_LETTERS and has_high_bytes(text, length):
        plain = np.empty(length, np.uint8)
        matches = _has_pieces(plain.ctypes.data, _plain_letters(text, length, plain), pieces, offsets, count, anchors)
        # Used once more, so that its memory lasts until here: an array is given back after its last use, whoever has
        # its address.
        return matches and len(plain) == length
    return _has_pieces(text, length, pieces, offsets, count, anchors)


@inner
def _passes(text: int, length: int, find: Any) -> Any:
    if find[W_TEST] == EQUALITY:
        return _equals(text, length, find)
    if find[W_TEST] == LIKENESS:
        return _like(text, length, find)
    return accepts(text, length, find[W_TABLE], find[W_ENTRIES], find[W_CLASSES], find[W_STRIDE])


# --- ways through texts -----------------------------------------------------------------------------------------------


@inner
def _test_each(find: Any, data: int, starts: Any, first: int, out: Any) -> None:
    for i in range(len(out)):
        out[i] = _passes(data + starts[first + i], starts[first + i + 1] - starts[first + i], find)


@inner
def _search(find: Any, data: int, starts: Any, first: int, out: Any) -> None:
    """out[i] = 1 where text first + i passes."""
    size, high, end_of_all = find[W_SIZE], first + len(out), starts[len(starts) - 1]
    place, stop = starts[first], starts[high] - size + 1
    if size == 0 or find[W_OFTEN] != 0 or (find[W_FIXED] != 0 and stop - place > _LONG_BYTES * len(out)):
        _test_each(find, data, starts, first, out)
        return
    out[:] = 0
    fold, leads = find[W_ANCHORS] & FOLD_CASE != 0, find[W_LEADS] != 0
    a, b, c = find[W_FIRST], find[W_SECOND], find[W_THIRD]
    byte_a, byte_b, byte_c = (
        view_u8(find[W_NEEDLE] + a, 1)[0],
        view_u8(find[W_NEEDLE] + b, 1)[0],
        view_u8(find[W_NEEDLE] + c, 1)[0],
    )
    fold_a, fold_b, fold_c = _case_bit(byte_a, fold), _case_bit(byte_b, fold), _case_bit(byte_c, fold)
    a, b, c = a + data, b + data, c + data
    wide_stop, text = end_of_all - size - 2 * LANES, first
    while place < stop:
        place = next_rare(place, min(stop - 1, wide_stop), a, b, c, byte_a, byte_b, byte_c, fold_a, fold_b, fold_c)
        if place >= stop:
            break
        if place <= wide_stop:
            bits = rare_bits(a + place, b + place, c + place, byte_a, byte_b, byte_c, fold_a, fold_b, fold_c)
            if stop - place < LANES:
                bits &= (uint64(1) << uint64(stop - place)) - uint64(1)
        else:
            bits = few_rare_bits(
                min(LANES, stop - place),
                a + place,
                b + place,
                c + place,
                byte_a,
                byte_b,
                byte_c,
                fold_a,
                fold_b,
                fold_c,
            )
        following = place + LANES
        while bits != 0:
            hit = place + trailing_zeros(bits)
            bits &= bits - uint64(1)
            if not _has_needle(find, data + hit, end_of_all - hit, fold):
                continue
            text = _text_at(starts, text, high, hit)
            end = starts[text + 1]
            if hit + size > end:
                continue
            begin = hit if leads else starts[text]
            out[text - first] = find[W_DECIDES] != 0 or _passes(data + begin, end - begin, find)
            if end >= following:  # this text is decided
                following = end
                break
            bits &= ~uint64(0) << uint64(end - place)
        place = following


@block_function
def var_search(state_address: int, args_address: int) -> Any:
    """Raw bytes pass the search whose words are at A6. A7: address of filters of the blocks' texts, or 0."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    find = words(args[A_TEST], SEARCH_WORDS)
    n, count = state[S_NUM], state[S_SURVIVORS]
    out = mask_register(state, SCRATCH_MASK)
    starts, data = view_i64(meta[M_RAW_OFFSETS], meta[M_NUM_VALUES] + 1), meta[M_DATA]
    if count < 0:
        base, filters = state[S_BASE], args[A_TEST + 1]
        if filters != 0 and not may_hold(filters, base, base + n, uint64(find[W_HASH])):
            out[:n] = 0
        else:
            _search(find, data, starts, base, out[:n])
        return E_OK
    positions, docs = view_u32(state[S_SCRATCH], count), view_u32(state[S_SCRATCH] + BLOCK * 4, count)
    if meta[M_MV_OFFSETS] == 0:
        for j in range(count):
            doc = docs[j]
            out[positions[j]] = _passes(data + starts[doc], starts[doc + 1] - starts[doc], find)
        state[S_ENTRIES_FILTER] += count
        return E_OK
    offsets = mv_offsets(meta)
    for j in range(count):
        low, high = int(offsets[docs[j]]), int(offsets[docs[j] + 1])
        passes = False
        for entry in range(low, high):
            passes = passes or _passes(data + starts[entry], starts[entry + 1] - starts[entry], find)
        out[positions[j]] = passes
        state[S_ENTRIES_FILTER] += high - low
    return E_OK


@njit(cache=True, nogil=True)
def flag_texts(data: int, starts_address: int, find: Any, out: Any) -> int:
    """Flags of the texts at [starts[i], starts[i + 1]) that pass; gives how many.

    Args:
        data, starts_address: addresses; starts are int64[n + 1]. find: search words. out: uint8[n].
    """
    _search(find, data, view_i64(starts_address, len(out) + 1), 0, out)
    total = 0
    for i in range(len(out)):
        total += int(out[i])
    return total


@njit(cache=True, nogil=True)
def sample_bytes(data: int, starts_address: int, count: int, out: Any) -> tuple[int, float]:
    """Some runs of the bytes of `count` texts into uint8 out[SAMPLE_BYTES]; gives how many bytes, and the mean length
    of a text.
    """
    starts = view_i64(starts_address, count + 1)
    low, total = starts[0], starts[count] - starts[0]
    size = min(SAMPLE_BYTES // _SAMPLES, total)
    for sample in range(_SAMPLES):
        run = view_u8(data + low + (total - size) * sample // (_SAMPLES - 1), size)
        out[sample * size : (sample + 1) * size] = run
    return _SAMPLES * size, total / count


def warm() -> None:
    """Compile, or load from the cache, what queries call from Python."""
    zeros, sample = np.zeros(2, np.int64), np.zeros(SAMPLE_BYTES, np.uint8)
    flag_texts(zeros.ctypes.data, zeros.ctypes.data, np.zeros(SEARCH_WORDS, np.int64), np.zeros(1, np.uint8))
    sample_bytes(zeros.ctypes.data, zeros.ctypes.data, 1, sample)
