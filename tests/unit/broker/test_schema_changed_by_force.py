"""Proves that a query over segments that store a column in another form than the schema now has is refused by name,
and that segments that were built anew are answered: kernels would read numbers as offsets of texts, and end the server.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "timeColumnName": "day"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {},
    }
)
KINDS: dict[str, tuple[str, bool, pa.DataType, list[Any], str]] = {
    "INT": ("INT", True, pa.int32(), [10, 11, 12], "10"),
    "LONG": ("LONG", True, pa.int64(), [10, 11, 12], "10"),
    "DOUBLE": ("DOUBLE", True, pa.float64(), [10.0, 11.5, 12.0], "10"),
    "STRING": ("STRING", True, pa.string(), ["10", "11", "12"], "'10'"),
    "INT[]": ("INT", False, pa.list_(pa.int32()), [[10], [11, 12], [12]], "10"),
}
TEXTS = (
    "SELECT COUNT(*) FROM t WHERE m = {0}",
    "SELECT COUNT(*) FROM t WHERE m IN ({0}, {0})",
    "SELECT COUNT(*) FROM t WHERE NOT m IN ({0}) AND day > 3",
    "SELECT m, COUNT(*) FROM t GROUP BY m",
    "SELECT DISTINCTCOUNT(m) FROM t",
    "SELECT m FROM t ORDER BY day LIMIT 3",
    "SELECT * FROM t LIMIT 3",
)


def schema(kind: str) -> Schema:
    data_type, single_value, *_ = KINDS[kind]
    return Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "m", "dataType": data_type, "singleValueField": single_value}],
            "dateTimeFieldSpecs": [
                {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
            ],
        }
    )


def rows(kind: str, day: int) -> list[pa.RecordBatch]:
    _, _, arrow, values, _ = KINDS[kind]
    return [pa.record_batch({"m": pa.array(values, arrow), "day": pa.array([day] * 3, pa.int32())})]


@pytest.mark.parametrize(("old", "new"), [pair for pair in itertools.product(KINDS, KINDS) if pair[0] != pair[1]])
def test_a_column_of_another_kind_is_refused_by_name(tmp_path: Path, old: str, new: str) -> None:
    built = InProcessCluster(tmp_path, num_servers=1)
    names = built.add_table(schema(old), CONFIG, [rows(old, 18_000), rows(old, 18_001)])
    built.close()
    cluster = InProcessCluster(tmp_path, num_servers=1)
    cluster.add_built_table(schema(new), CONFIG, [tmp_path / "t" / name for name in names])
    for text in TEXTS:
        answer = cluster.sql(text.format(KINDS[new][-1]))
        (error,) = answer["exceptions"]
        assert f"expected column 'm' as {new}" in error["message"] and f"found {old} in segment 't_" in error["message"]
    assert cluster.sql("SELECT COUNT(*), MAX(day) FROM t WHERE day > 3")["resultTable"]["rows"] == [[6, 18_001]]
    cluster.close()


def test_segments_that_were_built_anew_are_answered_where_no_other_is_asked(tmp_path: Path) -> None:
    names = []
    for number, (kind, day) in enumerate((("INT", 18_000), ("STRING", 18_001)), 1):
        built = InProcessCluster(tmp_path / kind, num_servers=1)
        name = built.add_table(schema(kind), CONFIG, [rows(kind, day)] * number)[-1]  # names are numbered
        built.close()
        names.append((tmp_path / kind / "t" / name).rename(tmp_path / f"t_{kind}"))
    cluster = InProcessCluster(tmp_path / "both", num_servers=1, prunes=True)
    cluster.add_built_table(schema("STRING"), CONFIG, names)
    text = "SELECT COUNT(*) FROM t WHERE m IN ('10', '11')"
    assert cluster.sql(f"{text} AND day = 18001")["resultTable"]["rows"] == [[2]]
    assert "in segment 't_" in cluster.sql(text)["exceptions"][0]["message"]
    cluster.close()
