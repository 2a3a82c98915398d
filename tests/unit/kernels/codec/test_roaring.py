"""Proves our Roaring bitmaps against pyroaring, in both directions: what we write it reads, with its own containers we
find the same docs; sets, lists and checks over arrays, bits and runs, empty, one doc, whole segments, last docs; damage
is found, never read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap

from pinotpy.kernels.codec import roaring
from pinotpy.kernels.filter import posting_bitmaps
from pinotpy.kernels.runtime import abi

NUM_DOCS = 200_000
_RNG = np.random.default_rng(11)


def _some(share: float, low: int = 0, high: int = NUM_DOCS) -> Any:
    return np.flatnonzero(_RNG.random(high - low) < share) + low


LISTS: dict[str, Any] = {
    "none": np.zeros(0, np.int64),
    "first": np.array([0]),
    "last": np.array([NUM_DOCS - 1]),
    "one a container": np.arange(0, NUM_DOCS, 65_536),
    "sparse": _some(0.001),
    "array": _some(0.03),
    "array at its most": np.arange(0, 4096) * 3,
    "bits at their least": np.arange(0, 4097) * 3,
    "dense": _some(0.4),
    "all": np.arange(NUM_DOCS),
    "all but one": np.delete(np.arange(NUM_DOCS), 77_777),
    "runs": np.concatenate([np.arange(low, low + 900) for low in range(100, NUM_DOCS - 1000, 5000)]),
    "two runs": np.concatenate([np.arange(10, 65_600), np.arange(65_601, 65_700)]),
    "one long run": np.arange(65_535, 131_073),
    "mixed": np.concatenate(
        [_some(0.01, 0, 65_536), np.arange(70_000, 130_000), _some(0.5, 131_072, 196_608), [NUM_DOCS - 1]]
    ),
    "four containers with runs": np.concatenate([np.arange(low, low + 500) for low in range(0, NUM_DOCS, 65_536)]),
}


def _index(lists: list[Any]) -> tuple[Any, Any, Any, Any]:
    offsets = np.concatenate([[0], np.cumsum([len(docs) for docs in lists])]).astype(np.uint32)
    docs = np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int32)
    begins = np.zeros(len(offsets), np.int64)
    roaring.bitmap_offsets(offsets, docs, begins)
    return offsets, docs, begins, roaring.bitmaps_at(offsets, docs, begins)


def _meta(offsets: Any, begins: Any, data: Any, num_docs: int = NUM_DOCS) -> Any:
    meta = np.zeros((1, abi.META_WORDS), np.int64)
    meta[0, abi.M_NUM_DOCS], meta[0, abi.M_CARDINALITY] = num_docs, len(offsets) - 1
    meta[0, abi.M_INVERTED_OFFSETS], meta[0, abi.M_BITMAPS], meta[0, abi.M_BITMAP_OFFSETS] = (
        offsets.ctypes.data,
        data.ctypes.data,
        begins.ctypes.data,
    )
    return meta


def _in_set(meta: Any, first: int, end: int, num_docs: int = NUM_DOCS) -> Any:
    # A border of ones behind the set: nothing is written there.
    found = np.zeros((num_docs + 63) // 64 + 1, np.uint64)
    found[-1] = 0xABCD
    posting_bitmaps.add_posting_ranges(
        meta, np.zeros(1, np.int64), np.array([[first, end]]), np.array([found.ctypes.data])
    )
    assert found[-1] == 0xABCD
    return np.flatnonzero(np.unpackbits(found[:-1].view(np.uint8), bitorder="little"))


def _listed(meta: Any, dict_id: int, count: int) -> Any:
    out = np.full(count + 1, -7, np.int32)
    posting_bitmaps.list_bitmaps(
        meta, np.zeros(1, np.int64), np.array([[dict_id, dict_id + 1]]), np.array([0, count]), out
    )
    assert out[-1] == -7
    return out[:count]


def test_pyroaring_reads_what_we_write_and_it_is_no_larger_than_its_own() -> None:
    offsets, _, begins, data = _index(list(LISTS.values()))
    for i, (name, docs) in enumerate(LISTS.items()):
        ours = data[begins[i] : begins[i + 1]].tobytes()
        assert BitMap.deserialize(ours) == BitMap(docs), name
        best = BitMap(docs)
        best.run_optimize()
        assert len(ours) <= len(best.serialize()), name
    assert roaring.first_bad_bitmap(data.ctypes.data, begins, offsets, NUM_DOCS) == -1


@pytest.mark.parametrize("with_value_lists", [False, True])
def test_we_read_what_pyroaring_writes(with_value_lists: bool) -> None:
    parts = []
    for docs in LISTS.values():
        bitmap = BitMap(docs)
        if with_value_lists:
            bitmap.run_optimize()
        parts.append(np.frombuffer(bitmap.serialize(), np.uint8))
    begins = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    data, offsets = np.concatenate(parts), _index(list(LISTS.values()))[0]
    assert roaring.first_bad_bitmap(data.ctypes.data, begins, offsets, NUM_DOCS) == -1
    meta = _meta(offsets, begins, data)
    for i, (name, docs) in enumerate(LISTS.items()):
        assert (_in_set(meta, i, i + 1) == docs).all(), name
        assert (_listed(meta, i, len(docs)) == docs).all(), name


def test_several_lists_are_joined_and_members_picked() -> None:
    offsets, _, begins, data = _index(list(LISTS.values()))
    meta, names = _meta(offsets, begins, data), list(LISTS)
    for first, end in ((0, 5), (3, 8), (11, 16), (0, len(names))):
        assert (
            _in_set(meta, first, end) == np.unique(np.concatenate([LISTS[name] for name in names[first:end]]))
        ).all()
    members = np.array([1, 4, 11, 14], np.uint32)
    found = np.zeros((NUM_DOCS + 63) // 64, np.uint64)
    posting_bitmaps.add_postings_of(
        meta, np.zeros(1, np.int64), members, np.array([[1, 4]]), np.array([found.ctypes.data])
    )
    wanted = np.unique(np.concatenate([LISTS[names[i]] for i in (4, 11, 14)]))
    assert (np.flatnonzero(np.unpackbits(found.view(np.uint8), bitorder="little")) == wanted).all()


@pytest.mark.parametrize("num_docs", [1, 63, 64, 65, 4097, 65_535, 65_536, 65_537, 70_000])
def test_segments_of_any_size_are_covered_to_their_last_doc(num_docs: int) -> None:
    lists = [
        np.arange(num_docs),
        np.arange(0, num_docs, 2),
        np.array([num_docs - 1]),
        np.flatnonzero(_RNG.random(num_docs) < 0.2),
    ]
    offsets, _, begins, data = _index(lists)
    assert roaring.first_bad_bitmap(data.ctypes.data, begins, offsets, num_docs) == -1
    meta = _meta(offsets, begins, data, num_docs)
    for i, docs in enumerate(lists):
        assert (_in_set(meta, i, i + 1, num_docs) == docs).all() and (_listed(meta, i, len(docs)) == docs).all()
    assert roaring.first_bad_bitmap(data.ctypes.data, begins, offsets, num_docs - 1) == 0


def test_damage_is_found_before_anything_relies_on_it() -> None:
    """Every byte of each bitmap is changed in turn: what passes the check still holds so many ascending docs of the
    segment.
    """
    for name in ("none", "first", "one a container", "four containers with runs", "two runs"):
        docs = LISTS[name]
        offsets, _, begins, data = _index([docs])
        meta, passed = _meta(offsets, begins, data), 0
        for at in range(min(len(data), 400)):
            for change in (1, 0x80, 0xFF):
                data[at] ^= change
                if roaring.first_bad_bitmap(data.ctypes.data, begins, offsets, NUM_DOCS) == -1:
                    found = _listed(meta, 0, len(docs))
                    assert (np.diff(found) > 0).all() and (not len(found) or (found[0] >= 0 and found[-1] < NUM_DOCS))
                    assert (_in_set(meta, 0, 1) == found).all()
                    passed += 1
                data[at] ^= change
        assert passed < min(len(data), 400) * 3, name
    offsets, _, begins, data = _index([LISTS["dense"]])
    for size in (0, 4, 7, 8, 9, 100, len(data) - 1):
        assert roaring.first_bad_bitmap(data.ctypes.data, np.array([0, size]), offsets, NUM_DOCS) == 0
