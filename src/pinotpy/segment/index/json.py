"""JSON index: the terms of all records of a column's documents, and the records of each (docs/format/json-index.md).

An entry is a value of the dictionary, or a row of a raw column: equal documents of a dictionary column are read once.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import StoredType
from pinotpy.errors import DataError
from pinotpy.functions.json.json_records import JsonIndexing
from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.text.ordered_bytes import bytes_strictly_ascend
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, ColumnBuffers, Wrong
from pinotpy.segment.dictionary import VarDictionary
from pinotpy.segment.dictionary_encode import encode_bytes
from pinotpy.segment.index.json_pairs import flat_pairs
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata

_RECORDS_MAX: Final = 2**31 - 1
_KINDS: Final = (
    layout.JSON_TERMS,
    layout.JSON_TERMS_OFFSETS,
    layout.JSON_OFFSETS,
    layout.JSON_RECORDS,
    layout.JSON_ENTRIES,
)


class JsonRecords:
    """Terms and records of documents, in memory or mapped; implements data_source.JsonIndex. Safe to share between
    threads.

    Args:
        term_offsets, term_bytes: terms ascending by bytes, int32[terms + 1] and uint8.
        offsets, records: records of term i are records[offsets[i] : offsets[i + 1]], ascending; uint32[terms + 1],
            int32.
        entries: entry of each record, ascending, int32.
        indexing: what of the documents is here; None where nobody recorded that.
    """

    def __init__(
        self,
        term_offsets: NDArray[np.int32],
        term_bytes: NDArray[np.uint8],
        offsets: NDArray[np.uint32],
        records: NDArray[np.int32],
        entries: NDArray[np.int32],
        indexing: JsonIndexing | None,
    ) -> None:
        self._term_offsets, self._term_bytes, self._offsets, self._records = term_offsets, term_bytes, offsets, records
        self._terms = VarDictionary(term_offsets, term_bytes)
        self.num_terms = self._terms.cardinality
        self.entries = entries
        self.indexing = indexing

    def lower_bound(self, term: bytes) -> int:
        return self._terms.lower_bound(term)

    def terms(self, low: int, high: int) -> pa.Array:
        whole = pa.Array.from_buffers(
            pa.string(), self.num_terms, [None, pa.py_buffer(self._term_offsets), pa.py_buffer(self._term_bytes)]
        )
        return whole.slice(low, high - low)

    def records(self, low: int, high: int) -> NDArray[np.int32]:
        return self._records[self._offsets[low] : self._offsets[high]]


def json_settings(indexing: JsonIndexing) -> str:
    """What a segment records of an index's settings."""
    return layout.settings_text({field.name: getattr(indexing, field.name) for field in fields(indexing)})


def _recorded(settings: str) -> JsonIndexing | None:
    """The settings that a segment recorded; None where it recorded none, or others than this release knows."""
    try:
        recorded: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in orjson.loads(settings).items()
        }
        return JsonIndexing(**recorded)
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return None


def mapped_json_index(buffers: ColumnBuffers, settings: str) -> JsonRecords:
    """The index of an open segment. `settings`: what its metadata say of them."""
    return JsonRecords(
        buffers.view(layout.JSON_TERMS_OFFSETS, np.int32),
        buffers.view(layout.JSON_TERMS, np.uint8),
        buffers.view(layout.JSON_OFFSETS, np.uint32),
        buffers.view(layout.JSON_RECORDS, np.int32),
        buffers.view(layout.JSON_ENTRIES, np.int32),
        _recorded(settings),
    )


