"""The select instructions that bring the selected docs into the states of all aggregations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.state.plans import RowPlan, SketchPlan, SlotPlan, Values, ValueSetPlan
from pinotpy.kernels.aggregate import counts_and_sums, value_sets
from pinotpy.kernels.aggregate import unnest_program as walk
from pinotpy.kernels.group import hash_table
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import fetch
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Star
from pinotpy.query.aggregate import distinct_bitmaps, sketches, value_lists
from pinotpy.query.aggregate.layout import AggregationLayout, Layout
from pinotpy.query.aggregate.pre_aggregated_updates import emit_record_updates
from pinotpy.query.model.context import Filter
from pinotpy.query.model.result_types import type_of_literal
from pinotpy.query.plan.scan_plan import Shape
from pinotpy.query.project.sources import Source, Sources, fetch_ids, fetch_nulls, fetch_values
from pinotpy.query.runtime.instructions import Instructions

NO_REGISTER = -1


def emit_updates(shape: Shape, layout: Layout, groups: int, sources: Sources) -> None:
    """Append the updates of all aggregations. `groups`: register of group numbers, NO_REGISTER for one group."""
    if shape.plan.pre_aggregated:
        emit_record_updates(shape, layout, groups)
        return
    emitter = _Emitter(shape, groups, sources)
    shape.emit(counts_and_sums.count_rows.address if groups >= 0 else counts_and_sums.count_rows_single.address, groups)
    # Those that read the same stand together, so that registers can be given back after the last of them.
    inputs: dict[tuple[Filter | None, Expression], int] = {}
    order = sorted(enumerate(layout.aggregations), key=lambda item: inputs.setdefault(_inputs(item[1]), len(inputs)))
    for place, (index, entry) in enumerate(order):
        shape.plan.control.check()
        if entry.unnests:
            emitter.walk(index, entry)
        else:
            emitter.update(index, entry)
        emitter.settle(order[place + 1][1] if place + 1 < len(order) else None)


def _inputs(entry: AggregationLayout) -> tuple[Filter | None, Expression]:
    return entry.aggregation.filter, entry.source


class _Emitter:
    """Emits updates into one shape; `_held` are the registers with inputs of the aggregation at hand."""

    def __init__(self, shape: Shape, groups: int, sources: Sources) -> None:
        self.shape, self.groups, self.sources = shape, groups, sources
        self._held: dict[tuple[str, Filter | Expression | tuple[Filter | None, Expression]], int] = {}
        self._with_docs = set[int]()  # value sets that have their docs

    def settle(self, following: AggregationLayout | None) -> None:
        """Give back the registers that the next aggregation does not read."""
        wanted = set() if following is None else {following.source, following.aggregation.filter, _inputs(following)}
        for key, register in list(self._held.items()):
            if key[1] not in wanted:
                del self._held[key]
                if register not in (self.groups, NO_REGISTER) and register not in self._held.values():
                    self.shape.release(register)

    def update(self, index: int, entry: AggregationLayout) -> None:
        """An aggregation that sees one value a row."""
        skip = self._skip(entry)
        if entry.seen_word:
            self._apply(
                self._form(counts_and_sums.count_values, counts_and_sums.count_values_single),
                NO_REGISTER,
                entry.seen_word,
                skip,
            )
        if isinstance(entry.plan, SlotPlan):
            for update in entry.plan.updates:
                register = self._values(entry, update.values)
                self._apply(
                    self._form(update.grouped, update.single),
                    register,
                    entry.first_word + update.word,
                    skip,
                    update.parameter,
                )
            return
        if isinstance(entry.plan, RowPlan):
            if entry.value_set not in self._with_docs:
                self._with_docs.add(entry.value_set)
                self.shape.emit(value_sets.add_docs.address, self.groups, entry.value_set, skip)
            return
        assert entry.argument.data_type is not None
        source = None if isinstance(entry.source, Literal | Star) else self._source(entry)
        if isinstance(entry.plan, SketchPlan):
            self._add_hashes(entry, source, skip)
            return
        self.sources.note(index, self.shape, source)
        if entry.runs:
            value_lists.emit_values(self.shape, entry, self.groups, self._values(entry, Values.DOUBLE), skip)
            return
        if source is not None and source.by_id:
            ids = self._hold("ids", entry.source, lambda: fetch_ids(self.shape, source))
            if entry.bits is not None:
                distinct_bitmaps.emit_ids(self.shape, entry, self.groups, ids, skip)
                return
            self.shape.emit(value_sets.add_ids.address, self.groups, ids, entry.value_set, skip)
            return
        kind = Values.DOUBLE if entry.argument.data_type.stored.is_floating else Values.LONG
        doubles = int(kind is Values.DOUBLE)
        self.shape.emit(
            value_sets.add_values.address, self.groups, self._values(entry, kind), entry.value_set, skip, doubles
        )

    def walk(self, index: int, entry: AggregationLayout) -> None:
        """An aggregation that sees every value of a multi-value column: a program of its own
        (kernels/aggregate/unnest_program.py).
        """
        assert isinstance(entry.source, Identifier), "only columns are multi-valued"
        shape, column = self.shape, entry.source.name
        skip = self._skip(entry)
        shape.emit(walk.count_lengths.address, shape.meta(column), self.groups, entry.seen_word, 0, skip)
        if isinstance(entry.plan, SlotPlan) and not entry.plan.updates:
            return
        lane_groups, entries, register = shape.allocate(), shape.allocate(), shape.allocate()
        own_groups = lane_groups if self.groups >= 0 else NO_REGISTER
        inner = Instructions()
        if isinstance(entry.plan, SlotPlan):
            inner.append(fetch.fetch_values.address, (register, shape.meta(column), entries + 1))
            for update in entry.plan.updates:
                inner.append(
                    self._form(update.grouped, update.single),
                    (own_groups, register, entry.first_word + update.word, NO_REGISTER, update.parameter),
                )
        else:
            source = self._source(entry)
            if isinstance(entry.plan, SketchPlan):
                self._walk_hashes(inner, entry, source, own_groups, entries, register)
                self._walk_program(inner, column, lane_groups, entries, register, skip)
                return
            self.sources.note(index, shape, source)
            inner.append(
                fetch.fetch_ids.address if source.by_id else fetch.fetch_values.address,
                (register, source.metas, entries + 1),
            )
            add = value_sets.add_ids.address if source.by_id else value_sets.add_values.address
            doubles = int(entry.argument.data_type is not None and entry.argument.data_type.stored.is_floating)
            inner.append(add, (own_groups, register, entry.value_set, NO_REGISTER, doubles))
        self._walk_program(inner, column, lane_groups, entries, register, skip)

    def _walk_program(
        self, inner: Instructions, column: str, lane_groups: int, entries: int, register: int, skip: int
    ) -> None:
        shape = self.shape
        program = inner.assemble(shape.num_morsels)
        shape.plan.keep_alive.append(program)
        addresses = program.ctypes.data + np.arange(shape.num_morsels, dtype=np.int64) * program.strides[0]
        shape.emit(
            walk.walk.address, shape.meta(column), self.groups, lane_groups, entries, skip, addresses, len(inner)
        )
        for borrowed in (lane_groups, entries, register):
            shape.release(borrowed)

    def _add_hashes(self, entry: AggregationLayout, source: Source | None, skip: int) -> None:
        add, further = sketches.addition(self.shape, entry, source)
        assert entry.argument.data_type is not None
        stored = entry.argument.data_type.stored
        if source is not None and not stored.is_fixed:
            # Raw texts are hashed where they lie.
            values = (
                self._hold("ids", entry.source, lambda: fetch_ids(self.shape, source)) if source.by_id else NO_REGISTER
            )
        else:
            values = self._values(entry, Values.DOUBLE if stored.is_floating else Values.LONG)
        self.shape.emit(add, self.groups, values, entry.value_set, skip, *further)

    def _walk_hashes(
        self, inner: Instructions, entry: AggregationLayout, source: Source, groups: int, entries: int, register: int
    ) -> None:
        add, further = sketches.addition(self.shape, entry, source)
        assert entry.argument.data_type is not None
        fetched = fetch.fetch_values.address if entry.argument.data_type.stored.is_fixed else fetch.fetch_ids.address
        inner.append(fetched, (register, source.metas, entries + 1))
        inner.append(add, (groups, register, entry.value_set, NO_REGISTER, *further))

    def _form(self, grouped: abi.BlockFunction, single: abi.BlockFunction) -> int:
        return (grouped if self.groups >= 0 else single).address

    def _apply(self, function: int, values: int, word: int, skip: int, parameter: int = 0) -> None:
        """An update of words: `values` NO_REGISTER where it reads none."""
        self.shape.emit(function, self.groups, max(values, 0), word, skip, parameter)

    def _source(self, entry: AggregationLayout) -> Source:
        return self.sources.of(self.shape, entry.source)

    def _hold(
        self, kind: str, what: Filter | Expression | tuple[Filter | None, Expression], make: Callable[[], int]
    ) -> int:
        if (kind, what) not in self._held:
            self._held[kind, what] = make()
        return self._held[kind, what]

    def _values(self, entry: AggregationLayout, kind: Values) -> int:
        """Register with the argument's 64-bit values, NO_REGISTER where none are read."""
        source = entry.source
        if kind is Values.NOTHING or isinstance(source, Star):
            return NO_REGISTER
        if isinstance(source, Literal):
            return self._hold(kind.value, source, lambda: self._constant(source, kind))
        return self._hold("values", source, lambda: fetch_values(self.shape, self._source(entry)))

    def _constant(self, literal: Literal, kind: Values) -> int:
        register = self.shape.allocate()
        self.shape.emit(counts_and_sums.fill.address, register, literal_word(literal, kind))
        return register

    def _skip(self, entry: AggregationLayout) -> int:
        """Register of flags of rows that do not count, NO_REGISTER if all do."""
        nulls = NO_REGISTER
        if not entry.flagged:
            return nulls
        skips_nulls = not entry.function.reads_rows
        if self.shape.plan.context.null_handling and skips_nulls and isinstance(entry.source, Identifier | Call):
            nulls = self._hold("nulls", entry.source, lambda: fetch_nulls(self.shape, self._source(entry)))
        condition = entry.aggregation.filter
        if condition is None:
            return nulls
        counts = self._hold("filter", condition, lambda: self.shape.fetch_filter(condition))
        return self._hold("skip", _inputs(entry), lambda: self._combined(nulls, counts))

    def _combined(self, nulls: int, counts: int) -> int:
        register = self.shape.allocate()
        self.shape.emit(counts_and_sums.skip_flags.address, register, nulls, counts)
        return register


