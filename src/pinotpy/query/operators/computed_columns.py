"""Expressions that are grouped or aggregated become columns of the segments, so that kernels read them like any other; so do
raw columns of text, which have no dict ids to read.

An expression over one dictionary column is computed on its dictionary; any other is computed on the docs that the filter
selects, in batches, and never on others: a value that no selected doc has can make nothing fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType, FieldType, StoredType, default_null_value
from pinotpy.errors import MemoryLimitError, QueryExecutionError
from pinotpy.functions.spec import aggregation_function
from pinotpy.kernels import abi
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.query.batches import batches
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.context import Aggregation, ColumnRef, QueryContext
from pinotpy.query.expression import value_rows
from pinotpy.query.jobs import run_jobs
from pinotpy.query.narrow import narrow
from pinotpy.query.on_dictionary import deciding_column
from pinotpy.query.operators.raw_texts import SegmentTexts
from pinotpy.query.operators.registers import hashes_in_place
from pinotpy.query.operators.sources import computes
from pinotpy.query.operators.text_numbers import TextNumbers, is_numbered, number_texts
from pinotpy.query.plan import ScanPlan
from pinotpy.query.reduced import ResultType
from pinotpy.query.result_types import columns_in, is_constant, is_strict, reads_rows, result_type
from pinotpy.query.segment_rows import dictionary_rows, segment_rows
from pinotpy.query.segment_set import SegmentSet
from pinotpy.query.values import logical_values, nulls_at, values_at
from pinotpy.segment.data_source import Dictionary, Segment, Stored
from pinotpy.segment.virtual import CompletedSegment

Docs = NDArray[np.int64]
# Whether texts repeat is seen in so many of them.
_PROBED_TEXTS: Final = 1 << 14
# So many docs are one job of a thread.
_RUN_DOCS: Final = 1 << 18
# Computing expressions takes registers, which many keys take as well.
_BLOCK_KEYS_MAX: Final = 8
_STORED_WORDS: Final = {StoredType.INT: abi.T_INT, StoredType.LONG: abi.T_LONG, StoredType.FLOAT: abi.T_FLOAT, StoredType.DOUBLE: abi.T_DOUBLE}
_ARROW: Final = {StoredType.INT: pa.int32(), StoredType.LONG: pa.int64(), StoredType.FLOAT: pa.float32(), StoredType.DOUBLE: pa.float64()}


def with_computed_columns(plan: ScanPlan) -> ScanPlan:
    """The plan with a column in the place of every expression that its query groups or aggregates by.

    Raises: what evaluating expressions raises.
    """
    if not plan.segments or plan.pre_aggregated:
        return plan  # records of star-trees answer no expressions, and have no values to compute with
    context, calls = plan.context, calls_of(plan)
    if not calls:
        return plan
    names = {call: f"$expression{i}" for i, call in enumerate(calls)}
    types = {call: result_type(call, context) for call in calls}
    added: list[dict[str, ComputedColumn]] = [{} for _ in plan.segments]
    pending: list[tuple[int, Expression]] = []

    def on_dictionary(index: int, call: Expression) -> None:
        column = _on_dictionary(plan, index, call, names[call], types[call])
        if column is None:
            pending.append((index, call))
        else:
            added[index][names[call]] = column

    read = np.unique(plan.units[:, abi.U_SEGMENT]).tolist()
    raw = {call: [index for index in read if is_numbered(plan, index, call.name)] for call in calls if isinstance(call, Identifier)}
    has_numbers: set[tuple[int, Expression]] = {(index, call) for call, indexes in raw.items() for index in indexes}
    _run(plan, [partial(on_dictionary, index, call) for index in read for call in calls if (index, call) not in has_numbers])
    if (pending or has_numbers) and not plan.match_all:
        plan = narrow(plan)
    numbered = {
        names[call]: numbers for call, indexes in raw.items() if (numbers := _put_numbers(plan, call, names[call], types[call], indexes, added)) is not None
    }
    docs = _docs_by_segment(plan) if pending else {}
    columns_on_docs = [_pending_column(plan, index, call, names[call], types[call], docs[index]) for index, call in pending if index in docs]
    _run(plan, [job for column in columns_on_docs for job in column.jobs()])

    def finish(column: _ColumnOnDocs | _ColumnOnTexts) -> None:
        added[column.index][column.name] = column.finish()

    _run(plan, [partial(finish, column) for column in columns_on_docs])
    for segment, columns in zip(plan.segments, added, strict=True):
        for call, name in names.items():
            if name not in columns:  # a segment of which nothing is read
                columns[name] = _made(plan, name, types[call], segment.num_docs, [], np.zeros(0, np.int64))
    return replace(_rewritten(plan, names, types, added), numbered=numbered)


def calls_of(plan: ScanPlan) -> list[Expression]:
    """The expressions that the plan's query groups or aggregates by and that the scan cannot compute itself, each once."""
    context = plan.context
    keys = [key for key in context.group_by if isinstance(key, Literal) or _is_computed(plan, key)]
    arguments = [a for a in context.aggregations if a.args and not reads_rows(a) and _is_computed(plan, a.args[0]) and not _needs_no_ids(a, context)]
    calls: dict[Expression, None] = dict.fromkeys(key for key in keys if not _is_key_of_blocks(plan, key))
    calls |= dict.fromkeys(a.args[0] for a in arguments if not _is_argument_of_blocks(plan, a))
    return list(calls)


