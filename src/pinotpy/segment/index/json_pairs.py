"""The pairs (term, record) of many JSON documents: read by a kernel, and what that leaves out one by one.

Both ways give the same, `functions/json/json_records.py` says what; a column whose index leaves something out goes the
second way as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.functions.json.json_records import ELEMENT, NUMBER, SEPARATOR, JsonIndexing, float_text, records_of
from pinotpy.kernels.codec import json_flatten as kernel
from pinotpy.kernels.codec.json_tokens import FRACTION, TEXT
from pinotpy.kernels.codec.numbered_entries import grown, new_table

_BATCH_TERMS: Final = 1 << 18
_BATCH_PAIRS: Final = 1 << 20
_TABLE: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class FlatPairs:
    """`terms`: large_binary in dictionary arrays, `records`: int32, one of each a pair, ascending by record; `entries`:
    of each record.
    """

    terms: pa.ChunkedArray
    records: NDArray[np.int32]
    entries: NDArray[np.int32]


def flat_pairs(documents: pa.Array | pa.ChunkedArray, indexing: JsonIndexing) -> FlatPairs:
    """Of documents without nulls, one an entry."""
    reader = _Reader()
    left_out = _OneByOne(indexing)
    first = 0
    for chunk in documents.chunks if isinstance(documents, pa.ChunkedArray) else [documents]:
        texts = _valid_texts(chunk) if indexing.is_plain else None
        if texts is None:
            left_out.read(chunk, range(first, first + len(chunk)))
        else:
            for place in reader.read(texts, first).tolist():
                left_out.read(chunk.slice(place, 1), (first + place,))
        first += len(chunk)
    return _together(reader, left_out)


def _valid_texts(chunk: pa.Array) -> pa.Array | None:
    """As large_string; None if one of them is no UTF-8."""
    try:
        return chunk.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return None


def _together(reader: _Reader, left_out: _OneByOne) -> FlatPairs:
    ids, records, entries = reader.pairs()
    kind = pa.dictionary(pa.int32(), pa.large_binary())
    chunks = [pa.DictionaryArray.from_arrays(pa.array(ids), reader.terms())] if len(ids) else []
    others, other_records, other_entries = left_out.pairs()
    if not len(other_records):
        return FlatPairs(pa.chunked_array(chunks, kind), records, entries)
    # Records are numbered by their entries, pairs lie by their records.
    order = np.argsort(np.concatenate([entries, other_entries]), kind="stable")
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    both = np.concatenate([numbers[records], numbers[len(entries) + other_records]])
    by_record = np.argsort(both, kind="stable")
    unified = pa.chunked_array([*chunks, *others], kind).unify_dictionaries()
    places = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in unified.chunks])[by_record]
    terms = pa.DictionaryArray.from_arrays(pa.array(places), unified.chunk(0).dictionary)
    return FlatPairs(pa.chunked_array([terms], kind), both[by_record], np.concatenate([entries, other_entries])[order])


class _Reader:
    """Reads documents with the kernel; terms have one numbering for all."""

    def __init__(self) -> None:
        self._paths, self._terms = new_table(_TABLE, 16 * _TABLE), new_table(_TABLE, 32 * _TABLE)
        # Path 0, of the document itself: of no other path.
        self._paths.owners[0] = -1
        self._state = np.zeros(kernel.STATE_WORDS, np.int64)
        self._state[kernel.PATHS] = 1
        self._scratch: kernel.Scratch | None = None
        self._ids: list[NDArray[np.int32]] = []
        self._records: list[NDArray[np.int32]] = []
        self._entries: list[NDArray[np.int32]] = []
        self._num_records = 0

    def read(self, texts: pa.Array, first: int) -> NDArray[np.int32]:
        """Read documents, whose entries are numbered from `first`; gives the places of those that were left out."""
        # Copies: kernels are compiled for arrays that may be written.
        offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1].copy()
        body = texts.buffers()[2]
        data = (
            np.frombuffer(body, np.uint8)[offsets[0] : offsets[-1]].copy()
            if body is not None
            else np.zeros(0, np.uint8)
        )
        offsets -= offsets[0]
        # No document has more terms than half its bytes, so that short columns need short arrays.
        room = min(max(len(data), 1024), _BATCH_PAIRS)
        pair_terms, pair_records = (
            np.empty(max(room, kernel.PAIRS_OF_ONE_MAX), np.int32),
            np.empty(max(room, kernel.PAIRS_OF_ONE_MAX), np.int32),
        )
        entries = np.empty(max(room, kernel.RECORDS_OF_ONE_MAX), np.int32)
        left_out = np.empty(len(texts), np.int32)
        self._scratch = self._scratch or kernel.new_scratch()
        state = self._state
        state[kernel.DOCUMENT] = state[kernel.LEFT_OUT] = 0
        ended = kernel.OUTPUT_FULL
        while ended != kernel.DONE:
            ended = kernel.flatten(
                offsets,
                data,
                self._paths,
                self._terms,
                state,
                self._scratch,
                pair_terms,
                pair_records,
                entries,
                left_out,
            )
            document = int(state[kernel.DOCUMENT])
            if ended == kernel.PATHS_FULL:
                self._paths = grown(
                    self._paths, int(state[kernel.PATHS]), int(offsets[document + 1] - offsets[document])
                )
            elif ended == kernel.TERMS_FULL:
                self._terms = grown(
                    self._terms, int(state[kernel.TERMS]), int(offsets[document + 1] - offsets[document])
                )
            else:
                self._keep(pair_terms, pair_records, entries, first)
        return left_out[: state[kernel.LEFT_OUT]]

    def _keep(
        self, pair_terms: NDArray[np.int32], pair_records: NDArray[np.int32], entries: NDArray[np.int32], first: int
    ) -> None:
        state = self._state
        num_pairs, num_records = int(state[kernel.PAIRS]), int(state[kernel.RECORDS])
        self._ids.append(pair_terms[:num_pairs].copy())
        self._records.append(pair_records[:num_pairs] + np.int32(self._num_records))
        self._entries.append(entries[:num_records] + np.int32(first))
        self._num_records += num_records
        state[kernel.PAIRS] = state[kernel.RECORDS] = 0

    def pairs(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Number of the term and record of each pair, entry of each record."""
        nothing = np.zeros(0, np.int32)
        return (
            np.concatenate([nothing, *self._ids]),
            np.concatenate([nothing, *self._records]),
            np.concatenate([nothing, *self._entries]),
        )

    def terms(self) -> pa.Array:
        """Texts of the terms by their numbers, large_binary; equal ones may have several numbers, and some are of no
        record.
        """
        terms, used = self._terms, int(self._state[kernel.TERMS])
        buffers = [None, pa.py_buffer(terms.offsets[: used + 1].copy()), pa.py_buffer(terms.data)]
        values = pa.Array.from_buffers(pa.large_binary(), used, buffers)
        kinds = terms.kinds[:used]
        if kinds.any():
            raw = zip(values.filter(pa.array(kinds != TEXT)).to_pylist(), kinds[kinds != TEXT].tolist(), strict=True)
            texts = [
                float_text(float(text)) if kind == FRACTION else orjson.loads(b'"' + text + b'"') for text, kind in raw
            ]
            values = pc.replace_with_mask(
                values, pa.array(kinds != TEXT), pa.array(texts, pa.large_string()).cast(pa.large_binary())
            )
        paths = self._path_texts().take(pa.array(terms.owners[:used]))
        return pc.binary_join_element_wise(paths, values, pa.scalar(SEPARATOR.encode(), pa.large_binary()))

    def _path_texts(self) -> pa.Array:
        paths, used = self._paths, int(self._state[kernel.PATHS])
        follows = {kernel.ELEMENT: ELEMENT.encode(), kernel.NUMBER: NUMBER.encode()}
        data, offsets, texts = paths.data.tobytes(), paths.offsets.tolist(), [b""]
        for path, (owner, kind) in enumerate(
            zip(paths.owners[1:used].tolist(), paths.kinds[1:used].tolist(), strict=True), start=1
        ):
            texts.append(texts[owner] + (follows.get(kind) or b"." + data[offsets[path] : offsets[path + 1]]))
        return pa.array(texts, pa.large_binary())


