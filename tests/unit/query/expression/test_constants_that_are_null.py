"""A constant that is computed and null makes a condition unknown, wherever it stands and whatever asks: the values are
DuckDB's, and WHERE, NOT, CASE, FILTER, HAVING, IS NULL and IS TRUE say what the value says. So is a NULL that is
written in a list or as a bound, with null handling alone: without it, and beside `=`, it stays refused, as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

ROWS = {"id": [0, 1, 2, 3, 4, 5], "i": [1, None, 2, 3, None, 7], "k": ["a", "b", None, "ab", None, "c"]}
BATCH = pa.RecordBatch.from_pydict(
    {
        "id": pa.array(ROWS["id"], pa.int32()),
        "i": pa.array(ROWS["i"], pa.int32()),
        "k": pa.array(ROWS["k"], pa.string()),
    }
)
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "i", "dataType": "INT"},
            {"name": "k", "dataType": "STRING"},
        ],
        "enableColumnBasedNullHandling": True,
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "invertedIndexColumns": ["i"]},
    }
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    made = InProcessCluster(tmp_path_factory.mktemp("constants"))
    made.add_table(SCHEMA, CONFIG, [[BATCH.slice(0, 4)], [BATCH.slice(4)]])
    yield made
    made.close()


NUMBERS = (
    "NULLIF(2, 2)",
    "NULLIF(2, 2) + 1",
    "CAST(NULL AS INT)",
    "CASE WHEN 1 = 2 THEN 3 END",
    "ABS(NULLIF(2.5, 2.5))",
)
TEXTS = ("NULLIF('a', 'a')", "UPPER(CAST(NULL AS VARCHAR))")
CONDITIONS = [
    *(f"i {sign} {null}" for null in NUMBERS for sign in ("=", "<>", "<", ">=")),
    *(f"{null} {sign} i" for null in NUMBERS[:2] for sign in ("=", ">")),
    *(text.format(null) for null in NUMBERS for text in ("i IN (1, {})", "i NOT IN (1, {}, 7)", "i IN ({})",
    "i BETWEEN {} AND 2", "i NOT BETWEEN 2 AND {}")),
    *("NULLIF(2, 2) IN (1, 2)", "2 IN (2, NULLIF(1, 1))", "2 NOT IN (1, NULLIF(1, 1))", "NULLIF(2, 2) BETWEEN 1 AND 2",
    "2 BETWEEN 1 AND NULLIF(2, 2)"),
    *("1 = NULLIF(1, 1)", "NULLIF(1, 1) = NULLIF(1, 1)", "NULLIF(TRUE, TRUE) = FALSE",
    "CAST(NULL AS TIMESTAMP) < CAST(NULL AS TIMESTAMP)"),
    *(text.format(null) for null in TEXTS for text in ("{} LIKE 'a%'", "k = {}", "k <> {}", "k LIKE {}",
    "k NOT LIKE {}", "k IN ('a', {})")),
    *(f"REGEXP_LIKE(k, {null})" for null in TEXTS),
    *("i = NULLIF(2, 2) OR i > 2", "i <> NULLIF(2, 2) AND k = 'a'", "NOT (i IN (1, NULLIF(2, 2)) AND k = 'ab')",
    "NULLIF(1 = 1, 2 > 1)"),
]  # fmt: skip
WRITTEN = [
    *("i IN (NULL)", "i IN (2.0, NULL)", "i NOT IN (2, NULL)", "k IN ('a', NULL)", "1 IN (NULL, 1)", "1 IN (NULL, 2)"),
    *("i BETWEEN NULL AND 2", "i BETWEEN 2 AND NULL", "i NOT BETWEEN NULL AND 2", "i IN (NULL, id)", "2 IN (NULL, i)"),
    *("1 BETWEEN NULL AND i", "i BETWEEN id AND NULL", "NULL IN (1, NULL)", "i IN (1, NULL) AND id < 3"),
    *("i IN (NULL) AND (1 <> 1)", "i NOT IN (NULL) OR (1 = 1)"),  # an empty list, as SQLAlchemy writes it
]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "null_handling"),
    [*((text, nulls) for text in CONDITIONS for nulls in (True, False)), *((text, True) for text in WRITTEN)],
)
def test_a_constant_null_is_unknown_on_every_road(
    cluster: InProcessCluster, condition: str, null_handling: bool
) -> None:
    if not null_handling and any(word in condition for word in ("NOT LIKE", "NOT BETWEEN", "NOT (")):
        return  # unknown is false there, and its negation true: DuckDB does not say so
    values = _values(condition, null_handling)
    true, false, unknown = (
        [row for row, value in enumerate(values) if value is wanted] for wanted in (True, False, None)
    )
    if not null_handling:
        false, unknown = sorted([*false, *unknown]), []

    def ask(text: str) -> list[Any]:
        answer = cluster.sql(f"SET enableNullHandling={str(null_handling).lower()}; {text}")
        assert answer["exceptions"] == [], (text, answer["exceptions"])
        return [row[0] if len(row) == 1 else row for row in answer["resultTable"]["rows"]]

    assert ask(f"SELECT id FROM t WHERE {condition} ORDER BY id") == true
    assert ask(f"SELECT id FROM t WHERE NOT ({condition}) ORDER BY id") == false
    assert ask(f"SELECT id FROM t WHERE ({condition}) IS NOT TRUE ORDER BY id") == sorted([*false, *unknown])
    assert ask(f"SELECT id FROM t WHERE CASE WHEN {condition} THEN 1 ELSE 0 END = 1 ORDER BY id") == true
    assert ask(f"SELECT COUNT(*) FILTER (WHERE {condition}), COUNT(*) FILTER (WHERE NOT ({condition})) FROM t") == [
        [len(true), len(false)]
    ]
    assert ask(f"SELECT id FROM t WHERE CASE WHEN NOT ({condition}) THEN 1 ELSE 0 END = 1 ORDER BY id") == false
    assert ask(f"SELECT NOT ({condition}) FROM t ORDER BY id") == [
        None if row in unknown else row in false for row in range(len(values))
    ]
    for part, rows in ((condition, true), (f"NOT ({condition})", false)):
        assert sorted(ask(f"SELECT id FROM t GROUP BY id, i, k HAVING {part}")) == rows
        assert sorted(row for row, *_ in ask(f"SELECT id, {part} FROM t GROUP BY id, i, k") if _[0]) == rows
    if null_handling:
        assert ask(f"SELECT {condition} FROM t ORDER BY id") == values
        assert ask(f"SELECT id FROM t WHERE ({condition}) IS NULL ORDER BY id") == unknown


def _values(condition: str, null_handling: bool) -> list[bool | None]:
    """Of every row, by DuckDB; without null handling over the defaults that stand for nulls."""
    table = pa.table(BATCH)
    if not null_handling:
        table = pa.table({"id": table["id"], "i": table["i"].fill_null(-(2**31)), "k": table["k"].fill_null("null")})
    text = condition.replace("REGEXP_LIKE", "regexp_matches").replace("LIKE", "ILIKE")
    rows: list[tuple[bool | None]] = duckdb.from_arrow(table).query("t", f"SELECT {text} FROM t ORDER BY id").fetchall()
    return [value for (value,) in rows]


@pytest.mark.parametrize(
    ("condition", "null_handling"),
    [
        *((condition, True) for condition in ("i = NULL", "i <> NULL", "k LIKE NULL")),
        *((condition, False) for condition in ("i = NULL", "i IN (1, NULL)", "i IN (NULL)", "i BETWEEN NULL AND 2")),
    ],
)
def test_a_written_null_stays_refused(cluster: InProcessCluster, condition: str, null_handling: bool) -> None:
    option = f"enableNullHandling={str(null_handling).lower()}"
    for text in (f"SELECT id FROM t WHERE {condition}", f"SELECT id FROM t GROUP BY id, i, k HAVING {condition}"):
        (exception,) = cluster.sql(text, query_options=option)["exceptions"]
        assert exception["errorCode"] == 150
