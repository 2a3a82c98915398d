"""Where the values of group keys and aggregation arguments come from: columns, stored or computed for this query, and
expressions that the scan itself computes (expression/compiler.py).

Registers hold dict ids (u32) or 64-bit values; `Sources` remembers for every morsel which, so that what was kept can be
read back when the scan is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate import counts_and_sums
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import arithmetic, boolean, operands
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.expression.compiler import BlockCompiler, probe
from pinotpy.query.expression.vector_registers import VectorRegisters
from pinotpy.query.expression.vectors import ALWAYS, NEVER, Kind, Vector, word_of
from pinotpy.query.model.context import Filter
from pinotpy.query.model.result_types import columns_in
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.runtime.instructions import Word

# Registers that an expression may take of those of the select section: keys and other arguments need theirs.
BLOCK_REGISTERS: int = 10


@dataclass(frozen=True, slots=True)
class Source:
    """What is read in the morsels of a shape: `metas` addresses of a column's meta rows (0: computed in the scan),
    `by_id` whether it reads as dict ids.
    """

    expression: Expression
    metas: Int64Array
    by_id: bool
    has_nulls: bool

    @property
    def name(self) -> str:
        """Of the column."""
        assert isinstance(self.expression, Identifier), "an expression has no name"
        return self.expression.name


@dataclass(slots=True)
class Sources:
    """The sources of one plan."""

    plan: ScanPlan
    # By aggregation: per morsel, the address of the meta row whose dict ids its value set holds (0: 64-bit values).
    value_sets: dict[int, Int64Array] = field(default_factory=dict)

    def note(self, aggregation: int, shape: Shape, source: Source | None) -> None:
        """Remember what the value set of an aggregation holds in the shape's morsels."""
        metas = self.value_sets.setdefault(aggregation, np.zeros(self.plan.num_morsels, np.int64))
        metas[shape.morsels] = source.metas if source is not None and source.by_id else 0

    def of(self, shape: Shape, expression: Expression) -> Source:
        """The source of an expression."""
        if isinstance(expression, Identifier):
            name = expression.name
            return Source(expression, shape.meta(name), shape.has_dictionary(name), shape.has_nulls(name))
        vector = probe(expression, self.plan.context, shape.has_nulls, registers=BLOCK_REGISTERS, filters=True)
        assert vector is not None, "expressions are columns by now, or blocks compute them (computed_columns.py)"
        return Source(
            expression,
            np.zeros(shape.num_morsels, np.int64),
            False,
            self.plan.context.null_handling and vector.nulls != NEVER,
        )


def fetch_ids(shape: Shape, source: Source) -> int:
    """Register of dict ids."""
    assert source.by_id, "values have no dict ids"
    return shape.fetch_ids(source.name)


def fetch_values(shape: Shape, source: Source) -> int:
    """Register of 64-bit values: i64, or f64 of FLOAT and DOUBLE."""
    if isinstance(source.expression, Identifier):
        return shape.fetch_values(source.name)
    return _computed(shape, source, "values")


def fetch_nulls(shape: Shape, source: Source) -> int:
    """Register of null flags, -1 where nothing is null."""
    if not source.has_nulls:
        return -1
    if isinstance(source.expression, Identifier):
        nulls = shape.fetch_nulls(source.name)
        return -1 if nulls is None else nulls
    return _computed(shape, source, "nulls")


def _computed(shape: Shape, source: Source, wanted: str) -> int:
    """Values and null flags come together: what is not asked for yet waits."""
    waiting = shape.waiting.pop((wanted, source.expression), None)
    if waiting is not None:
        return waiting
    target = _ShapeTarget(shape)
    vector = BlockCompiler(shape.plan.context, target).result(source.expression)
    values, nulls = _registers(target, vector)
    other, register = ("nulls", nulls) if wanted == "values" else ("values", values)
    if source.has_nulls:
        shape.waiting[other, source.expression] = register
    return values if wanted == "values" else nulls


