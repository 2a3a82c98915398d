"""Merging much a partition at a time: the rows of all partial results fall into partitions by a hash of their keys, so
a partition is merged, finished and cut to what the answer can show before the next one is touched. Sets of values that
are only counted are divided by their values in the same way. What the merge takes beside the partial results is what
one partition takes (a grace hash aggregation whose input stays in memory).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pinotpy.errors import DataError
from pinotpy.functions.spec import aggregation_function
from pinotpy.functions.state.grouping import number_rows
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.result.combine import (
    distinct_rows,
    in_one,
    limit_groups,
    merge_all_but_rows,
    ordered_rows,
    state_names,
)
from pinotpy.query.result.merge_memory import counted_columns, exceeds_groups_limit, merged_bytes, num_parts
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.partition_rows import BLOCK_ROWS, divided
from pinotpy.query.result.reduce import shows_any_groups, without_hidden_groups
from pinotpy.query.result.value_counts import count_values


def merge_by_partitions(
    context: QueryContext, partials: Sequence[PartialResult], num_partitions: int, check: Callable[[], None]
) -> PartialResult:
    """As `combine.merge_partials` of what is no selection, for an answer that is made of this alone: with only the rows
    that it may show, in another order, and numbers in the place of sets of which it shows the number of values.

    Args:
        num_partitions: of rows: a power of two, at most PARTITIONS_MAX.
        check: called between partitions; what it raises ends the merge.

    Raises: DataError for rows that do not fit together.
    """
    assert context.kind is not QueryKind.SELECTION, "a selection shows rows as they are"
    merged = merge_all_but_rows(partials)
    tables = [rows for partial in partials if (rows := partial.rows) is not None]
    if not any(table.num_rows for table in tables):
        merged.rows = tables[0] if tables else None
        return merged
    try:
        rows = pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise DataError(f"partial results of one query do not fit together: {error}") from error
    if num_partitions == 1 or context.kind is QueryKind.AGGREGATION:
        merged.rows = _merged(context, rows, check)
        if context.kind is QueryKind.GROUP_BY:
            limit_groups(context, merged)
        return merged
    assert not exceeds_groups_limit(context, partials), "which groups a limit leaves out depends on all of them"
    kept: list[pa.Table] = []
    for part in _partitions(context, rows, num_partitions, check):
        found = _merged(context, part, check)
        # What HAVING refuses is gone, and so is what the answer cannot show.
        kept.append(without_hidden_groups(context, found) if context.kind is QueryKind.GROUP_BY else found)
        if _is_enough(context, kept):
            break
    merged.rows = pa.concat_tables(kept)
    if context.kind is QueryKind.DISTINCT:
        merged.rows = ordered_rows(context, merged.rows)
    return merged


def _partitions(
    context: QueryContext, rows: pa.Table, num_partitions: int, check: Callable[[], None]
) -> Iterator[pa.Table]:
    """The rows of each partition that has any, copied."""
    keys = [f"k{i}" for i in range(len(context.group_by))] or rows.column_names
    blocks = [block for block in rows.to_batches(max_chunksize=BLOCK_ROWS) if block.num_rows]
    rows_of = divided([[block.column(name) for name in keys] for block in blocks], num_partitions, check)
    for partition in range(num_partitions):
        check()
        parts = [
            block.take(pa.array(numbers[partition]))
            for block, numbers in zip(blocks, rows_of, strict=True)
            if len(numbers[partition])
        ]
        if parts:
            yield pa.Table.from_batches(parts)


def _is_enough(context: QueryContext, kept: list[pa.Table]) -> bool:
    """Whether any rows are right and there are as many as the answer shows."""
    shows_any = shows_any_groups(context) if context.kind is QueryKind.GROUP_BY else not context.order_by
    return shows_any and sum(table.num_rows for table in kept) >= context.offset + context.limit


def _merged(context: QueryContext, rows: pa.Table, check: Callable[[], None]) -> pa.Table:
    """The groups, or different rows, of rows that no others belong to."""
    if context.kind is QueryKind.DISTINCT:
        return ordered_rows(context, distinct_rows(rows.combine_chunks()))
    keys = [f"k{i}" for i in range(len(context.group_by))]
    out = {name: in_one(rows, name) for name in keys}
    if keys:
        groups, first = number_rows(list(out.values()))
        out = {name: column.take(pa.array(first)) for name, column in out.items()}
    else:
        groups, first = np.zeros(rows.num_rows, np.int64), np.zeros(1, np.int64)
    counted = counted_columns(context, rows)
    names_of = state_names(rows.column_names, len(context.aggregations))
    for aggregation, names in zip(context.aggregations, names_of, strict=True):
        check()
        if names[0] in counted:
            sets = rows.column(names[0])
            num_values = sum(len(lists.flatten()) for lists in sets.chunks)
            parts = num_parts(merged_bytes(sets.nbytes, num_values))
            out[names[0]] = pa.array(count_values(sets.chunks, groups, len(first), parts, check))
            continue
        function = aggregation_function(aggregation.function, aggregation.args)
        merged = function.merge([in_one(rows, name) for name in names], groups, len(first))
        out.update(zip(names, merged, strict=True))
    fields = [pa.field(field.name, pa.int64()) if field.name in counted else field for field in rows.schema]
    return pa.table([out[name] for name in rows.column_names], schema=pa.schema(fields))
