"""GROUP BY: per morsel a dense table over packed keys of dict ids, or a hashed one; then rows of equal keys are added
up by value. One group a distinct combination of key values; null is a value of its own under null handling; a doc
counts once for every value of a multi-value key column.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.functions.state.plans import SlotPlan, Values
from pinotpy.kernels.aggregate.result_context import G_CUT_ROWS, G_LIMIT, ResultContext
from pinotpy.kernels.group import direct_table, hash_table, merge_rows
from pinotpy.kernels.runtime import abi
from pinotpy.query.aggregate import distinct_bitmaps, value_lists
from pinotpy.query.aggregate.arena_rows import arena_rows
from pinotpy.query.aggregate.emit import NO_REGISTER, emit_updates, emit_value_set_frame
from pinotpy.query.aggregate.keys import Key, make_keys
from pinotpy.query.aggregate.layout import Layout, make_layout, projected_columns
from pinotpy.query.group.choose import Choice, Small, choose, packed_keys_are_few, rows_left, small_result
from pinotpy.query.group.hash_table import ThreadHashTable, make_hash_table
from pinotpy.query.group.merge_by_value import column_bytes, expanded_columns, merge_by_value
from pinotpy.query.group.radix_partition import RadixPartitionedTable, make_radix_partitioned
from pinotpy.query.group.shared_direct_table import SharedDirectTable, make_shared_direct_table, null_fetch
from pinotpy.query.group.small_result import SmallResult
from pinotpy.query.group.text_direct_table import TextDirectTable, make_text_direct_table
from pinotpy.query.group.top_n_groups import needed_groups, rankings
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan.instruction_cache import is_shared, plan_of_set, prepare
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.plan.star_tree.choose import num_rows as rows_of_records
from pinotpy.query.project.computed_columns import calls_of, with_computed_columns
from pinotpy.query.project.sources import Source, Sources, fetch_ids, fetch_values
from pinotpy.query.result.combine import limit_groups
from pinotpy.query.result.compact_rows import CompactRows
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl

_Table = TextDirectTable | SharedDirectTable | ThreadHashTable | RadixPartitionedTable


@dataclass(frozen=True, slots=True)
class _Made:
    """What a scan of groups needs beside its instructions; `key_words` of all keys together."""

    layout: Layout
    keys: list[Key]
    key_words: int
    sources: Sources
    num_read: int
    small: SmallResult | None = None
    rows_left: float = math.inf  # by one morsel of each segment together, and by the largest of them
    morsel_rows_left: float = math.inf

    def most_rows(self, num_threads: int) -> float:
        """Morsels of so many threads leave no more rows than this, however they are dealt."""
        return self.rows_left + (num_threads - 1) * self.morsel_rows_left


@dataclass(frozen=True, slots=True)
class _Basis:
    """What the choice of a method goes by, beside the plan."""

    layout: Layout
    keys: list[Key]
    small: Small
    most_rows: float = math.inf


def run_group_by(plan: ScanPlan) -> PartialResult:
    """Rows of k<i> and states, one a group, no particular order. Raises what functions and limits raise."""
    ready = prepare(plan, _make, calls_of)
    num_read = len(projected_columns(plan.context)) if ready is None else ready.made.num_read
    if ready is None:
        asked, plan = plan, with_computed_columns(plan)
        basis = _basis_of_set(plan) if plan is asked else _Basis(make_layout(plan), make_keys(plan), lambda: None)
    else:
        made = ready.made
        basis = _Basis(made.layout, made.keys, lambda: made.small, made.most_rows(plan.num_threads))
    keys = basis.keys
    layout, choice = _chosen(plan, basis)
    _note(plan.control, choice)
    table = _table_of(choice, plan, layout, keys)
    # Prepared instructions have no table of a thread, no states but those of the layout, and room for all groups.
    is_limited = plan.context.options.num_groups_limit is not None
    if ready is not None and table is None and layout is basis.layout and not is_limited:
        made, numbers = ready.made, ready.bind(plan)
    else:
        made, numbers = _emitted(plan, layout, make_keys(plan), table), None
    key_words = made.key_words if table is None or isinstance(table, SharedDirectTable) else 1
    control, limit = plan.control.words, plan.context.options.num_groups_limit

    def make_context(thread: int) -> tuple[int, ResultContext]:
        context = ResultContext(control, layout.row_words, key_words, layout.num_value_sets)
        context.words[G_LIMIT] = limit or 0
        return context.address, context

    contexts = plan.run(
        make_context, on_flush=table.on_flush if isinstance(table, RadixPartitionedTable) else None, gathers=True
    )
    plan.statistics.num_entries_scanned_post_filter += plan.statistics.num_docs_scanned * num_read
    rows: pa.Table | CompactRows | None
    num_rows = None
    if choice.method is GroupingMethod.SMALL_RESULT:
        plan.control.check()
        small = basis.small()
        assert small is not None
        rows = small.rows(layout, contexts, _rows_of_set(plan) if numbers is None else numbers)
    elif table is None:
        rows, num_rows = merge_by_value(plan, layout, made.keys, key_words, arena_rows(contexts, numbers), made.sources)
    else:
        if isinstance(table, RadixPartitionedTable):
            orders = rankings(plan.context, layout) if plan.is_final else None
            merged = table.merged(contexts, orders[0] if orders is not None and len(orders) == 1 else None)
        else:
            merged = table.merged(layout, contexts)
        needed = needed_groups(plan.context, layout, merged) if plan.is_final else None
        chosen = merged.all_rows() if needed is None else needed
        plan.control.reserve(column_bytes(layout, len(keys), len(chosen)))
        rows = merged.partial_rows(layout, chosen)
        num_rows = merged.num_rows() if plan.context.options.num_groups_limit is not None else None
    cut_rows = sum(int(context.words[G_CUT_ROWS]) for context in contexts)
    if cut_rows and plan.pre_aggregated:
        cut_rows = rows_of_records(plan.segments)  # these were records, of many rows each
    for context in contexts:
        context.close()
    plan.statistics.num_groups_limit_reached |= cut_rows > 0
    plan.statistics.num_rows_of_cut_groups += cut_rows
    partial = PartialResult(rows, plan.statistics)
    limit_groups(plan.context, partial, num_rows)
    return partial


def explain_choice(plan: ScanPlan) -> Choice | None:
    """The method that a query takes, chosen as it chooses; None where its expressions are computed first, for the docs
    that are left. Makes shared codes, as the query would.
    """
    if calls_of(plan):
        return None
    return _chosen(plan, _basis_of_set(plan))[1]


def _chosen(plan: ScanPlan, basis: _Basis) -> tuple[Layout, Choice]:
    """The layout with bitmaps and lists of values where they pay off, and the method."""
    keys = basis.keys
    layout = distinct_bitmaps.with_bitmaps(plan, value_lists.with_value_lists(plan, basis.layout, keys), keys)
    return layout, choose(plan, layout, keys, basis.small, basis.most_rows)


def _basis_of_set(plan: ScanPlan) -> _Basis:
    """Layout and keys over all segments of the plan's set: those that prepared instructions would have."""
    whole = plan.segments.whole
    # Segments that are older than a column get it for the queries that read them (execute.py): the others of the set
    # lack it.
    has_all = all(whole.has_column(column.name) for column in plan.context.columns)
    of_set = plan_of_set(plan.context, whole if has_all else plan.segments)
    layout, keys = make_layout(of_set), make_keys(of_set)
    if not has_all or not is_shared(plan.context, whole):
        return _Basis(layout, keys, lambda: None)
    return _Basis(layout, keys, functools.cache(lambda: small_result(of_set, layout, keys)))


