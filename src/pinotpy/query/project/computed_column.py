"""The column that an expression becomes in a segment: values or dict ids where kernels read them, and values in stored
form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, FieldType, StoredType, default_null_value
from pinotpy.kernels.runtime import abi
from pinotpy.query.model.result_type import ResultType
from pinotpy.segment.data_source import Dictionary, Stored, UnkeptColumn

_STORED_WORDS: Final = {
    StoredType.INT: abi.T_INT,
    StoredType.LONG: abi.T_LONG,
    StoredType.FLOAT: abi.T_FLOAT,
    StoredType.DOUBLE: abi.T_DOUBLE,
}
_ARROW: Final = {
    StoredType.INT: pa.int32(),
    StoredType.LONG: pa.int64(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
}


@dataclass(slots=True)
class SortedValues:
    """Distinct values of a computed column; what kernels and operators need of data_source.Dictionary."""

    values_: pa.Array
    cardinality: int

    def value(self, dict_id: int) -> Stored:
        value: Stored = self.values_[dict_id].as_py()
        return value

    def arrow(self) -> pa.Array:
        return self.values_


@dataclass(slots=True)
class ComputedColumn(UnkeptColumn):
    """An expression's values in a segment; implements what operators use of data_source.Column."""

    name: str
    kind: ResultType
    num_docs: int
    num_values: int = 0
    cardinality: int = -1
    max_values_per_doc: int = 1
    has_nulls: bool = False
    size_bytes: int = 0
    dictionary: Dictionary | None = None
    meta: Int64Array = field(default_factory=lambda: np.zeros(abi.META_WORDS, np.int64))
    _kept: list[Any] = field(default_factory=list)

    field_type = FieldType.DIMENSION
    is_sorted = False
    min_value = None
    max_value = None
    partitions = None

    def __post_init__(self) -> None:
        self.num_values = self.num_docs
        self.meta[abi.M_NUM_DOCS] = self.meta[abi.M_NUM_VALUES] = self.num_docs
        self.meta[abi.M_CARDINALITY] = -1

    @property
    def data_type(self) -> DataType:
        return self.kind.data_type or DataType.STRING

    @property
    def single_value(self) -> bool:
        return self.kind.single_value

    def put_values(self, values: NDArray[Any]) -> None:
        """Plain values of a fixed type."""
        self._keep(values)
        self.meta[abi.M_ENCODING], self.meta[abi.M_WIDTH] = abi.ENC_RAW, values.itemsize
        self.meta[abi.M_STORED] = _STORED_WORDS[self.data_type.stored]
        self.meta[abi.M_DATA] = self._address(values)

    def put_ids(self, ids: NDArray[np.uint32], dictionary: pa.Array) -> None:
        """Dict ids of distinct values."""
        self._keep(ids)
        self._kept.append(dictionary)
        self.size_bytes += dictionary.nbytes
        self.cardinality = len(dictionary)
        meta = self.meta
        meta[abi.M_ENCODING], meta[abi.M_WIDTH], meta[abi.M_CARDINALITY] = abi.ENC_DICT, ids.itemsize, len(dictionary)
        meta[abi.M_DATA] = self._address(ids)
        if self.data_type.stored is StoredType.VAR:
            meta[abi.M_STORED] = abi.T_VAR
            _, offsets, body = dictionary.buffers()
            meta[abi.M_DICTIONARY_OFFSETS] = offsets.address + dictionary.offset * 4 if offsets is not None else 0
            meta[abi.M_DICTIONARY] = body.address if body is not None else 0
        else:
            values = np.ascontiguousarray(dictionary.to_numpy(zero_copy_only=False))
            self._keep(values)
            meta[abi.M_STORED] = _STORED_WORDS[self.data_type.stored]
            meta[abi.M_DICTIONARY] = self._address(values)

    def put_numbers(self, ids: NDArray[np.uint32], num_ids: int) -> None:
        """Dict ids whose values are elsewhere: `ScanPlan.numbered`."""
        self._kept.append(ids)
        self.cardinality = num_ids
        meta = self.meta
        meta[abi.M_ENCODING], meta[abi.M_WIDTH], meta[abi.M_CARDINALITY], meta[abi.M_STORED] = (
            abi.ENC_DICT,
            ids.itemsize,
            num_ids,
            abi.T_VAR,
        )
        meta[abi.M_DATA] = self._address(ids)

    def put_offsets(self, lengths: Int64Array) -> None:
        """Values of each doc, in doc order: multi-values."""
        offsets = np.zeros(self.num_docs + 1, np.uint32)
        np.cumsum(lengths, out=offsets[1:])
        self._keep(offsets)
        self.num_values, self.max_values_per_doc = int(offsets[-1]), int(lengths.max(initial=1))
        self.meta[abi.M_NUM_VALUES], self.meta[abi.M_MV_OFFSETS] = self.num_values, offsets.ctypes.data

    def put_nulls(self, missing: NDArray[np.bool_]) -> None:
        """Which docs have no value."""
        self.has_nulls = bool(missing.any())
        if self.has_nulls:
            bitmap = np.packbits(missing, bitorder="little")
            self._keep(bitmap)
            self.meta[abi.M_NULLS] = bitmap.ctypes.data

    def _keep(self, array: NDArray[Any]) -> None:
        self._kept.append(array)
        self.size_bytes += array.nbytes

    def _address(self, array: NDArray[Any]) -> int:
        if array.size:
            return int(array.ctypes.data)
        self._kept.append(np.zeros(1, np.int64))  # an address that may be looked at
        return int(self._kept[-1].ctypes.data)


def spread(values: NDArray[Any], docs: Int64Array, num_docs: int) -> NDArray[Any]:
    """Values at `docs` as values at all docs, 0 elsewhere."""
    if len(docs) == num_docs:
        return np.ascontiguousarray(values)
    full = np.zeros(num_docs, values.dtype)
    full[docs] = values
    return full


def stored_values(values: pa.Array, kind: ResultType) -> pa.Array:
    """Values in stored form without nulls: the type's default stands for them."""
    data_type = kind.data_type or DataType.STRING
    arrow = _ARROW.get(data_type.stored, pa.binary())
    if pa.types.is_null(values.type):
        values = values.cast(arrow)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    stored = values if values.type == arrow else values.cast(arrow)
    if stored.null_count:
        stored = pc.fill_null(stored, pa.scalar(default_null_value(data_type, FieldType.DIMENSION), arrow))
    return _canonical(stored) if pa.types.is_floating(arrow) else stored


def _canonical(values: pa.Array) -> pa.Array:
    """−0.0 is 0.0 and NaN one value: what looks at bits, as HyperLogLog does, sees values."""
    plain = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)
    plain[np.isnan(plain)] = np.nan
    return pa.array(plain, values.type)


def encoded_values(values: pa.Array) -> tuple[NDArray[np.uint32], pa.Array]:
    """Dict ids and the sorted distinct values of values in stored form; NaN is last."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return ranks[codes], encoded.dictionary.take(pa.array(order))
