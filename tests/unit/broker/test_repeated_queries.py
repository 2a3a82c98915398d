"""Proves that a text that is asked again crosses to servers as the name of a template, that no answer changes by it,
and that numbers of all rows are never waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.wire import KIND_OFFSET, RequestKind

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "n", "dataType": "INT"},
            {"name": "s", "dataType": "STRING"},
            {"name": "d", "dataType": "DOUBLE"},
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
    }
)
TEXTS = (
    "SELECT COUNT(*) FROM t",
    "SELECT SUM(n), MAX(d) FROM t WHERE n BETWEEN 5 AND 1200 AND s <> 'it''s 3'",
    "SELECT s, COUNT(*) FILTER (WHERE n > 7), SUM(CASE WHEN n > 100 THEN 2 ELSE 3 END) FROM t WHERE d > 2.5 GROUP BY "
    "s ORDER BY s",
    "SELECT n FROM t WHERE n + 1 = 77 OR n IN (3, 4, 3) OR NOT (d < 740.5) ORDER BY n LIMIT 9",
    "SELECT DISTINCT s FROM t WHERE s LIKE '%s 5' OR REGEXP_LIKE(s, '1$') ORDER BY s",
    "EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE n = 8",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path, num_servers=2)

    def rows(part: int) -> list[pa.RecordBatch]:
        numbers = range(part * 1_000, (part + 1) * 1_000)
        columns = {
            "n": pa.array(numbers, pa.int32()),
            "s": [f"it's {n % 7}" for n in numbers],
            "d": [n / 4 for n in numbers],
        }
        return [pa.RecordBatch.from_pydict(columns)]

    cluster.add_table(SCHEMA, CONFIG, [rows(part) for part in range(3)])
    yield cluster
    cluster.close()


def asked(cluster: InProcessCluster, text: str) -> dict[str, Any]:
    answer = cluster.ask(text, Dialect.SQL)
    return {
        key: value
        for key, value in answer.items()
        if key not in ("requestId", "timeUsedMs", "brokerReduceTimeMs") and "CpuTime" not in key
    }


@pytest.fixture
def kinds(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> list[RequestKind]:
    """How requests crossed to the servers."""
    found: list[RequestKind] = []
    call = cluster._sender._call

    async def watched(server: ServerAddress, content: bytes, timeout_s: float) -> bytes:
        found.append(RequestKind(content[KIND_OFFSET]))
        return await call(server, content, timeout_s)

    monkeypatch.setattr(cluster._sender, "_call", watched)
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_a_repeated_text_crosses_by_name_and_answers_the_same(
    cluster: InProcessCluster, kinds: list[RequestKind], text: str
) -> None:
    first = asked(cluster, text)
    assert first["exceptions"] == [] and set(kinds) == {RequestKind.QUERY}
    for _ in range(3):
        kinds.clear()
        assert asked(cluster, text) == first
        assert set(kinds) == {RequestKind.BOUND}


def test_a_text_that_reads_the_clock_crosses_whole(cluster: InProcessCluster, kinds: list[RequestKind]) -> None:
    for _ in range(3):
        assert asked(cluster, "SELECT COUNT(*) FROM t WHERE n < now()")["resultTable"]["rows"] == [[3_000]]
    assert set(kinds) == {RequestKind.QUERY}


def test_another_schema_makes_what_was_kept_void(cluster: InProcessCluster) -> None:
    text = "SELECT COUNT(*) FROM t WHERE n > 2990"
    target = cluster.catalog.targets["t"]
    retyped = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [
                {"name": "n", "dataType": "INT"},
                {"name": "s", "dataType": "JSON"},
                {"name": "d", "dataType": "DOUBLE"},
            ],
        }
    )
    without_n = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]})
    for schema in (SCHEMA, retyped, SCHEMA.model_copy()):
        cluster.catalog.targets["t"] = replace(target, schema=schema)
        for _ in range(3):
            assert asked(cluster, text)["resultTable"]["rows"] == [[9]]
    cluster.catalog.targets["t"] = replace(target, schema=without_n)
    for _ in range(3):
        assert [e["errorCode"] for e in asked(cluster, text)["exceptions"]] == [710]


def test_a_number_of_all_rows_waits_for_no_place_among_queries_that_run(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinotpy.server.query_service.QUICK_DOCS_MAX", 10)
    for text in (TEXTS[0], TEXTS[1]):
        for _ in range(3):
            asked(cluster, text)
    with ExitStack() as held:
        for service in cluster.services.values():
            for _ in range(8):
                held.enter_context(service._scheduler.slot(time.monotonic_ns() + 10**10))
        answer = cluster.ask(TEXTS[0], Dialect.SQL)
        assert answer["exceptions"] == [] and answer["resultTable"]["rows"] == [[3_000]]
