"""Words of single-value columns at (segment, doc) rows that are spread over many segments, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pinotpy.kernels.abi import (
    M_CARDINALITY,
    M_DATA,
    M_NULLS,
    M_NUM_DOCS,
    M_STORED,
    M_WIDTH,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
)
from pinotpy.kernels.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32


@inner
def _dict_id(meta: Any, doc: int) -> Any:
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_DOCS]
    if width == 1:
        return np.int64(view_u8(address, count)[doc])
    if width == 2:
        return np.int64(view_u16(address, count)[doc])
    return np.int64(view_u32(address, count)[doc])


@njit(cache=True, nogil=True)
def words_at(metas: Any, segments: Any, docs: Any, out: Any, doubles: Any) -> None:
    """Dict id where the segment has a dictionary, else the value: integers as they are, floats as the bits of the f64.

    Args:
        metas: int64[num_segments, META_WORDS]; segments, docs: int64[n]
        out: int64[n], written; doubles: the same memory as float64.
    """
    for i in range(len(docs)):
        meta, doc = metas[segments[i]], docs[i]
        address, count, stored = meta[M_DATA], meta[M_NUM_DOCS], meta[M_STORED]
        if meta[M_CARDINALITY] >= 0:
            out[i] = _dict_id(meta, doc)
        elif stored == T_INT:
            out[i] = view_i32(address, count)[doc]
        elif stored == T_LONG:
            out[i] = view_i64(address, count)[doc]
        elif stored == T_FLOAT:
            doubles[i] = view_f32(address, count)[doc]
        elif stored == T_DOUBLE:
            doubles[i] = view_f64(address, count)[doc]


@njit(cache=True, nogil=True)
def nulls_at(metas: Any, segments: Any, docs: Any, out: Any) -> None:
    """out[i] (bool) = the row is null."""
    for i in range(len(docs)):
        meta, doc = metas[segments[i]], docs[i]
        out[i] = meta[M_NULLS] != 0 and (view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3)[doc >> 3] >> (doc & 7)) & 1 != 0
