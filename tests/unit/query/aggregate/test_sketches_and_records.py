"""Proves what an attacker found wrong: a CASE that reads a column in its condition and in its value under null
handling, HLLs of star-trees without a group, sums beyond the main window at the split of a tree, conditions on null
lists inside expressions, and JSON with half a character. Expectations are written down, or the same query without the
index.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

NULLS = "enableNullHandling=true"


def table(
    path: Path,
    columns: dict[str, pa.Array],
    types: dict[str, str],
    indexing: dict[str, Any],
    multi: tuple[str, ...] = (),
) -> InProcessCluster:
    specs = [
        {"name": name, "dataType": kind} | ({"singleValueField": False} if name in multi else {})
        for name, kind in types.items()
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs, "enableColumnBasedNullHandling": True})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": indexing,
        }
    )
    cluster = InProcessCluster(path)
    cluster.add_table(schema, config, [[pa.RecordBatch.from_pydict(columns)]])
    return cluster


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> InProcessCluster:
    columns = {"i": pa.array([0, 1, 2, None, 4], pa.int32()), "d": pa.array([8.0, 8.0, None, 8.0, 8.0])}
    return table(
        tmp_path_factory.mktemp("t"),
        columns,
        {"i": "INT", "d": "DOUBLE"},
        {"nullHandlingEnabled": True, "noDictionaryColumns": ["i", "d"]},
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SUM(CASE WHEN i <> 0 THEN i END)", 7.0),
        ("COUNT(CASE WHEN i > 0 THEN i END)", 3),
        ("MAX(CASE WHEN i IN (1, 2) THEN i END)", 2.0),
        ("MIN(CASE WHEN i > 0 OR d > 0 THEN i ELSE 9 END)", 0.0),
        ("SUM(COALESCE(CASE WHEN i > 1 THEN i END, 0))", 6.0),
        ("SUM(d / CASE WHEN i <> 0 THEN i END)", 10.0),
        ("SUM(i + i * i)", 28.0),
    ],
)
def test_what_an_expression_reads_twice_stays_until_its_last_reader(
    numbers: InProcessCluster, expression: str, expected: float
) -> None:
    assert numbers.sql(f"SELECT {expression} FROM t", query_options=NULLS)["resultTable"]["rows"] == [[expected]]


def test_a_case_is_a_group_key_of_its_own_values(numbers: InProcessCluster) -> None:
    answer = numbers.sql(
        "SELECT CASE WHEN i > 0 THEN i END AS k, COUNT(*) FROM t GROUP BY k ORDER BY k NULLS LAST", query_options=NULLS
    )
    assert answer["resultTable"]["rows"] == [[1, 1], [2, 1], [4, 1], [None, 2]]


@pytest.mark.parametrize("dimensions", [["k"], ["s"], ["k", "s"]])
def test_sketches_of_a_tree_need_no_group_and_no_filter(dimensions: list[str], tmp_path: Path) -> None:
    pairs = ["COUNT__*", "DISTINCTCOUNTHLL__s", "DISTINCTCOUNTHLL__x", "SUM__x"]
    columns = {
        "s": pa.array([f"v{i % 7}" for i in range(60)]),
        "k": pa.array([i % 3 for i in range(60)], pa.int32()),
        "x": pa.array([i / 2 for i in range(60)]),
    }
    tree = {"dimensionsSplitOrder": dimensions, "functionColumnPairs": pairs, "maxLeafRecords": 1}
    cluster = table(tmp_path, columns, {"s": "STRING", "k": "INT", "x": "DOUBLE"}, {"starTreeIndexConfigs": [tree]})
    for wanted in (
        "DISTINCTCOUNTHLL(s)",
        "DISTINCTCOUNTHLL(x), COUNT(*)",
        "DISTINCTCOUNTHLL(s), SUM(x)",
        "DISTINCTCOUNTRAWHLL(s)",
    ):
        with_tree, without = (
            cluster.sql(f"SELECT {wanted} FROM t", query_options=f"useStarTree={use}") for use in ("true", "false")
        )
        assert with_tree["resultTable"] == without["resultTable"]


def test_sums_beyond_the_main_window_survive_every_split(tmp_path: Path) -> None:
    values = [1e300 if i == 5 else 2.0**-1070 if i == 31 else i / 4 for i in range(64)]
    columns = {
        "a": pa.array([i % 8 for i in range(64)], pa.int32()),
        "b": pa.array([i // 8 for i in range(64)], pa.int32()),
        "x": pa.array(values),
    }
    tree = {"dimensionsSplitOrder": ["a", "b"], "functionColumnPairs": ["SUM__x"], "maxLeafRecords": 1}
    cluster = table(
        tmp_path,
        columns,
        {"a": "INT", "b": "INT", "x": "DOUBLE"},
        {"starTreeIndexConfigs": [tree], "noDictionaryColumns": ["x"]},
    )
    for text in (
        "SELECT a, SUM(x) FROM t GROUP BY a ORDER BY a",
        "SELECT b, SUM(x) FROM t WHERE a < 5 GROUP BY b ORDER BY b",
        "SELECT SUM(x) FROM t WHERE b <> 0",
    ):
        with_tree, without = (cluster.sql(text, query_options=f"useStarTree={use}") for use in ("true", "false"))
        assert with_tree["resultTable"] == without["resultTable"]


@pytest.mark.parametrize(("options", "last"), [(NULLS, None), ("enableNullHandling=false", False)])
def test_a_condition_on_a_null_list_is_unknown(options: str, last: bool | None, tmp_path: Path) -> None:
    columns = {"m": pa.array([[1, 2], [3], None], pa.list_(pa.int32()))}
    cluster = table(tmp_path, columns, {"m": "INT"}, {"nullHandlingEnabled": True}, multi=("m",))
    assert cluster.sql("SELECT m IN (1, 9) FROM t", query_options=options)["resultTable"]["rows"] == [
        [True],
        [False],
        [last],
    ]
    assert cluster.sql("SELECT SUM(CASE WHEN m IN (1, 9) THEN 1 ELSE 0 END) FROM t", query_options=options)[
        "resultTable"
    ]["rows"] == [[1.0]]


@pytest.mark.parametrize("indexing", [{}, {"noDictionaryColumns": ["j"]}, {"jsonIndexColumns": ["j"]}])
def test_half_a_character_in_json_is_a_question_mark(indexing: dict[str, Any], tmp_path: Path) -> None:
    columns = {"j": pa.array(['{"a":1}', '{"a":"\\ud83d"}', '{"\\ud83d":1}']), "n": pa.array([0, 1, 2], pa.int32())}
    cluster = table(tmp_path, columns, {"j": "JSON", "n": "INT"}, indexing)
    for condition, expected in (('"$.a" IS NOT NULL', [[0], [1]]), ("\"$.a\" = ''?''", [[1]]), ('"$.a" = 1', [[0]])):
        assert (
            cluster.sql(f"SELECT n FROM t WHERE JSON_MATCH(j, '{condition}') ORDER BY n")["resultTable"]["rows"]
            == expected
        )