def _is_computed(plan: ScanPlan, expression: Expression) -> bool:
    if not isinstance(expression, Identifier):
        return isinstance(expression, Call)
    is_text = (result_type(expression, plan.context).data_type or DataType.STRING).stored is StoredType.VAR
    return is_text and bool((plan.metas.of(expression.name)[:, abi.M_CARDINALITY] < 0).any())


def _needs_no_ids(aggregation: Aggregation, context: QueryContext) -> bool:
    """Whether an aggregation reads the texts of a raw column where they lie, or only whether they are null."""
    if not isinstance(aggregation.args[0], Identifier):
        return False
    return aggregation_function(aggregation.function, aggregation.args).name == "count" or hashes_in_place(aggregation, context)


def _is_key_of_blocks(plan: ScanPlan, key: Expression) -> bool:
    """Whether the scan computes a key itself. What one dictionary decides has few values: they are numbered here."""
    if not isinstance(key, Call) or len(plan.context.group_by) > _BLOCK_KEYS_MAX:
        return False
    if any(deciding_column(columns_in(key), segment, strict=True) is not None for segment in plan.segments):
        return False
    return computes(key, plan)


def _is_argument_of_blocks(plan: ScanPlan, aggregation: Aggregation) -> bool:
    """Whether the scan computes an argument itself. Functions that take nulls for values need them as the type's default."""
    source = aggregation.args[0]
    if not isinstance(source, Call) or len(plan.context.group_by) > _BLOCK_KEYS_MAX:
        return False
    function = aggregation_function(aggregation.function, aggregation.args)
    if plan.context.null_handling and not function.null_aware:
        return False
    return computes(source, plan)


def _rewritten(plan: ScanPlan, names: dict[Expression, str], types: dict[Expression, ResultType], added: Sequence[dict[str, ComputedColumn]]) -> ScanPlan:
    def stand_in(expression: Expression) -> Expression:
        return Identifier(names[expression]) if expression in names else expression

    context = plan.context
    refs = [ColumnRef(name, types[call].data_type or DataType.STRING, types[call].single_value) for call, name in names.items()]
    aggregations: list[Aggregation] = [
        a if not a.args or reads_rows(a) or _needs_no_ids(a, context) else replace(a, args=(stand_in(a.args[0]), *a.args[1:])) for a in context.aggregations
    ]
    segments = SegmentSet([CompletedSegment(segment, dict[str, Any](columns)) for segment, columns in zip(plan.segments, added, strict=True)])
    return replace(
        plan,
        context=replace(
            context,
            group_by=tuple([stand_in(expression) for expression in context.group_by]),
            aggregations=tuple(aggregations),
            columns=(*context.columns, *refs),
        ),
        segments=segments,
        metas=ColumnMetas(segments),
        keep_alive=[plan],
        _sections=[],
        _programs=[],
    )


