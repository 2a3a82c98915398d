"""Whether a text that one dialect refuses would have been right in the other one, and the sentence that says so.

A text is right in a dialect if it parses there and, where its table is known, compiles against that table's schema.
Only refusals come here. What the look costs is bounded, as it is done on the event loop: in CPU time, so that the
same text has the same message on a busy machine.
"""

from __future__ import annotations

import functools
from typing import Final

from pinotpy.broker.parts import BrokerLimits
from pinotpy.clock import Clock, CpuClock
from pinotpy.config.schema import Schema
from pinotpy.errors import InvalidQueryError, ParseError, PinotError, QueryExecutionError
from pinotpy.functions.constants_budget import ConstantsBudget, ConstantsBudgetError, spending
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Dialect, Literal, Statement
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.aggregations import has_aggregation
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.unknown_function import is_told

TEXT_CHARACTERS_MAX: Final = 8 << 10
CONSTANTS_BYTES_MAX: Final = 64 << 10
CPU_MAX_MS: Final = 100
_CPU_CLOCK: Final = CpuClock()

READS_AS_SQL: Final = 'This reads as SQL: send it to POST /query/sql as {"sql": …}'
READS_AS_PQL: Final = (
    'This reads as PQL: send it to POST /query as {"pql": …}, with post-query --pql, or with dialect="pql" of the '
    "Python client"
)


def other_dialect_hint(
    error: PinotError,
    text: str,
    dialect: Dialect,
    schema: Schema | None,
    limits: BrokerLimits,
    cpu_clock: Clock = _CPU_CLOCK,
) -> str:
    """The line to add to the message of a refusal, its line break first; empty if the other dialect refuses the text
    too, if the text is not what was refused, if the table would have to tell and is not known, or if finding out takes
    too long. Raises nothing.

    Args:
        error: why `text` was refused, before any server was asked.
        schema: of the table that the text names; None if that was not looked up.
    """
    if dialect is Dialect.SQL and is_told(error):
        return ""  # PQL drops calls that it does not know beside aggregations: another answer than was asked for
    is_about_text = isinstance(error, ParseError | InvalidQueryError | QueryExecutionError)
    if not is_about_text or isinstance(error, ConstantsBudgetError) or len(text) > TEXT_CHARACTERS_MAX:
        return ""
    other = Dialect.SQL if dialect is Dialect.PQL else Dialect.PQL
    budget = ConstantsBudget(CONSTANTS_BYTES_MAX, CPU_MAX_MS, cpu_clock)
    try:
        with spending(budget):
            # Options beside the text, too, end in a refusal; then the text alone is right here.
            if _takes(text, dialect, schema, limits, budget) is not False:
                return ""
            if _takes(text, other, schema, limits, budget) is False:
                return ""
            if other is Dialect.PQL and not _answers_all(parse_pql(text)):
                return ""
    except ConstantsBudgetError:
        return ""
    return "\n" + (READS_AS_SQL if other is Dialect.SQL else READS_AS_PQL)


def _answers_all(statement: Statement) -> bool:
    """Whether PQL answers all that a statement asks: beside aggregations it drops what is neither one nor a group, by
    a constant, as ORDER BY 3, it orders nothing, and TOP of rows is SQL's LIMIT, of which SQL's own words tell.
    """
    if any(isinstance(item.expression, Literal) for item in statement.order_by):
        return False
    selected = [item.expression for item in statement.select]
    if not any(map(has_aggregation, selected)):
        return statement.top is None
    return all(one in statement.group_by or (isinstance(one, Call) and is_aggregation(one.name)) for one in selected)


def _takes(
    text: str, dialect: Dialect, schema: Schema | None, limits: BrokerLimits, budget: ConstantsBudget
) -> bool | None:
    """Whether the text is right in the dialect; None if it parses, and its table is not known. Raises
    ConstantsBudgetError.
    """
    check = functools.partial(budget.expect, 0)
    try:
        statement = parse_pql(text) if dialect is Dialect.PQL else parse_sql(text)
        if not statement.table:
            # SELECT a: names of columns without a table parse, but mean nothing.
            compile_without_table(statement, QueryOptions(), check)
        elif schema is None:
            return None
        else:
            compile_query(
                statement,
                schema,
                QueryOptions(),
                null_handling=limits.null_handling,
                case_insensitive=limits.case_insensitive and dialect is Dialect.SQL,
                response_rows_max=limits.response_rows_max,
                limit_override=limits.limit_override,
                check=check,
            )
    except ConstantsBudgetError:
        raise
    except (PinotError, RecursionError):
        return False
    return True