def build_json_records(name: str, documents: pa.Array | pa.ChunkedArray, indexing: JsonIndexing) -> JsonRecords:
    """Of the documents of column `name` (binary, large_binary or text, without nulls), one an entry.

    Raises DataError where there would be more records or term bytes than an index holds.
    """
    pairs = flat_pairs(documents, indexing)
    if len(pairs.entries) > _RECORDS_MAX:
        raise DataError(
            f"column '{name}' has more than {_RECORDS_MAX} JSON records, more than an index holds: make smaller "
            "segments",
            column=name,
        )
    encoded = encode_bytes(pairs.terms, name)
    offsets, order = inverted_index(encoded.ids, encoded.cardinality)
    term_offsets, term_bytes = np.zeros(1, np.int32), np.zeros(0, np.uint8)
    if encoded.cardinality:
        assert isinstance(encoded.dictionary, pa.Array)
        _, offset_buffer, body = encoded.dictionary.buffers()
        term_offsets = np.frombuffer(offset_buffer, np.int32)[: encoded.cardinality + 1]
        term_bytes = np.frombuffer(body, np.uint8)[: term_offsets[-1]]
    return JsonRecords(term_offsets, term_bytes, offsets, pairs.records.take(order), pairs.entries, indexing)


def write_json_index(
    writer: BufferSink, name: str, documents: pa.Array | pa.ChunkedArray, indexing: JsonIndexing
) -> list[BufferEntry]:
    """Index the documents of a dictionary or of the rows of a raw column."""
    built = build_json_records(name, documents, indexing)
    arrays: tuple[NDArray[Any], ...] = (
        built._term_bytes,
        built._term_offsets,
        built._offsets,
        built._records,
        built.entries,
    )
    return [writer.append(kind, values) for kind, values in zip(_KINDS, arrays, strict=True)]


# --- checks -----------------------------------------------------------------------------------------------------------


def check_json_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless all buffers are there, of a single-valued text column, with sizes that fit together, or none is."""
    present = [sizes[kind] for kind in _KINDS if kind in sizes]
    if not present:
        return
    if (
        len(present) != len(_KINDS)
        or column.data_type.stored is not StoredType.VAR
        or not column.data_type.is_text
        or not column.single_value
    ):
        raise wrong("json index", f"{', '.join(_KINDS)} of a single-valued STRING or JSON column", sorted(sizes))
    _, term_offsets, offsets, records, entries = present
    if term_offsets % 4 or term_offsets < 4 or offsets != term_offsets or records % 4 or entries % 4:
        raise wrong("json index", "4 bytes a record, an entry and an offset, and as many offsets as terms", present)


def check_json_index(column: ColumnMetadata, buffers: ColumnBuffers, wrong: Wrong) -> None:
    """Raises unless terms ascend and are UTF-8, lists lie within their buffer, records and entries within theirs."""
    if layout.JSON_RECORDS not in buffers:
        return
    term_offsets, term_bytes = (
        buffers.view(layout.JSON_TERMS_OFFSETS, np.int32),
        buffers.view(layout.JSON_TERMS, np.uint8),
    )
    offsets, records, entries = (
        buffers.view(kind, np.int32) for kind in (layout.JSON_OFFSETS, layout.JSON_RECORDS, layout.JSON_ENTRIES)
    )
    for what, table, size in (
        ("terms", term_offsets, len(term_bytes)),
        ("lists", offsets.view(np.uint32), len(records)),
    ):
        if table[0] != 0 or int(table[-1]) != size or (table[1:] < table[:-1]).any():
            raise wrong(f"{what} of the json index", f"offsets ascending from 0 to {size}", f"{table[:1]}…{table[-1:]}")
    if not bytes_strictly_ascend(term_offsets, term_bytes):
        raise wrong("terms of the json index", "strictly ascending terms", "unordered ones")
    terms: Any = pa.Array.from_buffers(
        pa.string(), len(term_offsets) - 1, [None, pa.py_buffer(term_offsets), pa.py_buffer(term_bytes)]
    )
    try:
        terms.validate(full=True)
    except pa.ArrowInvalid as error:
        raise wrong("terms of the json index", "UTF-8", str(error)[:100]) from None
    num_entries = column.cardinality if column.has_dictionary else column.num_values
    for what, values, end in (("records", records, len(entries)), ("entries", entries, num_entries)):
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= end):
            raise wrong(f"{what} of the json index", f"in [0, {end})", f"{values.min()}…{values.max()}")
