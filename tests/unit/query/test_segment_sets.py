"""Proves what holds for a query over several sets of segments: what one set keeps does not depend on the others, limits
and the control bind all of them together, and what one of them gives is never taken for the whole answer.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column
from split_registry import split

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryTimeoutError
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.group import top_n_groups
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.plan.instruction_cache import PreparedShapes
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl, TooManyDocsError
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "k", "dataType": "INT"}, {"name": "s", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
    }
)
DOCS = 400
K = np.random.default_rng(1).integers(0, 50, 6 * DOCS)
V = np.random.default_rng(2).integers(-1000, 1000, 6 * DOCS)


def segment(number: int) -> FakeSegment:
    rows = slice(number * DOCS, (number + 1) * DOCS)
    k, v = K[rows].tolist(), V[rows].tolist()
    columns = [
        fake_column("k", DataType.INT, k),
        fake_column("s", DataType.STRING, [f"{one % 7}".encode() for one in k]),
        fake_column("v", DataType.LONG, v, dictionary=False),
    ]
    return FakeSegment(f"s{number}", columns)


@pytest.fixture(scope="module")
def segments() -> list[FakeSegment]:
    return [segment(number) for number in range(6)]


def context(text: str, **options: Any) -> QueryContext:
    return compile_query(parse_sql(text), SCHEMA, QueryOptions(**options), null_handling=False)


def answered(asked: QueryContext, partial: PartialResult) -> list[tuple[Any, ...]]:
    found = reduce_partials(asked, merge_partials(asked, [partial]))
    return list(zip(*(column.values.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("num_sets", [2, 3, 6])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT SUM(v), MIN(k), DISTINCTCOUNT(s) FROM t WHERE k > 20",
        "SELECT k, s, v FROM t LIMIT 1000",
        "SELECT k, v FROM t WHERE v > 500 LIMIT 300 OFFSET 40",
        "SELECT k, v FROM t ORDER BY v, k LIMIT 20",
        "SELECT DISTINCT s FROM t ORDER BY s LIMIT 3",
        "SELECT k, COUNT(*), SUM(v) FROM t WHERE v < 900 GROUP BY k ORDER BY k LIMIT 100",
        "SELECT s, PERCENTILE(v, 50), DISTINCTCOUNTHLL(k) FROM t GROUP BY s ORDER BY s",
        "SELECT v FROM t WHERE k = 3 AND v = 5000",
        "SELECT k FROM t LIMIT 0",
    ],
)
def test_several_sets_count_and_answer_as_one(segments: list[FakeSegment], num_sets: int, text: str) -> None:
    asked = context(text)
    one, several = (execute(asked, over, QueryControl()) for over in (segments, split(segments, num_sets)))
    assert answered(asked, several) == answered(asked, one)
    for partial in (one, several):
        partial.statistics.execution_ns = partial.statistics.cpu_ns = 0
    assert several.statistics == one.statistics


def test_a_set_keeps_its_prepared_shapes_when_another_is_replaced(segments: list[FakeSegment]) -> None:
    sealed, text = SegmentSet(segments[:4]), "SELECT k, SUM(v) FROM t WHERE v > {} GROUP BY k ORDER BY k LIMIT 60"
    kept: list[Any] = []
    for literal, tail in ((1, segments[4:5]), (2, segments[4:6]), (3, [])):
        asked = context(text.format(literal))
        found = execute(asked, SegmentSets([sealed, SegmentSet(tail)]), QueryControl())
        rows = (len(sealed) + len(tail)) * DOCS
        passes = V[:rows] > literal
        assert answered(asked, found) == [(key, float(V[:rows][passes & (K[:rows] == key)].sum())) for key in range(50)]
        kept.append(list(sealed.attached(PreparedShapes).prepared.values()))
    assert len(kept[0]) == 1 and kept[0][0] is not None
    assert all(now[0] is kept[0][0] and len(now) == 1 for now in kept)


def test_a_selection_reads_no_set_that_it_needs_no_row_of(segments: list[FakeSegment]) -> None:
    asked = context("SELECT v FROM t WHERE v >= -1000 LIMIT 30")
    found = execute(asked, split(segments, 3), QueryControl())
    assert answered(asked, found) == [(value,) for value in V[:30].tolist()]
    assert found.statistics.num_docs_scanned == 30 and found.statistics.num_segments_matched == 1


def test_no_set_is_read_where_all_together_are_too_many_docs(segments: list[FakeSegment]) -> None:
    control = QueryControl(docs_max=3 * DOCS)
    with pytest.raises(TooManyDocsError):
        execute(context("SELECT SUM(v) FROM t"), split(segments, 3), control)
    assert answered(context("SELECT SUM(v) FROM t"), execute(context("SELECT SUM(v) FROM t"), segments[:3], control))


def test_the_control_ends_a_query_whatever_set_it_reads(segments: list[FakeSegment]) -> None:
    asked, sets = context("SELECT k, SUM(v) FROM t GROUP BY k"), split(segments, 3)
    with pytest.raises(QueryTimeoutError):
        execute(asked, sets, QueryControl(deadline_ns=time.monotonic_ns() - 1))
    control = QueryControl()
    control.cancel()
    with pytest.raises(QueryCancelledError):
        execute(asked, sets, control)
    with pytest.raises(MemoryLimitError):
        execute(context("SELECT v FROM t ORDER BY v LIMIT 2000"), sets, QueryControl(memory_max_bytes=64))


def test_groups_are_limited_over_all_sets_together(segments: list[FakeSegment]) -> None:
    text = "SELECT k, COUNT(*) FROM t GROUP BY k LIMIT 100"
    found = execute(context(text, num_groups_limit=20), split(segments, 3), QueryControl())
    assert len(answered(context(text), found)) == 20 and found.statistics.num_groups_limit_reached
    assert found.statistics.num_rows_of_cut_groups > 0
    whole = execute(context(text, num_groups_limit=50), split(segments, 3), QueryControl())
    assert len(answered(context(text), whole)) == 50 and not whole.statistics.num_groups_limit_reached


def test_groups_that_are_hidden_are_left_out_after_the_merge_only(
    segments: list[FakeSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)
    asked = context("SELECT k, SUM(v) FROM t GROUP BY k ORDER BY SUM(v) DESC, k LIMIT 4")
    sums = sorted((-float(V[key == K].sum()), key) for key in range(50))[:4]
    found = execute(asked, split(segments, 6), QueryControl(), is_final=True)
    assert answered(asked, found) == [(key, -total) for total, key in sums]
    assert found.num_rows < 50


def test_explain_shows_segments_with_one_plan_together(segments: list[FakeSegment]) -> None:
    asked = context("EXPLAIN PLAN FOR SELECT k, v FROM t LIMIT 900")
    one, several = (execute(asked, over, QueryControl()) for over in (segments, split(segments, 3)))
    assert sorted(map(str, several.explain or [])) == sorted(map(str, one.explain or []))
    assert several.statistics == one.statistics


def test_sets_look_like_one_sequence(segments: list[FakeSegment]) -> None:
    sets = split(segments, 3)
    assert list(sets) == segments and len(sets) == 6 and sets[4] is segments[4] and list(sets[1:3]) == segments[1:3]
    assert sets.docs.tolist() == [DOCS] * 6 and sets.total_docs == 6 * DOCS
    part = sets.take(np.array([1, 2, 3, 5]))
    assert list(part) == [segments[row] for row in (1, 2, 3, 5)] and len(part.sets) == 3
    assert part.sets[1] is sets.sets[1]
    assert SegmentSets.of(sets) is sets and SegmentSets.of(sets.sets[0]).sets == (sets.sets[0],)
    assert len(SegmentSets([SegmentSet([]), SegmentSet([])]).sets) == 1
