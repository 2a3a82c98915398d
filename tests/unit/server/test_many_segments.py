"""Proves queries over 240 tiny segments: what min and max exclude is never decoded, the few that are left answer as if
they were alone, and answers are right while segments come, go and are replaced under queries that run. Expectations are
written down by the rule that made the rows.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.server.tables.registry import SegmentRegistry

TABLE = "t_OFFLINE"
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "g", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "ts", "dataType": "LONG"}, {"name": "v", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["ts", "v"], "noDictionaryConfig": {"ts": "DELTA"}},
    }
)
NUM_SEGMENTS, DOCS = 240, 10
NAMES = tuple(f"t_{number}" for number in range(NUM_SEGMENTS))


class Rows:
    """Segment s has the docs with ts = s * DOCS … s * DOCS + DOCS - 1 and g = s; v is the version for all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, number: int, version: int) -> ImmutableSegment:
        folder = self._folder / str(version)
        if not (folder / NAMES[number]).exists():
            ts = np.arange(number * DOCS, (number + 1) * DOCS)
            rows = pa.record_batch(
                {
                    "g": pa.array(np.full(DOCS, number, np.int32)),
                    "ts": pa.array(ts),
                    "v": pa.array(np.full(DOCS, version)),
                }
            )
            build_segment(SCHEMA, CONFIG, [rows], folder, NAMES[number])
        return load_segment(folder / NAMES[number], verify=False)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return Rows(tmp_path_factory.mktemp("many"))


@pytest.fixture
def registry(rows: Rows) -> Iterator[SegmentRegistry]:
    registry = SegmentRegistry()
    for number in range(NUM_SEGMENTS):
        registry.put(TABLE, rows.open(number, 1))
    yield registry
    registry.close()


def compiled(text: str) -> QueryContext:
    return compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)


def groups(registry: SegmentRegistry, low: int, high: int) -> dict[int, tuple[int, int, int, int]]:
    """g → (docs, sum, least, most of v) of the docs with low <= ts < high."""
    text = (
        f"SELECT g, COUNT(*), SUM(v), MIN(v), MAX(v) FROM t WHERE ts >= {low} AND ts < {high} AND v > 0 GROUP BY g "
        "LIMIT 10000"
    )
    with registry.acquire(TABLE, NAMES) as acquired:
        found = execute(compiled(text), acquired.segments, QueryControl()).rows
    listed = [] if found is None else found.to_pylist()
    return {row["k0"]: (row["a0_count"], row["a1_sum"], row["a2_min"], row["a3_max"]) for row in listed}


def docs_in(low: int, high: int) -> dict[int, int]:
    """Docs with low <= ts < high, by segment."""
    shares = {s: min(high, (s + 1) * DOCS) - max(low, s * DOCS) for s in range(NUM_SEGMENTS)}
    return {s: docs for s, docs in shares.items() if docs > 0}


@pytest.mark.parametrize(
    ("low", "high"), [(1_200, 1_230), (1_204, 1_227), (0, NUM_SEGMENTS * DOCS), (-5, 3), (2_300, 2_000), (3, 2_398)]
)
def test_the_docs_of_a_range_are_counted_once(registry: SegmentRegistry, low: int, high: int) -> None:
    assert groups(registry, low, high) == {s: (docs, docs, 1, 1) for s, docs in docs_in(low, high).items()}


def test_only_segments_on_the_edge_of_a_range_are_decoded(
    registry: SegmentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    read = ImmutableColumn.raw_values

    def watched(column: ImmutableColumn) -> np.ndarray | pa.Array:  # type: ignore[type-arg]
        decoded.append(int(column.min_value) // DOCS)
        return read(column)

    monkeypatch.setattr(ImmutableColumn, "raw_values", watched)
    assert len(groups(registry, 1_200, 1_230)) == 3 and decoded == []
    assert len(groups(registry, 1_204, 1_227)) == 3 and decoded == [120, 122]
    decoded.clear()
    with registry.acquire(TABLE, NAMES) as acquired:
        metas = ColumnMetas(acquired.segments)
        metas.planned("ts")
        metas.ready("ts", np.array([5, 9, 5]))
        assert decoded == [5, 9]
        assert (metas.rows("ts").metas == metas.of("ts")).all() and sorted(decoded) == list(range(NUM_SEGMENTS))


def test_queries_see_each_segment_whole_while_the_set_changes(rows: Rows, registry: SegmentRegistry) -> None:
    changing = [7, 118, 119, 120, 121, 239]
    versions = {(number, version): None for number in changing for version in (2, 3)}
    for number, version in versions:
        rows.open(number, version).close()  # built before the clock starts
    stop, failures, answers = threading.Event(), list[str](), [0]

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        while not stop.is_set():
            low = rng.choice([rng.randint(1_160, 1_220), 0, 2_385])
            high = low + rng.choice((1, 15, 40, NUM_SEGMENTS * DOCS))
            expected, found = docs_in(low, high), groups(registry, low, high)
            answers[0] += 1
            for number, (docs, total, least, most) in found.items():
                if (
                    docs != expected.get(number)
                    or least != most
                    or total != docs * least
                    or (least != 1 and number not in changing)
                ):
                    failures.append(f"[{low}, {high}) segment {number}: {docs} docs, sum {total}, {least} … {most}")
            if set(expected) - set(found) - set(changing):
                failures.append(f"[{low}, {high}) lacks {set(expected) - set(found)}")

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    rng, deadline = random.Random(9), time.monotonic() + 300
    changes = 0
    while changes < 120 and time.monotonic() < deadline and not failures:
        number = rng.choice(changing)
        if rng.random() < 0.3:
            registry.remove(TABLE, NAMES[number])
        else:
            registry.put(TABLE, rows.open(number, rng.choice((2, 3))))
        changes += 1
        asked = answers[0]
        while answers[0] < asked + 2 and time.monotonic() < deadline and not failures:
            stop.wait(0.001)
    stop.set()
    for thread in threads:
        thread.join(120)
    assert not failures, failures[:5]
    assert changes > 20 and answers[0] > changes
    registry.put(TABLE, rows.open(120, 3))
    assert groups(registry, 1_200, 1_205) == {120: (5, 15, 3, 3)}
