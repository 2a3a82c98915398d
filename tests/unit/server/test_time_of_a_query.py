"""Proves that a server gives a query the time that its request names, through the same dispatcher as calls over the
network: all of it and no more, and never more than the server's own limit. The clock stands still; what a query was
given is read where it is executed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.clock import ManualClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.scalar import text_shape
from pinotpy.kernels.runtime import abi
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl
from pinotpy.rpc.dispatch import Dispatcher
from pinotpy.rpc.wire import ServerRequest, encode_request
from pinotpy.server import query_runs

SERVER_LIMIT_MS = 600_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    schema = Schema.from_json({"schemaName": "t", "metricFieldSpecs": [{"name": "n", "dataType": "INT"}]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {},
            "metadata": {},
        }
    )
    built = InProcessCluster(tmp_path)
    built.add_table(schema, config, [[pa.record_batch({"n": pa.array(range(10), pa.int32())})]])
    built.broker.limits = type(built.broker.limits)(timeout_ms=10 * SERVER_LIMIT_MS)
    yield built
    built.close()


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(5, 5), (150, 150), (200, 200), (1_000, 1_000), (3 * SERVER_LIMIT_MS, SERVER_LIMIT_MS)]
)
def test_a_query_has_the_time_that_it_asked_for(
    cluster: InProcessCluster, asked_ms: int, given_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = next(iter(cluster.services.values()))
    clock = ManualClock()
    deadlines_ms: list[float] = []

    def execute(context: Any, segments: Any, control: QueryControl, **_: Any) -> PartialResult:
        deadlines_ms.append((int(control.words[abi.C_DEADLINE_NS]) - clock.monotonic_ns()) / 1e6)
        control.words[abi.C_DEADLINE_NS] = 0  # the kernels know no other clock than the machine's
        return executed(context, segments, control, **_)

    executed = query_runs.execute
    monkeypatch.setattr(query_runs, "execute", execute)
    monkeypatch.setattr(cluster.broker, "clock", clock)
    monkeypatch.setattr(service, "_clock", clock)
    dispatcher = Dispatcher(service.handle, service.cancel)

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        answer = await asyncio.to_thread(
            dispatcher.serve, encode_request(request), token=None, deadline_s=max(timeout_s, 60.0), peer="test"
        )
        return PartialResult.from_bytes(answer)

    monkeypatch.setattr(cluster.broker, "send", send)
    answer = cluster.pql("SELECT SUM(n) FROM t WHERE n > 3", query_options=f"timeoutMs={asked_ms}")
    assert answer["exceptions"] == [] and answer["aggregationResults"][0]["value"] == "39.00000"
    assert deadlines_ms == [given_ms]


@pytest.mark.parametrize(
    "pql",
    [
        "SELECT {} FROM t",
        "SELECT n FROM t ORDER BY {}",
        "SELECT COUNT(*) FROM t GROUP BY {}",
        "SELECT COUNT(*) FROM t WHERE {} = 'x'",
        "SELECT MAX(LENGTH({})) FROM t",
    ],
)
def test_a_query_whose_time_is_up_ends_before_its_next_function(
    cluster: InProcessCluster, pql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    controls, lengths = list[QueryControl](), list[int]()

    def execute(context: Any, segments: Any, control: QueryControl, **_: Any) -> PartialResult:
        controls.append(control)
        return executed(context, segments, control, **_)

    def expect_late(units: int, function: str) -> None:
        lengths.append(units)
        controls[-1].words[abi.C_DEADLINE_NS] = 1
        expect(units, function)

    executed, expect = query_runs.execute, text_shape.expect_length
    monkeypatch.setattr(query_runs, "execute", execute)
    monkeypatch.setattr(text_shape, "expect_length", expect_late)
    (problem,) = cluster.pql(pql.format("REPEAT(REPEAT(n, 3), 5)"))["exceptions"]
    assert problem["errorCode"] == 250, problem
    assert set(lengths) == {3}, "the inner function alone was called"
