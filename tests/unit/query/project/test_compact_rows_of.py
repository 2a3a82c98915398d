"""Proves that few selected rows are read where they lie, without Arrow, as what was put in (compared with the Python
values that the segments were made of): every type, with a dictionary and without, null or not, from a part of the
segments, in any order; and what is not provided for (expressions, multi-values, raw texts, many rows, packed columns)
goes the way over Arrow with the same values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan.instruction_cache import PreparedShapes
from pinotpy.query.result.compact_rows import COMPACT_ROWS_MAX
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

SEGMENTS, DOCS = 40, 50
TYPES = {
    "i": DataType.INT, "l": DataType.LONG, "f": DataType.FLOAT, "d": DataType.DOUBLE, "t": DataType.TIMESTAMP,
    "b": DataType.BOOLEAN,
    "s": DataType.STRING, "j": DataType.JSON, "x": DataType.BYTES,
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "i": -(2**31), "l": -(2**63), "f": float("-inf"), "d": float("-inf"), "t": 0, "b": 0, "s": b"null", "j": b"null",
    "x": b"",
}  # fmt: skip
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *[{"name": name, "dataType": kind.value} for name, kind in TYPES.items()],
            {"name": "day", "dataType": "INT"},
            {"name": "raw_s", "dataType": "STRING"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
        ],
    }
)


def values(number: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(number)
    made: dict[str, list[Any]] = {
        "i": rng.integers(-(2**31), 2**31, DOCS).tolist(),
        "l": rng.integers(-(2**63), 2**63 - 1, DOCS).tolist(),
        "f": rng.normal(size=DOCS).astype(np.float32).tolist(),
        "d": rng.normal(size=DOCS).tolist(),
        "t": rng.integers(0, 2**40, DOCS).tolist(),
        "b": rng.integers(0, 2, DOCS).tolist(),
        "s": [("ä" * int(n)).encode() + b"%d" % n for n in rng.integers(0, 30, DOCS)],
        "j": [b'{"a":%d}' % n for n in rng.integers(0, 30, DOCS)],
        "x": [bytes(rng.integers(0, 256, n).tolist()) for n in rng.integers(0, 5, DOCS)],
    }
    nulls = {name: rng.random(DOCS) < 0.2 for name in made}
    made = {
        name: [None if null else value for value, null in zip(column, nulls[name], strict=True)]
        for name, column in made.items()
    }
    days = np.sort(rng.integers(number * 10, number * 10 + 10, DOCS)).tolist()
    return made | {
        "day": days,
        "raw_s": [b"r%d" % n for n in rng.integers(0, 9, DOCS)],
        "many": [[1, int(n)] for n in rng.integers(0, 9, DOCS)],
    }


VALUES = [values(number) for number in range(SEGMENTS)]


def segment(number: int) -> FakeSegment:
    """Numbers are raw in every third segment."""
    data = VALUES[number]
    columns = [
        fake_column(name, kind, data[name], dictionary=number % 3 != 0 or kind.stored.value == "VAR")
        for name, kind in TYPES.items()
    ]
    columns += [
        fake_column("day", DataType.INT, data["day"]),
        fake_column("raw_s", DataType.STRING, data["raw_s"], dictionary=False),
    ]
    return FakeSegment(f"t_{number}", [*columns, fake_column("many", DataType.INT, data["many"], single_value=False)])


@pytest.fixture(scope="module")
def segments() -> SegmentSet:
    return SegmentSet([segment(number) for number in range(SEGMENTS)])


def asked(text: str, segments: SegmentSet, *, null_handling: bool = False) -> PartialResult:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)
    return execute(context, segments, QueryControl())


def shown(name: str, value: Any, *, null_handling: bool) -> Any:
    """As a partial result has it: texts as str, booleans as bool."""
    if value is None:
        if null_handling:
            return None
        value = DEFAULTS[name]
    kind = TYPES.get(name, DataType.STRING if name == "raw_s" else DataType.INT)
    return value.decode() if kind.is_text else bool(value) if kind is DataType.BOOLEAN else value


def rows_of(low: int, high: int, names: list[str], *, null_handling: bool) -> list[tuple[Any, ...]]:
    """Rows of these days in the order of the segments."""
    return [
        tuple(shown(name, data[name][doc], null_handling=null_handling) for name in names)
        for data in VALUES
        for doc in range(DOCS)
        if low <= data["day"][doc] <= high
    ]


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0, 30), (95, 204), (155, 155)])
def test_values_of_every_type(segments: SegmentSet, low: int, high: int, null_handling: bool) -> None:
    names = [*TYPES, "day"]
    partial = asked(
        f"SELECT {', '.join(names)} FROM t WHERE day BETWEEN {low} AND {high} LIMIT 1000",
        segments,
        null_handling=null_handling,
    )
    assert partial.few is not None
    expected = rows_of(low, high, names, null_handling=null_handling)
    assert 0 < len(expected) <= COMPACT_ROWS_MAX
    assert list(zip(*partial.few.to_lists().values(), strict=True)) == expected
    table = partial.rows
    assert table is not None and [table.schema.field(f"o{i}").type for i in range(len(TYPES))] == [
        kind.arrow for kind in TYPES.values()
    ]
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected
    read = PartialResult.from_bytes(partial.to_bytes(few=True))
    assert read.few is not None and read.few.to_lists() == partial.few.to_lists()


@pytest.mark.parametrize("name", list(TYPES))
def test_rows_in_the_order_of_a_key(segments: SegmentSet, name: str) -> None:
    for direction in ("ASC", "DESC"):
        partial = asked(
            f"SELECT day, {name} FROM t WHERE day BETWEEN 33 AND 38 ORDER BY {name} {direction}, day LIMIT 500",
            segments,
        )
        assert partial.few is not None
        key = (lambda row: (row[1].encode(), row[0])) if TYPES[name].is_text else (lambda row: (row[1], row[0]))
        found = list(zip(*partial.few.to_lists().values(), strict=True))
        expected = sorted(rows_of(33, 38, ["day", name], null_handling=False), key=key)
        if direction == "DESC":
            expected = sorted(sorted(expected, key=lambda row: row[0]), key=lambda row: key(row)[0], reverse=True)
        assert found == expected


@pytest.mark.parametrize("what", ["i + 1", "many", "raw_s"])
def test_other_rows_go_over_arrow(segments: SegmentSet, what: str) -> None:
    partial = asked(f"SELECT day, {what} FROM t WHERE day BETWEEN 33 AND 38 LIMIT 500", segments)
    assert partial.few is None and partial.rows is not None
    days = [row[0] for row in rows_of(33, 38, ["day"], null_handling=False)]
    assert partial.rows.column("o0").to_pylist() == days
    if what == "raw_s":
        assert partial.rows.column("o1").to_pylist() == [
            row[0] for row in rows_of(33, 38, ["raw_s"], null_handling=False)
        ]


def test_many_rows_go_over_arrow(segments: SegmentSet) -> None:
    partial = asked("SELECT day, s FROM t LIMIT 1500", segments)
    assert partial.few is None and partial.rows is not None
    assert (
        list(zip(*partial.rows.to_pydict().values(), strict=True))
        == rows_of(0, 10**6, ["day", "s"], null_handling=False)[:1500]
    )


def test_packed_columns_are_not_decoded_whole() -> None:
    packed = FakeSegment(
        "t_0",
        [
            fake_column("day", DataType.INT, VALUES[0]["day"]),
            fake_column("i", DataType.INT, VALUES[0]["i"], packed=True),
        ],
    )
    partial = asked("SELECT day, i FROM t WHERE day <= 5 LIMIT 500", SegmentSet([packed]))
    assert partial.few is None and partial.rows is not None
    assert list(zip(*partial.rows.to_pydict().values(), strict=True)) == [
        (VALUES[0]["day"][doc], shown("i", VALUES[0]["i"][doc], null_handling=False))
        for doc in range(DOCS)
        if VALUES[0]["day"][doc] <= 5
    ]


def test_queries_of_one_filter_and_other_orders_sort_each_for_itself(segments: SegmentSet) -> None:
    for _ in range(2):
        for order in ("i", "i DESC", "d", "s DESC", "s, i", "l DESC, s"):
            partial = asked(
                f"SELECT i, l, d, s FROM t WHERE day BETWEEN 100 AND 130 ORDER BY {order} LIMIT 40", segments
            )
            assert partial.few is not None
            found = list(zip(*partial.few.to_lists().values(), strict=True))
            names = {"i": 0, "l": 1, "d": 2, "s": 3}
            expected = rows_of(100, 130, list(names), null_handling=False)
            for part in reversed(order.split(", ")):
                name, _, direction = part.partition(" ")
                expected.sort(
                    key=lambda row, at=names[name]: row[at].encode() if at == 3 else row[at], reverse=bool(direction)
                )
            assert found == expected[:40], order
    assert len(segments.attached(PreparedShapes).prepared) >= 6


def test_orders_that_differ_share_nothing_and_equal_ones_do(segments: SegmentSet) -> None:
    asked("SELECT i FROM t WHERE day = 1 ORDER BY i, s LIMIT 4", segments)
    before = len(segments.attached(PreparedShapes).prepared)
    asked("SELECT i FROM t WHERE day = 2 ORDER BY i, s LIMIT 40", segments)
    assert len(segments.attached(PreparedShapes).prepared) == before
    asked("SELECT i FROM t WHERE day = 2 ORDER BY i, s DESC LIMIT 40", segments)
    assert len(segments.attached(PreparedShapes).prepared) == before + 1