def _docs_by_segment(plan: ScanPlan) -> dict[int, Docs]:
    """The docs that are read of each segment, ascending."""
    if plan.match_all:
        return {index: np.arange(plan.segments[index].num_docs) for index in np.unique(plan.units[:, abi.U_SEGMENT]).tolist()}
    found: dict[int, list[NDArray[np.int32]]] = {}
    for index, docs in zip(plan.units[:, abi.U_SEGMENT].tolist(), plan.listed, strict=True):
        found.setdefault(index, []).append(docs)
    return {index: np.concatenate(parts).astype(np.int64) for index, parts in found.items()}


# --- evaluation ------------------------------------------------------------------------------------------------------


def _on_dictionary(plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType) -> ComputedColumn | None:
    """Computed once a dictionary value; None where that is impossible, not worth it, or fails for a value that perhaps no doc has."""
    segment = plan.segments[index]
    decided = kind.single_value and is_constant(call)
    source = deciding_column(columns_in(call), segment, strict=is_strict(call, plan.context)) if decided else None
    if source is None or source.cardinality * 2 > segment.num_docs:
        return None
    try:
        values = pa.concat_arrays(
            [dictionary_rows(plan.context, source, first, end).evaluate(call) for first, end in batches(source.cardinality, plan.control)]
        )
    except MemoryLimitError:
        raise
    except QueryExecutionError:
        return None
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    has_null_docs = plan.context.null_handling and source.has_nulls
    stored = _stored(values, kind)
    if has_null_docs:  # the default stands for them, not what the expression gives for the column's default
        stored = pa.concat_arrays([stored, _stored(pa.nulls(1, values.type), kind)])
    table, dictionary = _encode(stored)
    ids = source.ids()
    of_docs = table[ids]
    if has_null_docs:
        of_docs[source.null_mask()] = table[-1]
    column = ComputedColumn(name, kind, segment.num_docs)
    column.put_ids(of_docs, dictionary)
    column.dictionary = _Sorted(dictionary, len(dictionary))  # type: ignore[assignment]
    if plan.context.null_handling and (source.has_nulls or missing is not None):
        column.put_nulls(source.null_mask() if missing is None else missing[ids] | source.null_mask())
    _account(plan, column)
    return column


class _ColumnOnDocs:
    """An expression at docs of a segment, computed in runs of docs that threads share, and in batches within a run, so that the
    deadline is looked at often; text is encoded batch by batch as well."""

    def __init__(self, plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Docs) -> None:
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
            self._runs[number].append((_Part.of(values, self._kind), null))

    def finish(self) -> ComputedColumn:
        """The column."""
        plan, num_docs = self._plan, self._plan.segments[self.index].num_docs
        parts = [part for run in self._runs for part, _ in run]
        column = _made(plan, self.name, self._kind, num_docs, parts, self._docs)
        null = np.concatenate([missing for run in self._runs for _, missing in run])
        if plan.context.null_handling and null.any():
            column.put_nulls(_spread(null, self._docs, num_docs))
        _account(plan, column)
        return column


