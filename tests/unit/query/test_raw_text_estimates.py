"""HyperLogLog of texts without a dictionary, hashed where they lie, has the registers of the same texts with one: plain, grouped,
filtered, in compressed chunks, and where only some of the segments have a dictionary."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.combine import merge_partials
from pinotpy.query.compile import compile_query
from pinotpy.query.context import QueryOptions
from pinotpy.query.control import QueryControl
from pinotpy.query.execute import execute
from pinotpy.query.reduce import reduce_partials
from pinotpy.segment.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

COLUMNS = ("kept", "raw", "chunked", "mixed")
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *({"name": name, "dataType": "STRING"} for name in COLUMNS),
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "n", "dataType": "INT"},
        ],
    }
)
ROWS = (9_000, 1, 5_000)


def config_of(number: int) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "noDictionaryColumns": ["raw", "chunked", *(["mixed"] if number % 2 else [])],
                "noDictionaryConfig": {"raw": "PASS_THROUGH", "chunked": "LZ4"},
                "nullHandlingEnabled": True,
            },
        }
    )


def texts(number: int, rows: int) -> list[str | None]:
    chooser = random.Random(number)
    short = ["", "é", "a" * 3, "b" * 4, "c" * 7, "d" * 8, "e" * 15, "f" * 16, "ü" * 9, "g" * 300, None]
    return [chooser.choice(short) if i % 3 else f"{'x' * (i % 13)}{chooser.randrange(4_000)}" for i in range(rows)]


@pytest.fixture(scope="module")
def segments() -> Iterator[list[Segment]]:
    made = []
    for number, rows in enumerate(ROWS):
        values = texts(number, rows)
        columns: dict[str, Any] = dict.fromkeys(COLUMNS, pa.array(values, pa.string()))
        columns["tags"] = pa.array([["x", "y"][: 1 + i % 2] for i in range(rows)])
        columns["n"] = pa.array([i % 7 for i in range(rows)], pa.int32())
        directory = MemoryDirectory(f"t_{number}")
        build_segment_into(directory, SCHEMA, config_of(number), [pa.record_batch(columns)], f"t_{number}")
        made.append(open_segment(directory))
    yield list(made)
    for segment in made:
        segment.close()


def rows_of(segments: list[Segment], text: str, *, null_handling: bool) -> list[tuple[Any, ...]]:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
    with ThreadPoolExecutor(2) as executor:
        partial = execute(context, segments, QueryControl(), threads=2, executor=executor)
    reduced = reduce_partials(context, merge_partials(context, [partial]))
    return list(zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCTCOUNTHLL({c}), DISTINCTCOUNTHLL({c}, 12), DISTINCTCOUNTRAWHLL({c}) FROM t",
        "SELECT DISTINCTCOUNTHLL({c}, 11), COUNT(*) FROM t WHERE n = 3",
        "SELECT DISTINCTCOUNTHLL({c}) FILTER (WHERE n > 4), DISTINCTCOUNTHLL({c}) FROM t",
        "SELECT n, DISTINCTCOUNTHLL({c}) FROM t GROUP BY n ORDER BY n",
        "SELECT tags, DISTINCTCOUNTHLL({c}), SUM(n) FROM t WHERE n <> 2 GROUP BY tags ORDER BY tags",
        "SELECT {c}, DISTINCTCOUNTHLL({c}), COUNT(*) FROM t GROUP BY {c} ORDER BY {c} LIMIT 9000",
        "SELECT DISTINCTCOUNTHLL({c}), DISTINCTCOUNT({c}) FROM t WHERE {c} <> ''",
        "SELECT DISTINCTCOUNTHLL({c}) FROM t WHERE n = 99",
    ],
)
def test_registers_are_those_of_texts_with_a_dictionary(segments: list[Segment], query: str, null_handling: bool) -> None:
    wanted = rows_of(segments, query.format(c="kept"), null_handling=null_handling)
    for column in COLUMNS[1:]:
        assert rows_of(segments, query.format(c=column), null_handling=null_handling) == wanted, column
    assert segments[0].column("raw").dictionary is None and segments[0].column("mixed").dictionary is not None
