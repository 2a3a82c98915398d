"""Expressions as column names: the standardised text that responses show.

PQL: function lower case, arguments joined with ',', every literal in single quotes: `sub(column1,'100000')`. SQL: the
same with operators by name (`plus(runs,'1')`), `count(*)`, percentiles as doubles. Sources: pql.md §1.2 and §2.3,
sql-live.md §2. Quotes inside literals are not doubled, as in the reference: these texts name columns; they are not
meant to be parsed.
"""

from __future__ import annotations

from pinotpy.pql.aggregation_names import find_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star
from pinotpy.pql.literals import java_double_text


def print_expression(expression: Expression, dialect: Dialect) -> str:
    """The name of an expression in responses of a dialect: a column's name, or function(arguments)."""
    if isinstance(expression, Identifier):
        return expression.name
    if isinstance(expression, Literal):
        return f"'{expression.text}'"
    if isinstance(expression, Star):
        return "*"
    shown = expression.args[:2] if expression.name == "item" else expression.args  # not the type of the value
    text = f"{expression.name}({','.join([print_expression(arg, dialect) for arg in shown])})"
    return text if expression.filter is None else f"filter({text},{print_expression(expression.filter, dialect)})"


def print_literal(literal: Literal) -> str:
    """A literal alone in a select list: text in quotes, the rest bare (SQL: `1`, `'abc'`, `true`, `null`)."""
    return f"'{literal.text}'" if literal.is_string else literal.text


def print_pql_aggregation(call: Call) -> str:
    """`count_star`, `sum_runs`, `percentile95_x`, `percentileEst50MV_x`, `sum_add(a,'1')`."""
    aggregation = find_aggregation(call.name)
    assert aggregation is not None, call.name
    entry, percentile = aggregation
    if entry.name == "count":
        return "count_star"
    if percentile is None and entry.is_percentile and len(call.args) > 1:
        level = call.args[1]
        text = level.text if isinstance(level, Literal) else print_expression(level, Dialect.PQL)
    else:
        text = "" if percentile is None else str(percentile)
    name = f"{entry.pql.removesuffix('MV')}{text}MV" if entry.is_multi_value else f"{entry.pql}{text}"
    return f"{name}_{print_expression(call.args[0], Dialect.PQL)}"


def print_sql_aggregation(call: Call) -> str:
    """`count(*)`, `sum(runs)`, `percentile(runs, 50.0)`, `percentile50(runs)`, `mode(runs)`, `covarpop(runs,hits)`."""
    aggregation = find_aggregation(call.name)
    assert aggregation is not None, call.name
    entry, percentile = aggregation
    args = [print_expression(arg, Dialect.SQL) for arg in call.args]
    if entry.is_percentile and percentile is None and len(args) > 1:
        parameters = [_percentile_argument(arg, index) for index, arg in enumerate(call.args[1:])]
        return f"{call.name}({', '.join([args[0], *parameters])})"
    return f"{call.name}({','.join(args if entry.shown is None else args[: entry.shown])})"


def _percentile_argument(argument: Expression, index: int) -> str:
    if not isinstance(argument, Literal):
        return print_expression(argument, Dialect.SQL)
    if index == 0 and argument.value is not None and not isinstance(argument.value, bool):
        try:
            return java_double_text(float(argument.text))  # '50' is 50.0 too
        except ValueError:
            return argument.text
    return argument.text
