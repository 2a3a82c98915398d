"""Where the values of group keys and aggregation arguments come from: columns as they are stored, or arrays made for this
query (raw variable-length columns encoded by Arrow, values of expressions), read through meta rows of their own.

Registers hold dict ids (u32) or 64-bit values; `Sources` remembers for every unit which, so that what was kept can be
read back when the scan is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType, StoredType
from pinotpy.kernels import abi, fetch
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.plan import ScanPlan, Shape

_STORED_WORDS = {StoredType.INT: abi.T_INT, StoredType.LONG: abi.T_LONG, StoredType.FLOAT: abi.T_FLOAT, StoredType.DOUBLE: abi.T_DOUBLE}
Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """An expression in the units of a shape: `metas` addresses of meta rows, `by_id` whether it reads as dict ids."""

    expression: Expression
    metas: Addresses
    by_id: bool
    has_nulls: bool
    is_column: bool  # read by the shape's own instructions

    @property
    def name(self) -> str:
        """The column; only for columns."""
        assert isinstance(self.expression, Identifier)
        return self.expression.name


@dataclass(slots=True)
class Sources:
    """The sources of one plan, made when first asked for."""

    plan: ScanPlan
    # By aggregation: per unit, the address of the meta row whose dict ids its distribution holds (0: 64-bit values).
    distributions: dict[int, Addresses] = field(default_factory=dict)
    _made: dict[Expression, Addresses] = field(default_factory=dict)

    def note(self, aggregation: int, shape: Shape, source: Source | None) -> None:
        """Remember what the distribution of an aggregation holds in the shape's units."""
        metas = self.distributions.setdefault(aggregation, np.zeros(self.plan.num_units, np.int64))
        metas[shape.units] = source.metas if source is not None and source.by_id else 0

    def of(self, shape: Shape, expression: Expression, data_type: DataType) -> Source:
        """The source of an expression of this type."""
        assert isinstance(expression, Identifier), "expressions are columns by now (computed_columns.py)"
        name = expression.name
        if shape.has_dictionary(name) or data_type.stored is not StoredType.VAR:
            return Source(expression, shape.meta(name), shape.has_dictionary(name), shape.has_nulls(name), True)
        return Source(expression, self._addresses(shape, expression), True, shape.has_nulls(name), False)

    def _addresses(self, shape: Shape, expression: Identifier) -> Addresses:
        known = self._made.setdefault(expression, np.zeros(len(self.plan.segments), np.int64))
        for index in np.unique(shape.segments).tolist():
            if known[index] == 0:
                self.plan.control.check()
                meta = self._encoded(index, expression.name)
                self.plan.keep_alive.append(meta)
                known[index] = meta.ctypes.data
        addresses: Addresses = known[shape.segments]
        return addresses

    def _encoded(self, index: int, column: str) -> NDArray[np.int64]:
        """A raw variable-length column as dict ids; offsets of multi-values and the null bitmap stay the column's."""
        values: Any = self.plan.segments[index].column(column).raw_values()
        meta: NDArray[np.int64] = self.plan.metas.of(column)[index].copy()
        self._put_ids(meta, values)
        return meta

    def _put_ids(self, meta: NDArray[np.int64], values: Any) -> None:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        encoded = pc.fill_null(values, b"").dictionary_encode()
        ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.uint32)
        dictionary = encoded.dictionary
        self._keep(ids)
        self.plan.keep_alive.append(dictionary)
        self.plan.control.reserve(dictionary.nbytes)
        meta[abi.M_ENCODING], meta[abi.M_WIDTH], meta[abi.M_CARDINALITY] = abi.ENC_DICT, ids.itemsize, len(dictionary)
        meta[abi.M_DATA] = ids.ctypes.data
        meta[abi.M_STORED] = abi.T_VAR
        _, offsets, body = dictionary.buffers()
        meta[abi.M_DICTIONARY_OFFSETS] = offsets.address + dictionary.offset * 4
        meta[abi.M_DICTIONARY] = body.address if body is not None else 0

    def _keep(self, array: NDArray[Any]) -> None:
        self.plan.control.reserve(array.nbytes)
        self.plan.keep_alive.append(array)


def fetch_ids(shape: Shape, source: Source) -> int:
    """Register of dict ids."""
    assert source.by_id, "values have no dict ids"
    if source.is_column:
        return shape.fetch_ids(source.name)
    register = shape.allocate()
    shape.emit(fetch.fetch_ids.address, register, source.metas, lane_argument(shape, source))
    return register


def fetch_values(shape: Shape, source: Source) -> int:
    """Register of 64-bit values: i64, or f64 of FLOAT and DOUBLE."""
    if source.is_column:
        return shape.fetch_values(source.name)
    register = shape.allocate()
    shape.emit(fetch.fetch_values.address, register, source.metas, 0)
    return register


def fetch_nulls(shape: Shape, source: Source) -> int:
    """Register of null flags, -1 where nothing is null."""
    if not source.has_nulls:
        return -1
    if isinstance(source.expression, Identifier):
        found = shape.fetch_nulls(source.expression.name)
        return -1 if found is None else found
    register = shape.allocate()
    shape.emit(fetch.fetch_nulls.address, register, source.metas)
    return register


def lane_argument(shape: Shape, source: Source) -> int:
    """The argument of a fetch that tells lanes from docs: 1 + the register of entries where the column was expanded."""
    if isinstance(source.expression, Identifier) and not shape.plan.metas.column(source.expression.name).single_value:
        return shape.lanes(source.expression.name) + 1
    return 0
