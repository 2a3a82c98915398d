"""Addition, subtraction, multiplication, division, remainder: in doubles, or exactly where an operand is BIG_DECIMAL.

The remainder has the sign of the dividend, as in Java; division by zero is an infinity or NaN, of BIG_DECIMAL an
error. A quotient of BIG_DECIMAL that does not end is rounded, see `_divide_decimals`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import doubles, length_of, spread
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_DECIMAL: Final = Context(prec=1000)
QUOTIENT_DIGITS: Final = 34


def _mod(left: Any, right: Any) -> pa.Array:
    count = length_of((left, right))
    with np.errstate(invalid="ignore", divide="ignore"):
        return pa.array(
            np.fmod(
                spread(left, count).to_numpy(zero_copy_only=False), spread(right, count).to_numpy(zero_copy_only=False)
            )
        )


_DOUBLES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "plus": pc.add,
    "minus": pc.subtract,
    "times": pc.multiply,
    "divide": pc.divide,
    "mod": _mod,
}


def _bind(name: str, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    types = [operand.data_type for operand in operands]
    for operand in operands:
        if not operand.single_value:
            raise InvalidQueryError("arithmetic needs single values: a multi-value column was found")
        if operand.data_type is DataType.BYTES:
            raise InvalidQueryError("arithmetic needs numbers: BYTES were found")
        if operand.literal is not None and operand.literal.is_string:
            _check_number(operand.literal.text)
    if DataType.BIG_DECIMAL in types and name != "mod":
        return Bound(DataType.BIG_DECIMAL, lambda values: _decimal_arithmetic(name, values))
    operator = _DOUBLES[name]

    def evaluate(values: Sequence[Value]) -> pa.Array:
        converted = [doubles(value, data_type) for value, data_type in zip(values, types, strict=True)]
        # Two constants first would give a scalar: the array leads.
        return spread(reduce(operator, converted), length_of(values))

    return Bound(DataType.DOUBLE, evaluate)


def _check_number(text: str) -> None:
    try:
        doubles(pa.scalar(text), DataType.STRING)
    except QueryExecutionError as error:
        raise InvalidQueryError(f"arithmetic needs numbers: {error}") from error


# --- BIG_DECIMAL -----------------------------------------------------------------------------------------------------


def decimals_of(values: pa.Array) -> list[Decimal]:
    """BIG_DECIMAL or other numbers as Decimals."""
    if pa.types.is_binary(values.type):
        return [decode_decimal(value) for value in values.to_pylist()]
    try:
        return [Decimal(str(value)) for value in values.to_pylist()]
    except InvalidOperation as error:
        raise QueryExecutionError("arithmetic needs numbers: a text that is none was found") from error


def _decimal_arithmetic(name: str, values: Sequence[Value]) -> pa.Array:
    count = length_of(values)
    operands = [decimals_of(spread(value, count)) for value in values]
    operator = _DECIMALS[name]
    try:
        return pa.array([encode_decimal(reduce(operator, row)) for row in zip(*operands, strict=True)], pa.binary())
    except DivisionByZero as error:
        raise QueryExecutionError("/ by zero") from error
    except (ArithmeticError, ValueError) as error:
        raise QueryExecutionError(
            f"cannot compute {name} in BIG_DECIMAL: expected finite numbers, and a result of at most 1000 digits"
        ) from error


def _divide_decimals(left: Decimal, right: Decimal) -> Decimal:
    """Exact where the quotient ends within 1000 digits, else rounded half to even to 34 significant digits, or to as
    many as an operand has. (The reference keeps the scale of the dividend, which is not stored here.)
    """
    if right == 0:
        raise DivisionByZero("/ by zero")
    whole = _DECIMAL.copy()
    quotient = whole.divide(left, right)
    if not whole.flags[Inexact]:
        return quotient
    digits = max(QUOTIENT_DIGITS, len(left.as_tuple().digits), len(right.as_tuple().digits))
    return Context(prec=min(digits, _DECIMAL.prec), rounding=ROUND_HALF_EVEN).divide(left, right)


_DECIMALS: Final[dict[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "plus": _DECIMAL.add,
    "minus": _DECIMAL.subtract,
    "times": _DECIMAL.multiply,
    "divide": _divide_decimals,
}


def _function(name: str, signature: str, summary: str, example: Example, *, most: int = 2) -> ScalarFunction:
    return ScalarFunction(
        name, signature, summary, lambda operands, dialect: _bind(name, operands, dialect), (example,), 2, most
    )


FUNCTIONS = (
    _function("plus", "ADD(x, y, …)", "The sum; also written x + y.", Example("add(i, 2.5)", 9.5), most=MANY),
    _function("minus", "SUB(x, y)", "The difference; also written x - y.", Example("sub(i, 10)", -3.0)),
    _function("times", "MULT(x, y, …)", "The product; also written x * y.", Example("mult(i, d)", 15.75), most=MANY),
    _function(
        "divide",
        "DIV(x, y)",
        "The quotient, a fraction; also written x / y. Of BIG_DECIMAL exact, or of at least 34 digits.",
        Example("div(i, 2)", 3.5),
    ),
    _function(
        "mod", "MOD(x, y)", "The remainder, with the sign of x; also written x % y.", Example("mod(-7, 4)", -3.0)
    ),
)
