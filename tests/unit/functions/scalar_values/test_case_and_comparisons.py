"""Proves CASE, COALESCE, NULLIF, comparisons and logic: types of results, order of arguments in each dialect, nulls,
NaN; against recorded answers and written-down truth tables.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.spec import Operand, bind
from pinotpy.pql.ast import Dialect

INT, LONG, FLOAT, DOUBLE, STRING = DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING
BOOLEAN, BYTES, TIMESTAMP = DataType.BOOLEAN, DataType.BYTES, DataType.TIMESTAMP
NAN = float("nan")


def test_pql_writes_conditions_first_then_values(call: Any) -> None:
    first, second = (BOOLEAN, [True, False, False]), (INT, [1, 1, 0])
    assert call("case", first, second, "a", "b", "c") == ["a", "b", "c"]


def test_sql_writes_each_value_beside_its_condition(call: Any) -> None:
    first, second = (BOOLEAN, [True, False, False]), (BOOLEAN, [True, True, False])
    assert call("case", first, "a", second, "b", "c", dialect=Dialect.SQL) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((INT, LONG), LONG),
        ((INT, FLOAT), DOUBLE),  # a FLOAT has 24 bits
        ((FLOAT, LONG), DOUBLE),
        ((FLOAT, FLOAT), FLOAT),
        ((FLOAT, DOUBLE), DOUBLE),
        ((INT, STRING), STRING),
        ((TIMESTAMP, TIMESTAMP), TIMESTAMP),
        ((TIMESTAMP, INT), LONG),
        ((None, INT), INT),
    ],
)
def test_the_result_has_the_common_type(types: tuple[DataType | None, DataType], expected: DataType) -> None:
    operands = (Operand(BOOLEAN), *(Operand(data_type) for data_type in types))
    assert bind("case", operands, Dialect.PQL).data_type is expected


def test_values_are_converted_to_the_common_type(call: Any) -> None:
    assert call("case", (BOOLEAN, [True, False]), (INT, [1, 2]), (STRING, ["x", "y"])) == ["1", "y"]
    assert call("case", (INT, [1, 0]), (INT, [31, 32]), (DOUBLE, [0.5, 1.5])) == [31.0, 1.5]


def test_a_missing_else_is_null_and_an_unknown_condition_does_not_hold(call: Any) -> None:
    assert call("case", (BOOLEAN, [True, False, None]), "a", None, dialect=Dialect.SQL) == ["a", None, None]
    assert call("case", (BOOLEAN, [True, None]), (INT, [None, 1]), 7, dialect=Dialect.SQL) == [None, 7]


@pytest.mark.parametrize("arguments", [("text", 1, 2), ((STRING, ["x"]), 1, 2), (True, 1, 2, 3)])
def test_what_case_refuses(call: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(QueryExecutionError):
        call("case", *arguments)


def test_sql_refuses_a_quoted_constant_that_is_none_of_the_values(call: Any) -> None:
    with pytest.raises(InvalidQueryError, match="Invalid literal: 'a' for INT"):
        call("case", (BOOLEAN, [True]), "a", 1, dialect=Dialect.SQL)


def test_coalesce_takes_the_first_value_and_nullif_takes_it_away(call: Any) -> None:
    assert call("coalesce", (INT, [1, None, None]), (INT, [5, 6, None]), 7.5) == [1.0, 6.0, 7.5]
    assert call("nullif", (INT, [1, 2, None]), (INT, [1, 3, 4])) == [None, 2, None]
    assert call("nullif", (INT, [1, 2]), None) == [1, 2]


SIGNS = {
    "equals": operator.eq,
    "not_equals": operator.ne,
    "greater_than": operator.gt,
    "greater_than_or_equal": operator.ge,
    "less_than": operator.lt,
    "less_than_or_equal": operator.le,
}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((INT, [1, 2, 3]), (LONG, [2, 2, 2])),
        ((LONG, [2**53 + 1]), (LONG, [2**53])),  # as whole numbers, not as doubles
        ((INT, [5, 5]), 5.5),
        ((STRING, ["a", "é", "b"]), (STRING, ["b", "z", "b"])),
        ((BYTES, [b"\x01", b"\xff"]), (BYTES, [b"\x02", b"\x0f"])),
        ((BOOLEAN, [True, False]), (BOOLEAN, [False, False])),
    ],
)
def test_comparisons_are_those_of_the_values(call: Any, name: str, left: Any, right: Any) -> None:
    others = right[1] if isinstance(right, tuple) else [right] * len(left[1])
    expected = [int(SIGNS[name](a, b)) for a, b in zip(left[1], others, strict=True)]
    assert call(name, left, right) == expected
    assert call(name, left, right, dialect=Dialect.SQL) == [bool(truth) for truth in expected]


@pytest.mark.parametrize("name", SIGNS)
def test_nan_is_equal_to_itself_and_neither_above_nor_below(call: Any, name: str) -> None:
    values = [-float("inf"), -0.0, 0.0, 1.0, float("inf"), NAN]
    is_equality = name in ("equals", "not_equals")
    pairs = list(itertools.product(range(6), repeat=2))
    found = call(name, (DOUBLE, [values[a] for a, _ in pairs]), (DOUBLE, [values[b] for _, b in pairs]))
    nan = values.index(NAN)
    both = {(a, b): SIGNS[name](values[a], values[b]) for a, b in pairs}
    both[nan, nan] = name == "equals" if is_equality else False
    assert found == [int(both[pair]) for pair in pairs]


def test_a_float_is_widened_in_pql_beside_a_literal_and_in_sql_beside_doubles(call: Any) -> None:
    assert call("equals", (FLOAT, [0.1, 0.5]), 0.1) == [0, 0]
    assert call("equals", (FLOAT, [0.1, 0.5]), 0.5) == [0, 1]
    assert call("equals", (FLOAT, [0.1, 0.5]), 0.1, dialect=Dialect.SQL) == [1, 0]
    assert call("equals", (FLOAT, [0.1, 0.5]), (DOUBLE, [0.1, 0.5]), dialect=Dialect.SQL) == [0, 1]


@pytest.mark.parametrize("dialect", list(Dialect))
def test_decimals_compare_with_doubles_that_have_no_end(call: Any, dialect: Dialect) -> None:
    doubles = (DOUBLE, [float("-inf"), -1e308, 1e30, 1.5, float("inf"), float("nan")])
    expected = {  # NaN is neither above nor below
        "equals": [0, 0, 1, 0, 0, 0],
        "not_equals": [1, 1, 0, 1, 1, 1],
        "less_than": [1, 1, 0, 1, 0, 0],
        "greater_than": [0, 0, 0, 0, 1, 0],
        "greater_than_or_equal": [0, 0, 1, 0, 1, 0],
        "less_than_or_equal": [1, 1, 1, 1, 0, 0],
    }
    for name, truths in expected.items():
        assert call(name, doubles, 10**30, dialect=dialect) == truths
    assert call("equals", 10**400, (DOUBLE, [float("inf")]), dialect=dialect) == [
        1
    ]  # a literal is rounded, as in WHERE
    assert call("greater_than", (FLOAT, [float("-inf")]), -(10**400), dialect=dialect) == [0]


def test_text_is_read_as_what_it_is_compared_with(call: Any) -> None:
    assert call("equals", (INT, [5, 6]), "5") == [1, 0]
    assert call("equals", (BOOLEAN, [True, False]), "TRUE") == [1, 0]
    assert call("less_than", (TIMESTAMP, [0, 10**12]), "2000-01-01") == [1, 0]
    assert call("equals", (BYTES, [b"\x0a"]), "0A") == [1]
    with pytest.raises(QueryExecutionError, match="abc"):
        call("equals", (INT, [5]), "abc")
    with pytest.raises(InvalidQueryError):
        call("greater_than", (DOUBLE, [0.5]), "NaN", dialect=Dialect.SQL)


def test_logic_has_three_values(call: Any) -> None:
    left, right = zip(*itertools.product([True, False, None], repeat=2), strict=True)
    assert call("and", (BOOLEAN, list(left)), (BOOLEAN, list(right)), dialect=Dialect.SQL) == [
        True,
        False,
        None,
        False,
        False,
        False,
        None,
        False,
        None,
    ]
    assert call("or", (BOOLEAN, list(left)), (BOOLEAN, list(right)), dialect=Dialect.SQL) == [
        True,
        True,
        True,
        True,
        False,
        None,
        True,
        None,
        None,
    ]
    assert call("not", (BOOLEAN, [True, False, None]), dialect=Dialect.SQL) == [False, True, None]


def test_numbers_are_conditions_too_in_logic(call: Any) -> None:
    assert call("and", (INT, [2, 0, 1]), (DOUBLE, [0.5, 1.0, 0.0])) == [1, 0, 0]
    with pytest.raises(QueryExecutionError, match="condition"):
        call("or", (STRING, ["x"]), (INT, [1]))
