"""A column of an open segment: views over the mapped file, and its words for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.kernels.codec.bit_packing import unpack
from pinotpy.kernels.codec.roaring import docs_of_bitmap
from pinotpy.kernels.runtime import abi
from pinotpy.segment import layout
from pinotpy.segment.buffers import ColumnBuffers
from pinotpy.segment.build.chunk_codec import decompress_chunks
from pinotpy.segment.data_source import Dictionary, JsonIndex, TextIndex
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.dictionary_encode import id_dtype
from pinotpy.segment.index.bloom import BLOCK_BYTES
from pinotpy.segment.index.json import mapped_json_index
from pinotpy.segment.index.text import MappedTextIndex
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import DICTIONARY_ENCODING, PACKED_ENCODING, RAW_ENCODING, ColumnMetadata

_ENCODING: Final = {DICTIONARY_ENCODING: abi.ENC_DICT, PACKED_ENCODING: abi.ENC_PACKED, RAW_ENCODING: abi.ENC_RAW}
STORED_WORD: Final = {
    StoredType.INT: abi.T_INT,
    StoredType.LONG: abi.T_LONG,
    StoredType.FLOAT: abi.T_FLOAT,
    StoredType.DOUBLE: abi.T_DOUBLE,
    StoredType.VAR: abi.T_VAR,
}


class ImmutableColumn:
    """Implements data_source.Column; safe to share between threads. Views keep the map alive, addresses in `meta` are
    valid while the segment is held.

    A column in compressed chunks has M_DATA = 0: take `raw_values()` and hold the array.
    """

    keeps_derived = True

    def __init__(self, metadata: ColumnMetadata, num_docs: int, buffers: ColumnBuffers, segment_id: int) -> None:
        self.metadata = metadata
        self.name = metadata.name
        self.data_type = metadata.data_type
        self.field_type = metadata.field_type
        self.single_value = metadata.single_value
        self.num_docs = num_docs
        self.num_values = metadata.num_values
        self.cardinality = metadata.cardinality
        self.is_sorted = metadata.is_sorted
        self.min_value = metadata.min_value
        self.max_value = metadata.max_value
        self.default_null = metadata.default_null
        self.has_nulls = metadata.num_nulls > 0
        self.max_values_per_doc = metadata.max_values_per_doc
        self.partitioning = metadata.partition
        self._buffers = buffers
        self._segment_id = segment_id
        self.dictionary: Dictionary | None = self._open_dictionary()
        self.text_index: TextIndex | None = MappedTextIndex(buffers) if layout.TEXT_DOCS in buffers else None
        records = metadata.buffer(layout.JSON_RECORDS)
        self.json_index: JsonIndex | None = None if records is None else mapped_json_index(buffers, records.settings)
        self.meta = self._meta_words()

    @property
    def code_space(self) -> Dictionary | None:
        return self.dictionary

    def ids(self) -> NDArray[Any]:
        assert self.dictionary is not None, f"column '{self.name}' is raw"
        if self.metadata.encoding == DICTIONARY_ENCODING:
            return self._buffers.view(layout.FORWARD, np.dtype(f"<u{self.metadata.width}"))

        def unpacked() -> NDArray[Any]:
            ids = np.empty(self.num_values, np.uint32)
            unpack(self._buffers.view(layout.FORWARD, np.uint32), self.metadata.width, 0, ids)
            return ids.astype(id_dtype(self.cardinality), copy=False)

        return DECODED.get((self._segment_id, self.name, layout.FORWARD), unpacked)

    def raw_values(self) -> NDArray[Any] | pa.Array:
        """Fixed types: an array; VAR: Arrow large_binary (int64 offsets). Shape (num_values,).

        Raises SegmentCorruptError if compressed chunks were damaged after the segment was loaded.
        """
        assert self.dictionary is None, f"column '{self.name}' has a dictionary"
        stored = self.data_type.stored
        if stored.is_fixed:
            return self._raw_bytes(self.num_values * stored.numpy.itemsize).view(stored.numpy)
        offsets = self._raw_offsets()
        data = self._raw_bytes(int(offsets[-1]))
        return pa.Array.from_buffers(
            pa.large_binary(), self.num_values, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def offsets(self) -> NDArray[np.uint32]:
        assert not self.single_value, f"column '{self.name}' is single-valued"
        return self._buffers.view(layout.MV_OFFSETS, np.uint32)

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return self._buffers.view(layout.NULLS, np.uint8) if self.has_nulls else None

    def null_mask(self) -> NDArray[np.bool_]:
        bitmap = self.null_bitmap()
        if bitmap is None:
            return np.zeros(self.num_docs, np.bool_)
        return np.unpackbits(bitmap, count=self.num_docs, bitorder="little").view(np.bool_)

    def inverted_docs(self, dict_id: int) -> NDArray[np.int32]:
        """Docs with that value, ascending; only for columns with an inverted index."""
        if layout.BITMAPS in self._buffers:
            counts, begins = (
                self._buffers.view(layout.INVERTED_COUNTS, np.uint32),
                self._buffers.view(layout.BITMAP_OFFSETS, np.int64),
            )
            docs = np.empty(int(counts[dict_id + 1]) - int(counts[dict_id]), np.int32)
            docs_of_bitmap(self._buffers.address(layout.BITMAPS) + int(begins[dict_id]), docs)
            return docs
        offsets = self._buffers.view(layout.INVERTED_OFFSETS, np.uint32)
        return self._buffers.view(layout.INVERTED_DOCS, np.int32)[offsets[dict_id] : offsets[dict_id + 1]]

    def sorted_starts(self) -> NDArray[np.uint32]:
        """Docs of dict id i are [starts[i], starts[i + 1]), shape (cardinality + 1,); only for sorted dictionary
        columns.
        """
        return self._buffers.view(layout.SORTED_STARTS, np.uint32)

    @property
    def has_inverted_index(self) -> bool:
        return layout.INVERTED_OFFSETS in self._buffers or layout.BITMAPS in self._buffers

    def derived(self, kind: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What is computed from this column alone, kept under the budget of decoded columns; `kind` names it."""
        return DECODED.get((self._segment_id, self.name, kind), compute)

    def drop_derived(self, kind: str) -> None:
        """Forget what `derived` kept."""
        DECODED.drop((self._segment_id, self.name, kind))

    def dictionary_buffers(self) -> list[BufferEntry]:
        """The buffers by which values are found without the column's docs."""
        kinds = (layout.DICTIONARY, layout.DICTIONARY_OFFSETS, layout.BLOOM)
        return [entry for entry in self.metadata.buffers if entry.kind in kinds]

    def _raw_offsets(self) -> Int64Array:
        offsets: Int64Array = self._buffers.view(layout.FORWARD_OFFSETS, np.int64)
        if self.metadata.codec is None:
            return offsets

        def checked_copy() -> Int64Array:
            # A copy, for its bytes must stay those that were checked, like the decompressed ones that they cut.
            copy = offsets.copy()
            self._buffers.check(layout.FORWARD_OFFSETS)
            return copy

        return DECODED.get((self._segment_id, self.name, layout.FORWARD_OFFSETS), checked_copy)

    def _raw_bytes(self, plain_bytes: int) -> NDArray[np.uint8]:
        forward: NDArray[np.uint8] = self._buffers.view(layout.FORWARD, np.uint8)
        codec = self.metadata.codec
        if codec is None:
            return forward
        table = self._buffers.view(layout.FORWARD_CHUNKS, np.int64)
        chunk_bytes, file = self.metadata.chunk_bytes, self._buffers.location

        def decode() -> NDArray[np.uint8]:
            # A CRC costs a hundredth of decompression, and tells damage that decompresses to other values.
            for kind in (layout.FORWARD_CHUNKS, layout.FORWARD):
                self._buffers.check(kind)
            return decompress_chunks(
                forward, table, plain_bytes, chunk_bytes, codec, self.metadata.width, file, self.name
            )

        return DECODED.get((self._segment_id, self.name, layout.FORWARD), decode)

    def _open_dictionary(self) -> Dictionary | None:
        if not self.metadata.has_dictionary:
            return None
        stored = self.data_type.stored
        if stored.is_fixed:
            return FixedDictionary(self._buffers.view(layout.DICTIONARY, stored.numpy))
        return VarDictionary(
            self._buffers.view(layout.DICTIONARY_OFFSETS, np.int32), self._buffers.view(layout.DICTIONARY, np.uint8)
        )

    def _meta_words(self) -> Int64Array:
        metadata = self.metadata
        words = np.zeros(abi.META_WORDS, np.int64)
        words[abi.M_ENCODING] = _ENCODING[metadata.encoding]
        words[abi.M_WIDTH] = metadata.width
        words[abi.M_DATA] = self._address(layout.FORWARD) if metadata.codec is None else 0
        words[abi.M_CARDINALITY] = metadata.cardinality
        words[abi.M_DICTIONARY] = self._address(layout.DICTIONARY)
        words[abi.M_DICTIONARY_OFFSETS] = self._address(layout.DICTIONARY_OFFSETS)
        words[abi.M_STORED] = STORED_WORD[self.data_type.stored]
        words[abi.M_MV_OFFSETS] = self._address(layout.MV_OFFSETS)
        words[abi.M_NULLS] = self._address(layout.NULLS)
        words[abi.M_NUM_DOCS] = self.num_docs
        words[abi.M_NUM_VALUES] = self.num_values
        words[abi.M_RAW_OFFSETS] = self._address(layout.FORWARD_OFFSETS)
        words[abi.M_SORTED] = int(layout.SORTED_STARTS in self._buffers)
        words[abi.M_SORTED_STARTS] = self._address(layout.SORTED_STARTS)
        words[abi.M_INVERTED_OFFSETS] = self._address(layout.INVERTED_OFFSETS) or self._address(layout.INVERTED_COUNTS)
        words[abi.M_INVERTED_DOCS] = self._address(layout.INVERTED_DOCS)
        words[abi.M_BITMAPS] = self._address(layout.BITMAPS)
        words[abi.M_BITMAP_OFFSETS] = self._address(layout.BITMAP_OFFSETS)
        if layout.RANGE_BOUNDS in self._buffers:
            words[abi.M_RANGE_BOUNDS] = self._address(layout.RANGE_BOUNDS)
            words[abi.M_RANGE_BUCKETS] = self._buffers.size(layout.RANGE_OFFSETS) // 4 - 1
            words[abi.M_RANGE_OFFSETS] = self._address(layout.RANGE_OFFSETS)
            words[abi.M_RANGE_DOCS] = self._address(layout.RANGE_DOCS)
        if layout.BLOOM in self._buffers:
            words[abi.M_BLOOM] = self._address(layout.BLOOM)
            words[abi.M_BLOOM_BLOCKS] = self._buffers.size(layout.BLOOM) // BLOCK_BYTES
        words.flags.writeable = False
        return words

    def _address(self, kind: str) -> int:
        return self._buffers.address(kind) if kind in self._buffers else 0
