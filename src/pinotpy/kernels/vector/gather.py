"""Words and values of single-value columns at (segment, doc) rows that are spread over many segments, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, njit

from pinotpy.kernels.runtime.abi import (
    M_CARDINALITY,
    M_DATA,
    M_DICTIONARY,
    M_DICTIONARY_OFFSETS,
    M_NULLS,
    M_NUM_DOCS,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
)
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32


@inner
def _dict_id(meta: Any, doc: int) -> Any:
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_DOCS]
    if width == 1:
        return np.int64(view_u8(address, count)[doc])
    if width == 2:
        return np.int64(view_u16(address, count)[doc])
    return np.int64(view_u32(address, count)[doc])


@inner
def _value(stored: int, address: int, count: int, position: int, i: int, out: Any, doubles: Any) -> None:
    if stored == T_INT:
        out[i] = view_i32(address, count)[position]
    elif stored == T_LONG:
        out[i] = view_i64(address, count)[position]
    elif stored == T_FLOAT:
        doubles[i] = view_f32(address, count)[position]
    elif stored == T_DOUBLE:
        doubles[i] = view_f64(address, count)[position]


@njit(cache=True, nogil=True)
def words_at(metas: Any, segments: Any, docs: Any, out: Any, doubles: Any) -> None:
    """Dict id where the segment has a dictionary, else the value: integers as they are, floats as the bits of the f64.

    Args:
        metas: int64[num_segments, META_WORDS]; segments, docs: int64[n]
        out: int64[n], written; doubles: the same memory as float64.
    """
    for i in range(len(docs)):
        meta, doc = metas[segments[i]], docs[i]
        if meta[M_CARDINALITY] >= 0:
            out[i] = _dict_id(meta, doc)
        else:
            _value(meta[M_STORED], meta[M_DATA], meta[M_NUM_DOCS], doc, i, out, doubles)


@njit(cache=True, nogil=True)
def nulls_at(metas: Any, segments: Any, docs: Any, out: Any) -> None:
    """out[i] (bool) = the row is null."""
    for i in range(len(docs)):
        meta, doc = metas[segments[i]], docs[i]
        out[i] = (
            meta[M_NULLS] != 0 and (view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3)[doc >> 3] >> (doc & 7)) & 1 != 0
        )


@njit(cache=True, nogil=True)
def values_at(metas: Any, segments: Any, docs: Any, out: Any, doubles: Any) -> None:
    """Values of a column of a fixed type, with a dictionary or without, as `words_at` writes raw ones."""
    for i in range(len(docs)):
        meta, doc = metas[segments[i]], docs[i]
        if meta[M_CARDINALITY] >= 0:
            _value(meta[M_STORED], meta[M_DICTIONARY], meta[M_CARDINALITY], _dict_id(meta, doc), i, out, doubles)
        else:
            _value(meta[M_STORED], meta[M_DATA], meta[M_NUM_DOCS], doc, i, out, doubles)


@njit(cache=True, nogil=True)
def ends_at(metas: Any, segments: Any, docs: Any, places: Any, offsets: Any) -> Any:
    """First pass of texts or bytes, which have dictionaries in all segments: where they lie and how long they are
    together.

    Args:
        places: int64[n], written: addresses of their bytes. offsets: int32[n + 1], written.

    Returns: their bytes; with 2^31 or more of them the offsets mean nothing.
    """
    total = np.int64(0)
    offsets[0] = 0
    for i in range(len(docs)):
        meta = metas[segments[i]]
        ends, position = view_i32(meta[M_DICTIONARY_OFFSETS], meta[M_CARDINALITY] + 1), _dict_id(meta, docs[i])
        places[i] = meta[M_DICTIONARY] + ends[position]
        total += ends[position + 1] - ends[position]
        offsets[i + 1] = int32(total)
    return total


@njit(cache=True, nogil=True)
def bytes_at(places: Any, offsets: Any, out: Any) -> None:
    """Second pass: the bytes, one text after the other, into u8[bytes]."""
    for i in range(len(places)):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        text = view_u8(places[i], size)
        for k in range(size):
            out[begin + k] = text[k]


def warm() -> None:
    """Compile for the argument types that queries use."""
    metas, none = np.zeros((0, META_WORDS), np.int64), np.zeros(0, np.int64)
    values_at(metas, none, none, none, none.view(np.float64))
    words_at(metas, none, none, none, none.view(np.float64))
    nulls_at(metas, none, none, np.zeros(0, np.bool_))
    ends_at(metas, none, none, none, np.zeros(1, np.int32))
    bytes_at(none, np.zeros(1, np.int32), np.zeros(0, np.uint8))
