"""Columns of an answer as lists of JSON values: native ones, and the strings that PQL prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.query.result.reduced import ResultColumn
from pinotpy.query.result.response import text


def native(column: ResultColumn, *, pql: bool = False) -> list[Any]:
    """JSON values in the column's own type: numbers as numbers, infinities and NaN as strings, BYTES as lower hex.

    Args:
        pql: PQL reads BOOLEAN as the strings 'true' and 'false'.
    """
    return _per_value(column, lambda values, data_type: _native(values, data_type, pql))


def selection_texts(column: ResultColumn) -> list[Any]:
    """Strings as PQL selections print them; multi-values as lists of such strings. Nulls stay null."""
    return _per_value(column, lambda values, data_type: selection_values(values.to_pylist(), data_type))


def group_texts(column: ResultColumn) -> list[str]:
    """Group keys as PQL prints them: Java's text of the value. A null key is the text `null`."""
    return [
        "null" if value is None else value
        for value in _per_value(column, lambda values, data_type: _group_values(values.to_pylist(), data_type))
    ]


def aggregation_texts(column: ResultColumn) -> list[Any]:
    """Aggregation values as PQL prints them: five decimals if double-typed, plain otherwise."""
    if column.type.single_value and column.type.data_type is not None:
        return list(aggregation_values(column.values.to_pylist(), column.type.data_type))
    return ["null" if value is None else str(value) for value in native(column, pql=True)]


def _per_value(column: ResultColumn, convert: Callable[[pa.Array, DataType], list[Any]]) -> list[Any]:
    """Apply `convert` to the flat values, and cut the result into lists again where the column has several a row."""
    data_type = column.type.data_type
    values = column.values
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if data_type is None:
        return list(values.to_pylist())
    if column.type.single_value:
        return convert(values, data_type)
    flat = convert(values.flatten(), data_type)
    lengths = values.value_lengths().to_pylist()
    out: list[Any] = []
    position = 0
    for length in lengths:
        if length is None:
            out.append(None)
            continue
        out.append(flat[position : position + length])
        position += length
    return out


def _native(values: pa.Array, data_type: DataType, pql: bool) -> list[Any]:
    if data_type is DataType.FLOAT and not values.null_count:
        return [_one_finite(v) for v in values.to_numpy(zero_copy_only=False).astype(np.float32)]
    return native_values(values.to_pylist(), data_type, pql=pql)


# --- values as Python lists ----------------------------------------------------------------------------------------


def native_values(values: list[Any], data_type: DataType | None, *, pql: bool) -> list[Any]:
    """`native` of the values that Arrow's `to_pylist` gives for a column of single values."""
    match data_type:
        case DataType.DOUBLE:
            return _finite_or_text(values)
        case DataType.FLOAT:
            # numpy scalars: the JSON writer then prints the shortest digits of the float, not of its double.
            return [None if v is None else _one_finite(np.float32(v)) for v in values]
        case DataType.BYTES:
            return [None if v is None else v.hex() for v in values]
        case DataType.BIG_DECIMAL:
            return _map(values, _decimal_text)
        case DataType.TIMESTAMP:
            return values if pql else _map(values, text.timestamp_text)
        case DataType.MAP if not pql:
            return [None if v is None else orjson.Fragment(v) for v in values]
        case DataType.BOOLEAN if pql:
            return _map(values, _boolean_text)
        case _:
            return values


def selection_values(values: list[Any], data_type: DataType | None) -> list[Any]:
    """`selection_texts` of values as in `native_values`."""
    match data_type:
        case DataType.DOUBLE:
            return _map(values, text.selection_double)
        case DataType.FLOAT:
            return _map(values, text.selection_float)
        case DataType.STRING | DataType.JSON | DataType.MAP | None:
            return values
        case _:
            return [
                None if v is None else v if isinstance(v, str) else str(v)
                for v in native_values(values, data_type, pql=True)
            ]


def group_values(values: list[Any], data_type: DataType | None) -> list[str]:
    """`group_texts` of values as in `native_values`."""
    shown = _group_values(values, data_type)
    return ["null" if value is None else value for value in shown] if None in shown else shown


def aggregation_values(values: list[Any], data_type: DataType | None) -> list[str]:
    """`aggregation_texts` of values as in `native_values`."""
    if data_type is DataType.DOUBLE or data_type is DataType.FLOAT:
        return [text.aggregation_text(value) for value in values]
    return ["null" if value is None else str(value) for value in native_values(values, data_type, pql=True)]


def _group_values(values: list[Any], data_type: DataType | None) -> list[Any]:
    match data_type:
        case DataType.DOUBLE:
            return _map(values, text.java_double)
        case DataType.FLOAT:
            return _map(values, text.java_float)
        case _:
            return selection_values(values, data_type)


def _map(values: list[Any], convert: Callable[[Any], str]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _decimal_text(data: bytes) -> str:
    return decimal_text(decode_decimal(data))


def decimal_text(value: Decimal) -> str:
    """BigDecimal.toPlainString for what fits a line, its scientific text beyond that."""
    return f"{value:f}" if abs(value.adjusted()) < 1000 else str(value)


def _finite_or_text(values: Sequence[float | None]) -> list[Any]:
    return [v if v is None or math.isfinite(v) else _one_finite(v) for v in values]


def _one_finite(value: Any) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
