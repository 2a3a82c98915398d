"""Arrow columns in storage form → plain values: nulls and NaN replaced by the default, multi-values flattened.

Rules of the reference at ingestion: −0.0 is stored as 0.0, NaN as null; null elements and NaN elements of a multi-value
are dropped, and a multi-value without elements is null = [default].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import DataError

Stored = int | float | bytes

_ARROW_STORED = {
    StoredType.INT: pa.int32(),
    StoredType.LONG: pa.int64(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
}


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """One column, ready to be encoded.

    Attributes:
        values: fixed types: numpy array, shape (num_values,); VAR: Arrow chunked array of binary, large_binary or
            dictionary<binary>, without nulls.
        mv_offsets: multi-value only, uint32, shape (num_docs + 1,).
        nulls: one bool a doc, or None if no doc is null.
    """

    values: NDArray[Any] | pa.ChunkedArray
    mv_offsets: NDArray[np.uint32] | None
    nulls: NDArray[np.bool_] | None
    num_docs: int

    @property
    def num_values(self) -> int:
        return len(self.values)


def column_values(
    column: pa.ChunkedArray, name: str, data_type: DataType, *, single_value: bool, default: Stored
) -> ColumnValues:
    """Read a column in storage form; raises DataError if its Arrow type cannot be that of the schema."""
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if is_list == single_value and not pa.types.is_null(column.type):
        raise DataError(
            f"column '{name}' is {'single' if single_value else 'multi'}-valued in the schema, found "
            f"Arrow type {column.type}",
            column=name,
        )
    if single_value:
        return _single(_cast(column, name, data_type), data_type.stored, default)
    if pa.types.is_null(column.type):
        column = column.cast(pa.list_(data_type.arrow))
    return _multi(column, name, data_type, default)


def _cast(column: pa.ChunkedArray, name: str, data_type: DataType) -> pa.ChunkedArray:
    """To the stored Arrow type; a dictionary<string> becomes dictionary<binary> without being decoded."""
    given = column.type
    try:
        if data_type.stored.is_fixed:
            if pa.types.is_dictionary(given):
                column = column.cast(given.value_type)
            return column.cast(_ARROW_STORED[data_type.stored])
        if pa.types.is_dictionary(given) and (_is_bytes(given.value_type)):
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.binary()))
                for chunk in column.chunks
            ]
            return pa.chunked_array(chunks, pa.dictionary(given.index_type, pa.binary()))
        if pa.types.is_large_string(given) or pa.types.is_large_binary(given):
            return column.cast(pa.large_binary())
        if _is_bytes(given) or pa.types.is_null(given):
            return column.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"column '{name}' cannot be stored as {data_type.value}: {error}", column=name) from error
    raise DataError(
        f"column '{name}' cannot be stored as {data_type.value}: found Arrow type {given}, expected {data_type.arrow}",
        column=name,
    )


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return any(
        test(arrow_type)
        for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    )


def _single(column: pa.ChunkedArray, stored: StoredType, default: Stored) -> ColumnValues:
    num_docs = len(column)
    nulls = null_mask(column) if column.null_count else None
    if not stored.is_fixed:
        if nulls is None:
            return ColumnValues(_without_dictionary_nulls(column, default), None, _dictionary_nulls(column), num_docs)
        return ColumnValues(_fill_bytes(column, default), None, nulls, num_docs)
    values = fixed_values(column.fill_null(0) if nulls is not None else column, stored)
    if stored.is_floating:
        values, not_numbers = _plain_floats(values)
        if not_numbers is not None:
            nulls = not_numbers if nulls is None else nulls | not_numbers
    if nulls is not None:
        values = np.where(nulls, stored.numpy.type(default), values)
    return ColumnValues(values, None, nulls, num_docs)


def _dictionary_nulls(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    # A null may hide in the dictionary itself, where null_count does not see it.
    if not pa.types.is_dictionary(column.type) or all(chunk.dictionary.null_count == 0 for chunk in column.chunks):
        return None
    mask = null_mask(column.cast(pa.binary()))
    return mask if mask.any() else None


def _without_dictionary_nulls(column: pa.ChunkedArray, default: Stored) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type) or all(chunk.dictionary.null_count == 0 for chunk in column.chunks):
        return column
    return _fill_bytes(column, default)


def _fill_bytes(column: pa.ChunkedArray, default: Stored) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.binary())
    return column.fill_null(pa.scalar(default, column.type))


def _plain_floats(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    not_numbers = np.isnan(values)
    return values + values.dtype.type(0), not_numbers if not_numbers.any() else None  # −0.0 + 0.0 = 0.0


def _multi(column: pa.ChunkedArray, name: str, data_type: DataType, default: Stored) -> ColumnValues:
    num_docs = len(column)
    lengths = np.concatenate([np.zeros(0, np.int64), *(_lengths(chunk) for chunk in column.chunks)])
    flat = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    flat = _cast(flat, name, data_type)
    stored = data_type.stored
    keep = ~null_mask(flat) if flat.null_count else None
    if stored.is_fixed:
        fixed = fixed_values(flat.fill_null(0) if keep is not None else flat, stored)
        if stored.is_floating:
            fixed, not_numbers = _plain_floats(fixed)
            if not_numbers is not None:
                keep = ~not_numbers if keep is None else keep & ~not_numbers
        values: NDArray[Any] | pa.ChunkedArray = fixed
    else:
        # A null may hide in the dictionary itself.
        hidden = pa.types.is_dictionary(flat.type) and any(chunk.dictionary.null_count for chunk in flat.chunks)
        values = flat.cast(pa.binary()) if hidden else flat
        keep = ~null_mask(values) if values.null_count else None
    if keep is not None:
        lengths = np.bincount(np.repeat(np.arange(num_docs), lengths)[keep], minlength=num_docs)
        values = values[keep] if isinstance(values, np.ndarray) else values.filter(pa.array(keep))
    nulls = lengths == 0
    offsets = np.zeros(num_docs + 1, np.int64)
    np.cumsum(np.maximum(lengths, 1), out=offsets[1:])
    if offsets[-1] >= 1 << 32:
        raise DataError(
            f"column '{name}' has {offsets[-1]} values in one segment, at most 2^32 - 1 are allowed: make "
            "smaller segments",
            column=name,
        )
    if nulls.any():
        values = _insert_default(values, offsets[:-1][nulls], int(offsets[-1]), stored, default)
    return ColumnValues(values, offsets.astype(np.uint32), nulls if nulls.any() else None, num_docs)


def _lengths(chunk: pa.Array) -> Int64Array:
    lengths = pc.list_value_length(chunk).cast(pa.int64()).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _insert_default(values: Any, positions: Int64Array, total: int, stored: StoredType, default: Stored) -> Any:
    is_default = np.zeros(total, np.bool_)
    is_default[positions] = True
    if stored.is_fixed:
        out = np.full(total, default, stored.numpy)
        out[~is_default] = values
        return out
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.binary())
    sources = np.cumsum(~is_default) - 1
    return values.take(pa.array(sources, mask=is_default)).fill_null(pa.scalar(default, values.type))


def null_mask(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """One bool a row, True where the row is null."""
    return np.concatenate(
        [np.zeros(0, np.bool_), *(chunk.is_null().to_numpy(zero_copy_only=False) for chunk in column.chunks)]
    )


def fixed_values(column: pa.ChunkedArray, stored: StoredType) -> NDArray[Any]:
    """Values of a fixed type without nulls as one array; zero-copy if the column is one chunk."""
    chunks = [chunk.to_numpy(zero_copy_only=True) for chunk in column.chunks]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.zeros(0, stored.numpy), *chunks])
