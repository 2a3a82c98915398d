"""Values of several types in one column (Avro unions) → one Arrow array.

Columns of the schema take unions as they are and cast each value by itself (`casting`); all else has them joined.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.ingest.casting import cast_values
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.list_arrays import Branches, branches_of, field_of, joined, with_items

_BRANCHES_MAX: Final = 100


def union_of(branches: Branches, num_rows: int) -> pa.Array:
    """The values of all branches in their rows: one array where they have one type, else an Arrow union."""
    filled = [(mask, array) for mask, array in branches if len(array)]
    arrays = [array for _, array in filled]
    if len({array.type for array in arrays}) <= 1 or len(arrays) > _BRANCHES_MAX:
        return joined_union(filled, num_rows)
    numbers = np.zeros(num_rows, np.int8)
    offsets = np.zeros(num_rows, np.int32)
    for number, (mask, array) in enumerate(filled, start=1):
        numbers[mask] = number
        offsets[mask] = np.arange(len(array), dtype=np.int32)
    return pa.UnionArray.from_dense(pa.array(numbers), pa.array(offsets), [pa.nulls(1), *arrays])


def without_union(array: pa.Array) -> pa.Array:
    """Unions, also as items of lists, as `joined_union` makes of them."""
    if pa.types.is_union(array.type):
        return joined_union(branches_of(array), len(array))
    if pa.types.is_list(array.type) and pa.types.is_union(array.type.value_type):
        return with_items(array, without_union(array.flatten()))
    return array


def without_unions(array: pa.Array) -> pa.Array:
    """Unions at any depth of records and lists, as `joined_union` makes of them."""
    kind = array.type
    if pa.types.is_union(kind):
        return joined_union([(mask, without_unions(branch)) for mask, branch in branches_of(array)], len(array))
    if not _holds_union(kind):
        return array
    if pa.types.is_list(kind):
        return with_items(array, without_unions(array.flatten()))
    fields = [without_unions(field_of(array, index)) for index in range(kind.num_fields)]
    return pa.StructArray.from_arrays(fields, kind.names, mask=array.is_null())


def _holds_union(kind: pa.DataType) -> bool:
    if pa.types.is_union(kind):
        return True
    if pa.types.is_list(kind):
        return _holds_union(kind.value_type)
    return pa.types.is_struct(kind) and any(_holds_union(kind.field(index).type) for index in range(kind.num_fields))


def joined_union(branches: Branches, num_rows: int) -> pa.Array:
    """The values of all branches in one array that is no union.

    Whole numbers meet as 64 bits, numbers as doubles where all of them are exact, all else as text: nested values as
    JSON.
    """
    filled = [(mask, array) for mask, array in branches if len(array)]
    if not filled:
        return pa.nulls(num_rows)
    arrays = _of_one_type([array for _, array in filled])
    return joined([(mask, array) for (mask, _), array in zip(filled, arrays, strict=True)], num_rows)


def _of_one_type(arrays: list[pa.Array]) -> list[pa.Array]:
    arrays = [plain(array) for array in arrays]
    types = [array.type for array in arrays]
    if len(set(types)) == 1:
        return arrays
    if all(pa.types.is_integer(kind) for kind in types):
        return [array.cast(pa.int64()) for array in arrays]
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types):
        try:
            return [array.cast(pa.float64()) for array in arrays]
        except pa.ArrowInvalid:
            pass  # a LONG that no double holds
    return [texts_of(array) for array in arrays]


def texts_of(array: pa.Array) -> pa.Array:
    """Each value as text, nested ones as JSON."""
    return plain(cast_values(array, DataType.STRING, None).array)
