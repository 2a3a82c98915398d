"""Aggregations that read rows: the scan notes which docs each group has, then their arguments are read block by block,
on all threads of the query, and the states of the blocks are merged in the order of segments and docs.

What is kept of a doc is 16 bytes, whatever the arguments are; a block holds their values for BLOCK_ROWS rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.state.plans import RowPlan
from pinotpy.kernels.aggregate import distinct_pairs
from pinotpy.kernels.aggregate.result_context import D_ARENA
from pinotpy.kernels.runtime import abi
from pinotpy.query.aggregate.distinct_rows import count_rows
from pinotpy.query.aggregate.layout import AggregationLayout
from pinotpy.query.expression.rows import segment_rows
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.rows import evaluate_rows
from pinotpy.query.runtime.parallel import run_pieces

BLOCK_ROWS: Final = 1 << 17
# Blocks are merged when their states have so many rows more than there are groups.
_STATES_MAX: Final = 1 << 20
_DOC_DIGITS: Final = 10
# What a value of a list takes when it becomes part of an answer, beside its bytes.
_LIST_VALUE_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class _Block:
    """A RowBlock (functions/state/plans.py). `plan`: its null handling is that of the arguments."""

    plan: ScanPlan
    entry: AggregationLayout
    rows: Int64Array
    morsels: Int64Array
    docs: Int64Array

    @property
    def has_nulls(self) -> bool:
        return self.plan.context.null_handling

    def argument(self, index: int, positions: Int64Array | None = None) -> pa.Array:
        morsels, docs = (
            (self.morsels, self.docs) if positions is None else (self.morsels[positions], self.docs[positions])
        )
        expression = self.entry.aggregation.args[index]
        first, last = (int(self.plan.morsels[self.morsels[end], abi.U_SEGMENT]) for end in (0, -1))
        if first == last and len(docs):  # blocks are in the order of segments
            return segment_rows(self.plan.context, self.plan.segments[first], docs).evaluate(expression)
        return evaluate_rows(self.plan, morsels, docs, [expression])[0]

    def places(self, positions: Int64Array) -> pa.Array:
        segments = self.plan.morsels[self.morsels[positions], abi.U_SEGMENT]
        used, where = np.unique(segments, return_inverse=True)
        names = pa.array([self.plan.segments[segment].name for segment in used.tolist()], pa.string()).take(
            pa.array(where)
        )
        first_docs = np.array([self.plan.segments[segment].first_doc for segment in used.tolist()], np.int64)
        docs = self.docs[positions] + first_docs.take(where)
        return pc.binary_join_element_wise(
            names, pc.utf8_lpad(pa.array(docs).cast(pa.string()), _DOC_DIGITS, "0"), "\0"
        )


def collect_rows(
    plan: ScanPlan,
    entry: AggregationLayout,
    row_plan: RowPlan,
    threads: Sequence[tuple[Any, Int64Array, int]],
    groups: Int64Array,
    num_groups: int,
) -> list[pa.Array]:
    """State columns of an aggregation that reads rows.

    Args:
        threads: (result context, morsel of each arena row, number of the first row) of every thread.
        groups: group of every row of all threads.

    Raises: MemoryLimitError; QueryExecutionError for more text than Arrow holds; what arguments and the control raise.
    """
    waiting: list[Callable[[], tuple[Int64Array, list[pa.Array]]]] = []
    blocks: list[Callable[[], _Block]] = []
    counts = row_plan.counts_different and plan.is_final
    for context, morsels, first in threads:
        entries = context.vector(entry.value_set + D_ARENA).reshape(-1, distinct_pairs.ENTRY_WORDS)
        borders = [*range(0, len(entries), BLOCK_ROWS), len(entries)]
        for low, high in pairwise(borders):
            group_numbers = groups[first : first + len(morsels)]
            if counts:
                blocks.append(partial(_block_of, plan, entry, entries[low:high], morsels, group_numbers))
            else:
                waiting.append(
                    partial(_states_of, plan, entry, row_plan, entries[low:high], morsels, group_numbers, num_groups)
                )
    if counts:
        return count_rows(plan, blocks, 1 + len(entry.argument.further), num_groups)
    empty = [pa.array([], field.type) for field in entry.function.state_fields(entry.argument)]
    merging = _Merging(plan, entry, num_groups, empty)
    for begin in range(0, len(waiting), plan.num_threads * 4):
        merging.add(_run(plan, waiting[begin : begin + plan.num_threads * 4]))
    try:
        return merging.merged()
    except pa.ArrowInvalid as error:
        raise QueryExecutionError(
            f"the values of {entry.aggregation.name} are more than an answer holds: select fewer rows ({error})"
        ) from error
    finally:
        merging.release()


def _block_of(
    plan: ScanPlan, entry: AggregationLayout, entries: Int64Array, morsels: Int64Array, groups: Int64Array
) -> _Block:
    """Some rows, with their groups as numbers."""
    rows = entries[:, 0] >> distinct_pairs.ROW_SHIFT
    return _Block(plan, entry, groups[rows], morsels[rows], np.ascontiguousarray(entries[:, 1]))


def _states_of(
    plan: ScanPlan,
    entry: AggregationLayout,
    row_plan: RowPlan,
    entries: Int64Array,
    morsels: Int64Array,
    groups: Int64Array,
    num_groups: int,
) -> Any:
    plan.control.check()
    rows = entries[:, 0] >> distinct_pairs.ROW_SHIFT
    present, numbers = _numbered(groups[rows], num_groups)
    block = _Block(plan, entry, numbers, morsels[rows], np.ascontiguousarray(entries[:, 1]))
    return present, row_plan.collect(block, len(present))


def _numbered(groups: Int64Array, num_groups: int) -> tuple[Int64Array, Int64Array]:
    """The groups that there are, ascending, and the number of each among them."""
    if num_groups > 4 * len(groups) + 64:
        return np.unique(groups, return_inverse=True)
    seen = np.zeros(num_groups, np.bool_)
    seen[groups] = True
    present = np.flatnonzero(seen)
    if len(present) == num_groups:
        return present, groups
    numbers = np.cumsum(seen) - 1
    return present, numbers[groups]


def _run(
    plan: ScanPlan, jobs: Sequence[Callable[[], tuple[Int64Array, list[pa.Array]]]]
) -> list[tuple[Int64Array, list[pa.Array]]]:
    results: list[tuple[Int64Array, list[pa.Array]] | None] = [None] * len(jobs)

    def work(index: int) -> None:
        results[index] = jobs[index]()

    run_pieces(plan, [partial(work, index) for index in range(len(jobs))])
    return [one for one in results if one is not None]


class _Merging:
    """States of blocks, put together by group; their memory is the query's."""

    def __init__(self, plan: ScanPlan, entry: AggregationLayout, num_groups: int, empty: list[pa.Array]) -> None:
        self._plan, self._entry, self._num_groups, self._empty = plan, entry, num_groups, empty
        self._parts: list[tuple[Int64Array, list[pa.Array]]] = []
        self._reserved_bytes = self._num_states = 0

    def add(self, parts: Sequence[tuple[Int64Array, list[pa.Array]]]) -> None:
        """Take the states of blocks that follow those taken before."""
        for present, states in parts:
            # Merging makes a copy.
            size_bytes = 2 * sum(_size_bytes(state) for state in states)
            self._reserved_bytes += size_bytes
            self._plan.control.reserve(size_bytes)
            self._parts.append((present, states))
            self._num_states += len(present)
        if self._num_states > self._num_groups + _STATES_MAX:
            states = self.merged()
            self.release()
            self._parts, self._num_states = [], 0
            self.add([(np.arange(self._num_groups, dtype=np.int64), states)])

    def merged(self) -> list[pa.Array]:
        """The state columns, a row a group."""
        self._plan.control.check()
        if len(self._parts) == 1 and len(self._parts[0][0]) == self._num_groups:
            return self._parts[0][1]
        groups = np.concatenate([np.empty(0, np.int64), *(present for present, _ in self._parts)])
        columns = [
            pa.concat_arrays([empty, *(states[i] for _, states in self._parts)]) for i, empty in enumerate(self._empty)
        ]
        return self._entry.function.merge(columns, groups, self._num_groups)

    def release(self) -> None:
        """Give back the memory."""
        self._plan.control.release(self._reserved_bytes)
        self._reserved_bytes = 0


def _size_bytes(state: pa.Array) -> int:
    more = len(state.values) * _LIST_VALUE_BYTES if pa.types.is_list(state.type) else 0
    return int(state.nbytes) + more
