"""Rows of a log as record batches in storage form, as `segment.build.builder` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_column import ChunkColumn


def stored_rows(chunks: Sequence[Chunk], first_row: int, end_row: int) -> Iterator[pa.RecordBatch]:
    """Rows [first_row, end_row) of the log, a batch a chunk: null where a row had no value, texts that are interned as
    Arrow dictionaries, numbers without a copy.
    """
    for chunk in chunks:
        low, high = max(first_row, chunk.first_row), min(end_row, chunk.end_row)
        if low >= high:
            continue
        rows = (low - chunk.first_row, high - chunk.first_row)
        yield pa.RecordBatch.from_arrays(
            [_stored_column(column, *rows) for column in chunk.columns.values()], names=list(chunk.columns)
        )


def _stored_column(column: ChunkColumn, first_row: int, end_row: int) -> pa.Array:
    begin, stop = first_row, end_row
    if column.value_ends is not None:
        begin, stop = int(column.value_ends[first_row]), int(column.value_ends[end_row])
    is_null = column.nulls[first_row:end_row].view(np.bool_)
    nulls = is_null if is_null.any() else None
    values = _stored_values(column, begin, stop, nulls if column.value_ends is None else None)
    if column.value_ends is None:
        return values
    offsets = (column.value_ends[first_row : end_row + 1] - np.uint32(begin)).astype(np.int32)
    if nulls is None:
        return pa.ListArray.from_arrays(pa.array(offsets), values)
    # A null row keeps its default value in the chunk; a null list may have values under it.
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(nulls))


def _stored_values(column: ChunkColumn, begin: int, stop: int, nulls: Any) -> pa.Array:
    spec = column.layout.spec
    if spec.data_type.stored.is_fixed:
        assert column.values is not None
        numbers = pa.array(column.values[begin:stop], mask=nulls)
        return numbers if numbers.type == spec.data_type.arrow else numbers.cast(spec.data_type.arrow)
    if not column.layout.is_interned:
        texts = column.texts(begin, stop)
        return texts if nulls is None else pc.if_else(pa.array(nulls), pa.scalar(None, texts.type), texts)
    assert column.values is not None
    numbers = column.values[begin:stop]
    texts = column.texts_of(numbers).cast(pa.binary())
    # Arrow unifies dictionaries of signed indices only; a chunk has fewer texts than 2^31, so nothing is copied.
    return pa.DictionaryArray.from_arrays(pa.array(numbers.view(np.int32), mask=nulls), texts)
