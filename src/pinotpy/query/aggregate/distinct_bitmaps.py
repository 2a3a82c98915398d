"""Distinct counts whose answer is made here alone, of columns with shared codes: a bit a value and group
(kernels/aggregate/distinct_bitmaps.py).

Taken where the bits of a morsel's groups are soon looked through, and the sets take no more memory than the ids of
their docs would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.kernels.aggregate import distinct_bitmaps
from pinotpy.kernels.aggregate.result_context import D_RUNS
from pinotpy.kernels.aggregate.value_lists import RUN_ENTRY_WORDS
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import AggregationLayout, Layout
from pinotpy.query.aggregate.value_lists import groups_of_morsel
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.plan.shared_codes import shared_codes
from pinotpy.query.runtime.parallel import in_shares, run_workers

DOCS_MIN: Final = 1 << 16
GROUPS_MAX: Final = 1 << 16
# Bytes of sets for every doc: a pair that is kept as it comes takes twice as much.
BYTES_PER_DOC: Final = 8
# Words of bits that all morsels look through, for every doc: a word is a fraction of what a pair costs that is kept as
# it comes.
WORDS_PER_DOC: Final = 4
_ID_BYTES: Final = 4
# Words of all sets that are united in one step.
_STEP_WORDS: Final = 1 << 22


def pays_off(plan: ScanPlan, layout: Layout) -> bool:
    """Whether some aggregation might keep bits."""
    if (
        not plan.is_final
        or plan.pre_aggregated
        or plan.num_morsels < 2
        or plan.context.options.num_groups_limit is not None
    ):
        return False
    return any(_is_counted(entry) for entry in layout.aggregations) and _num_docs(plan) >= DOCS_MIN


def with_bitmaps(plan: ScanPlan, layout: Layout, keys: Sequence[Key]) -> Layout:
    """The layout in which distinct counts keep bits where that pays off."""
    if not pays_off(plan, layout):
        return layout
    groups = groups_of_morsel(plan, keys)
    if groups > GROUPS_MAX:
        return layout
    num_docs = _num_docs(plan)
    allowed = min(float(num_docs * BYTES_PER_DOC), plan.control.share("distinct bitmaps"))
    words_left = num_docs * WORDS_PER_DOC
    entries = []
    for entry in layout.aggregations:
        if (
            _is_counted(entry)
            and isinstance(entry.source, Identifier)
            and bool((plan.metas.of(entry.source.name)[:, abi.M_CARDINALITY] >= 0).all())
        ):
            num_words = groups * _words_of_set(
                plan.metas.of(entry.source.name)[plan.morsels[:, abi.U_SEGMENT], abi.M_CARDINALITY]
            )
            looked_through = int(num_words.sum())
            # Bits while a thread reads a morsel, and ids, of which a doc has one at most.
            size_bytes = int(num_words.max()) * plan.num_threads * 8 + num_docs * _ID_BYTES
            if size_bytes <= allowed and looked_through <= words_left:
                ids = shared_codes(plan, entry.source.name)
                if ids is not None:
                    allowed, words_left = allowed - size_bytes, words_left - looked_through
                    entries.append(replace(entry, bits=ids))
                    continue
        entries.append(entry)
    return replace(layout, aggregations=tuple(entries))


def _is_counted(entry: AggregationLayout) -> bool:
    plan = entry.plan
    if not isinstance(plan, ValueSetPlan) or plan.count_state is None or plan.by_segment:
        return False
    return not entry.unnests and isinstance(entry.source, Identifier)


def count_dictionaries(plan: ScanPlan, name: str) -> int | None:
    """How many different values the dictionaries of a column in all segments of the plan hold; None without shared
    codes of them.
    """
    ids = shared_codes(plan, name)
    if ids is None or bool((ids.code_maps == 0).any()):
        return None
    cardinalities = np.ascontiguousarray(plan.metas.of(name)[:, abi.M_CARDINALITY])
    size_bytes = ids.num_ids * plan.num_threads
    plan.control.reserve(size_bytes)
    try:
        flags = np.zeros((plan.num_threads, ids.num_ids), np.uint8)
        before = np.cumsum(cardinalities)
        workers, first = [], 0
        for thread in range(plan.num_threads):
            last = int(
                before.searchsorted(
                    int(before[-1]) * (thread + 1) // plan.num_threads,
                    "right" if thread == plan.num_threads - 1 else "left",
                )
            )

            def work(low: int, high: int, own: NDArray[np.uint8] = flags[thread]) -> None:
                distinct_bitmaps.flag_ids(ids.code_maps, cardinalities, low, high, own)

            workers.append(in_shares(cardinalities.tolist(), first, last, _STEP_WORDS, work))
            first = last
        run_workers(plan, workers, in_turn=True)
        return int(distinct_bitmaps.count_flagged(flags))
    finally:
        plan.control.release(size_bytes)


def _num_docs(plan: ScanPlan) -> int:
    return int((plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]).sum())


def emit_frame(shape: Shape, entry: AggregationLayout, num_groups: Int64Array) -> None:
    """Begin and end instructions of one aggregation's sets; `num_groups` per morsel."""
    assert entry.bits is not None
    assert isinstance(entry.source, Identifier)
    cardinalities = shape.meta_word(entry.source.name, abi.M_CARDINALITY)
    shape.begin(distinct_bitmaps.begin_bitmaps.address, entry.value_set, num_groups, _words_of_set(cardinalities))
    shape.end(
        distinct_bitmaps.end_bitmaps.address, entry.value_set, entry.bits.code_maps[shape.segments], cardinalities
    )


