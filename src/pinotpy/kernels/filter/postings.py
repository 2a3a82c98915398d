"""What inverted indexes have for a predicate, in all segments of a query in one call: how many docs, and where one list
lies.

`metas` is int64[num_segments, META_WORDS] of one column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import M_BITMAPS, M_CARDINALITY, M_INVERTED_DOCS, M_INVERTED_OFFSETS, META_WORDS, inner
from pinotpy.kernels.runtime.views import view_i32, view_u32


@inner
def _entries_of(offsets: Any, ids: Any) -> Any:
    total = int64(0)
    for dict_id in ids:
        total += int64(offsets[dict_id + 1]) - int64(offsets[dict_id])
    return total


@njit(cache=True, nogil=True)
def count_postings(
    metas: Any, usable: Any, ranged: Any, ids: Any, members: Any, spans: Any, lists: Any, bitmaps: Any, entries: Any
) -> None:
    """How many lists of the index a predicate reads in each segment, and how many docs they hold together.

    Args:
        usable: bool, the segment is of interest; one without index is left out in any case.
        ranged: bool, the predicate is dict ids [ids[s, 0], ids[s, 1]), else members[spans[s, 0] : spans[s, 1]]
            (uint32).
        lists, bitmaps, entries: int64[num_segments], written where there is an index: lists (0: none of them passes),
            those of them that are Roaring bitmaps, and docs.
    """
    for s in range(len(metas)):
        if not usable[s] or metas[s, M_INVERTED_OFFSETS] == 0:
            continue
        offsets = view_u32(metas[s, M_INVERTED_OFFSETS], metas[s, M_CARDINALITY] + 1)
        if ranged[s]:
            lists[s] = ids[s, 1] - ids[s, 0]
            entries[s] = int64(offsets[ids[s, 1]]) - int64(offsets[ids[s, 0]])
        elif spans[s, 1] > spans[s, 0]:
            lists[s] = spans[s, 1] - spans[s, 0]
            entries[s] = _entries_of(offsets, members[spans[s, 0] : spans[s, 1]])
        if metas[s, M_BITMAPS] != 0:
            bitmaps[s] = lists[s]


@inner
def first_from(docs: Any, doc: int) -> Any:
    low, high = 0, len(docs)
    while low < high:
        middle = (low + high) >> 1
        if docs[middle] < doc:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def own_lists(metas: Any, segments: Any, ids: Any, runs: Any, lists: Any) -> None:
    """The index's list of dict id ids[segments[i], 0]: its address into lists[i] (0: not there before), and the run of
    docs runs[i] becomes the positions of those docs in it. Lists that are given (written out of bitmaps) are cut alone.
    """
    for i in range(len(segments)):
        s = segments[i]
        offsets = view_u32(metas[s, M_INVERTED_OFFSETS], metas[s, M_CARDINALITY] + 1)
        first, end = int64(offsets[ids[s, 0]]), int64(offsets[ids[s, 0] + 1])
        if lists[i] == 0:
            lists[i] = metas[s, M_INVERTED_DOCS] + first * 4
        docs = view_i32(lists[i], end - first)
        runs[i, 0], runs[i, 1] = first_from(docs, runs[i, 0]), first_from(docs, runs[i, 1])


def warm() -> None:
    """Compile for the argument types that queries use."""
    none: Int64Array = np.zeros(0, np.int64)
    metas, pairs, flags = np.zeros((0, META_WORDS), np.int64), np.zeros((0, 2), np.int64), np.zeros(0, np.bool_)
    count_postings(metas, flags, flags, pairs, np.zeros(0, np.uint32), pairs, none, none, none)
    own_lists(metas, none, pairs, pairs, none)
