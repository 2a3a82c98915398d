"""Rows in storage form ordered by a column, as the builder orders its values: a column that ascends is stored as a
sorted one.

The order is total when the rows come in one: rows of equal values keep their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError, UserError
from pinotpy.ingest.columns import storage_type
from pinotpy.ingest.held_rows import HELD_ROWS
from pinotpy.segment.build.arrow_values import column_values
from pinotpy.segment.dictionary_encode import Encoded, encode_bytes, encode_fixed


def sort_rows(batches: Sequence[pa.RecordBatch], schema: Schema, names: Sequence[str]) -> list[pa.RecordBatch]:
    """The same rows by columns ascending, the first name first; ties keep their places.

    Args:
        batches: storage form, with all columns of the schema; the list is emptied, for the memory.
        names: single-valued columns of the schema.

    Raises:
        UserError: a name is no single-valued column.
        DataError: a text column has more bytes than Arrow can order at once (2 GiB).
    """
    columns = {
        spec.name: whole_column([batch.column(spec.name) for batch in batches], spec)
        for spec in schema.field_specs.values()
    }
    if isinstance(batches, list):
        batches.clear()
    order = row_order(columns.__getitem__, schema, names)
    if order is None:
        return _batches(columns)
    for name, column in columns.items():
        columns[name] = in_order(column, order, schema.field_specs[name])
    return _batches(columns)


def row_order(column: Callable[[str], pa.ChunkedArray], schema: Schema, names: Sequence[str]) -> Int64Array | None:
    """The numbers of the rows by columns ascending, as `sort_rows`; None: the rows have this order.

    Args:
        column: gives a column in storage form.

    Raises UserError: a name is no single-valued column.
    """
    specs = [_sortable(schema, name) for name in names]
    return _order([encoded_values(column(spec.name), spec).ids for spec in specs])


def in_order(column: pa.ChunkedArray, order: Int64Array, spec: FieldSpec) -> pa.ChunkedArray:
    """A `whole_column` in the order of `row_order`. Raises DataError if it has more text than Arrow can order."""
    indices = pa.array(order)
    try:
        # Slice by slice: one result of all rows could pass the 2 GiB that offsets of texts reach.
        parts = [column.take(indices[start : start + HELD_ROWS]) for start in range(0, len(indices), HELD_ROWS)]
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise DataError(
            f"column '{spec.name}' has too much text to be sorted in one segment: make smaller ones ({error})",
            column=spec.name,
        ) from error
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], column.type)


def encoded_values(column: pa.Array | pa.ChunkedArray, spec: FieldSpec) -> Encoded:
    """A single-valued column in storage form as ids over its sorted distinct values; null is the default, as the
    builder has it.
    """
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    values = column_values(
        chunked, spec.name, spec.data_type, single_value=True, default=spec.default_in_segments
    ).values
    return encode_fixed(values) if isinstance(values, np.ndarray) else encode_bytes(values, spec.name)


def _sortable(schema: Schema, name: str) -> FieldSpec:
    spec = schema.field_specs.get(name)
    if spec is None or not spec.single_value:
        raise UserError(
            f"rows cannot be sorted by '{name}': expected a single-valued column of schema '{schema.schema_name}'",
            column=name,
        )
    return spec


def _order(keys: list[NDArray[Any]]) -> Int64Array | None:
    """The stable order by the first key, then the others; None: the rows have it."""
    if len(keys) == 1 and bool(np.all(keys[0][1:] >= keys[0][:-1])):
        return None
    order: Int64Array = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return order


def whole_column(parts: list[pa.Array], spec: FieldSpec) -> pa.ChunkedArray:
    """One chunked array, of one dictionary where there are any: only so Arrow takes from all its chunks."""
    if len({part.type for part in parts}) == 1:
        column = pa.chunked_array(parts)
        return column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
    plain = storage_type(spec)
    return pa.chunked_array([part.cast(plain) for part in parts], plain)


def _batches(columns: dict[str, pa.ChunkedArray]) -> list[pa.RecordBatch]:
    return list(pa.table(columns).to_batches())
