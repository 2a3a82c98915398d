"""Proves CAST in both dialects: types of results, Java's text of numbers, ends of ranges, and what is refused;
expectations are recorded answers of the reference or written down from Java's rules.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.conversions import timestamp_text
from pinotpy.functions.scalar.spec import Operand, bind
from pinotpy.pql.ast import Dialect, Literal

INT, LONG, FLOAT, DOUBLE, STRING = DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING
BOOLEAN, TIMESTAMP, BYTES, BIG_DECIMAL, JSON = (
    DataType.BOOLEAN,
    DataType.TIMESTAMP,
    DataType.BYTES,
    DataType.BIG_DECIMAL,
    DataType.JSON,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("INT", LONG),
        ("integer", LONG),
        ("LONG", LONG),
        ("FLOAT", DOUBLE),
        ("DOUBLE", DOUBLE),
        ("STRING", STRING),
        ("VARCHAR", STRING),
    ],
)
def test_pql_has_long_double_and_string_only(name: str, expected: DataType) -> None:
    assert (
        bind("cast", (Operand(INT), Operand(STRING, True, Literal(name, name, True))), Dialect.PQL).data_type
        is expected
    )


@pytest.mark.parametrize("name", ["BOOLEAN", "TIMESTAMP", "JSON", "BYTES", "DECIMAL", "nosuch"])
def test_pql_refuses_other_types_with_200(call: Any, name: str) -> None:
    with pytest.raises(QueryExecutionError):
        call("cast", (INT, [1]), name)


@pytest.mark.parametrize(
    ("data_type", "value", "target", "expected"),
    [
        (DOUBLE, 1e20, "INT", 2**63 - 1),  # never cut to 32 bits, saturated as Java's (long)
        (DOUBLE, -2.9, "INT", -2),
        (DOUBLE, float("nan"), "LONG", 0),
        (LONG, -9007199254740993, "INT", -9007199254740993),
        (LONG, -9007199254740993, "FLOAT", -9007199254740992.0),
        (FLOAT, 0.1, "DOUBLE", 0.10000000149011612),
        (FLOAT, 1e10, "STRING", "1.0E10"),
        (FLOAT, 16777216.0, "STRING", "1.6777216E7"),
        (FLOAT, 3.1415927, "STRING", "3.1415927"),
        (DOUBLE, 1.5e-9, "STRING", "1.5E-9"),
        (DOUBLE, 0.30000000000000004, "STRING", "0.30000000000000004"),
        (BOOLEAN, True, "STRING", "true"),
        (BYTES, b"\x0a\xff", "STRING", "0aff"),
        (STRING, "42", "INT", 42),
        (STRING, " 1e3 ", "DOUBLE", 1000.0),
    ],
)
def test_values_in_pql(call: Any, data_type: DataType, value: Any, target: str, expected: Any) -> None:
    assert call("cast", (data_type, [value]), target) == [expected]


@pytest.mark.parametrize("text", ["", "abc", "1.5", "9223372036854775808", "٣", "1_000"])
def test_text_that_is_no_whole_number_is_refused_in_pql(call: Any, text: str) -> None:
    with pytest.raises(QueryExecutionError, match="whole number"):
        call("cast", (STRING, [text]), "LONG")


@pytest.mark.parametrize(
    ("data_type", "value", "target", "expected"),
    [
        (LONG, 2**31, "INTEGER", -(2**31)),
        (LONG, -9007199254740993, "INTEGER", -1),
        (TIMESTAMP, 1718454645678, "INTEGER", 467727278),
        (DOUBLE, 1e20, "INTEGER", 2**31 - 1),
        (FLOAT, -1e20, "LONG", -(2**63)),
        (STRING, "1.9", "INTEGER", 1),
        (STRING, "-99999999999999999999999", "LONG", -(2**63)),
        (STRING, "TRUE", "BOOLEAN", True),
        (STRING, "12", "BOOLEAN", False),
        (DOUBLE, 0.5, "BOOLEAN", True),
        (DOUBLE, 0.0, "BOOLEAN", False),
        (STRING, "2020-02-29 23:59:59.5", "TIMESTAMP", 1583020799500),
        (STRING, "12", "TIMESTAMP", 12),
        (TIMESTAMP, -1, "STRING", "1969-12-31 23:59:59.999"),
        (TIMESTAMP, 40, "STRING", "1970-01-01 00:00:00.04"),
        (DOUBLE, 1e7, "JSON", "1.0E7"),
        (STRING, "abc", "JSON", '"abc"'),
        (STRING, "[1]", "JSON", "[1]"),
        (INT, 3, "FLOAT", 3.0),
    ],
)
def test_values_in_sql(call: Any, data_type: DataType, value: Any, target: str, expected: Any) -> None:
    assert call("cast", (data_type, [value]), target, dialect=Dialect.SQL) == [expected]


@pytest.mark.parametrize(
    ("written", "integer", "long"),
    [("123456789012345678901234567890.123456789", 1312754386, -4362896299872285998), ("-12.34", -12, -12)],
)
def test_big_decimals_keep_their_lowest_bits_in_sql(call: Any, written: str, integer: int, long: int) -> None:
    value = encode_decimal(Decimal(written))
    assert call("cast", (BIG_DECIMAL, [value]), "INTEGER", dialect=Dialect.SQL) == [integer]
    assert call("cast", (BIG_DECIMAL, [value]), "LONG", dialect=Dialect.SQL) == [long]


def test_numbers_become_the_decimal_that_is_printed(call: Any) -> None:
    found = call("cast", (FLOAT, [0.1, 1e10]), "DECIMAL", dialect=Dialect.SQL)
    assert [str(decode_decimal(value)) for value in found] == ["0.10000000149011612", "10000000000"]


def test_multi_values_are_cast_one_by_one_in_sql(call: Any) -> None:
    assert call("cast", (INT, [[1, 2], [3]]), "STRING_ARRAY", dialect=Dialect.SQL) == [["1", "2"], ["3"]]
    with pytest.raises(QueryExecutionError):
        call("cast", (INT, [[1, 2]]), "STRING")


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [(INT, "BYTES", QueryExecutionError), (BYTES, "INTEGER", QueryExecutionError), (INT, "NOSUCH", InvalidQueryError)],
)
def test_what_sql_refuses(call: Any, source: DataType, target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        call("cast", (source, [b"" if source is BYTES else 1]), target, dialect=Dialect.SQL)


@pytest.mark.parametrize("text", ["1.9", "true", "", "2020-13-01", "2020-02-30 00:00:00"])
def test_text_that_is_no_time_is_refused(call: Any, text: str) -> None:
    with pytest.raises(QueryExecutionError):
        call("cast", (STRING, [text]), "TIMESTAMP", dialect=Dialect.SQL)


def test_timestamps_print_their_fraction_without_trailing_zeros() -> None:
    assert [timestamp_text(millis) for millis in (0, 500, 253402300799999)] == [
        "1970-01-01 00:00:00.0",
        "1970-01-01 00:00:00.5",
        "9999-12-31 23:59:59.999",
    ]
