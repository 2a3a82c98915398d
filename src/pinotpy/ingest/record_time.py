"""Clock functions of ingested records: what differs by replica must not come into a row.

Replicas read a record at different moments, and build the same segment of it. So `now()` and `ago()` in a stream's
expressions are the time that the stream has for the record, and so is a time that is missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.config.field_spec import FieldSpec
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.scalar.dates import duration_ms
from pinotpy.ingest.expressions import RecordExpression
from pinotpy.ingest.time_values import from_millis
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


def with_record_times(batch: pa.RecordBatch, spec: FieldSpec, times_ms: Int64Array) -> pa.RecordBatch:
    """Rows in storage form whose time column has the times of their records where it is null: a row without a time is
    on neither side of a hybrid table's time boundary, and the clock differs by replica.

    Args:
        spec: of the time column; one that says what a null is to be keeps its nulls.
        times_ms: shape (batch.num_rows,), negative where the stream has none.
    """
    index = batch.schema.get_field_index(spec.name)
    column = batch.column(index)
    if not column.null_count or spec.date_time_format is None or spec.default_null_value is not None:
        return batch
    lacking = column.is_null()
    times = from_millis(record_times(times_ms).filter(lacking), spec.date_time_format).array
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        times = times.cast(column.type)
    except pa.ArrowInvalid:  # a time of today does not fit the column, such as milliseconds an INT
        return batch
    return batch.set_column(index, spec.name, pc.replace_with_mask(column, lacking, times))


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
