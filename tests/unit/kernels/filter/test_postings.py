"""Proves what is asked of inverted indexes in one call against numpy: numbers of lists and docs, and lists cut to runs
of docs.
"""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import fake_column

from pinotpy.data_types import DataType
from pinotpy.kernels.filter import postings
from pinotpy.kernels.runtime import abi

SIZES = (1, 64, 3000, 5000)


@pytest.mark.parametrize("seed", range(4))
def test_lists_are_counted_and_cut_as_numpy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 9, size) for size in SIZES]
    columns = [
        fake_column("a", DataType.INT, part.tolist(), inverted=number != 1) for number, part in enumerate(values)
    ]
    metas = np.array([column.meta for column in columns])
    cardinality = metas[:, abi.M_CARDINALITY]
    first = rng.integers(0, cardinality)
    ids = np.stack([first, first + 1 + rng.integers(0, cardinality - first)], axis=1)
    ranged, usable = np.array([True, True, seed % 2 == 0, True]), np.array([True, True, True, seed < 3])
    members = np.array([0, 2, 5], np.uint32)[: cardinality[2] // 2]
    spans = np.array([[0, 0], [0, 0], [0, len(members)], [0, 0]])
    lists, bitmaps, entries = np.zeros(4, np.int64), np.zeros(4, np.int64), np.full(4, -1)
    postings.count_postings(metas, usable, ranged, ids, members, spans, lists, bitmaps, entries)
    for s, column in enumerate(columns):
        wanted = np.arange(*ids[s]) if ranged[s] else members[: spans[s, 1]]
        known = s != 1 and usable[s]
        assert (lists[s], entries[s], bitmaps[s]) == (
            (len(wanted), int(np.isin(column.ids(), wanted).sum()), 0) if known else (0, -1, 0)
        )
    segments = np.array([0, 2, 3])
    low = rng.integers(0, np.array(SIZES)[segments])
    runs = np.stack([low, low + rng.integers(0, np.array(SIZES)[segments] - low + 1)], axis=1)
    given = np.flatnonzero(columns[3].ids() == ids[3, 0]).astype(np.int32)
    addresses, cut = np.array([0, 0, given.ctypes.data]), runs.copy()
    postings.own_lists(metas, segments, ids, cut, addresses)
    assert addresses[2] == given.ctypes.data
    for i, s in enumerate(segments.tolist()):
        docs = np.flatnonzero(columns[s].ids() == ids[s, 0])
        assert addresses[i] in (
            given.ctypes.data,
            metas[s, abi.M_INVERTED_DOCS] + 4 * int((columns[s].ids() < ids[s, 0]).sum()),
        )
        assert cut[i].tolist() == docs.searchsorted(runs[i]).tolist()