class _ColumnOnTexts:
    """An expression of nothing but a raw column of text, at docs of a segment: the texts are numbered, and it is computed once a
    distinct text, unless nearly all of them are distinct."""

    def __init__(self, plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Docs) -> None:
        self.index, self.call, self.name = index, call, name
        self._plan, self._kind, self._docs = plan, kind, docs
        self._source = plan.segments[index].column(columns_in(call)[0])
        self.texts: SegmentTexts | None = SegmentTexts(plan.metas.of(self._source.name)[index], docs, plan.control)
        self._values: pa.Array | None = None
        self._on_docs: _ColumnOnDocs | None = None

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
            except QueryExecutionError:
                pass  # perhaps no doc but one without a value has the text at fault
        self.texts, self._on_docs = None, _ColumnOnDocs(self._plan, self.index, self.call, self.name, self._kind, self._docs)
        for job in self._on_docs.jobs():
            job()

    def _of_distinct(self, texts: pa.Array) -> pa.Array:
        values = logical_values(texts, self._source.data_type)
        parts = []
        for first, end in batches(len(values), self._plan.control):
            batch = values.slice(first, end - first)
            parts.append(value_rows(self._plan.context, batch).evaluate(self.call))
        return pa.concat_arrays(parts)

    def finish(self) -> ComputedColumn:
        """The column."""
        if self._on_docs is not None:
            return self._on_docs.finish()
        assert self.texts is not None and self._values is not None
        plan, values, num_docs = self._plan, self._values, self._plan.segments[self.index].num_docs
        null = nulls_at(self._source, self._docs)
        column = ComputedColumn(self.name, self._kind, num_docs)
        # The default stands for docs without a value, not what the expression gives for the column's default.
        stored = pa.concat_arrays([_stored(values, self._kind), _stored(pa.nulls(1, values.type), self._kind)])
        table, dictionary = _encode(stored)
        ids = table[self.texts.ids]
        if null is not None and plan.context.null_handling:
            ids[null] = table[-1]
        column.put_ids(_spread(ids, self._docs, num_docs), dictionary)
        column.dictionary = _Sorted(dictionary, len(dictionary))  # type: ignore[assignment]
        if plan.context.null_handling:
            missing = np.zeros(len(self._docs), np.bool_) if null is None else null
            if values.null_count:
                missing = missing | values.is_null().to_numpy(zero_copy_only=False)[self.texts.ids]
            if missing.any():
                column.put_nulls(_spread(missing, self._docs, num_docs))
        _account(plan, column)
        return column


def _pending_column(plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType, docs: Docs) -> _ColumnOnDocs | _ColumnOnTexts:
    columns = set(columns_in(call))
    if isinstance(call, Call) and len(columns) == 1 and kind.single_value and is_constant(call) and len(docs):
        source = plan.segments[index].column(columns.pop())
        meta = plan.metas.of(source.name)[index]
        if meta[abi.M_CARDINALITY] < 0 and meta[abi.M_RAW_OFFSETS] and source.single_value and (is_strict(call, plan.context) or not source.has_nulls):
            return _ColumnOnTexts(plan, index, call, name, kind, docs)
    return _ColumnOnDocs(plan, index, call, name, kind, docs)


def _put_numbers(
    plan: ScanPlan, call: Identifier, name: str, kind: ResultType, indexes: Sequence[int], added: Sequence[dict[str, ComputedColumn]]
) -> TextNumbers | None:
    """Columns with the numbers of a raw column's texts, in those of the segments at `indexes` that are read. Gives the numbers
    where all segments that are read have them; else the columns have the texts as their dictionary, and None comes back."""
    read = np.unique(plan.units[:, abi.U_SEGMENT]).tolist()
    used = [index for index in read if index in set(indexes)]
    if not used:
        return None
    numbers = number_texts(plan, call.name, used)
    texts = None if len(used) == len(read) else numbers.values(np.arange(numbers.num_ids))
    for index in used:
        source = plan.segments[index].column(call.name)
        column = added[index][name] = ComputedColumn(name, kind, plan.segments[index].num_docs)
        if texts is None:
            column.put_numbers(numbers.ids[index], numbers.num_ids)
        else:
            column.put_ids(numbers.ids[index], texts)
        if plan.context.null_handling and source.has_nulls:
            column.put_nulls(source.null_mask())
    return numbers if texts is None else None


def _run(plan: ScanPlan, jobs: list[Callable[[], None]]) -> None:
    run_jobs(jobs, threads=plan.num_threads, executor=plan.executor)


def _values(plan: ScanPlan, segment: Segment, call: Expression, docs: Docs) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values at docs, and which are null. A column's own nulls read as its default, in multi-values too."""
    if isinstance(call, Identifier):
        column = segment.column(call.name)
        null = nulls_at(column, docs)
        return values_at(column, docs, null_handling=False), np.zeros(len(docs), np.bool_) if null is None else null
    values = segment_rows(plan.context, segment, docs).evaluate(call)
    return values, values.is_null().to_numpy(zero_copy_only=False) if values.null_count else np.zeros(len(values), np.bool_)


