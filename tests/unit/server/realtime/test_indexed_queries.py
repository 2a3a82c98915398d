"""Proves that queries which indexes answer are answered alike by rows of a stream that are not sealed, without them:
JSON_MATCH, TEXT_MATCH, equality of a column with a Bloom filter, ranges, a sorted column, and groups that a star-tree
has. The oracle is the same rows in a sealed segment, and what Python counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from consuming_registry import ReadLog, filled_log
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

NUM_ROWS, CHUNK_ROWS = 755, 100
SEGMENT = "t__0__0__20260101T0000Z"
DIMENSIONS = [{"name": name, "dataType": kind} for name, kind in (
    ("kind", "STRING"), ("note", "STRING"), ("doc", "JSON"), ("bloom", "STRING"), ("day", "INT"),
)]  # fmt: skip
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": DIMENSIONS,
        "metricFieldSpecs": [{"name": "id", "dataType": "LONG"}],
    }
)


def config(name: str) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": name,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {
                "sortedColumn": ["day"],
                "jsonIndexColumns": ["doc"],
                "bloomFilterColumns": ["bloom"],
                "rangeIndexColumns": ["id"],
                "noDictionaryColumns": ["note"],
                "starTreeIndexConfigs": [
                    {"dimensionsSplitOrder": ["kind"], "functionColumnPairs": ["COUNT__*", "SUM__id"]}
                ],
            },
            "fieldConfigList": [{"name": "note", "encodingType": "RAW", "indexType": "TEXT"}],
        }
    )


ROWS: list[dict[str, Any]] = [
    {
        "kind": f"k{row % 7}",
        "note": f"order {row} of customer number{row % 13}",
        "doc": json.dumps({"a": row % 5, "tags": [f"t{row % 3}", "all"]}),
        "bloom": f"b{row % 200}",
        "day": row // 50,
        "id": 2 * row,
    }
    for row in range(NUM_ROWS)
]
BATCH = pa.RecordBatch.from_pylist(
    ROWS, pa.schema([(spec.name, spec.data_type.arrow) for spec in SCHEMA.field_specs.values()])
)
# Condition → which rows it takes.
CONDITIONS: dict[str, Any] = {
    """JSON_MATCH(doc, '"$.a" = ''3''')""": lambda row: row % 5 == 3,
    """JSON_MATCH(doc, '"$.tags[*]" = ''t1'' AND "$.a" = ''2''')""": lambda row: row % 3 == 1 and row % 5 == 2,
    """JSON_MATCH(doc, '"$.none" IS NOT NULL')""": lambda row: False,
    "TEXT_MATCH(note, 'number7')": lambda row: row % 13 == 7,
    "TEXT_MATCH(note, 'number7 AND customer') AND kind = 'k1'": lambda row: row % 13 == 7 and row % 7 == 1,
    "bloom = 'b199'": lambda row: row % 200 == 199,
    "bloom = 'b200'": lambda row: False,
    "bloom IN ('b1', 'b2', 'nobody')": lambda row: row % 200 in (1, 2),
    "id BETWEEN 301 AND 905": lambda row: 301 <= 2 * row <= 905,
    "day = 9": lambda row: row // 50 == 9,
    "kind = 'k3'": lambda row: row % 7 == 3,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("indexed"), threads=2)
    (server,) = cluster.registries
    cluster.add_table(SCHEMA, config("sealed"), [[BATCH]])
    log = filled_log(SCHEMA, config("t"), [BATCH], chunk_rows=CHUNK_ROWS, batch_rows=60, segment_name=SEGMENT)
    read = ReadLog(log, "t_OFFLINE")
    cluster.registries[server].partitions = lambda table: {0: read} if table == "t_OFFLINE" else {}
    routing = TableRouting("t_OFFLINE", {SEGMENT: (server,)}, ((SEGMENT,),))
    cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(routing),))
    view = read.piece_view()
    assert len(view.frozen) >= 7 and len(view.tail) == 1
    yield cluster
    cluster.close()


@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_a_condition_takes_the_same_rows(cluster: InProcessCluster, condition: str) -> None:
    expected = [row for row in range(NUM_ROWS) if CONDITIONS[condition](row)]
    for table in ("t", "sealed"):
        answer = cluster.sql(f"SELECT id FROM {table} WHERE {condition} ORDER BY id LIMIT 1000")
        assert not answer["exceptions"], answer
        assert [ids for (ids,) in answer["resultTable"]["rows"]] == [2 * row for row in expected], table
        answer = cluster.sql(f"SELECT COUNT(*), SUM(id) FROM {table} WHERE {condition}")
        count, total = answer["resultTable"]["rows"][0]
        assert count == len(expected) and (not expected or total == sum(2 * row for row in expected)), table


def test_groups_that_a_star_tree_has_are_the_same(cluster: InProcessCluster) -> None:
    text = "SELECT kind, COUNT(*), SUM(id) FROM {} GROUP BY kind ORDER BY kind LIMIT 10"
    of_log, sealed = (cluster.sql(text.format(table))["resultTable"]["rows"] for table in ("t", "sealed"))
    expected = [
        [f"k{kind}", len(rows), sum(2 * row for row in rows)]
        for kind in range(7)
        for rows in (range(kind, NUM_ROWS, 7),)
    ]
    assert of_log == sealed == expected
