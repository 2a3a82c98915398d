"""Proves on real servers in this process that a broker measures them with every request and asks those that it prefers,
also for what it shows of its routing. Time is virtual: a call takes as long as the test says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.parts import EVERY_TABLE, Question
from pinotpy.broker.routed_query import route_query
from pinotpy.broker.routing.server_statistics import AdaptiveRules, ServerStatistics
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.clock import ManualClock
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import OutOfCapacityError, PinotError, QueryExecutionError, ServerUnreachableError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest

SCHEMA = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "INT"}]})
CONFIG = TableConfig.from_json({"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {}, "tableIndexConfig": {}})
A, B = "Server_test_0", "Server_test_1"


class Measured:
    """Two servers that both have four segments of ten rows; what each call took, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.cluster = InProcessCluster(folder, num_servers=2)
        rows = [pa.RecordBatch.from_pydict({"n": pa.array(range(10), pa.int32())})]
        names = self.cluster.add_table(SCHEMA, CONFIG, [rows] * 4)
        registries = list(self.cluster.registries.values())
        for registry in registries:
            for other in registries:
                for segment in other.segments("t_OFFLINE").values():
                    registry.put("t_OFFLINE", segment)
        self.cluster.catalog.targets["t"] = Target(
            "t", SCHEMA, (Half(TableRouting("t_OFFLINE", dict.fromkeys(names, (A, B)))),)
        )
        self.clock = ManualClock()
        self.took_ms = {A: 10, B: 10}
        self.failures: dict[str, PinotError] = {}
        self.calls: Counter[str] = Counter()
        self.cluster.broker.clock = self.clock
        self.cluster.broker.send = self._send

    def measures(self, kind: AdaptiveType) -> None:
        self.cluster.broker.servers = ServerStatistics(AdaptiveRules(kind, True))

    def latency_of(self, server: str) -> float:
        return self.cluster.broker.servers.shown(self.clock.monotonic_ns())[server]["adaptiveServerLatencyEma"]

    async def _send(self, server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        self.calls[server] += 1
        partial = await self.cluster._send(server, request, timeout_s)
        self.clock.advance(self.took_ms[server])
        if server in self.failures:
            raise self.failures[server]
        return partial

    def ask(self) -> bool:
        """Whether the answer is complete and right."""
        answer = self.cluster.pql("SELECT COUNT(*) FROM t")
        return not answer["exceptions"] and answer["aggregationResults"][0]["value"] == "40"

    def routed(self) -> set[str]:
        shown = asyncio.run(route_query(self.cluster.broker, Question("SELECT n FROM t", Dialect.SQL), EVERY_TABLE))
        return set(shown["t_OFFLINE"])


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    measured = Measured(tmp_path)
    yield measured
    measured.cluster.close()


def test_a_broker_that_only_measures_asks_all_in_turn(measured: Measured) -> None:
    measured.measures(AdaptiveType.NO_OP)
    measured.took_ms[A] = 500
    assert all(measured.ask() for _ in range(10))
    assert measured.calls == {A: 10, B: 10} and measured.routed() == {A, B}
    assert measured.latency_of(A) > 490 and measured.latency_of(B) > 9
    shown = measured.cluster.broker.servers.shown(measured.clock.monotonic_ns())
    assert [each["adaptiveServerNumInFlightRequests"] for each in shown.values()] == [0, 0]


@pytest.mark.parametrize("kind", [AdaptiveType.LATENCY, AdaptiveType.HYBRID])
def test_the_faster_replica_is_asked_and_the_other_one_again_when_it_is_forgotten(
    measured: Measured, kind: AdaptiveType
) -> None:
    measured.measures(kind)
    measured.took_ms[A] = 500
    assert all(measured.ask() for _ in range(20))
    assert measured.calls[A] <= 2 and measured.calls[B] >= 18 and measured.routed() == {B}
    measured.took_ms = {A: 10, B: 300}
    measured.clock.advance(120_000)
    measured.calls.clear()
    assert all(measured.ask() for _ in range(20))
    assert measured.calls[B] <= 4 and measured.routed() == {A}


@pytest.mark.parametrize(
    "failure", [ServerUnreachableError("connection refused"), OutOfCapacityError("too many queries")], ids=repr
)
def test_a_server_that_fails_fast_attracts_no_queries(measured: Measured, failure: PinotError) -> None:
    measured.measures(AdaptiveType.LATENCY)
    measured.took_ms = {A: 0, B: 50}
    measured.failures[A] = failure
    for _ in range(5):
        measured.ask()
    assert measured.latency_of(A) > 1_000, "what was left of the query's time"
    measured.calls.clear()
    assert measured.ask() and measured.calls == {B: 1}


def test_an_error_of_the_query_itself_says_nothing_of_its_server(measured: Measured) -> None:
    measured.measures(AdaptiveType.LATENCY)
    for server in (A, B):
        measured.failures[server] = QueryExecutionError("a bad argument")
    assert not any(measured.ask() for _ in range(5))
    assert {measured.latency_of(server) for server in measured.calls} == {1.0}
    shown = measured.cluster.broker.servers.shown(measured.clock.monotonic_ns())
    assert all(each["adaptiveServerNumInFlightRequests"] == 0 for each in shown.values())