@dataclass(frozen=True, slots=True)
class RowFields:
    """What updates read of a row: registers of the scan with 64-bit values and with flags; and the updates, for groups
    in register 0, 64-bit fields in registers 1 …, and flags in those behind.
    """

    values: list[int]
    flags: list[int]
    program: Int64Array


def record_updates(shape: Shape, layout: Layout, sources: Sources) -> RowFields:
    """Fetch what the updates read, and put the updates off: of aggregations that keep words only and walk no
    multi-values.
    """
    recorder = _Recorder(shape, 0, sources)
    for index, entry in enumerate(layout.aggregations):
        recorder.update(index, entry)
    values = list(dict.fromkeys(values for _, values, _, _, _ in recorder.applied if values >= 0))
    flags = list(dict.fromkeys(skip for _, _, _, skip, _ in recorder.applied if skip >= 0))
    program = Instructions()
    program.append(hash_table.find_groups.address, (0,))
    program.append(counts_and_sums.count_rows.address, (0,))
    for function, value, word, skip, parameter in recorder.applied:
        of_value = 1 + values.index(value) if value >= 0 else 0
        program.append(
            function, (0, of_value, word, 1 + len(values) + flags.index(skip) if skip >= 0 else NO_REGISTER, parameter)
        )
    return RowFields(values, flags, program.assemble(1)[0])