def _rows_of_set(plan: ScanPlan) -> Int64Array:
    """int64[morsels]: the row of each morsel's segment in the plan's set."""
    segments, rows = plan.morsels[:, abi.U_SEGMENT], plan.segments.rows_of_whole
    return np.ascontiguousarray(segments if rows is None else rows[segments])


def _note(control: QueryControl, choice: Choice) -> None:
    """Tell whoever watches the query by which method its groups are found."""
    control.grouping_methods.append(choice.method.value)
    if control.trace is not None:
        methods = ", ".join(dict.fromkeys(control.grouping_methods))
        control.trace.current.note(groupingMethod=methods, groupingWhy=choice.why)


def _table_of(choice: Choice, plan: ScanPlan, layout: Layout, keys: list[Key]) -> _Table | None:
    """The table that groups of all morsels go to; None where each morsel has its own."""
    match choice.method:
        case GroupingMethod.TEXT_DIRECT_TABLE:
            return make_text_direct_table(plan, keys)
        case GroupingMethod.DIRECT_TABLE:
            assert choice.codes is not None
            return make_shared_direct_table(plan, layout, keys, choice.codes)
        case GroupingMethod.HASH_TABLE:
            return make_hash_table(plan, keys, choice.codes)
        case GroupingMethod.RADIX_PARTITION:
            return make_radix_partitioned(plan, layout, make_hash_table(plan, keys, choice.codes))
    return None


def _make(plan: ScanPlan) -> _Made:
    """Emit into the plan's shapes what queries of one shape share."""
    made = _emitted(plan, make_layout(plan), make_keys(plan), None)
    rows, morsel_rows = rows_left(plan, made.keys)
    return replace(made, small=small_result(plan, made.layout, made.keys), rows_left=rows, morsel_rows_left=morsel_rows)


def _emitted(plan: ScanPlan, layout: Layout, keys: list[Key], table: _Table | None) -> _Made:
    sources = Sources(plan)
    for shape in plan.shapes(projected_columns(plan.context)):
        _emit(shape, layout, keys, sources, table)
    return _Made(layout, keys, sum(1 + key.has_flag for key in keys), sources, len(projected_columns(plan.context)))


# --- instructions --------------------------------------------------------------------------------------------------


