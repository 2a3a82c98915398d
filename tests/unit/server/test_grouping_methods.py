"""Proves that a grouping method that a query forces reaches the servers, in both dialects; that traces, EXPLAIN and the
metric name it; and that brokers and servers refuse what is no method and what cannot serve.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.segment.shared_codes.cache import SharedDictionaries

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}, {"name": "n", "dataType": "LONG"}],
    }
)
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
SQL = "SELECT s, SUM(n) FROM t GROUP BY s ORDER BY s LIMIT 100"
SERVES = [method for method in GroupingMethod if method is not GroupingMethod.TEXT_DIRECT_TABLE]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("cluster"))
    parts = [
        pa.RecordBatch.from_pydict({"s": [f"text {i % (7 + part)}" for i in range(300)], "n": list(range(300))})
        for part in range(3)
    ]
    cluster.add_table(SCHEMA, CONFIG, [[part] for part in parts])
    for service in cluster.services.values():
        service._runs._dictionaries = SharedDictionaries()
    yield cluster
    cluster.close()


def _counted(cluster: InProcessCluster, method: GroupingMethod) -> float:
    (service,) = cluster.services.values()
    start = f'pinot_server_groupings_total{{method="{method.value}"}} '
    lines = service._metrics._metrics.render().decode().splitlines()
    return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def _stages(answer: dict[str, Any]) -> list[dict[str, Any]]:
    (text,) = [text for server, text in answer["traceInfo"].items() if server != "broker"]
    waiting, found = json.loads(text), []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(found[-1].get("children", []))
    return found


@pytest.mark.parametrize("method", SERVES, ids=lambda method: method.name)
def test_a_forced_method_runs_on_the_servers_and_is_named(cluster: InProcessCluster, method: GroupingMethod) -> None:
    usual = cluster.sql(SQL)["resultTable"]["rows"]
    before = _counted(cluster, method)
    answer = cluster.sql(f"SET groupingMethod = '{method.name.lower()}'; {SQL}", trace=True)
    assert answer["resultTable"]["rows"] == usual and len(usual) == 9
    assert [one["groupingMethod"] for one in _stages(answer) if one["operator"] == "GROUP_BY"] == [method.value]
    assert _counted(cluster, method) == before + 1
    explained = cluster.sql(f"SET groupingMethod = '{method.name}'; EXPLAIN PLAN FOR {SQL}")
    assert method.value in json.dumps(explained)


def test_pql_forces_a_method_too(cluster: InProcessCluster) -> None:
    answer = cluster.pql("SELECT SUM(n) FROM t GROUP BY s TOP 100 OPTION(groupingMethod=HASH_TABLE)", trace=True)
    assert len(answer["aggregationResults"][0]["groupByResult"]) == 9
    assert "hash table" in [one.get("groupingMethod") for one in _stages(answer)]


@pytest.mark.parametrize("explain", ["", "EXPLAIN PLAN FOR "])
def test_a_method_that_cannot_serve_is_refused_by_the_server(cluster: InProcessCluster, explain: str) -> None:
    (error,) = cluster.sql(f"SET groupingMethod = 'text_direct_table'; {explain}{SQL}")["exceptions"]
    assert error["errorCode"] == 700
    assert "groupingMethod=TEXT_DIRECT_TABLE cannot serve this query: the key is no raw text" in error["message"]


def test_a_name_of_no_method_is_refused_by_the_broker(cluster: InProcessCluster) -> None:
    (error,) = cluster.sql(SQL, query_options="groupingMethod=sorted")["exceptions"]
    assert error["errorCode"] == 700 and "RADIX_PARTITION, got: sorted" in error["message"]
