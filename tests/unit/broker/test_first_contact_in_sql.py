"""Proves what SQL answers to the texts that people bring from other databases: DECIMAL rounds and is checked, instants
are written with TIMESTAMP, CURRENT_TIMESTAMP and offsets, LIMIT ALL means all rows; and numbers that no DOUBLE holds
are refused where they would be computed with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.client.parameters import literal
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """Twelve rows: id, delay = id, an instant a day, and the first instant as text."""
    built = InProcessCluster(tmp_path_factory.mktemp("contact"))
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "delay", "dataType": "DOUBLE"},
            {"name": "text", "dataType": "STRING"},
            {"name": "raw", "dataType": "BYTES"},
        ],
        "dateTimeFieldSpecs": [
            {"name": "ts", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
        ],
    }
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True},
        "metadata": {},
    }
    rows = pa.record_batch(
        {
            "id": pa.array(range(12), pa.int32()),
            "delay": pa.array(map(float, range(12))),
            "text": pa.array(["2023-11-14 22:13:20"] * 12),
            "raw": pa.array([bytes([0x12, row]) for row in range(12)]),
            "ts": pa.array([START_MS + row * DAY_MS for row in range(12)], pa.int64()),
        }
    )
    built.add_table(Schema.from_json(schema), TableConfig.from_json(config), [[rows]])
    yield built
    built.close()


def rows_of(cluster: InProcessCluster, text: str) -> list[list[Any]]:
    answer = cluster.sql(text)
    assert not answer["exceptions"], answer["exceptions"]
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


def fault_of(cluster: InProcessCluster, text: str) -> str:
    (exception,) = cluster.sql(text)["exceptions"]
    return str(exception["message"])


@pytest.mark.parametrize(
    "cast",
    [
        "CAST(1.25 AS DECIMAL(10,1))",
        "CAST(-1.25 AS DECIMAL(10,1))",
        "CAST(2.5 AS DECIMAL(3))",
        "CAST('1.25' AS NUMERIC(10,1))",
        "CAST(0.04 AS DECIMAL(1,1))",
        "CAST(99.94 AS DECIMAL(3,1))",
        "7::DECIMAL(5,2)",
    ],
)
def test_decimal_rounds_as_duckdb_does(cluster: InProcessCluster, cast: str) -> None:
    (expected,) = duckdb.sql(f"SELECT {cast}").fetchall()
    ((found,),) = rows_of(cluster, f"SELECT {cast} FROM t LIMIT 1")
    assert float(found) == float(expected[0])
    assert len(found.partition(".")[2]) <= 2


def test_decimal_rounds_columns_in_every_clause(cluster: InProcessCluster) -> None:
    assert rows_of(cluster, "SELECT CAST(delay / 3 AS DECIMAL(10,1)) FROM t ORDER BY id LIMIT 4") == [
        ["0"],
        ["0.3"],
        ["0.7"],
        ["1"],
    ]
    assert rows_of(cluster, "SELECT COUNT(*) FROM t WHERE CAST(delay / 3 AS DECIMAL(10,1)) = 0.3") == [[1]]
    assert rows_of(cluster, "SELECT CAST(SUM(delay) / 7 AS DECIMAL(10,2)) FROM t") == [["9.43"]]
    assert len(rows_of(cluster, "SELECT CAST(delay / 3 AS DECIMAL(10,0)), COUNT(*) FROM t GROUP BY 1 LIMIT 20")) == 5
    assert rows_of(cluster, "SELECT CAST(1.25 AS DECIMAL) FROM t LIMIT 1") == [["1.25"]]


def test_a_number_with_too_many_digits_is_told(cluster: InProcessCluster) -> None:
    said = fault_of(cluster, "SELECT id::DECIMAL(1) FROM t LIMIT 20")
    assert "10 does not fit DECIMAL(1,0), which has 1 digit before the point" in said
    assert "does not fit DECIMAL(3,1)" in fault_of(cluster, "SELECT CAST(99.96 AS DECIMAL(3,1)) FROM t")


def test_numbers_that_no_double_holds_are_compared_and_not_computed_with(cluster: InProcessCluster) -> None:
    assert rows_of(cluster, "SELECT COUNT(*) FROM t WHERE id < 1e400 AND delay > -1e400") == [[12]]
    for text, column in (
        ("SELECT 1e400 FROM t", 8),
        ("SELECT id + 1e400 FROM t", 13),
        ("SELECT ABS(-1e400) FROM t", 12),
    ):
        said = fault_of(cluster, text)
        assert "(DOUBLE), found" in said and f"line 1, column {column}" in said


def test_limit_all_takes_every_row(cluster: InProcessCluster) -> None:
    for text in (
        "SELECT id FROM t LIMIT ALL",
        "SELECT id FROM t ORDER BY id DESC LIMIT ALL",
        "SELECT DISTINCT id FROM t LIMIT ALL",
        "SELECT id, COUNT(*) FROM t GROUP BY id LIMIT ALL",
    ):
        assert len(rows_of(cluster, text)) == 12
        assert "warnings" not in cluster.sql(text)
    assert len(rows_of(cluster, "SELECT id FROM t ORDER BY id LIMIT ALL OFFSET 3")) == 9


def test_limit_all_ends_at_the_brokers_limit_and_says_so(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.broker, "limits", replace(cluster.broker.limits, response_rows_max=5))
    answer = cluster.sql("SELECT delay FROM t LIMIT ALL")
    assert len(answer["resultTable"]["rows"]) == 5
    assert answer["warnings"] == [
        "only 5 rows are shown, as many as pinot.broker.query.response.limit allows; there may be more"
    ]


def test_bytes_are_bytes(cluster: InProcessCluster) -> None:
    """As parameters of clients write them."""
    assert literal(b"\x12\x05") == "x'1205'"
    for condition, count in (
        ("raw = x'1205'", 1),
        ("raw <> X'1205'", 11),
        (f"raw IN {literal([b'', bytes([0x12, 1])])}", 1),
        ("raw BETWEEN x'1202' AND x'1204'", 3),
        ("bytesToHex(x'1205') = '1205'", 12),
    ):
        assert rows_of(cluster, f"SELECT COUNT(*) FROM t WHERE {condition}") == [[count]]
    for condition in ("id = x'1205'", "text = x'1205'", "id IN (x'12')", "delay BETWEEN x'00' AND x'ff'"):
        assert "is compared with the bytes x'" in fault_of(cluster, f"SELECT COUNT(*) FROM t WHERE {condition}")


COUNTS = {
    "ts > TIMESTAMP '2023-11-20 00:00:00'": 6,
    "ts > TIMESTAMP '2023-11-20 01:00:00+02'": 6,
    "ts = '2023-11-14 23:13:20+01:00'": 1,
    "ts = TIMESTAMP '2023-11-14 16:43:20-0530'": 1,
    "ts - 86400000 > TIMESTAMP '2023-11-20 00:00:00'": 5,
    "text = TIMESTAMP '2023-11-14 22:13:20'": 12,
    "now() > TIMESTAMP '2024-01-01 00:00:00'": 12,
    "TIMESTAMP '2024-01-01 00:00:00' > now()": 0,
    "ts < current_timestamp AND ts < CURRENT_TIMESTAMP() AND ts < localtimestamp": 12,
    "ts < CURRENT_DATE AND CURRENT_DATE <= now() AND CURRENT_DATE + 86400000 > now()": 12,
    "DATEDIFF('DAY', ts, TIMESTAMP '2024-01-01 00:00:00') > 45": 2,
    "EXTRACT(YEAR FROM TIMESTAMP '2024-01-01 00:00:00') = 2024": 12,
    "CASE WHEN ts > TIMESTAMP '2023-11-20 00:00:00' THEN 1 ELSE 0 END = 1": 6,
}


@pytest.mark.parametrize(("condition", "count"), COUNTS.items(), ids=list(COUNTS))
def test_instants_are_written_as_elsewhere(cluster: InProcessCluster, condition: str, count: int) -> None:
    for _ in range(2):
        assert rows_of(cluster, f"SELECT COUNT(*) FROM t WHERE {condition}") == [[count]]


def test_a_text_that_is_no_instant_names_the_form(cluster: InProcessCluster) -> None:
    said = fault_of(cluster, "SELECT COUNT(*) FROM t WHERE ts > TIMESTAMP 'yesterday'")
    assert "Cannot convert value: 'yesterday' to type: TIMESTAMP of column 'ts'" in said
    assert "expected a time such as 2020-02-29 23:59:59.5" in said and "+02:00" in said
