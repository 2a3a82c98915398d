"""Bloom filters of the raw texts of a segment, one for each block of docs (kernels/text/block_blooms.py): who looks for
one text reads the blocks alone that may have it.

They are made of segments that are asked for an equality a second time, and kept beside decoded columns under their
budget (segment/decoded_cache.py).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import block_blooms as kernels
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.memory_shares import share_of_cache
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.decoded_cache import DECODED

# Smaller segments are read as fast.
DOCS_MIN: Final = 1 << 16
_ASKED: Final = "texts.blooms.asked"
_FILTERS: Final = "texts.blooms"


def text_blooms(
    segments: SegmentSet, name: str, metas: Int64Array, rows: Int64Array, control: QueryControl
) -> tuple[Int64Array, list[Any]]:
    """Addresses of the filters of a raw column in the segments at `rows`, 0 where there are none, and what is to be
    kept.

    Raises: what `control.check` raises.
    """
    addresses, held = np.zeros(len(rows), np.int64), list[Any]()
    large = rows[segments.docs[rows] >= DOCS_MIN]
    allowed = share_of_cache("text blooms", DECODED.budget_bytes)
    if not len(large) or int(segments.docs[large].sum()) * kernels.RUN_WORDS * 8 > allowed * abi.BLOCK:
        return addresses, held
    for place, row in enumerate(rows.tolist()):
        column = segments[row].column(name)
        if segments.docs[row] < DOCS_MIN or not column.keeps_derived or not column.single_value:
            continue
        first_time: list[bool] = []
        column.derived(_ASKED, lambda noted=first_time: _mark(noted))
        if not first_time:
            control.check()
            filters = column.derived(_FILTERS, lambda row=row: _filled(metas[row], int(segments.docs[row])))
            addresses[place] = filters.ctypes.data
            held.append(filters)
    return addresses, held


def _mark(noted: list[bool]) -> Int64Array:
    noted.append(True)
    return np.ones(1, np.int64)


def _filled(meta: Int64Array, num_docs: int) -> NDArray[np.uint64]:
    filters = np.zeros((-(-num_docs // abi.BLOCK), kernels.RUN_WORDS), np.uint64)
    kernels.fill_value_lists(int(meta[abi.M_DATA]), int(meta[abi.M_RAW_OFFSETS]), num_docs, filters)
    return filters
