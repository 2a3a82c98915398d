"""Columns that a segment does not store: $docId, $segmentName, $hostName, and those that its table got after it was
built.

Pinot: VirtualColumnProvider and DefaultColumnHandler. They look like any other column to queries: $docId is raw INT,
the others have one value for all docs. Their memory belongs to the column object: hold it as long as its `meta` is in
use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, FieldType, StoredType, default_null_value
from pinotpy.errors import UnknownColumnError
from pinotpy.kernels.runtime import abi
from pinotpy.segment.column import STORED_WORD
from pinotpy.segment.data_source import Column, Dictionary, JsonIndex, Segment, TextIndex, UnkeptColumn
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.index.text import ConstantTextIndex
from pinotpy.segment.metadata import PartitionMetadata

Stored = int | float | bytes

DOC_ID: Final = "$docId"
SEGMENT_NAME: Final = "$segmentName"
HOST_NAME: Final = "$hostName"
NAMES: Final = (DOC_ID, SEGMENT_NAME, HOST_NAME)


def virtual_column(name: str, segment: Segment, host: str) -> DocIdColumn | ConstantColumn:
    """The virtual column `name` of a segment on `host`; raises UnknownColumnError."""
    if name == DOC_ID:
        return DocIdColumn(segment.num_docs, segment.first_doc)
    if name in NAMES:
        return ConstantColumn(
            name, DataType.STRING, (segment.name if name == SEGMENT_NAME else host).encode(), segment.num_docs
        )
    raise UnknownColumnError(f"no virtual column '{name}': there are {', '.join(NAMES)}", column=name)


class CompletedSegment:
    """A segment with further columns that it does not store; implements data_source.Segment."""

    def __init__(self, segment: Segment, added: Mapping[str, Column]) -> None:
        self.name, self.table, self.num_docs, self.crc = segment.name, segment.table, segment.num_docs, segment.crc
        self.first_doc = segment.first_doc
        self.visible = segment.visible
        self.star_trees: tuple[Any, ...] = ()  # none has the added columns
        self._segment = segment
        self._added = added

    def columns(self) -> tuple[str, ...]:
        return (*self._segment.columns(), *(name for name in self._added if not name.startswith("$")))

    def column(self, name: str) -> Column:
        return self._added[name] if name in self._added else self._segment.column(name)

    def has_column(self, name: str) -> bool:
        return name in self._added or self._segment.has_column(name)

    def kind(self, name: str) -> tuple[DataType, bool]:
        """Implements data_source.Segment."""
        added = self._added.get(name)
        return self._segment.kind(name) if added is None else (added.data_type, added.single_value)

    def look(self) -> None:
        self._segment.look()

    def check_bytes(self, names: Sequence[str], pause: Callable[[], None]) -> bool:
        return self._segment.check_bytes(names, pause)


class _UnstoredColumn(UnkeptColumn):
    """What all of them have in common: one entry a doc, ascending."""

    single_value = True
    field_type = FieldType.DIMENSION
    has_nulls = False
    max_values_per_doc = 1
    partitioning: PartitionMetadata | None = None
    text_index: TextIndex | None = None
    json_index: JsonIndex | None = None

    def __init__(self, name: str, data_type: DataType, num_docs: int) -> None:
        self.name = name
        self.data_type = data_type
        self.num_docs = self.num_values = num_docs
        self.is_sorted = True
        self.default_null: Stored = default_null_value(data_type, self.field_type)
        self.dictionary: Dictionary | None = None
        self.cardinality = -1
        self.min_value: Stored | None = None
        self.max_value: Stored | None = None
        self._forward: NDArray[Any] = np.zeros(0, np.uint8)

    def ids(self) -> NDArray[Any]:
        assert self.dictionary is not None, f"column '{self.name}' is raw"
        return self._forward

    def raw_values(self) -> NDArray[Any] | pa.Array:
        assert self.dictionary is None, f"column '{self.name}' has a dictionary"
        return self._forward

    def offsets(self) -> NDArray[np.uint32]:
        raise AssertionError(f"column '{self.name}' is single-valued")

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return None

    def null_mask(self) -> NDArray[np.bool_]:
        return np.full(self.num_docs, self.has_nulls)

    def _meta_words(self) -> Int64Array:
        self._forward.flags.writeable = False
        words = np.zeros(abi.META_WORDS, np.int64)
        words[abi.M_ENCODING] = abi.ENC_RAW if self.dictionary is None else abi.ENC_DICT
        words[abi.M_WIDTH] = self._forward.itemsize
        words[abi.M_DATA] = self._forward.ctypes.data
        words[abi.M_CARDINALITY] = self.cardinality
        words[abi.M_STORED] = STORED_WORD[self.data_type.stored]
        words[abi.M_NUM_DOCS] = words[abi.M_NUM_VALUES] = self.num_docs
        return words


class DocIdColumn(_UnstoredColumn):
    """$docId: the number of the doc in its segment, from `first_doc` on."""

    def __init__(self, num_docs: int, first_doc: int = 0) -> None:
        super().__init__(DOC_ID, DataType.INT, num_docs)
        self._forward = np.arange(first_doc, first_doc + num_docs, dtype=np.int32)
        if num_docs:
            self.min_value, self.max_value = first_doc, first_doc + num_docs - 1
        self.meta = self._meta_words()
        self.meta.flags.writeable = False


class ConstantColumn(_UnstoredColumn):
    """One value for all docs; of a multi-value column, one entry a doc.

    Args:
        value: in stored form, no NaN.
        is_default: no doc has a value; `value` is the default that stands for it.
        all_null: and that is null.
    """

    def __init__(
        self,
        name: str,
        data_type: DataType,
        value: Stored,
        num_docs: int,
        *,
        single_value: bool = True,
        is_default: bool = False,
        all_null: bool = False,
    ) -> None:
        super().__init__(name, data_type, num_docs)
        self.single_value = single_value
        self.has_nulls = all_null and num_docs > 0
        self.default_null = value if is_default else self.default_null
        if is_default and data_type.is_text:
            assert isinstance(value, bytes)
            self.text_index = ConstantTextIndex(value, num_docs)  # as a build with a text index would have made it
        self._forward = np.zeros(num_docs, np.uint8)
        self.cardinality = 1
        self.min_value = self.max_value = value
        self.dictionary = self._make_dictionary(value)
        self.meta = self._meta_words()
        self._add_words()
        self.meta.flags.writeable = False

    def offsets(self) -> NDArray[np.uint32]:
        assert not self.single_value, f"column '{self.name}' is single-valued"
        return self._mv_offsets

    def null_bitmap(self) -> NDArray[np.uint8] | None:
        return self._nulls if self.has_nulls else None

    def _make_dictionary(self, value: Stored) -> Dictionary:
        if self.data_type.stored is StoredType.VAR:
            assert isinstance(value, bytes), f"column '{self.name}': {value!r} is not in stored form"
            self._values: NDArray[Any] = np.frombuffer(value or b"\0", np.uint8)
            self._offsets = np.array([0, len(value)], np.int32)
            return VarDictionary(self._offsets, self._values[: len(value)])
        self._values = np.array([value], self.data_type.stored.numpy)
        return FixedDictionary(self._values)

    def _add_words(self) -> None:
        self.meta[abi.M_DICTIONARY] = self._values.ctypes.data
        if self.data_type.stored is StoredType.VAR:
            self.meta[abi.M_DICTIONARY_OFFSETS] = self._offsets.ctypes.data
        if not self.single_value:
            self.is_sorted = False
            self._mv_offsets = np.arange(self.num_docs + 1, dtype=np.uint32)
            self.meta[abi.M_MV_OFFSETS] = self._mv_offsets.ctypes.data
        else:
            self._starts = np.array([0, self.num_docs], np.uint32)
            self.meta[abi.M_SORTED] = 1
            self.meta[abi.M_SORTED_STARTS] = self._starts.ctypes.data
        if self.has_nulls:
            # Bits behind the last doc stay 0, as in stored null vectors.
            self._nulls = np.packbits(np.ones(self.num_docs, np.bool_), bitorder="little")
            self.meta[abi.M_NULLS] = self._nulls.ctypes.data
