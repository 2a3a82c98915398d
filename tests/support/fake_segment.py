"""Segments in memory for tests of queries: every type × encoding × index, without files.

`fake_column(name, type, values, …)` takes Python values in stored form, one a doc (a list of them for multi-values),
None for null, and lays them out as a real segment does. What a test expects is computed from the same Python values.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType, FieldType, StoredType, default_null_value
from pinotpy.errors import UnknownColumnError
from pinotpy.kernels.codec.bit_packing import bit_width, pack, unpack
from pinotpy.kernels.runtime import abi
from pinotpy.segment.data_source import UnkeptColumn, WithoutFiles

_WORD = {
    StoredType.INT: abi.T_INT,
    StoredType.LONG: abi.T_LONG,
    StoredType.FLOAT: abi.T_FLOAT,
    StoredType.DOUBLE: abi.T_DOUBLE,
    StoredType.VAR: abi.T_VAR,
}


def _blob(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return np.frombuffer(b"".join(values) + b"\0", np.uint8).copy(), offsets


class FakeDictionary:
    def __init__(self, values: list[Any], stored: StoredType) -> None:
        self._list, self._stored, self.cardinality = values, stored, len(values)
        if stored is StoredType.VAR:
            self.data, offsets = _blob(values)
            self.offsets = offsets.astype(np.int32)
        else:
            self.data, self.offsets = np.array(values, stored.numpy), None

    def value(self, dict_id: int) -> Any:
        return self._list[dict_id]

    def values(self) -> np.ndarray:
        assert self._stored is not StoredType.VAR
        return self.data

    def arrow(self) -> pa.Array:
        if self._stored is StoredType.VAR:
            return pa.Array.from_buffers(
                pa.binary(), self.cardinality, [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
            )
        return pa.array(self.data)


@dataclass
class FakeColumn(UnkeptColumn):
    name: str
    data_type: DataType
    field_type: FieldType
    single_value: bool
    num_docs: int
    num_values: int
    cardinality: int
    is_sorted: bool
    min_value: Any
    max_value: Any
    dictionary: FakeDictionary | None
    default_null: Any
    has_nulls: bool
    max_values_per_doc: int
    partitioning: None
    meta: np.ndarray
    _ids: Any
    _raw: Any
    _offsets: Any
    _bitmap: Any
    _keep: list[Any]

    def ids(self) -> np.ndarray:
        return self._ids

    def raw_values(self) -> Any:
        return self._raw

    def offsets(self) -> np.ndarray:
        return self._offsets

    def null_bitmap(self) -> Any:
        return self._bitmap

    def null_mask(self) -> np.ndarray:
        if self._bitmap is None:
            return np.zeros(self.num_docs, np.bool_)
        return np.unpackbits(self._bitmap, count=self.num_docs, bitorder="little").astype(np.bool_)


def fake_column(
    name: str,
    data_type: DataType,
    docs: list[Any],
    *,
    single_value: bool = True,
    dictionary: bool = True,
    packed: bool = False,
    inverted: bool = False,
    compressed: bool = False,
    field_type: FieldType = FieldType.DIMENSION,
) -> FakeColumn:
    """A column of stored values (STRING as bytes); None is null. `compressed` hides the raw values from the kernels."""
    stored, default = data_type.stored, default_null_value(data_type, field_type)
    nulls = np.array([doc is None for doc in docs], np.bool_)
    filled = [([default] if not single_value else default) if doc is None else doc for doc in docs]
    flat = list(filled) if single_value else [value for doc in filled for value in doc]
    meta, keep = np.zeros(abi.META_WORDS, np.int64), []
    meta[abi.M_STORED], meta[abi.M_NUM_DOCS], meta[abi.M_NUM_VALUES] = _WORD[stored], len(docs), len(flat)

    def point(word: int, array: np.ndarray) -> np.ndarray:
        keep.append(array)
        meta[word] = array.ctypes.data
        return array

    offsets = bitmap = ids = raw = words = None
    if not single_value:
        offsets = np.zeros(len(docs) + 1, np.uint32)
        np.cumsum([len(doc) for doc in filled], out=offsets[1:])
        point(abi.M_MV_OFFSETS, offsets)
    if nulls.any():
        bitmap = point(abi.M_NULLS, np.packbits(nulls, bitorder="little"))
    in_order = single_value and all(a <= b for a, b in itertools.pairwise(flat))
    found = FakeDictionary(sorted(set(flat)), stored) if dictionary else None
    if found is not None:
        rank = {value: i for i, value in enumerate(found._list)}
        dtype = np.uint8 if found.cardinality <= 256 else np.uint16 if found.cardinality <= 65536 else np.uint32
        ids = np.array([rank[value] for value in flat], dtype)
        meta[abi.M_CARDINALITY] = found.cardinality
        point(abi.M_DICTIONARY, found.data)
        if found.offsets is not None:
            point(abi.M_DICTIONARY_OFFSETS, found.offsets)
        if packed:
            width = bit_width(found.cardinality)
            words = point(abi.M_DATA, pack(ids, width))
            meta[abi.M_ENCODING], meta[abi.M_WIDTH] = abi.ENC_PACKED, width
            unpacked = np.empty(len(ids), np.uint32)
            unpack(words, width, 0, unpacked)
            assert (unpacked == ids).all()
        else:
            point(abi.M_DATA, ids)
            meta[abi.M_ENCODING], meta[abi.M_WIDTH] = abi.ENC_DICT, ids.itemsize
        if in_order:
            meta[abi.M_SORTED] = 1
            point(abi.M_SORTED_STARTS, np.searchsorted(ids, np.arange(found.cardinality + 1)).astype(np.uint32))
        if inverted:
            owners = np.arange(len(docs)) if single_value else np.repeat(np.arange(len(docs)), np.diff(offsets))
            pairs = np.unique(np.stack([ids.astype(np.int64), owners], axis=1), axis=0)  # a doc once a value
            point(abi.M_INVERTED_DOCS, pairs[:, 1].astype(np.int32))
            point(
                abi.M_INVERTED_OFFSETS, np.searchsorted(pairs[:, 0], np.arange(found.cardinality + 1)).astype(np.uint32)
            )
    else:
        meta[abi.M_CARDINALITY], meta[abi.M_ENCODING] = -1, abi.ENC_RAW
        if stored is StoredType.VAR:
            data, starts = _blob(flat)
            raw = pa.Array.from_buffers(pa.large_binary(), len(flat), [None, pa.py_buffer(starts), pa.py_buffer(data)])
            keep += [data, starts]
            if not compressed:
                meta[abi.M_RAW_OFFSETS], meta[abi.M_DATA], meta[abi.M_WIDTH] = starts.ctypes.data, data.ctypes.data, 1
        else:
            raw = np.array(flat, stored.numpy)
            keep.append(raw)
            meta[abi.M_WIDTH] = raw.itemsize
            if not compressed:
                meta[abi.M_DATA] = raw.ctypes.data
    return FakeColumn(
        name,
        data_type,
        field_type,
        single_value,
        len(docs),
        len(flat),
        -1 if found is None else found.cardinality,
        in_order,
        min(flat) if flat else None,
        max(flat) if flat else None,
        found,
        default,
        bool(nulls.any()),
        1 if single_value else max(map(len, filled), default=1),
        None,
        meta,
        ids,
        raw,
        offsets,
        bitmap,
        keep,
    )


class FakeSegment(WithoutFiles):
    """Columns of equal length under one name."""

    def __init__(
        self, name: str, columns: list[FakeColumn], table: str = "t", visible: np.ndarray | None = None
    ) -> None:
        self.name, self.table, self.crc, self.star_trees, self.visible = name, table, 0, (), visible
        self.first_doc = 0
        self._columns = {column.name: column for column in columns}
        self.num_docs = columns[0].num_docs
        assert all(column.num_docs == self.num_docs for column in columns)

    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def column(self, name: str) -> FakeColumn:
        if name not in self._columns:
            raise UnknownColumnError(f"no column '{name}' in segment '{self.name}'", column=name)
        return self._columns[name]

    def has_column(self, name: str) -> bool:
        return name in self._columns

    def kind(self, name: str) -> tuple[DataType, bool]:
        return self._columns[name].data_type, self._columns[name].single_value
