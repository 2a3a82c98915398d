"""Sort keys as unsigned words whose ascending order is the order of the rows, and the order of rows made of such words.

A number is one word, a null flag one, a text (or bytes) three: its first eight bytes, its address and its length. Words
of descending keys are turned over, but for address and length, so that texts compare without being copied. What the
words of a row mean is told by a *kind* a word (K_*); rows are compared word by word, a text's bytes only where its
first eight are equal.

Arguments of the block functions: A0 register to fill (the first of three for texts), A1 register to read (texts:
address of the column's meta), A2 1 = descending. Numbers: −0.0 equals 0.0, NaN is above all.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import uint64

from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_DICTIONARY,
    M_DICTIONARY_OFFSETS,
    M_NUM_DOCS,
    M_RAW_OFFSETS,
    M_WIDTH,
    META_WORDS,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    words,
)
from pinotpy.kernels.runtime.byte_words import load_word, swapped, tail_word
from pinotpy.kernels.runtime.views import double_of_bits, view_i32, view_i64, view_u8, view_u16, view_u32

# Kinds of words.
K_WORD: Final = 0  # compared as it is
K_TEXT: Final = 1  # first bytes of a text, its address and length follow
K_TEXT_DESCENDING: Final = 2
K_PLACE: Final = 3  # address or length of the text before
TEXT_WORDS: Final = 3

SIGN: Final = np.uint64(1 << 63)
ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def flip_of(descending: int) -> Any:
    """What a word of a key is turned over with."""
    return ALL if descending != 0 else uint64(0)


# --- numbers ----------------------------------------------------------------------------------------------------------


@inner
def word_of_integer(value: int) -> Any:
    return uint64(value) ^ SIGN


@inner
def word_of_double(value: float) -> Any:
    value = value + 0.0  # −0.0 + 0.0 = 0.0
    bits = np.float64(value).view(np.uint64)
    if np.isnan(value):
        return ALL
    return ~bits if bits & SIGN else bits | SIGN


@inner
def integer_of_word(word: Any) -> Any:
    """Inverse of word_of_integer."""
    return np.int64(word ^ SIGN)


@inner
def double_of_word(word: Any) -> Any:
    """Inverse of word_of_double, but for NaN, which is ALL."""
    return double_of_bits(np.int64(word ^ SIGN if word & SIGN else ~word))


@inner
def _words_of_integers(out: Any, values: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = word_of_integer(values[i]) ^ flip


@inner
def _words_of_doubles(out: Any, values: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = word_of_double(values[i]) ^ flip


@inner
def _words_of_flags(out: Any, flags: Any, flip: Any) -> None:
    for i in range(len(out)):
        out[i] = uint64(flags[i]) ^ flip


@block_function
def key_of_integers(state_address: int, args_address: int) -> Any:
    """Words of INT and LONG values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_integers(
        register_i64(state, args[A0])[: state[S_SELECTED]], register_i64(state, args[A0 + 1]), flip_of(args[A0 + 2])
    )
    return E_OK


@block_function
def key_of_floats(state_address: int, args_address: int) -> Any:
    """Words of FLOAT and DOUBLE values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_doubles(
        register_i64(state, args[A0])[: state[S_SELECTED]], register_f64(state, args[A0 + 1]), flip_of(args[A0 + 2])
    )
    return E_OK


@block_function
def key_of_nulls(state_address: int, args_address: int) -> Any:
    """Words of null flags: nulls last, or first where A2 is 1."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _words_of_flags(
        register_i64(state, args[A0])[: state[S_SELECTED]], register_u8(state, args[A0 + 1]), flip_of(args[A0 + 2])
    )
    return E_OK


