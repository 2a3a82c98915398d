"""One column of a piece: rows [first, end) of a chunk's column, as the engine reads columns.

Texts that are interned get a sorted dictionary of the values that occur, and so do numbers of which few are distinct;
other numbers, and texts of which more than half are distinct, are raw: sorting their dictionary would cost more than it
saves a query. So are all numbers of rows that still come. Numbers without a dictionary are read where the chunk has
them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, FieldType
from pinotpy.kernels.runtime import abi
from pinotpy.segment.buffers import HeldBuffers
from pinotpy.segment.build.column_writer import short_extreme
from pinotpy.segment.column import STORED_WORD
from pinotpy.segment.consuming.chunk_column import ChunkColumn, whole_texts
from pinotpy.segment.data_source import Dictionary, JsonIndex, TextIndex, UnkeptColumn
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.dictionary_encode import encode_fixed, has_many_distinct, id_dtype
from pinotpy.segment.index.text import MappedTextIndex, write_text_index
from pinotpy.segment.metadata import PartitionMetadata

Stored = int | float | bytes

# Fewer distinct texts than this have a dictionary, however few rows there are.
_FEW_TEXTS: Final = 256


class PieceColumn(UnkeptColumn):
    """Implements data_source.Column; never changes, and holds the memory that its `meta` refers to.

    Args:
        column, first_row, end_row: the rows, counted from the chunk's first.
        outlives_queries: whether caches may refer to its dictionary.
    """

    json_index: JsonIndex | None = None
    partitioning: PartitionMetadata | None = None

    def __init__(self, column: ChunkColumn, first_row: int, end_row: int, *, outlives_queries: bool) -> None:
        spec = column.layout.spec
        self.name = spec.name
        self.data_type: DataType = spec.data_type
        self.field_type: FieldType = spec.field_type
        self.single_value = spec.single_value
        self.num_docs = end_row - first_row
        self.default_null: Stored = spec.default_in_segments
        self._outlives_queries = outlives_queries
        self._nulls = _null_bitmap(column, first_row, end_row)
        self.has_nulls = self._nulls is not None
        self._offsets: NDArray[np.uint32] | None = None
        self.max_values_per_doc = 1
        begin, stop = first_row, end_row
        if column.value_ends is not None:
            begin, stop = int(column.value_ends[first_row]), int(column.value_ends[end_row])
            self._offsets = column.value_ends[first_row : end_row + 1] - np.uint32(begin)
            self.max_values_per_doc = int(np.diff(self._offsets).max(initial=0))
        self.num_values = stop - begin
        self.dictionary: Dictionary | None = None
        self.cardinality = -1
        self.is_sorted = False
        self.min_value: Stored | None = None
        self.max_value: Stored | None = None
        self._has_text_index = column.layout.indexing.text
        self._text_index: TextIndex | None = None
        self.meta = np.zeros(abi.META_WORDS, np.int64)
        self._forward: NDArray[Any] = np.zeros(0, np.uint8)
        self._text_offsets: Int64Array | None = None
        if self.data_type.stored.is_fixed:
            self._read_fixed(column, begin, stop)
        else:
            self._read_texts(column, begin, stop)
        self._finish_meta()

    @property
    def code_space(self) -> Dictionary | None:
        return self.dictionary if self._outlives_queries else None

    @property
    def text_index(self) -> TextIndex | None:
        """Made when a query first asks for it, where the sealed segment will have one."""
        if self._has_text_index and self._text_index is None:
            # Two threads may make it at once: equal indexes, one stays.
            buffers = HeldBuffers()
            texts = self.raw_values() if self.dictionary is None else self.dictionary.arrow()
            ids = None if self.dictionary is None else self._forward
            write_text_index(buffers, self.name, pa.chunked_array([texts]), ids, self._offsets)
            self._text_index = MappedTextIndex(buffers)
        return self._text_index

    def ids(self) -> NDArray[Any]:
        assert self.dictionary is not None, f"column '{self.name}' is raw"
        return self._forward

    def raw_values(self) -> NDArray[Any] | pa.Array:
        assert self.dictionary is None, f"column '{self.name}' has a dictionary"
        if self._text_offsets is None:
            return self._forward
        buffers = [None, pa.py_buffer(self._text_offsets), pa.py_buffer(self._forward)]
        return pa.Array.from_buffers(pa.large_binary(), self.num_values, buffers)

    def offsets(self) -> NDArray[np.uint32]:
        assert self._offsets is not None, f"column '{self.name}' is single-valued"
        return self._offsets

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return self._nulls

    def null_mask(self) -> NDArray[np.bool_]:
        if self._nulls is None:
            return np.zeros(self.num_docs, np.bool_)
        return np.unpackbits(self._nulls, count=self.num_docs, bitorder="little").view(np.bool_)

    def _read_fixed(self, column: ChunkColumn, begin: int, stop: int) -> None:
        assert column.values is not None
        values = column.values[begin:stop]
        # Of rows that still come a query would sort all numbers for one answer.
        is_raw = not self._outlives_queries or not column.layout.indexing.dictionary
        if is_raw or has_many_distinct(values):
            self._forward = values
            self.is_sorted = self.single_value and not bool((values[1:] < values[:-1]).any())
            if len(values):
                self.min_value, self.max_value = values.min().item(), values.max().item()
            return
        encoded = encode_fixed(values)
        assert isinstance(encoded.dictionary, np.ndarray)
        self._set_dictionary(FixedDictionary(encoded.dictionary), encoded.ids)
        self.meta[abi.M_DICTIONARY] = encoded.dictionary.ctypes.data

    def _read_texts(self, column: ChunkColumn, begin: int, stop: int) -> None:
        if not column.layout.is_interned:
            low, high = int(column.text_ends[begin]), int(column.text_ends[stop])
            self._set_raw_texts(column.text_ends[begin : stop + 1] - low, column.text_bytes[low:high])
            return
        assert column.values is not None
        numbers = column.values[begin:stop]
        texts = column.texts_of(numbers)
        occurring = np.flatnonzero(np.bincount(numbers, minlength=len(texts)))
        if len(occurring) > max(_FEW_TEXTS, len(numbers) // 2):
            self._set_raw_texts(*whole_texts(pa.chunked_array([texts.take(pa.array(numbers))])))
            return
        # The texts are distinct already: half the time of `encode_bytes` (30,000 texts in 65,536 rows: 3.8 and 8.0 ms).
        distinct = texts.take(pa.array(occurring)).cast(pa.binary())
        order = pc.sort_indices(distinct)
        ranks = np.zeros(len(texts), id_dtype(len(occurring)))
        ranks[occurring[order.to_numpy()]] = np.arange(len(occurring), dtype=ranks.dtype)
        _, offset_buffer, data = distinct.take(order).buffers()
        # A column without rows has buffers without bytes, and kernels want an address.
        offsets = (
            np.frombuffer(offset_buffer, np.int32, len(occurring) + 1) if len(occurring) else np.zeros(1, np.int32)
        )
        text_bytes = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        self._set_dictionary(VarDictionary(offsets, text_bytes[: int(offsets[-1])]), ranks.take(numbers))
        self._dictionary_memory = (offsets, text_bytes)
        self.meta[abi.M_DICTIONARY] = text_bytes.ctypes.data
        self.meta[abi.M_DICTIONARY_OFFSETS] = offsets.ctypes.data

    def _set_dictionary(self, dictionary: FixedDictionary | VarDictionary, ids: NDArray[Any]) -> None:
        self.dictionary, self._forward, self.cardinality = dictionary, ids, dictionary.cardinality
        if dictionary.cardinality:
            self.min_value = short_extreme(dictionary.value(0))
            self.max_value = short_extreme(dictionary.value(dictionary.cardinality - 1))

    def _set_raw_texts(self, offsets: Int64Array, text_bytes: NDArray[np.uint8]) -> None:
        self._text_offsets = offsets
        self._forward = text_bytes if len(text_bytes) else np.zeros(1, np.uint8)

    def _finish_meta(self) -> None:
        words = self.meta
        is_raw = self.dictionary is None
        words[abi.M_ENCODING] = abi.ENC_RAW if is_raw else abi.ENC_DICT
        words[abi.M_WIDTH] = self._forward.itemsize
        words[abi.M_DATA] = self._forward.ctypes.data
        words[abi.M_CARDINALITY] = self.cardinality
        words[abi.M_STORED] = STORED_WORD[self.data_type.stored]
        words[abi.M_NUM_DOCS], words[abi.M_NUM_VALUES] = self.num_docs, self.num_values
        if self._offsets is not None:
            words[abi.M_MV_OFFSETS] = self._offsets.ctypes.data
        if self._nulls is not None:
            words[abi.M_NULLS] = self._nulls.ctypes.data
        if self._text_offsets is not None:
            words[abi.M_RAW_OFFSETS] = self._text_offsets.ctypes.data
        words.flags.writeable = False


def _null_bitmap(column: ChunkColumn, first_row: int, end_row: int) -> NDArray[np.uint8] | None:
    """One bit a row, as stored null vectors have it; None where no row is null, or nobody asked for a null vector."""
    if not column.layout.indexing.null_vector:
        return None
    nulls = column.nulls[first_row:end_row]
    return np.packbits(nulls, bitorder="little") if nulls.any() else None
