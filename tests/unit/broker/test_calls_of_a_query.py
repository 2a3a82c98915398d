"""Proves what a broker asks of servers: calls of one query to one server have numbers of their own, so that ending one
(a hedge that lost) never ends another; both halves of a hybrid table are asked at once; and a query out of time says
250.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import ServerUnreachableError
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment

SCHEMA = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "INT"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
WAIT_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    """Four segments of ten rows, all on both servers."""
    cluster = InProcessCluster(tmp_path, num_servers=2)
    names = cluster.add_table(
        SCHEMA, CONFIG, [[pa.RecordBatch.from_pydict({"n": pa.array(range(10), pa.int32())})] for _ in range(4)]
    )
    registries = list(cluster.registries.values())
    for registry in registries:
        for other in registries:
            for segment in other.segments("t_OFFLINE").values():
                registry.put("t_OFFLINE", segment)
    routing = TableRouting("t_OFFLINE", {name: tuple(cluster.registries) for name in names})
    cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(routing),))
    yield cluster
    cluster.close()


def test_a_second_call_to_a_server_has_a_number_of_its_own(cluster: InProcessCluster) -> None:
    calls: list[tuple[str, int, tuple[str, ...]]] = []
    dead, alive = cluster.registries

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        calls.append((server, request.request_id, request.segment_names))
        if server == dead:
            raise ServerUnreachableError(f"connection to '{server}' refused")
        return await cluster._send(server, request, timeout_s)

    cluster.broker.send = send
    answer = cluster.pql("SELECT COUNT(*) FROM t")
    assert answer["exceptions"] == [] and answer["aggregationResults"][0]["value"] == "40"
    numbers = [number for server, number, _ in calls if server == alive]
    assert len(numbers) == len(set(numbers)) == 2, calls
    assert answer["numServersQueried"] == answer["numServersResponded"] == 1 and answer["partialResult"] is False


def test_a_query_whose_time_is_up_before_anybody_is_asked_says_250(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        asked.append(server)
        raise AssertionError("asked without time")

    class LateClock:
        """Each look at it is a second later."""

        now_ns = 0

        def monotonic_ns(self) -> int:
            self.now_ns += 1_000_000_000
            return self.now_ns

        def now_ms(self) -> int:
            return 0

    cluster.broker.send = send
    monkeypatch.setattr(cluster.broker, "clock", LateClock())
    answer = cluster.pql("SELECT COUNT(*) FROM t", query_options="timeoutMs=1")
    assert {e["errorCode"] for e in answer["exceptions"]} == {250} and not asked
    assert "aggregationResults" not in answer and answer["partialResult"] is True


def test_both_halves_of_a_hybrid_table_are_asked_at_once(tmp_path: Path) -> None:
    """Each server answers only when the other was asked as well: in turn, none would ever answer."""
    hybrid = InProcessCluster(tmp_path, num_servers=2)
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(10), pa.int32())})
    halves = []
    for server, table in zip(hybrid.registries, ("t_OFFLINE", "t_REALTIME"), strict=True):
        name = f"of_{server}"
        build_segment(SCHEMA, CONFIG, [rows], tmp_path, name)
        hybrid.registries[server].put(table, load_segment(tmp_path / name))
        halves.append(Half(TableRouting(table, {name: (server,)})))
    hybrid.catalog.targets["t"] = Target("t", SCHEMA, tuple(halves))
    asked = {server: asyncio.Event() for server in hybrid.registries}

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        asked[server].set()
        async with asyncio.timeout(WAIT_S):
            for event in asked.values():
                await event.wait()
        return await hybrid._send(server, request, timeout_s)

    hybrid.broker.send = send
    answer = hybrid.sql("SELECT COUNT(*) FROM t")
    assert answer["exceptions"] == [] and answer["resultTable"]["rows"] == [[20]]
    assert answer["numServersResponded"] == 2
    hybrid.close()
