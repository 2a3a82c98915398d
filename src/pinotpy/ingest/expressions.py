"""Expressions of table configs and schemas (transformFunction, filterFunction), evaluated on whole batches of incoming
rows.

The language is SQL's expressions; functions are those of queries, user functions among them. A null argument gives
null, as SQL has it. Groovy, which the reference runs here, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import INT_MIN, LONG_MIN, DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import Fault, InvalidConfigError, InvalidQueryError, ParseError, QueryExecutionError
from pinotpy.functions.arguments import spread, texts
from pinotpy.functions.loading import load_user_functions
from pinotpy.functions.scalar.comparisons import truths
from pinotpy.functions.scalar.spec import bind, find_scalar_function, scalar_functions
from pinotpy.functions.scalar.spec import evaluate as evaluate_function
from pinotpy.functions.text.patterns import TextPattern, like_pattern, regexp_pattern
from pinotpy.ingest.json_of_values import json_of_values
from pinotpy.ingest.typed_values import TypedValues
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.parser import parse_expression

_INSTEAD: Final = (
    "an expression of SQL with functions of queries, such as concat(a, '-', b), CASE WHEN a > 3 THEN 'x' ELSE 'y' END "
    "or "
    "CAST(a AS LONG) / 1000, or a user function (docs/user-functions.md): Groovy scripts are not run"
)
Inputs = Mapping[str, TypedValues]


@dataclass(frozen=True, slots=True)
class RecordExpression:
    """A parsed expression. `path` is where it stands, for messages; `columns` are the names in it, each once, in
    order.
    """

    text: str
    path: str
    expression: Expression
    columns: tuple[str, ...]

    def fault(self, found: str, allowed: str) -> InvalidConfigError:
        return InvalidConfigError("rows cannot be ingested as the config asks:", (Fault(self.path, found, allowed),))


def parse_record_expression(text: str, path: str) -> RecordExpression:
    """Parse an expression and check that its functions exist; those that installed packages announce are loaded for it.

    Raises:
        InvalidConfigError: a script, a fault of syntax, an aggregation, or a function that there is not.
    """
    if text.strip().lower().startswith("groovy("):
        raise InvalidConfigError(
            "rows cannot be ingested as the config asks:", (Fault(path, f"'{text[:100]}'", _INSTEAD),)
        )
    try:
        expression = parse_expression(text)
    except ParseError as error:
        allowed = f"an expression of SQL: {error.message}"
        raise InvalidConfigError(
            "rows cannot be ingested as the config asks:", (Fault(path, f"'{text[:100]}'", allowed),)
        ) from error
    parsed = RecordExpression(
        text,
        path,
        expression,
        tuple(dict.fromkeys(node.name for node in _nodes(expression) if isinstance(node, Identifier))),
    )
    if any(isinstance(node, Call) and _is_unknown(node) and not _aggregates(node) for node in _nodes(expression)):
        load_user_functions()
    for node in _nodes(expression):
        if isinstance(node, Star) or (
            isinstance(node, Call) and (node.distinct or node.filter is not None or _aggregates(node))
        ):
            raise parsed.fault(f"'{text[:100]}'", "an expression over the values of one row, without aggregations")
        if isinstance(node, Call) and _is_unknown(node):
            near = get_close_matches(canonical_function(node.name), scalar_functions(), n=1)
            raise parsed.fault(
                f"function '{node.name}', which there is not",
                f"a function of queries{f', such as {near[0]}' if near else ''}: GET /functions",
            )
    return parsed


def _nodes(expression: Expression) -> Iterator[Expression]:
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.args))


def _is_unknown(call: Call) -> bool:
    return call.name not in _CONDITIONS and find_scalar_function(call.name) is None


def _aggregates(call: Call) -> bool:
    # MIN and MAX of several values are no aggregations where there is such a scalar function.
    return is_aggregation(call.name) and find_scalar_function(call.name) is None


def evaluate(parsed: RecordExpression, inputs: Inputs, count: int) -> TypedValues:
    """The expression's value in each of `count` rows.

    Args:
        inputs: every column of `parsed.columns`, `count` rows each.

    Raises:
        QueryExecutionError: values of a row that a function cannot take.
        InvalidConfigError: types of columns that a function cannot take.
    """
    try:
        return _Rows(inputs, count).value(parsed.expression)
    except InvalidQueryError as error:
        types = ", ".join(f"{name} {typed.operand.name}" for name, typed in inputs.items())
        raise parsed.fault(
            f"'{parsed.text[:100]}' over the columns {types or 'none'}",
            f"values that its functions take: {error.message}",
        ) from error


def evaluate_condition(parsed: RecordExpression, inputs: Inputs, count: int) -> pa.Array:
    """Like `evaluate`, of an expression that is true or false; null is false."""
    result = evaluate(parsed, inputs, count)
    if result.data_type not in (DataType.BOOLEAN, None) or not result.single_value:
        raise parsed.fault(f"'{parsed.text[:100]}', which is {result.operand.name}", "a condition, such as a > 3")
    if result.data_type is None:
        return pa.repeat(pa.scalar(False), count)
    return pc.fill_null(spread(result.values, count), False)


class _Rows:
    """One evaluation. Equal parts of an expression are computed once."""

    def __init__(self, inputs: Inputs, count: int) -> None:
        self.inputs, self.count = inputs, count
        self._known: dict[Expression, TypedValues] = {}

    def value(self, expression: Expression) -> TypedValues:
        match expression:
            case Identifier(name=name):
                return self.inputs[name]
            case Literal():
                return _constant(expression)
            case Call():
                if expression not in self._known:
                    self._known[expression] = self._call(expression)
                return self._known[expression]
        raise AssertionError(f"{expression} was let through")

    def _call(self, call: Call) -> TypedValues:
        condition = _CONDITIONS.get(call.name)
        if condition is not None:
            return TypedValues(condition(self, call), DataType.BOOLEAN)
        arguments = [self.value(arg) for arg in call.args]
        if (
            canonical_function(call.name) == "jsonformat"
            and len(arguments) == 1
            and arguments[0].data_type is not DataType.JSON
        ):
            try:
                return TypedValues(json_of_values(arguments[0], self.count), DataType.STRING)
            except ValueError as error:
                raise QueryExecutionError(f"in JSONFORMAT: {error}") from error
        bound = bind(call.name, tuple(argument.operand for argument in arguments), Dialect.SQL)
        values = evaluate_function(bound, [argument.values for argument in arguments], self.count)
        return TypedValues(values, bound.data_type, bound.single_value)

    def array(self, expression: Expression) -> pa.Array:
        return spread(self.value(expression).values, self.count)

    def truth(self, expression: Expression) -> pa.Array:
        typed = self.value(expression)
        return spread(truths(typed.values, typed.data_type), self.count)


def _constant(literal: Literal) -> TypedValues:
    value: Any = literal.value
    data_type, scalar = _typed_constant(value, literal.text)
    return TypedValues(scalar, data_type, literal=Literal(literal.value, literal.text, literal.is_string))


def _typed_constant(value: Any, text: str) -> tuple[DataType | None, pa.Scalar]:
    match value:
        case None:
            return None, pa.scalar(None, pa.string())
        case bool():
            return DataType.BOOLEAN, pa.scalar(value)
        case int() if INT_MIN <= value < -INT_MIN:
            return DataType.INT, pa.scalar(value, pa.int32())
        case int() if LONG_MIN <= value < -LONG_MIN:
            return DataType.LONG, pa.scalar(value, pa.int64())
        case int():
            return DataType.BIG_DECIMAL, pa.scalar(encode_decimal(Decimal(value)), pa.binary())
        case float() | Decimal():
            return DataType.DOUBLE, pa.scalar(float(value))
    return DataType.STRING, pa.scalar(text, pa.string())


# --- conditions that are no functions: each gives BOOLEAN, one value a row --------------------------------------------


def _null_test(rows: _Rows, call: Call) -> pa.Array:
    nulls = rows.array(call.args[0]).is_null()
    return nulls if call.name == "is_null" else pc.invert(nulls)


def _truth_test(rows: _Rows, call: Call) -> pa.Array:
    same = pc.fill_null(pc.equal(rows.truth(call.args[0]), call.name.endswith("true")), False)
    return pc.invert(same) if "_not_" in call.name else same


def _distinct_test(rows: _Rows, call: Call) -> pa.Array:
    """IS [NOT] DISTINCT FROM: nulls equal each other."""
    nulls = [rows.array(arg).is_null() for arg in call.args]
    unequal = pc.fill_null(rows.truth(Call("not_equals", call.args)), False)
    distinct = pc.if_else(pc.or_(*nulls), pc.xor(*nulls), unequal)
    return distinct if call.name == "is_distinct_from" else pc.invert(distinct)


def _between(rows: _Rows, call: Call) -> pa.Array:
    value, low, high = call.args
    return rows.truth(
        Call("and", (Call("greater_than_or_equal", (value, low)), Call("less_than_or_equal", (value, high))))
    )


def _in(rows: _Rows, call: Call) -> pa.Array:
    value, *items = call.args
    typed = rows.value(value)
    members = _members(typed.data_type, items)
    if members is not None and typed.single_value:
        values = spread(typed.values, rows.count)
        same = pc.is_in(values, value_set=members)
        inside = pc.if_else(values.is_null(), pa.scalar(None, pa.bool_()), same) if values.null_count else same
    else:
        inside = reduce(pc.or_kleene, [rows.truth(Call("equals", (value, item))) for item in items])
    return pc.invert(inside) if call.name == "not_in" else inside


def _members(data_type: DataType | None, items: Sequence[Expression]) -> pa.Array | None:
    """The list of IN as a set, where all of it are constants of the value's own kind; else each is compared for
    itself.
    """
    constants = [item.value for item in items if isinstance(item, Literal)]
    if len(constants) < len(items):
        return None
    if data_type is DataType.STRING and all(isinstance(value, str) for value in constants):
        return pa.array(constants, pa.string())
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in constants)
    if data_type in (DataType.INT, DataType.LONG) and whole:
        end = -INT_MIN if data_type is DataType.INT else -LONG_MIN
        return pa.array(
            [value for value in constants if isinstance(value, int) and -end <= value < end], data_type.arrow
        )
    return None


def _like(rows: _Rows, call: Call) -> pa.Array:
    value, pattern, *escape = call.args
    mark = _constant_text(escape[0], "escape character", call) if escape else "\\"
    return _matches(rows, value, like_pattern(_constant_text(pattern, "pattern", call), ignore_case=True, escape=mark))


def _regexp_like(rows: _Rows, call: Call) -> pa.Array:
    if not 2 <= len(call.args) <= 3:
        raise InvalidQueryError(f"regexp_like takes a text, a pattern and 'i' or 'c', found {len(call.args)} arguments")
    value, pattern, *flags = call.args
    ignore_case = bool(flags) and _constant_text(flags[0], "flag", call) == "i"
    return _matches(rows, value, regexp_pattern(_constant_text(pattern, "pattern", call), ignore_case=ignore_case))


def _constant_text(argument: Expression, what: str, call: Call) -> str:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise InvalidQueryError(f"expected a quoted constant as {what} of {call.name.upper()}")
    return argument.value


def _matches(rows: _Rows, value: Expression, pattern: TextPattern) -> pa.Array:
    typed = rows.value(value)
    if not typed.single_value:
        raise InvalidQueryError(f"a pattern is matched with single values, found {typed.operand.name}")
    array = spread(typed.values, rows.count)
    mask = array.is_valid()
    text = spread(texts(array.filter(mask), typed.data_type), 0) if array.null_count else texts(array, typed.data_type)
    matched = pa.array(pattern.matches(text))
    if not array.null_count:
        return matched
    return matched.take(
        pc.if_else(mask, pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), pa.scalar(None, pa.int64()))
    )


_CONDITIONS: Final[dict[str, Callable[[_Rows, Call], pa.Array]]] = {
    **dict.fromkeys(("is_null", "is_not_null"), _null_test),
    **dict.fromkeys(("is_true", "is_not_true", "is_false", "is_not_false"), _truth_test),
    **dict.fromkeys(("is_distinct_from", "is_not_distinct_from"), _distinct_test),
    "between": _between,
    **dict.fromkeys(("in", "not_in"), _in),
    "like": _like,
    "regexp_like": _regexp_like,
}