class _Recorder(_Emitter):
    """Notes updates instead of emitting them: (function, register of values, word, register of flags, parameter)."""

    def __init__(self, shape: Shape, groups: int, sources: Sources) -> None:
        super().__init__(shape, groups, sources)
        self.applied: list[tuple[int, int, int, int, int]] = []

    def _apply(self, function: int, values: int, word: int, skip: int, parameter: int = 0) -> None:
        self.applied.append((function, values, word, skip, parameter))


def literal_word(literal: Literal, kind: Values) -> int:
    """The 64-bit word of a constant argument."""
    value = literal.value
    if isinstance(value, str) or value is None or type_of_literal(literal) is DataType.BIG_DECIMAL:
        return 0  # one text or decimal for all rows: any word counts it once
    if kind is Values.LONG:
        return int(value)
    number = float(value)
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def emit_value_set_frame(shape: Shape, layout: Layout, num_groups: Int64Array | None) -> None:
    """Begin and end instructions of all value sets; `num_groups` per morsel, None where groups are hashed."""
    of_docs = {entry.value_set for entry in layout.aggregations if isinstance(entry.plan, RowPlan)}
    for word in sorted(of_docs):
        shape.begin(value_sets.begin_value_set.address, word, 0, 0, 0)
        shape.end(value_sets.end_value_set.address, word)
    for entry in layout.aggregations:
        if isinstance(entry.plan, SketchPlan):
            sketches.emit_frame(shape, entry, entry.plan, num_groups)
        if not isinstance(entry.plan, ValueSetPlan):
            continue
        if entry.bits is not None:
            assert num_groups is not None, "sets of bits are of groups whose number is known"
            distinct_bitmaps.emit_frame(shape, entry, num_groups)
            continue
        if entry.runs:
            assert num_groups is not None, "runs are of groups whose number is known"
            value_lists.emit_frame(shape, entry, num_groups)
            continue
        cardinalities = np.zeros(shape.num_morsels, np.int64)
        if (
            num_groups is not None
            and not shape.plan.pre_aggregated
            and isinstance(entry.source, Identifier)
            and shape.has_dictionary(entry.source.name)
        ):
            direct = shape.meta_word(entry.source.name, abi.M_CARDINALITY)
            docs = shape.plan.segments.docs[shape.segments]
            allowed = np.maximum(docs * value_sets.DIRECT_PAIRS_PER_DOC, value_sets.DIRECT_MAX)
            cardinalities = np.where(direct * num_groups <= allowed, direct, 0)
        groups = num_groups if num_groups is not None else 0
        shape.begin(value_sets.begin_value_set.address, entry.value_set, groups, cardinalities, int(entry.plan.counted))
        shape.end(value_sets.end_value_set.address, entry.value_set)
