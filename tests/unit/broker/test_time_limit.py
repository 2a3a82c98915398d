"""Proves: a query that asks for more time than it may have is warned in every form of answer, and a time-out names the
limit that bound: the option, the table's, the broker's, the server's. The clock moves only when the test says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.time_limit import time_limit
from pinotpy.clock import ManualClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import ServerNotRespondingError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import QueryException
from pinotpy.query.runtime.control import timeout_error
from pinotpy.server import query_runs

TEXT = "SELECT SUM(n) FROM t WHERE n > 3"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
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
    built = InProcessCluster(tmp_path_factory.mktemp("limits"))
    built.add_table(schema, config, [[pa.record_batch({"n": pa.array(range(10), pa.int32())})]])
    built.broker.limits = replace(built.broker.limits, timeout_ms=10_000)
    yield built
    built.close()


@pytest.mark.parametrize("dialect", Dialect)
def test_a_query_that_asks_for_more_time_than_there_is_is_warned(cluster: InProcessCluster, dialect: Dialect) -> None:
    for asked_ms, is_cut in ((60_000, True), (10_001, True), (10_000, False)):
        answer = cluster.ask(TEXT, dialect, query_options=f"timeoutMs={asked_ms}")
        expected = (
            [
                f"the option timeoutMs was cut from {asked_ms} to 10000 ms: the setting pinot.broker.timeoutMs allows "
                "no more"
            ]
            if is_cut
            else None
        )
        assert answer.get("warnings") == expected
        assert answer["exceptions"] == []
    assert "warnings" not in cluster.ask(TEXT, dialect)
    arrow = cluster.ask_arrow(TEXT, dialect, query_options="timeoutMs=60000")
    assert len(arrow.warnings) == 1 and arrow.exactness == "exact"


# option, table's, broker's, server's limit → what the error names, and what it does not
@pytest.mark.parametrize(
    ("option_ms", "table_ms", "server_ms", "named", "is_cut"),
    [
        (None, None, 60_000, "raise the setting pinot.broker.timeoutMs (10000 ms)", False),
        (700, None, 60_000, "raise the option timeoutMs (700 ms); the option may be at most 10000", False),
        (
            60_000,
            None,
            60_000,
            "raise the setting pinot.broker.timeoutMs (10000 ms), which bounds the option timeoutMs (60000 ms)",
            True,
        ),
        (None, 800, 60_000, "raise query.timeoutMs of the table (800 ms); the option may be at most 10000", False),
        (
            90_000,
            20_000,
            60_000,
            "raise query.timeoutMs of the table (20000 ms), which bounds the option timeoutMs (90000 ms)",
            True,
        ),
        (None, None, 3_000, "raise the setting pinot.server.query.executor.timeout of the server (3000 ms)", False),
        (60_000, None, 3_000, "raise the setting pinot.server.query.executor.timeout of the server (3000 ms)", True),
    ],
)
@pytest.mark.parametrize("dialect", Dialect)
def test_a_time_out_names_the_limit_that_bound(
    cluster: InProcessCluster, dialect: Dialect, option_ms: int | None, table_ms: int | None, server_ms: int,
    named: str, is_cut: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clock = ManualClock()
    (service,) = cluster.services.values()

    def late(*_: Any, **__: Any) -> Any:
        raise timeout_error()

    monkeypatch.setattr(cluster.broker, "clock", clock)
    monkeypatch.setattr(service, "_clock", clock)
    monkeypatch.setattr(service, "_limits", replace(service._limits, timeout_ms=server_ms))
    monkeypatch.setattr(query_runs, "execute", late)
    monkeypatch.setitem(cluster.catalog.targets, "t", replace(cluster.catalog.targets["t"], timeout_ms=table_ms))
    answer = cluster.ask(TEXT, dialect, query_options="" if option_ms is None else f"timeoutMs={option_ms}")
    (exception,) = answer["exceptions"]
    assert exception["errorCode"] == 250
    assert exception["message"].endswith(f"make it more selective, or {named}")
    assert bool(answer.get("warnings")) is is_cut


def test_time_that_is_up_in_the_broker_names_the_limit_too(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()

    async def send(*_: Any) -> Any:
        clock.advance(701)
        return await sent(*_)

    sent = cluster.broker.send
    monkeypatch.setattr(cluster.broker, "clock", clock)
    monkeypatch.setattr(cluster.broker, "send", send)
    (exception,) = cluster.sql(TEXT, query_options="timeoutMs=700")["exceptions"]
    assert exception["errorCode"] == 250 and "while its answer was written" in exception["message"]
    assert exception["message"].endswith("or raise the option timeoutMs (700 ms); the option may be at most 10000")


def test_a_server_that_does_not_answer_in_time_is_the_only_fault(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()

    async def send(server: str, _: Any, timeout_s: float) -> Any:
        clock.advance(round(timeout_s * 1000))
        raise ServerNotRespondingError(f"{server} did not answer within {timeout_s * 1000:.0f} ms", server=server)

    monkeypatch.setattr(cluster.broker, "clock", clock)
    monkeypatch.setattr(cluster.broker, "send", send)
    monkeypatch.setattr(cluster.broker, "quarantine", {})
    late, *others = cluster.sql(TEXT, query_options="timeoutMs=100")["exceptions"]
    assert late["errorCode"] == 427 and {one["errorCode"] for one in others} <= {305}
    assert "did not answer in the query's time: raise the option timeoutMs (100 ms)" in late["message"]


def test_other_faults_are_left_as_they_are() -> None:
    limit = time_limit(5, 10)
    faults = [QueryException(150, "no query"), QueryException(427, "Server_a did not answer within 5 ms")]
    assert [one.message for one in limit.named_in(faults)] == [
        "no query",
        "Server_a did not answer within 5 ms: raise the option timeoutMs (5 ms); the option may be at most 10",
    ]
