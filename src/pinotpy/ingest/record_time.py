"""Clock functions of ingested records: what differs by replica must not come into a row.

Replicas read a record at different moments, and build the same segment of it. So `now()` and `ago()` in a stream's
expressions are the time that the stream has for the record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.scalar.dates import duration_ms
from pinotpy.ingest.expressions import RecordExpression
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.parser import parse_expression

# No field of a record can have this name in an expression, since it is no name of a column.
RECORD_TIME: Final = "$recordTime"


def with_record_time(parsed: RecordExpression) -> RecordExpression:
    """The expression with the column RECORD_TIME (LONG, ms; null where the stream has no time) instead of the clock."""
    expression = _replaced(parsed.expression)
    if expression == parsed.expression:
        return parsed
    return replace(parsed, expression=expression, columns=(*parsed.columns, RECORD_TIME))


def record_times(times_ms: Int64Array) -> pa.Array:
    """The column RECORD_TIME of records; a negative time is none."""
    return pa.array(times_ms, pa.int64(), mask=times_ms < 0)


def _replaced(expression: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    match expression:
        case Call("now", ()):
            return Identifier(RECORD_TIME)
        case Call("ago", (Literal(str() as text),)):
            try:
                before_ms = duration_ms(text)
            except InvalidQueryError:
                return expression  # refused where it is evaluated, as in queries
            return _replaced(parse_expression(f"CAST(now() - {before_ms} AS LONG)"))
    return replace(expression, args=tuple(map(_replaced, expression.args)))
