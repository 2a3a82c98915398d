"""Proves selections: ORDER BY over every type, encoding and null mode equals Python's sort of the same rows; LIMIT
takes the first docs; expressions, multi-values and DISTINCT come out as the rows say.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import cmp_to_key
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.query import execute as execution
from pinotpy.query.execute import execute
from pinotpy.query.model.context import (
    Bound,
    ColumnRef,
    Comparison,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl

VALUES: dict[DataType, list[Any]] = {
    DataType.INT: [-5, 0, 3, 2**31 - 1, -(2**31)],
    DataType.LONG: [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1],
    DataType.FLOAT: [-1.5, 0.0, 0.25, float("inf"), float("-inf")],
    DataType.DOUBLE: [-1e300, -0.5, 0.0, 5e-324, float("inf")],
    DataType.BOOLEAN: [0, 1],
    DataType.TIMESTAMP: [-1, 0, 10**12],
    DataType.STRING: [b"", b"a", b"ab", "ä".encode(), "\U0001f600".encode()],
    DataType.BYTES: [b"", b"\0", b"\xff", b"\xff\0"],
}


def shown(value: Any, data_type: DataType) -> Any:
    """A stored value as a partial result shows it."""
    if data_type is DataType.BOOLEAN and value is not None:
        return bool(value)
    return value.decode() if data_type is DataType.STRING and value is not None else value


def query(refs: list[ColumnRef], outputs: list[Expression], **changes: Any) -> QueryContext:
    kind = changes.pop("kind", QueryKind.SELECTION)
    return QueryContext(
        changes.pop("dialect", Dialect.SQL),
        kind,
        "t",
        tuple(OutputColumn(str(i), expression) for i, expression in enumerate(outputs)),
        columns=tuple(refs),
        **changes,
    )


def compare(order: tuple[OrderBy, ...], types: dict[str, DataType], null_handling: bool) -> Any:
    def key(a: dict[str, Any], b: dict[str, Any]) -> int:
        for by in order:
            name = by.expression.name
            x, y = a[name], b[name]
            if not null_handling:
                x = default_null_value(types[name], FieldType.DIMENSION) if x is None else x
                y = default_null_value(types[name], FieldType.DIMENSION) if y is None else y
            nulls_last = by.ascending if by.nulls_last is None else by.nulls_last
            if (x is None) is not (y is None):
                return (1 if x is None else -1) * (1 if nulls_last else -1)
            if x != y:
                return (1 if x > y else -1) * (1 if by.ascending else -1)
        return 0

    return cmp_to_key(key)


@pytest.mark.parametrize("seed", range(16))
def test_order_by_equals_a_stable_sort_of_the_rows(seed: int) -> None:
    rng = random.Random(seed)
    types = {f"c{i}": rng.choice(list(VALUES)) for i in range(3)}
    rows = [
        {name: None if rng.random() < 0.2 else rng.choice(VALUES[t]) for name, t in types.items()}
        for _ in range(rng.choice([50, 2500]))
    ]
    pieces = rng.choice([2, 9])  # values of many segments are gathered by one kernel
    segments = []
    for part in (rows[len(rows) * i // pieces : len(rows) * (i + 1) // pieces] for i in range(pieces)):
        columns = [
            fake_column(name, t, [row[name] for row in part], dictionary=rng.random() < 0.7, packed=rng.random() < 0.3)
            for name, t in types.items()
        ]
        segments.append(FakeSegment("s", columns))
    refs = [ColumnRef(name, t) for name, t in types.items()]
    for _ in range(6):
        null_handling = rng.random() < 0.5
        names = rng.sample(list(types), rng.randint(1, 3))
        order = tuple(
            OrderBy(Identifier(name), rng.random() < 0.5, rng.choice([None, True, False]) if null_handling else None)
            for name in names
        )
        limit, offset = rng.choice([(1, 0), (7, 2), (400, 0), (10_000, 5)])
        context = query(
            refs,
            [Identifier(name) for name in types],
            order_by=order,
            limit=limit,
            offset=offset,
            null_handling=null_handling,
        )
        partial = execute(context, segments, QueryControl())
        expected = sorted(rows, key=compare(order, types, null_handling))[: limit + offset]
        for position, (name, t) in enumerate(types.items()):
            want = [
                row[name] if row[name] is not None or null_handling else default_null_value(t, FieldType.DIMENSION)
                for row in expected
            ]
            got = partial.rows[f"o{position}"].to_pylist()
            if name in names:
                assert got == [shown(v, t) for v in want], (seed, order)
            assert len(got) == len(expected)
        assert partial.statistics.num_docs_scanned <= len(rows)  # segments that cannot matter are left out


def test_two_threads_give_the_rows_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1000)
    rng = random.Random(1)
    values = [rng.randint(0, 50) for _ in range(30_000)]
    segments = [
        FakeSegment(
            "s",
            [
                fake_column("a", DataType.INT, values),
                fake_column("s", DataType.STRING, [str(v).encode() for v in values]),
            ],
        )
    ]
    refs = [ColumnRef("a", DataType.INT), ColumnRef("s", DataType.STRING)]
    condition = Predicate(Identifier("a"), Comparison.RANGE, lower=Bound(10, True))
    with ThreadPoolExecutor(2) as executor:
        for order in (
            (),
            (OrderBy(Identifier("a")),),
            (OrderBy(Identifier("s"), False),),
            (OrderBy(Call("plus", (Identifier("a"), Literal(1, "1")))),),
        ):
            context = query(refs, [Identifier("a"), Identifier("s")], filter=condition, order_by=order, limit=500)
            plan = scan.build_scan(context, segments, QueryControl(), threads=3, executor=executor)
            assert plan.num_threads == 3 and int((plan.morsels[:, 2] - plan.morsels[:, 1]).sum()) == 30_000
            one = execute(context, segments, QueryControl())
            three = execute(context, segments, QueryControl(), threads=3, executor=executor)
            assert three.rows.equals(one.rows)
            assert three.statistics.num_docs_scanned == one.statistics.num_docs_scanned
            assert three.statistics.num_entries_scanned_in_filter >= one.statistics.num_entries_scanned_in_filter
    assert one.rows["o0"].to_pylist() == sorted(v for v in values if v >= 10)[:500]


def test_without_order_the_first_docs_are_taken_and_no_more_are_counted() -> None:
    segments = [
        FakeSegment(f"s{i}", [fake_column("a", DataType.INT, list(range(i * 3000, i * 3000 + 3000)), dictionary=False)])
        for i in range(4)
    ]
    refs = [ColumnRef("a", DataType.INT)]
    partial = execute(
        query(refs, [Identifier("a"), Identifier("a"), Literal(5, "5")], limit=2, offset=3), segments, QueryControl()
    )
    assert partial.rows["o0"].to_pylist() == [0, 1, 2, 3, 4] == partial.rows["o1"].to_pylist()
    assert partial.rows["o2"].to_pylist() == [5] * 5
    statistics = partial.statistics
    assert (statistics.num_docs_scanned, statistics.num_entries_scanned_post_filter, statistics.total_docs) == (
        5,
        5,
        12_000,
    )
    assert (statistics.num_segments_queried, statistics.num_segments_processed, statistics.num_segments_matched) == (
        4,
        1,
        1,
    )
    odd = Predicate(Identifier("a"), Comparison.IN, (2999, 3001, 8999))
    assert execute(query(refs, [Identifier("a")], filter=odd, limit=2), segments, QueryControl()).rows[
        "o0"
    ].to_pylist() == [2999, 3001]
    assert (
        execute(query(refs, [Identifier("a")], limit=0), segments, QueryControl()).rows is None
    )  # the broker knows names and types


def test_multi_values_nulls_and_arithmetic_are_shown() -> None:
    segment = FakeSegment(
        "s",
        [
            fake_column("m", DataType.STRING, [[b"a", b"b"], None, [b"c"]], single_value=False),
            fake_column("i", DataType.INT, [7, None, -7]),
            fake_column("d", DataType.DOUBLE, [2.0, 0.0, 0.0], dictionary=False),
        ],
    )
    refs = [ColumnRef("m", DataType.STRING, False), ColumnRef("i", DataType.INT), ColumnRef("d", DataType.DOUBLE)]
    outputs: list[Expression] = [
        Identifier("m"),
        Call("divide", (Identifier("i"), Identifier("d"))),
        Call("mod", (Identifier("i"), Literal(3, "3"))),
    ]
    plain = execute(query(refs, outputs), [segment], QueryControl()).rows
    assert plain["o0"].to_pylist() == [["a", "b"], ["null"], ["c"]]
    assert plain["o1"].to_pylist() == [3.5, float("-inf"), float("-inf")]
    assert plain["o2"].to_pylist() == [1.0, float(np.fmod(-(2**31), 3)), -1.0]
    assert [field.metadata[b"type"] for field in plain.schema] == [b"STRING_ARRAY", b"DOUBLE", b"DOUBLE"]
    nulls = execute(query(refs, outputs, null_handling=True), [segment], QueryControl()).rows
    assert nulls["o0"].to_pylist() == [["a", "b"], None, ["c"]]
    assert nulls["o1"].to_pylist() == [3.5, None, float("-inf")]


def test_distinct_gives_each_row_once() -> None:
    rows = [(b"x", 1), (b"y", 1), (b"x", 1), (b"x", 2), (None, 2), (None, 2)]
    segments = []
    for part in (rows[:3], rows[3:]):
        columns = [
            fake_column("a", DataType.STRING, [r[0] for r in part]),
            fake_column("b", DataType.INT, [r[1] for r in part]),
        ]
        segments.append(FakeSegment("s", columns))
    refs = [ColumnRef("a", DataType.STRING), ColumnRef("b", DataType.INT)]
    outputs: list[Expression] = [Identifier("a"), Identifier("b")]
    order = (OrderBy(Identifier("a")), OrderBy(Identifier("b"), False))
    for null_handling, last in ((False, ("null", 2)), (True, (None, 2))):
        context = query(refs, outputs, kind=QueryKind.DISTINCT, null_handling=null_handling, order_by=order)
        table = execute(context, segments, QueryControl()).rows
        found = list(zip(table["o0"].to_pylist(), table["o1"].to_pylist(), strict=True))
        expected = {("x", 1), ("x", 2), ("y", 1), last}
        assert len(found) == 4 and set(found) == expected
    limited = execute(
        query(refs, outputs, kind=QueryKind.DISTINCT, order_by=order, limit=2), segments, QueryControl()
    ).rows
    assert limited.num_rows == 2


@pytest.mark.parametrize(("dialect", "error"), [(Dialect.PQL, QueryExecutionError), (Dialect.SQL, InvalidQueryError)])
def test_order_by_multi_values_is_refused(dialect: Dialect, error: type[Exception]) -> None:
    segment = FakeSegment("s", [fake_column("m", DataType.INT, [[1, 2], [3]], single_value=False)])
    context = query(
        [ColumnRef("m", DataType.INT, False)], [Identifier("m")], order_by=(OrderBy(Identifier("m")),), dialect=dialect
    )
    with pytest.raises(error, match="multi-value"):
        execute(context, [segment], QueryControl())


@pytest.mark.parametrize(
    ("column", "asked", "limit", "scans"),
    [
        ("few", 5, 2, [1]),  # a tenth of the rows: the first segment has enough, and the others only larger values
        ("few", 5, 2_000, [4]),
        ("each", 905, 10, [4]),  # once a segment: none is tried alone
        ("each", -1, 10, [4]),
    ],
)
def test_a_segment_is_tried_alone_only_where_an_equality_leaves_enough(
    column: str, asked: int, limit: int, scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"a": np.arange(4_000), "few": np.arange(4_000) % 10, "each": np.arange(4_000) % 1_000}
    pieces = [
        {name: values[1_000 * i : 1_000 * (i + 1)].tolist() for name, values in numbers.items()} for i in range(4)
    ]
    segments = [
        FakeSegment(f"s{i}", [fake_column(name, DataType.INT, piece[name]) for name in numbers])
        for i, piece in enumerate(pieces)
    ]
    found: list[int] = []
    build = execution.build_scan

    def watch(context: QueryContext, some: Any, *arguments: Any, **named: Any) -> Any:
        found.append(len(some))
        return build(context, some, *arguments, **named)

    monkeypatch.setattr(execution, "build_scan", watch)
    equal = Predicate(Identifier(column), Comparison.EQ, (asked,))
    refs = [ColumnRef(name, DataType.INT) for name in numbers]
    rows = execute(
        query(refs, [Identifier("a")], filter=equal, order_by=(OrderBy(Identifier("a")),), limit=limit),
        segments,
        QueryControl(),
    ).rows
    assert rows is not None and rows["o0"].to_pylist() == np.flatnonzero(numbers[column] == asked)[:limit].tolist()
    assert found == scans
