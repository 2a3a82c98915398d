"""One column of a piece, as the engine reads columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType, FieldType
from pinotpy.kernels.runtime import abi
from pinotpy.segment.buffers import HeldBuffers
from pinotpy.segment.build.column_writer import short_extreme
from pinotpy.segment.column import STORED_WORD
from pinotpy.segment.consuming.column_parts import ColumnParts
from pinotpy.segment.consuming.log_chunk import ColumnKind
from pinotpy.segment.data_source import Dictionary, JsonIndex, TextIndex, UnkeptColumn
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.index.text import MappedTextIndex, write_text_index
from pinotpy.segment.metadata import PartitionMetadata

Stored = int | float | bytes


class PieceColumn(UnkeptColumn):
    """Implements data_source.Column; never changes, and holds the memory that its `meta` refers to.

    Args:
        parts: of its rows, of which there are `num_docs`.
        outlives_queries: whether caches may refer to its dictionary.
    """

    json_index: JsonIndex | None = None
    partitioning: PartitionMetadata | None = None

    def __init__(self, kind: ColumnKind, parts: ColumnParts, num_docs: int, *, outlives_queries: bool) -> None:
        spec = kind.spec
        self.name = spec.name
        self.data_type: DataType = spec.data_type
        self.field_type: FieldType = spec.field_type
        self.single_value = spec.single_value
        self.num_docs = num_docs
        self.num_values = parts.num_values
        self.default_null: Stored = spec.default_in_segments
        self._parts = parts
        self._outlives_queries = outlives_queries
        self._nulls = parts.nulls if kind.indexing.null_vector else None
        self.has_nulls = self._nulls is not None
        self.max_values_per_doc = 1
        if parts.value_ends is not None:
            self.max_values_per_doc = int(np.diff(parts.value_ends).max(initial=0))
        self.dictionary: Dictionary | None = None
        self.cardinality = -1
        self.is_sorted = False
        self.min_value: Stored | None = None
        self.max_value: Stored | None = None
        self._has_text_index = kind.indexing.text
        self._text_index: TextIndex | None = None
        if parts.dictionary is not None:
            self._set_dictionary(parts, parts.dictionary)
        elif parts.text_ends is None:
            values = parts.forward
            self.is_sorted = self.single_value and not bool((values[1:] < values[:-1]).any())
            if len(values):
                self.min_value, self.max_value = values.min().item(), values.max().item()
        self.meta = self._made_meta(parts)

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
            ids = None if self.dictionary is None else self._parts.forward
            write_text_index(buffers, self.name, pa.chunked_array([texts]), ids, self._parts.value_ends)
            self._text_index = MappedTextIndex(buffers)
        return self._text_index

    def ids(self) -> NDArray[Any]:
        assert self.dictionary is not None, f"column '{self.name}' is raw"
        return self._parts.forward

    def raw_values(self) -> NDArray[Any] | pa.Array:
        assert self.dictionary is None, f"column '{self.name}' has a dictionary"
        return self._parts.forward if self._parts.text_ends is None else self._parts.texts()

    def offsets(self) -> NDArray[np.uint32]:
        assert self._parts.value_ends is not None, f"column '{self.name}' is single-valued"
        return self._parts.value_ends

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return self._nulls

    def null_mask(self) -> NDArray[np.bool_]:
        if self._nulls is None:
            return np.zeros(self.num_docs, np.bool_)
        return np.unpackbits(self._nulls, count=self.num_docs, bitorder="little").view(np.bool_)

    def _set_dictionary(self, parts: ColumnParts, values: NDArray[Any]) -> None:
        self.cardinality = parts.cardinality
        self.dictionary = (
            FixedDictionary(values) if parts.dictionary_ends is None else VarDictionary(parts.dictionary_ends, values)
        )
        if self.cardinality:
            self.min_value = short_extreme(self.dictionary.value(0))
            self.max_value = short_extreme(self.dictionary.value(self.cardinality - 1))

    def _made_meta(self, parts: ColumnParts) -> NDArray[np.int64]:
        words = np.zeros(abi.META_WORDS, np.int64)
        words[abi.M_ENCODING] = abi.ENC_RAW if parts.dictionary is None else abi.ENC_DICT
        words[abi.M_WIDTH] = parts.forward.itemsize
        words[abi.M_CARDINALITY] = self.cardinality
        words[abi.M_STORED] = STORED_WORD[self.data_type.stored]
        words[abi.M_NUM_DOCS], words[abi.M_NUM_VALUES] = self.num_docs, self.num_values
        for word, array in (
            (abi.M_DATA, parts.forward),
            (abi.M_RAW_OFFSETS, parts.text_ends),
            (abi.M_DICTIONARY, parts.dictionary),
            (abi.M_DICTIONARY_OFFSETS, parts.dictionary_ends),
            (abi.M_MV_OFFSETS, parts.value_ends),
            (abi.M_NULLS, self._nulls),
        ):
            if array is not None:
                words[word] = _address(array)
        words.flags.writeable = False
        return words


_NOTHING = np.zeros(1, np.int64)


def _address(array: NDArray[Any]) -> int:
    """Where an array begins; of one without entries of something else, as kernels want an address."""
    return array.ctypes.data if len(array) else _NOTHING.ctypes.data
