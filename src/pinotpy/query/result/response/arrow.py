"""Answers as Arrow: one table, typed, whose schema's metadata holds whatever the JSON answer says beside its rows (ADR
12).

The reduced result is Arrow already: columns go out as they are. Only TIMESTAMP changes its type (the same bytes), and
BIG_DECIMAL its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.result.explained_answer import TABLE_COLUMNS, Explanation
from pinotpy.query.result.reduced import ReducedResult, ResultColumn
from pinotpy.query.result.response.values import decimal_text

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"
# In the metadata of each field: the type as `columnDataTypes` of JSON has it; of the schema: the JSON answer without
# its rows.
TYPE_KEY: Final = b"pinot.type"
RESPONSE_KEY: Final = b"pinot.response"

# A piece is copied once, to be sent: what an answer takes beyond its own bytes.
PIECE_BYTES: Final = 1 << 20
TIMESTAMP: Final = pa.timestamp("ms", "UTC")
# What DuckDB, polars and pandas read; Arrow's 256 bits they do not.
DECIMAL_DIGITS_MAX: Final = 38
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
# Distinct decimals decoded between two looks at the deadline: some 10 ms.
_DECIMALS_PIECE: Final = 8 << 10


def one_table(result: ReducedResult) -> tuple[ResultColumn, ...] | None:
    """The columns of the only table that the answer has; None for PQL's GROUP BY with a list for each of several
    aggregations.
    """
    if not result.group_lists:
        return result.columns
    if len(result.group_lists) > 1:
        return None
    only = result.group_lists[0]
    return (*only.keys, only.value)


def table_of(columns: tuple[ResultColumn, ...], check: Check = no_deadline) -> pa.Table:
    """The columns, of one length, as a table whose fields say their Pinot type. Names may stand twice.

    Raises: what `check`, called between columns and within long ones, raises.
    """
    arrays, fields = [], []
    for column in columns:
        check()
        array = _array(column, check)
        arrays.append(array)
        fields.append(_field(column.name, array.type, column.type.name))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def table_of_explanation(explanation: Explanation) -> pa.Table:
    """The table of operators that EXPLAIN answers."""
    rows = explanation.rows()
    arrays = [
        pa.array([row[position] for row in rows], DataType(kind).arrow)
        for position, (_, kind) in enumerate(TABLE_COLUMNS)
    ]
    return pa.Table.from_arrays(
        arrays, schema=pa.schema([_field(name, DataType(kind).arrow, kind) for name, kind in TABLE_COLUMNS])
    )


def with_response(table: pa.Table, response: bytes) -> pa.Table:
    """The table with `response`, the JSON answer without rows, in its schema."""
    return table.replace_schema_metadata({RESPONSE_KEY: response})


def stream_pieces(table: pa.Table, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes | memoryview]:
    """The bytes of an IPC stream, piece after piece as they are asked for; no piece but the last one made is kept."""
    yield memoryview(table.schema.serialize())
    rows_of_a_piece = max(1, piece_bytes * table.num_rows // max(1, table.nbytes))
    for batch in table.to_batches(max_chunksize=rows_of_a_piece):
        yield memoryview(batch.serialize())
    yield _END_OF_STREAM


def _field(name: str, arrow: pa.DataType, type_name: str) -> pa.Field:
    return pa.field(name, arrow, metadata={TYPE_KEY: type_name.encode()})


def _array(column: ResultColumn, check: Check) -> pa.Array:
    values = column.values.combine_chunks() if isinstance(column.values, pa.ChunkedArray) else column.values
    kind = column.type
    if kind.single_value or kind.data_type is None:
        return _flat(values, kind, check)
    items = values.flatten()
    shown = _flat(items, kind, check)
    if shown is items:
        return values
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(pc.fill_null(values.value_lengths(), 0), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), shown, mask=values.is_null() if values.null_count else None)


def _flat(values: pa.Array, kind: ResultType, check: Check) -> pa.Array:
    if kind.data_type is None:  # a bare NULL: the same type for any number of rows
        return pa.nulls(len(values)) if values.null_count == len(values) else values
    if values.type != kind.data_type.arrow:
        values = values.cast(kind.data_type.arrow)
    match kind.data_type:
        case DataType.TIMESTAMP:
            return values.view(TIMESTAMP)
        case DataType.BIG_DECIMAL:
            return _decimals(values, check)
        case _:
            return values


def _decimals(values: pa.Array, check: Check) -> pa.Array:
    """decimal128 of 38 digits with as many of them fractions as any value has; text where a value needs more digits."""
    encoded = values.dictionary_encode()
    distinct: list[Decimal] = []
    for start in range(0, len(encoded.dictionary), _DECIMALS_PIECE):
        check()
        distinct += [decode_decimal(value) for value in encoded.dictionary.slice(start, _DECIMALS_PIECE).to_pylist()]
    scale = max([0, *(-_exponent(value) for value in distinct)])
    digits = max([0, *(value.adjusted() + 1 for value in distinct if value)]) + scale
    if digits <= DECIMAL_DIGITS_MAX:
        return pa.array(distinct, pa.decimal128(DECIMAL_DIGITS_MAX, scale)).take(encoded.indices)
    return pa.array([decimal_text(value) for value in distinct], pa.string()).take(encoded.indices)


def _exponent(value: Decimal) -> Any:
    return value.as_tuple().exponent
