"""Raw columns of text grouped, counted and computed on give what Python counts: few and many distinct texts, one and
several segments, threads, nulls, texts of all lengths around eight bytes.
"""

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
from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryExecutionError
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan.build import build_scan
from pinotpy.query.plan.selection_list import materialize_selection
from pinotpy.query.project import text_coding
from pinotpy.query.project.text_codes import TextCodes, code_texts
from pinotpy.query.project.text_coding import HASH_MASK
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.memory_shares import SHARES_OF_CACHE
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.data_source import Segment
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

ROWS = (70_000, 3_000, 66_000)
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": name, "dataType": "STRING"} for name in ("few", "many", "odd")]
        + [{"name": "n", "dataType": "INT"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["few", "many", "odd"]},
    }
)
FEW = ["", "a", "b", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghj", "é" * 9, "x" * 100, "x" * 99 + "y"]
# Repeated, of 0 to about 80 bytes around the 16 that an entry holds, some of them zeros.
ODD = ["ab", "é", "\0", "abcdefgh", "yyyyy"]


def texts_of(number: int, rows: int) -> dict[str, list[Any]]:
    chooser = random.Random(number)
    return {
        "few": [None if i % 50 == 7 else chooser.choice(FEW) for i in range(rows)],
        "many": [f"text-{chooser.randrange(60_000) * 7919}" for _ in range(rows)],
        "odd": [ODD[i % 5] * (i % 11) + "x" * (i % 3) for i in range(rows)],
        "n": [i % 5 for i in range(rows)],
    }


DATA = [texts_of(number, rows) for number, rows in enumerate(ROWS)]


@pytest.fixture(scope="module")
def segments() -> Iterator[list[Segment]]:
    made = []
    for number, columns in enumerate(DATA):
        directory = MemoryDirectory(f"t_{number}")
        batch = pa.record_batch(
            {name: pa.array(values, pa.int32() if name == "n" else pa.string()) for name, values in columns.items()}
        )
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
        wanted = Counter(
            value if value is not None else "null" for columns in DATA[:count] for value in columns[column]
        )
        found = rows_of(segments[:count], f"SELECT {column}, COUNT(*) FROM t GROUP BY {column} LIMIT 1000000", threads)
        assert dict(found) == dict(wanted)
        assert len(found) == len(wanted)
        assert rows_of(segments[:count], f"SELECT DISTINCTCOUNT({column}) FROM t", threads) == [(len(wanted),)]
        some = Counter(
            value if value is not None else "null"
            for columns in DATA[:count]
            for value, n in zip(columns[column], columns["n"], strict=True)
            if n == 3
        )
        assert dict(
            rows_of(
                segments[:count],
                f"SELECT {column}, COUNT(*) FROM t WHERE n = 3 GROUP BY {column} LIMIT 1000000",
                threads,
            )
        ) == dict(some)


def test_null_is_a_group_of_its_own(segments: list[Segment]) -> None:
    wanted = Counter(value for columns in DATA for value in columns["few"])
    assert dict(rows_of(segments, "SELECT few, COUNT(*) FROM t GROUP BY few LIMIT 100", 2, null_handling=True)) == dict(
        wanted
    )


@pytest.mark.parametrize("null_handling", [False, True])
def test_functions_of_raw_texts_are_those_of_python(segments: list[Segment], null_handling: bool) -> None:
    for column in ("few", "many"):
        values = [
            value if value is not None or null_handling else "null" for columns in DATA for value in columns[column]
        ]
        upper = Counter(None if value is None else value.upper() for value in values)
        found = rows_of(
            segments,
            f"SELECT UPPER({column}), COUNT(*) FROM t GROUP BY UPPER({column}) LIMIT 1000000",
            2,
            null_handling=null_handling,
        )
        assert dict(found) == dict(upper)
        lengths = Counter(None if value is None else len(value) for value in values)
        found = rows_of(
            segments,
            f"SELECT LENGTH({column}), COUNT(*) FROM t GROUP BY LENGTH({column}) LIMIT 1000",
            2,
            null_handling=null_handling,
        )
        assert dict(found) == dict(lengths)
        longest = max(len(value) for value in values if value is not None)
        assert rows_of(segments, f"SELECT MAX(LENGTH({column})) FROM t", 2, null_handling=null_handling) == [(longest,)]


def numbers_of(
    segments: list[Segment], column: str, threads: int, *, filtered: bool = False, **further: Any
) -> TextCodes:
    text = f"SELECT {column}, COUNT(*) FROM t {'WHERE n = 3 ' if filtered else ''}GROUP BY {column}"
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
    with ThreadPoolExecutor(2) as executor:
        plan = build_scan(context, segments, QueryControl(), threads=threads, executor=executor)
        return code_texts(
            plan if plan.reads_all_rows else materialize_selection(plan), column, range(len(segments)), **further
        )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("hash_mask", [HASH_MASK, 0x3FF << 54, 0, 0x3 << 20])
def test_numbers_are_equal_where_texts_are(
    segments: list[Segment], threads: int, filtered: bool, hash_mask: int
) -> None:
    """Whatever the hashes say: with few bits of them nearly all texts collide."""
    column = "many" if hash_mask == HASH_MASK else "odd"
    found = numbers_of(segments, column, threads, filtered=filtered, hash_mask=hash_mask)
    seen: dict[int, str] = {}
    for number, columns in enumerate(DATA):
        read = np.array([not filtered or n == 3 for n in columns["n"]])
        ids = found.ids[number][read]
        texts = [text for text, wanted in zip(columns[column], read, strict=True) if wanted]
        assert [text.decode() for text in found.values(ids).to_pylist()] == texts
        seen |= dict(zip(ids.tolist(), texts, strict=True))
    assert len(seen) == len(set(seen.values())) == found.count
    assert sorted(seen) == sorted(found.all_ids().tolist())
    assert max(seen) < found.num_ids
    without = numbers_of(segments, column, threads, filtered=filtered, hash_mask=hash_mask, with_ids=False)
    assert without.count == found.count and not without.ids
    assert set(without.values(without.all_ids()).to_pylist()) == {text.encode() for text in seen.values()}


def test_waves_and_runs_are_not_seen(segments: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numbers_of(segments, "many", 2)
    monkeypatch.setattr(text_coding, "RUN_DOCS", 1 << 10)
    monkeypatch.setattr(text_coding, "WAVE_DOCS", 1 << 13)
    monkeypatch.setattr(text_coding, "PART_DOCS", 1 << 8)
    parts = numbers_of(segments, "many", 2)
    assert parts.count == whole.count
    for number, columns in enumerate(DATA):
        assert [text.decode() for text in parts.values(parts.ids[number]).to_pylist()] == columns["many"]


def test_parts_that_are_too_uneven_are_one(segments: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_coding, "PART_DOCS", 1 << 12)
    monkeypatch.setattr(text_coding, "NUMBERS_MAX", 4096)
    found = numbers_of(segments, "odd", 2, hash_mask=0x3 << 60)
    assert found.num_ids == found.count == len({text for columns in DATA for text in columns["odd"]})
    with pytest.raises(QueryExecutionError):
        numbers_of(segments, "many", 2, with_ids=False, hash_mask=HASH_MASK >> 1)


def test_memory_is_counted_and_the_query_can_be_stopped(
    segments: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHARES_OF_CACHE, "text codes", 0)
    for text in (
        "SELECT many, COUNT(*) FROM t GROUP BY many",
        "SELECT DISTINCTCOUNT(many) FROM t",
        "SELECT many, n, COUNT(*) FROM t GROUP BY many, n",
    ):
        context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
        with pytest.raises(MemoryLimitError):
            execute(context, segments, QueryControl(memory_max_bytes=1_000_000))
        stopped = QueryControl()
        stopped.cancel()
        plan = build_scan(context, segments, QueryControl())
        plan.control = stopped
        with pytest.raises(QueryCancelledError):
            code_texts(plan, "many", range(len(segments)))
