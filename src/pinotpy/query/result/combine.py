"""Merging partial results: of threads, of servers, of replicas that share a query. By value, so that each part is right
alone, and in any order with the same answer. Loads compiled kernels only for merges of many rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.errors import DataError
from pinotpy.functions.spec import aggregation_function
from pinotpy.functions.state.grouping import number_rows
from pinotpy.pql.ast import Expression
from pinotpy.query.model.context import AggregationRef, QueryContext, QueryKind
from pinotpy.query.result.ordering import SortKey, order_indices
from pinotpy.query.result.partial import PartialResult, Statistics


def merge_partials(context: QueryContext, partials: Sequence[PartialResult]) -> PartialResult:
    """One partial result that says what all of them say.

    Rows of a SELECTION or DISTINCT are in the order of the query and cut to offset + limit; without ORDER BY they keep
    the order of `partials`. Groups are in order of first appearance. Raises DataError for rows that do not fit
    together.
    """
    merged = merge_all_but_rows(partials)
    filled = [partial for partial in partials if partial.has_rows]
    if len(filled) == 1 and context.kind is not QueryKind.SELECTION:
        merged.rows = filled[0].rows if filled[0].few is None else filled[0].few
    elif filled:
        merged.rows = merge_tables(context, [partial.rows for partial in filled])
    if context.kind is QueryKind.GROUP_BY:
        limit_groups(context, merged)
    return merged


def merge_all_but_rows(partials: Sequence[PartialResult]) -> PartialResult:
    """Counters, faults and what is missing."""
    statistics = Statistics()
    for partial in partials:
        statistics.add(partial.statistics)
    return PartialResult(
        None,
        statistics,
        [exception for partial in partials for exception in partial.exceptions],
        sorted({name for partial in partials for name in partial.missing_segments}),
        [entry for partial in partials for entry in partial.trace],
    )


def limit_groups(context: QueryContext, partial: PartialResult, num_rows: Int64Array | None = None) -> None:
    """Keep at most num_groups_limit groups, and say so in the statistics.

    Args:
        num_rows: selected rows of every group, for the bound of what is missing; None: not known, then all rows are the
            bound.
    """
    limit = context.options.num_groups_limit
    if limit is not None and partial.num_rows > limit and partial.rows is not None:
        partial.rows = partial.rows.slice(0, limit)
        statistics = partial.statistics
        statistics.num_groups_limit_reached = True
        if num_rows is None:
            statistics.num_rows_of_cut_groups = statistics.num_docs_scanned
        else:
            statistics.num_rows_of_cut_groups += int(num_rows[limit:].sum())


def merge_tables(context: QueryContext, tables: list[pa.Table]) -> pa.Table:
    """The rows of `merge_partials`. Raises DataError for rows that do not fit together."""
    try:
        rows = (tables[0] if len(tables) == 1 else pa.concat_tables(tables)).combine_chunks()
    except pa.ArrowException as error:
        raise DataError(f"partial results of one query do not fit together: {error}") from error
    match context.kind:
        case QueryKind.SELECTION:
            return ordered_rows(context, rows)
        case QueryKind.DISTINCT:
            return ordered_rows(context, distinct_rows(rows) if rows.num_rows else rows)
        case QueryKind.AGGREGATION:
            return _grouped(context, rows, [])
        case QueryKind.GROUP_BY:
            return _grouped(context, rows, [f"k{i}" for i in range(len(context.group_by))])


def state_names(column_names: Sequence[str], num_aggregations: int) -> list[list[str]]:
    """The state columns of each aggregation, a<i>_<state>, among the columns of a partial result."""
    names: list[list[str]] = [[] for _ in range(num_aggregations)]
    for name in column_names:
        prefix, _, state = name.partition("_")
        if state and prefix[0] == "a":
            names[int(prefix[1:])].append(name)
    return names


def in_one(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _grouped(context: QueryContext, rows: pa.Table, keys: list[str]) -> pa.Table:
    if not keys:
        groups, first = np.zeros(rows.num_rows, np.int64), np.zeros(1, np.int64)
    elif rows.num_rows == 0:
        return rows
    else:
        groups, first = number_rows([in_one(rows, name) for name in keys])
    out = {name: in_one(rows, name).take(pa.array(first)) for name in keys}
    for aggregation, names in zip(
        context.aggregations, state_names(rows.column_names, len(context.aggregations)), strict=True
    ):
        merged = aggregation_function(aggregation.function, aggregation.args).merge(
            [in_one(rows, name) for name in names], groups, len(first)
        )
        out.update(zip(names, merged, strict=True))
    return pa.table([out[name] for name in rows.column_names], schema=rows.schema)


def distinct_rows(rows: pa.Table) -> pa.Table:
    """Each row once, where it came first."""
    first = number_rows([in_one(rows, name) for name in rows.column_names])[1]
    return rows if len(first) == rows.num_rows else rows.take(pa.array(first))


def ordered_rows(context: QueryContext, rows: pa.Table) -> pa.Table:
    """The first offset + limit rows of a SELECTION or DISTINCT in the order of the query."""
    wanted = context.offset + context.limit
    if not context.order_by:
        return rows.slice(0, wanted)
    keys = [
        SortKey(in_one(rows, name), by.ascending, by.nulls_last)
        for name, by in zip(sort_columns(context), context.order_by, strict=True)
    ]
    # Rows equal in all keys: by their other values, so that the order of the parts does not show.
    others = [
        SortKey(in_one(rows, name))
        for name in rows.column_names
        if not pa.types.is_nested(rows.schema.field(name).type)
    ]
    return rows.take(pa.array(order_indices([*keys, *others], rows.num_rows, wanted)))


def sort_columns(context: QueryContext) -> list[str]:
    """The column of a partial result's rows that holds each sort key: o<i> of an equal output column, else s0, s1, …"""
    outputs: dict[Expression | AggregationRef, str] = {}
    for i, column in enumerate(context.output):
        outputs.setdefault(column.expression, f"o{i}")
    names, extra = [], 0
    for by in context.order_by:
        if by.expression in outputs:
            names.append(outputs[by.expression])
        else:
            names.append(f"s{extra}")
            extra += 1
    return names
