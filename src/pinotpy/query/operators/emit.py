"""The select instructions that bring the selected docs into the states of all aggregations."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pinotpy.functions.spec import DistributionPlan, SlotPlan, Values
from pinotpy.kernels import abi, distributions, fetch, updates, walk
from pinotpy.pql.ast import Call, Identifier, Literal, Star
from pinotpy.query.operators.layout import AggregationLayout, Layout, columns_in
from pinotpy.query.operators.sources import Source, Sources, fetch_ids, fetch_nulls, fetch_values
from pinotpy.query.plan import Shape
from pinotpy.query.program import Instructions

NO_REGISTER = -1


def emit_updates(shape: Shape, layout: Layout, groups: int, sources: Sources) -> None:
    """Append the updates of all aggregations. `groups`: register of group numbers, NO_REGISTER for one group."""
    shape.emit(updates.count_rows.address if groups >= 0 else updates.count_rows_single.address, groups)
    later = [name for entry in layout.aggregations for name in columns_in(entry.source)]
    for index, entry in enumerate(layout.aggregations):
        own = columns_in(entry.source)
        del later[: len(own)]
        if entry.walks:
            _emit_walk(shape, index, entry, groups, sources)
        else:
            _emit_plain(shape, index, entry, groups, sources, keep=bool(set(own) & set(later)))


def _emit_plain(shape: Shape, index: int, entry: AggregationLayout, groups: int, sources: Sources, *, keep: bool) -> None:
    skip, skip_is_own = _skip_flags(shape, entry, sources)
    if entry.seen_word:
        shape.emit(_form(groups, updates.count_values.address, updates.count_values_single.address), groups, 0, entry.seen_word, skip)
    if isinstance(entry.plan, SlotPlan):
        for update in entry.plan.updates:
            register = _values(shape, entry, sources, update.values)
            shape.emit(_form(groups, update.grouped, update.single), groups, register, entry.first_word + update.word, skip)
            if not keep and update is entry.plan.updates[-1] and register != groups:
                shape.release(register)
    else:
        _emit_distribution(shape, index, entry, groups, skip, sources)
    if skip_is_own:
        shape.release(skip)


def _form(groups: int, grouped: int, single: int) -> int:
    return grouped if groups >= 0 else single


def _skip_flags(shape: Shape, entry: AggregationLayout, sources: Sources) -> tuple[int, bool]:
    """Register of flags of rows that do not count (NO_REGISTER: all count), and whether it is this aggregation's alone."""
    if not entry.flagged:
        return NO_REGISTER, False
    nulls = NO_REGISTER
    if shape.plan.context.null_handling and entry.function.null_aware and isinstance(entry.source, Identifier | Call):
        nulls = fetch_nulls(shape, _source(shape, entry, sources))
    if entry.aggregation.filter is None:
        return nulls, False
    counts = shape.fetch_filter(entry.aggregation.filter)
    out = shape.allocate()
    shape.emit(updates.skip_flags.address, out, nulls, counts)
    return out, True


def _source(shape: Shape, entry: AggregationLayout, sources: Sources) -> Source:
    assert entry.argument.data_type is not None
    return sources.of(shape, entry.source, entry.argument.data_type)


def _values(shape: Shape, entry: AggregationLayout, sources: Sources, kind: Values) -> int:
    """Register with the argument's 64-bit values."""
    if kind is Values.NOTHING or isinstance(entry.source, Star):
        return 0
    if isinstance(entry.source, Literal):
        register = shape.allocate()
        shape.emit(updates.fill.address, register, literal_word(entry.source, kind))
        return register
    return fetch_values(shape, _source(shape, entry, sources))


def literal_word(literal: Literal, kind: Values) -> int:
    """The 64-bit word of a constant argument."""
    value = literal.value
    if isinstance(value, str) or value is None:
        return 0  # one text for all rows: any word counts it once
    if kind is Values.LONG:
        return int(value)
    number = float(value)
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _emit_distribution(shape: Shape, index: int, entry: AggregationLayout, groups: int, skip: int, sources: Sources) -> None:
    assert entry.argument.data_type is not None
    source = None if isinstance(entry.source, Literal | Star) else _source(shape, entry, sources)
    sources.note(index, shape, source)
    if source is not None and source.by_id:
        shape.emit(distributions.add_ids.address, groups, fetch_ids(shape, source), entry.distribution, skip)
        return
    kind = Values.DOUBLE if entry.argument.data_type.stored.is_floating else Values.LONG
    shape.emit(distributions.add_values.address, groups, _values(shape, entry, sources, kind), entry.distribution, skip)


def _emit_walk(shape: Shape, index: int, entry: AggregationLayout, groups: int, sources: Sources) -> None:
    """The updates of a function over all values of a multi-value column, as a program of their own (kernels/walk.py)."""
    assert isinstance(entry.source, Identifier), "only columns are multi-valued"
    column = entry.source.name
    skip, skip_is_own = _skip_flags(shape, entry, sources)
    lane_groups, entries, register = shape.allocate(), shape.allocate(), shape.allocate()
    own_groups = lane_groups if groups >= 0 else NO_REGISTER
    inner = Instructions()
    inner.append(_form(groups, updates.count_values.address, updates.count_values_single.address), (own_groups, 0, entry.seen_word, NO_REGISTER))
    if isinstance(entry.plan, SlotPlan):
        if entry.plan.updates:
            inner.append(fetch.fetch_values.address, (register, shape.meta(column), entries + 1))
        for update in entry.plan.updates:
            inner.append(_form(groups, update.grouped, update.single), (own_groups, register, entry.first_word + update.word, NO_REGISTER))
    else:
        assert isinstance(entry.plan, DistributionPlan)
        source = _source(shape, entry, sources)
        sources.note(index, shape, source)
        inner.append(fetch.fetch_ids.address if source.by_id else fetch.fetch_values.address, (register, source.metas, entries + 1))
        add = distributions.add_ids.address if source.by_id else distributions.add_values.address
        inner.append(add, (own_groups, register, entry.distribution, NO_REGISTER))
    program = inner.assemble(shape.num_units)
    shape.plan.keep_alive.append(program)
    addresses = program.ctypes.data + np.arange(shape.num_units, dtype=np.int64) * (program.strides[0])
    shape.emit(walk.walk.address, shape.meta(column), groups, lane_groups, entries, skip, addresses, len(inner))
    for held in (lane_groups, entries, register, *((skip,) if skip_is_own else ())):
        shape.release(held)


def emit_distribution_frame(shape: Shape, layout: Layout, num_groups: NDArray[np.int64] | None) -> None:
    """Begin and end instructions of all distributions; `num_groups` per unit, None where groups are hashed."""
    for entry in layout.aggregations:
        if entry.distribution < 0:
            continue
        cardinalities = np.zeros(shape.num_units, np.int64)
        if num_groups is not None and isinstance(entry.source, Identifier) and shape.has_dictionary(entry.source.name):
            direct = shape.meta_word(entry.source.name, abi.M_CARDINALITY)
            cardinalities = np.where(direct * num_groups <= distributions.DIRECT_MAX, direct, 0)
        groups = num_groups if num_groups is not None else 0
        shape.begin(distributions.begin_distribution.address, entry.distribution, groups, cardinalities)
        shape.end(distributions.end_distribution.address, entry.distribution)
