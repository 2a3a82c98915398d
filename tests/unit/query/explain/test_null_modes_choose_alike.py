"""Proves that the mode of nulls costs nothing where there are none: over segments without stored nulls, of a table
that keeps null vectors, EXPLAIN tells the same in both modes, whatever answers (metadata, dictionaries, a star-tree,
indexes, each way of grouping and of sorting), and as many docs and entries are read. Kernels that sort get the same
instructions. A segment with nulls changes that for its own column alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.order import top_n
from pinotpy.query.plan.instruction_cache import plan_of_set
from pinotpy.query.segments.segment_set import SegmentSet

DOCS = 600
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "enableColumnBasedNullHandling": True,
        "dimensionFieldSpecs": [
            {"name": "day", "dataType": "INT"},
            {"name": "kind", "dataType": "STRING"},
            {"name": "user", "dataType": "LONG"},
            {"name": "note", "dataType": "STRING"},
        ],
        "metricFieldSpecs": [{"name": "cost", "dataType": "LONG"}, {"name": "x", "dataType": "DOUBLE"}],
    }
)
INDEXING: dict[str, Any] = {
    "nullHandlingEnabled": True,
    "invertedIndexColumns": ["kind"],
    "rangeIndexColumns": ["user"],
    "noDictionaryColumns": ["x", "note"],
    "bloomFilterColumns": ["user"],
}
TREE = {
    "dimensionsSplitOrder": ["kind", "day"],
    "functionColumnPairs": ["SUM__cost", "MAX__cost", "DISTINCTCOUNTHLL__user"],
    "maxLeafRecords": 1,
}
QUERIES = [
    "SELECT COUNT(*) FROM t",
    "SELECT MIN(cost), MAX(cost), DISTINCTCOUNT(kind) FROM t",
    "SELECT DISTINCTCOUNTHLL(user) FROM t",
    "SELECT SUM(cost), AVG(x) FROM t",
    "SELECT SUM(cost + 1) FROM t WHERE day > 3",
    "SELECT SUM(cost) FROM t WHERE kind = 'k1'",
    "SELECT SUM(cost) FROM t WHERE NOT (kind = 'k1' OR user > 40)",
    "SELECT COUNT(*) FROM t WHERE user = 7",
    "SELECT COUNT(*) FROM t WHERE day BETWEEN 2 AND 4 AND note LIKE '%1'",
    "SELECT COUNT(*) FROM t WHERE day IS NOT NULL",
    "SELECT COUNT(*) FROM t WHERE x IS NULL",
    "SELECT day, SUM(cost) FROM t GROUP BY day",
    "SELECT kind, day, SUM(cost), MAX(cost) FROM t WHERE kind <> 'k2' GROUP BY kind, day",
    "SELECT kind, DISTINCTCOUNTHLL(user) FROM t GROUP BY kind",
    "SELECT x, COUNT(*) FROM t GROUP BY x",
    "SELECT note, user, SUM(x) FROM t GROUP BY note, user",
    "SELECT day + 1, DISTINCTCOUNT(user), PERCENTILE(cost, 90) FROM t GROUP BY day + 1",
    "SELECT DISTINCT kind, day FROM t",
    "SELECT kind, x FROM t ORDER BY day, note DESC LIMIT 5",
    "SELECT kind FROM t ORDER BY x LIMIT 5",
    "SELECT * FROM t WHERE kind IN ('k1', 'k3') LIMIT 7",
]
COUNTERS = ("numDocsScanned", "numEntriesScannedInFilter", "numEntriesScannedPostFilter", "numSegmentsProcessed")


def batch(number: int, nulls: str = "") -> pa.RecordBatch:
    places = [number * DOCS + i for i in range(DOCS)]
    columns = {
        "day": pa.array([i // 100 for i in places], pa.int32()),
        "kind": pa.array([f"k{i % 5}" for i in places]),
        "user": pa.array([i % 97 for i in places], pa.int64()),
        "note": pa.array([f"note {i % 31}" for i in places]),
        "cost": pa.array([i * 7 % 1000 for i in places], pa.int64()),
        "x": pa.array([i * 0.5 for i in places]),
    }
    if nulls:
        kind = columns[nulls].type
        columns[nulls] = pa.array([None if i % 9 == 0 else v for i, v in enumerate(columns[nulls].to_pylist())], kind)
    return pa.record_batch(columns)


def config(*, tree: bool) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": INDEXING | ({"starTreeIndexConfigs": [TREE]} if tree else {}),
            "metadata": {},
        }
    )


@pytest.fixture(scope="module", params=[False, True], ids=["rows", "star-tree"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("alike"))
    built.add_table(SCHEMA, config(tree=request.param), [[batch(0)], [batch(1)]])
    yield built
    built.close()


@pytest.mark.parametrize("text", QUERIES)
def test_without_nulls_both_modes_are_answered_in_the_same_way(cluster: InProcessCluster, text: str) -> None:
    def ask(asked: str, mode: str) -> dict[str, Any]:
        answer = cluster.sql(asked, query_options=f"enableNullHandling={mode}")
        assert answer["exceptions"] == [], answer
        return answer

    # Where there are no nulls, COUNT of a column counts rows.
    plans = [
        str(ask(f"EXPLAIN PLAN FOR {text}", mode)["resultTable"]["rows"]).replace("count(cost)", "count(*)")
        for mode in ("true", "false")
    ]
    assert plans[0] == plans[1]
    answers = [ask(text, mode) for mode in ("true", "false")]
    assert answers[0]["resultTable"] == answers[1]["resultTable"]
    assert [answers[0][name] for name in COUNTERS] == [answers[1][name] for name in COUNTERS]


def test_kernels_that_sort_keep_a_place_for_nulls_only_of_columns_that_have_some(tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("sorted")
    built = InProcessCluster(folder)
    try:
        (name, other) = built.add_table(SCHEMA, config(tree=False), [[batch(0)], [batch(1, nulls="day")]])
        (registry,) = built.registries.values()
        for names, keys_with_nulls in (((name,), 0), ((name, other), 1)):
            with registry.acquire("t_OFFLINE", names) as held:
                segments = SegmentSet(list(held.segments))
                words = {}
                for null_handling in (True, False):
                    text = "SELECT kind FROM t ORDER BY day, cost DESC LIMIT 5"
                    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
                    plan = plan_of_set(context, segments)
                    kinds = top_n._make(plan)
                    sections = plan.take_sections()
                    words[null_handling] = len(kinds), sum(part.size_bytes for _, part in sections)
                assert words[True][0] == words[False][0] + keys_with_nulls
                assert (words[True] == words[False]) is (keys_with_nulls == 0)
    finally:
        built.close()
