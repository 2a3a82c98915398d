"""Proves that expressions whose texts grow end: with what the query's check raises, between any two functions and
within one; by length; and that functions of constants are computed once, however many rows show what they give.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryCancelledError, QueryExecutionError
from pinotpy.functions.scalar import text_shape
from pinotpy.functions.scalar.text_arguments import BATCH_BYTES_MAX, TEXT_UNITS_MAX, TextTooLongError
from pinotpy.functions.stopping import stopped_by
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql
from pinotpy.query.expression.interpreter import value_rows
from pinotpy.query.model.context import ColumnRef, QueryContext, QueryKind
from pinotpy.query.runtime.control import QueryControl

CONTEXT = QueryContext(Dialect.PQL, QueryKind.SELECTION, "t", (), columns=(ColumnRef("s", DataType.STRING),))


def evaluate(expression: str, texts: list[str]) -> pa.Array:
    (item,) = parse_pql(f"SELECT {expression} FROM t").select
    return value_rows(CONTEXT, pa.array(texts)).evaluate(item.expression)


@pytest.mark.parametrize("expression", ["REPLACE(REPLACE(s, 'a', s), 'b', s)", "REPEAT(s, 2)"])
def test_a_cancelled_query_ends_within_a_function_over_many_values(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, calls = QueryControl(), list[Any]()
    texts = [f"a{number}" for number in range(10_000)]

    def ended() -> None:
        if len(calls) > 100:
            control.cancel()
        control.check()

    expect = text_shape.expect_length
    monkeypatch.setattr(text_shape, "expect_length", lambda *each: (calls.append(each), expect(*each)))
    with stopped_by(ended), pytest.raises(QueryCancelledError):
        evaluate(expression, texts)
    assert 100 < len(calls) < 400


def test_a_cancelled_query_ends_between_functions() -> None:
    control = QueryControl()
    looks = 0

    def ended() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            control.cancel()
        control.check()

    with stopped_by(ended), pytest.raises(QueryCancelledError):
        evaluate("CONCAT(CONCAT(CONCAT(CONCAT(s, s), s), s), s)", ["a"])
    assert looks == 3


def test_texts_that_grow_row_by_row_are_refused_by_length() -> None:
    growing = "s"
    for _ in range(6):
        growing = f"REPLACE({growing}, 'a', 'aaaaaaaaaa')"
    assert evaluate("REPLACE(s, 'a', 'b')", ["a" * 2 * TEXT_UNITS_MAX]).to_pylist() == ["b" * 2 * TEXT_UNITS_MAX]
    with pytest.raises(TextTooLongError, match=f"{TEXT_UNITS_MAX} characters as the result of REPLACE, found"):
        evaluate(growing, ["aaaaaaaaaa"] * 2)
    with pytest.raises(TextTooLongError, match=f"{BATCH_BYTES_MAX} bytes"):
        evaluate("CONCAT(s, s, s)", ["a" * (BATCH_BYTES_MAX // 64)] * 32)


def test_functions_of_constants_are_computed_once_and_refused_where_rows_make_much_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    expect = text_shape.expect_length
    monkeypatch.setattr(text_shape, "expect_length", lambda units, name: (counts.append(units), expect(units, name)))
    rows = [str(number) for number in range(1_000)]
    repeated = evaluate("CONCAT(REPEAT(REPEAT('a', 2), 3), s)", rows)
    assert repeated.to_pylist() == [f"aaaaaa{row}" for row in rows] and counts == [2, 6]
    with pytest.raises(QueryExecutionError, match=f"{BATCH_BYTES_MAX} bytes"):
        evaluate("REPEAT('a', 1000000)", rows)
