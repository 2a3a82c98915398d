"""Rows in storage form, held until their segment is built: text that repeats is held once.

A segment is built of all its rows at once, so what they take in memory bounds how large it may be. Batches are joined
to HELD_ROWS rows, and text columns that get a dictionary anyway are given one here: the builder then joins dictionaries
instead of looking at every text again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

import pyarrow as pa

HELD_ROWS: Final = 1 << 17


def hold_rows(batches: Iterable[pa.RecordBatch], dictionary_columns: Set[str]) -> list[pa.RecordBatch]:
    """The same rows in larger batches; text in `dictionary_columns`, in lists too, as dictionary arrays where that is
    smaller.
    """
    held: list[pa.RecordBatch] = []
    waiting: list[pa.RecordBatch] = []
    num_waiting = 0
    for batch in batches:
        waiting.append(batch)
        num_waiting += batch.num_rows
        if num_waiting >= HELD_ROWS:
            held += _joined(waiting, dictionary_columns)
            waiting, num_waiting = [], 0
    return held + _joined(waiting, dictionary_columns)


def handed_over(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches in order, taken out of the list: a column's memory goes as soon as the builder has written it."""
    held.reverse()
    while held:
        yield held.pop()


def _joined(batches: list[pa.RecordBatch], dictionary_columns: Set[str]) -> list[pa.RecordBatch]:
    if not batches:
        return []
    columns = {}
    for name in batches[0].schema.names:
        parts = [batch.column(name) for batch in batches]
        if len({part.type for part in parts}) > 1:
            return batches  # one file, two types: the builder brings them together
        columns[name] = _compact(_concatenated(parts), encode=name in dictionary_columns)
    # What the joined columns replace goes back to the system, not into a pool that only grows.
    batches.clear()
    pa.default_memory_pool().release_unused()
    return [pa.record_batch(columns)]


def _concatenated(parts: list[pa.Array]) -> pa.Array:
    if pa.types.is_dictionary(parts[0].type):
        # Arrow joins dictionaries of arrays only by way of chunks.
        return pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _compact(column: pa.Array, *, encode: bool) -> pa.Array:
    if not encode:
        return column
    if pa.types.is_list(column.type):
        values = _compact(column.values, encode=True)
        if values.type == column.type.value_type:
            return column
        return pa.ListArray.from_arrays(
            pa.array(column.offsets.to_numpy()), values, mask=column.is_null() if column.null_count else None
        )
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column
    encoded = column.dictionary_encode()
    return encoded if encoded.nbytes < column.nbytes else column
