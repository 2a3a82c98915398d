"""Numbers of raw texts that are kept for later queries give what Python counts, whatever the filters; they are made
once a set of segments, go with it, and are done without where they do not fit the budget.
"""

from __future__ import annotations

import gc
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
from pinotpy.query.project import text_code_cache
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.memory_shares import SHARES_OF_CACHE
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "text", "dataType": "STRING"}, {"name": "n", "dataType": "INT"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"noDictionaryColumns": ["text"]},
    }
)
# n lies between 100 * segment and 100 * segment + 9, so that filters prune segments.
DATA = [
    (
        number,
        [f"{'long ' * (i % 5)}{random.Random(number * 7919 + i).randrange(700)}" for i in range(rows)],
        [100 * number + i % 10 for i in range(rows)],
    )
    for number, rows in enumerate((3_000, 1, 2_000, 500))
]


@pytest.fixture
def segments() -> Iterator[list[Any]]:
    made = []
    for number, texts, ns in DATA:
        directory = MemoryDirectory(f"t_{number}")
        batch = pa.record_batch({"text": pa.array(texts), "n": pa.array(ns, pa.int32())})
        build_segment_into(directory, SCHEMA, CONFIG, [batch], f"t_{number}")
        made.append(open_segment(directory))
    yield made
    for segment in made:
        segment.close()


@pytest.fixture
def numberings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for every shared dictionary of a whole set."""
    made: list[str] = []
    real = text_code_cache._made

    def counted(segments: SegmentSet, name: str, *further: Any) -> Any:
        made.append(name)
        return real(segments, name, *further)

    monkeypatch.setattr(text_code_cache, "_made", counted)
    return made


def rows_of(segments: SegmentSet, text: str) -> list[tuple[Any, ...]]:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)
    with ThreadPoolExecutor(2) as executor:
        partial = execute(context, segments, QueryControl(), threads=2, executor=executor, is_final=True)
    reduced = reduce_partials(context, merge_partials(context, [partial]))
    return list(zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))


def check(segments: SegmentSet, low: int, high: int, count: int) -> None:
    wanted = Counter(
        text for _, texts, ns in DATA[:count] for text, n in zip(texts, ns, strict=True) if low <= n <= high
    )
    assert dict(
        rows_of(segments, f"SELECT text, COUNT(*) FROM t WHERE n BETWEEN {low} AND {high} GROUP BY text LIMIT 9000")
    ) == dict(wanted)
    assert rows_of(segments, f"SELECT DISTINCTCOUNT(text), COUNT(*) FROM t WHERE n BETWEEN {low} AND {high}") == [
        (len(wanted), sum(wanted.values()))
    ]
    few = Counter(n for _, _, ns in DATA[:count] for n in ns if low <= n <= high)
    counts = rows_of(
        segments,
        f"SELECT n, DISTINCTCOUNT(text), COUNT(*) FROM t WHERE n BETWEEN {low} AND {high} GROUP BY n LIMIT 900",
    )
    assert {n: times for n, _, times in counts} == dict(few)


def test_later_queries_find_the_numbers_of_the_first(segments: list[Any], numberings: list[str]) -> None:
    kept = SegmentSet(segments)
    check(kept, 0, 1000, 4)
    assert numberings == ["text"]
    for low, high in ((3, 1000), (0, 205), (200, 1000), (1, 4), (300, 300), (0, 1000), (250, 260)):
        check(kept, low, high, 4)
    assert numberings == ["text"]


def test_a_query_of_many_docs_has_them_made(segments: list[Any], numberings: list[str]) -> None:
    kept = SegmentSet(segments)
    rows_of(kept, "SELECT DISTINCTCOUNT(text) FROM t WHERE n = 3")
    rows_of(kept, "SELECT DISTINCTCOUNT(text) FROM t WHERE n = 4")
    assert not numberings, "a tenth of the docs is not worth it"
    rows_of(kept, "SELECT DISTINCTCOUNT(text) FROM t WHERE n < 200")
    assert numberings == ["text"]
    check(kept, 0, 203, 4)
    assert numberings == ["text"]


def test_they_go_with_their_set_and_a_changed_one_has_its_own(segments: list[Any], numberings: list[str]) -> None:
    before = DECODED.used_bytes
    first = SegmentSet(segments[:2])
    check(first, 0, 1000, 2)
    assert DECODED.used_bytes > before
    second = SegmentSet(segments[:3], first)
    check(second, 0, 1000, 3)
    assert numberings == ["text", "text"]
    check(first, 2, 1000, 2)
    del first, second
    gc.collect()
    assert DECODED.used_bytes == before


def test_without_room_they_are_tried_once(
    segments: list[Any], numberings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHARES_OF_CACHE, "text codes", 0)
    kept = SegmentSet(segments)
    for low in (0, 1, 2):
        check(kept, low, 1000, 4)
    assert numberings == ["text"]
