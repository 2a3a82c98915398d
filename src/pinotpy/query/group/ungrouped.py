"""Aggregations without GROUP BY: from metadata or dictionaries where that answers them, else by a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.functions.state.plans import SketchPlan, ValueSetPlan
from pinotpy.kernels.aggregate.result_context import ResultContext
from pinotpy.kernels.group import direct_table
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate import distinct_bitmaps, value_lists
from pinotpy.query.aggregate.arena_rows import arena_rows
from pinotpy.query.aggregate.collect import collect_states
from pinotpy.query.aggregate.emit import NO_REGISTER, emit_updates, emit_value_set_frame
from pinotpy.query.aggregate.layout import (
    AggregationLayout,
    Layout,
    make_layout,
    projected_columns,
    state_columns,
    values_bound,
)
from pinotpy.query.aggregate.sketches import sketches_of_dictionaries
from pinotpy.query.aggregate.value_sets import united_dictionaries
from pinotpy.query.group.small_result import SmallResult, small_result_of
from pinotpy.query.plan.instruction_cache import Prepared, prepare
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.selection_list import materialize_selection
from pinotpy.query.project.computed_columns import calls_of, with_computed_columns
from pinotpy.query.project.sources import Sources
from pinotpy.query.project.text_codes import TextCodes, code_texts, has_text_codes
from pinotpy.query.result.merge_memory import merged_bytes
from pinotpy.query.result.partial import PartialResult
from pinotpy.segment.data_source import Column

# Fewer values of dictionaries are united by Arrow's hash tables.
_DEDUPLICATED_VALUES_MIN: Final = 1 << 16
# Dictionaries of fewer bytes are merged together.
_MERGED_BYTES_MIN: Final = 16 << 20


def run_aggregation(plan: ScanPlan) -> PartialResult:
    """One row of states; no rows if nothing matched. Raises what functions and limits raise."""
    ready = prepare(plan, _make_shared, calls_of)
    if ready is not None and (
        value_lists.pays_off(plan, ready.made.layout) or distinct_bitmaps.pays_off(plan, ready.made.layout)
    ):
        ready = None
    layout = make_layout(plan) if ready is None else ready.made.layout
    known = known_sources(plan, layout)
    if known is not None:
        states = state_columns(layout, [_known_states(plan, entry) for entry in layout.aggregations])
        plan.statistics.num_docs_scanned += plan.segments.total_docs
        plan.statistics.matched(plan.segments.counted())
        are_counts = all(entry.function.name == "count" for entry in layout.aggregations)
        if not are_counts and known != {"dictionaries"}:
            # The reference reads values but for COUNTs alone and dictionaries alone, as its counters tell.
            num_read = len(projected_columns(plan.context))
            plan.statistics.num_entries_scanned_post_filter += plan.segments.total_docs * num_read
        return PartialResult(pa.table(states), plan.statistics)
    if ready is None and any(_counts_texts(plan, entry) for entry in layout.aggregations):
        return _scan_and_texts(plan, layout)
    return _scan(plan, ready)


def known_sources(plan: ScanPlan, layout: Layout) -> set[str] | None:
    """What gives the states of all aggregations without a scan, of "metadata" and "dictionaries"; None: some are only
    given by a scan, or not every doc counts.
    """
    if not plan.reads_all_rows or not plan.segments:
        return None
    sources = set()
    for entry in layout.aggregations:
        source = _known_from(plan, entry)
        if source is None:
            return None
        sources.add(source)
    return sources


def _known_from(plan: ScanPlan, entry: AggregationLayout) -> str | None:
    function, source = entry.function, entry.source
    if entry.flagged:
        return None
    if function.name == "count":
        return "metadata"
    is_read_off = function.dictionary_only or (isinstance(entry.plan, SketchPlan) and not plan.pre_aggregated)
    if not isinstance(source, Identifier) or not (is_read_off or function.extremes_only):
        return None
    columns = [segment.column(source.name) for segment in plan.segments]
    if is_read_off and all(column.dictionary is not None for column in columns):
        return "dictionaries"
    if function.extremes_only and all(_extremes(column) is not None for column in columns if column.num_docs):
        return "metadata"
    return None


def _known_states(plan: ScanPlan, entry: AggregationLayout) -> list[pa.Array]:
    """Of an aggregation that is among those with `known_sources`."""
    if entry.function.name == "count":
        return [pa.array([plan.segments.total_docs], pa.int64())]
    assert isinstance(entry.source, Identifier)
    if isinstance(entry.plan, SketchPlan):
        return sketches_of_dictionaries(plan, entry, entry.plan)
    columns = [segment.column(entry.source.name) for segment in plan.segments]
    if entry.function.extremes_only and columns[0].data_type.stored.is_fixed:
        values = [value for column in columns if column.num_docs for value in _extremes(column) or ()]
        if not values:
            return entry.function.nothing_seen(entry.argument)
        extremes = np.array([min(values), max(values)], columns[0].data_type.stored.numpy)
        return entry.function.from_dictionary(pa.array(extremes))
    counted = _counted_by_ids(plan, entry, columns)
    if counted is not None:
        return counted
    dictionaries = [column.dictionary for column in columns if column.dictionary is not None and column.num_docs]
    if _is_large_set(entry, columns):
        assert isinstance(entry.plan, ValueSetPlan)
        return united_dictionaries(plan, entry.plan, [dictionary.values() for dictionary in dictionaries])
    return _states_of_dictionaries(plan, entry, [dictionary.arrow() for dictionary in dictionaries])


def _extremes(column: Column) -> tuple[Any, Any] | None:
    """The least and the greatest number of a column that has docs; None: they are not known."""
    if not column.data_type.stored.is_fixed:
        return None  # texts may be cut
    dictionary = column.dictionary
    if dictionary is not None:
        return dictionary.value(0), dictionary.value(dictionary.cardinality - 1)
    if column.min_value is None or column.max_value is None:
        return None
    return column.min_value, column.max_value


def _states_of_dictionaries(plan: ScanPlan, entry: AggregationLayout, dictionaries: list[pa.Array]) -> list[pa.Array]:
    """The states of dictionaries, merged by value: as often as what waits is more than what is merged, so that values
    that all segments have are not held once a segment. Raises MemoryLimitError.
    """
    if not dictionaries:
        return entry.function.nothing_seen(entry.argument)
    merged: list[pa.Array] = []
    waiting: list[pa.Array] = []
    waiting_bytes = 0
    for number, dictionary in enumerate(dictionaries, 1):
        waiting.append(dictionary)
        waiting_bytes += dictionary.nbytes
        if number < len(dictionaries) and waiting_bytes <= max(_MERGED_BYTES_MIN, _num_bytes(merged)):
            continue
        merged = _with_dictionaries(plan, entry, merged, waiting)
        waiting, waiting_bytes = [], 0
    return merged


def _with_dictionaries(
    plan: ScanPlan, entry: AggregationLayout, merged: list[pa.Array], dictionaries: list[pa.Array]
) -> list[pa.Array]:
    """One row of states with the values of more dictionaries in it; the merge is charged to the query while it lasts,
    what becomes of it until the query ends.
    """
    plan.control.check()
    size_bytes = 0
    if isinstance(entry.plan, ValueSetPlan):  # others read the first or last value
        num_bytes = _num_bytes([*merged, *dictionaries])
        sets = [state for state in merged if pa.types.is_list(state.type)]
        size_bytes = merged_bytes(num_bytes, sum(map(len, [*dictionaries, *(state.values for state in sets)])))
    try:
        plan.control.reserve(size_bytes)
        rows = [merged] if merged else []
        rows += [entry.function.from_dictionary(dictionary) for dictionary in dictionaries]
        together = [pa.concat_arrays([row[i] for row in rows]) for i in range(len(rows[0]))]
        states = entry.function.merge(together, np.zeros(len(rows), np.int64), 1)
    finally:
        plan.control.release(size_bytes)
    plan.control.release(_num_bytes(merged))
    plan.control.reserve(_num_bytes(states))
    return states


def _num_bytes(arrays: Sequence[pa.Array]) -> int:
    return sum(array.nbytes for array in arrays)


def _counted_by_ids(plan: ScanPlan, entry: AggregationLayout, columns: Sequence[Column]) -> list[pa.Array] | None:
    """The state of a distinct count of an answer that is made here alone, of many values that are numbered for all
    segments.
    """
    if (
        not plan.is_final
        or not isinstance(entry.plan, ValueSetPlan)
        or entry.plan.count_state is None
        or entry.plan.by_segment
    ):
        return None
    assert isinstance(entry.source, Identifier)
    if sum(column.cardinality for column in columns) <= _DEDUPLICATED_VALUES_MIN:
        return None
    count = distinct_bitmaps.count_dictionaries(plan, entry.source.name)
    return None if count is None else entry.plan.count_state(np.array([count], np.int64))


def _is_large_set(entry: AggregationLayout, columns: Sequence[Column]) -> bool:
    """Whether sets of numbers are united, so many that kernels are worth it."""
    if (
        not isinstance(entry.plan, ValueSetPlan)
        or entry.plan.assemble is None
        or entry.plan.by_segment
        or not columns[0].data_type.stored.is_fixed
    ):
        return False
    return sum(column.cardinality for column in columns if column.num_docs) > _DEDUPLICATED_VALUES_MIN


@dataclass(frozen=True, slots=True)
class _Made:
    """What a scan needs beside its instructions."""

    layout: Layout
    sources: Sources
    num_read: int
    few: SmallResult | None = None


def _make_shared(plan: ScanPlan) -> _Made:
    """What queries of one shape share."""
    made = _make(plan)
    return replace(made, few=small_result_of(plan, made.layout, []))


def _make(plan: ScanPlan) -> _Made:
    """Emit into the plan's shapes."""
    layout = make_layout(plan)
    layout = distinct_bitmaps.with_bitmaps(plan, value_lists.with_value_lists(plan, layout, ()), ())
    sources = Sources(plan)
    for shape in plan.shapes(projected_columns(plan.context)):
        shape.begin(direct_table.begin_dense.address, 1, 0)
        emit_updates(shape, layout, NO_REGISTER, sources)
        shape.end(direct_table.end_dense.address)
        emit_value_set_frame(shape, layout, np.ones(shape.num_morsels, np.int64))
        shape.end(direct_table.clear_dense.address)
    return _Made(layout, sources, len(projected_columns(plan.context)))


