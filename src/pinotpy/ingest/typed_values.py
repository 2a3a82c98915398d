"""Values with the type that expressions see: columns of the incoming record, columns of the schema, results."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.functions.scalar.spec import Operand
from pinotpy.ingest import json_text
from pinotpy.ingest.conversion import by_unique
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.time_values import millis_from_temporal
from pinotpy.ingest.unions import without_union
from pinotpy.pql.ast import Literal


@dataclass(frozen=True, slots=True)
class TypedValues:
    """Values of rows in `data_type.arrow` (lists of it unless `single_value`), null where there is none.

    values: pa.Array, or pa.Scalar for a constant, whose `literal` it is. data_type None: nothing but nulls.
    """

    values: pa.Array | pa.Scalar
    data_type: DataType | None
    single_value: bool = True
    literal: Literal | None = None

    @property
    def operand(self) -> Operand:
        """As functions are bound to it."""
        return Operand(self.data_type, self.single_value, self.literal)

    def rows(self, start: int, length: int) -> TypedValues:
        """These rows of it."""
        return (
            self
            if isinstance(self.values, pa.Scalar)
            else TypedValues(self.values.slice(start, length), self.data_type, self.single_value)
        )

    def where(self, mask: pa.Array) -> TypedValues:
        """The rows in which the mask is true."""
        return (
            self
            if isinstance(self.values, pa.Scalar)
            else TypedValues(self.values.filter(mask), self.data_type, self.single_value)
        )


def from_input(values: pa.Array) -> TypedValues:
    """A column in input form that is none of the schema: its type follows from the file's.

    Whole numbers up to 32 bits are INT, up to 64 LONG, beyond BIG_DECIMAL; dates and times of day with a date
    TIMESTAMP; objects JSON text. CSV knows text only.
    """
    values = plain(without_union(values))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type):
        return _lists(values)
    return _flat(values)


def _flat(values: pa.Array) -> TypedValues:
    kind = values.type
    if pa.types.is_null(kind):
        return TypedValues(pa.nulls(len(values), pa.string()), None)
    if pa.types.is_boolean(kind):
        return TypedValues(values, DataType.BOOLEAN)
    if pa.types.is_uint64(kind):
        return TypedValues(_decimals(values), DataType.BIG_DECIMAL)
    if pa.types.is_integer(kind):
        data_type = DataType.LONG if kind in (pa.int64(), pa.uint32()) else DataType.INT
        return TypedValues(values.cast(data_type.arrow), data_type)
    if pa.types.is_floating(kind):
        data_type = DataType.DOUBLE if pa.types.is_float64(kind) else DataType.FLOAT
        return TypedValues(values.cast(data_type.arrow), data_type)
    if pa.types.is_decimal(kind):
        return TypedValues(_decimals(values), DataType.BIG_DECIMAL)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return TypedValues(millis_from_temporal(values), DataType.TIMESTAMP)
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        return TypedValues(values.cast(pa.binary()), DataType.BYTES)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return TypedValues(values.cast(pa.string()), DataType.STRING)
    if pa.types.is_map(kind):
        return TypedValues(
            by_unique(values, lambda pairs: json_text.dumps(dict(pairs)), pa.string()).array, DataType.STRING
        )
    if pa.types.is_nested(kind):
        return TypedValues(by_unique(values, json_text.dumps, pa.string()).array, DataType.STRING)
    return TypedValues(by_unique(values, str, pa.string()).array, DataType.STRING)


def _lists(values: pa.Array) -> TypedValues:
    """Multi-values; nulls inside lists are left out, an empty list is null, as in columns of the schema."""
    items = values.flatten()
    if pa.types.is_nested(items.type) or pa.types.is_null(items.type):
        return _flat(by_unique(values, json_text.dumps, pa.string()).array)
    typed = _flat(items)
    parents = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
    return TypedValues(lists_of(typed.values, parents, len(values)), typed.data_type, single_value=False)


def lists_of(items: pa.Array, parents: Any, num_rows: int) -> pa.Array:
    """A list a row from items and the rows that they belong to (ascending); null items are left out, rows without any
    are null.
    """
    import numpy as np

    valid = np.asarray(items.is_valid())
    counts = np.bincount(parents[valid], minlength=num_rows)
    offsets = np.zeros(num_rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items.drop_null(), mask=pa.array(counts == 0))


def from_schema(values: pa.Array, data_type: DataType, *, single_value: bool) -> TypedValues:
    """A column in storage form."""
    return TypedValues(plain(values), data_type, single_value)


def to_input(result: TypedValues, count: int) -> pa.Array:
    """A result in input form, so that it is cast to a column's type like values of a file. Decimals are text."""
    values = result.values if isinstance(result.values, pa.Array) else pa.repeat(result.values, count)
    if result.data_type is not DataType.BIG_DECIMAL:
        return values
    if result.single_value:
        return _decimal_texts(values)
    parents = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
    return lists_of(_decimal_texts(values.flatten()), parents, len(values))


def _decimals(values: pa.Array) -> pa.Array:
    return by_unique(values, lambda value: encode_decimal(Decimal(value)), pa.binary()).array


def _decimal_texts(values: pa.Array) -> pa.Array:
    return by_unique(values, lambda data: _plain(decode_decimal(data)), pa.string()).array


def _plain(value: Decimal) -> str:
    """Without exponent, and without fraction where it is whole, so that whole numbers fit columns of whole numbers."""
    return format(
        value.quantize(Decimal(1)) if value == value.to_integral_value() and value.adjusted() < 27 else value, "f"
    )
