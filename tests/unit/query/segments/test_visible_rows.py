"""Proves that rows which a segment hides (Segment.visible) are in no answer that is made without reading rows: from
metadata, from dictionaries, from star-trees, from the first segments that hold enough docs; and that a set without
hidden rows loses none of these ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_segment import FakeSegment, fake_column
from hiding_segment import HidingSegment

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.plan.build import build_scan
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import VISIBLE, SegmentSet
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "k", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
    }
)
TREE = {"dimensionsSplitOrder": ["k"], "functionColumnPairs": ["COUNT__*", "SUM__v", "MAX__v"], "maxLeafRecords": 1}
CONFIG = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "metadata": {},
    "tableIndexConfig": {"starTreeIndexConfigs": [TREE]},
}
DOCS = 5_000


def context(text: str) -> QueryContext:
    return compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)


def rows(text: str, segments: Any) -> list[tuple[Any, ...]]:
    partial = execute(context(text), segments, QueryControl())
    found = reduce_partials(context(text), merge_partials(context(text), [partial]))
    return list(zip(*(column.values.to_pylist() for column in found.columns), strict=True))


def cells(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """k, v, and which rows are visible: the smallest and the largest of both are not, and one k has no row left."""
    rng = np.random.default_rng(seed)
    k, v = rng.integers(0, 40, DOCS), rng.integers(-(10**6), 10**6, DOCS)
    seen = (rng.random(DOCS) < 0.4) & (k > 0) & (k < 39) & (k != 20) & (abs(v) < 900_000)
    return k, v, seen


@pytest.fixture(scope="module")
def stored() -> list[Any]:
    """Segments with star-trees: the first shows all rows, the others hide some."""
    found = []
    for seed in range(3):
        k, v, seen = cells(seed)
        directory = MemoryDirectory(f"s{seed}")
        batch = pa.record_batch({"k": pa.array(k.astype(np.int32)), "v": pa.array(v)})
        build_segment_into(directory, SCHEMA, TableConfig.from_json(CONFIG), [batch], f"s{seed}")
        segment = open_segment(directory)
        found.append(HidingSegment(segment, seen.tolist()) if seed else segment)
    return found


@pytest.fixture(scope="module")
def visible() -> tuple[np.ndarray, np.ndarray]:
    """k and v of all rows that may be seen."""
    parts = [cells(seed) for seed in range(3)]
    kept = [np.ones(DOCS, np.bool_), *(part[2] for part in parts[1:])]
    return (
        np.concatenate([part[0][seen] for part, seen in zip(parts, kept, strict=True)]),
        np.concatenate([part[1][seen] for part, seen in zip(parts, kept, strict=True)]),
    )


def test_answers_that_need_no_rows_are_made_of_the_visible_ones(
    stored: list[Any], visible: tuple[np.ndarray, np.ndarray]
) -> None:
    k, v = visible
    assert rows("SELECT COUNT(*) FROM t", stored) == [(len(k),)]
    assert rows("SELECT MIN(k), MAX(k), MINMAXRANGE(k) FROM t", stored[1:]) == [(1.0, 38.0, 37.0)]
    distinct = "SELECT DISTINCTCOUNT(k) FROM t"
    assert rows(distinct, stored) == [(40,)] and rows(distinct, stored[1:]) == [(37,)]
    assert rows("SELECT DISTINCT k FROM t ORDER BY k LIMIT 99", stored[1:]) == [
        (key,) for key in range(1, 39) if key != 20
    ]
    sums = [(key, int((k == key).sum()), float(v[k == key].sum()), float(v[k == key].max())) for key in range(40)]
    grouped = "SELECT k, COUNT(*), SUM(v), MAX(v) FROM t GROUP BY k ORDER BY k LIMIT 99"
    assert rows(grouped, stored) == sums
    assert rows("SELECT SUM(v) FROM t WHERE k = 7", stored) == [(float(v[k == 7].sum()),)]
    assert rows("SELECT v FROM t ORDER BY v LIMIT 5", stored) == [(value,) for value in sorted(v.tolist())[:5]]


@pytest.mark.parametrize("limit", [1, 1500, 4000, 100_000])
def test_a_limit_is_filled_with_visible_rows(
    stored: list[Any], visible: tuple[np.ndarray, np.ndarray], limit: int
) -> None:
    k, v = visible
    found = rows(f"SELECT k, v FROM t LIMIT {limit}", stored[1:])
    wanted = list(zip(k[DOCS:].tolist(), v[DOCS:].tolist(), strict=True))
    assert found == wanted[:limit]


def test_only_segments_that_hide_rows_are_not_answered_by_their_trees(stored: list[Any]) -> None:
    partial = execute(context("EXPLAIN PLAN FOR SELECT k, SUM(v) FROM t GROUP BY k"), stored, QueryControl())
    assert partial.explain is not None
    by_name = {name: group for group in partial.explain for name in group["names"]}
    assert by_name["s0"]["starTree"]["number"] == 0
    for name in ("s1", "s2"):
        assert "must not be seen" in by_name[name]["starTree"]["why"]
        assert by_name[name]["filter"]["predicate"] == "$visible IS NOT NULL"
        assert by_name[name]["filter"]["access"] == "null vector"


def test_a_plan_reads_all_rows_only_where_none_is_hidden(stored: list[Any]) -> None:
    count = context("SELECT COUNT(*) FROM t")
    assert build_scan(count, stored[:1], QueryControl()).reads_all_rows
    assert not build_scan(count, stored, QueryControl()).reads_all_rows
    everything = FakeSegment(
        "f", [fake_column("k", DataType.INT, [1, 2, 3])], visible=np.packbits([1, 1, 1], bitorder="little")
    )
    assert build_scan(count, [everything], QueryControl()).reads_all_rows
    nothing = FakeSegment("f", [fake_column("k", DataType.INT, [1, 2, 3])], visible=np.zeros(1, np.uint8))
    assert rows("SELECT COUNT(*) FROM t", [nothing, everything]) == [(3,)]
    assert rows("SELECT k FROM t", [nothing]) == []


def test_parts_and_later_sets_know_what_is_hidden(stored: list[Any]) -> None:
    whole = SegmentSet(stored)
    assert whole.hides_rows and not whole.take(np.array([0])).hides_rows and whole.take(np.array([2])).hides_rows
    assert not whole.has_column(VISIBLE)
    bits = whole.column(VISIBLE).metas
    part = whole.take(np.array([2, 0]))
    assert part.column(VISIBLE).metas.tolist() == bits[[2, 0]].tolist()
    later = SegmentSet([stored[2], stored[0]], whole)
    assert later.hides_rows
    del whole, part
    assert rows("SELECT COUNT(*) FROM t", later) == [(DOCS + int(cells(2)[2].sum()),)]
