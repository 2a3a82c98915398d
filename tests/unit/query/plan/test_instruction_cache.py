"""Proves prepared shapes: queries that share instructions with others over one set of segments answer as those that do
not (compared with numpy), whatever segments are left of it, however many columns are encoded in whatever way, on
several threads; what cannot be shared is not; and no more is kept than the limit.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.plan import build, instruction_cache
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

DOCS = 5000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": name, "dataType": "INT"} for name in ("day", "g", "h")]
        + [{"name": "s", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "v", "dataType": "LONG"}],
    }
)


def rows(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {
        "day": np.sort(rng.integers(10 * number, 10 * number + 10, DOCS)),
        "g": rng.integers(0, 5 + number, DOCS),
        "h": rng.integers(0, 40, DOCS),
        "s": np.array([b"x%d" % i for i in rng.integers(0, 7, DOCS)]),
        "v": rng.integers(-(10**12), 10**12, DOCS),
    }


ROWS = [rows(number) for number in range(6)]


def segment(number: int) -> FakeSegment:
    """v is raw in every second segment, g in the fourth."""
    data = {name: values.tolist() for name, values in ROWS[number].items()}
    return FakeSegment(
        f"t_{number}",
        [
            fake_column("day", DataType.INT, data["day"]),
            fake_column("g", DataType.INT, data["g"], dictionary=number != 4),
            fake_column("h", DataType.INT, data["h"], inverted=True),
            fake_column("s", DataType.STRING, data["s"]),
            fake_column("v", DataType.LONG, data["v"], dictionary=number % 2 == 0),
        ],
    )


@pytest.fixture(scope="module")
def segments() -> SegmentSet:
    return SegmentSet([segment(number) for number in range(6)])


def compiled(text: str) -> QueryContext:
    return compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False)


def expected(keys: tuple[str, ...], low: int, high: int, h: int) -> dict[Any, tuple[int, int, int, int]]:
    groups: dict[Any, list[int]] = {}
    for data in ROWS:
        kept = (data["day"] >= low) & (data["day"] <= high) & (data["h"] != h)
        for *key, value in zip(*(data[name][kept].tolist() for name in keys), data["v"][kept].tolist(), strict=True):
            groups.setdefault(tuple(key), []).append(value)
    return {key: (len(values), sum(values), min(values), max(values)) for key, values in groups.items()}


def answer(context: QueryContext, segments: Any, threads: int, num_keys: int) -> dict[Any, tuple[int, ...]]:
    with ThreadPoolExecutor(2) as executor:
        found = execute(context, segments, QueryControl(), threads=threads, executor=executor).rows
    if found is None:
        return {}
    table = [
        tuple(int(value) if not isinstance(value, str) else value.encode() for value in row.values())
        for row in found.to_pylist()
    ]
    return {row[:num_keys]: row[num_keys:] for row in table}


@pytest.mark.parametrize("keys", [(), ("g",), ("s",), ("h", "s")])
@pytest.mark.parametrize("threads", [1, 3])
def test_queries_of_one_shape_answer_each_for_itself(
    segments: SegmentSet, keys: tuple[str, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 700)
    rng = random.Random(f"{keys}{threads}")
    before = len(segments.attached(instruction_cache.PreparedShapes).prepared)
    for _ in range(12):
        low = rng.randint(-5, 60)
        high, h = low + rng.choice((0, 3, 30, 100)), rng.randint(0, 45)
        aggregations = "COUNT(*), SUM(v), MIN(v), MAX(v)"
        text = f"SELECT {', '.join([*keys, aggregations])} FROM t WHERE day BETWEEN {low} AND {high} AND h <> {h}" + (
            f" GROUP BY {', '.join(keys)} LIMIT 10000" if keys else ""
        )
        found = answer(compiled(text), segments, threads, len(keys))
        assert {key: value for key, value in found.items() if value[0]} == expected(keys, low, high, h)
        part = [segments[row] for row in rng.sample(range(6), 3)]
        alone = answer(compiled(text), SegmentSet(part), threads, len(keys))
        assert (
            answer(
                compiled(text), segments.take(np.array([list(segments).index(one) for one in part])), threads, len(keys)
            )
            == alone
        )
    assert len(segments.attached(instruction_cache.PreparedShapes).prepared) <= before + 1


def test_what_is_not_the_same_for_all_queries_of_a_shape_is_not_shared(segments: SegmentSet) -> None:
    for text in (
        "SELECT SUM(v) FILTER (WHERE g = 1) FROM t",
        "SELECT $segmentName, COUNT(*) FROM t GROUP BY $segmentName",
    ):
        assert not instruction_cache.is_shared(compiled(text), segments), text
    assert instruction_cache.is_shared(
        compiled("SELECT s, COUNT(*), MAX(v) FROM t WHERE g + 1 = 3 GROUP BY s"), segments
    )
    raw_text = SegmentSet([FakeSegment("r", [fake_column("s", DataType.STRING, [b"a"], dictionary=False)])])
    assert not instruction_cache.is_shared(compiled("SELECT s, COUNT(*) FROM t GROUP BY s"), raw_text)
    packed = SegmentSet([FakeSegment("p", [fake_column("g", DataType.INT, [1, 2, 3], packed=True)])])
    assert not instruction_cache.is_shared(compiled("SELECT g, COUNT(*) FROM t GROUP BY g"), packed)


def test_expressions_that_the_scan_computes_are_shared_from_the_second_query_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 700)
    segments = SegmentSet([segment(number) for number in range(6)])
    for query, (low, high) in enumerate([(3, 30), (20, 41), (0, 100), (90, 95), (45, 45)]):
        context = compiled(f"SELECT SUM(h * day + 2), COUNT(*) FROM t WHERE day BETWEEN {low} AND {high}")
        with ThreadPoolExecutor(2) as executor:
            partial = execute(context, segments, QueryControl(), threads=2, executor=executor)
        total, count = (column.values[0].as_py() for column in reduce_partials(context, partial).columns)
        kept = [(data["h"] * data["day"] + 2)[(data["day"] >= low) & (data["day"] <= high)] for data in ROWS]
        assert count == sum(map(len, kept)) and (total or 0) == sum(int(part.sum()) for part in kept)
        assert sum(
            one is not None for one in segments.attached(instruction_cache.PreparedShapes).prepared.values()
        ) == (query > 0)
    other = compiled("SELECT SUM(h * day + 3) FROM t WHERE day < 5")
    execute(other, segments, QueryControl())
    assert len(segments.attached(instruction_cache.PreparedShapes).prepared) == 1


def test_a_set_keeps_no_more_shapes_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_cache, "PREPARED_MAX", 3)
    segments = SegmentSet([segment(0)])
    for aggregation in ("SUM(v)", "MIN(v)", "MAX(v)", "AVG(v)", "COUNT(*)"):
        assert execute(compiled(f"SELECT {aggregation} FROM t WHERE h < 9"), segments, QueryControl()).rows is not None
        assert 1 <= len(segments.attached(instruction_cache.PreparedShapes).prepared) <= 3
    monkeypatch.setattr(instruction_cache, "PREPARED_BYTES_MAX", 1)
    assert execute(compiled("SELECT SUM(g) FROM t WHERE h < 9"), segments, QueryControl()).rows is not None
    assert len(segments.attached(instruction_cache.PreparedShapes).prepared) == 1


def test_an_expression_with_a_filter_of_its_own_is_asked_again_and_again(segments: SegmentSet) -> None:
    whole = sum(int(data["v"][data["s"] == b"x3"].sum()) for data in ROWS)
    context = compiled("SELECT SUM(CASE WHEN s = 'x3' THEN v ELSE 0 END) FROM t")
    for _ in range(3):
        with ThreadPoolExecutor(2) as executor:
            partial = execute(context, segments, QueryControl(), threads=2, executor=executor)
        assert reduce_partials(context, partial).columns[0].values.to_pylist() == [pytest.approx(whole)]


def test_a_shape_that_was_asked_once_holds_no_literals() -> None:
    segments = SegmentSet([segment(0)])
    values = ", ".join(map(str, range(5_000)))
    execute(compiled(f"SELECT SUM(CASE WHEN g IN ({values}) THEN 1 ELSE 0 END) FROM t"), segments, QueryControl())
    assert [type(one) for one in segments.attached(instruction_cache.PreparedShapes).asked] == [int]


@pytest.mark.parametrize("keys", ["", "c35", "c1, c35"])
def test_units_of_any_number_of_columns_are_told_apart_by_how_each_is_encoded(keys: str) -> None:
    names = [f"c{number}" for number in range(40)]
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": name, "dataType": "LONG"} for name in names]}
    )
    raw = [set(), {"c0"}, {"c1", "c2"}, {"c39"}, {"c3", "c30"}, set(names)]
    segments = SegmentSet(
        [
            FakeSegment(
                f"t_{row}",
                [
                    fake_column(name, DataType.LONG, [number + row] * 3, dictionary=name not in found)
                    for number, name in enumerate(names)
                ],
            )
            for row, found in enumerate(raw)
        ]
    )
    sums = ", ".join(f"SUM({name}), MAX({name})" for name in names)
    context = compile_query(
        parse_sql(f"SELECT {sums} FROM t" + (f" GROUP BY {keys}" if keys else "")),
        schema,
        QueryOptions(),
        null_handling=False,
    )
    found = execute(context, segments, QueryControl()).rows
    assert found is not None
    rows = [[int(value) for value in row.values()][-2 * len(names) :] for row in found.to_pylist()]
    parts = [[row] for row in range(len(raw))] if keys else [range(len(raw))]
    assert sorted(rows) == [
        [word for number in range(40) for word in (3 * sum(number + row for row in part), number + max(part))]
        for part in parts
    ]
