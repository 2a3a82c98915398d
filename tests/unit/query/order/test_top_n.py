"""Proves that the rows that kernels keep for ORDER BY … LIMIT are the first rows of a stable sort by numpy: every type,
with a dictionary or without or both, nulls in both modes, ties, NaN and ±0.0, bounds of the types, any number of rows
wanted, filters that leave all, most or few docs, one thread and several.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.kernels.order import sort_keys, top_n
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Dialect, Identifier
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
from pinotpy.query.order import top_n as operator
from pinotpy.query.plan import build
from pinotpy.query.plan.build import build_scan
from pinotpy.query.runtime.control import QueryControl

NAN = float("nan")
HOSTILE: dict[DataType, list[Any]] = {
    DataType.INT: [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 2, 2**31 - 1],
    DataType.LONG: [-(2**63), -(2**63) + 1, -1, 0, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    DataType.FLOAT: [float("-inf"), -1.5, -0.0, 0.0, 1e-45, 0.25, float("inf"), NAN],
    DataType.DOUBLE: [float("-inf"), -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300, float("inf"), NAN],
    DataType.BOOLEAN: [0, 1],
    DataType.TIMESTAMP: [-1, 0, 10**12],
    DataType.STRING: [
        b"",
        b"a",
        b"abcdefg",
        b"abcdefgh",
        b"abcdefgh!",
        b"abcdefghabcdefgh",
        b"abcdefghabcdefghi",
        "ä".encode(),
        b"\x7f" * 9,
    ],
    DataType.BYTES: [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\xff", b"\xff" * 8, b"\xff" * 9, b"\xff\0"],
}


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


def ranks(values: list[Any], data_type: DataType, by: OrderBy, *, null_handling: bool) -> np.ndarray:
    """Ascending ranks in the order of the key: equal values have equal ranks."""
    default = default_null_value(data_type, FieldType.DIMENSION)
    filled = [default if value is None else value for value in values]
    if data_type.stored.is_floating:
        # np.unique sorts NaN last, as one value, and −0.0 with 0.0.
        found = np.unique(np.array(filled, data_type.stored.numpy) + 0.0, return_inverse=True)[1]
    else:
        place = {value: rank for rank, value in enumerate(sorted(set(filled)))}
        found = np.array([place[value] for value in filled])
    found = found + 1 if by.ascending else len(values) - found
    if null_handling:
        nulls_last = by.ascending if by.nulls_last is None else by.nulls_last
        found[[value is None for value in values]] = len(values) + 2 if nulls_last else 0
    return found


def check(
    columns: dict[str, tuple[DataType, list[Any]]],
    order: tuple[OrderBy, ...],
    wanted: int,
    *,
    dictionaries: list[bool],
    marks: np.ndarray | None = None,
    null_handling: bool = False,
    executor: Executor | None = None,
) -> None:
    """Rows in as many segments as `dictionaries` has entries, of which those with a mark are selected."""
    num_rows = len(next(iter(columns.values()))[1])
    borders = [num_rows * i // len(dictionaries) for i in range(len(dictionaries) + 1)]
    segments = []
    for number, (first, end) in enumerate(itertools.pairwise(borders)):
        made = [
            fake_column(name, kind, values[first:end], dictionary=dictionaries[number] and NAN not in values[first:end])
            for name, (kind, values) in columns.items()
        ]
        marked = np.zeros(end - first, np.int64) if marks is None else marks[first:end]
        segments.append(
            FakeSegment(f"s{number}", [*made, fake_column("mark", DataType.INT, marked.tolist(), dictionary=False)])
        )
    refs = (*[ColumnRef(name, kind) for name, (kind, _) in columns.items()], ColumnRef("mark", DataType.INT))
    condition = None if marks is None else Predicate(Identifier("mark"), Comparison.RANGE, (), lower=Bound(1, True))
    context = QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t",
        (OutputColumn("mark", Identifier("mark")),),
        filter=condition,
        order_by=order,
        limit=wanted,
        columns=refs,
        null_handling=null_handling,
    )
    plan = build_scan(context, segments, QueryControl(), threads=3, executor=executor)
    names = [by.expression.name for by in order if isinstance(by.expression, Identifier)]
    assert operator.keeps_top_rows(plan, [by.expression for by in order])
    morsels, docs = operator.find_top_rows(plan, wanted)
    segments_of_units = plan.morsels[morsels, abi.U_SEGMENT] if len(morsels) else morsels
    starts = np.array([sum(s.num_docs for s in segments[:i]) for i in range(len(segments))])
    kept = [segments.index(segment) for segment in plan.segments]
    found = (starts[np.array(kept)[segments_of_units]] + docs) if len(morsels) else docs
    selected = np.arange(num_rows) if marks is None else np.flatnonzero(marks)
    codes = [
        ranks(columns[name][1], columns[name][0], by, null_handling=null_handling)[selected]
        for name, by in zip(names, order, strict=True)
    ]
    expected = selected[np.lexsort(codes[::-1])][:wanted]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("data_type", list(HOSTILE))
@pytest.mark.parametrize(("ascending", "nulls_last"), [(True, None), (False, None), (True, False), (False, True)])
def test_hostile_values_of_every_type_come_in_order(
    data_type: DataType, ascending: bool, nulls_last: bool | None
) -> None:
    rng = np.random.default_rng(len(data_type.value) + 2 * ascending)
    pick = [*HOSTILE[data_type], None]
    values = [pick[i] for i in rng.integers(0, len(pick), 9_000)]
    second = rng.integers(0, 50, len(values)).tolist()
    columns = {"a": (data_type, values), "b": (DataType.LONG, second)}
    order = OrderBy(Identifier("a"), ascending, nulls_last), OrderBy(Identifier("b"), not ascending)
    for null_handling, wanted, dictionaries in itertools.product(
        (False, True), (1, 100, 3_000), ([False], [True, True], [True, False, True])
    ):
        check(columns, order, wanted, dictionaries=dictionaries, null_handling=null_handling)


@pytest.mark.parametrize("wanted", [1, 2, 599, 4_999, 5_000, 5_001, 100_000])
@pytest.mark.parametrize("share", [None, 0.0, 0.03, 0.5, 0.99])
def test_any_number_of_rows_of_any_part_of_the_docs(wanted: int, share: float | None) -> None:
    rng = np.random.default_rng(wanted)
    marks = None if share is None else (rng.random(5_000) < share).astype(np.int64)
    columns = {
        "a": (DataType.DOUBLE, rng.normal(size=5_000).tolist()),
        "t": (DataType.STRING, [b"%x" % v for v in rng.integers(0, 1 << 40, 5_000)]),
    }
    for name, dictionaries in itertools.product(columns, ([False], [True, False, True])):
        check(columns, (OrderBy(Identifier(name)),), wanted, dictionaries=dictionaries, marks=marks)
        check(columns, (OrderBy(Identifier(name), ascending=False),), wanted, dictionaries=dictionaries, marks=marks)


@pytest.mark.parametrize("values", ["equal", "ascending", "descending", "few"])
def test_rows_that_tie_and_rows_in_order(values: str) -> None:
    numbers = np.arange(20_000)
    made = {"equal": numbers * 0, "ascending": numbers, "descending": -numbers, "few": numbers % 3}[values]
    texts = [b"a long text that begins as others do %06d" % (v + 20_000) for v in made.tolist()]
    columns = {
        "a": (DataType.INT, made.tolist()),
        "t": (DataType.STRING, texts),
        "b": (DataType.LONG, (numbers * 7919 % 20_011).tolist()),
    }
    for name, ascending, raw in itertools.product(("a", "t"), (True, False), (True, False)):
        order = (
            OrderBy(Identifier(name), ascending),
            OrderBy(Identifier("t"), not ascending),
            OrderBy(Identifier("b"), ascending),
        )
        for wanted in (10, 5_000):
            check(columns, order, wanted, dictionaries=[not raw, not raw])
        check(columns, order[:2], 700, dictionaries=[not raw, raw])


def test_threads_share_what_is_behind(executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 5_000)
    rng = np.random.default_rng(11)
    numbers = np.sort(rng.integers(0, 1 << 40, 40_000))
    columns = {
        "a": (DataType.LONG, numbers.tolist()),
        "b": (DataType.INT, (numbers % 7).tolist()),
        "t": (DataType.STRING, [b"%d" % v for v in numbers]),
    }
    marks = (rng.random(len(numbers)) < 0.8).astype(np.int64)
    for name, ascending in itertools.product(columns, (True, False)):
        order = OrderBy(Identifier(name), ascending), OrderBy(Identifier("a"))
        for wanted in (1, 300, 9_000):
            check(columns, order, wanted, dictionaries=[False, True, False, True], marks=marks, executor=executor)


def test_runs_of_equal_words_are_sorted_by_the_others() -> None:
    rng = np.random.default_rng(3)
    for count, different in ((0, 1), (1, 1), (16, 3), (17, 1), (5_000, 4), (5_000, 5_000)):
        rows = np.stack(
            [np.sort(rng.integers(0, different, count)), rng.integers(0, 4, count), rng.permutation(count)], axis=1
        ).astype(np.uint64)
        expected = rows[np.lexsort(rows.T[::-1])]
        kinds = np.full(3, sort_keys.K_WORD)
        scratch = np.empty(top_n.SORT_STACK_WORDS + 3, np.int64)
        top_n.sort_value_lists(rows.ctypes.data, count, 0, kinds.ctypes.data, 3, scratch.ctypes.data)
        assert (rows == expected).all()
