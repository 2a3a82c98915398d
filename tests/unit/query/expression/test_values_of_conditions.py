"""Conditions as values: their nulls are Kleene's, literals are read as in WHERE; now() is one moment for a whole
query.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

ROWS = 40
INTS = [None if n % 4 == 0 else n - 20 for n in range(ROWS)]
LONGS = [None if n % 6 == 0 else 20 - n for n in range(ROWS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("conditions"))
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [
                {"name": "i", "dataType": "INT"},
                {"name": "l", "dataType": "LONG"},
                {"name": "b", "dataType": "BOOLEAN"},
            ],
            "dateTimeFieldSpecs": [
                {
                    "name": "ts",
                    "dataType": "TIMESTAMP",
                    "format": "1:MILLISECONDS:TIMESTAMP",
                    "granularity": "1:MILLISECONDS",
                }
            ],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"nullHandlingEnabled": True},
        }
    )
    batch = pa.record_batch(
        {
            "i": pa.array(INTS, pa.int32()),
            "l": pa.array(LONGS, pa.int64()),
            "b": pa.array([n % 3 == 0 for n in range(ROWS)]),
            "ts": pa.array([n * 86_400_000 for n in range(ROWS)], pa.int64()),
        }
    )
    cluster.add_table(schema, config, [[batch.slice(0, 15)], [batch.slice(15)]])
    yield cluster
    cluster.close()


def kleene_or(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


def count(cluster: InProcessCluster, condition: str, options: str = "enableNullHandling=true") -> int:
    answer = cluster.sql(f"SELECT COUNT(*) FROM t WHERE {condition}", query_options=options)
    assert not answer["exceptions"], answer["exceptions"]
    return int(answer["resultTable"]["rows"][0][0])


def test_or_is_null_only_where_neither_side_decides(cluster: InProcessCluster) -> None:
    values = [
        kleene_or(None if i is None else i > 0, None if v is None else v > 0) for i, v in zip(INTS, LONGS, strict=True)
    ]
    parts = [count(cluster, text) for text in ("(i > 0 OR l > 0)", "NOT (i > 0 OR l > 0)", "(i > 0 OR l > 0) IS NULL")]
    assert parts == [values.count(True), values.count(False), values.count(None)]
    assert sum(parts) == ROWS


def test_a_test_for_null_is_never_null(cluster: InProcessCluster) -> None:
    for options in ("enableNullHandling=true", ""):
        assert count(cluster, "(i IS NULL) IS NULL", options) == 0
        assert count(cluster, "((i > 0) IS TRUE) IS NULL", options) == 0


def test_literals_of_conditions_are_read_as_in_where(cluster: InProcessCluster) -> None:
    def total(condition: str) -> float:
        answer = cluster.sql(f"SELECT SUM(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM t")
        assert not answer["exceptions"], answer["exceptions"]
        return float(answer["resultTable"]["rows"][0][0])

    for condition in (
        "b = 'true'",
        "ts > '1970-01-11'",
        "'1970-01-11' < ts",
        "i IS DISTINCT FROM 3",
        "i IS NOT DISTINCT FROM 3",
    ):
        assert total(condition) == count(cluster, condition, ""), condition


def test_now_is_one_moment(cluster: InProcessCluster) -> None:
    assert len(cluster.pql("SELECT COUNT(*) FROM t GROUP BY now()")["aggregationResults"][0]["groupByResult"]) == 1
    assert len(cluster.pql("SELECT DISTINCT(now(), ago('PT1H')) FROM t")["selectionResults"]["results"]) == 1
    assert cluster.sql("SELECT now() - now() FROM t LIMIT 1")["resultTable"]["rows"] == [[0.0]]
    answer = cluster.sql("SELECT COUNT(*) FROM t WHERE ts < ago('P1D') AND NOT (ts > now())")
    assert answer["resultTable"]["rows"] == [[ROWS]]
    assert answer["numEntriesScannedInFilter"] == 0  # ranges over all values: nothing is read


@pytest.mark.parametrize("column", ["i", "l", "add(i, 1)", "sqrt(l)"])
def test_numbers_beyond_doubles_are_infinitely_far(cluster: InProcessCluster, column: str) -> None:
    far = "1" + "0" * 400
    below = count(cluster, f"{column} < {far}", "")
    assert below == count(cluster, f"{column} < 1e300", "") and count(cluster, f"{column} > {far}", "") == 0
