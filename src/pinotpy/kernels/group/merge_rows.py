"""What morsels left in the arenas, put together: key words decoded to values, rows of equal keys added up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.exact_sums import add_wide
from pinotpy.kernels.runtime.abi import (
    M_CARDINALITY,
    M_DICTIONARY,
    M_DICTIONARY_OFFSETS,
    M_STORED,
    META_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
    words,
)
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8

# How two values of a slot become one; the numbers of functions.state.plans.Word.
ADD: Final = 0
WIDE: Final = 1  # this word and the next are a 128-bit integer
WIDE_HIGH: Final = 2
GROW: Final = 3  # the larger as unsigned


@njit(nogil=True, inline="always")
def add_row(target: Any, at: Any, source: Any, first: Any, kinds: Any) -> None:
    """Add the words of a row to those of another; `kinds`: how each is added.

    Args:
        target, source: int64 words of many rows, 1-dimensional; at, first: where the rows begin.
    """
    for k in range(len(kinds)):
        kind, value, word = kinds[k], source[first + k], uint64(at + k)
        if kind == ADD:
            target[word] += value
        elif kind == WIDE:
            add_wide(target, word, value, source[first + k + 1])
        elif kind == GROW and uint64(value) > uint64(target[word]):
            target[word] = value


@inner
def flat(table: Any) -> Any:
    """A view of the words of int64[n, width], contiguous; references of the array would be counted at each row."""
    return words(table.reshape(-1).ctypes.data, table.size)


@njit(cache=True, nogil=True)
def merge_rows(arena: Any, first_slot: int, groups: Any, kinds: Any, out: Any) -> None:
    """Add the slots of arena rows (int64[rows, width], slots from `first_slot`) to out[groups[row]]."""
    width, out_width = arena.shape[1], out.shape[1]
    rows, target = flat(arena), flat(out)
    for row in range(len(arena)):
        add_row(target, groups[row] * out_width, rows, row * width + first_slot, kinds)


@njit(cache=True, nogil=True)
def morsels_of_rows(morsels: Any, num_rows: int) -> Any:
    """Unit of every arena row; `morsels` int64[n, 2] of (morsel, first row), ascending."""
    out = np.empty(num_rows, np.int64)
    for i in range(len(morsels)):
        end = morsels[i + 1, 1] if i + 1 < len(morsels) else num_rows
        for row in range(morsels[i, 1], end):
            out[row] = morsels[i, 0]
    return out


@njit(nogil=True)
def _fixed(out: Any, nulls: Any, ids: Any, metas: Any, morsels: Any, doubles: Any) -> None:
    for i in range(len(ids)):
        meta = words(metas[morsels[i]], META_WORDS)
        cardinality = meta[M_CARDINALITY]
        if ids[i] >= cardinality:
            nulls[i] = True
            out[i] = 0
            continue
        stored = meta[M_STORED]
        if stored == T_INT:
            out[i] = view_i32(meta[M_DICTIONARY], cardinality)[ids[i]]
        elif stored == T_LONG:
            out[i] = view_i64(meta[M_DICTIONARY], cardinality)[ids[i]]
        elif stored == T_FLOAT:
            doubles[i] = view_f32(meta[M_DICTIONARY], cardinality)[ids[i]]
        elif stored == T_DOUBLE:
            doubles[i] = view_f64(meta[M_DICTIONARY], cardinality)[ids[i]]


@njit(cache=True, nogil=True)
def decode_fixed(ids: Any, morsels: Any, metas: Any, out: Any, nulls: Any) -> None:
    """Values of dict ids as 64-bit words (doubles by their bits); an id past the dictionary is null.

    Args:
        ids, morsels: int64[n]; metas: address of the column's meta by morsel; out: int64[n], nulls: bool[n], written.
    """
    _fixed(out, nulls, ids, metas, morsels, out.view(np.float64))


@njit(cache=True, nogil=True)
def decode_var_lengths(ids: Any, morsels: Any, metas: Any, offsets: Any, nulls: Any) -> None:
    """First pass for VAR values: offsets (int64[n + 1]) and nulls."""
    total = int64(0)
    offsets[0] = 0
    for i in range(len(ids)):
        meta = words(metas[morsels[i]], META_WORDS)
        if ids[i] >= meta[M_CARDINALITY]:
            nulls[i] = True
        else:
            ends = view_i32(meta[M_DICTIONARY_OFFSETS], meta[M_CARDINALITY] + 1)
            total += ends[ids[i] + 1] - ends[ids[i]]
        offsets[i + 1] = total


@njit(cache=True, nogil=True)
def decode_var_bytes(ids: Any, morsels: Any, metas: Any, offsets: Any, out: Any) -> None:
    """Second pass: the bytes."""
    for i in range(len(ids)):
        meta = words(metas[morsels[i]], META_WORDS)
        if ids[i] < meta[M_CARDINALITY]:
            ends = view_i32(meta[M_DICTIONARY_OFFSETS], meta[M_CARDINALITY] + 1)
            data = view_u8(meta[M_DICTIONARY], int64(ends[meta[M_CARDINALITY]]))
            start, position = int64(ends[ids[i]]), offsets[i]
            for k in range(offsets[i + 1] - position):
                out[position + k] = data[start + k]


def warm() -> None:
    """Compile for the argument types that queries use."""
    one: Int64Array = np.zeros(1, np.int64)
    kinds = np.array([ADD], np.int64)
    merge_rows(np.zeros((1, 1), np.int64), 0, one, kinds, np.zeros((1, 1), np.int64))
    morsels_of_rows(np.zeros((1, 2), np.int64), 1)
    meta = np.zeros(META_WORDS, np.int64)
    metas = np.array([meta.ctypes.data], np.int64)
    nulls = np.zeros(1, np.bool_)
    decode_fixed(one, one, metas, np.zeros(1, np.int64), nulls)
    decode_var_lengths(one, one, metas, np.zeros(2, np.int64), nulls)
    decode_var_bytes(one, one, metas, np.zeros(2, np.int64), np.zeros(1, np.uint8))


@njit(cache=True, nogil=True)
def meta_words(addresses: Any, word: int) -> Any:
    """One word of every meta row."""
    out = np.empty(len(addresses), np.int64)
    for i in range(len(addresses)):
        out[i] = words(addresses[i], META_WORDS)[word]
    return out
