"""Expressions that are grouped or aggregated become columns of the segments, so that kernels read them like any other;
so do raw columns of text, which have no dict ids to read.

An expression over one dictionary column is computed on its dictionary; any other is computed on the docs that the
filter selects, in batches, and never on others: a value that no selected doc has can make nothing fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import MemoryLimitError, QueryExecutionError
from pinotpy.functions.spec import aggregation_function
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.query.expression.rows import dictionary_rows
from pinotpy.query.model.context import Aggregation, ColumnRef, QueryContext
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.result_types import columns_in, is_constant, is_strict, reads_rows, result_type
from pinotpy.query.plan.hashed_in_place import hashes_in_place
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.selection_list import materialize_selection
from pinotpy.query.project.columns_on_docs import ColumnOnDocs, ColumnOnTexts, account, made_column, pending_column
from pinotpy.query.project.computed_column import ComputedColumn, SortedValues, encoded_values, stored_values
from pinotpy.query.project.sources import computes
from pinotpy.query.project.text_codes import TextCodes, code_texts, has_text_codes
from pinotpy.query.runtime.batches import batches
from pinotpy.query.runtime.parallel import run_pieces
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.on_dictionary import deciding_column
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.virtual import CompletedSegment

# Computing expressions takes registers, which many keys take as well.
_BLOCK_KEYS_MAX: Final = 8


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

    read = np.unique(plan.morsels[:, abi.U_SEGMENT]).tolist()
    raw = {
        call: [index for index in read if has_text_codes(plan, index, call.name)]
        for call in calls
        if isinstance(call, Identifier)
    }
    has_numbers: set[tuple[int, Expression]] = {(index, call) for call, indexes in raw.items() for index in indexes}
    run_pieces(
        plan,
        [partial(on_dictionary, index, call) for index in read for call in calls if (index, call) not in has_numbers],
    )
    if (pending or has_numbers) and not plan.reads_all_rows:
        plan = materialize_selection(plan)
    numbered = {
        names[call]: numbers
        for call, indexes in raw.items()
        if (numbers := _put_numbers(plan, call, names[call], types[call], indexes, added)) is not None
    }
    docs = _docs_by_segment(plan) if pending else {}
    columns_on_docs = [
        pending_column(plan, index, call, names[call], types[call], docs[index])
        for index, call in pending
        if index in docs
    ]
    run_pieces(plan, [job for column in columns_on_docs for job in column.jobs()])

    def finish(column: ColumnOnDocs | ColumnOnTexts) -> None:
        added[column.index][column.name] = column.finish()

    run_pieces(plan, [partial(finish, column) for column in columns_on_docs])
    for segment, columns in zip(plan.segments, added, strict=True):
        for call, name in names.items():
            if name not in columns:  # a segment of which nothing is read
                columns[name] = made_column(plan, name, types[call], segment.num_docs, [], np.zeros(0, np.int64))
    return replace(_rewritten(plan, names, types, added), numbered=numbered)


def calls_of(plan: ScanPlan) -> list[Expression]:
    """The expressions that the plan's query groups or aggregates by and that the scan cannot compute itself, each
    once.
    """
    context = plan.context
    keys = [key for key in context.group_by if isinstance(key, Literal) or _is_computed(plan, key)]
    arguments = [
        a
        for a in context.aggregations
        if a.args and not reads_rows(a) and _is_computed(plan, a.args[0]) and not _needs_no_ids(a, context)
    ]
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
    return aggregation_function(aggregation.function, aggregation.args).name == "count" or hashes_in_place(
        aggregation, context
    )


def _is_key_of_blocks(plan: ScanPlan, key: Expression) -> bool:
    """Whether the scan computes a key itself. What one dictionary decides has few values: they are numbered here."""
    if not isinstance(key, Call) or len(plan.context.group_by) > _BLOCK_KEYS_MAX:
        return False
    if any(deciding_column(columns_in(key), segment, strict=True) is not None for segment in plan.segments):
        return False
    return computes(key, plan)


def _is_argument_of_blocks(plan: ScanPlan, aggregation: Aggregation) -> bool:
    """Whether the scan computes an argument itself."""
    source = aggregation.args[0]
    if not isinstance(source, Call) or len(plan.context.group_by) > _BLOCK_KEYS_MAX:
        return False
    return computes(source, plan)


def _rewritten(
    plan: ScanPlan,
    names: dict[Expression, str],
    types: dict[Expression, ResultType],
    added: Sequence[dict[str, ComputedColumn]],
) -> ScanPlan:
    def stand_in(expression: Expression) -> Expression:
        return Identifier(names[expression]) if expression in names else expression

    context = plan.context
    refs = [
        ColumnRef(name, types[call].data_type or DataType.STRING, types[call].single_value)
        for call, name in names.items()
    ]
    aggregations: list[Aggregation] = [
        a
        if not a.args or reads_rows(a) or _needs_no_ids(a, context)
        else replace(a, args=(stand_in(a.args[0]), *a.args[1:]))
        for a in context.aggregations
    ]
    segments = SegmentSet(
        [
            CompletedSegment(segment, dict[str, Any](columns))
            for segment, columns in zip(plan.segments, added, strict=True)
        ]
    )
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


def _docs_by_segment(plan: ScanPlan) -> dict[int, Int64Array]:
    """The docs that are read of each segment, ascending."""
    if plan.reads_all_rows:
        return {
            index: np.arange(plan.segments[index].num_docs)
            for index in np.unique(plan.morsels[:, abi.U_SEGMENT]).tolist()
        }
    lists: dict[int, list[NDArray[np.int32]]] = {}
    for index, docs in zip(plan.morsels[:, abi.U_SEGMENT].tolist(), plan.listed, strict=True):
        lists.setdefault(index, []).append(docs)
    return {index: np.concatenate(parts).astype(np.int64) for index, parts in lists.items()}


def _on_dictionary(plan: ScanPlan, index: int, call: Expression, name: str, kind: ResultType) -> ComputedColumn | None:
    """Computed once a dictionary value; None where that is impossible, not worth it, or fails for a value that perhaps
    no doc has.
    """
    segment = plan.segments[index]
    decided = kind.single_value and is_constant(call)
    source = deciding_column(columns_in(call), segment, strict=is_strict(call, plan.context)) if decided else None
    if source is None or source.cardinality * 2 > segment.num_docs:
        return None
    try:
        values = pa.concat_arrays(
            [
                dictionary_rows(plan.context, source, first, end).evaluate(call)
                for first, end in batches(source.cardinality, plan.control)
            ]
        )
    except MemoryLimitError:
        raise
    except QueryExecutionError:
        return None
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    has_null_docs = plan.context.null_handling and source.has_nulls
    stored = stored_values(values, kind)
    if has_null_docs:  # the default stands for them, not what the expression gives for the column's default
        stored = pa.concat_arrays([stored, stored_values(pa.nulls(1, values.type), kind)])
    table, dictionary = encoded_values(stored)
    ids = source.ids()
    of_docs = table[ids]
    if has_null_docs:
        of_docs[source.null_mask()] = table[-1]
    column = ComputedColumn(name, kind, segment.num_docs)
    column.put_ids(of_docs, dictionary)
    column.dictionary = SortedValues(dictionary, len(dictionary))  # type: ignore[assignment]
    if plan.context.null_handling and (source.has_nulls or missing is not None):
        column.put_nulls(source.null_mask() if missing is None else missing[ids] | source.null_mask())
    account(plan, column)
    return column


def _put_numbers(
    plan: ScanPlan,
    call: Identifier,
    name: str,
    kind: ResultType,
    indexes: Sequence[int],
    added: Sequence[dict[str, ComputedColumn]],
) -> TextCodes | None:
    """Columns with the numbers of a raw column's texts, in those of the segments at `indexes` that are read. Gives the
    numbers where all segments that are read have them; else the columns have the texts as their dictionary, and None
    comes back.
    """
    read = np.unique(plan.morsels[:, abi.U_SEGMENT]).tolist()
    used = [index for index in read if index in set(indexes)]
    if not used:
        return None
    numbers = code_texts(plan, call.name, used)
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
