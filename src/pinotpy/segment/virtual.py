"""Columns that no segment stores: $docId, $segmentName and $hostName (Pinot: VirtualColumnProvider).

They look like any other column to queries: $docId is raw INT, the others have a dictionary of one value. Their memory
belongs to the column object: hold it as long as its `meta` is in use.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.errors import UnknownColumnError
from pinotpy.kernels import abi
from pinotpy.segment.data_source import Dictionary, Segment
from pinotpy.segment.dictionary import VarDictionary

Stored = int | float | bytes

DOC_ID: Final = "$docId"
SEGMENT_NAME: Final = "$segmentName"
HOST_NAME: Final = "$hostName"
NAMES: Final = (DOC_ID, SEGMENT_NAME, HOST_NAME)
TYPES: Final = {DOC_ID: DataType.INT, SEGMENT_NAME: DataType.STRING, HOST_NAME: DataType.STRING}


def virtual_column(name: str, segment: Segment, host: str) -> VirtualColumn:
    """The virtual column `name` of a segment on `host`; raises UnknownColumnError."""
    if name == DOC_ID:
        return VirtualColumn(name, segment.num_docs, None)
    if name in NAMES:
        return VirtualColumn(name, segment.num_docs, (segment.name if name == SEGMENT_NAME else host).encode())
    raise UnknownColumnError(f"no virtual column '{name}': there are {', '.join(NAMES)}", column=name)


class VirtualColumn:
    """Implements data_source.Column: doc ids, or one text for all docs."""

    single_value = True
    field_type = FieldType.DIMENSION
    has_nulls = False
    max_values_per_doc = 1
    partitions: tuple[int, ...] | None = None

    def __init__(self, name: str, num_docs: int, text: bytes | None) -> None:
        self.name = name
        self.data_type = TYPES[name]
        self.num_docs = self.num_values = num_docs
        self.is_sorted = True
        self.default_null: Stored = default_null_value(self.data_type, self.field_type)
        self.dictionary: Dictionary | None = None
        if text is None:
            self._forward: NDArray[Any] = np.arange(num_docs, dtype=np.int32)
            self.cardinality = -1
            self.min_value: Stored | None = 0 if num_docs else None
            self.max_value: Stored | None = num_docs - 1 if num_docs else None
        else:
            self._forward = np.zeros(num_docs, np.uint8)
            self._bytes = np.frombuffer(text or b"\0", np.uint8)
            self._offsets = np.array([0, len(text)], np.int32)
            self._starts = np.array([0, num_docs], np.uint32)
            self.dictionary = VarDictionary(self._offsets, self._bytes[: len(text)])
            self.cardinality = 1
            self.min_value = self.max_value = text
        self._forward.flags.writeable = False
        self.meta = self._meta_words()

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
        return np.zeros(self.num_docs, np.bool_)

    def _meta_words(self) -> NDArray[np.int64]:
        words = np.zeros(abi.META_WORDS, np.int64)
        words[abi.M_ENCODING] = abi.ENC_RAW if self.dictionary is None else abi.ENC_DICT
        words[abi.M_WIDTH] = self._forward.itemsize
        words[abi.M_DATA] = self._forward.ctypes.data
        words[abi.M_CARDINALITY] = self.cardinality
        words[abi.M_STORED] = abi.T_INT if self.dictionary is None else abi.T_VAR
        words[abi.M_NUM_DOCS] = words[abi.M_NUM_VALUES] = self.num_docs
        if self.dictionary is not None:
            words[abi.M_DICTIONARY] = self._bytes.ctypes.data
            words[abi.M_DICTIONARY_OFFSETS] = self._offsets.ctypes.data
            words[abi.M_SORTED] = 1
            words[abi.M_SORTED_STARTS] = self._starts.ctypes.data
        words.flags.writeable = False
        return words
