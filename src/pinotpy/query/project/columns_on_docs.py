"""Expressions computed at the docs that a query selects, in batches, on threads; once a distinct text where texts
repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.errors import MemoryLimitError, QueryExecutionError
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Expression, Identifier
from pinotpy.query.expression.interpreter import value_rows
from pinotpy.query.expression.rows import segment_rows
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.result_types import columns_in, is_constant, is_strict
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.computed_column import ComputedColumn, SortedValues, encoded_values, spread, stored_values
from pinotpy.query.project.raw_texts import SegmentTexts
from pinotpy.query.runtime.batches import batches
from pinotpy.query.segments.values import logical_values, nulls_at, values_at
from pinotpy.segment.data_source import Segment

# Whether texts repeat is seen in so many of them.
_PROBED_TEXTS: Final = 1 << 14
# While texts of batches become one dictionary they are there once more side by side, and in the table that finds equal
# ones.
_COPIES_OF_TEXT: Final = 2
# So many docs are one job of a thread.
_RUN_DOCS: Final = 1 << 18


class ColumnOnDocs:
    """An expression at docs of a segment, computed in runs of docs that threads share, and in batches within a run, so
    that the deadline is looked at often; text is encoded batch by batch as well. What batches give is charged as it
    comes.
    """

    def __init__(
        self, plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Int64Array
    ) -> None:
        self.index, self.call, self.name = index, call, name
        self._plan, self._kind, self._docs = plan, kind, docs
        self._runs: list[list[tuple[_Part, NDArray[np.bool_]]]] = [[] for _ in range(0, len(docs), _RUN_DOCS)]

    def jobs(self) -> list[Callable[[], None]]:
        """To be run, in any order, before `finish`."""
        return [partial(self._compute, number) for number in range(len(self._runs))]

    def _compute(self, number: int) -> None:
        plan, docs = self._plan, self._docs[number * _RUN_DOCS : (number + 1) * _RUN_DOCS]
        for first, end in batches(len(docs), plan.control):
            values, null = _values(plan, plan.segments[self.index], self.call, docs[first:end])
            part = _Part.of(values, self._kind)
            plan.control.reserve(part.size_bytes)
            self._runs[number].append((part, null))

    def finish(self) -> ComputedColumn:
        """The column."""
        plan, num_docs = self._plan, self._plan.segments[self.index].num_docs
        parts = [part for run in self._runs for part, _ in run]
        null = np.concatenate([missing for run in self._runs for _, missing in run])
        self._runs.clear()
        size_bytes = sum([part.size_bytes for part in parts])
        with plan.control.held_for_a_while(_COPIES_OF_TEXT * sum([part.text_bytes for part in parts])):
            column = made_column(plan, self.name, self._kind, num_docs, parts, self._docs)
        parts.clear()
        plan.control.release(size_bytes)
        if plan.context.null_handling and null.any():
            column.put_nulls(spread(null, self._docs, num_docs))
        account(plan, column)
        return column


class ColumnOnTexts:
    """An expression of nothing but a raw column of text, at docs of a segment: the texts are numbered, and it is
    computed once a distinct text, unless nearly all of them are distinct.
    """

    def __init__(
        self, plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Int64Array
    ) -> None:
        self.index, self.call, self.name = index, call, name
        self._plan, self._kind, self._docs = plan, kind, docs
        self._source = plan.segments[index].column(columns_in(call)[0])
        self.texts: SegmentTexts | None = SegmentTexts(plan.metas.of(self._source.name)[index], docs, plan.control)
        self._values: pa.Array | None = None
        self._charged_bytes = 0
        self._on_docs: ColumnOnDocs | None = None

    def jobs(self) -> list[Callable[[], None]]:
        """To be run before `finish`."""
        return [self._compute]

    def _compute(self) -> None:
        assert self.texts is not None
        self.texts.number(_PROBED_TEXTS)
        if self.texts.count * 2 <= self.texts.done:
            self.texts.number()
            try:
                self._values = self._of_distinct(self.texts.dictionary())
                return
            except MemoryLimitError:
                raise
            except QueryExecutionError:  # perhaps no doc but one without a value has the text at fault
                self._plan.control.release(self._charged_bytes)
        self.texts, self._on_docs = (
            None,
            ColumnOnDocs(self._plan, self.index, self.call, self.name, self._kind, self._docs),
        )
        for job in self._on_docs.jobs():
            job()

    def _of_distinct(self, texts: pa.Array) -> pa.Array:
        values = logical_values(texts, self._source.data_type)
        parts = []
        for first, end in batches(len(values), self._plan.control):
            batch = values.slice(first, end - first)
            parts.append(value_rows(self._plan.context, batch).evaluate(self.call))
            self._charged_bytes += parts[-1].nbytes
            self._plan.control.reserve(parts[-1].nbytes)
        return pa.concat_arrays(parts)

    def finish(self) -> ComputedColumn:
        """The column."""
        if self._on_docs is not None:
            return self._on_docs.finish()
        assert self.texts is not None and self._values is not None
        plan, values, num_docs = self._plan, self._values, self._plan.segments[self.index].num_docs
        null = nulls_at(self._source, self._docs)
        absent = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        column = ComputedColumn(self.name, self._kind, num_docs)
        # The default stands for docs without a value, not what the expression gives for the column's default.
        stored = pa.concat_arrays(
            [stored_values(values, self._kind), stored_values(pa.nulls(1, values.type), self._kind)]
        )
        with plan.control.held_for_a_while(_COPIES_OF_TEXT * stored.nbytes):
            table, dictionary = encoded_values(stored)
        ids = table[self.texts.ids]
        del values, stored
        self._values = None
        plan.control.release(self._charged_bytes)
        if null is not None and plan.context.null_handling:
            ids[null] = table[-1]
        column.put_ids(spread(ids, self._docs, num_docs), dictionary)
        column.dictionary = SortedValues(dictionary, len(dictionary))  # type: ignore[assignment]
        if plan.context.null_handling:
            missing = np.zeros(len(self._docs), np.bool_) if null is None else null
            if absent is not None:
                missing = missing | absent[self.texts.ids]
            if missing.any():
                column.put_nulls(spread(missing, self._docs, num_docs))
        account(plan, column)
        return column


def pending_column(
    plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Int64Array
) -> ColumnOnDocs | ColumnOnTexts:
    """The column of an expression at `docs` of a segment, to be computed by its jobs."""
    columns = set(columns_in(call))
    if isinstance(call, Call) and len(columns) == 1 and kind.single_value and is_constant(call) and len(docs):
        source = plan.segments[index].column(columns.pop())
        meta = plan.metas.of(source.name)[index]
        if (
            meta[abi.M_CARDINALITY] < 0
            and meta[abi.M_RAW_OFFSETS]
            and source.single_value
            and (is_strict(call, plan.context) or not source.has_nulls)
        ):
            return ColumnOnTexts(plan, index, call, name, kind, docs)
    return ColumnOnDocs(plan, index, call, name, kind, docs)


def _values(plan: ScanPlan, segment: Segment, call: Expression, docs: Int64Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values at docs, and which are null. A column's own nulls read as its default, in multi-values too."""
    if isinstance(call, Identifier):
        column = segment.column(call.name)
        null = nulls_at(column, docs)
        return values_at(column, docs, null_handling=False), np.zeros(len(docs), np.bool_) if null is None else null
    values = segment_rows(plan.context, segment, docs).evaluate(call)
    return values, values.is_null().to_numpy(zero_copy_only=False) if values.null_count else np.zeros(
        len(values), np.bool_
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Values of a batch of docs: how many each doc has (None: one), and the values in stored form, text as a
    dictionary.
    """

    lengths: Int64Array | None
    values: pa.Array

    @property
    def text_bytes(self) -> int:
        return self.values.dictionary.nbytes if isinstance(self.values, pa.DictionaryArray) else 0

    @property
    def size_bytes(self) -> int:
        return int(self.values.nbytes)

    @staticmethod
    def of(values: pa.Array, kind: ResultType) -> _Part:
        lengths = None
        if not kind.single_value:
            lengths = pc.fill_null(values.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            values = values.flatten()
        stored = stored_values(values, kind)
        return _Part(lengths, stored.dictionary_encode() if pa.types.is_binary(stored.type) else stored)


def made_column(
    plan: ScanPlan, name: str, kind: ResultType, num_docs: int, parts: Sequence[_Part], docs: Int64Array
) -> ComputedColumn:
    """A column that has the values of `parts` at `docs` and nothing of interest elsewhere."""
    column = ComputedColumn(name, kind, num_docs)
    positions = docs if kind.single_value else None
    if column.data_type.stored is StoredType.VAR:
        ids, dictionary = _deduplicated(plan, [part.values for part in parts])
        column.put_ids(ids if positions is None else spread(ids, positions, num_docs), dictionary)
    else:
        arrays = [part.values.to_numpy(zero_copy_only=False) for part in parts]
        values = np.concatenate(arrays) if arrays else np.zeros(0, column.data_type.stored.numpy)
        column.put_values(values if positions is None else spread(values, positions, num_docs))
    if positions is None:
        lengths = np.zeros(num_docs, np.int64)
        lengths[docs] = np.concatenate(
            [part.lengths for part in parts if part.lengths is not None] or [np.zeros(0, np.int64)]
        )
        column.put_offsets(lengths)
    return column


def _deduplicated(plan: ScanPlan, parts: Sequence[pa.DictionaryArray]) -> tuple[NDArray[np.uint32], pa.Array]:
    """Dict ids and the distinct values, in no order, of dictionaries of their own."""
    if not parts:
        return np.zeros(0, np.uint32), pa.array([], pa.binary())
    deduplicated = pa.concat_arrays([part.dictionary for part in parts]).dictionary_encode()
    numbers = deduplicated.indices.to_numpy(zero_copy_only=False).astype(np.uint32)
    ids, first = [], 0
    for part in parts:
        plan.control.check()
        codes = numbers[first : first + len(part.dictionary)]
        first += len(part.dictionary)
        ids.append(codes[part.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(ids), deduplicated.dictionary


def account(plan: ScanPlan, column: ComputedColumn) -> None:
    """Count the column's memory to the query's."""
    plan.control.reserve(column.size_bytes)