def _registers(target: _ShapeTarget, vector: Vector) -> tuple[int, int]:
    """Registers of values, which may be looked at as bits, and of null flags or -1; the caller gives back both."""
    if vector.is_constant:
        assert not isinstance(vector.constant, str)
        register = target.allocate()
        target.emit(
            counts_and_sums.fill.address,
            register,
            0 if vector.constant is None else word_of(vector.constant, vector.kind),
        )
        vector.register, vector.owned = register, True
        return vector.register, _null_register(target, vector)
    if vector.fused is not None and not vector.fused.is_leaf:
        vector = VectorRegisters(target).emitted(vector, canonical=True)
        return vector.register, _null_register(target, vector)
    vector = VectorRegisters(target).emitted(vector)
    if vector.kind is Kind.DOUBLE or not vector.owned:
        register = target.allocate()
        if vector.kind is Kind.DOUBLE:
            target.emit(arithmetic.unary_doubles.address, register, vector.register, arithmetic.CANONICAL)
        else:
            target.emit(
                arithmetic.binary_longs.address, register, vector.register, 0, arithmetic.ADD, operands.FORM_RIGHT
            )
        if vector.owned:
            target.release(vector.register)
        vector.register, vector.owned = register, True
    return vector.register, _null_register(target, vector)


def _null_register(target: _ShapeTarget, vector: Vector) -> int:
    if vector.nulls == ALWAYS or (vector.nulls != NEVER and not vector.owned_nulls):
        register = target.allocate()
        if vector.nulls == ALWAYS:
            target.emit(boolean.fill_flags.address, register, 1)
        else:
            target.emit(boolean.combine_flags.address, register, vector.nulls, vector.nulls, boolean.OR)
        vector.nulls = register
    return vector.nulls


class _ShapeTarget:
    """The select section of a shape. What one expression fetches twice has two readers, and is given back by the last:
    a CASE may be done with its condition before it takes the value that the condition read.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._readers: dict[int, int] = {}  # of registers that this expression fetched

    def allocate(self) -> int:
        return self._shape.allocate()

    def release(self, register: int) -> None:
        readers = self._readers.pop(register, 1)
        if readers > 1:
            self._readers[register] = readers - 1
        else:
            self._shape.release(register)

    def emit(self, function: int, *args: Word) -> None:
        self._shape.emit(function, *args)

    def fetch(self, column: str) -> tuple[int, bool]:
        is_held = self._shape.holds("values", column)
        return self._read(self._shape.fetch_values(column), is_held)

    def holds(self, column: str) -> bool:
        return self._shape.holds("values", column)

    def meta(self, column: str) -> Word:
        return self._shape.meta(column)

    def within_doubles(self, column: str) -> bool:
        return self._shape.plan.metas.within_doubles(column)

    def fetch_nulls(self, column: str) -> tuple[int, bool] | None:
        is_held = self._shape.holds("nulls", column)
        nulls = self._shape.fetch_nulls(column)
        return None if nulls is None else self._read(nulls, is_held)

    def fetch_filter(self, condition: Filter) -> tuple[int, bool]:
        is_held = self._shape.holds("filter", condition)
        return self._read(self._shape.fetch_filter(condition), is_held)

    def _read(self, register: int, is_held: bool) -> tuple[int, bool]:
        if is_held and register not in self._readers:
            return register, False  # fetched outside of this expression: somebody else gives it back
        self._readers[register] = self._readers.get(register, 0) + 1
        return register, True

    def keep(self, array: NDArray[Any]) -> int:
        self._shape.plan.keep_alive.append(array)
        return int(array.ctypes.data)


def computes(expression: Expression, plan: ScanPlan) -> bool:
    """Whether the scan computes this expression where it is grouped or aggregated; raises what its types raise."""

    names = list(dict.fromkeys(columns_in(expression)))
    nulls = np.array([plan.metas.of(name)[:, abi.M_NULLS] != 0 for name in names])
    some = [bool(of_column.any()) for of_column in nulls]
    # Segments without nulls are computed by other instructions than those with.
    kinds = (
        {tuple(some)}
        if all(of_column.all() == any_of for of_column, any_of in zip(nulls, some, strict=True))
        else {tuple(some), *map(tuple, nulls.T.tolist())}
    )
    for flags in kinds:
        has_nulls = dict(zip(names, flags, strict=True)).__getitem__
        if probe(expression, plan.context, has_nulls, registers=BLOCK_REGISTERS, filters=True) is None:
            return False
    return True
