"""SELECT of rows: without ORDER BY the first docs that match, in doc order; with it the docs that sort first.

With ORDER BY two ways: where all sort keys are columns, kernels keep the best rows while they scan (top_n.py); other
keys are evaluated outside the kernels in batches of selected docs, of which only the best so far are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.kernels.order import collect_rows
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Dialect, Expression
from pinotpy.query.model.context import AggregationRef
from pinotpy.query.model.result_types import result_type
from pinotpy.query.order.top_n import find_top_rows, keeps_top_rows
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.compact_rows_of import selected_rows
from pinotpy.query.project.rows import columns_of, evaluate_rows, rows_table
from pinotpy.query.result.combine import sort_columns
from pinotpy.query.result.ordering import SortKey, order_indices
from pinotpy.query.result.partial import PartialResult

BATCH_DOCS: Final = 1 << 16


def run_selection(plan: ScanPlan) -> PartialResult:
    """Rows o0.. and s0.., sorted and cut to offset + limit.

    Raises: InvalidQueryError for ORDER BY of multi-values; what expressions and the control raise.
    """
    context = plan.context
    outputs = [_plain(column.expression) for column in context.output]
    keys = [_plain(by.expression) for by in context.order_by]
    wanted = context.offset + context.limit
    if not keys:
        morsels, docs = _first_docs(plan, wanted)
        plan.statistics.num_entries_scanned_post_filter += len(docs) * len(columns_of(outputs))
    else:
        _check_keys(plan, keys)
        morsels, docs = _top_docs(plan, keys, wanted)
    names, expressions = [f"o{i}" for i in range(len(outputs))], list(outputs)
    for name, key in zip(sort_columns(context), keys, strict=True):
        if name not in names:
            names.append(name)
            expressions.append(key)
    rows = selected_rows(plan, names, expressions, morsels, docs) or rows_table(
        plan, names, expressions, evaluate_rows(plan, morsels, docs, expressions)
    )
    return PartialResult(rows, plan.statistics)


def _plain(expression: Expression | AggregationRef) -> Expression:
    assert not isinstance(expression, AggregationRef), "a selection has no aggregations"
    return expression


def _check_keys(plan: ScanPlan, keys: Sequence[Expression]) -> None:
    for key in keys:
        if not result_type(key, plan.context).single_value:
            error = QueryExecutionError if plan.context.dialect is Dialect.PQL else InvalidQueryError
            raise error(f"ORDER BY needs single values: '{getattr(key, 'name', key)}' is a multi-value column")


# --- without ORDER BY ----------------------------------------------------------------------------------------------


class Collector:
    """Docs that a thread collected: the first `wanted`, or all of them batch by batch (wanted 0)."""

    def __init__(self, capacity: int, wanted: int) -> None:
        self.words = np.zeros(collect_rows.COLLECTOR_WORDS, np.int64)
        self.morsels, self.docs = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        self.words[collect_rows.CW_CAPACITY], self.words[collect_rows.CW_WANTED] = capacity, wanted
        self.words[collect_rows.CW_MORSELS], self.words[collect_rows.CW_DOCS] = (
            self.morsels.ctypes.data,
            self.docs.ctypes.data,
        )

    def take(self) -> tuple[Int64Array, Int64Array]:
        """What was collected since the last take: morsels and docs."""
        count = int(self.words[collect_rows.CW_COUNT])
        self.words[collect_rows.CW_COUNT] = 0
        return self.morsels[:count].astype(np.int64), self.docs[:count].astype(np.int64)


def _first_docs(plan: ScanPlan, wanted: int) -> tuple[Int64Array, Int64Array]:
    if wanted == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    for shape in plan.shapes():
        shape.emit(collect_rows.collect_docs.address)

    def make_context(thread: int) -> tuple[int, Collector]:
        morsels = plan.morsels[plan.starts[thread] : plan.starts[thread + 1]]
        capacity = min(wanted, int((morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]).sum()))
        plan.control.reserve(capacity * 8)
        collector = Collector(capacity, wanted)
        return collector.words.ctypes.data, collector

    taken = [collector.take() for collector in plan.run(make_context)]
    morsels, docs = (
        np.concatenate([part[0] for part in taken])[:wanted],
        np.concatenate([part[1] for part in taken])[:wanted],
    )
    plan.statistics.num_docs_scanned = len(docs)
    return morsels, docs


# --- with ORDER BY --------------------------------------------------------------------------------------------------


class SortWay(StrEnum):
    """How the docs that sort first are found."""

    ROWS = "best rows"  # kept by each thread while it scans
    BATCHES = "batches"  # sort keys evaluated outside the kernels


def way_to_sort(plan: ScanPlan, keys: Sequence[Expression]) -> SortWay:
    """The fastest way that these sort keys allow."""
    return SortWay.ROWS if keeps_top_rows(plan, keys) else SortWay.BATCHES


def _top_docs(plan: ScanPlan, keys: Sequence[Expression], wanted: int) -> tuple[Int64Array, Int64Array]:
    if wanted == 0:
        morsels, docs = np.zeros(0, np.int64), np.zeros(0, np.int64)
    elif way_to_sort(plan, keys) is SortWay.ROWS:
        morsels, docs = find_top_rows(plan, wanted)
    else:
        morsels, docs = _best(plan, *_in_batches(plan, keys, wanted), keys, wanted)
    _count_post_filter(plan, keys, wanted)
    return morsels, docs


def _best(
    plan: ScanPlan, morsels: Int64Array, docs: Int64Array, keys: Sequence[Expression], wanted: int
) -> tuple[Int64Array, Int64Array]:
    # Ascending (morsel, doc) in, so that equal rows keep the order of docs.
    values = evaluate_rows(plan, morsels, docs, keys)
    order = order_indices(
        [SortKey(v, by.ascending, by.nulls_last) for v, by in zip(values, plan.context.order_by, strict=True)],
        len(docs),
        wanted,
    )
    return morsels[order], docs[order]


class _BatchSorter:
    """Collects docs and keeps the best so far, a batch at a time."""

    def __init__(self, plan: ScanPlan, keys: Sequence[Expression], wanted: int) -> None:
        self.collector = Collector(BATCH_DOCS + abi.BLOCK, 0)
        self.morsels, self.docs = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._plan, self._keys, self._wanted = plan, keys, wanted

    def flush(self) -> None:
        morsels, docs = self.collector.take()
        morsels, docs = np.concatenate([self.morsels, morsels]), np.concatenate([self.docs, docs])
        order = np.lexsort((docs, morsels))
        best_morsels, best_docs = _best(self._plan, morsels[order], docs[order], self._keys, self._wanted)
        self.morsels, self.docs = best_morsels, best_docs


def _in_batches(plan: ScanPlan, keys: Sequence[Expression], wanted: int) -> tuple[Int64Array, Int64Array]:
    for shape in plan.shapes():
        shape.emit(collect_rows.collect_docs.address)

    def make_context(_thread: int) -> tuple[int, _BatchSorter]:
        sorter = _BatchSorter(plan, keys, wanted)
        return sorter.collector.words.ctypes.data, sorter

    contexts = plan.run(make_context, on_flush=_BatchSorter.flush)
    for sorter in contexts:
        sorter.flush()
    morsels, docs = np.concatenate([s.morsels for s in contexts]), np.concatenate([s.docs for s in contexts])
    order = np.lexsort((docs, morsels))
    return morsels[order], docs[order]


def _count_post_filter(plan: ScanPlan, keys: Sequence[Expression], wanted: int) -> None:
    """The reference's counters (pql-live §6): all docs for the sort keys and one more, the rest for kept rows only."""
    outputs, sorted_by = columns_of([_plain(column.expression) for column in plan.context.output]), columns_of(keys)
    docs = plan.statistics.num_docs_scanned
    if outputs <= sorted_by:
        plan.statistics.num_entries_scanned_post_filter += docs * len(sorted_by)
        return
    per_segment = np.zeros(len(plan.segments), np.int64)
    np.add.at(per_segment, plan.morsels[:, abi.U_SEGMENT], plan.morsels[:, abi.U_SELECTED])
    num_rows = int(np.minimum(per_segment, wanted).sum())
    plan.statistics.num_entries_scanned_post_filter += docs * (len(sorted_by) + 1) + num_rows * len(outputs - sorted_by)
