"""What a flat name stands for: `a.b` is the field called so, or field (or key) b of the record (or map) a."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.list_arrays import branches_of, field_of
from pinotpy.ingest.unions import joined_union, texts_of, without_union


def named_in(batch: pa.RecordBatch, name: str, delimiter: str) -> list[tuple[str, pa.Array]]:
    """(top-level field that it is of, values) of everything in a batch that a flat name stands for; the field that is
    called so comes first.
    """
    found = [(name, batch.column(name))] if name in batch.schema.names else []
    for root, rest in _splits(name, delimiter):
        if root in batch.schema.names:
            found += [(root, values) for values in named_below(batch.column(root), rest, delimiter)]
    return found


def named_below(array: pa.Array, name: str, delimiter: str) -> list[pa.Array]:
    """Fields or keys `name` of records or maps, and what lies further below."""
    array = plain(array)
    found = []
    for first, rest in [(name, ""), *_splits(name, delimiter)]:
        field = _part(array, first)
        if field is not None:
            found += named_below(field, rest, delimiter) if rest else [field]
    return found


def joined(found: list[pa.Array]) -> pa.Array | None:
    """Of each row the first value that is there; None where nothing was found."""
    if len(found) > 1:
        # A union has no nulls of its own. Readers give columns without any value for fields that the file lacks.
        found = [without_union(plain(array)) for array in found]
        found = [array for array in found if array.null_count < len(array)] or found[:1]
    return reduce(either, found) if found else None


def either(first: pa.Array, second: pa.Array) -> pa.Array:
    """The value that is there; of two types, as text."""
    if first.type != second.type:
        first, second = (texts_of(array) for array in (first, second))
    places = np.arange(len(first), dtype=np.int64)
    return pa.concat_arrays([first, second]).take(
        pa.array(np.where(np.asarray(first.is_valid()), places, places + len(first)))
    )


def _splits(name: str, delimiter: str) -> list[tuple[str, str]]:
    """(what stands before a delimiter, what behind), longest first part first."""
    parts = name.split(delimiter)
    return [(delimiter.join(parts[:count]), delimiter.join(parts[count:])) for count in range(len(parts) - 1, 0, -1)]


def _part(array: pa.Array, name: str) -> pa.Array | None:
    if pa.types.is_union(array.type):
        branches = [(mask, field) for mask, branch in branches_of(array) if (field := _part(branch, name)) is not None]
        return (
            joined_union([(mask, without_union(field)) for mask, field in branches], len(array)) if branches else None
        )
    if pa.types.is_struct(array.type):
        index = array.type.get_field_index(name)
        return field_of(array, index) if index >= 0 else None
    if pa.types.is_map(array.type) and pa.types.is_string(array.type.key_type):
        entries = pc.map_lookup(array, pa.scalar(name, array.type.key_type), "last")
        return entries if entries.null_count < len(entries) else None
    return None
