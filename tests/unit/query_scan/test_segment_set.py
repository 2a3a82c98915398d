"""Proves SegmentSet: what it knows of columns is what the segments say, also after segments came and went, in parts of it,
and when it keeps less than it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.query import segment_set
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.segment_set import SegmentSet


def segment(number: int, docs: int, *, packed: bool = False, extra: bool = False) -> FakeSegment:
    columns = [
        fake_column("a", DataType.INT, [doc % 3 + number for doc in range(docs)], packed=packed),
        fake_column("b", DataType.LONG, list(range(docs)), dictionary=False),
    ]
    if extra:
        columns.append(fake_column("c", DataType.STRING, [b"x"] * docs))
    return FakeSegment(f"s{number}", columns)


def check(found: SegmentSet, expected: list[FakeSegment]) -> None:
    assert list(found) == expected and len(found) == len(expected)
    assert found.docs.tolist() == [one.num_docs for one in expected] and found.total_docs == sum(one.num_docs for one in expected)
    for name in ("a", "b"):
        rows = found.column(name)
        assert rows.metas.tolist() == [one.column(name).meta.tolist() for one in expected]
        assert np.diff(rows.addresses).tolist() == [rows.metas.strides[0]] * (len(expected) - 1)
        assert not len(expected) or rows.addresses[0] == rows.metas.ctypes.data


def test_metas_are_those_of_the_segments_in_their_order() -> None:
    segments = [segment(number, 3 + number) for number in range(6)]
    check(SegmentSet(segments), segments)
    check(SegmentSet([]), [])


def test_a_set_made_from_another_takes_over_what_stayed() -> None:
    segments = [segment(number, 3 + number) for number in range(6)]
    first = SegmentSet(segments)
    check(first, segments)
    replaced = segment(2, 9)
    changed = [segments[5], replaced, segments[0], segment(7, 1)]
    second = SegmentSet(changed, first)
    check(second, changed)
    check(SegmentSet([], second), [])
    check(SegmentSet(segments, SegmentSet([])), segments)
    check(first, segments)


def test_a_column_that_an_added_segment_lacks_is_not_taken_over() -> None:
    with_it, without = segment(0, 4, extra=True), segment(1, 4)
    first = SegmentSet([with_it])
    assert first.has_column("c") and len(first.column("c").metas) == 1
    second = SegmentSet([with_it, without], first)
    assert not second.has_column("c")
    with pytest.raises(UnknownColumnError):
        second.column("c")
    part = second.take(np.array([0]))
    assert part.has_column("c") and part.column("c").metas.tolist() == [with_it.column("c").meta.tolist()]


@pytest.mark.parametrize("asked_before", [False, True])
def test_parts_know_what_the_whole_knows(asked_before: bool) -> None:
    segments = [segment(number, 3 + number) for number in range(6)]
    whole = SegmentSet(segments)
    if asked_before:
        check(whole, segments)
    part = whole.take(np.array([4, 1, 2]))
    check(part, [segments[4], segments[1], segments[2]])
    check(part.take(np.array([2, 0])), [segments[2], segments[4]])


def test_segments_without_docs_are_left_out_of_the_occupied() -> None:
    segments = [segment(0, 2), segment(1, 0), segment(2, 5)]
    check(SegmentSet(segments).occupied, [segments[0], segments[2]])
    full = SegmentSet(segments[:1])
    assert full.occupied is full


def test_a_set_keeps_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [segment(number, 3) for number in range(4)]
    monkeypatch.setattr(segment_set, "KEPT_BYTES_MAX", SegmentSet(segments).column("a").metas.nbytes)
    found = SegmentSet(segments)
    held = found.column("a")
    assert found.column("a") is held
    check(found, segments)
    assert found.column("a") is not held and held.metas.tolist() == found.column("a").metas.tolist()
    assert len(found._columns) == 1


def test_packed_columns_are_decoded_for_a_query_and_not_in_the_set() -> None:
    segments = [segment(0, 50, packed=True), segment(1, 50)]
    whole = SegmentSet(segments)
    assert not whole.column("a").in_place
    metas = ColumnMetas(whole)
    read = metas.of("a")
    assert read[1].tolist() == segments[1].column("a").meta.tolist() and read[0].tolist() != segments[0].column("a").meta.tolist()
    assert metas.addresses("a")[0] == read.ctypes.data
    assert whole.column("a").metas[0].tolist() == segments[0].column("a").meta.tolist()
