"""Proves that ORDER BY … LIMIT over built segments, through server and broker, answers as DuckDB does: keys of every
type, with a dictionary in some segments and without in others, nulls in both modes, offsets, filters, one server and
several.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.build.builder import build_segment

ROWS = 9_000
TYPES = {"i": "INT", "l": "LONG", "f": "FLOAT", "d": "DOUBLE", "s": "STRING", "b": "BOOLEAN", "m": "TIMESTAMP"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *[{"name": name, "dataType": kind} for name, kind in TYPES.items()],
            {"name": "id", "dataType": "INT"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
        ],
        "enableColumnBasedNullHandling": True,
    }
)
DEFAULTS: dict[str, Any] = {
    "i": -(2**31),
    "l": -(2**63),
    "f": float("-inf"),
    "d": float("-inf"),
    "s": "null",
    "b": False,
    "m": 0,
}


def config(*, raw: tuple[str, ...]) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": list(raw)},
        }
    )


def rows() -> pa.RecordBatch:
    rng = np.random.default_rng(17)

    def column(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(ROWS) < 0.1)

    texts = ["", "a", "/basket/", "/basket/1", "/basket/10", "/basket/2", "ä", "zz"]
    return pa.RecordBatch.from_pydict(
        {
            "i": column(rng.integers(-3, 4, ROWS), pa.int32()),
            "l": column(rng.choice([-(2**63) + 1, -1, 0, 2**53 + 1, 2**63 - 1], ROWS), pa.int64()),
            "f": column(rng.choice([-1.5, 0.0, 0.25, float("inf")], ROWS).astype(np.float32), pa.float32()),
            "d": column(np.round(rng.normal(size=ROWS), 2), pa.float64()),
            "s": column([texts[k] + "x" * int(n) for k, n in rng.integers(0, (8, 3), (ROWS, 2))], pa.string()),
            "b": column(rng.random(ROWS) < 0.5, pa.bool_()),
            "m": column(rng.integers(0, 50, ROWS), pa.int64()),
            "id": pa.array(rng.permutation(ROWS).astype(np.int32)),
            "many": pa.array([[1, int(v)] for v in rng.integers(0, 9, ROWS)], pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("nulls", pa.table([rows()[name] for name in rows().schema.names], names=rows().schema.names))
    shown = ", ".join(f"coalesce({name}, {_literal(DEFAULTS[name])}) AS {name}" for name in TYPES)
    connection.execute(f"CREATE TABLE defaults AS SELECT {shown}, id, many FROM nulls")
    return connection


def _literal(value: Any) -> str:
    return f"'{value}'::DOUBLE" if isinstance(value, float) else f"'{value}'" if isinstance(value, str) else str(value)


@pytest.fixture(
    scope="module",
    params=[(1, 1, ()), (1, 5, ("l", "f", "d", "s", "m")), (2, 3, ("s", "i"))],
    ids=["one segment", "raw and not", "two servers"],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    num_servers, num_segments, raw = request.param
    made = InProcessCluster(tmp_path_factory.mktemp("ordered"), num_servers=num_servers)
    batch, size = rows(), -(-ROWS // num_segments)
    directories = []
    for number, first in enumerate(range(0, ROWS, size)):
        indexing = config(raw=raw if number % 2 == 0 else ())
        build_segment(SCHEMA, indexing, [batch.slice(first, size)], made.directory, f"t_{number}", raw_table_name="t")
        directories.append(made.directory / f"t_{number}")
    made.add_built_table(SCHEMA, config(raw=raw), directories)
    yield made
    made.close()


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("key", list(TYPES))
def test_rows_come_as_duckdb_sorts_them(
    cluster: InProcessCluster, oracle: duckdb.DuckDBPyConnection, key: str, null_handling: bool
) -> None:
    others = itertools.cycle([name for name in TYPES if name != key])
    wanted = ("7", ""), ("700 OFFSET 30", "WHERE id < 8000"), ("50", "WHERE id < 90")
    for direction, places, (limit, where) in itertools.product(("ASC", "DESC"), ("FIRST", "LAST"), wanted):
        order = f"{key} {direction} NULLS {places}, {next(others)} DESC NULLS LAST, id"
        text = f"SELECT id, {key}, many FROM {{table}} {where} ORDER BY {order} LIMIT {limit}"
        answer = cluster.sql(text.format(table="t"), query_options=f"enableNullHandling={str(null_handling).lower()}")
        expected = oracle.execute(text.format(table="nulls" if null_handling else "defaults")).fetchall()
        assert not answer["exceptions"]
        assert [row[0] for row in answer["resultTable"]["rows"]] == [row[0] for row in expected], text
        assert [row[2] for row in answer["resultTable"]["rows"]] == [row[2] for row in expected], text
