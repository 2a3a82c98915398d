"""Raw columns of text grouped, counted and computed on give what Python counts: few and many distinct texts, one and several segments,
threads, nulls, texts of all lengths around eight bytes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
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
from pinotpy.query.operators.raw_texts import SegmentTexts, UnitedTexts
from pinotpy.query.reduce import reduce_partials
from pinotpy.segment.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

ROWS = (70_000, 3_000, 66_000)
SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [{"name": name, "dataType": "STRING"} for name in ("few", "many")] + [{"name": "n", "dataType": "INT"}]}
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["few", "many"]},
    }
)
FEW = ["", "a", "b", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghj", "é" * 9, "x" * 100, "x" * 99 + "y"]


def texts_of(number: int, rows: int) -> dict[str, list[Any]]:
    chooser = random.Random(number)
    return {
        "few": [None if i % 50 == 7 else chooser.choice(FEW) for i in range(rows)],
        "many": [f"text-{chooser.randrange(60_000) * 7919}" for _ in range(rows)],
        "n": [i % 5 for i in range(rows)],
    }


DATA = [texts_of(number, rows) for number, rows in enumerate(ROWS)]


@pytest.fixture(scope="module")
def segments() -> Iterator[list[Segment]]:
    made = []
    for number, columns in enumerate(DATA):
        directory = MemoryDirectory(f"t_{number}")
        batch = pa.record_batch({"few": pa.array(columns["few"]), "many": pa.array(columns["many"]), "n": pa.array(columns["n"], pa.int32())})
        build_segment_into(directory, SCHEMA, CONFIG, [batch], f"t_{number}")
        made.append(open_segment(directory))
    yield list(made)
    for segment in made:
        segment.close()


def rows_of(segments: list[Segment], text: str, threads: int, *, null_handling: bool = False) -> list[tuple[Any, ...]]:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
    with ThreadPoolExecutor(2) as executor:
        partial = execute(context, segments, QueryControl(), threads=threads, executor=executor)
    reduced = reduce_partials(context, merge_partials(context, [partial]))
    return list(zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_groups_of_raw_texts_are_those_of_python(segments: list[Segment], count: int, threads: int) -> None:
    for column in ("few", "many"):
        wanted = Counter(value if value is not None else "null" for columns in DATA[:count] for value in columns[column])
        found = rows_of(segments[:count], f"SELECT {column}, COUNT(*) FROM t GROUP BY {column} LIMIT 1000000", threads)
        assert dict(found) == dict(wanted)
        assert len(found) == len(wanted)
        assert rows_of(segments[:count], f"SELECT DISTINCTCOUNT({column}) FROM t", threads) == [(len(wanted),)]
        some = Counter(
            value if value is not None else "null" for columns in DATA[:count] for value, n in zip(columns[column], columns["n"], strict=True) if n == 3
        )
        assert dict(rows_of(segments[:count], f"SELECT {column}, COUNT(*) FROM t WHERE n = 3 GROUP BY {column} LIMIT 1000000", threads)) == dict(some)


def test_null_is_a_group_of_its_own(segments: list[Segment]) -> None:
    wanted = Counter(value for columns in DATA for value in columns["few"])
    assert dict(rows_of(segments, "SELECT few, COUNT(*) FROM t GROUP BY few LIMIT 100", 2, null_handling=True)) == dict(wanted)


@pytest.mark.parametrize("null_handling", [False, True])
def test_functions_of_raw_texts_are_those_of_python(segments: list[Segment], null_handling: bool) -> None:
    for column in ("few", "many"):
        values = [value if value is not None or null_handling else "null" for columns in DATA for value in columns[column]]
        upper = Counter(None if value is None else value.upper() for value in values)
        found = rows_of(segments, f"SELECT UPPER({column}), COUNT(*) FROM t GROUP BY UPPER({column}) LIMIT 1000000", 2, null_handling=null_handling)
        assert dict(found) == dict(upper)
        lengths = Counter(None if value is None else len(value) for value in values)
        found = rows_of(segments, f"SELECT LENGTH({column}), COUNT(*) FROM t GROUP BY LENGTH({column}) LIMIT 1000", 2, null_handling=null_handling)
        assert dict(found) == dict(lengths)
        longest = max(len(value) for value in values if value is not None)
        assert rows_of(segments, f"SELECT MAX(LENGTH({column})) FROM t", 2, null_handling=null_handling) == [(longest,)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_numbers_are_equal_where_texts_are(segments: list[Segment], threads: int) -> None:
    control = QueryControl()
    numbered = []
    for segment in segments:
        numbered.append(SegmentTexts(segment.column("many").meta, np.arange(segment.num_docs), control))
        numbered[-1].number(1000)
        numbered[-1].number()
    with ThreadPoolExecutor(2) as executor:
        united = UnitedTexts(numbered, control, threads=threads, executor=executor)
    for one, remap, columns in zip(numbered, united.remaps, DATA, strict=True):
        found = united.values(remap[one.ids]).to_pylist()
        assert [text.decode() for text in found] == columns["many"]
        assert [text.decode() for text in one.dictionary().take(pa.array(one.ids)).to_pylist()] == columns["many"]
    distinct = {text for columns in DATA for text in columns["many"]}
    assert len({number for remap in united.remaps for number in remap.tolist()}) == len(distinct)
