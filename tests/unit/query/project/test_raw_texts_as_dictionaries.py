"""Texts without a dictionary are estimated, counted and grouped as the same texts with one: plain, filtered, with other
keys, in compressed chunks, where only some of the segments have a dictionary, with nulls, whole and for merging.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory.memory_directory import MemoryDirectory
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
        "metricFieldSpecs": [{"name": "d", "dataType": "DOUBLE"}],
    }
)
ROWS = (20_000, 1, 9_000)


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
        columns["d"] = pa.array([(i % 1000) * 10.0 ** (i % 30 - 15) for i in range(rows)])
        columns["n"] = pa.array([i % 7 for i in range(rows)], pa.int32())
        directory = MemoryDirectory(f"t_{number}")
        build_segment_into(directory, SCHEMA, config_of(number), [pa.record_batch(columns)], f"t_{number}")
        made.append(open_segment(directory))
    yield list(made)
    for segment in made:
        segment.close()


def rows_of(
    segments: list[Segment], text: str, *, null_handling: bool = False, is_final: bool = False, threads: int = 2
) -> list[tuple[Any, ...]]:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
    with ThreadPoolExecutor(2) as executor:
        partial = execute(context, segments, QueryControl(), threads=threads, executor=executor, is_final=is_final)
    reduced = reduce_partials(context, merge_partials(context, [partial]))
    return list(zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))


ESTIMATES = [
    "SELECT DISTINCTCOUNTHLL({c}), DISTINCTCOUNTHLL({c}, 12), DISTINCTCOUNTRAWHLL({c}) FROM t",
    "SELECT DISTINCTCOUNTHLL({c}, 11), COUNT(*) FROM t WHERE n = 3",
    "SELECT DISTINCTCOUNTHLL({c}) FILTER (WHERE n > 4), DISTINCTCOUNTHLL({c}) FROM t",
    "SELECT n, DISTINCTCOUNTHLL({c}) FROM t GROUP BY n ORDER BY n",
    "SELECT tags, DISTINCTCOUNTHLL({c}), SUM(n) FROM t WHERE n <> 2 GROUP BY tags ORDER BY tags",
    "SELECT {c}, DISTINCTCOUNTHLL({c}), COUNT(*) FROM t GROUP BY {c} ORDER BY {c} LIMIT 9000",
    "SELECT DISTINCTCOUNTHLL({c}), DISTINCTCOUNT({c}) FROM t WHERE {c} <> ''",
    "SELECT DISTINCTCOUNTHLL({c}) FROM t WHERE n = 99",
]
COUNTS = [
    "SELECT COUNT({c}), COUNT(*) FROM t WHERE n <> 3",
    "SELECT DISTINCTCOUNT({c}) FROM t",
    "SELECT DISTINCTCOUNT({c}), SUM(d), DISTINCTCOUNT({c}), MAX(n), DISTINCTCOUNTBITMAP({c}) FROM t WHERE n <> 3",
    "SELECT DISTINCTCOUNT({c}), DISTINCTCOUNT({c}) FILTER (WHERE n = 1), DISTINCTCOUNT(n), "
    "SEGMENTPARTITIONEDDISTINCTCOUNT({c}) FROM t",
    "SELECT DISTINCTCOUNT({c}), COUNT(*) FROM t WHERE n = 99",
    "SELECT n, DISTINCTCOUNT({c}), COUNT(*) FROM t GROUP BY n ORDER BY n",
    "SELECT tags, DISTINCTCOUNT({c}), COUNT({c}) FROM t GROUP BY tags ORDER BY tags",
]
GROUPS = [
    "SELECT {c}, COUNT(*), SUM(d), AVG(d), MIN(n), MAX(d) FROM t GROUP BY {c} ORDER BY {c} LIMIT 90000",
    "SELECT {c}, SUM(n) FROM t WHERE n <> 2 GROUP BY {c} ORDER BY SUM(n) DESC, {c} LIMIT 7",
    "SELECT {c}, COUNT({c}) FROM t GROUP BY {c} HAVING COUNT(*) > 300 ORDER BY {c} LIMIT 100",
    "SELECT {c}, n, SUM(d), COUNT(*) FROM t GROUP BY {c}, n ORDER BY {c}, n LIMIT 90000",
    "SELECT tags, {c}, COUNT(*) FROM t WHERE n < 3 GROUP BY tags, {c} ORDER BY tags, {c} LIMIT 90000",
    "SELECT {c}, DISTINCTCOUNT(n), PERCENTILE(n, 50), DISTINCTCOUNT({c}) FROM t GROUP BY {c} ORDER BY {c} LIMIT 90000",
    "SELECT DISTINCT {c} FROM t ORDER BY {c} LIMIT 90000",
    "SELECT DISTINCT {c}, n FROM t WHERE n > 4 ORDER BY {c}, n LIMIT 90000",
    "SELECT {c}, COUNT(*) FROM t WHERE {c} IS NOT NULL AND d > 3 GROUP BY {c} ORDER BY COUNT(*) DESC, {c} LIMIT 10",
    "SELECT {c}, COUNT(*) FROM t WHERE n = 99 GROUP BY {c}",
]


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("query", ESTIMATES)
def test_registers_are_those_of_texts_with_a_dictionary(
    segments: list[Segment], query: str, null_handling: bool
) -> None:
    wanted = rows_of(segments, query.format(c="kept"), null_handling=null_handling)
    for column in COLUMNS[1:]:
        assert rows_of(segments, query.format(c=column), null_handling=null_handling) == wanted, column
    assert segments[0].column("raw").dictionary is None and segments[0].column("mixed").dictionary is not None


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("query", COUNTS + GROUPS)
def test_groups_and_counts_are_those_of_texts_with_a_dictionary(
    segments: list[Segment], query: str, null_handling: bool
) -> None:
    for some in (segments, segments[:1], segments[1:2]):
        wanted = rows_of(some, query.format(c="kept"), null_handling=null_handling)
        for column in COLUMNS[1:]:
            for is_final, threads in ((False, 2), (True, 2), (True, 1)):
                found = rows_of(
                    some, query.format(c=column), null_handling=null_handling, is_final=is_final, threads=threads
                )
                assert found == wanted, (column, is_final, threads)


def test_groups_are_counted_as_python_counts_them(segments: list[Segment]) -> None:
    wanted = Counter(
        value if value is not None else "null" for number, rows in enumerate(ROWS) for value in texts(number, rows)
    )
    for column in COLUMNS[1:]:
        assert dict(rows_of(segments, f"SELECT {column}, COUNT(*) FROM t GROUP BY {column} LIMIT 90000")) == dict(
            wanted
        )
        assert rows_of(segments, f"SELECT DISTINCTCOUNT({column}) FROM t") == [(len(wanted),)]
