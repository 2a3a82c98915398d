"""The indexes of one column: which it shall have, and building them, with the segment or later on reload."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.index.bloom import write_bloom_filter
from pinotpy.segment.index.inverted import AS_BITMAPS, AS_LISTS, write_inverted_index
from pinotpy.segment.index.json import json_settings, write_json_index
from pinotpy.segment.index.range import write_range_index
from pinotpy.segment.index.text import write_text_index
from pinotpy.segment.layout import BufferEntry

# Index → the kinds of its buffers in each of its forms; in the order in which they are written.
INDEX_FORMS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "inverted": (AS_LISTS, AS_BITMAPS),
    "text": (
        (layout.TEXT_TERMS, layout.TEXT_TERMS_OFFSETS, layout.TEXT_OFFSETS, layout.TEXT_DOCS, layout.TEXT_POSITIONS),
    ),
    "bloom": ((layout.BLOOM,),),
    "json": (
        (layout.JSON_TERMS, layout.JSON_TERMS_OFFSETS, layout.JSON_OFFSETS, layout.JSON_RECORDS, layout.JSON_ENTRIES),
    ),
    "range": ((layout.RANGE_BOUNDS, layout.RANGE_OFFSETS, layout.RANGE_DOCS),),
}


@dataclass(frozen=True, slots=True)
class IndexedValues:
    """The values of a column as indexes are built from them.

    dictionary, ids: sorted distinct values (numpy, or Arrow binary) and one id an entry; None of a raw column.
    raw: its values: numpy, or Arrow binary or large_binary without nulls; None of a dictionary column.
    is_sorted: ids ascend, and the sorted index is there.
    """

    name: str
    dictionary: NDArray[Any] | pa.Array | None
    ids: NDArray[Any] | None
    raw: NDArray[Any] | pa.ChunkedArray | None
    mv_offsets: NDArray[np.uint32] | None
    is_sorted: bool

    @property
    def distinct(self) -> NDArray[Any] | pa.Array | pa.ChunkedArray:
        """All values; those of a raw column may repeat."""
        values = self.dictionary if self.dictionary is not None else self.raw
        assert values is not None
        return values


def form_among(kinds: Collection[str], name: str, prefix: str = "") -> tuple[str, ...] | None:
    """The kinds of the form of an index that a column has, whole and under kinds with `prefix`; None if it has none."""
    return next((form for form in INDEX_FORMS[name] if all(prefix + kind in kinds for kind in form)), None)


def wanted_indexes(indexing: ColumnIndexing, *, has_dictionary: bool, is_sorted: bool, is_fixed: bool) -> list[str]:
    """Names of the indexes (keys of INDEX_FORMS) that a column shall have as it is stored."""
    is_wanted = {
        # A sorted column needs none: its doc ranges answer the same questions.
        "inverted": indexing.inverted and has_dictionary and not is_sorted,
        "text": indexing.text,
        "bloom": indexing.bloom_fpp > 0,
        "json": indexing.json is not None,
        "range": indexing.range_index and (not is_sorted if has_dictionary else is_fixed),
    }
    return [name for name in INDEX_FORMS if is_wanted[name]]


def index_settings(indexing: ColumnIndexing, name: str) -> str:
    """The settings that decide the bytes of an index, as its buffers have them; "" where there are none."""
    if name == "bloom":
        return layout.settings_text({"fpp": indexing.bloom_fpp, "maxSizeInBytes": indexing.bloom_max_bytes})
    if name == "json" and indexing.json is not None:
        return json_settings(indexing.json)
    return ""


class _Labelled:
    """A sink whose buffers say by which settings they were built."""

    def __init__(self, sink: BufferSink, settings: str) -> None:
        self._sink, self._settings = sink, settings

    def append(self, kind: str, *parts: NDArray[Any], settings: str = "") -> BufferEntry:
        return self._sink.append(kind, *parts, settings=settings or self._settings)


def write_indexes(
    writer: BufferSink, values: IndexedValues, indexing: ColumnIndexing, names: Iterable[str]
) -> list[BufferEntry]:
    """Build these indexes. Raises DataError where one would pass the limits of its format."""
    return [
        entry
        for name in names
        for entry in _write(_Labelled(writer, index_settings(indexing, name)), values, indexing, name)
    ]


def _write(writer: BufferSink, values: IndexedValues, indexing: ColumnIndexing, name: str) -> list[BufferEntry]:
    match name:
        case "inverted":
            assert values.ids is not None and values.dictionary is not None
            return write_inverted_index(writer, values.ids, len(values.dictionary), values.mv_offsets)
        case "text":
            # Every distinct text is analyzed once.
            texts = pa.chunked_array([values.distinct]) if isinstance(values.distinct, pa.Array) else values.distinct
            assert isinstance(texts, pa.ChunkedArray), "text indexes are refused on other types"
            return write_text_index(writer, values.name, texts, values.ids, values.mv_offsets)
        case "bloom":
            return write_bloom_filter(writer, values.distinct, indexing.bloom_fpp, indexing.bloom_max_bytes)
        case "json":
            documents, json = values.distinct, indexing.json
            assert isinstance(documents, pa.Array | pa.ChunkedArray) and json is not None, (
                "json indexes are refused on other types"
            )
            return write_json_index(writer, values.name, documents, json)
        case "range":
            plain = values.ids if values.ids is not None else values.raw
            assert isinstance(plain, np.ndarray), "range indexes are refused on raw texts"
            return write_range_index(writer, plain, values.mv_offsets)
    raise AssertionError(name)
