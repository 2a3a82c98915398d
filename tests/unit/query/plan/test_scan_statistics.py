"""Proves the counters of a scan against numbers that follow from the rows by hand: pruning, indexes, folded predicates,
and what each predicate of AND and OR reads."""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.execute import execute
from pinotpy.query.model.context import (
    And,
    Bound,
    ColumnRef,
    Comparison,
    Filter,
    Or,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl

N = 10_000


def segment(low: int) -> FakeSegment:
    """day sorted low..low+9, a thousand docs each; team = doc % 100 inverted; score = doc % 7 scanned; raw = doc % 5;
    tags two a doc.
    """
    docs = np.arange(N)
    return FakeSegment(
        f"s{low}",
        [
            fake_column("day", DataType.INT, (low + docs // 1000).tolist()),
            fake_column("team", DataType.INT, (docs % 100 * 2).tolist(), inverted=True),
            fake_column("score", DataType.INT, (docs % 7 * 10).tolist()),
            fake_column("raw", DataType.LONG, (docs % 5).tolist(), dictionary=False),
            fake_column(
                "tags",
                DataType.STRING,
                [[b"a", b"b"] if doc % 2 else [b"c", b"d"] for doc in range(N)],
                single_value=False,
            ),
        ],
    )


@pytest.fixture(scope="module")
def segments() -> list[FakeSegment]:
    return [segment(0), segment(10), segment(20)]


INTS = tuple(ColumnRef(name, DataType.INT) for name in ("day", "team", "score"))
REFS = (*INTS, ColumnRef("raw", DataType.LONG), ColumnRef("tags", DataType.STRING, False))


def run(segments: list[FakeSegment], condition: Filter) -> Statistics:
    context = QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t",
        (OutputColumn("day", Identifier("day")),),
        filter=condition,
        limit=10**6,
        columns=REFS,
    )
    return execute(context, segments, QueryControl()).statistics


def equal(column: str, *values: int | str) -> Predicate:
    return Predicate(Identifier(column), Comparison.EQ if len(values) == 1 else Comparison.IN, values)


def at_least(column: str, value: int) -> Predicate:
    return Predicate(Identifier(column), Comparison.RANGE, lower=Bound(value, True))


def counters(statistics: Statistics) -> tuple[int, int, int, int, int]:
    s = statistics
    return (
        s.num_segments_processed,
        s.num_segments_matched,
        s.num_docs_scanned,
        s.num_entries_scanned_in_filter,
        s.num_segments_pruned,
    )


def test_a_sorted_column_reads_nothing_and_prunes(segments: list[FakeSegment]) -> None:
    assert counters(run(segments, equal("day", 12))) == (1, 1, 1000, 0, 2)
    assert counters(run(segments, at_least("day", 15))) == (2, 2, 15_000, 0, 1)


def test_a_scan_reads_every_doc(segments: list[FakeSegment]) -> None:
    assert counters(run(segments, equal("score", 30))) == (3, 3, 3 * len(range(3, N, 7)), 3 * N, 0)


def test_a_value_between_min_and_max_that_no_segment_has_is_processed_but_not_matched(
    segments: list[FakeSegment],
) -> None:
    assert counters(run(segments, equal("score", 35))) == (3, 0, 0, 0, 0)
    assert counters(run(segments, equal("score", 61))) == (0, 0, 0, 0, 3)
    # A longer list never prunes.
    assert counters(run(segments, equal("score", 61, 62))) == (3, 0, 0, 0, 0)


def test_a_predicate_that_all_values_pass_reads_nothing(segments: list[FakeSegment]) -> None:
    assert counters(run(segments, Predicate(Identifier("score"), Comparison.NOT_EQ, (35,)))) == (3, 3, 3 * N, 0, 0)
    assert counters(run(segments, at_least("raw", 0))) == (3, 3, 3 * N, 0, 0)


def test_a_leg_of_and_reads_what_the_index_left(segments: list[FakeSegment]) -> None:
    assert counters(run(segments, And((equal("score", 30), equal("team", 4))))) == (
        3,
        3,
        3 * len([d for d in range(2, N, 100) if d % 7 == 3]),
        3 * 100,
        0,
    )
    assert counters(run(segments, And((equal("score", 30), equal("day", 3)))))[3] == 1000
    # Sorted and inverted together: the list of docs is cut to the run of days.
    assert counters(run(segments, And((equal("team", 4), equal("day", 3), equal("score", 30)))))[3] == 10


def test_a_second_scan_reads_the_survivors_of_the_first(segments: list[FakeSegment]) -> None:
    first = len([d for d in range(N) if d % 7 == 3])
    both = len([d for d in range(N) if d % 7 == 3 and d % 5 >= 1])
    found = run(segments[:1], And((equal("score", 30), at_least("raw", 1))))
    assert (found.num_docs_scanned, found.num_entries_scanned_in_filter) == (both, N + first)


def test_or_reads_all_docs_for_every_leg_and_prunes_only_if_all_legs_do(segments: list[FakeSegment]) -> None:
    assert run(segments[:1], Or((equal("score", 30), equal("raw", 1)))).num_entries_scanned_in_filter == 2 * N
    assert counters(run(segments, Or((equal("day", 12), equal("score", 30)))))[0] == 3
    assert counters(run(segments, Or((equal("day", 12), equal("score", 99)))))[0] == 1


def test_multi_values_are_counted_by_value(segments: list[FakeSegment]) -> None:
    assert counters(run(segments[:1], equal("tags", "a"))) == (1, 1, N // 2, 2 * N, 0)
