"""Conditions over expressions that kernels compute: a predicate with a program of its own
(kernels/filter/expression_predicate.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.filter import expression_predicate
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import fetch
from pinotpy.query.expression.compiler import BlockCompiler
from pinotpy.query.expression.conditions import filter_vector
from pinotpy.query.expression.vectors import NEVER, Probe, Unsupported, Vector
from pinotpy.query.filter.interpreted import ConditionOnDocs, InterpretedPredicate
from pinotpy.query.filter.normal_form import Computed
from pinotpy.query.model.context import Filter, QueryContext
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions, Word
from pinotpy.query.segments.column_metas import ColumnMetas

_NO_COLUMN: Final = np.zeros(abi.META_WORDS, np.int64)
# Price per doc beside the predicates of bind.py, for which a test of ids is 1: of a predicate's own mask, and of each
# of its instructions. Measured: `a * 2.275 + b > 210` of raw columns (three instructions) takes four times as long as a
# test of ids of a byte.
_PREDICATE_COST, _INSTRUCTION_COST = 1.0, 0.75


@dataclass(slots=True)
class CompiledPredicate(InterpretedPredicate):
    """A predicate over an expression as a predicate among the others: negation and nulls are inside its program."""

    @property
    def is_late(self) -> bool:
        return False

    def compute(self, segment: int, metas: ColumnMetas, control: QueryControl, low: int, high: int) -> int:
        """Nothing: the scan computes."""
        return 0


class _PredicateTarget:
    """Instructions of a predicate, for all segments alike; registers are those behind the select section's."""

    def __init__(self, metas: ColumnMetas) -> None:
        self.program = Instructions()
        self.kept: list[Any] = []
        self._metas = metas
        self._free = list(range(abi.NUM_REGISTERS + abi.NUM_PREDICATE_REGISTERS - 1, abi.NUM_REGISTERS - 1, -1))

    def allocate(self) -> int:
        return self._free.pop()

    def release(self, register: int) -> None:
        assert register not in self._free
        self._free.append(register)

    def emit(self, function: int, *args: Word) -> None:
        self.program.append(function, args)

    def fetch(self, column: str) -> tuple[int, bool]:
        register = self.allocate()
        self.emit(fetch.fetch_values.address, register, self._metas.addresses(column), 0)
        return register, True

    def holds(self, column: str) -> bool:
        return False

    def meta(self, column: str) -> Word:
        return self._metas.addresses(column)

    def within_doubles(self, column: str) -> bool:
        return self._metas.within_doubles(column)

    def fetch_nulls(self, column: str) -> tuple[int, bool] | None:
        if not _has_nulls(self._metas, column):
            return None
        register = self.allocate()
        self.emit(fetch.fetch_nulls.address, register, self._metas.addresses(column))
        return register, True

    def fetch_filter(self, condition: Filter) -> tuple[int, bool]:
        raise Unsupported

    def keep(self, array: NDArray[Any]) -> int:
        self.kept.append(array)
        return int(array.ctypes.data)


def _has_nulls(metas: ColumnMetas, column: str) -> bool:
    return bool((metas.of(column)[:, abi.M_NULLS] != 0).any())


def compiled_predicate(condition: Computed, context: QueryContext, metas: ColumnMetas) -> CompiledPredicate | None:
    """The predicate of a condition; None if it is none for blocks. Raises what types of expressions and literals
    raise.
    """
    dry = Probe(lambda name: _has_nulls(metas, name), filters=False)
    try:
        if _compile(condition, BlockCompiler(context, dry)).is_constant or dry.most > abi.NUM_PREDICATE_REGISTERS:
            return None
    except Unsupported:
        return None
    target = _PredicateTarget(metas)
    vector = _compile(condition, BlockCompiler(context, target))
    n = len(metas.segments)
    program = target.program.assemble(n)
    tests = np.zeros((n, 4), np.int64)
    tests[:, 0] = program.ctypes.data + np.arange(n, dtype=np.int64) * program.strides[0]
    tests[:, 1], tests[:, 2], tests[:, 3] = len(target.program), vector.register, vector.nulls
    return CompiledPredicate(
        condition=condition,
        on_docs=ConditionOnDocs(condition, context),
        meta=np.full(n, _NO_COLUMN.ctypes.data, np.int64),
        mode=np.full(n, PREDICATE_RUN, np.int64),
        function=np.full(n, expression_predicate.expression_test.address, np.int64),
        flags=np.full(n, abi.I_PREDICATE, np.int64),
        tests=tests,
        cost=_PREDICATE_COST + _INSTRUCTION_COST * len(target.program),
        keep_alive=[program, target.kept],
    )


def _compile(condition: Computed, compiler: BlockCompiler) -> Vector:
    """Flags in a register where the condition is true (if negated, false), and a register of flags where it is unknown
    or NEVER.
    """
    vector = filter_vector(compiler, condition.condition)
    if condition.negated:
        vector = compiler.ops.invert(vector)
    vector = compiler.ops.materialized(vector)
    assert vector.nulls >= NEVER
    return vector
