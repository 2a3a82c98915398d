"""Narrowing a plan to lists of docs: what a filter selects, found once, so that everything after it reads just those
docs.

Conditions that only Python can compute, and expressions that are grouped or aggregated, are evaluated on docs that the
rest of the filter has let through, never on others: `WHERE kind = 'a' AND cast(text, 'INT') > 5` must not fail on the
text of a 'b'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.order import collect_rows
from pinotpy.kernels.runtime import abi
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.runtime.batches import BATCH_DOCS
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.data_source import Segment

# (segment, its docs, the query's control) → uint8 flags, 1 = the doc stays.
Condition = Callable[[Segment, Int64Array, QueryControl], "NDArray[np.uint8]"]


class _Collected:
    """Docs that one thread let through, in pieces of one morsel each."""

    def __init__(self, plan: ScanPlan, conditions: Sequence[Condition], wanted: int | None) -> None:
        capacity = BATCH_DOCS + abi.BLOCK
        self.words = np.zeros(collect_rows.COLLECTOR_WORDS, np.int64)
        self._morsels, self._docs = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        self.words[collect_rows.CW_CAPACITY] = capacity
        self.words[collect_rows.CW_MORSELS], self.words[collect_rows.CW_DOCS] = (
            self._morsels.ctypes.data,
            self._docs.ctypes.data,
        )
        self._plan, self._conditions, self._wanted = plan, conditions, wanted
        self._kept = 0
        self.pieces: list[tuple[int, NDArray[np.int32]]] = []
        self.entries = 0

    def flush(self) -> None:
        """Take what was collected, and keep what the conditions let through."""
        count = int(self.words[collect_rows.CW_COUNT])
        self.words[collect_rows.CW_COUNT] = 0
        morsels, docs = self._morsels[:count], self._docs[:count]
        bounds = [
            *np.flatnonzero(np.diff(morsels, prepend=-1)).tolist(),
            count,
        ]  # of morsels; nothing collected is no morsel
        for first, end in pairwise(bounds):
            self._plan.control.check()
            morsel, passing = int(morsels[first]), docs[first:end].astype(np.int64)
            for condition in self._conditions:
                self.entries += len(passing)
                passing = passing[
                    condition(self._plan.morsel_segment(morsel), passing, self._plan.control).view(np.bool_)
                ]
                if not len(passing):
                    break
            if len(passing):
                self._plan.control.reserve(len(passing) * 4)
                self.pieces.append((morsel, passing.astype(np.int32)))
                self._kept += len(passing)
        if self._wanted is not None and self._kept >= self._wanted:
            self.words[collect_rows.CW_WANTED] = 1  # the collector stops at the next doc


def materialize_selection(
    plan: ScanPlan, conditions: Sequence[Condition] = (), *, wanted: int | None = None
) -> ScanPlan:
    """A plan whose morsels are lists of the docs that `plan` selects and all `conditions` keep, without filter
    instructions.

    Args:
        wanted: so many docs of each thread are enough, the first ones.

    The counters of the filter are in its statistics; docs count as scanned when the new plan runs.
    Raises: what conditions raise, and what the control raises.
    """
    for shape in plan.shapes():
        shape.emit(collect_rows.collect_docs.address)

    def make_context(_thread: int) -> tuple[int, _Collected]:
        collected = _Collected(plan, conditions, wanted)
        return collected.words.ctypes.data, collected

    statistics = replace(plan.statistics)
    contexts = plan.run(make_context, on_flush=_Collected.flush)
    lists: list[list[NDArray[np.int32]]] = [[] for _ in range(plan.num_morsels)]
    for collected in contexts:
        collected.flush()
        for morsel, docs in collected.pieces:
            lists[morsel].append(docs)
    statistics.num_entries_scanned_in_filter = plan.statistics.num_entries_scanned_in_filter + sum(
        c.entries for c in contexts
    )
    return _list_plan(replace(plan, statistics=statistics), lists)


def _list_plan(plan: ScanPlan, lists: list[list[NDArray[np.int32]]]) -> ScanPlan:
    # A morsel keeps its thread, so that what is computed in segment order stays in that order.
    threads = plan.morsel_threads()
    non_empty = [number for number, pieces in enumerate(lists) if pieces]
    listed = [np.concatenate(lists[number]) for number in non_empty]
    morsels = np.zeros((len(non_empty), abi.MORSEL_WORDS), np.int64)
    morsels[:, abi.U_SEGMENT] = plan.morsels[non_empty, abi.U_SEGMENT]
    morsels[:, abi.U_LIST] = [docs.ctypes.data for docs in listed]
    morsels[:, abi.U_HIGH] = [len(docs) for docs in listed]
    starts = np.searchsorted(threads[non_empty], np.arange(plan.num_threads + 1))
    # Every doc of a list stays: no instructions.
    program = np.zeros((len(morsels), 0, abi.INSTRUCTION_WORDS), np.int64)
    return replace(
        plan,
        morsels=morsels,
        starts=starts,
        filter_program=program,
        reads_all_rows=False,
        listed=listed,
        keep_alive=[plan],
        _sections=[],
        _programs=[],
    )
