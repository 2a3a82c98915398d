"""Proves that system tables answer as tables do: the same engine filters, groups and sorts their rows, SHOW and
DESCRIBE mean queries over them, what is not known is null, and EXPLAIN ANALYZE answers the plan with what the run
measured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.parts import EVERY_TABLE
from pinotpy.broker.query_log import QueryLog
from pinotpy.config.schema import Schema
from pinotpy.config.settings import BrokerSettings, load_settings
from pinotpy.config.table import TableConfig
from pinotpy.errors import ServerUnreachableError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest

CONFIG = {"tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "tableIndexConfig": {}}
TRIPS = {
    "schemaName": "trips",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING", "notNull": True, "defaultNullValue": "nowhere"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fare", "dataType": "DOUBLE"}],
}
ROWS = pa.RecordBatch.from_pydict({"city": ["a", "b", "a"], "tags": [["x"], ["y"], ["z"]], "fare": [1.0, 2.0, 3.0]})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    for name in ("trips", "stops"):
        schema = Schema.from_json({**TRIPS, "schemaName": name})
        built.add_table(schema, TableConfig.from_json({**CONFIG, "tableName": name}), [[ROWS], [ROWS.slice(0, 1)]])
    yield built
    built.close()


def rows_of(cluster: InProcessCluster, text: str, **fields: Any) -> list[list[Any]]:
    answer = cluster.sql(text, **fields)
    assert answer["exceptions"] == [] and answer["exactness"] == "exact", answer
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT column_name FROM information_schema.columns WHERE table_name = '{}' ORDER BY 1", 3),
        ("SELECT column_name FROM information_schema.columns WHERE table_name IN ('x', '{}') LIMIT 50", 3),
        ("SHOW TABLES LIKE '{}'", 1),
    ],
)
def test_texts_that_differ_in_literals_have_their_own_answers(
    cluster: InProcessCluster, text: str, expected: int
) -> None:
    """From the third text of a shape on it is known as a template."""
    for name in ("trips", "stops", "trips", "stops", "nowhere", "elsewhere", "trips"):
        rows = rows_of(cluster, text.format(name))
        assert len(rows) == (expected if name in ("trips", "stops") else 0), (text, name)
        if text.startswith("SHOW"):
            assert rows in ([], [[name]])


def test_show_tables_lists_what_the_cluster_has(cluster: InProcessCluster) -> None:
    assert rows_of(cluster, "SHOW TABLES") == [["stops"], ["trips"]]
    assert rows_of(cluster, "show tables like 'tr%'") == [["trips"]]


def test_describe_shows_columns_in_the_order_of_the_schema(cluster: InProcessCluster) -> None:
    described = [
        ["city", "STRING", "NO", "nowhere", "DIMENSION", False],
        ["tags", "STRING", "YES", None, "DIMENSION", True],
        ["fare", "DOUBLE", "YES", None, "METRIC", False],
    ]
    assert rows_of(cluster, "DESCRIBE TRIPS") == rows_of(cluster, "SHOW COLUMNS IN default.trips") == described
    names = [row[0] for row in rows_of(cluster, "DESC system.segments")]
    defaults = (
        "SELECT column_name FROM information_schema.columns WHERE column_default IS NULL AND table_name = 'trips'"
    )
    assert rows_of(cluster, defaults) == [["tags"], ["fare"]]
    assert names[:4] == ["table_name", "table_type", "table_name_with_type", "segment_name"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("DESCRIBE tripz", 190),
        ("DESC system.nothing", 190),
        ("SHOW NOTHING", 150),
        ("SELECT x FROM system.tables", 710),
    ],
)
def test_what_is_not_there_is_an_error_like_a_table_s(cluster: InProcessCluster, text: str, code: int) -> None:
    assert [each["errorCode"] for each in cluster.sql(text)["exceptions"]] == [code]


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("information_schema.tabels", "; did you mean 'information_schema.tables'?"),
        ("infromation_schema.COLUMNS", "; did you mean 'information_schema.columns'?"),
        ("system.segmnts", "; did you mean 'system.segments'?"),
        ("segmnts", ""),
        ("x.y", ""),
    ],
)
def test_a_near_name_is_told(cluster: InProcessCluster, table: str, hint: str) -> None:
    for text in (f"SELECT * FROM {table}", f"DESCRIBE {table}"):
        (error,) = cluster.sql(text)["exceptions"]
        assert error["message"] == f"TableDoesNotExistError: no table '{table}'{hint}"
    (error,) = cluster.pql("SELECT COUNT(*) FROM system.segmnts")["exceptions"]
    assert "did you mean" not in error["message"]


def test_the_engine_filters_groups_and_sorts_them(cluster: InProcessCluster) -> None:
    grouped = (
        "SELECT table_name, COUNT(*), SUM(docs), COUNT(bytes) FROM system.segments WHERE state = 'ONLINE' AND docs > 0 "
        "GROUP BY table_name HAVING SUM(docs) > 1 ORDER BY table_name DESC"
    )
    assert rows_of(cluster, grouped) == [["trips", 2, 4.0, 0], ["stops", 2, 4.0, 0]]
    strings = (
        "SELECT table_name, ordinal_position FROM information_schema.columns WHERE table_schema = 'default' AND "
        "data_type = 'STRING' AND column_name LIKE 't%' ORDER BY table_name"
    )
    assert rows_of(cluster, strings) == [["stops", 2], ["trips", 2]]
    assert rows_of(cluster, "SELECT bytes, docs FROM system.tables WHERE table_name = 'trips'") == [[None, 4]]


def test_nulls_are_nulls_whatever_the_broker_is_set_to(cluster: InProcessCluster) -> None:
    broker = cluster.broker
    limits, broker.limits = broker.limits, replace(broker.limits, null_handling=False)
    try:
        assert rows_of(cluster, "SELECT COUNT(*) FROM system.segments WHERE bytes IS NULL") == [[4]]
    finally:
        broker.limits = limits


def test_instances_are_those_of_the_cluster(cluster: InProcessCluster) -> None:
    asked = "SELECT instance_name, role, is_alive, segments FROM system.instances ORDER BY instance_name"
    assert rows_of(cluster, asked) == [["Server_test_0", "SERVER", True, 2], ["Server_test_1", "SERVER", True, 2]]


def test_another_server_runs_the_query_where_one_is_gone(cluster: InProcessCluster) -> None:
    send = cluster.broker.send
    asked: list[str] = []

    async def half_alive(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        asked.append(server)
        if len(asked) == 1:
            raise ServerUnreachableError(f"server '{server}' is gone", server=server)
        return await send(server, request, timeout_s)

    cluster.broker.send = half_alive
    try:
        assert rows_of(cluster, "SHOW TABLES") == [["stops"], ["trips"]]
    finally:
        cluster.broker.send = send
        cluster.broker.quarantine.clear()
    assert sorted(asked) == ["Server_test_0", "Server_test_1"]


def test_queries_are_in_the_log_with_what_they_cost(cluster: InProcessCluster) -> None:
    cluster.sql("SELECT city FROM trips WHERE fare > 2.5 -- marked")
    cluster.sql("SELECT nothing FROM trips -- marked")
    cluster.pql("SELECT city FROM trips LIMIT 2 -- marked")
    asked = (
        "SELECT dialect, status, error_code, num_rows, segments_queried, segments_pruned_by_server, total_docs, "
        "table_name FROM system.queries WHERE query LIKE '%-- marked' ORDER BY start_time, request_id"
    )
    first, second, third = rows_of(cluster, asked)
    assert first == ["SQL", "OK", None, 1, 2, 1, 4, "trips"]
    assert second[:4] == ["SQL", "ERROR", 710, 0]
    assert third[:4] == ["PQL", "OK", None, 2]


def test_the_log_has_the_bytes_of_answers_and_what_the_broker_left_out(tmp_path: Path) -> None:
    """In its file as in system.queries: of five segments of a day each, the broker leaves out those without a row."""
    file = tmp_path / "queries.jsonl"
    log = QueryLog.of(
        load_settings(BrokerSettings, overrides={"query_log_file": file}, environment={}), lambda count: None
    )
    log.start()
    cluster = InProcessCluster(tmp_path / "cluster", num_servers=2, prunes=True, query_log=log)
    day = {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
    schema = {"schemaName": "stays", "dateTimeFieldSpecs": [day], "metricFieldSpecs": TRIPS["metricFieldSpecs"]}
    config = {**CONFIG, "tableName": "stays", "segmentsConfig": {"replication": "1", "timeColumnName": "day"}}
    days = [
        pa.RecordBatch.from_pydict({"day": pa.array([18_000 + number] * 4, pa.int32()), "fare": [0.0, 1.0, 2.0, 3.0]})
        for number in range(5)
    ]
    cluster.add_table(Schema.from_json(schema), TableConfig.from_json(config), [[rows] for rows in days])
    # Text → segments that the broker leaves out, that it asks for, that servers leave out, that are read.
    expected = {
        "SELECT fare FROM stays WHERE day = 18002 LIMIT 100": (4, 1, 0, 1),
        "SELECT SUM(fare) FROM stays WHERE day >= 18003": (3, 2, 0, 2),
        "SELECT SUM(fare) FROM stays": (0, 5, 0, 5),
        # No record knows these values: servers look at the segments' own.
        "SELECT COUNT(*) FROM stays WHERE day = 18002 AND fare > 100": (4, 1, 1, 0),
    }
    try:
        sizes = []
        for text, (left_out, num_asked, _, _) in expected.items():
            answer = asyncio.run(answer_query(cluster.broker, Question(text, Dialect.SQL), EVERY_TABLE))
            assert isinstance(answer, bytes)
            told = json.loads(answer)
            assert (told["numSegmentsPrunedByBroker"], told["numSegmentsQueried"]) == (left_out, num_asked), told
            sizes.append(len(answer))
        arrow = cluster.ask_arrow("SELECT fare FROM stays LIMIT 20").to_arrow()
        shown = rows_of(
            cluster,
            "SELECT query, response_bytes, segments_pruned_by_broker, segments_queried, segments_pruned_by_server, "
            "segments_processed FROM system.queries ORDER BY start_time, request_id LIMIT 100",
        )
    finally:
        cluster.close()
        log.stop()
    assert [tuple(row) for row in shown[:-1]] == [
        (text, size, *counts) for (text, counts), size in zip(expected.items(), sizes, strict=True)
    ]
    assert shown[-1][1] == arrow.nbytes == 20 * 8
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    columns = (
        "query", "response_bytes", "segments_pruned_by_broker", "segments_queried", "segments_pruned_by_server",
        "segments_processed",
    )  # fmt: skip
    assert [[line[name] for name in columns] for line in lines[: len(shown)]] == shown


def test_explain_analyze_answers_the_plan_and_what_was_measured(cluster: InProcessCluster) -> None:
    text = "SELECT city, COUNT(*) FROM trips WHERE fare > 1.5 GROUP BY city"
    planned = [row[0] for row in rows_of(cluster, f"EXPLAIN PLAN FOR {text}")]
    answer = cluster.sql(f"EXPLAIN ANALYZE {text}")
    shown = [row[0] for row in answer["resultTable"]["rows"]]
    assert shown[: len(planned)] == planned and shown[len(planned)] == "ANALYZE_START"
    numbers = answer["explain"]["analyze"]
    plain = cluster.sql(text)
    assert numbers["segments"] == {
        "queried": 2, "prunedByBroker": 0, "prunedByServer": 1, "ofThemByBloomFilter": 0, "ofThemByPartition": 0,
        "processed": 1, "matched": 1,
    }  # fmt: skip
    assert numbers["rows"]["returned"] == len(plain["resultTable"]["rows"]) == 2
    assert numbers["rows"]["selected"] == plain["numDocsScanned"] and numbers["bytes"]["fromServers"] > 0
    assert {"PARSE", "SCATTER"} <= numbers["brokerPhasesMs"].keys() and len(numbers["serverPhasesMs"]) == 2


def test_explain_analyze_of_what_is_wrong_says_where(cluster: InProcessCluster) -> None:
    (error,) = cluster.sql("EXPLAIN ANALYZE SELECT nothing FROM trips")["exceptions"]
    assert error["errorCode"] == 710 and "line 1, column 24" in error["message"]


def test_pql_has_none_of_it(cluster: InProcessCluster) -> None:
    codes = [cluster.pql(text)["exceptions"][0]["errorCode"] for text in ("SHOW TABLES", "SELECT a FROM system.tables")]
    assert codes == [150, 410]
    assert cluster.pql("SELECT COUNT(*) FROM trips")["exceptions"] == []


def test_arrow_clients_get_a_table(cluster: InProcessCluster) -> None:
    assert cluster.ask_arrow("SELECT table_name FROM system.tables ORDER BY table_name").rows == [["stops"], ["trips"]]
    explained = cluster.ask_arrow("EXPLAIN ANALYZE SELECT COUNT(*) FROM trips").rows
    assert any(row[0].startswith("ANALYZE_TIME(totalMs:") for row in explained)