def _counts_texts(plan: ScanPlan, entry: AggregationLayout) -> bool:
    """Whether only the distinct texts of a raw column matter to an aggregation: no doc needs to know which is its
    own.
    """
    if (
        not isinstance(entry.plan, ValueSetPlan)
        or entry.plan.counted
        or entry.plan.by_segment
        or entry.flagged
        or plan.pre_aggregated
    ):
        return False
    read = np.unique(plan.morsels[:, abi.U_SEGMENT]).tolist()
    source = entry.source
    return (
        isinstance(source, Identifier)
        and len(read) > 0
        and all(has_text_codes(plan, segment, source.name) for segment in read)
    )


def _scan_and_texts(plan: ScanPlan, layout: Layout) -> PartialResult:
    """The states of those that count texts, put beside a scan of the others."""
    context, all_read = plan.context, len(projected_columns(plan.context))
    plan = plan if plan.reads_all_rows else materialize_selection(plan)
    others = [index for index, entry in enumerate(layout.aggregations) if not _counts_texts(plan, entry)]
    rest = replace(
        plan, context=replace(context, aggregations=tuple([context.aggregations[index] for index in others]))
    )
    partial = _scan(rest, None)
    if partial.rows is None:
        return partial
    partial.statistics.num_entries_scanned_post_filter += partial.statistics.num_docs_scanned * (
        all_read - len(projected_columns(rest.context))
    )
    numbers: dict[str, TextCodes] = {}
    states = []
    for index, entry in enumerate(layout.aggregations):
        if index in others:
            place = others.index(index)
            states.append(
                [
                    partial.rows.column(f"a{place}_{field.name}").combine_chunks()
                    for field in entry.function.state_fields(entry.argument)
                ]
            )
            continue
        assert isinstance(entry.source, Identifier) and isinstance(entry.plan, ValueSetPlan)
        if entry.source.name not in numbers:
            numbers[entry.source.name] = code_texts(
                plan, entry.source.name, np.unique(plan.morsels[:, abi.U_SEGMENT]).tolist(), with_ids=False
            )
        states.append(_state_of_texts(entry.plan, numbers[entry.source.name], is_final=plan.is_final))
    return PartialResult(pa.table(state_columns(layout, states)), partial.statistics)


