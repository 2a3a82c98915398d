"""Sides of comparisons that have become constants at a query's moment: h >= toEpochHours(ago('P1D')) is compared with a
number, as pruning and indexes know it.

Calls are computed on the event loop at every query, so only functions are that take microseconds and whose values are
short, and few of them. A call stays, too, where its value might be compared otherwise as a literal than as what rows
compute. Where one stays that may fail, all of the query do: its error is told for a row, and no other condition must
leave it without one.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from typing import Final

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.spec import families, find_scalar_function
from pinotpy.pql.ast import Call, Dialect, Expression, Literal, Position
from pinotpy.pql.literals import double_literal, integer_literal, string_literal
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.fold import fold_constants
from pinotpy.query.model.result_types import COMPARISONS, columns_in, types_of

# Calls of one query that are computed; the others stay.
CALLS_MAX: Final = 16
_CHARACTERS_MAX: Final = 256
_FAMILIES: Final = (
    "arithmetic",
    "cast",
    "date_bin",
    "date_parts",
    "date_time_convert",
    "date_trunc",
    "dates",
    "iso8601",
    "math",
    "rounding",
    "time_units",
)
_WHOLE: Final = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_ROUNDED: Final = (DataType.FLOAT, DataType.DOUBLE)
# Below 2^53: what is compared as a double is compared exactly.
_DIGITS: Final = re.compile("[0-9]{1,15}")


class ConstantSides:
    """Of the conditions of one query. may_fail: whether one was found that servers might refuse."""

    def __init__(self, context: QueryContext) -> None:
        self._context, self._types = context, types_of(context)
        self._calls_left, self.may_fail = CALLS_MAX, False

    def computed(self, condition: Expression) -> Expression:
        """The condition with a side that is a call of constants as the literal that it is compared as. In PQL nothing
        is computed: servers read constants there by rules of their own.
        """
        condition = fold_constants(condition)
        if (
            self._context.dialect is not Dialect.SQL
            or not isinstance(condition, Call)
            or condition.name not in COMPARISONS
            or len(condition.args) != 2
        ):
            return condition
        left, right = condition.args
        if isinstance(right, Call) and columns_in(left):
            args = (left, self._side(right, left))
        elif isinstance(left, Call) and columns_in(right):
            args = (self._side(left, right), right)
        else:
            return condition
        return replace(condition, args=args)

    def _side(self, call: Call, other: Expression) -> Expression:
        try:
            literal = self._literal(call, other)
        except _NoValueError:
            return call
        except PinotError:
            literal = None
        self.may_fail |= literal is None
        return literal or call

    def _literal(self, call: Call, other: Expression) -> Expression | None:
        """What it is computed to, or the call where that cannot fail; else None. Raises PinotError, _NoValueError."""
        num_calls = _num_calls(call)
        if num_calls is None or num_calls > self._calls_left:
            return None
        self._calls_left -= num_calls
        kind, beside = self._types.of(call), self._types.of(other)
        if not kind.single_value or not beside.single_value:
            return None
        (value,) = _OneRow(self._context, 1, _no_column, _no_column).evaluate(call).to_pylist()
        if beside.data_type in _ROUNDED and kind.data_type in (*_WHOLE, *_ROUNDED):
            return call  # a literal would be rounded to the type
        return _literal(value, kind.data_type, beside.data_type, call.position)


class _NoValueError(Exception):
    """A call without a value: what its rows have instead depends on the mode of nulls."""


class _OneRow(Rows):
    def _call(self, call: Call) -> pa.Array:
        values = self.computed(call)
        if values.null_count:
            raise _NoValueError
        return values


def _no_column(name: str) -> None:
    raise AssertionError(f"a constant reads no column, found '{name}'")


def _num_calls(expression: Expression) -> int | None:
    """How many calls compute it; None where it is no constant, or where one of them might take long."""
    if isinstance(expression, Literal):
        return 0 if len(expression.text) <= _CHARACTERS_MAX and expression.value is not None else None
    if not isinstance(expression, Call) or expression.filter is not None:
        return None
    function = find_scalar_function(expression.name)
    if function is None or not function.constant or function.origin is not None or function.name not in _short():
        return None
    num_calls = 1
    for arg in expression.args:
        within = _num_calls(arg)
        if within is None:
            return None
        num_calls += within
    return num_calls


@cache
def _short() -> frozenset[str]:
    """The names of the functions that are computed here."""
    found = families()
    return frozenset([function.name for family in _FAMILIES for function in found[family][1]])


def _literal(value: object, data_type: DataType | None, beside: DataType | None, position: Position) -> Literal | None:
    """What compares with values of type `beside` as `value` does; None where no literal does."""
    is_text = data_type is DataType.STRING
    if is_text and beside is DataType.STRING:
        return string_literal(str(value), position)
    if beside not in _WHOLE:
        return None  # a literal is read as the other's type
    if is_text:
        text = str(value)  # is read as a number
        return integer_literal(int(text), position) if _DIGITS.fullmatch(text) else None
    if data_type in _WHOLE and isinstance(value, int):
        return integer_literal(value, position)
    if isinstance(value, float) and math.isfinite(value):
        return double_literal(value, position)
    return None
