"""Proves the records of uploads under way: one of each archive, shared by all who bring it, ended by the last of them
to begin.
"""

from __future__ import annotations

from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.segment_uploads import SegmentUploads

PATHS = ClusterPaths("C")


def test_the_last_to_begin_ends_it() -> None:
    uploads = SegmentUploads(MemoryStore(MemoryTree()), PATHS)
    assert uploads.all() == []
    first = uploads.begin("t_OFFLINE", "a, b=1", [7, 6], 100)
    assert first.is_first and uploads.all() == [first]
    # Both halves of a table share the folder of a segment's archives.
    second = uploads.begin("t_REALTIME", "a, b=1", [7, 5], 200)
    assert not second.is_first and (second.crcs, second.began_ms) == ((7, 5, 6), 200), (
        "what the first one may leave is the second one's matter, too"
    )
    assert uploads.all() == [second]
    assert uploads.is_brought_by_another(first, 7) and not uploads.is_brought_by_another(second, 7)
    assert not uploads.is_brought_by_another(second, 6), "nobody brings it"
    uploads.end(first)
    assert uploads.all() == [second]
    uploads.end(second)
    uploads.end(second)
    assert uploads.all() == []


def test_what_replaces_it_is_told_from_what_brings_it() -> None:
    uploads = SegmentUploads(MemoryStore(MemoryTree()), PATHS)
    back, forth = uploads.begin("t_OFFLINE", "a", [1, 2], 200), uploads.begin("t_OFFLINE", "a", [2, 1], 100)
    assert uploads.all() == [forth, back], "by the time they began"
    assert uploads.is_brought_by_another(back, 2) and uploads.is_brought_by_another(forth, 1)
    assert not uploads.is_brought_by_another(back, 1) and not uploads.is_brought_by_another(forth, 2)


def test_a_record_that_cannot_be_read_stops_nothing() -> None:
    store = MemoryStore(MemoryTree())
    uploads = SegmentUploads(store, PATHS)
    good = uploads.begin("t_OFFLINE", "a", [1], 100)
    for number, data in enumerate(
        (b"", b"junk", b'{"id": "x"}', b'{"id": "x", "simpleFields": {"beganMs": "soon"}}'), 2
    ):
        store.create(PATHS.segment_upload(f"t|a|{number}"), data)
    assert uploads.all() == [good]
    begun = uploads.begin("t_OFFLINE", "a", [3], 300)
    assert begun.crcs == (3,) and [upload.segment for upload in uploads.all()] == ["a", "a"]
