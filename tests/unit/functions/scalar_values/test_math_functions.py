"""Proves functions of numbers against Python's math and decimal modules, on every numeric type, with NaN and
infinities.
"""

from __future__ import annotations

import math
import random
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.spec import Operand, bind
from pinotpy.pql.ast import Dialect

INT, LONG, FLOAT, DOUBLE, STRING = DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING
NAN, INF = float("nan"), float("inf")

ORACLES: dict[str, Any] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sqrt": math.sqrt,
    "cbrt": lambda x: x ** (1 / 3),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "degrees": math.degrees,
    "radians": math.radians,
    "negate": lambda x: -x,
    "sign": lambda x: math.copysign(1, x),
    "cot": lambda x: 1 / math.tan(x),
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(
    ("data_type", "values"),
    [(INT, [1, 7, 41]), (LONG, [1, 12, 100]), (FLOAT, [0.5, 2.25]), (DOUBLE, [0.1, 1e-9, 33.3])],
)
def test_results_are_doubles_close_to_pythons(call: Any, name: str, data_type: DataType, values: list[Any]) -> None:
    assert bind(name, (Operand(data_type),), Dialect.PQL).data_type is DOUBLE
    found = call(name, (data_type, values))
    assert found == pytest.approx([float(ORACLES[name](value)) for value in values], rel=1e-14)


def test_ends_of_what_is_defined(call: Any) -> None:
    assert call("ln", (DOUBLE, [0.0, INF])) == [-INF, INF]
    assert call("exp", (DOUBLE, [1000.0, -1000.0])) == [INF, 0.0]
    assert all(math.isnan(value) for name in ("ln", "sqrt", "log10") for value in call(name, (DOUBLE, [-1.0, NAN])))
    assert call("pow", 0, -1) == [INF]
    assert call("isNaN", (DOUBLE, [NAN, 1.0, INF])) == [1, 0, 0]
    assert call("isFinite", (DOUBLE, [NAN, 1.0, INF])) == [0, 1, 0]
    assert call("ifNotFinite", (DOUBLE, [NAN, 1.0, -INF]), 0) == [0.0, 1.0, 0.0]


def test_exponentials_are_the_nearest_doubles(call: Any) -> None:
    assert call("exp", (INT, [-26, 20, -17])) == [
        5.109089028063325e-12,
        485165195.4097903,
        4.139937718785167e-8,
    ]  # recorded: exp(-26)


def test_whole_quotients_and_remainders(call: Any) -> None:
    left = (INT, [-24, 35, 7, -7, 0])
    assert call("intDiv", left, 7) == [math.floor(value / 7) for value in left[1]]
    assert call("intDiv", left, 0) == [-(2**63), 2**63 - 1, 2**63 - 1, -(2**63), 0]
    assert call("intDivOrZero", left, 0) == [0] * 5
    assert call("moduloOrZero", left, 4) == [math.fmod(value, 4) for value in left[1]]
    assert call("moduloOrZero", left, 0) == [0.0] * 5
    assert call("positiveModulo", left, 7) == [float(value % 7) for value in left[1]]
    assert call("gcd", (LONG, [12, 0, 7]), 18) == [6, 18, 1]
    assert call("lcm", (LONG, [4, 3]), 6) == [12, 6]
    assert call("hypot", 3, 4) == [5.0]
    assert call("atan2", (DOUBLE, [1.0, -1.0]), (DOUBLE, [0.0, -1.0])) == [math.atan2(1, 0), math.atan2(-1, -1)]


@pytest.mark.parametrize("decimals", [0, 1, 2, 5, 10, -2])
def test_rounding_is_that_of_the_printed_number(call: Any, decimals: int) -> None:
    chance = random.Random(decimals)
    values = [chance.uniform(-1000, 1000) for _ in range(300)] + [
        chance.randrange(-(10**6), 10**6) / 10 ** chance.randrange(7) for _ in range(300)
    ]
    values += [0.0, 1.005, -1.005, 2.675, 0.285, 1e20, 1e300, 5e-324, 0.5, 1.5, 2.5, 150.0, 2.0**52 + 0.5]
    unit = Decimal(1).scaleb(-decimals)

    def expected(value: float, rounding: str) -> float:
        return float(Decimal(repr(value)).quantize(unit, rounding, Context(prec=400)))

    assert call("roundDecimal", (DOUBLE, values), decimals) == [expected(value, ROUND_HALF_UP) for value in values]
    assert call("truncate", (DOUBLE, values), decimals) == [expected(value, ROUND_DOWN) for value in values]


@pytest.mark.parametrize("name", ["round", "truncate", "roundDecimal"])
@pytest.mark.parametrize("decimals", [92, 200, 308, 400])
def test_rounding_far_behind_the_point_keeps_every_digit(call: Any, name: str, decimals: int) -> None:
    values = [1e308, -1.7976931348623157e308, 1e-80, 123.456]
    assert call(name, (DOUBLE, values), decimals) == values
    assert call(name, (DOUBLE, [1e-310, 5e-324]), decimals) == ([1e-310, 5e-324] if decimals == 400 else [0.0, 0.0])
    assert call(name, (DOUBLE, values), -400) == [0.0] * 4
    with pytest.raises(QueryExecutionError, match="400 decimals"):
        call(name, (DOUBLE, values), 401)


def test_rounding_to_whole_numbers_is_javas(call: Any) -> None:
    values = (DOUBLE, [2.5, -2.5, 0.49999999999999994, 1e300, NAN, -INF])
    found = call("round", values)
    assert found[:2] == [3.0, -2.0]  # Math.round: floor(x + 0.5)
    assert found[3] == 1e300
    assert math.isnan(found[4])
    assert found[5] == -INF
    assert call("truncate", (DOUBLE, [-1.57, 1.57])) == [-1.0, 1.0]
    with pytest.raises(QueryExecutionError):
        call("round", values, 10**9)


def test_least_and_greatest_keep_the_common_type(call: Any) -> None:
    assert bind("least", (Operand(INT), Operand(INT)), Dialect.PQL).data_type is INT
    assert call("greatest", (INT, [4, 35]), (INT, [3, 40]), 5) == [5, 40]
    assert call("least", (INT, [4]), (DOUBLE, [3.5])) == [3.5]
    single = DataType.FLOAT
    assert call("least", (INT, [16_777_217]), (single, [3e38])) == [16_777_217.0]  # not 2^24, as in FLOAT
    assert call("greatest", (LONG, [2**53]), (single, [0.5])) == [2.0**53]
    assert call("coalesce", (INT, [16_777_217]), (single, [0.5])) == [16_777_217.0]
    assert bind("least", (Operand(single), Operand(single)), Dialect.PQL).data_type is single
    assert call("greatest", (STRING, ["a", "é"]), (STRING, ["b", "z"])) == ["b", "é"]
    big = DataType.BIG_DECIMAL
    assert call("greatest", (big, [encode_decimal(Decimal("1e30"))]), 7) == [encode_decimal(Decimal("1e30"))]
    with pytest.raises(QueryExecutionError):
        call("least", (DataType.BYTES, [b"a"]), 1)


def test_text_of_a_number_is_a_number_and_other_arguments_are_refused(call: Any) -> None:
    assert call("sqrt", (STRING, ["6.25"])) == [2.5]
    for argument in ((STRING, ["x"]), (DataType.BYTES, [b"a"]), (INT, [[1]])):
        with pytest.raises(QueryExecutionError):
            call("sqrt", argument)
