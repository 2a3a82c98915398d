"""Proves what a trace says: per server and for the broker the text of a JSON list of stages, whose times add up and
whose row counts are those of the answer's counters; and that nothing is there unless it was asked for.
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

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "word", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}],
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
ROWS = pa.record_batch(
    {
        "word": pa.array([f"w{i % 40}" for i in range(5000)]),
        "n": pa.array([i * 7 % 1000 for i in range(5000)], pa.int32()),
    }
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    built.add_table(SCHEMA, CONFIG, [[ROWS], [ROWS], [ROWS]])
    yield built
    built.close()


def traces(answer: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    assert answer["exceptions"] == []
    found = answer["traceInfo"]
    assert all(isinstance(text, str) for text in found.values()), "clients of the reference read text"
    return {name: json.loads(text) for name, text in found.items()}


def by_operator(stages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """All stages of a tree by operator, checking that a parent takes no less time than its children together."""
    found: dict[str, dict[str, Any]] = {}
    for stage in stages:
        assert isinstance(stage["timeMs"], float) and stage["timeMs"] >= 0
        children = stage.get("children", [])
        if stage["operator"] != "SCAN":  # wall time over the time of all threads
            assert sum(child["timeMs"] for child in children) <= stage["timeMs"] + 0.01
        found |= {stage["operator"]: stage} | by_operator(children)
    return found


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("SELECT SUM(n) FROM t WHERE n > 500", "AGGREGATION"),
        ("SELECT SUM(n) FROM t WHERE n > 500 GROUP BY word", "GROUP_BY"),
        ("SELECT word, n FROM t WHERE n > 500 LIMIT 100000", "SELECTION"),
        ("SELECT word, n FROM t WHERE n > 500 ORDER BY word, n LIMIT 7", "SELECTION"),
        ("SELECT DISTINCT(word) FROM t WHERE n > 500 LIMIT 100", "DISTINCT"),
    ],
)
def test_every_server_and_the_broker_tell_their_stages(cluster: InProcessCluster, text: str, operator: str) -> None:
    answer = cluster.pql(text, trace=True)
    found = traces(answer)
    assert set(found) == {"Server_test_0", "Server_test_1", "broker"}
    docs = 0
    for server in ("Server_test_0", "Server_test_1"):
        stages = by_operator(found[server])
        assert {"WAIT", "EXECUTE", "PLAN", "SCAN", "FILTER", "PROJECT", "COMBINE", operator} <= set(stages)
        scan = stages["SCAN"]
        assert (
            scan["docsOut"] == stages["FILTER"]["docsOut"] == stages["PROJECT"]["docsIn"] == stages[operator]["docsIn"]
        )
        assert scan["docsIn"] == stages["EXECUTE"]["totalDocs"] == stages["EXECUTE"]["segments"] * 5000
        assert stages["COMBINE"]["rowsOut"] == stages[operator]["rowsOut"] > 0
        docs += scan["docsOut"]
    assert docs == answer["numDocsScanned"] == 3 * sum(n > 500 for n in ROWS.column("n").to_pylist())
    broker = [stage["operator"] for stage in found["broker"]]
    assert broker == ["PARSE", "ROUTE", "COMPILE", "WAIT", "SCATTER", "MERGE", "REDUCE", "WRITE"]
    stages = by_operator(found["broker"])
    assert stages["SCATTER"]["servers"] == 2 and stages["WRITE"]["bytesOut"] > 100
    assert stages["MERGE"]["rowsOut"] >= stages["REDUCE"]["rowsOut"]


def test_what_planning_answers_is_not_scanned(cluster: InProcessCluster) -> None:
    found = traces(cluster.pql("SELECT COUNT(*) FROM t", trace=True))
    stages = by_operator(found["Server_test_0"])
    assert "SCAN" not in stages and stages["AGGREGATION"]["docsIn"] == stages["EXECUTE"]["totalDocs"]
    stages = by_operator(traces(cluster.pql("SELECT SUM(n) FROM t WHERE n > 5000", trace=True))["Server_test_0"])
    assert stages["PLAN"]["segmentsIn"] == stages["EXECUTE"]["segments"] and stages["PLAN"]["segmentsOut"] == 0


@pytest.mark.parametrize(
    ("text", "fields", "on"),
    [
        ("SELECT COUNT(*) FROM t", {}, False),
        ("SELECT COUNT(*) FROM t", {"trace": True}, True),
        ("SELECT COUNT(*) FROM t OPTION(trace=TRUE)", {}, True),
        ("SELECT COUNT(*) FROM t OPTION(trace=yes)", {}, False),
        ("SELECT COUNT(*) FROM t OPTION(Trace=true)", {}, False),
        ("SELECT COUNT(*) FROM t OPTION(trace=false)", {"trace": True}, False),
        ("SELECT COUNT(*) FROM t", {"query_options": "trace=true"}, True),
    ],
)
def test_a_trace_is_there_when_it_was_asked_for(
    cluster: InProcessCluster, text: str, fields: dict[str, Any], on: bool
) -> None:
    for ask in (cluster.pql, cluster.sql):
        assert bool(ask(text, **fields)["traceInfo"]) is on


def test_a_query_that_fails_is_traced_as_far_as_it_came(cluster: InProcessCluster) -> None:
    answer = cluster.pql("SELECT nosuch FROM t", trace=True)
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [710]
    assert [stage["operator"] for stage in json.loads(answer["traceInfo"]["broker"])] == ["PARSE", "ROUTE", "WRITE"]
    answer = cluster.pql("SELECT SUM(n) FROM t WHERE n = 'x'", trace=True)
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [200]
    (_, executing) = json.loads(answer["traceInfo"]["Server_test_0"])
    assert executing["operator"] == "EXECUTE" and [child["operator"] for child in executing["children"]] == ["PLAN"]
