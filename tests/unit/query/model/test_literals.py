"""Proves how literals meet column types, per dialect: what is converted, what is refused and with which code, and what
cannot match. Expectations are the recorded behaviour of the reference (PQL 0.6.0, SQL 1.x), written down by hand."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.text.text_query import Term
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import Bound, ColumnRef, Comparison, LiteralValue, Predicate
from pinotpy.query.model.predicate import (
    FixedMembers,
    FixedRange,
    Nothing,
    Test,
    TextSearch,
    VarMembers,
    VarRange,
    typed_predicate,
)

PQL, SQL = Dialect.PQL, Dialect.SQL


def test_of(
    data_type: DataType,
    dialect: Dialect,
    comparison: Comparison,
    *values: LiteralValue,
    single_value: bool = True,
    **bounds: Bound,
) -> Test:
    predicate = Predicate(Identifier("c"), comparison, values, **bounds)
    return typed_predicate(predicate, ColumnRef("c", data_type, single_value), dialect).test


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (DataType.INT, 2000.0),
        (DataType.INT, 2000.5),
        (DataType.INT, 99999999999),
        (DataType.INT, ""),
        (DataType.INT, "abc"),
        (DataType.LONG, "2000.0"),
        (DataType.FLOAT, "abc"),
        (DataType.DOUBLE, ""),
        (DataType.BYTES, "zz"),
        (DataType.BYTES, "abc"),
        (DataType.BIG_DECIMAL, "one"),
        (DataType.BIG_DECIMAL, "1e999999999"),
        (DataType.BIG_DECIMAL, "-1e-3000000000"),
    ],
)
def test_pql_refuses_literals_that_do_not_parse_with_code_200(data_type: DataType, value: LiteralValue) -> None:
    for comparison in (Comparison.EQ, Comparison.NOT_EQ):
        with pytest.raises(
            QueryExecutionError, match=rf"^Cannot convert value: '{value}' to type: {data_type} of column '\w+'$"
        ) as raised:
            test_of(data_type, PQL, comparison, value)
        assert raised.value.code == 200
    with pytest.raises(QueryExecutionError):
        test_of(data_type, PQL, Comparison.RANGE, lower=Bound(value, True))
    with pytest.raises(QueryExecutionError):
        test_of(data_type, PQL, Comparison.IN, value, value)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (DataType.INT, "2000.0"),
        (DataType.INT, True),
        (DataType.TIMESTAMP, "yesterday"),
        (DataType.TIMESTAMP, "2014-13-01"),
        (DataType.BYTES, "0"),
        (DataType.DOUBLE, "x"),
    ],
)
def test_sql_refuses_quoted_text_that_does_not_parse_with_code_700(data_type: DataType, value: LiteralValue) -> None:
    with pytest.raises(InvalidQueryError, match="Cannot convert value") as raised:
        test_of(data_type, SQL, Comparison.EQ, value)
    assert raised.value.code == 700


def test_sql_compares_numbers_by_value() -> None:
    assert test_of(DataType.INT, SQL, Comparison.EQ, 5.5) == Nothing()
    assert test_of(DataType.INT, SQL, Comparison.EQ, 99999999999) == Nothing()
    assert test_of(DataType.INT, SQL, Comparison.EQ, 2000.0) == FixedRange(2000, 2000)
    assert test_of(DataType.INT, SQL, Comparison.RANGE, lower=Bound(2000.5, False)) == FixedRange(2001, 2**31 - 1)
    assert test_of(DataType.INT, SQL, Comparison.RANGE, upper=Bound(Decimal("2000.5"), True)) == FixedRange(
        -(2**31), 2000
    )
    assert test_of(DataType.INT, SQL, Comparison.RANGE, upper=Bound(2001, False)) == FixedRange(-(2**31), 2000)
    assert test_of(DataType.LONG, SQL, Comparison.RANGE, upper=Bound(9999999999999999999, False)) == FixedRange(
        -(2**63), 2**63 - 1
    )
    assert test_of(DataType.LONG, SQL, Comparison.RANGE, lower=Bound(float("inf"), False)) == Nothing()
    assert test_of(DataType.DOUBLE, SQL, Comparison.RANGE, lower=Bound(0, False), upper=Bound(1, False)) == FixedRange(
        5e-324, float(np.nextafter(1, 0))
    )


def test_sql_compares_numbers_in_lists_by_value_too_and_refuses_quoted_ones_that_do_not_fit() -> None:
    members = test_of(
        DataType.INT, SQL, Comparison.IN, 1, 2000.0, 5.5, 3_000_000_000, -(2**31) - 1, Decimal("1e300"), float("inf")
    )
    assert isinstance(members, FixedMembers) and members.values.tolist() == [1, 2000]
    assert test_of(DataType.INT, SQL, Comparison.IN, 3_000_000_000, 1) == FixedRange(1, 1)
    assert test_of(DataType.INT, SQL, Comparison.NOT_IN, 3_000_000_000, 5.5) == Nothing(), "negated: every value passes"
    assert test_of(DataType.LONG, SQL, Comparison.IN, 2**63, -(2**63) - 1, 2**63 - 1) == FixedRange(
        2**63 - 1, 2**63 - 1
    )
    for quoted in ("3000000000", "5.5"):
        with pytest.raises(InvalidQueryError, match="Cannot convert value"):
            test_of(DataType.INT, SQL, Comparison.IN, 1, quoted)


def test_sql_is_strict_on_multi_values() -> None:
    for value in (2000.5, 3_000_000_000):
        with pytest.raises(InvalidQueryError):
            test_of(DataType.INT, SQL, Comparison.EQ, value, single_value=False)
        with pytest.raises(InvalidQueryError):
            test_of(DataType.INT, SQL, Comparison.IN, value, 1, single_value=False)
    members = test_of(DataType.INT, SQL, Comparison.IN, 3, "1", 2, 3)
    assert isinstance(members, FixedMembers) and members.values.tolist() == [1, 2, 3]
    assert test_of(DataType.INT, SQL, Comparison.IN, 3, "3") == FixedRange(3, 3)


def test_float_columns_compare_as_float() -> None:
    as_float = float(np.float32(0.1))
    for dialect in Dialect:
        assert test_of(DataType.FLOAT, dialect, Comparison.EQ, 0.1) == FixedRange(as_float, as_float)
        assert test_of(DataType.FLOAT, dialect, Comparison.EQ, "3.14159274") == test_of(
            DataType.FLOAT, dialect, Comparison.EQ, 3.1415927
        )
        assert test_of(DataType.DOUBLE, dialect, Comparison.EQ, 0.1) == FixedRange(0.1, 0.1)
        assert test_of(DataType.DOUBLE, dialect, Comparison.EQ, "NaN") == Nothing()
    above = test_of(DataType.FLOAT, SQL, Comparison.RANGE, lower=Bound(0.1, False))
    assert isinstance(above, FixedRange) and above.low == float(np.nextafter(np.float32(0.1), np.float32(1)))


@pytest.mark.parametrize(
    ("dialect", "value", "expected"),
    [
        (PQL, "true", FixedRange(1, 1)),
        (PQL, "false", FixedRange(0, 0)),
        (PQL, "TRUE", Nothing()),
        (PQL, 1, Nothing()),
        (SQL, "TRUE", FixedRange(1, 1)),
        (SQL, "1", FixedRange(1, 1)),
        (SQL, 1, FixedRange(1, 1)),
        (SQL, True, FixedRange(1, 1)),
        (SQL, "yes", FixedRange(0, 0)),
        (SQL, 0.1, FixedRange(0, 0)),
    ],
)
def test_booleans_are_text_in_pql_and_truth_in_sql(dialect: Dialect, value: LiteralValue, expected: Any) -> None:
    assert test_of(DataType.BOOLEAN, dialect, Comparison.EQ, value) == expected


def test_pql_orders_booleans_as_text() -> None:
    assert test_of(DataType.BOOLEAN, PQL, Comparison.RANGE, lower=Bound("g", True)) == FixedRange(1, 1)
    assert test_of(DataType.BOOLEAN, PQL, Comparison.RANGE, upper=Bound("true", False)) == FixedRange(0, 0)
    assert test_of(DataType.BOOLEAN, PQL, Comparison.RANGE, lower=Bound("z", True)) == Nothing()


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("2014-01-01", 1388534400000),
        ("2014-01-01 00:00:00.5", 1388534400500),
        ("2014-01-01T00:00:01Z", 1388534401000),
        ("123", 123),
        (123, 123),
        ("1969-12-31 23:59:59.9", -100),
    ],
)
def test_timestamps_take_millis_and_text(text: LiteralValue, millis: int) -> None:
    assert test_of(DataType.TIMESTAMP, SQL, Comparison.EQ, text) == FixedRange(millis, millis)


def test_text_and_bytes_are_half_open_ranges_of_bytes() -> None:
    assert test_of(DataType.STRING, PQL, Comparison.EQ, 5) == VarRange(b"5", b"5\0")
    assert test_of(DataType.STRING, SQL, Comparison.EQ, True) == VarRange(b"true", b"true\0")
    assert test_of(DataType.STRING, SQL, Comparison.RANGE, lower=Bound("a", False), upper=Bound("b", True)) == VarRange(
        b"a\0", b"b\0"
    )
    assert test_of(DataType.STRING, SQL, Comparison.RANGE, lower=Bound("b", True), upper=Bound("b", False)) == Nothing()
    assert test_of(DataType.BYTES, PQL, Comparison.RANGE, lower=Bound("FF", True)) == VarRange(b"\xff", None)
    members = test_of(DataType.STRING, SQL, Comparison.IN, "b", "a", "b")
    assert isinstance(members, VarMembers) and members.data.tobytes() == b"ab" and members.offsets.tolist() == [0, 1, 2]


def test_bad_search_texts_and_patterns_are_refused() -> None:
    assert test_of(DataType.STRING, SQL, Comparison.TEXT_MATCH, "Fox") == TextSearch(Term("fox"))
    for dialect in Dialect:
        with pytest.raises(PinotError, match="at character 4") as raised:
            test_of(DataType.STRING, dialect, Comparison.TEXT_MATCH, "fox )")
        assert raised.value.code == 200
        with pytest.raises(PinotError, match="RE2") as raised:
            test_of(DataType.STRING, dialect, Comparison.REGEXP_LIKE, "(")
        assert raised.value.code == (700 if dialect is SQL else 200)


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.LONG, DataType.TIMESTAMP])
def test_numbers_of_thousands_of_digits_in_quotes_are_refused_like_other_numbers_that_do_not_fit(
    data_type: DataType,
) -> None:
    """Python's int() refuses to read them with an error of its own."""
    for dialect, error in ((PQL, QueryExecutionError), (SQL, InvalidQueryError)):
        for sign in ("", "-", "+"):
            with pytest.raises(
                error,
                match=f"Cannot convert value: '.9{{5000}}' to type: {data_type}" if sign else "Cannot convert value",
            ):
                test_of(data_type, dialect, Comparison.EQ, sign + "9" * 5000)
        assert test_of(data_type, dialect, Comparison.EQ, "0" * 5000 + "7") == FixedRange(7, 7)


@pytest.mark.parametrize("text", ["1" * 100_000 + "x", " " * 100_000 + "x", "1e" + "1" * 100_000 + "x"])
def test_texts_of_many_digits_that_are_no_number_are_refused_at_once(text: str) -> None:
    started = time.monotonic()
    with pytest.raises(QueryExecutionError, match="to type: DOUBLE"):
        test_of(DataType.DOUBLE, PQL, Comparison.EQ, text)
    assert time.monotonic() - started < 60, "in one pass: each digit anew would be hours"