def _state_of_texts(plan: ValueSetPlan, numbers: TextCodes, *, is_final: bool) -> list[pa.Array]:
    if plan.count_state is not None and is_final:
        return plan.count_state(np.array([numbers.count], np.int64))
    values, none = numbers.values(numbers.all_ids()), np.empty(0, np.int64)
    if plan.assemble is not None:
        return plan.assemble(np.array([0, len(values)], np.int64), values, none)
    return plan.collect(np.zeros(len(values), np.int64), values, none, 1)


def _scan(plan: ScanPlan, ready: Prepared[_Made] | None) -> PartialResult:
    if ready is None:
        num_read = len(projected_columns(plan.context))
        plan = with_computed_columns(plan)
        made, numbers = _make(plan), None
    else:
        made, numbers = ready.made, ready.bind(plan)
        num_read = made.num_read
    layout, sources = made.layout, made.sources
    control = plan.control.words

    def make_context(thread: int) -> tuple[int, ResultContext]:
        context = ResultContext(control, layout.row_words, 0, layout.num_value_sets)
        return context.address, context

    contexts = plan.run(make_context, gathers=True)
    statistics = plan.statistics
    statistics.num_entries_scanned_post_filter += statistics.num_docs_scanned * num_read
    if made.few is not None and numbers is not None:
        few = made.few.rows(layout, contexts, numbers)
        for context in contexts:
            context.close()
        return PartialResult(few, statistics)
    threads = arena_rows(contexts, numbers)
    num_rows = sum(len(thread.rows) for thread in threads)
    if num_rows == 0:
        return PartialResult(None, statistics)
    everybody = np.zeros(num_rows, np.int64)
    states = collect_states(layout, threads, 0, everybody, 1, sources, values_bound(plan, layout, ()), plan)
    for context in contexts:
        context.close()
    return PartialResult(pa.table(states), statistics)
