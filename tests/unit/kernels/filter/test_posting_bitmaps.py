"""Proves sets of docs against numpy and Python sets: filling them from lists and ranges, counting, listing, reading
them block by block, on random and hostile arrays (empty, one, all equal, extremes, -0.0, infinities).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.filter import posting_bitmaps
from pinotpy.kernels.runtime import abi
from pinotpy.segment.index.range import write_range_index

RNG = np.random.default_rng(5)
SIZES = [1, 2, 63, 64, 65, 300, 5000]


class Kept:
    """Takes buffers as a file would."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []

    def append(self, kind: str, *parts: np.ndarray[Any, Any]) -> Any:
        self.arrays.append(np.ascontiguousarray(parts[0]))
        return kind


def docs_of(found: np.ndarray[Any, Any], num_docs: int) -> list[int]:
    return np.flatnonzero(np.unpackbits(found.view(np.uint8), bitorder="little")[:num_docs]).tolist()


@pytest.mark.parametrize("num_docs", SIZES)
def test_lists_of_a_run_are_the_set_bits_in_order(num_docs: int) -> None:
    for share in (0.0, 0.01, 0.5, 1.0):
        flags = RNG.random(num_docs) < share
        found = np.zeros((num_docs + 63) // 64, np.uint64)
        found.view(np.uint8)[: (num_docs + 7) // 8] = np.packbits(flags, bitorder="little")
        edges = sorted({0, 1, num_docs // 3, num_docs // 2, 64, 128, num_docs - 1, num_docs} & set(range(num_docs + 1)))
        runs = np.array([(low, high) for low in edges for high in edges if low <= high], np.int64)
        at = np.full(len(runs), found.ctypes.data)
        sizes = np.zeros(len(runs), np.int64)
        posting_bitmaps.set_sizes(at, runs, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        listed = np.empty(int(starts[-1]) + 1, np.int32)
        posting_bitmaps.list_sets(at, runs, starts, listed)
        for i, (low, high) in enumerate(runs.tolist()):
            assert listed[starts[i] : starts[i + 1]].tolist() == (np.flatnonzero(flags[low:high]) + low).tolist()


VALUES = {
    "u1": lambda n: RNG.integers(0, 3, n).astype(np.uint8),
    "u2": lambda n: RNG.integers(0, 60_000, n).astype(np.uint16),
    "u4": lambda n: RNG.integers(0, 10**6, n).astype(np.uint32),
    "int": lambda n: RNG.choice(np.array([-(2**31), 2**31 - 1, 0, 5, 6, 7], np.int32), n),
    "long": lambda n: np.concatenate(
        [RNG.integers(-(2**63), 2**63 - 1, n - n // 2), RNG.choice([-(2**63), 2**63 - 1], n // 2)]
    ),
    "float": lambda n: RNG.choice(np.array([-math.inf, math.inf, 0.0, 0.1, -3.4e38], np.float32), n),
    "double": lambda n: np.concatenate([RNG.normal(size=n - n // 2), np.full(n // 2, 0.0)]),
    "equal": lambda n: np.full(n, 7, np.int64),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("num_docs", [1, 255, 256, 257, 3000])
@pytest.mark.parametrize("multi", [False, True])
def test_a_range_selects_the_docs_whose_values_lie_in_it(kind: str, num_docs: int, multi: bool) -> None:
    lengths = RNG.integers(1, 4, num_docs) if multi else np.ones(num_docs, np.int64)
    mv_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    values = np.ascontiguousarray(VALUES[kind](int(mv_offsets[-1])))
    kept = Kept()
    write_range_index(kept, values, mv_offsets if multi else None)
    bounds, offsets, docs = kept.arrays
    assert bounds[0] == values.min() and (bounds[1:] > bounds[:-1]).all() and len(docs) == offsets[-1]
    meta = np.zeros((1, abi.META_WORDS), np.int64)
    words = meta[0]
    is_ids = values.dtype.kind == "u"
    words[abi.M_CARDINALITY] = 2**32 if is_ids else -1
    words[abi.M_STORED] = {"int": abi.T_INT, "float": abi.T_FLOAT, "double": abi.T_DOUBLE}.get(kind, abi.T_LONG)
    words[abi.M_WIDTH], words[abi.M_DATA] = values.itemsize, values.ctypes.data
    words[abi.M_NUM_DOCS], words[abi.M_NUM_VALUES] = num_docs, len(values)
    words[abi.M_MV_OFFSETS] = mv_offsets.ctypes.data if multi else 0
    words[abi.M_RANGE_BOUNDS], words[abi.M_RANGE_BUCKETS] = bounds.ctypes.data, len(bounds)
    words[abi.M_RANGE_OFFSETS], words[abi.M_RANGE_DOCS] = offsets.ctypes.data, docs.ctypes.data
    probes = [values.min(), values.max(), *RNG.choice(values, 4)]
    for low in probes:
        for high in probes:
            if low > high:
                continue
            ids = np.array([[int(low), int(high) + 1]]) if is_ids else np.zeros((1, 2), np.int64)
            whole = values.dtype.kind in "iu"
            ends = (int(low) if whole else 0, float(low), int(high) if whole else 0, float(high))
            spans = np.zeros((1, 3), np.int64)
            posting_bitmaps.range_spans(meta, ids, *ends, spans)
            found = np.zeros((num_docs + 63) // 64, np.uint64)
            posting_bitmaps.add_ranges(meta, np.zeros(1, np.int64), spans, ids, *ends, np.array([found.ctypes.data]))
            inside = (values >= low) & (values <= high)
            expected = np.flatnonzero(np.add.reduceat(inside, mv_offsets[:-1].astype(np.int64)) > 0)
            assert docs_of(found, num_docs) == expected.tolist(), (low, high)
            assert spans[0, 2] >= len(expected), "an estimate never says too little"


@pytest.mark.parametrize("num_docs", SIZES)
def test_postings_become_sets(num_docs: int) -> None:
    ids = RNG.integers(0, 9, num_docs).astype(np.uint8)
    offsets, docs = inverted_index(ids, 9)
    meta = np.zeros((2, abi.META_WORDS), np.int64)
    meta[1, abi.M_CARDINALITY], meta[1, abi.M_NUM_DOCS], meta[1, abi.M_NUM_VALUES] = 9, num_docs, num_docs
    meta[1, abi.M_INVERTED_OFFSETS], meta[1, abi.M_INVERTED_DOCS] = offsets.ctypes.data, docs.ctypes.data
    one, found = np.ones(1, np.int64), np.zeros((num_docs + 63) // 64, np.uint64)
    at = np.array([found.ctypes.data])
    posting_bitmaps.add_posting_ranges(meta, one, np.array([[0, 0], [2, 5]]), at)
    assert docs_of(found, num_docs) == np.flatnonzero((ids >= 2) & (ids < 5)).tolist()
    posting_bitmaps.add_postings_of(meta, one, np.array([7, 0, 8], np.uint32), np.array([[0, 0], [1, 3]]), at)
    assert docs_of(found, num_docs) == np.flatnonzero(((ids >= 2) & (ids < 5)) | (ids == 0) | (ids == 8)).tolist()
