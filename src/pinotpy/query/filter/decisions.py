"""What build_scan decided about the filter, kept for EXPLAIN; a query that is only answered leaves no notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.index_choice import Choices
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.filter.tree import Known, Resolved, predicates_of
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.segment.data_source import Segment

BY_TEST: Final = 0  # an instruction of the scan
BY_RUN: Final = 1  # the morsel shrank to a run of docs of the sorted index
BY_LIST: Final = 2  # the morsel became a list of docs that an index gave


@dataclass(slots=True)
class PredicateDecisions:
    """One predicate: its mode in every segment before any index was used, and who answered it (BY_*)."""

    mode: Int64Array
    by: NDArray[np.int8]


@dataclass(slots=True)
class ScanNotes:
    """Filled by build_scan, stage by stage. Arrays have one entry for each of `segments`, those with docs.

    tree: the resolved filter, None if there is none.
    selects: segments that may select something.
    docs_to_read: docs (or positions in a list) that are left to read.
    choices: what indexes would have cost, and which were used.
    """

    segments: Sequence[Segment] = ()
    metas: ColumnMetas | None = None
    tree: Resolved | None = None
    facts: Known | None = None
    selects: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    docs_to_read: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    choices: Choices = field(default_factory=Choices)
    _predicates: dict[int, PredicateDecisions] = field(default_factory=dict)

    def resolved(
        self, metas: ColumnMetas, tree: Resolved | None, facts: Known | None, selects: NDArray[np.bool_]
    ) -> None:
        """The filter is resolved; no index was used yet."""
        self.segments, self.metas, self.tree, self.facts, self.selects = metas.segments, metas, tree, facts, selects
        for bound in predicates_of(tree) if tree is not None else ():
            self._predicates[id(bound)] = PredicateDecisions(bound.mode.copy(), np.zeros(len(bound.mode), np.int8))

    def used(self, by: int) -> None:
        """Predicates that need no test any more since the last stage were answered `by` an index."""
        for bound in predicates_of(self.tree) if self.tree is not None else ():
            notes = self._predicates[id(bound)]
            notes.by[(notes.mode == PREDICATE_RUN) & (bound.mode != PREDICATE_RUN) & (notes.by == BY_TEST)] = by

    def dealt(self, morsels: Int64Array) -> None:
        """What is left to read."""
        self.docs_to_read = np.zeros(len(self.segments), np.int64)
        np.add.at(self.docs_to_read, morsels[:, abi.U_SEGMENT], morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW])

    def of(self, bound: BoundPredicate | InterpretedPredicate) -> PredicateDecisions:
        """The notes of a predicate of `tree`."""
        return self._predicates[id(bound)]
