"""Proves the registry of open segments: a query reads the segments that it acquired, whatever is swapped meanwhile; a
replaced segment closes when the last query lets go, and its bytes leave memory then, without a collection of garbage;
what a snapshot knows of columns is that of its own segments; and queries that run while segments are replaced without
end see each version whole.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.directory.resident_directory import ResidentDirectory
from pinotpy.segment.immutable import ImmutableSegment, load_segment, open_segment
from pinotpy.server.tables.registry import SegmentRegistry

TABLE = "t_OFFLINE"
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "g", "dataType": "INT"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {},
    }
)
DOCS = 500


class Versions:
    """Builds versions of segments: version w of segment s has DOCS docs, all with g = s and v = w."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, number: int, version: int) -> ImmutableSegment:
        folder = self._folder / str(version)
        if not (folder / f"t_{number}").exists():
            rows = pa.record_batch(
                {"g": pa.array(np.full(DOCS, number, np.int32)), "v": pa.array(np.full(DOCS, version, np.int64))}
            )
            build_segment(SCHEMA, CONFIG, [rows], folder, f"t_{number}")
        return load_segment(folder / f"t_{number}", verify=False)


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path)


QUERY = compile_query(
    parse_sql("SELECT g, SUM(v), MIN(v), MAX(v), COUNT(*) FROM t WHERE v >= 0 GROUP BY g LIMIT 100"),
    SCHEMA,
    QueryOptions(),
    null_handling=False,
)


def test_names_that_are_not_here_are_missing_and_the_rest_is_in_the_order_asked_for(versions: Versions) -> None:
    registry = SegmentRegistry()
    for number in range(3):
        registry.put(TABLE, versions.open(number, 1))
    with registry.acquire(TABLE, ("t_2", "nobody", "t_0")) as acquired:
        assert [segment.name for segment in acquired.segments] == ["t_2", "t_0"]
        assert acquired.missing == ("nobody",)
        assert acquired.segments.total_docs == 2 * DOCS
    with registry.acquire("elsewhere_OFFLINE", ("t_0",)) as acquired:
        assert (len(acquired.segments), acquired.missing) == (0, ("t_0",))
    assert registry.num_docs(TABLE, ("t_1", "nobody")) == DOCS
    registry.close()


def test_a_replaced_segment_closes_when_the_last_query_lets_go(versions: Versions) -> None:
    registry = SegmentRegistry()
    old, new = versions.open(0, 1), versions.open(0, 2)
    registry.put(TABLE, old)
    with registry.acquire(TABLE, ("t_0",)) as first:
        with registry.acquire(TABLE, ("t_0",)) as second:
            registry.put(TABLE, new)
            assert first.segments[0] is old and second.segments[0] is old
        assert not old.close(), "a query still reads it"
        with registry.acquire(TABLE, ("t_0",)) as third:
            assert third.segments[0] is new
        assert execute(QUERY, first.segments, QueryControl()).rows is not None
    assert old.close()
    with registry.acquire(TABLE, ("t_0",)) as held:
        assert registry.remove(TABLE, "t_0") and not registry.remove(TABLE, "t_0")
        assert not new.close()
        assert held.segments[0] is new
    assert new.close() and registry.tables() == []
    registry.close()


def test_an_idle_registry_holds_no_segment_that_was_taken_out(versions: Versions) -> None:
    registry = SegmentRegistry()
    old, other = versions.open(0, 1), versions.open(1, 1)
    registry.put(TABLE, old)
    registry.put(TABLE, other)
    with registry.acquire(TABLE, ("t_0", "t_1")) as acquired:
        execute(QUERY, acquired.segments, QueryControl())
    registry.put(TABLE, versions.open(0, 2))
    assert old.close()
    assert not other.acquire() or other.release() is None  # still open
    registry.close()
    assert other.close()


