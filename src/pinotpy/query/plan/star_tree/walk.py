"""The plan of a query over star-trees: walk the nodes, read the records that they point to (the manual's "Query
Execution").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate import star_tree as kernels
from pinotpy.kernels.filter.planner import deal
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.planner import select_segments
from pinotpy.query.filter.tree import Resolved, ResolvedAll, conjuncts_of, emit_tree, predicates_of, take_segments
from pinotpy.query.model.context import QueryContext
from pinotpy.query.plan.build import DOCS_PER_THREAD_MIN, emit_filter
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.star_tree.choose import TreeShape, Wanted, num_rows, record_context
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.segment.star_tree.reader import StarTree

# Trees that are walked between two looks at the control: a tree takes microseconds, a million nodes a few milliseconds.
_WALKED_AT_ONCE: Final = 64
# A record costs as much as three rows: it is gathered from a list, and its sums are wide. So many are read in any case.
ROWS_PER_RECORD: Final = 3
RECORDS_FREE: Final = 1 << 17


def star_tree_scan(
    context: QueryContext,
    wanted: Wanted,
    shape: TreeShape,
    trees: SegmentSet,
    control: QueryControl,
    *,
    threads: int = 1,
    executor: Executor | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> ScanPlan | None:
    """The plan of a query over trees of one shape, which fit it; None where it would read so many records that the rows
    themselves are read faster.

    Raises: for literals and patterns what predicate.typed_predicate raises; what `control` raises.
    """
    asked = record_context(context)
    statistics = Statistics(num_segments_queried=len(trees))
    chosen = select_segments(context, trees, control)
    chosen.count(statistics)
    rows, trees, metas = chosen.selected, chosen.segments, chosen.metas
    tree = chosen.tree if chosen.has_filter and not chosen.selects_all else None
    if len(rows) < len(trees):
        taken = rows if len(rows) else np.zeros(1, np.int64)
        trees, tree = trees.take(taken), None if tree is None else take_segments(tree, taken)
        metas = ColumnMetas(trees)
    walked = np.arange(len(rows))
    walk = _Walk(shape, wanted, trees, tree)
    walked_docs = walk.run(walked, control)
    if walked_docs is None:
        return None
    docs, bounds, undecided = walked_docs
    morsels, starts = deal(_morsels(walked, docs, bounds), threads if executor is not None else 1, DOCS_PER_THREAD_MIN)
    program = Instructions()
    if tree is not None and undecided and len(morsels):
        emit_tree(tree, program, morsels[:, abi.U_SEGMENT], metas)
    return ScanPlan(
        context=asked,
        segments=trees,
        control=control,
        metas=metas,
        morsels=morsels,
        starts=starts,
        filter_program=program.assemble(len(morsels)),
        statistics=statistics,
        emit_filter=emit_filter,
        executor=executor,
        keep_alive=[chosen, tree, metas, docs, walk],
        dictionaries=dictionaries,
        is_final=is_final,
    )


def _morsels(segments: Int64Array, docs: NDArray[np.int32], bounds: Int64Array) -> Int64Array:
    """A morsel for each tree with records to read: docs[bounds[i] : bounds[i + 1]], ascending; a run where they follow
    each other.
    """
    morsels = np.zeros((len(segments), abi.MORSEL_WORDS), np.int64)
    low, high = bounds[:-1], bounds[1:]
    morsels[:, abi.U_SEGMENT], morsels[:, abi.U_LOW], morsels[:, abi.U_HIGH] = segments, low, high
    morsels[:, abi.U_LIST] = docs.ctypes.data
    non_empty = np.flatnonzero(low < high)
    first, last = docs[low[non_empty]].astype(np.int64), docs[high[non_empty] - 1].astype(np.int64)
    together = last - first + 1 == high[non_empty] - low[non_empty]
    runs = non_empty[together]
    morsels[runs, abi.U_LOW], morsels[runs, abi.U_HIGH], morsels[runs, abi.U_LIST] = (
        first[together],
        last[together] + 1,
        0,
    )
    return morsels[non_empty]


class _Walk:
    """What the query wants of each dimension, as words for kernels/aggregate/star_tree.py."""

    def __init__(self, shape: TreeShape, wanted: Wanted, trees: SegmentSet, tree: Resolved | None) -> None:
        self._trees = trees
        self._place = {name: place for place, name in enumerate(shape.dimensions)}
        self._needs = np.full((len(trees), len(shape.dimensions)), kernels.NEED_NOTHING, np.uint8)
        self._filtered = False  # a condition is tested on the records wherever the walk ends
        self._keep_alive: list[Any] = []
        for column in wanted.keys:
            self._needs[:, self._place[column]] = kernels.NEED_VALUES
        tests = [test for node in ([] if tree is None else _all_of(tree)) for test in self._tests_of(node)]
        self._tests, self._spans = self._sorted(tests)

    def run(self, rows: Int64Array, control: QueryControl) -> tuple[NDArray[np.int32], Int64Array, bool] | None:
        """(docs, bounds, undecided): the records of tree rows[i] are docs[bounds[i] : bounds[i + 1]], ascending;
        undecided: the filter is still to be tested on them. None for too many records.
        """
        parts, counts, undecided = [], [np.zeros(1, np.int64)], self._filtered
        records_allowed = max(num_rows(self._trees) // ROWS_PER_RECORD, RECORDS_FREE)
        for first in range(0, len(rows), _WALKED_AT_ONCE):
            control.check()
            some = rows[first : first + _WALKED_AT_ONCE]
            nodes = np.array([self._nodes(row) for row in some.tolist()], np.int64).reshape(-1, 2)
            offsets = np.empty(len(some) + 1, np.int64)
            runs, tested = kernels.walk_trees(nodes, self._needs[some], self._tests, self._spans[some], offsets)
            undecided |= bool(tested)
            owner = np.repeat(np.arange(len(some)), np.diff(offsets))
            # A tree's records are below 2^31.
            runs = runs[np.argsort((owner << 32) | runs[:, 0])]
            lengths = runs[:, 1] - runs[:, 0]
            records_allowed -= int(lengths.sum())
            if records_allowed < 0:
                return None
            control.reserve(int(lengths.sum()) * 4)
            docs = np.empty(int(lengths.sum()), np.int32)
            kernels.write_docs(runs, docs)
            parts.append(docs)
            counts.append(np.bincount(owner, lengths, len(some)).astype(np.int64))
        docs = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int32), *parts])
        return docs, np.cumsum(np.concatenate(counts)), undecided

    def _nodes(self, row: int) -> tuple[int, int]:
        tree = self._trees[row]
        assert isinstance(tree, StarTree)
        return tree.nodes_address, tree.metadata.num_nodes

    def _tests_of(self, node: Resolved) -> Iterator[Int64Array]:
        """Tests of one condition under AND, rows (tree, dimension, kind, negated, low, high). A condition over several
        columns makes none: its columns are kept apart and it is tested on the records.
        """
        if isinstance(node, BoundPredicate):
            yield from self._of_predicate(node)
            return
        bound_predicates = [bound for bound in predicates_of(node) if isinstance(bound, BoundPredicate)]
        running = [bound for bound in bound_predicates if bool((bound.mode == PREDICATE_RUN).any())]
        columns = {bound.typed.column for bound in running}
        if len(columns) == 1 and len(running) == len(bound_predicates):
            yield self._table(node, columns.pop(), bound_predicates[0])
            return
        self._filtered |= bool(running)
        for bound in running:
            place = self._place[bound.typed.column]
            rows = np.flatnonzero(bound.mode == PREDICATE_RUN)
            self._needs[rows, place] = np.maximum(self._needs[rows, place], kernels.NEED_VALUES)

    def _of_predicate(self, bound: BoundPredicate) -> Iterator[Int64Array]:
        running = bound.mode == PREDICATE_RUN
        ranged, listed = np.flatnonzero(running & bound.ranged), np.flatnonzero(running & ~bound.ranged)
        place = self._place[bound.typed.column]
        self._needs[running, place] = kernels.NEED_TESTS
        if len(ranged):
            yield _rows(ranged, place, kernels.TEST_RANGE, bound.negated, bound.ids[ranged, 0], bound.ids[ranged, 1])
        if len(listed):
            self._keep_alive.append(bound.members)
            addresses = bound.members.ctypes.data + 4 * bound.spans[listed, 0]
            yield _rows(
                listed,
                place,
                kernels.TEST_MEMBERS,
                bound.negated,
                addresses,
                bound.spans[listed, 1] - bound.spans[listed, 0],
            )

    def _table(self, node: Resolved, column: str, bound: BoundPredicate) -> Int64Array:
        """AND, OR and NOT over one column: which of its ids pass."""
        place = self._place[column]
        cardinalities = [self._trees[row].column(column).cardinality for row in range(len(self._trees))]
        tables = [_passing(node, row, cardinality) for row, cardinality in enumerate(cardinalities)]
        self._keep_alive.append(tables)
        self._needs[:, place] = kernels.NEED_TESTS
        everybody = np.arange(len(tables))
        addresses = np.array([table.ctypes.data for table in tables], np.int64)
        return _rows(everybody, place, kernels.TEST_TABLE, 0, addresses, np.array(cardinalities, np.int64))

    def _sorted(self, tests: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array]:
        num_trees, depth = self._needs.shape
        rows = np.concatenate([np.zeros((0, 6), np.int64), *tests])
        keys = rows[:, 0] * depth + rows[:, 1]
        order = np.argsort(keys, kind="stable")
        bounds = np.searchsorted(keys[order], np.arange(num_trees * depth + 1))
        spans = np.stack([bounds[:-1], bounds[1:]], axis=1).reshape(num_trees, depth, 2)
        return np.ascontiguousarray(rows[order, 2:]), np.ascontiguousarray(spans)


def _all_of(tree: Resolved) -> Iterator[Resolved]:
    for node in conjuncts_of(tree):
        if isinstance(node, ResolvedAll):
            yield from _all_of(node)
        else:
            yield node


def _rows(trees: Int64Array, place: int, kind: int, negated: int, low: Int64Array, high: Int64Array) -> Int64Array:
    same = np.ones(len(trees), np.int64)
    return np.column_stack([trees, same * place, same * kind, same * negated, low, high])


def _passing(node: Resolved, row: int, cardinality: int) -> NDArray[np.uint8]:
    """For each id of a dictionary whether the condition holds, uint8[cardinality]."""
    if not isinstance(node, BoundPredicate):
        assert hasattr(node, "children"), "expressions have no tree"
        parts = [_passing(child, row, cardinality) for child in node.children]
        joined: NDArray[np.uint8] = (
            np.logical_and.reduce(parts) if isinstance(node, ResolvedAll) else np.logical_or.reduce(parts)
        )
        return joined.astype(np.uint8)
    if node.mode[row] != PREDICATE_RUN:
        return np.full(cardinality, int(not node.never[row]), np.uint8)
    table = np.zeros(cardinality, np.uint8)
    if node.ranged[row]:
        table[node.ids[row, 0] : node.ids[row, 1]] = 1
    else:
        table[node.members[node.spans[row, 0] : node.spans[row, 1]]] = 1
    return table ^ np.uint8(node.negated)
