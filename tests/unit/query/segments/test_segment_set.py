"""Proves SegmentSet: what it knows of columns is what the segments say, also after segments came and went, in parts of
it, and when it keeps less than it is asked for.
"""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments import segment_set
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet


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
    assert found.docs.tolist() == [one.num_docs for one in expected] and found.total_docs == sum(
        one.num_docs for one in expected
    )
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
    assert (
        read[1].tolist() == segments[1].column("a").meta.tolist()
        and read[0].tolist() != segments[0].column("a").meta.tolist()
    )
    assert metas.addresses("a")[0] == read.ctypes.data
    assert whole.column("a").metas[0].tolist() == segments[0].column("a").meta.tolist()


def test_ranges_are_those_of_the_columns_and_unknown_where_a_segment_does_not_know() -> None:
    segments = [segment(number, 3 + number) for number in range(5)]
    segments[3].column("b").min_value = None
    whole = SegmentSet(segments)
    for found, expected in ((whole, segments), (whole.take(np.array([3, 0])), [segments[3], segments[0]])):
        for name in ("a", "b"):
            ranges = found.ranges(name)
            columns = [one.column(name) for one in expected]
            assert ranges.known.tolist() == [column.min_value is not None for column in columns]
            pairs = list(zip(ranges.least.tolist(), ranges.most.tolist(), strict=True))
            assert [pair for pair, known in zip(pairs, ranges.known, strict=True) if known] == [
                (column.min_value, column.max_value) for column in columns if column.min_value is not None
            ]
    texts = SegmentSet([segment(0, 4, extra=True), segment(1, 2, extra=True)]).ranges("c")
    assert texts.least.tolist() == [b"x", b"x"] and texts.known.all()


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("data_type", [DataType.LONG, DataType.DOUBLE, DataType.STRING])
def test_segments_outside_of_a_range_are_left_out_and_no_others(dictionary: bool, data_type: DataType) -> None:
    def stored(number: int) -> object:
        return (
            b"%03d" % number
            if data_type is DataType.STRING
            else float(number)
            if data_type is DataType.DOUBLE
            else number
        )

    columns = [[stored(10 * number + doc % 10) for doc in range(40)] for number in range(8)]
    segments = [
        FakeSegment(f"s{i}", [fake_column("v", data_type, values, dictionary=dictionary)])
        for i, values in enumerate(columns)
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "v", "dataType": data_type.value}]})
    for low, high in [(0, 9), (9, 10), (35, 52), (-5, -1), (80, 99), (79, 79), (25, 24), (-3, 200)]:
        bounds = [f"'{max(n, 0):03d}'" if data_type is DataType.STRING else str(n) for n in (low, high)]
        text = f"SELECT COUNT(*) FROM t WHERE v >= {bounds[0]} AND v <= {bounds[1]}"
        first, last = (max(low, 0), max(high, 0)) if data_type is DataType.STRING else (low, high)
        context = compile_query(parse_sql(text), schema, QueryOptions(), null_handling=False)
        partial = execute(context, SegmentSet(segments), QueryControl())
        counts = [sum(first <= int(value) <= last for value in values) for values in columns]
        found = 0 if partial.rows is None else partial.rows.column(0)[0].as_py()
        assert found == sum(counts), (low, high)
        outside = sum(10 * number + 9 < first or 10 * number > last for number in range(8))
        assert first > last or partial.statistics.num_segments_pruned == outside
