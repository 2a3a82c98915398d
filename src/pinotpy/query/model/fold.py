"""Constants: arithmetic, comparisons and logic over literals alone become literals.

Integers stay whole under + - *; / and % are doubles, as everywhere (7 / 2 is 3.5, x / 0 is an infinity or NaN). A call
that folding does not know stays as it is. Source: sql-live.md §2 and §3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from operator import is_not
from typing import Final, Union

from pinotpy.data_types import INT_MIN, DataType
from pinotpy.pql.ast import Call, Expression, Literal, Position
from pinotpy.pql.literals import boolean_literal, double_literal, integer_literal

Number = Union[int, float, Decimal]
_DIGITS_MAX: Final = 1_000


def fold_constants(expression: Expression) -> Expression:
    """The expression with its constant parts computed."""
    if not isinstance(expression, Call):
        return expression
    args = tuple([arg if type(arg) is Literal else fold_constants(arg) for arg in expression.args])
    condition = None if expression.filter is None else fold_constants(expression.filter)
    if any(map(is_not, args, expression.args)) or condition is not expression.filter:
        expression = replace(expression, args=args, filter=condition)
    if expression.filter is None and all(isinstance(arg, Literal) for arg in args):
        folded = _fold(expression.name, [arg for arg in args if isinstance(arg, Literal)], expression.position)
        return expression if folded is None else folded
    return expression


def _fold(name: str, args: list[Literal], position: Position) -> Literal | None:
    arithmetic = _ARITHMETIC.get(name)
    if arithmetic is not None and len(args) == 2:
        left, right = _number(args[0]), _number(args[1])
        return None if left is None or right is None else _literal(arithmetic(left, right), position)
    compare = _COMPARISONS.get(name)
    if compare is not None and len(args) == 2:
        return _compare(compare, args[0], args[1], position)
    if name in ("and", "or") and all(isinstance(arg.value, bool) for arg in args):
        values = [bool(arg.value) for arg in args]
        return boolean_literal(all(values) if name == "and" else any(values), position)
    if name == "not" and len(args) == 1 and isinstance(args[0].value, bool):
        return boolean_literal(not args[0].value, position)
    return None


def _compare(compare: Callable[[int], bool], left: Literal, right: Literal, position: Position) -> Literal | None:
    if left.is_string and right.is_string:
        a, b = str(left.value).encode(), str(right.value).encode()
        return boolean_literal(compare((a > b) - (a < b)), position)
    one, two = _number(left), _number(right)
    if one is not None and two is not None:
        if float in (type(one), type(two)) and DataType.BIG_DECIMAL not in (
            left.data_type,
            right.data_type,
        ):  # fractions written out are DOUBLE
            one, two = (float(value) if isinstance(value, Decimal) else value for value in (one, two))
        if any(isinstance(value, float) and math.isnan(value) for value in (one, two)):
            return boolean_literal(False, position)
        return boolean_literal(compare((one > two) - (one < two)), position)
    if isinstance(left.value, bool) and isinstance(right.value, bool):
        return boolean_literal(compare(left.value - right.value), position)
    return None


def _number(literal: Literal) -> Number | None:
    value = literal.value
    return (
        value
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not literal.is_string
        else None
    )


def _literal(value: Number | None, position: Position) -> Literal | None:
    if value is None:
        return None
    if isinstance(value, int):
        whole = integer_literal(value, position)
        return (
            replace(whole, data_type=DataType.LONG) if INT_MIN <= value <= -INT_MIN - 1 else whole
        )  # 1 + 1 is LONG, as in the reference
    return double_literal(float(value), position)


def _whole(
    operate: Callable[[int, int], int], inexact: Callable[[float, float], float]
) -> Callable[[Number, Number], Number | None]:
    def apply(left: Number, right: Number) -> Number | None:
        if isinstance(left, int) and isinstance(right, int):
            # Digits are bounded, so that no text makes a number that takes seconds.
            return operate(left, right) if left.bit_length() + right.bit_length() < _DIGITS_MAX else None
        return _inexact(inexact, left, right)

    return apply


def _inexact(operate: Callable[[float, float], float], left: Number, right: Number) -> float | None:
    try:
        return operate(float(left), float(right))
    except OverflowError:
        return None


def _divide(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def _modulo(left: float, right: float) -> float:
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


_ARITHMETIC: Final[dict[str, Callable[[Number, Number], Number | None]]] = {
    "plus": _whole(lambda a, b: a + b, lambda a, b: a + b),
    "minus": _whole(lambda a, b: a - b, lambda a, b: a - b),
    "times": _whole(lambda a, b: a * b, lambda a, b: a * b),
    "divide": lambda a, b: _inexact(_divide, a, b),
    "mod": lambda a, b: _inexact(_modulo, a, b),
}
_COMPARISONS: Final[dict[str, Callable[[int], bool]]] = {
    "equals": lambda c: c == 0,
    "not_equals": lambda c: c != 0,
    "less_than": lambda c: c < 0,
    "less_than_or_equal": lambda c: c <= 0,
    "greater_than": lambda c: c > 0,
    "greater_than_or_equal": lambda c: c >= 0,
}
# What is folded here, at a cost that the text bounds.
FOLDED: Final = frozenset({*_ARITHMETIC, *_COMPARISONS, "and", "or", "not"})
