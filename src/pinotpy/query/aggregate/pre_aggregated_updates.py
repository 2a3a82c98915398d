"""The select instructions that add up the states of records, in place of those of emit.py. Groups, rows and
arenas are those of any scan; a record adds its rows to the count of its group.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pinotpy.functions.state.plans import SlotPlan, ValueSetPlan, Word
from pinotpy.kernels.aggregate import counts_and_sums, star_tree_states, value_sets
from pinotpy.kernels.runtime.abi import BlockFunction
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.layout import AggregationLayout, Layout
from pinotpy.query.plan.scan_plan import Shape
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.reader import COUNT_COLUMN, StarTree, state_column
from pinotpy.segment.star_tree.spec import STATES_OF

_NONE: Final = -1


def emit_record_updates(shape: Shape, layout: Layout, groups: int) -> None:
    """Append the updates of all aggregations. `groups`: register of group numbers, -1 for one group."""
    emitter = _Emitter(shape, groups)
    counts = shape.fetch_values(COUNT_COLUMN)
    emitter.add_longs(counts, 0, _NONE)
    for entry in layout.aggregations:
        emitter.update(entry, counts)


class _Emitter:
    def __init__(self, shape: Shape, groups: int) -> None:
        self._shape, self._groups = shape, groups
        trees = [segment for segment in shape.plan.segments if isinstance(segment, StarTree)]
        assert len(trees) == len(shape.plan.segments), "a pre-aggregated plan reads star-trees only"
        self._trees = trees

    def update(self, entry: AggregationLayout, counts: int) -> None:
        skip, temporary = self._skip(entry)
        if entry.seen_word:
            self.add_longs(counts, entry.seen_word, skip)
        if isinstance(entry.plan, ValueSetPlan):
            docs = self._shape.allocate()
            temporary.append(docs)
            self._shape.emit(star_tree_states.doc_ids.address, docs)
            self._shape.emit(value_sets.add_values.address, self._groups, docs, entry.value_set, skip)
        elif isinstance(entry.plan, SlotPlan) and entry.plan.updates:
            temporary += (
                self._extremes(entry, entry.plan, skip)
                if entry.plan.words[0] is Word.GROW
                else self._sum(entry, entry.plan, skip)
            )
        for register in temporary:
            self._shape.release(register)

    def add_longs(self, values: int, word: int, skip: int) -> None:
        self._shape.emit(
            self._form(counts_and_sums.sum_long, counts_and_sums.sum_long_single),
            self._groups,
            values,
            word,
            skip,
        )

    def _sum(self, entry: AggregationLayout, plan: SlotPlan, skip: int) -> list[int]:
        column, word = _column(entry), entry.first_word
        low = self._shape.fetch_values(state_column(names.SUM, column, names.LOW))
        if plan.words == (Word.ADD,):
            self.add_longs(low, word, skip)
            return [low]
        if column not in self._trees[0].wide_columns:
            self._shape.emit(
                self._form(counts_and_sums.sum_wide, counts_and_sums.sum_wide_single),
                self._groups,
                low,
                word,
                skip,
            )
            return [low]
        high = self._shape.fetch_values(state_column(names.SUM, column, names.HIGH))
        form = self._form(star_tree_states.add_pairs, star_tree_states.add_pairs_single)
        self._shape.emit(form, self._groups, low, word, skip, high)
        overflow = [tree.overflow(column) for tree in self._trees]
        if any(map(len, overflow)):
            self._shape.plan.keep_alive.append(overflow)
            addresses = np.array([parts.__array_interface__["data"][0] for parts in overflow], np.int64)[
                self._shape.segments
            ]
            lengths = np.array([len(parts) for parts in overflow], np.int64)[self._shape.segments]
            form = self._form(star_tree_states.add_overflow, star_tree_states.add_overflow_single)
            self._shape.emit(form, self._groups, addresses, word, skip, lengths)
        return [low, high]

    def _extremes(self, entry: AggregationLayout, plan: SlotPlan, skip: int) -> list[int]:
        column, registers = _column(entry), []
        for kind, update in zip(STATES_OF[entry.function.name], plan.updates, strict=True):
            values = self._shape.fetch_values(state_column(kind, column, names.VALUE))
            self._shape.emit(
                self._form(update.grouped, update.single), self._groups, values, entry.first_word + update.word, skip
            )
            registers.append(values)
        return registers

    def _skip(self, entry: AggregationLayout) -> tuple[int, list[int]]:
        """Register of flags of records that a FILTER (WHERE …) leaves out, -1 if it has none; registers to release."""
        condition = entry.aggregation.filter
        if condition is None:
            return _NONE, []
        register = self._shape.allocate()
        self._shape.emit(counts_and_sums.skip_flags.address, register, _NONE, self._shape.fetch_filter(condition))
        return register, [register]

    def _form(self, grouped: BlockFunction, single: BlockFunction) -> int:
        return (grouped if self._groups >= 0 else single).address


def _column(entry: AggregationLayout) -> str:
    assert isinstance(entry.source, Identifier), "choose.py lets nothing else pass"
    return entry.source.name