@block_function
def no_nulls(state_address: int, args_address: int) -> Any:
    """Null flags of a column without nulls: zeros into register A0."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    register_u8(state, args[A0])[: state[S_SELECTED]] = 0
    return E_OK


# --- texts ------------------------------------------------------------------------------------------------------------


@inner
def first_bytes(address: int, length: int) -> Any:
    """The first eight bytes of a text as a number that is ordered as they are; zeros where it is shorter."""
    return swapped(load_word(address) if length >= 8 else tail_word(address, length))


@inner
def order_texts(a: int, a_length: int, b: int, b_length: int) -> Any:
    """-1, 0 or 1 as the text at `a` sorts before, equals or sorts after the one at `b`, byte by byte, unsigned. Their
    first eight bytes are equal.
    """
    position = 8 if a != b else a_length  # rows of one segment often have one dictionary's text
    while position < a_length and position < b_length:
        one, other = first_bytes(a + position, a_length - position), first_bytes(b + position, b_length - position)
        if one != other:
            return -1 if one < other else 1
        position += 8
    return (a_length > b_length) - (a_length < b_length)


@inner
def dictionary_text(meta: Any, dict_id: int) -> Any:
    """Address and length of a dictionary's text."""
    offsets = view_i32(meta[M_DICTIONARY_OFFSETS], meta[M_CARDINALITY] + 1)
    first, end = np.int64(offsets[dict_id]), np.int64(offsets[dict_id + 1])
    return meta[M_DICTIONARY] + first, end - first


@inner
def _texts_of_ids(prefixes: Any, addresses: Any, lengths: Any, ids: Any, meta: Any, docs: Any, flip: Any) -> None:
    for i in range(len(docs)):
        address, length = dictionary_text(meta, np.int64(ids[docs[i]]))
        prefixes[i], addresses[i], lengths[i] = first_bytes(address, length) ^ flip, address, length


@inner
def _raw_texts(prefixes: Any, addresses: Any, lengths: Any, offsets: Any, data: int, docs: Any, flip: Any) -> None:
    for i in range(len(docs)):
        doc = np.int64(docs[i])
        address, length = data + offsets[doc], offsets[doc + 1] - offsets[doc]
        prefixes[i], addresses[i], lengths[i] = first_bytes(address, length) ^ flip, address, length


@block_function
def key_of_texts(state_address: int, args_address: int) -> Any:
    """Words of texts or bytes, with a dictionary or without, into registers A0, A0 + 1 and A0 + 2."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta, n, flip = words(args[A0 + 1], META_WORDS), state[S_SELECTED], flip_of(args[A0 + 2])
    docs = view_u32(state[S_SELECTION], n)
    prefixes, addresses, lengths = (
        register_i64(state, args[A0]),
        register_i64(state, args[A0] + 1),
        register_i64(state, args[A0] + 2),
    )
    count = meta[M_NUM_DOCS]
    if meta[M_CARDINALITY] < 0:
        _raw_texts(prefixes, addresses, lengths, view_i64(meta[M_RAW_OFFSETS], count + 1), meta[M_DATA], docs, flip)
    elif meta[M_WIDTH] == 1:
        _texts_of_ids(prefixes, addresses, lengths, view_u8(meta[M_DATA], count), meta, docs, flip)
    elif meta[M_WIDTH] == 2:
        _texts_of_ids(prefixes, addresses, lengths, view_u16(meta[M_DATA], count), meta, docs, flip)
    else:
        _texts_of_ids(prefixes, addresses, lengths, view_u32(meta[M_DATA], count), meta, docs, flip)
    return E_OK


# --- rows -------------------------------------------------------------------------------------------------------------


@inner
def order_rows(a: Any, a_at: int, a_step: int, b: Any, b_at: int, kinds: Any) -> Any:
    """-1, 0 or 1 as row a sorts before, equals or sorts after row b by as many words as there are kinds.

    Args:
        a, b: uint64 arrays; word k of row a is a[a_at + k * a_step], of row b b[b_at + k].
    """
    for k in range(len(kinds)):
        kind = kinds[k]
        if kind == K_PLACE:
            continue
        left, right = a[a_at + k * a_step], b[b_at + k]
        if left != right:
            return -1 if left < right else 1
        if kind != K_WORD:
            one, length = np.int64(a[a_at + (k + 1) * a_step]), np.int64(a[a_at + (k + 2) * a_step])
            order = order_texts(one, length, np.int64(b[b_at + k + 1]), np.int64(b[b_at + k + 2]))
            if order != 0:
                return -order if kind == K_TEXT_DESCENDING else order
    return 0
