"""Arrow's lists, maps and unions taken apart and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

Branches = Sequence[tuple[NDArray[np.bool_], pa.Array]]
"""(rows that have this branch, its values in their order), one a branch; the others' rows are null."""


class MapEntries(NamedTuple):
    """How many entries each map has, and the keys and values of all of them."""

    lengths: Int64Array
    keys: pa.Array
    items: pa.Array


def map_entries(maps: pa.Array) -> MapEntries:
    """Of a map array; a null has none, or some that nobody sees. (Arrow's cast of maps to lists fails for maps of maps
    of nulls.)
    """
    offsets: Int64Array = np.asarray(maps.offsets).astype(np.int64)
    begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return MapEntries(np.diff(offsets), maps.keys.slice(begin, count), maps.items.slice(begin, count))


def lists_of_lengths(lengths: Int64Array, items: pa.Array, nulls: pa.Array | None = None) -> pa.Array:
    """Lists of so many items each, one behind the other; `nulls` (BOOLEAN): which of them are null."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=nulls)


def with_items(lists: pa.Array, items: pa.Array) -> pa.Array:
    """The lists with other items in place of theirs (those that `flatten` gives)."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    return lists_of_lengths(lengths, items, lists.is_null() if lists.null_count else None)


def field_of(records: pa.Array, index: int) -> pa.Array:
    """A field of structs, null where they are. (Arrow ends the process where such a field is a union and the structs
    have a mask, even one without a null: a union has no nulls of its own, so that the rows without a record have none
    of its branches.)
    """
    if not pa.types.is_union(records.type.field(index).type):
        return pc.struct_field(records, [index])
    union = records.field(index)
    numbers = np.asarray(union.type_codes).copy()
    numbers[np.asarray(records.is_null())] = 0
    offsets = np.where(numbers == 0, 0, np.asarray(union.offsets)).astype(np.int32)
    children = [pa.nulls(1), *(union.field(number) for number in range(1, union.type.num_fields))]
    return pa.UnionArray.from_dense(pa.array(numbers), pa.array(offsets), children)


def branches_of(union: pa.Array) -> list[tuple[NDArray[np.bool_], pa.Array]]:
    """What `union_of` was made of; also of a part of it."""
    numbers, offsets = np.asarray(union.type_codes), union.offsets
    masks = [numbers == number for number in range(1, union.type.num_fields)]
    return [
        (mask, union.field(number).take(offsets.filter(pa.array(mask)))) for number, mask in enumerate(masks, start=1)
    ]


def joined(branches: Branches, num_rows: int) -> pa.Array:
    """The values of branches of one type in their rows."""
    values = pa.concat_arrays([array for _, array in branches])
    places = np.full(num_rows, -1, np.int64)
    begin = 0
    for mask, array in branches:
        places[mask] = np.arange(begin, begin + len(array))
        begin += len(array)
    return values.take(pa.array(places, mask=places < 0))
