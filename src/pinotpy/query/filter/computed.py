"""Legs over expressions: computed in Python, segment by segment, before the scan; to the scan they are flags of docs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels import abi, filters
from pinotpy.kernels.legs import LEG_RUN
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.context import QueryContext
from pinotpy.query.control import QueryControl
from pinotpy.query.expression import condition_mask
from pinotpy.query.filter.normal_form import Computed

_BATCH = 1 << 16
_NO_COLUMN = np.zeros(abi.META_WORDS, np.int64)


@dataclass(slots=True)
class ComputedLeg:
    """Like resolve.ResolvedLeg, of a predicate over an expression: always to be run, negation and nulls inside its flags."""

    condition: Computed
    context: QueryContext
    meta: NDArray[np.int64]
    mode: NDArray[np.int64]
    function: NDArray[np.int64]
    flags: NDArray[np.int64]
    tests: NDArray[np.int64]
    nulls: int = 0
    negated: int = 0
    cost: float = 0.2
    selectivity: float = 0.5
    keep_alive: list[Any] = field(default_factory=list)

    def compute(self, segment: int, metas: ColumnMetas, control: QueryControl, low: int, high: int) -> int:
        """Flags of docs [low, high) of a segment; gives the number of docs read."""
        source = metas.segments[segment]
        mask = np.zeros(source.num_docs, np.uint8)
        for first in range(low, high, _BATCH):
            control.check()
            docs = np.arange(first, min(first + _BATCH, high))
            mask[first : first + len(docs)] = condition_mask(self.condition.condition, self.context, source, docs, negated=self.condition.negated)
        self.keep_alive.append(mask)
        self.tests[segment, 0], self.tests[segment, 1] = mask.ctypes.data, len(mask)
        return high - low


def computed_leg(condition: Computed, context: QueryContext, metas: ColumnMetas) -> ComputedLeg:
    """The leg, its flags not computed yet."""
    n = len(metas.segments)
    return ComputedLeg(
        condition=condition,
        context=context,
        meta=np.full(n, _NO_COLUMN.ctypes.data, np.int64),
        mode=np.full(n, LEG_RUN, np.int64),
        function=np.full(n, filters.doc_flags.address, np.int64),
        flags=np.full(n, abi.I_LEG, np.int64),
        tests=np.zeros((n, 4), np.int64),
    )
