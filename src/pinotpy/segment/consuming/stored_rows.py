"""Rows of a log in storage form, as `segment.build.builder` takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.config.field_spec import FieldSpec
from pinotpy.segment.consuming.chunk_column import ChunkColumn
from pinotpy.segment.consuming.column_parts import ColumnParts


def stored_of_rows(column: ChunkColumn, first_row: int, end_row: int) -> pa.Array:
    """Rows of a chunk that is written to: null where a row had no value, texts that are interned as an Arrow
    dictionary, numbers without a copy.
    """
    begin, stop = first_row, end_row
    if column.value_ends is not None:
        begin, stop = int(column.value_ends[first_row]), int(column.value_ends[end_row])
    is_null = column.nulls[first_row:end_row].view(np.bool_)
    nulls = is_null if is_null.any() else None
    values = _values_of_rows(column, begin, stop, nulls if column.value_ends is None else None)
    if column.value_ends is None:
        return values
    return _lists(values, column.value_ends[first_row : end_row + 1] - np.uint32(begin), nulls)


def stored_of_parts(parts: ColumnParts, spec: FieldSpec, num_rows: int) -> pa.Array:
    """All rows of the parts of a column, as `stored_of_rows`; numbers that have a dictionary are decoded."""
    nulls = None if parts.nulls is None else parts.null_mask(num_rows)
    values = _values_of_parts(parts, spec, nulls if parts.value_ends is None else None)
    return values if parts.value_ends is None else _lists(values, parts.value_ends, nulls)


def _lists(values: pa.Array, ends: NDArray[np.uint32], nulls: NDArray[np.bool_] | None) -> pa.Array:
    offsets = pa.array(ends.astype(np.int32))
    if nulls is None:
        return pa.ListArray.from_arrays(offsets, values)
    # A null row keeps its default value in the chunk; a null list may have values under it.
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(nulls))


def _values_of_rows(column: ChunkColumn, begin: int, stop: int, nulls: Any) -> pa.Array:
    spec = column.layout.spec
    if spec.data_type.stored.is_fixed:
        assert column.values is not None
        return _numbers(column.values[begin:stop], spec, nulls)
    if not column.layout.is_interned:
        return _texts(column.texts(begin, stop), nulls)
    assert column.values is not None
    numbers = column.values[begin:stop]
    texts = column.texts_of(numbers).cast(pa.binary())
    # Arrow unifies dictionaries of signed indices only; a chunk has fewer texts than 2^31, so nothing is copied.
    return pa.DictionaryArray.from_arrays(pa.array(numbers.view(np.int32), mask=nulls), texts)


def _values_of_parts(parts: ColumnParts, spec: FieldSpec, nulls: Any) -> pa.Array:
    if parts.text_ends is not None:
        return _texts(parts.texts(), nulls)
    if parts.dictionary is None:
        return _numbers(parts.forward, spec, nulls)
    if parts.dictionary_ends is None:
        return _numbers(parts.dictionary.take(parts.forward), spec, nulls)
    return pa.DictionaryArray.from_arrays(
        pa.array(parts.forward.astype(np.int32), mask=nulls), parts.dictionary_texts()
    )


def _numbers(values: NDArray[Any], spec: FieldSpec, nulls: Any) -> pa.Array:
    numbers = pa.array(values, mask=nulls)
    return numbers if numbers.type == spec.data_type.arrow else numbers.cast(spec.data_type.arrow)


def _texts(texts: pa.Array, nulls: Any) -> pa.Array:
    return texts if nulls is None else pc.if_else(pa.array(nulls), pa.scalar(None, texts.type), texts)