def emit_ids(shape: Shape, entry: AggregationLayout, groups: int, ids: int, skip: int) -> None:
    """Set the bits of a register of dict ids."""
    shape.emit(distinct_bitmaps.add_to_bitmaps.address, groups, ids, entry.value_set, skip)


def _words_of_set(cardinalities: Int64Array) -> Int64Array:
    """int64 words of a bit for every dict id."""
    return (cardinalities >> 6) + 1


def collect_bitmaps(
    plan: ScanPlan,
    entry: AggregationLayout,
    value_set: ValueSetPlan,
    threads: Sequence[tuple[Any, int]],
    groups: Int64Array,
    num_groups: int,
) -> list[pa.Array]:
    """State columns: how many values each group has.

    Args:
        threads: (result context, number of the first row) of every thread.
        groups: group of every row of all threads.
    """
    assert entry.bits is not None and value_set.count_state is not None
    runs = [context.vector(entry.value_set + D_RUNS).reshape(-1, RUN_ENTRY_WORDS) for context, _ in threads]
    of_sets = np.concatenate([groups[first + own[:, 0]] for own, (_, first) in zip(runs, threads, strict=True)])
    order = np.argsort(of_sets, kind="stable")
    addresses, sizes = (np.concatenate([own[:, word] for own in runs])[order] for word in (1, 2))
    starts = of_sets[order].searchsorted(np.arange(num_groups + 1))
    num_words = (entry.bits.num_ids >> 6) + 1
    num_workers = plan.num_threads if len(addresses) * num_words > _STEP_WORDS // 4 else 1
    counts = np.zeros((num_workers, num_groups), np.int64)
    # A step is a stretch of words of all sets.
    stretch = max(_STEP_WORDS // max(len(addresses), 1), 1)
    borders = [*range(0, num_words, stretch), num_words]
    workers = []
    for worker in range(num_workers):
        low, high = ((len(borders) - 1) * (worker + i) // num_workers for i in (0, 1))

        def work(first: int, last: int, own: Int64Array = counts[worker]) -> None:
            distinct_bitmaps.count_distinct(addresses, sizes, starts, borders[first], borders[last], own)

        workers.append(in_shares([1] * (len(borders) - 1), low, high, 1, work))
    run_workers(plan, workers, in_turn=True)
    return value_set.count_state(counts.sum(axis=0))
