"""Proves that conditions over BIG_DECIMAL and doubles without an end have an answer: infinities lie beyond every
decimal, NaN is equal to none and neither above nor below, null is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryExecutionError
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.context import ColumnRef, OutputColumn, QueryContext, QueryKind

INF, NAN = float("inf"), float("nan")
DOUBLES = [-INF, -1e300, 0.0, 1e20, 1e300, INF, NAN, None]
WHOLE = 10**20  # a double holds it exactly
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": operator.eq,
    "not_equals": operator.ne,
    "less_than": operator.lt,
    "less_than_or_equal": operator.le,
    "greater_than": operator.gt,
    "greater_than_or_equal": operator.ge,
}


def rows_of(**columns: tuple[DataType, list[Any]]) -> Rows:
    refs = tuple(ColumnRef(name, data_type) for name, (data_type, _) in columns.items())
    context = QueryContext(
        Dialect.SQL, QueryKind.SELECTION, "t", (OutputColumn("x", Identifier("x")),), columns=refs, null_handling=True
    )
    arrays = {name: pa.array(values, data_type.arrow) for name, (data_type, values) in columns.items()}
    return Rows(context, len(DOUBLES), arrays.__getitem__, lambda name: None)


@pytest.mark.parametrize("name", SIGNS)
def test_infinities_are_beyond_all_decimals(name: str) -> None:
    decimals = (DataType.BIG_DECIMAL, [encode_decimal(Decimal(WHOLE))] * len(DOUBLES))
    rows = rows_of(x=(DataType.DOUBLE, DOUBLES), y=decimals)
    expected = [None if value is None else SIGNS[name](value, WHOLE) for value in DOUBLES]
    assert rows.value(Call(name, (Identifier("x"), Identifier("y")))).to_pylist() == expected
    turned = [None if value is None else SIGNS[name](WHOLE, value) for value in DOUBLES]
    assert rows.value(Call(name, (Identifier("y"), Identifier("x")))).to_pylist() == turned


def test_decimals_beyond_doubles_are_not_infinite() -> None:
    huge = [encode_decimal(Decimal("1e400"))] * len(DOUBLES)
    rows = rows_of(x=(DataType.DOUBLE, DOUBLES), y=(DataType.BIG_DECIMAL, huge))
    assert rows.value(Call("less_than", (Identifier("y"), Identifier("x")))).to_pylist() == [
        *[False] * 5,
        True,
        False,
        None,
    ]


def test_text_that_is_no_number_is_refused_beside_a_decimal() -> None:
    rows = rows_of(
        x=(DataType.STRING, ["1", "x", None, *["2"] * 5]), y=(DataType.BIG_DECIMAL, [encode_decimal(Decimal(1))] * 8)
    )
    with pytest.raises(QueryExecutionError, match="expected a number, found the text 'x'"):
        rows.value(Call("equals", (Identifier("x"), Identifier("y"))))


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("constant", ["123456789012345678901234567890.123", "1e400", "-1e400", "0.1", "1e-400"])
def test_a_fraction_written_beside_a_decimal_keeps_its_digits(name: str, constant: str) -> None:
    """As a double it has 17 of them, and 1e400 is infinite."""
    exact = Decimal(constant)
    texts = [
        "123456789012345678901234567890.123",
        "123456789012345678901234567890.122",
        "1e400",
        "2e400",
        "-3e400",
        "0.1",
        "1e-401",
        "0",
    ]
    rows = rows_of(y=(DataType.BIG_DECIMAL, [encode_decimal(Decimal(text)) for text in texts]))
    literal = Literal(exact, constant)
    assert rows.value(Call(name, (Identifier("y"), literal))).to_pylist() == [
        SIGNS[name](Decimal(text), exact) for text in texts
    ]
    assert rows.value(Call(name, (literal, Identifier("y")))).to_pylist() == [
        SIGNS[name](exact, Decimal(text)) for text in texts
    ]
