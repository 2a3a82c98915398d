"""Text index: the sorted terms of a text column, and where each occurs (docs/format/text-index.md)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.errors import DataError
from pinotpy.functions.text.text_analysis import analyze, tokenize
from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.text.ordered_bytes import bytes_strictly_ascend
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink, BufferViews, ColumnBuffers, Wrong
from pinotpy.segment.dictionary import VarDictionary
from pinotpy.segment.dictionary_encode import Encoded, encode_bytes
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import ColumnMetadata

# Between the values of a multi-value lie this many positions, so that no phrase reaches from one into the next.
VALUE_GAP: Final = 100
POSITION_MAX: Final = 2**31 - 1
_OCCURRENCES_MAX: Final = 2**31 - 1
_BATCH_BYTES: Final = 4 << 20
_KINDS: Final = (
    layout.TEXT_TERMS,
    layout.TEXT_TERMS_OFFSETS,
    layout.TEXT_OFFSETS,
    layout.TEXT_DOCS,
    layout.TEXT_POSITIONS,
)

Numbers = NDArray[Any]  # of any integer type


# --- writing -------------------------------------------------------------------------------------------------------


def write_text_index(
    writer: BufferSink,
    name: str,
    texts: pa.ChunkedArray,
    ids: NDArray[Any] | None,
    mv_offsets: NDArray[np.uint32] | None,
) -> list[BufferEntry]:
    """Index the values of column `name`: `texts` (binary or large_binary, UTF-8, no nulls), or the texts that `ids`
    name.

    Raises DataError where the index would pass the limits of its format.
    """
    encoded, values, positions, lengths = _tokens(texts, name)
    term_ids = encoded.ids
    if ids is not None:
        term_ids, values, positions, lengths = _repeated(term_ids, values, positions, lengths, ids)
    docs = values
    if mv_offsets is not None:
        docs, positions = _by_doc(values, positions, lengths, mv_offsets)
    last_position = int(positions.max(initial=0))
    if len(docs) > _OCCURRENCES_MAX or last_position > POSITION_MAX:
        raise DataError(
            f"column '{name}' has {len(docs)} words and a row with {last_position} positions, a text index holds at "
            f"most {_OCCURRENCES_MAX} of both: "
            "make smaller segments",
            column=name,
        )
    offsets, order = inverted_index(term_ids, encoded.cardinality)
    return [
        *_write_terms(writer, encoded.dictionary),
        writer.append(layout.TEXT_OFFSETS, offsets),
        writer.append(layout.TEXT_DOCS, docs.astype(np.int32).take(order)),
        writer.append(layout.TEXT_POSITIONS, positions.astype(_position_dtype(last_position)).take(order)),
    ]


def _write_terms(writer: BufferSink, terms: Any) -> list[BufferEntry]:
    offsets, data = np.zeros(1, np.int32), np.zeros(0, np.uint8)
    if len(terms):
        _, offset_buffer, body = terms.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[: len(terms) + 1]
        data = np.frombuffer(body, np.uint8)[: offsets[-1]]
    return [writer.append(layout.TEXT_TERMS, data), writer.append(layout.TEXT_TERMS_OFFSETS, offsets)]


def _batches(texts: pa.ChunkedArray) -> Iterator[tuple[NDArray[np.uint8], Int64Array]]:
    """The bytes and offsets, from 0, of runs of texts of some MiB."""
    for chunk in texts.chunks:
        dtype = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        _, offset_buffer, body = chunk.buffers()
        if not len(chunk):
            continue
        offsets = np.frombuffer(offset_buffer, dtype)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
        data = np.frombuffer(body, np.uint8) if body is not None else np.zeros(0, np.uint8)
        first = 0
        while first < len(chunk):
            end = max(first + 1, int(offsets.searchsorted(offsets[first] + _BATCH_BYTES, side="right")) - 1)
            yield data[offsets[first] : offsets[end]], offsets[first : end + 1] - offsets[first]
            first = end


def _tokens(texts: pa.ChunkedArray, name: str) -> tuple[Encoded, Numbers, Numbers, Int64Array]:
    """The tokens of all texts: terms, the text and the position of each, and how many each text has with stop words.

    A batch is encoded before the next is read: what is kept of a token is 12 bytes, not its text.
    """
    terms, lengths = [], [np.zeros(0, np.int64)]
    values, positions = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    first = 0
    for data, offsets in _batches(texts):
        tokens = tokenize(data, offsets)
        terms.append(tokens.terms.dictionary_encode())
        values.append((tokens.texts + first).astype(np.uint32))
        positions.append(tokens.positions.astype(np.uint32))
        lengths.append(tokens.lengths)
        first += len(tokens.lengths)
    encoded = encode_bytes(pa.chunked_array(terms, pa.dictionary(pa.int32(), pa.large_binary())), name)
    return encoded, np.concatenate(values), np.concatenate(positions), np.concatenate(lengths)


def _repeated(
    term_ids: NDArray[Any], texts: Numbers, positions: Numbers, lengths: Int64Array, ids: NDArray[Any]
) -> tuple[NDArray[Any], Numbers, Numbers, Int64Array]:
    """From tokens of distinct texts to tokens of the values that name them."""
    counts = np.bincount(texts, minlength=len(lengths))
    starts = np.cumsum(counts) - counts
    sizes = counts[ids]
    values = np.repeat(np.arange(len(ids), dtype=np.uint32), sizes)
    sources = np.arange(len(values)) + np.repeat(starts[ids] - (np.cumsum(sizes) - sizes), sizes)
    return term_ids[sources], values, positions[sources], lengths[ids]


def _by_doc(
    values: Numbers, positions: Numbers, lengths: Int64Array, mv_offsets: NDArray[np.uint32]
) -> tuple[Numbers, Numbers]:
    """Docs of the tokens, and positions that count through all values of a doc."""
    starts = mv_offsets.astype(np.int64)
    docs = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    spans = lengths + VALUE_GAP
    before = np.cumsum(spans) - spans
    before -= before[starts[:-1]].repeat(np.diff(starts))
    return docs[values], positions + before[values]


def _position_dtype(last_position: int) -> np.dtype[Any]:
    return (
        np.dtype("<u1") if last_position < 1 << 8 else np.dtype("<u2") if last_position < 1 << 16 else np.dtype("<u4")
    )


# --- reading -------------------------------------------------------------------------------------------------------


class MappedTextIndex:
    """Implements data_source.TextIndex over mapped buffers; safe to share between threads."""

    def __init__(self, buffers: BufferViews) -> None:
        self._term_offsets: NDArray[np.int32] = buffers.view(layout.TEXT_TERMS_OFFSETS, np.int32)
        self._term_bytes: NDArray[np.uint8] = buffers.view(layout.TEXT_TERMS, np.uint8)
        self._offsets: NDArray[np.uint32] = buffers.view(layout.TEXT_OFFSETS, np.uint32)
        self._docs: NDArray[np.int32] = buffers.view(layout.TEXT_DOCS, np.int32)
        self._positions = _positions(buffers)
        self._terms = VarDictionary(self._term_offsets, self._term_bytes)
        self.num_terms = self._terms.cardinality

    def lower_bound(self, term: bytes) -> int:
        return self._terms.lower_bound(term)

    def index_of(self, term: bytes) -> int:
        return self._terms.index_of(term)

    def terms(self, low: int, high: int) -> pa.Array:
        whole = pa.Array.from_buffers(
            pa.string(), self.num_terms, [None, pa.py_buffer(self._term_offsets), pa.py_buffer(self._term_bytes)]
        )
        return whole.slice(low, high - low)

    def docs(self, low: int, high: int) -> NDArray[np.int32]:
        return self._docs[self._offsets[low] : self._offsets[high]]

    def positions(self, term_id: int) -> NDArray[Any]:
        return self._positions[self._offsets[term_id] : self._offsets[term_id + 1]]


class ConstantTextIndex:
    """Implements data_source.TextIndex for a column that has one text in all docs."""

    def __init__(self, text: bytes, num_docs: int) -> None:
        places: dict[bytes, list[int]] = {}
        for term, position in analyze(text.decode()):
            places.setdefault(term.encode(), []).append(position)
        self._num_docs = num_docs
        self._terms = sorted(places)
        self._places = [places[term] for term in self._terms]
        self.num_terms = len(places)

    def lower_bound(self, term: bytes) -> int:
        return bisect_left(self._terms, term)

    def index_of(self, term: bytes) -> int:
        return self._terms.index(term) if term in self._terms else -1

    def terms(self, low: int, high: int) -> pa.Array:
        return pa.array([term.decode() for term in self._terms[low:high]], pa.string())

    def docs(self, low: int, high: int) -> NDArray[np.int32]:
        every = np.arange(self._num_docs, dtype=np.int32)
        return np.concatenate(
            [np.zeros(0, np.int32), *(every.repeat(len(places)) for places in self._places[low:high])]
        )

    def positions(self, term_id: int) -> NDArray[Any]:
        return np.tile(np.array(self._places[term_id], np.uint32), self._num_docs)


def _positions(buffers: BufferViews) -> NDArray[Any]:
    plain: NDArray[np.uint8] = buffers.view(layout.TEXT_POSITIONS, np.uint8)
    occurrences = len(buffers.view(layout.TEXT_DOCS, np.int32))
    return plain.view(f"<u{len(plain) // occurrences}") if occurrences else plain


# --- checks --------------------------------------------------------------------------------------------------------


def check_text_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> None:
    """Raises unless all buffers are there, of a text column, with sizes that fit together, or none is."""
    present = [sizes[kind] for kind in _KINDS if kind in sizes]
    if not present:
        return
    if len(present) != len(_KINDS) or column.data_type.stored is not StoredType.VAR or not column.data_type.is_text:
        raise wrong("text index", f"{', '.join(_KINDS)} of a STRING or JSON column", sorted(sizes))
    _, term_offsets, offsets, docs, positions = present
    if (
        term_offsets % 4
        or term_offsets < 4
        or offsets != term_offsets
        or docs % 4
        or positions not in (docs // 4, docs // 2, docs)
    ):
        raise wrong("text index", "4 bytes a doc, 1, 2 or 4 a position, and as many offsets as terms", present)


def check_text_index(buffers: ColumnBuffers, num_docs: int, wrong: Wrong) -> None:
    """Raises unless terms ascend and are UTF-8, every list lies within the buffer, and its docs and positions
    ascend.
    """
    if layout.TEXT_DOCS not in buffers:
        return
    term_offsets, term_bytes = (
        buffers.view(layout.TEXT_TERMS_OFFSETS, np.int32),
        buffers.view(layout.TEXT_TERMS, np.uint8),
    )
    offsets, docs = buffers.view(layout.TEXT_OFFSETS, np.uint32), buffers.view(layout.TEXT_DOCS, np.int32)
    for what, table, size in (("terms", term_offsets, len(term_bytes)), ("lists", offsets, len(docs))):
        if table[0] != 0 or int(table[-1]) != size or (table[1:] < table[:-1]).any():
            raise wrong(f"{what} of the text index", f"offsets ascending from 0 to {size}", f"{table[:1]}…{table[-1:]}")
    if not bytes_strictly_ascend(term_offsets, term_bytes):
        raise wrong("terms of the text index", "strictly ascending terms", "unordered ones")
    terms = pa.Array.from_buffers(
        pa.string(), len(term_offsets) - 1, [None, pa.py_buffer(term_offsets), pa.py_buffer(term_bytes)]
    )
    try:
        terms.validate(full=True)
    except pa.ArrowInvalid as error:
        raise wrong("terms of the text index", "UTF-8", str(error)[:100]) from None
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) >= num_docs):
        raise wrong("docs of the text index", f"in [0, {num_docs})", f"{docs.min()}…{docs.max()}")
    positions = _positions(buffers)
    ascends = (docs[1:] > docs[:-1]) | ((docs[1:] == docs[:-1]) & (positions[1:] > positions[:-1]))
    # A new term may begin anywhere.
    starts = offsets[1:-1].astype(np.int64)
    ascends[starts[(starts > 0) & (starts < len(docs))] - 1] = True
    if not ascends.all() or (len(positions) and int(positions.max()) > POSITION_MAX):
        raise wrong("occurrences of the text index", "docs and positions that ascend within a term", "unordered ones")