def _emit(shape: Shape, layout: Layout, keys: list[Key], sources: Sources, table: _Table | None) -> None:
    # A column that DISTINCT names twice has one value in both places, as in GROUP BY.
    for name in expanded_columns(keys):
        shape.expand(name)
    key_sources = [sources.of(shape, key.expression) for key in keys]
    for key, source in zip(keys, key_sources, strict=True):
        key.metas[shape.morsels] = source.metas if source.by_id else 0
    sizes = table_sizes(shape, keys, key_sources, is_bounded=not isinstance(table, SharedDirectTable))
    if isinstance(table, RadixPartitionedTable):
        table.emit(shape, key_sources, sources)
        return
    if isinstance(table, ThreadHashTable | TextDirectTable):
        emit_updates(shape, layout, table.emit(shape, key_sources), sources)
        return
    if table is not None:
        assert sizes is not None, "shared codes are codes of dictionaries"
        table.begin(shape)
    num_groups = None if sizes is None else sizes.prod(axis=1)
    register = (
        _emit_hashed(shape, keys, key_sources)
        if sizes is None or num_groups is None
        else _emit_dense(shape, keys, key_sources, sizes, num_groups)
    )
    emit_updates(shape, layout, register, sources)
    if table is not None:
        numbered = _has_doubles(layout)
        table.end(shape, numbered=numbered)
        if numbered:
            shape.end(direct_table.clear_dense.address)
        return
    shape.end(hash_table.end_hashed.address if sizes is None else direct_table.end_dense.address)
    emit_value_set_frame(shape, layout, num_groups)
    shape.end(hash_table.clear_hashed.address if sizes is None else direct_table.clear_dense.address)


def _has_doubles(layout: Layout) -> bool:
    """Whether sums of doubles may leave parts aside that name the rows of their groups."""
    return any(
        isinstance(entry.plan, SlotPlan) and any(update.values is Values.DOUBLE for update in entry.plan.updates)
        for entry in layout.aggregations
    )


def table_sizes(
    shape: Shape, keys: list[Key], key_sources: list[Source], *, is_bounded: bool = True
) -> Int64Array | None:
    """int64[morsels, key words]: ids of each key word (1 for flags); None if the table must be hashed, or, where it
    `is_bounded`, is better hashed.
    """
    if not all(source.by_id for source in key_sources):
        return None
    sizes = []
    for key, source in zip(keys, key_sources, strict=True):
        sizes.append(_cardinalities(source) + (key.nullable and source.has_nulls))
        if key.has_flag:
            sizes.append(np.ones(shape.num_morsels, np.int64))
    table = np.maximum(np.column_stack(sizes), 1)
    product = table.astype(np.float64).prod(axis=1)
    limit = shape.plan.context.options.num_groups_limit
    if is_bounded and not packed_keys_are_few(
        float(product.max()), float(product.sum()), shape.plan.segments.docs[shape.segments], limit
    ):
        return None
    return table


def _cardinalities(source: Source) -> Int64Array:
    words: Int64Array = merge_rows.meta_words(source.metas, abi.M_CARDINALITY)
    return words


def _emit_dense(
    shape: Shape, keys: list[Key], key_sources: list[Source], sizes: Int64Array, num_groups: Int64Array
) -> int:
    sizes = np.ascontiguousarray(sizes)
    shape.plan.keep_alive.append(sizes)
    shape.begin(
        direct_table.begin_dense.address,
        num_groups,
        sizes.ctypes.data + np.arange(shape.num_morsels) * sizes.strides[0],
    )
    register, used = NO_REGISTER, set[int]()
    for key, source in zip(keys, key_sources, strict=True):
        ids, nulls = fetch_ids(shape, source), null_fetch(shape, key, source)
        used |= {ids, nulls}
        if key is not keys[0]:
            shape.emit(direct_table.next_key.address, register, ids, nulls, _cardinalities(source), sizes[:, key.word])
        elif len(keys) == 1 and nulls < 0:
            register = ids
        else:
            register = shape.allocate()
            shape.emit(direct_table.first_key.address, register, ids, nulls, _cardinalities(source))
    if num_groups.max() > direct_table.TOUCH_ALL_GROUPS:
        shape.emit(direct_table.touch.address, register)
    _release(shape, used - {register})
    return register


def _emit_hashed(shape: Shape, keys: list[Key], key_sources: list[Source]) -> int:
    shape.begin(hash_table.begin_hashed.address)
    used = set[int]()
    for key, source in zip(keys, key_sources, strict=True):
        if source.by_id:
            ids, nulls = fetch_ids(shape, source), null_fetch(shape, key, source)
            shape.emit(hash_table.key_ids.address, ids, key.word, nulls, _cardinalities(source), int(key.has_flag))
            used |= {ids, nulls}
        else:
            values, nulls = fetch_values(shape, source), null_fetch(shape, key, source)
            used |= {values, nulls}
            shape.emit(
                hash_table.key_values.address,
                values,
                key.word,
                nulls,
                int(key.data_type.stored.is_floating),
                int(key.has_flag),
            )
    register = shape.allocate()
    shape.emit(hash_table.find_groups.address, register)
    _release(shape, used)
    return register


def _release(shape: Shape, registers: set[int]) -> None:
    for register in registers - {NO_REGISTER}:
        shape.release(register)