class _OneByOne:
    """Reads documents with Python."""

    def __init__(self, indexing: JsonIndexing) -> None:
        self._indexing = indexing
        self._batches: list[pa.DictionaryArray] = []
        self._terms: list[str] = []
        self._records, self._entries = array("i"), array("i")

    def read(self, documents: pa.Array, entries: Iterable[int]) -> None:
        numbers = iter(entries)
        for text in (
            value for first in range(0, len(documents), 4096) for value in documents.slice(first, 4096).to_pylist()
        ):
            entry = next(numbers)
            for record in records_of(text, self._indexing):
                # A term counts once in a record: equal keys of one object have been joined by the reader.
                self._records.extend([len(self._entries)] * len(record))
                self._terms += record
                self._entries.append(entry)
            if len(self._terms) >= _BATCH_TERMS:
                self._encode()

    def _encode(self) -> None:
        self._batches.append(_texts(self._terms).cast(pa.large_binary()).dictionary_encode())
        self._terms = []

    def pairs(self) -> tuple[list[pa.DictionaryArray], NDArray[np.int32], NDArray[np.int32]]:
        """Terms and record of each pair, entry of each record."""
        if self._terms:
            self._encode()
        return self._batches, _copied(self._records), _copied(self._entries)


def _copied(numbers: array[int]) -> NDArray[Any]:
    return np.frombuffer(numbers, np.int32).copy() if numbers else np.zeros(0, np.int32)


def _texts(terms: list[str]) -> pa.Array:
    try:
        return pa.array(terms, pa.large_string())
    except UnicodeEncodeError:
        # Half a character, which JSON may escape and UTF-8 cannot write: a question mark, as Java writes it.
        return pa.array([term.encode("utf-8", "replace").decode() for term in terms], pa.large_string())
