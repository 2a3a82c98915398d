"""Conditions over expressions, computed in Python: on a dictionary's values where one column decides, else doc by doc.

Under AND they see only docs that the rest of the filter has let through (plan/selection_list.py). Elsewhere (inside OR)
they are predicates whose flags of docs are computed before the scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import MemoryLimitError, QueryExecutionError
from pinotpy.kernels.filter import predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression
from pinotpy.query.expression.interpreter import Rows, condition_mask
from pinotpy.query.expression.rows import dictionary_rows, segment_rows
from pinotpy.query.filter.normal_form import Computed
from pinotpy.query.model.context import And, Constant, Filter, Not, Or, Predicate, QueryContext
from pinotpy.query.model.result_types import columns_in, is_constant
from pinotpy.query.runtime.batches import batches
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.on_dictionary import deciding_column
from pinotpy.segment.data_source import Segment

# A dictionary is computed as a whole if it has at most so many values for each doc asked about.
_VALUES_PER_DOC: Final = 4
_NO_COLUMN = np.zeros(abi.META_WORDS, np.int64)


def condition_expressions(condition: Filter) -> list[Expression]:
    """What a condition compares."""
    if isinstance(condition, Constant):
        return []
    if isinstance(condition, Not):
        return condition_expressions(condition.child)
    if isinstance(condition, And | Or):
        return [expression for child in condition.children for expression in condition_expressions(child)]
    return [condition.lhs if isinstance(condition, Predicate) else condition.expression]


def condition_columns(condition: Filter) -> list[str]:
    """Names of the columns that a condition reads."""
    return [name for expression in condition_expressions(condition) for name in columns_in(expression)]


class ConditionOnDocs:
    """A condition as flags of docs, uint8: 1 where it is true (or, if negated, false) of the doc."""

    def __init__(self, condition: Computed, context: QueryContext) -> None:
        self._condition, self._context = condition, context
        self._columns = condition_columns(condition.condition)
        self._by_value = all(map(is_constant, condition_expressions(condition.condition)))
        # By identity of the segment: flags by dict id, and the docs' ids; None: the dictionary has values that the
        # condition cannot take.
        self._by_id: dict[int, tuple[NDArray[np.uint8], NDArray[Any]] | None] = {}

    def __call__(self, segment: Segment, docs: Int64Array, control: QueryControl) -> NDArray[np.uint8]:
        column = deciding_column(self._columns, segment, strict=False) if self._by_value else None
        if column is not None and (id(segment) in self._by_id or column.cardinality <= _VALUES_PER_DOC * len(docs)):
            if id(segment) not in self._by_id:
                try:
                    flags = self._flags(
                        column.cardinality,
                        lambda first, end: dictionary_rows(self._context, column, first, end),
                        control,
                    )
                    self._by_id[id(segment)] = flags, column.ids()
                except MemoryLimitError:
                    raise
                except QueryExecutionError:
                    self._by_id[id(segment)] = None  # perhaps no doc that is asked about has the value at fault
            known = self._by_id[id(segment)]
            if known is not None:
                passes: NDArray[np.uint8] = known[0][known[1][docs]]
                return passes
        return self._flags(len(docs), lambda first, end: segment_rows(self._context, segment, docs[first:end]), control)

    def _flags(self, count: int, rows: Callable[[int, int], Rows], control: QueryControl) -> NDArray[np.uint8]:
        flags = np.zeros(count, np.uint8)
        for first, end in batches(count, control):
            flags[first:end] = condition_mask(
                self._condition.condition, rows(first, end), negated=self._condition.negated
            )
        return flags


@dataclass(slots=True)
class InterpretedPredicate:
    """Like bound_predicate.BoundPredicate, of a predicate over an expression: always to be run, negation and nulls
    inside its flags.
    """

    condition: Computed
    on_docs: ConditionOnDocs
    meta: Int64Array
    mode: Int64Array
    function: Int64Array
    flags: Int64Array
    tests: Int64Array
    nulls: int = 0
    negated: int = 0
    cost: float = 0.2
    selectivity: float = 0.5
    keep_alive: list[Any] = field(default_factory=list)

    @property
    def mode_of_test(self) -> Int64Array:
        """PREDICATE_RUN everywhere: no index answers it."""
        return self.mode

    @property
    def is_late(self) -> bool:
        """Under AND it is computed when all other predicates are known."""
        return True

    def compute(self, segment: int, metas: ColumnMetas, control: QueryControl, low: int, high: int) -> int:
        """Flags of docs [low, high) of a segment; gives the number of docs read."""
        source = metas.segments[segment]
        mask = np.zeros(source.num_docs, np.uint8)
        mask[low:high] = self.on_docs(source, np.arange(low, high), control)
        self.keep_alive.append(mask)
        self.tests[segment, 0], self.tests[segment, 1] = mask.ctypes.data, len(mask)
        return high - low

    def take(self, rows: Int64Array) -> InterpretedPredicate:
        """The predicate in the segments at `rows`."""
        return replace(
            self,
            meta=self.meta[rows],
            mode=self.mode[rows],
            function=self.function[rows],
            flags=self.flags[rows],
            tests=self.tests[rows],
        )


def interpreted_predicate(condition: Computed, context: QueryContext, metas: ColumnMetas) -> InterpretedPredicate:
    """The predicate, its flags not computed yet."""
    n = len(metas.segments)
    return InterpretedPredicate(
        condition=condition,
        on_docs=ConditionOnDocs(condition, context),
        meta=np.full(n, _NO_COLUMN.ctypes.data, np.int64),
        mode=np.full(n, PREDICATE_RUN, np.int64),
        function=np.full(n, predicates.doc_flags.address, np.int64),
        flags=np.full(n, abi.I_PREDICATE, np.int64),
        tests=np.zeros((n, 4), np.int64),
    )
