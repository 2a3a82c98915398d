"""A select list without FROM: constants and functions of constants, which the broker computes as one row.

No column means no default values: null is null in both null modes. A condition in WHERE keeps the row or not.
"""

from __future__ import annotations

from typing import Final

from pinotpy.clock import SystemClock
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.scalar.spec import find_scalar_function
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Statement
from pinotpy.pql.printer import print_expression, print_literal
from pinotpy.query.compile.checks import CheckedExpressions
from pinotpy.query.compile.rewrite.constants import fold_functions
from pinotpy.query.compile.rewrite.pin_time import at_moment
from pinotpy.query.compile.sql import DEFAULT_ROWS
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.conditions import parse_error
from pinotpy.query.model.context import OutputColumn, QueryContext, QueryKind, QueryOptions
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.result_types import types_of
from pinotpy.query.model.unknown_function import check_functions

_clock: Final = SystemClock()


def compile_without_table(statement: Statement, options: QueryOptions, check: Check = no_deadline) -> QueryContext:
    """Compile a statement without FROM.

    Raises:
        InvalidQueryError: (700) a column, an aggregation, a user function or GROUP BY: all of them are of a table.
        ParseError: (150) a function cannot take these constants.
        QueryTimeoutError: (250) `check` found that the query's time is up.
    """
    if statement.dialect is not Dialect.SQL:
        raise InvalidQueryError("QueryValidationError: Data source (FROM clause) not found")
    if statement.group_by or statement.group_by_all or statement.having is not None:
        raise InvalidQueryError(
            "QueryValidationError: Data source (FROM clause) not found; GROUP BY and HAVING need a table"
        )
    now_ms = _clock.now_ms()  # one moment for all of them
    empty = QueryContext(Dialect.SQL, QueryKind.SELECTION, "", (), null_handling=True)
    checked = CheckedExpressions(types_of(empty), check, null_handling=empty.null_handling)
    rows = Rows(empty, 1, _no_column, _no_column)

    def computable(written: Expression, alias: str | None = None) -> Expression:
        check()
        check_functions(written)
        _expect_constant(written, alias)
        expression = fold_functions(at_moment(fold_functions(written, null_handling=True), now_ms), null_handling=True)
        checked.value(expression)
        return expression

    output: list[OutputColumn] = []
    aliases: set[str | None] = set()
    for item in statement.select:
        expression = computable(item.expression, item.alias)
        if item.alias is not None and item.alias in aliases:
            raise parse_error(f"expected each alias once, found '{item.alias}' twice", item.expression.position)
        aliases.add(item.alias)
        name = (
            print_literal(expression) if isinstance(expression, Literal) else print_expression(expression, Dialect.SQL)
        )
        output.append(OutputColumn(name if item.alias is None else item.alias, expression))
    for by in statement.order_by:  # one row has no order; its names are checked
        if not isinstance(by.expression, Identifier) or by.expression.name not in aliases:
            computable(by.expression)
    is_kept = statement.where is None or rows.truth(computable(statement.where))[0].as_py() is True
    return QueryContext(
        dialect=Dialect.SQL,
        kind=QueryKind.SELECTION,
        table="",
        output=tuple(output),
        limit=(DEFAULT_ROWS if statement.limit is None else statement.limit) if is_kept else 0,
        offset=statement.offset or 0,
        null_handling=True,
        options=options,
        explain=statement.explain,
    )


def _expect_constant(expression: Expression, alias: str | None = None) -> None:
    """alias: what the expression is called, which `DATE "2025-01-10"` is meant as a date."""
    if isinstance(expression, Literal):
        return
    if isinstance(expression, Call) and not is_aggregation(expression.name):
        function = find_scalar_function(expression.name)
        if function is None or function.origin is None:
            for arg in expression.args:
                _expect_constant(arg)
            return
    what = print_expression(expression, Dialect.SQL)
    hint = ""
    if alias is not None and isinstance(expression, Identifier) and what.upper() in ("DATE", "TIME", "TIMESTAMP"):
        hint = f"; texts have single quotes: {what.upper()} '{alias[:40]}'"
    raise InvalidQueryError(
        f"QueryValidationError: Data source (FROM clause) not found; '{what[:80]}' needs a "
        f"table{position_text(expression.position)}{hint}"
    )


def _no_column(name: str) -> None:
    raise AssertionError(f"a constant reads no column, found '{name}'")
