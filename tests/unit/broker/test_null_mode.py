"""Proves who decides whether nulls are nulls: the query, else its table, else the broker; PQL never. Then end to end,
over rows whose averages are worked out by hand: each of the three says it, one after the other, to texts that the
broker has seen before, and a schema says it for its columns alone.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.null_mode import null_mode
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect

# 10, null, 20: a null INT reads as the lowest one.
ROWS = pa.record_batch({"id": pa.array([1, 2, 3], pa.int32()), "late": pa.array([10, None, 20], pa.int32())})
OF_NULLS, OF_DEFAULTS = 15.0, (10 - 2**31 + 20) / 3


def schema(**more: Any) -> Schema:
    columns = [{"name": "id", "dataType": "INT", "notNull": True}, {"name": "late", "dataType": "INT"}]
    return Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": columns, **more})


def config(*, keeps_nulls: bool = True, query: dict[str, Any] | None = None) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "tableIndexConfig": {"nullHandlingEnabled": keeps_nulls},
            "metadata": {},
            **({} if query is None else {"query": query}),
        }
    )


def average(cluster: InProcessCluster, *, text: str = "SELECT AVG(late) FROM t", options: str = "") -> Any:
    answer = cluster.sql(text, query_options=options)
    assert answer["exceptions"] == [], answer
    return answer["resultTable"]["rows"][0][0]


@pytest.mark.parametrize(
    ("asked", "of_halves", "of_broker", "handling"),
    [
        (None, (), True, True),
        (None, (), False, False),
        (None, (None,), True, True),
        (None, (None, None), False, False),
        (None, (False,), True, False),
        (None, (True,), False, True),
        (True, (False,), False, True),
        (False, (True, True), True, False),
        (None, (False, False), True, False),
    ],
)
def test_the_query_decides_else_the_table_else_the_broker(
    asked: bool | None, of_halves: tuple[bool | None, ...], of_broker: bool, handling: bool
) -> None:
    mode = null_mode(Dialect.SQL, asked, of_halves, of_broker=of_broker)
    assert (mode.handling, mode.warnings) == (handling, ())


def test_halves_that_differ_answer_alike_with_nulls_and_the_answer_says_so() -> None:
    for of_halves, of_broker in (
        ((True, False), True),
        ((False, True), False),
        ((False, None), True),
        ((True, None), False),
    ):
        mode = null_mode(Dialect.SQL, None, of_halves, of_broker=of_broker)
        assert mode.handling
        assert mode.warnings == (
            "nulls are nulls in this answer: the halves of the table differ in query.enableNullHandling of their table "
            "configs; say the same in both, or enableNullHandling in the query",
        )
        for asked in (True, False):
            mode = null_mode(Dialect.SQL, asked, of_halves, of_broker=of_broker)
            assert (mode.handling, mode.warnings) == (asked, ())


def test_pql_keeps_default_values_whoever_says_what() -> None:
    for asked, half, of_broker in itertools.product((None, True, False), (None, True, False), (True, False)):
        mode = null_mode(Dialect.PQL, asked, (half,), of_broker=of_broker)
        assert (mode.handling, mode.warnings) == (False, ())


@pytest.mark.parametrize("of_broker", [True, False])
def test_each_says_it_to_texts_that_were_asked_before(of_broker: bool, tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, null_handling=of_broker)
    try:
        cluster.add_table(schema(), config(), [[ROWS]])
        target = cluster.catalog.targets["t"]
        for _ in range(3):  # compiled; from the plan cache; from the template of texts with other literals
            for of_table, asked in itertools.product((None, True, False), repeat=2):
                cluster.catalog.targets["t"] = replace(target, null_handling=(of_table,))
                nulls = asked if asked is not None else of_table if of_table is not None else of_broker
                options = "" if asked is None else f"enableNullHandling={str(asked).lower()}"
                expected = OF_NULLS if nulls else OF_DEFAULTS
                assert average(cluster, options=options) == expected
                for limit in (5, 6, 7):
                    text = f"SELECT AVG(late) FROM t WHERE id < {limit}"
                    assert average(cluster, text=text, options=options) == expected
                    assert cluster.ask_arrow(text, query_options=options).rows == [[expected]]
                assert average(cluster, text=f"SET enableNullHandling={nulls}; SELECT AVG(late) FROM t") == expected
                pql = cluster.pql("SELECT AVG(late) FROM t", query_options=options)
                assert pql["aggregationResults"][0]["value"] == f"{OF_DEFAULTS:.5f}"
    finally:
        cluster.close()


@pytest.mark.parametrize("query", [{"enableNullHandling": False}, {"enableNullHandling": "true"}, {}])
def test_the_table_config_says_it(query: dict[str, Any], tmp_path: Path) -> None:
    read = config(query=query).query
    assert read is not None
    assert (
        read.enable_null_handling
        is {"True": True, "False": False, "None": None}[str(query.get("enableNullHandling")).capitalize()]
    )


def test_a_schema_with_nulls_by_column_keeps_those_of_columns_that_may_be_null(tmp_path: Path) -> None:
    """Neither table config nor query says anything."""
    rows = pa.record_batch({"id": pa.array([1, None, 3], pa.int32()), "late": pa.array([10, None, 20], pa.int32())})
    for by_column, expected in ((True, [OF_NULLS, 3]), (False, [OF_DEFAULTS, 3])):
        cluster = InProcessCluster(tmp_path / str(by_column))
        try:
            cluster.add_table(schema(enableColumnBasedNullHandling=by_column), config(keeps_nulls=False), [[rows]])
            answer = cluster.sql("SELECT AVG(late), COUNT(id) FROM t")
            assert answer["resultTable"]["rows"] == [expected]
        finally:
            cluster.close()


@pytest.mark.parametrize("value", ["yes", "1", ""])
def test_the_option_is_true_or_false(value: str, tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    try:
        cluster.add_table(schema(), config(), [[ROWS]])
        (fault,) = cluster.sql("SELECT AVG(late) FROM t", query_options=f"enableNullHandling={value}")["exceptions"]
        assert (fault["errorCode"], fault["message"].partition(": ")[2]) == (
            700,
            f"enableNullHandling must be true or false, got: {value}",
        )
    finally:
        cluster.close()
