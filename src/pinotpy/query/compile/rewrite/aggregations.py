"""SQL aggregations in their final form: DISTINCT arguments, arithmetic pulled out, multi-value twins. Order as listed.

    COUNT(DISTINCT x) → distinctcount(x)            SUM, AVG alike
    LISTAGG(DISTINCT x, ',') → listagg(x, ',', true)
    SUM(a + 1)        → add(sum(a), mult('1', count(a)))
    MAX(a * 2)        → mult(max(a), '2')           MIN, AVG, SUM alike; one column and one literal only
    SUM(mv)           → summv(mv)                   COUNT MIN MAX AVG MINMAXRANGE DISTINCT… alike

Source: sql-live.md §2. Column names show the rewritten form, as the reference's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pinotpy.pql.aggregation_names import AGGREGATION_NAMES, is_aggregation
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.literals import boolean_literal
from pinotpy.query.model.conditions import parse_error

_DISTINCT: Final = {"count": "distinctcount", "sum": "distinctsum", "avg": "distinctavg"}
_DISTINCT_LISTS: Final = frozenset({"listagg", "arrayagg"})  # their last argument says so
_LINEAR: Final = frozenset({"sum", "min", "max", "avg"})
_POST: Final = {"plus": "add", "minus": "sub", "times": "mult"}


def rewrite_aggregations(expression: Expression, is_multi_value: Callable[[Expression], bool]) -> Expression:
    """The expression with its aggregation calls rewritten; `is_multi_value` tells multi-value columns."""
    if not isinstance(expression, Call):
        return expression
    if not is_aggregation(expression.name):
        return replace(expression, args=tuple([rewrite_aggregations(arg, is_multi_value) for arg in expression.args]))
    call = _without_distinct(expression)
    pulled = _pulled_out(call, is_multi_value)
    if pulled is not None:
        return pulled
    return _by_shape(call, is_multi_value)


def _without_distinct(call: Call) -> Call:
    if not call.distinct:
        return call
    if call.name in _DISTINCT_LISTS:
        return replace(call, args=(*call.args, boolean_literal(True, call.position)), distinct=False)
    name = _DISTINCT.get(call.name)
    if name is None:
        hint = (
            f"{call.name.upper()} without DISTINCT is the same"
            if call.name in ("min", "max")
            else "leave DISTINCT away"
        )
        raise parse_error(
            f"aggregations of different values are COUNT, SUM, AVG, LISTAGG and ARRAYAGG with DISTINCT: {hint}",
            call.position,
        )
    return replace(call, name=name, distinct=False)


def _pulled_out(call: Call, is_multi_value: Callable[[Expression], bool]) -> Expression | None:
    if call.name not in _LINEAR or call.filter is not None or len(call.args) != 1:
        return None
    inner = call.args[0]
    if not isinstance(inner, Call) or inner.name not in _POST or len(inner.args) != 2:
        return None
    column, literal = inner.args
    if isinstance(column, Literal) and inner.name != "minus":
        column, literal = literal, column
    if not isinstance(column, Identifier) or not isinstance(literal, Literal) or is_multi_value(column):
        return None
    value = literal.value
    if literal.is_string or value is None or isinstance(value, bool | str):
        return None
    if call.name in ("min", "max") and inner.name == "times" and value <= 0:
        return None  # a negative factor turns the order round
    position = call.position
    aggregated = Call(call.name, (column,), position=position)
    if call.name == "sum" and inner.name != "times":
        times = Call("mult", (literal, Call("count", (column,), position=position)), position=position)
        return Call(_POST[inner.name], (aggregated, times), position=position)
    return Call(_POST[inner.name], (aggregated, literal), position=position)


def _by_shape(call: Call, is_multi_value: Callable[[Expression], bool]) -> Call:
    entry = AGGREGATION_NAMES.get(call.name)
    if (
        entry is None
        or entry.multi_value is None
        or entry.is_percentile
        or not call.args
        or not is_multi_value(call.args[0])
    ):
        return call
    return replace(call, name=entry.multi_value)
