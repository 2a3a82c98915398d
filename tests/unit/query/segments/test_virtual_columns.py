"""Proves that $docId, $segmentName and $hostName are selected, filtered, sorted by, grouped by and aggregated like
other columns, over segments of three, one and eight docs on two servers. Expected: counted by hand from where the rows
lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "a", "dataType": "INT"}]}
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


def rows(first: int, last: int) -> list[pa.RecordBatch]:
    return [
        pa.record_batch(
            {"id": pa.array(range(first, last + 1), pa.int32()), "a": pa.array([7] * (last - first + 1), pa.int32())}
        )
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """ids 1..3 in t_0000, 4 in t_0001, 5..12 in t_0002."""
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    assert built.add_table(SCHEMA, CONFIG, [rows(1, 3), rows(4, 4), rows(5, 12)]) == ["t_0000", "t_0001", "t_0002"]
    yield built
    built.close()


H = "localhost"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT $docId, $segmentName, $hostName FROM t WHERE id IN (3, 4, 5) ORDER BY id",
        [[2, "t_0000", H], [0, "t_0001", H], [0, "t_0002", H]]),
        ("SELECT id FROM t WHERE $docId = 0 ORDER BY id", [[1], [4], [5]]),
        ("SELECT id FROM t WHERE $docId BETWEEN 1 AND 2 ORDER BY id", [[2], [3], [6], [7]]),
        ("SELECT id FROM t WHERE $docId IN (1, 7) ORDER BY id", [[2], [6], [12]]),
        ("SELECT COUNT(*) FROM t WHERE $docId <> 0", [[9]]),
        ("SELECT COUNT(*) FROM t WHERE NOT $docId > 2", [[7]]),
        ("SELECT id FROM t WHERE $docId + 1 = 2 ORDER BY id", [[2], [6]]),
        ("SELECT id FROM t WHERE $segmentName = 't_0001'", [[4]]),
        ("SELECT COUNT(*) FROM t WHERE $segmentName IN ('t_0001', 't_0002', 'nosuch')", [[9]]),
        ("SELECT COUNT(*) FROM t WHERE regexp_like($segmentName, '000[12]$')", [[9]]),
        ("SELECT COUNT(*) FROM t WHERE $segmentName > 't_0000' AND $hostName = 'localhost'", [[9]]),
        ("SELECT COUNT(*) FROM t WHERE $hostName = 'elsewhere'", [[0]]),
        ("SELECT id FROM t ORDER BY $segmentName DESC, $docId DESC LIMIT 3", [[12], [11], [10]]),
        ("SELECT id FROM t ORDER BY $docId, id LIMIT 5", [[1], [4], [5], [2], [6]]),
        ("SELECT $segmentName, COUNT(*), MAX($docId), SUM($docId) FROM t GROUP BY $segmentName ORDER BY $segmentName",
         [["t_0000", 3, 2.0, 3.0], ["t_0001", 1, 0.0, 0.0], ["t_0002", 8, 7.0, 28.0]]),
        ("SELECT $docId, COUNT(*) FROM t GROUP BY $docId ORDER BY $docId LIMIT 4", [[0, 3], [1, 2], [2, 2], [3, 1]]),
        ("SELECT $docId, $segmentName, COUNT(*) FROM t WHERE $docId > 5 GROUP BY $docId, $segmentName ORDER BY "
         "$docId", [[6, "t_0002", 1], [7, "t_0002", 1]]),
        ("SELECT upper($segmentName), COUNT(*) FROM t GROUP BY upper($segmentName) ORDER BY 1",
        [["T_0000", 3], ["T_0001", 1], ["T_0002", 8]]),
        ("SELECT COUNT(*), MIN($docId), MAX($docId), AVG($docId), DISTINCTCOUNT($docId), DISTINCTCOUNT($segmentName) "
         "FROM t",
         [[12, 0.0, 7.0, 31 / 12, 8, 3]]),
        ("SELECT DISTINCT $segmentName, $hostName FROM t ORDER BY $segmentName",
        [["t_0000", H], ["t_0001", H], ["t_0002", H]]),
        ("SELECT * FROM t WHERE id = 4", [[7, 4]]),
    ],
)  # fmt: skip
def test_virtual_columns_are_columns(cluster: InProcessCluster, text: str, expected: list[list[Any]]) -> None:
    answer = cluster.sql(text)
    assert answer["exceptions"] == []
    assert answer["resultTable"]["rows"] == expected


def test_pql_shows_them_as_text_and_in_groups(cluster: InProcessCluster) -> None:
    answer = cluster.pql("SELECT $docId, $segmentName FROM t WHERE id = 12")
    assert answer["selectionResults"] == {"columns": ["$docId", "$segmentName"], "results": [["7", "t_0002"]]}
    (groups,) = cluster.pql("SELECT SUM($docId) FROM t GROUP BY $segmentName")["aggregationResults"]
    assert groups["function"] == "sum_$docId" and groups["groupByColumns"] == ["$segmentName"]
    assert groups["groupByResult"] == [
        {"value": "28.00000", "group": ["t_0002"]},
        {"value": "3.00000", "group": ["t_0000"]},
        {"value": "0.00000", "group": ["t_0001"]},
    ]


def test_a_segment_s_name_prunes_the_others(cluster: InProcessCluster) -> None:
    answer = cluster.sql("SELECT COUNT(*) FROM t WHERE $segmentName = 't_0001'")
    assert (answer["numSegmentsPrunedByServer"], answer["numDocsScanned"], answer["numEntriesScannedInFilter"]) == (
        2,
        1,
        0,
    )
