"""Calls of scalar functions over constants become constants, computed once by the broker: upper('a'), CAST('12' AS
LONG).

What they are named by is their value, as in the reference (sql-live.md §2): bare where nothing but constants is
selected, quoted beside columns. A TIMESTAMP becomes LONG, JSON text, as there. Arrays, calls with a NULL, user
functions and calls of the clock (pin_time.py) stay calls; what the clock's functions cannot take is refused here all
the same, as the reference does. In comparisons, lists, bounds and patterns calls with a NULL become constants, too: a
condition with a null among them is unknown, without null handling false.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from operator import is_
from typing import Final

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import PinotError
from pinotpy.functions.arguments import java_float_text
from pinotpy.functions.constants_budget import ConstantsBudgetError, current_budget
from pinotpy.functions.scalar.number_order import as_double
from pinotpy.functions.scalar.spec import find_scalar_function
from pinotpy.functions.scalar.text_arguments import TextTooLongError
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Literal, Position, Statement
from pinotpy.pql.literals import boolean_literal, double_literal, integer_literal, null_literal, string_literal
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.conditions import parse_error
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.model.fold import FOLDED, fold_constants
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.result_types import COMPARISONS, CONDITIONS, PREDICATES, literal_type

_TAKES_LITERALS: Final = COMPARISONS | {"between", "in", "not_in", "like", "regexp_like", "text_match", "json_match"}
_COMPARES: Final = _TAKES_LITERALS | PREDICATES
_NO_TABLE: Final = QueryContext(Dialect.SQL, QueryKind.SELECTION, "", ())
# As in the reference, whose constants have no such types.
_SHOWN_AS: Final = {DataType.TIMESTAMP: DataType.LONG, DataType.JSON: DataType.STRING}


class _Constants(Rows):
    """Constants: the null that a function makes of them is no default of a column, in both null modes."""

    def _call(self, call: Call) -> pa.Array:
        values = self.computed(call)
        budget = current_budget()
        if budget is not None:
            budget.spend(values.nbytes)
        return values


def fold_functions(expression: Expression, *, null_handling: bool) -> Expression:
    """The expression of SQL with its constant parts computed, arithmetic among them.

    Raises:
        ParseError: (150) a function cannot take these constants.
    """
    if not isinstance(expression, Call):
        if isinstance(expression, Literal):
            _refuse_beyond_doubles(expression)
        return expression
    if expression.name not in _COMPARES:
        for arg in expression.args:
            if isinstance(arg, Literal):
                _refuse_beyond_doubles(arg)
    args = tuple(
        [arg if type(arg) is Literal else fold_functions(arg, null_handling=null_handling) for arg in expression.args]
    )
    condition = None if expression.filter is None else fold_functions(expression.filter, null_handling=null_handling)
    if condition is not expression.filter or any(
        new is not old for new, old in zip(args, expression.args, strict=True)
    ):
        expression = replace(expression, args=args, filter=condition)
    if expression.filter is not None or not all(isinstance(arg, Literal) for arg in args):
        return _with_literals(expression, null_handling) if expression.name in _TAKES_LITERALS else expression
    folded = fold_constants(expression)
    return _computed(folded, null_handling) if isinstance(folded, Call) else folded


def _refuse_beyond_doubles(literal: Literal) -> None:
    """A number that no DOUBLE holds can be compared with, as it is written; computed with it would be an infinity."""
    if isinstance(literal.value, Decimal) and math.isinf(as_double(literal.value)):
        raise parse_error(
            f"expected a number from -1.7976931348623157E308 to 1.7976931348623157E308 (DOUBLE), found "
            f"{literal.value:.5E}",
            literal.position,
        )


def _with_literals(condition: Call, null_handling: bool) -> Call:
    """The condition with its constant arguments computed, those with a NULL among them."""
    args = [
        _evaluated(arg, null_handling) if isinstance(arg, Call) and _is_constant(arg) else arg for arg in condition.args
    ]
    return condition if all(map(is_, args, condition.args)) else replace(condition, args=tuple(args))


def _is_constant(expression: Expression) -> bool:
    if isinstance(expression, Call):
        is_known = expression.name in CONDITIONS or _is_computed(expression)
        return is_known and expression.filter is None and all(map(_is_constant, expression.args))
    return isinstance(expression, Literal)


def calls_constants(expression: Expression) -> bool:
    """Whether `fold_functions` would compute a function in it: then its constants are not what the text says."""
    if not isinstance(expression, Call):
        return False
    if expression.args and all(isinstance(arg, Literal) for arg in expression.args) and _is_computed(expression):
        return True
    return any(calls_constants(arg) for arg in expression.args) or (
        expression.filter is not None and calls_constants(expression.filter)
    )


def computes_constants(statement: Statement) -> bool:
    """Whether compiling the statement calls functions on constants, which may cost what its text does not tell."""
    return any(_has_computed(expression)[1] for expression in _expressions(statement))


def check_constants(statement: Statement) -> None:
    """Compute what functions of constants in a statement of PQL give, and forget it: servers compute it, as names and
    types of its answers go by calls. What a server would refuse for its length is refused here.

    Raises:
        ConstantsBudgetError, TextTooLongError: (200) the constants are more than a statement's may be.
    """
    for expression in _expressions(statement):
        _check(expression)


def _check(expression: Expression) -> None:
    if not isinstance(expression, Call) or not _has_computed(expression)[1]:
        return
    if not _is_constant(expression):
        for part in (*expression.args, *([] if expression.filter is None else [expression.filter])):
            _check(part)
        return
    try:
        _Constants(replace(_NO_TABLE, dialect=Dialect.PQL), 1, _no_column, _no_column).evaluate(expression)
    except (ConstantsBudgetError, TextTooLongError):
        raise
    except PinotError:
        return  # servers say it, where a row is asked for it


def _expressions(statement: Statement) -> list[Expression]:
    return [
        *(item.expression for item in statement.select),
        *statement.group_by,
        *(item.expression for item in statement.order_by),
        *(condition for condition in (statement.where, statement.having) if condition is not None),
    ]


def _has_computed(expression: Expression) -> tuple[bool, bool]:
    """Whether an expression is constant, and whether a function of constants alone is in it."""
    if not isinstance(expression, Call):
        return isinstance(expression, Literal), False
    found = [_has_computed(arg) for arg in expression.args]
    if expression.filter is not None:
        found.append(_has_computed(expression.filter))
    is_constant = all(constant for constant, _ in found)
    is_function = expression.name not in FOLDED and _is_computed(expression)
    return is_constant, (is_constant and is_function) or any(computed for _, computed in found)


def _is_computed(call: Call) -> bool:
    if call.name in PREDICATES:
        return call.name in ("between", "in", "like") and len(call.args) > 1
    function = find_scalar_function(call.name)
    if function is None or function.origin is not None or is_aggregation(call.name):
        return False
    return function.constant and function.arguments_min <= len(call.args) <= function.arguments_max


def _reads_clock(call: Call) -> bool:
    function = find_scalar_function(call.name)
    return (
        function is not None
        and not function.constant
        and function.origin is None
        and function.arguments_min <= len(call.args) <= function.arguments_max
    )


def _computed(call: Call, null_handling: bool) -> Expression:
    if not (_reads_clock(call) or _is_computed(call)) or any(
        isinstance(arg, Literal) and arg.value is None for arg in call.args
    ):
        return call
    return _evaluated(call, null_handling)


def _evaluated(call: Call, null_handling: bool) -> Expression:
    rows = _Constants(replace(_NO_TABLE, null_handling=null_handling), 1, _no_column, _no_column)
    try:
        kind = rows.types.of(call)
        if _reads_clock(call) or not kind.single_value or kind.data_type is None or kind.data_type is DataType.MAP:
            return call
        (value,) = rows.evaluate(call).to_pylist()
    except ConstantsBudgetError:
        raise
    except PinotError as error:
        message = f"Caught exception while invoking method: {call.name}: {error.message}".removesuffix(
            position_text(call.position)
        )
        raise parse_error(message, call.position) from error
    return _literal(value, _SHOWN_AS.get(kind.data_type, kind.data_type), call.position)


def _no_column(name: str) -> None:
    raise AssertionError(f"a constant reads no column, found '{name}'")


def _literal(value: object, data_type: DataType, position: Position) -> Literal:
    match value:
        case None:
            return replace(null_literal(position), data_type=data_type)
        case bool():
            return boolean_literal(value, position)
        case int():
            literal = integer_literal(value, position)
        case float():
            literal = double_literal(value, position)
            if data_type is DataType.FLOAT:
                literal = replace(literal, text=java_float_text(value))
        case bytes() if data_type is DataType.BIG_DECIMAL:
            exact = decode_decimal(value)
            return Literal(exact, format(exact, "f"), False, position, data_type)
        case bytes():
            return replace(string_literal(value.hex(), position), data_type=data_type)
        case _:
            return string_literal(str(value), position)
    return literal if literal_type(value) is data_type else replace(literal, data_type=data_type)