class WatchedDirectory(ResidentDirectory):
    """Says whether anything still refers to bytes that it has read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(FileDirectory(folder))
        self._read: list[weakref.ref[Any]] = []

    def map(self, name: str) -> NDArray[np.uint8]:
        data = super().map(name)
        assert data.base is not None
        self._read.append(weakref.ref(data.base))
        return data

    @property
    def is_in_memory(self) -> bool:
        return any(reference() is not None for reference in self._read)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


TREES = [{"dimensionsSplitOrder": ["g", "v"], "functionColumnPairs": ["COUNT__*", "SUM__v"], "maxLeafRecords": 1}]
TREE_QUERIES = [
    compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
    for text in (
        "SELECT g, SUM(v) FROM t WHERE v >= 0 GROUP BY g LIMIT 100",
        "SELECT SUM(v) FROM t WHERE g = 3 AND v > 0",  # few segments of many
        "SELECT g, v FROM t WHERE g = 3 ORDER BY v LIMIT 3",
    )
]


@pytest.mark.parametrize("trees", [[], TREES], ids=["rows", "trees"])
@pytest.mark.parametrize("asked", [40, 34], ids=["all", "a part"])
def test_bytes_of_segments_that_were_replaced_are_let_go_of_at_once(
    tmp_path: Path, no_collection: None, trees: list[dict[str, Any]], asked: int
) -> None:
    config = TableConfig.from_json({**CONFIG.to_json_dict(), "tableIndexConfig": {"starTreeIndexConfigs": trees}})
    registry, names = SegmentRegistry(), [f"t_{number}" for number in range(40)]
    for number, name in enumerate(names):
        docs = number % 20
        batch = pa.record_batch({"g": pa.array(np.full(docs, number, np.int32)), "v": pa.array(np.arange(docs))})
        build_segment(SCHEMA, config, [batch], tmp_path, name)
    versions: list[list[WatchedDirectory]] = []
    for _ in range(3):
        versions.append([WatchedDirectory(tmp_path / name) for name in names])
        for directory in versions[-1]:
            registry.put(TABLE, open_segment(directory, verify=False))
        for query in TREE_QUERIES:
            with registry.acquire(TABLE, names[:asked]) as acquired:
                found = execute(query, acquired.segments, QueryControl())
            assert found.statistics.num_docs_scanned > 0 and not found.exceptions
        assert not any(one.is_in_memory for version in versions[:-1] for one in version)
    registry.close()
    assert not any(one.is_in_memory for version in versions for one in version)


def answer(registry: SegmentRegistry, names: tuple[str, ...]) -> dict[int, int]:
    """The version of every group; asserts that each was seen whole."""
    with registry.acquire(TABLE, names) as acquired:
        for row, segment in enumerate(acquired.segments):
            assert (acquired.segments.column("v").metas[row] == segment.column("v").meta).all()
        rows = execute(QUERY, acquired.segments, QueryControl()).rows
    assert rows is not None
    found = {}
    for row in rows.to_pylist():
        assert row["a1_min"] == row["a2_max"] and row["a3_count"] == DOCS and row["a0_sum"] == DOCS * row["a1_min"], row
        found[row["k0"]] = row["a1_min"]
    return found


def test_what_is_known_of_columns_follows_the_segments(versions: Versions) -> None:
    registry = SegmentRegistry()
    names = tuple(f"t_{number}" for number in range(4))
    for number in range(3):
        registry.put(TABLE, versions.open(number, 1))
    assert answer(registry, names) == {0: 1, 1: 1, 2: 1}
    registry.put(TABLE, versions.open(3, 7))
    assert answer(registry, names) == {0: 1, 1: 1, 2: 1, 3: 7}
    registry.remove(TABLE, "t_0")
    assert answer(registry, names) == {1: 1, 2: 1, 3: 7}
    registry.put(TABLE, versions.open(1, 3))
    registry.put(TABLE, versions.open(2, 4))
    assert answer(registry, names) == {1: 3, 2: 4, 3: 7}
    assert answer(registry, names[2:]) == {2: 4, 3: 7}
    registry.close()


def test_queries_see_every_version_whole_while_segments_are_replaced(versions: Versions) -> None:
    registry = SegmentRegistry()
    numbers, last_version = range(4), 12
    for number in numbers:
        registry.put(TABLE, versions.open(number, 1))
    names = tuple(f"t_{number}" for number in numbers)
    done = threading.Event()
    faults: list[str] = []
    seen: set[int] = set()

    def ask() -> None:
        before = dict.fromkeys(numbers, 1)
        while not done.is_set():
            try:
                now = answer(registry, names)
                assert now.keys() == before.keys() and all(now[number] >= before[number] for number in numbers), (
                    before,
                    now,
                )
            except BaseException as fault:
                faults.append(repr(fault))
                raise
            seen.update(now.values())
            before = now

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 300
    for version in range(2, last_version + 1):
        for number in numbers:
            registry.put(TABLE, versions.open(number, version))
        while version not in seen and not faults and time.monotonic() < deadline:
            threading.Event().wait(0.001)
    done.set()
    for thread in threads:
        thread.join(60)
    assert not faults, faults[:3]
    assert seen >= set(range(2, last_version + 1))
    registry.close()
