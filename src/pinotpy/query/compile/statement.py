"""Statement + schema → QueryContext: names checked, defaults applied, kind decided.

Reading order: this file, compile_pql or compile_sql (one per dialect; compile_constants without FROM), compile_columns,
compile_aggregations, compile_filter, rewrite/.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pinotpy.errors import InvalidQueryError
from pinotpy.pql.ast import Dialect, Statement
from pinotpy.query.compile.checks import check_expressions
from pinotpy.query.compile.columns import ColumnResolver, TableSchema
from pinotpy.query.compile.pql import PqlCompiler
from pinotpy.query.compile.sql import SqlCompiler
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.model.user_functions import with_user_functions

RESPONSE_ROWS_MAX: Final = 2**31 - 1


def compile_query(
    statement: Statement,
    schema: TableSchema,
    options: QueryOptions,
    *,
    null_handling: bool,
    case_insensitive: bool | None = None,
    response_rows_max: int = RESPONSE_ROWS_MAX,
    limit_override: bool = False,
    check: Check = no_deadline,
) -> QueryContext:
    """Compile a statement against the schema of its table.

    Args:
        schema: the table's schema (config.schema.Schema).
        null_handling: SQL nulls (True) or default values; PQL always means default values.
        case_insensitive: whether names of columns match regardless of letter case; by default in SQL, not in PQL.
        response_rows_max: the broker's ceiling for LIMIT and TOP.
        limit_override: cut LIMIT and TOP to that ceiling instead of refusing.
        check: raises when the query's time is up: a text within all limits can take seconds.

    Raises:
        UnknownColumnError: (710) with the nearest name and where it stands.
        InvalidQueryError: (700) a query that cannot mean anything, or a LIMIT or TOP above the ceiling.
        ParseError: (150) what the reference calls a parsing fault and only the schema or the whole statement shows.
        QueryExecutionError: (200) what the reference finds only while running, such as an aggregation in WHERE.
    """
    if statement.limit_all:
        statement = replace(statement, limit=response_rows_max)
    if limit_override:
        limit, top = (
            None if count is None else min(count, response_rows_max) for count in (statement.limit, statement.top)
        )
        statement = replace(statement, limit=limit, top=top)
    for name, count in (("LIMIT", statement.limit), ("TOP", statement.top)):
        if count is not None and count > response_rows_max:
            raise InvalidQueryError(
                f"Value for '{name}' ({count}) exceeds maximum allowed value of {response_rows_max}"
            )
    if not statement.table:
        raise InvalidQueryError("QueryValidationError: Data source (FROM clause) not found")
    folded = statement.dialect is Dialect.SQL if case_insensitive is None else case_insensitive
    resolver = ColumnResolver(
        schema,
        statement.table,
        case_insensitive=folded,
        check=check,
        alias=statement.table_alias,
        has_fields=statement.dialect is Dialect.SQL,
    )
    compiler = (
        SqlCompiler(statement, resolver, options, null_handling=null_handling)
        if statement.dialect is Dialect.SQL
        else PqlCompiler(statement, resolver, options, null_handling=False)
    )
    try:
        context = with_user_functions(compiler.compile())
        check_expressions(context, check)
        return context
    except RecursionError:
        # Only where the caller's own stack is deep already: the parser bounds how high expressions are.
        raise InvalidQueryError("expressions nest too deeply here; split the query") from None
