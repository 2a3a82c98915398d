"""Result sets as Arrow tables and data frames, each column in its own type, whether they came as JSON or as Arrow.

JSON has no infinities, bytes, times or decimals: brokers send them as text, and here they become what they were.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Protocol

from pinotpy.errors import RemoteError, UserError

_NOT_FINITE = frozenset(("NaN", "Infinity", "-Infinity"))
_ARRAY = "_ARRAY"
# Arrow's decimals of 128 bits.
_DECIMAL_DIGITS = 38
# In the metadata of a field: the column's type by pinotpy's name.
TYPE_KEY = b"pinot.type"


class Rows(Protocol):
    """A table of an answer that came as JSON: columns, their types by pinotpy's names, and rows."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def types(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[Sequence[Any]]: ...


def type_of_values(values: Sequence[Any], *, aggregated: bool = False) -> str:
    """The type of a column that came without one: LONG, DOUBLE, BOOLEAN or STRING, with _ARRAY for lists.

    Args:
        aggregated: these are an aggregation's values: nothing but "Infinity", "-Infinity" and "NaN" is DOUBLE there
            (MAX of no rows), while a selected column of such texts may be text.
    """
    kinds = set(map(type, values)) - {type(None)}
    is_array = list in kinds
    if is_array:
        values = list(chain.from_iterable(value if isinstance(value, list) else (value,) for value in values))
        kinds = set(map(type, values)) - {type(None)}
    name = "STRING"
    if kinds == {int}:
        name = "LONG"
    elif kinds == {bool}:
        name = "BOOLEAN"
    elif (
        (kinds & {int, float} or (aggregated and kinds))
        and kinds <= {int, float, str}
        and all(value in _NOT_FINITE for value in values if isinstance(value, str))
    ):
        name = "DOUBLE"
    return name + _ARRAY if is_array else name


def arrow_table(result: Rows) -> Any:
    """A pyarrow Table of rows that came as JSON. RemoteError if a value does not fit the type that the broker names."""
    pa = arrow_library()
    arrays, fields = [], []
    for position, (name, data_type) in enumerate(zip(result.columns, result.types, strict=True)):
        try:
            arrays.append(_array([row[position] for row in result.rows], data_type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as problem:
            raise RemoteError(
                f"column '{name}' does not hold what its type {data_type} says: {problem}", column=name
            ) from problem
        fields.append(pa.field(name, arrays[-1].type, metadata={TYPE_KEY: data_type.encode()}))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def pandas_frame(table: Any) -> Any:
    """A pandas DataFrame of an Arrow table; whole numbers and booleans with nulls keep their digits."""
    pandas = _library("pandas")
    import pyarrow as pa

    nullable = {pa.int32(): pandas.Int32Dtype(), pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
    # By position, since names may repeat.
    columns = {
        position: column.to_pandas(types_mapper=nullable.get if column.null_count else None).reset_index(drop=True)
        for position, column in enumerate(table.columns)
    }
    frame = pandas.DataFrame(columns, index=pandas.RangeIndex(table.num_rows))
    frame.columns = list(table.column_names)
    return frame


def polars_frame(table: Any) -> Any:
    """A polars DataFrame of an Arrow table; its columns have different names always."""
    polars = _library("polars")
    names: list[str] = []
    for name in table.column_names:
        free, number = name, 1
        while free in names:
            free, number = f"{name}_{number}", number + 1
        names.append(free)
    return polars.from_arrow(table.rename_columns(names))


def arrow_library() -> Any:
    """pyarrow. UserError where it is not installed: the client alone comes without."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError as problem:
        raise UserError(
            "Arrow tables and data frames need the package pyarrow, which is not installed: pip install "
            "'pinotpy-client[arrow]'; rows work without"
        ) from problem


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise UserError(
            f"to_{name} needs the package {name}, which is not installed: pip install {name}; to_arrow works without"
        ) from problem


def _array(values: list[Any], data_type: str) -> Any:
    import pyarrow as pa

    if not data_type.endswith(_ARRAY):
        return _flat(values, data_type)
    # A lone value in a multi-value column is a list of one.
    lists = [value if value is None or isinstance(value, list) else [value] for value in values]
    items = _flat([item for row_values in lists for item in row_values or ()], data_type.removesuffix(_ARRAY))
    offsets: list[int | None] = []
    end = 0
    for row_values in lists:
        offsets.append(None if row_values is None else end)
        end += len(row_values or ())
    return pa.ListArray.from_arrays(pa.array([*offsets, end], pa.int32()), items)


def _flat(values: list[Any], data_type: str) -> Any:
    import pyarrow as pa

    match data_type:
        case "INT":
            return pa.array(values, pa.int32())
        case "LONG":
            return pa.array(values, pa.int64())
        case "FLOAT":
            return pa.array(_numbers(values), pa.float32())
        case "DOUBLE":
            return pa.array(_numbers(values), pa.float64())
        case "BOOLEAN":
            return pa.array(values, pa.bool_())
        case "TIMESTAMP":
            return _timestamps(values)
        case "BYTES":
            return pa.array([None if value is None else bytes.fromhex(value) for value in values], pa.binary())
        case "BIG_DECIMAL":
            return _decimals(values)
        case _:
            texts = [
                value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for value in values
            ]
            return pa.array(texts, pa.string())


def _numbers(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _timestamps(values: list[Any]) -> Any:
    """In UTC; from `2013-01-01 00:00:00.0`, or epoch milliseconds as a number or, beyond the year 9999, as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A text of digits alone would be read as a year.
    times = [
        value if not isinstance(value, str) else int(value) if value.lstrip("-").isdigit() else value
        for value in values
    ]
    millis = pa.array([None if isinstance(value, str) else value for value in times], pa.int64())
    moments = millis.cast(pa.timestamp("ms"))
    if any(isinstance(value, str) for value in times):
        texts = pa.array([value if isinstance(value, str) else None for value in times], pa.string())
        # Digits beyond milliseconds are cut.
        read = texts.cast(pa.timestamp("us")).cast(pa.timestamp("ms"), safe=False)
        moments = pc.coalesce(read, moments)
    return moments.cast(pa.timestamp("ms", "UTC"))


def _decimals(values: list[Any]) -> Any:
    """As brokers send them in Arrow: decimals of 38 digits, as many of them fractions as a value has; text where one
    needs more digits.
    """
    import pyarrow as pa

    try:
        decimals = pa.array([None if value is None else Decimal(str(value)) for value in values])
        scale = 0 if pa.types.is_null(decimals.type) else decimals.type.scale
        return decimals.cast(pa.decimal128(_DECIMAL_DIGITS, scale))
    except (pa.ArrowException, ArithmeticError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
