"""Proves that the warning of stored nulls that count as values is true with and without pruning by the broker: it is
about the segments that were read.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig


@pytest.mark.parametrize(
    ("text", "pruned", "whole"),
    [
        ("SELECT SUM(late) FROM t WHERE id >= 0", 3, 3),
        ("SELECT SUM(late) FROM t WHERE day = 2", 1, 1),  # servers leave out the same
        ("SELECT SUM(late) FROM t WHERE day NOT IN (1, 9)", 1, 3),  # records prove it to the broker alone
        ("SELECT SUM(late) FROM t WHERE day NOT IN (2, 9)", 2, 3),
        ("SELECT SUM(late) FROM t WHERE day = 2 AND id = 3", 1, 1),  # of a segment, not of the row that passes
    ],
)
def test_counted_are_the_nulls_of_the_segments_that_are_read(
    text: str, pruned: int, whole: int, tmp_path: Path
) -> None:
    """So the words are true with and without pruning by the broker, though it may read less. One segment has two nulls,
    the other one.
    """
    specs = [{"name": "id", "dataType": "INT"}, {"name": "late", "dataType": "INT"}]
    day = {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "day"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["day"]},
        "metadata": {},
    }
    cluster = InProcessCluster(tmp_path, num_servers=2, prunes=True)
    rows = pa.record_batch(
        {
            "id": pa.array(range(6), pa.int32()),
            "late": pa.array([None, None, 5, 6, 7, None], pa.int32()),
            "day": pa.array([1, 1, 1, 2, 2, 2], pa.int32()),
        }
    )
    schema = {"schemaName": "t", "dimensionFieldSpecs": specs, "dateTimeFieldSpecs": [day]}
    cluster.add_table(Schema.from_json(schema), TableConfig.from_json(config), [[rows.slice(0, 3)], [rows.slice(3, 3)]])
    try:
        answers = [
            cluster.sql(text, query_options=f"enableNullHandling=false{more}")
            for more in ("", ";skipBrokerPruning=true")
        ]
    finally:
        cluster.close()
    assert answers[0]["resultTable"]["rows"] == answers[1]["resultTable"]["rows"]
    for answer, count in zip(answers, (pruned, whole), strict=True):
        assert answer["warnings"] == [
            f"stored nulls count as their column's default value: up to {count} of column 'late' in the segments that "
            "were read; set enableNullHandling=true, and they are nulls"
        ]
