"""Percentiles of long scans whose answer is made here alone: the values of each group in runs
(kernels/aggregate/value_lists.py), of which only a few ranks are looked for (kernels/aggregate/rank_select.py), instead
of every distinct value with its count.

Taken for raw columns and expressions in few groups whose number is known before the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.kernels.aggregate import rank_select, ranks, value_lists
from pinotpy.kernels.aggregate.result_context import D_RUNS, G_ARENA, ResultContext
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import AggregationLayout, Layout
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.runtime.parallel import in_shares, run_workers

# Fewer values are sorted as fast; and where there are few, estimates are those of the whole multiset to the digit.
DOCS_MIN: Final = 1 << 18
GROUPS_MAX: Final = 1024
# Words of a run: about a quarter of what a group of the morsel can get.
RUN_WORDS_MIN, RUN_WORDS_MAX = 64, 2048
# Values of one step: some milliseconds.
_STEP_VALUES: Final = 1 << 21


def with_value_lists(plan: ScanPlan, layout: Layout, keys: Sequence[Key]) -> Layout:
    """The layout in which aggregations keep runs where that pays off."""
    if not pays_off(plan, layout) or groups_of_morsel(plan, keys) > GROUPS_MAX:
        return layout
    entries = tuple(
        [
            replace(entry, runs=True) if _looks_for_ranks(entry) and _is_raw(plan, entry) else entry
            for entry in layout.aggregations
        ]
    )
    return replace(layout, aggregations=entries)


def pays_off(plan: ScanPlan, layout: Layout) -> bool:
    """Whether some aggregation might keep runs."""
    if (
        not plan.is_final
        or plan.pre_aggregated
        or plan.context.options.num_groups_limit is not None
        or not any(_looks_for_ranks(entry) for entry in layout.aggregations)
    ):
        return False
    return int((plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).sum()) >= DOCS_MIN


def _looks_for_ranks(entry: AggregationLayout) -> bool:
    plan = entry.plan
    if not isinstance(plan, ValueSetPlan) or (plan.rank_of is None and plan.means_of is None) or entry.unnests:
        return False
    return (
        entry.argument.data_type is not None
        and entry.argument.data_type.stored.is_fixed
        and isinstance(entry.source, Identifier | Call)
    )


def _is_raw(plan: ScanPlan, entry: AggregationLayout) -> bool:
    return not isinstance(entry.source, Identifier) or bool(
        (plan.metas.of(entry.source.name)[:, abi.M_CARDINALITY] < 0).all()
    )


def groups_of_morsel(plan: ScanPlan, keys: Sequence[Key]) -> float:
    """At most so many groups are in one morsel; infinite where that is not known."""
    product: NDArray[np.float64] = np.ones(len(plan.segments))
    for key in keys:
        if not isinstance(key.expression, Identifier) or key.has_flag:
            return float("inf")
        meta = plan.metas.of(key.expression.name)
        if (meta[:, abi.M_CARDINALITY] < 0).any():
            return float("inf")
        product *= np.maximum(meta[:, abi.M_CARDINALITY] + key.nullable, 1)
    return float(product.max(initial=1))


def emit_frame(shape: Shape, entry: AggregationLayout, num_groups: Int64Array) -> None:
    """Begin and end instructions of one aggregation's runs; `num_groups` per morsel."""
    docs = shape.plan.segments.docs[shape.segments]
    sizes = np.clip(docs // np.maximum(4 * num_groups, 1), RUN_WORDS_MIN, RUN_WORDS_MAX)
    shape.begin(value_lists.begin_value_lists.address, entry.value_set, num_groups, sizes)
    shape.end(value_lists.end_value_lists.address, entry.value_set)


def emit_values(shape: Shape, entry: AggregationLayout, groups: int, values: int, skip: int) -> None:
    """Append the values of a register to the runs of their groups."""
    assert entry.argument.data_type is not None and isinstance(entry.plan, ValueSetPlan)
    kind = value_lists.LONGS
    if entry.argument.data_type.stored.is_floating:
        kind = value_lists.CAST_DOUBLES if entry.plan.as_longs else value_lists.DOUBLES
    shape.emit(value_lists.add_to_value_lists.address, groups, values, entry.value_set, skip, kind)


def collect_value_lists(
    plan: ScanPlan,
    entry: AggregationLayout,
    value_set: ValueSetPlan,
    threads: Sequence[tuple[Any, int]],
    groups: Int64Array,
    num_groups: int,
) -> list[pa.Array]:
    """State columns.

    Args:
        threads: (result context, number of the first row) of every thread.
        groups: group of every row of all threads.
    """
    assert entry.argument.data_type is not None
    doubles = entry.argument.data_type.stored.is_floating and not value_set.as_longs
    parts = []
    for context, first_row in threads:
        runs = context.vector(entry.value_set + D_RUNS).reshape(-1, value_lists.RUN_ENTRY_WORDS)
        parts.append(np.column_stack([groups[first_row + runs[:, 0]], runs[:, 1], runs[:, 2]]))
    entries = np.concatenate(parts)
    entries = entries[np.argsort(entries[:, 0], kind="stable")]
    of_groups, addresses, sizes = (np.ascontiguousarray(entries[:, i]) for i in range(3))
    search = _Search(plan, of_groups, addresses, sizes, num_groups)
    totals = search.totals
    seen = np.flatnonzero(totals)
    none = np.zeros(num_groups, np.int64)
    if value_set.means_of is not None:
        begin, middle, end = none.copy(), none.copy(), none.copy()
        begin[seen], middle[seen], end[seen] = value_set.means_of(totals[seen])
        means = np.zeros((num_groups, 2))

        def means_of(group: int, keys: Int64Array, counts: Int64Array, low: int, high: int) -> bool:
            inside, *means[group] = rank_select.pick_means(
                keys, counts, low, high, begin[group], middle[group], end[group], doubles
            )
            return bool(inside)

        search.run(begin, np.maximum(end, middle) - 1, means_of)
        values: NDArray[Any] = means[seen].reshape(-1)
        counts = np.column_stack([middle[seen], totals[seen] - middle[seen]]).reshape(-1)
        non_empty = np.flatnonzero(counts)
        return value_set.collect(
            np.repeat(seen, 2)[non_empty], pa.array(values[non_empty]), counts[non_empty], num_groups
        )
    assert value_set.rank_of is not None
    wanted, words = none.copy(), none.copy()
    wanted[seen] = value_set.rank_of(totals[seen])

    def rank_of(group: int, keys: Int64Array, counts: Int64Array, low: int, high: int) -> bool:
        inside, words[group] = rank_select.pick(keys, counts, low, high, wanted[group])
        return bool(inside)

    search.run(wanted, wanted, rank_of)
    bits = ranks.values_of_words(words[seen], doubles=doubles)
    return value_set.collect(
        seen, pa.array(bits.view(np.float64) if doubles else bits), np.ones(len(seen), np.int64), num_groups
    )


# (group, the words inside its bracket, its counts, the bracket's ends) → whether the bracket held what is looked for.
_Pick = Callable[[int, Int64Array, Int64Array, int, int], bool]


class _Search:
    """Runs of all groups, and ranks looked for in them."""

    def __init__(
        self, plan: ScanPlan, groups: Int64Array, addresses: Int64Array, sizes: Int64Array, num_groups: int
    ) -> None:
        self._plan, self._groups, self._addresses, self._sizes = plan, groups, addresses, sizes
        self._starts = groups.searchsorted(np.arange(num_groups + 1))
        before = np.concatenate([[0], np.cumsum(sizes)])
        self.totals: Int64Array = np.diff(before[self._starts])

    def run(self, first_ranks: Int64Array, last_ranks: Int64Array, pick: _Pick) -> None:
        """Give every group that has values what lies around these ranks."""
        lows, highs = np.empty_like(self.totals), np.empty_like(self.totals)
        rank_select.brackets(
            self._addresses, self._sizes, self._starts, self.totals, first_ranks, last_ranks, lows, highs
        )
        lows[self.totals == 0], highs[self.totals == 0] = 1, 0
        missed = self._read(lows, highs, pick)
        if missed:
            # The sample was unlucky: these are read again, and copied whole.
            whole, none = np.full_like(lows, np.iinfo(np.int64).min), np.full_like(highs, np.iinfo(np.int64).max)
            others = np.setdiff1d(np.arange(len(lows)), missed)
            whole[others], none[others] = 1, 0
            missed = self._read(whole, none, pick)
            assert not missed, "all words lie between the least and the greatest"

    def _read(self, lows: Int64Array, highs: Int64Array, pick: _Pick) -> list[int]:
        """Read the groups whose bracket is not empty; gives those that have to be read again."""
        plan, num_runs = self._plan, len(self._sizes)
        shares = np.concatenate([[0], np.cumsum(self._sizes)])
        num_workers = plan.num_threads if shares[-1] > _STEP_VALUES // 4 else 1
        borders = [
            *shares.searchsorted([shares[-1] * worker // num_workers for worker in range(num_workers)]).tolist(),
            num_runs,
        ]
        counts = np.zeros((num_workers, len(lows), rank_select.COUNT_WORDS), np.int64)
        contexts = [ResultContext(plan.control.words, 1) for _ in range(num_workers)]
        sizes = self._sizes.tolist()
        workers = []
        for worker, (low, high) in enumerate(pairwise(borders)):

            def work(
                first: int, last: int, words: Int64Array = contexts[worker].words, own: Int64Array = counts[worker]
            ) -> None:
                code = rank_select.count_and_copy(
                    words, self._addresses, self._sizes, self._groups, first, last, lows, highs, own
                )
                _check(plan, code)

            workers.append(in_shares(sizes, low, high, _STEP_VALUES, work))
        try:
            run_workers(plan, workers, in_turn=True)
            copies = [context.vector(G_ARENA) for context in contexts]
            ends = np.cumsum(counts[:, :, rank_select.INSIDE], axis=1)
            together = counts.sum(axis=0)
            missed = []
            for group in np.flatnonzero(lows <= highs).tolist():
                inside = [
                    copy[end[group] - own[group, rank_select.INSIDE] : end[group]]
                    for copy, end, own in zip(copies, ends, counts, strict=True)
                ]
                full = [part for part in inside if len(part)]
                keys = full[0] if len(full) == 1 else np.concatenate([np.empty(0, np.int64), *full])
                if not pick(group, keys, together[group], int(lows[group]), int(highs[group])):
                    missed.append(group)
            plan.control.check()
            return missed
        finally:
            for context in contexts:
                context.close()


def _check(plan: ScanPlan, code: int) -> None:
    """Raise for an error word of a kernel."""
    if code == abi.E_OK:
        return
    plan.control.check()
    if code == abi.E_CANCELLED:
        raise plan.control.cancelled_error()
    assert code == abi.E_MEMORY, f"unknown error word {code}"
    raise plan.control.memory_error()