@dataclass(frozen=True, slots=True)
class _Part:
    """Values of a batch of docs: how many each doc has (None: one), and the values in stored form, text as a dictionary."""

    lengths: NDArray[np.int64] | None
    values: pa.Array

    @staticmethod
    def of(values: pa.Array, kind: ResultType) -> _Part:
        lengths = None
        if not kind.single_value:
            lengths = pc.fill_null(values.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
            values = values.flatten()
        stored = _stored(values, kind)
        return _Part(lengths, stored.dictionary_encode() if pa.types.is_binary(stored.type) else stored)


def _made(plan: ScanPlan, name: str, kind: ResultType, num_docs: int, parts: Sequence[_Part], docs: Docs) -> ComputedColumn:
    """A column that has the values of `parts` at `docs` and nothing of interest elsewhere."""
    column = ComputedColumn(name, kind, num_docs)
    at = docs if kind.single_value else None
    if column.data_type.stored is StoredType.VAR:
        ids, dictionary = _united(plan, [part.values for part in parts])
        column.put_ids(ids if at is None else _spread(ids, at, num_docs), dictionary)
    else:
        arrays = [part.values.to_numpy(zero_copy_only=False) for part in parts]
        values = np.concatenate(arrays) if arrays else np.zeros(0, column.data_type.stored.numpy)
        column.put_values(values if at is None else _spread(values, at, num_docs))
    if at is None:
        lengths = np.zeros(num_docs, np.int64)
        lengths[docs] = np.concatenate([part.lengths for part in parts if part.lengths is not None] or [np.zeros(0, np.int64)])
        column.put_offsets(lengths)
    return column


def _united(plan: ScanPlan, parts: Sequence[pa.DictionaryArray]) -> tuple[NDArray[np.uint32], pa.Array]:
    """Dict ids and the distinct values, in no order, of dictionaries of their own."""
    if not parts:
        return np.zeros(0, np.uint32), pa.array([], pa.binary())
    united = pa.concat_arrays([part.dictionary for part in parts]).dictionary_encode()
    numbers = united.indices.to_numpy(zero_copy_only=False).astype(np.uint32)
    ids, first = [], 0
    for part in parts:
        plan.control.check()
        own = numbers[first : first + len(part.dictionary)]
        first += len(part.dictionary)
        ids.append(own[part.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate(ids), united.dictionary


def _account(plan: ScanPlan, column: ComputedColumn) -> None:
    plan.control.reserve(column.size_bytes)


def _spread(values: NDArray[Any], docs: Docs, num_docs: int) -> NDArray[Any]:
    if len(docs) == num_docs:
        return np.ascontiguousarray(values)
    full = np.zeros(num_docs, values.dtype)
    full[docs] = values
    return full


def _stored(values: pa.Array, kind: ResultType) -> pa.Array:
    """Values in stored form without nulls: the type's default stands for them."""
    data_type = kind.data_type or DataType.STRING
    arrow = _ARROW.get(data_type.stored, pa.binary())
    if pa.types.is_null(values.type):
        values = values.cast(arrow)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    stored = values if values.type == arrow else values.cast(arrow)
    if stored.null_count:
        stored = pc.fill_null(stored, pa.scalar(default_null_value(data_type, FieldType.DIMENSION), arrow))
    return _canonical(stored) if pa.types.is_floating(arrow) else stored


def _canonical(values: pa.Array) -> pa.Array:
    """−0.0 is 0.0 and NaN one value: what looks at bits, as HyperLogLog does, sees values."""
    plain = values.to_numpy(zero_copy_only=False) + values.type.to_pandas_dtype()(0)
    plain[np.isnan(plain)] = np.nan
    return pa.array(plain, values.type)


def _encode(values: pa.Array) -> tuple[NDArray[np.uint32], pa.Array]:
    """Dict ids and the sorted distinct values of values in stored form; NaN is last."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return ranks[codes], encoded.dictionary.take(pa.array(order))


# --- the column ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sorted:
    """Distinct values of a computed column; what kernels and operators need of data_source.Dictionary."""

    values_: pa.Array
    cardinality: int

    def value(self, dict_id: int) -> Stored:
        found: Stored = self.values_[dict_id].as_py()
        return found

    def arrow(self) -> pa.Array:
        return self.values_


@dataclass(slots=True)
class ComputedColumn:
    """An expression's values in a segment; implements what operators use of data_source.Column."""

    name: str
    kind: ResultType
    num_docs: int
    num_values: int = 0
    cardinality: int = -1
    max_values_per_doc: int = 1
    has_nulls: bool = False
    size_bytes: int = 0
    dictionary: Dictionary | None = None
    meta: NDArray[np.int64] = field(default_factory=lambda: np.zeros(abi.META_WORDS, np.int64))
    _kept: list[Any] = field(default_factory=list)

    field_type = FieldType.DIMENSION
    is_sorted = False
    min_value = None
    max_value = None
    partitions = None

    def __post_init__(self) -> None:
        self.num_values = self.num_docs
        self.meta[abi.M_NUM_DOCS] = self.meta[abi.M_NUM_VALUES] = self.num_docs
        self.meta[abi.M_CARDINALITY] = -1

    @property
    def data_type(self) -> DataType:
        return self.kind.data_type or DataType.STRING

    @property
    def single_value(self) -> bool:
        return self.kind.single_value

    def put_values(self, values: NDArray[Any]) -> None:
        """Plain values of a fixed type."""
        self._keep(values)
        self.meta[abi.M_ENCODING], self.meta[abi.M_WIDTH] = abi.ENC_RAW, values.itemsize
        self.meta[abi.M_STORED] = _STORED_WORDS[self.data_type.stored]
        self.meta[abi.M_DATA] = self._address(values)

    def put_ids(self, ids: NDArray[np.uint32], dictionary: pa.Array) -> None:
        """Dict ids of distinct values."""
        self._keep(ids)
        self._kept.append(dictionary)
        self.size_bytes += dictionary.nbytes
        self.cardinality = len(dictionary)
        meta = self.meta
        meta[abi.M_ENCODING], meta[abi.M_WIDTH], meta[abi.M_CARDINALITY] = abi.ENC_DICT, ids.itemsize, len(dictionary)
        meta[abi.M_DATA] = self._address(ids)
        if self.data_type.stored is StoredType.VAR:
            meta[abi.M_STORED] = abi.T_VAR
            _, offsets, body = dictionary.buffers()
            meta[abi.M_DICTIONARY_OFFSETS] = offsets.address + dictionary.offset * 4 if offsets is not None else 0
            meta[abi.M_DICTIONARY] = body.address if body is not None else 0
        else:
            values = np.ascontiguousarray(dictionary.to_numpy(zero_copy_only=False))
            self._keep(values)
            meta[abi.M_STORED] = _STORED_WORDS[self.data_type.stored]
            meta[abi.M_DICTIONARY] = self._address(values)

    def put_numbers(self, ids: NDArray[np.uint32], num_ids: int) -> None:
        """Dict ids whose values are elsewhere: `ScanPlan.numbered`."""
        self._kept.append(ids)
        self.cardinality = num_ids
        meta = self.meta
        meta[abi.M_ENCODING], meta[abi.M_WIDTH], meta[abi.M_CARDINALITY], meta[abi.M_STORED] = abi.ENC_DICT, ids.itemsize, num_ids, abi.T_VAR
        meta[abi.M_DATA] = self._address(ids)

    def put_offsets(self, lengths: NDArray[np.int64]) -> None:
        """Values of each doc, in doc order: multi-values."""
        offsets = np.zeros(self.num_docs + 1, np.uint32)
        np.cumsum(lengths, out=offsets[1:])
        self._keep(offsets)
        self.num_values, self.max_values_per_doc = int(offsets[-1]), int(lengths.max(initial=1))
        self.meta[abi.M_NUM_VALUES], self.meta[abi.M_MV_OFFSETS] = self.num_values, offsets.ctypes.data

    def put_nulls(self, missing: NDArray[np.bool_]) -> None:
        """Which docs have no value."""
        self.has_nulls = bool(missing.any())
        if self.has_nulls:
            bitmap = np.packbits(missing, bitorder="little")
            self._keep(bitmap)
            self.meta[abi.M_NULLS] = bitmap.ctypes.data

    def _keep(self, array: NDArray[Any]) -> None:
        self._kept.append(array)
        self.size_bytes += array.nbytes

    def _address(self, array: NDArray[Any]) -> int:
        if array.size:
            return int(array.ctypes.data)
        self._kept.append(np.zeros(1, np.int64))  # an address that may be looked at
        return int(self._kept[-1].ctypes.data)
