"""From merged state columns to the whole answer: finish, HAVING over all groups, ORDER BY, LIMIT.

PQL answers a GROUP BY with one list per aggregation, each with its own best groups (largest first; MIN and MINMV
smallest first); groups that tie at the cut are chosen by their keys, so that the answer does not depend on who
delivered first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import aggregation_function
from pinotpy.pql.ast import Dialect
from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import AggregationRef, OutputColumn, QueryContext, QueryKind
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.result_types import argument_of, result_type, types_of
from pinotpy.query.result.combine import state_names
from pinotpy.query.result.ordering import SortKey, order_indices
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.post_aggregation import Groups, evaluate, select_groups, type_of_aggregation, type_of_groups
from pinotpy.query.result.reduced import GroupList, ReducedResult, ResultColumn

SMALLEST_FIRST = frozenset({"min", "minmv"})


def reduce_partials(context: QueryContext, partial: PartialResult) -> ReducedResult:
    """The answer from the one partial result that everything was merged into (combine.merge_partials)."""
    match context.kind:
        case QueryKind.SELECTION | QueryKind.DISTINCT:
            return _rows(context, partial.rows)
        case QueryKind.AGGREGATION:
            return _aggregation(context, partial.rows)
        case QueryKind.GROUP_BY:
            return _group_by(context, partial.rows)


def constant_row(context: QueryContext) -> ReducedResult:
    """The answer to a select list of constants: one row, no server asked."""
    groups = Groups(context, {}, (), 1)
    columns = [
        ResultColumn(c.name, result_type(c.expression, context), evaluate(c.expression, groups)) for c in context.output
    ]
    return ReducedResult(
        context.kind,
        tuple(ResultColumn(c.name, c.type, c.values.slice(context.offset, context.limit)) for c in columns),
    )


# --- rows ----------------------------------------------------------------------------------------------------------


def _rows(context: QueryContext, rows: pa.Table | None) -> ReducedResult:
    """Selections and DISTINCT: merged rows are in order already; the offset is cut off here, once."""
    types = [result_type(column.expression, context) for column in context.output]
    if context.kind is QueryKind.DISTINCT:  # it shows a multi-value column one value a row
        types = [ResultType(kind.data_type) for kind in types]
    page = None if rows is None else rows.slice(context.offset, context.limit)
    out = []
    for i, (column, kind) in enumerate(zip(context.output, types, strict=True)):
        out.append(ResultColumn(column.name, kind, _empty(kind) if page is None else _in_one(page.column(f"o{i}"))))
    return ReducedResult(context.kind, tuple(out))


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    # Combining copies also what is in one piece.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _empty(kind: ResultType) -> pa.Array:
    arrow = pa.null() if kind.data_type is None else kind.data_type.arrow
    return pa.array([], arrow if kind.single_value else pa.list_(arrow))


# --- aggregations --------------------------------------------------------------------------------------------------


def _aggregation(context: QueryContext, rows: pa.Table | None) -> ReducedResult:
    """One row, also when nothing matched (SQL's LIMIT 0 leaves none)."""
    values, _ = _finished(context, rows)
    groups = Groups(context, {}, tuple(values), 1)
    num_rows = 0 if context.dialect is Dialect.SQL and context.limit == 0 else 1
    if context.having is not None and context.dialect is Dialect.SQL:
        num_rows = min(num_rows, int(select_groups(context.having, groups)[0]))
    return ReducedResult(
        context.kind, tuple(_output(context, column, groups, slice(0, num_rows)) for column in context.output)
    )


def _finished(context: QueryContext, rows: pa.Table | None) -> tuple[list[pa.Array], list[pa.Array]]:
    """The value column of every aggregation, and what PQL orders its groups by. Without rows: one row of nothing
    seen.
    """
    values, ranks = [], []
    names = state_names([] if rows is None else rows.column_names, len(context.aggregations))
    for aggregation, states_of in zip(context.aggregations, names, strict=True):
        function = aggregation_function(aggregation.function, aggregation.args)
        if rows is None:
            states = function.nothing_seen(argument_of(aggregation.args, types_of(context), function.num_expressions))
        else:
            states = [_in_one(rows.column(name)) for name in states_of]
        values.append(function.finish(states, null_handling=context.null_handling))
        ranks.append(function.order_values(states, values[-1]))
    return values, ranks


def _output(
    context: QueryContext, column: OutputColumn, groups: Groups, rows: slice | Int64Array | pa.Array
) -> ResultColumn:
    values = evaluate(column.expression, groups)
    kind = type_of_groups(column.expression, context)
    taken = (
        values[rows] if isinstance(rows, slice) else values.take(rows if isinstance(rows, pa.Array) else pa.array(rows))
    )
    return ResultColumn(column.name, kind, taken)


# --- groups --------------------------------------------------------------------------------------------------------


def without_hidden_groups(context: QueryContext, rows: pa.Table) -> pa.Table:
    """The groups that the answer shows, or may show, of rows that the whole answer is made of: the same answer of fewer
    rows.

    A server that has everything sends these instead of all its groups; the reduce of them decides again, alike.
    """
    if context.having is None and shows_any_groups(context):
        return rows.slice(0, context.offset + context.limit)
    groups = _groups(context, rows)
    chosen = (
        np.arange(rows.num_rows) if context.having is None else np.flatnonzero(select_groups(context.having, groups))
    )
    if context.having is not None:
        groups = _take(groups, chosen)
    if context.dialect is Dialect.SQL or context.options.group_by_mode_sql:
        shown = _ordered(context, groups)
    else:
        shown = np.unique(
            np.concatenate(
                [_best(context, column, groups) for column in context.output if not _is_key(context, column)]
            )
        )
    return rows.take(pa.array(chosen[shown]))


def shows_any_groups(context: QueryContext) -> bool:
    """Whether any groups that HAVING leaves are right."""
    return context.dialect is Dialect.SQL and not context.order_by


def _is_key(context: QueryContext, column: OutputColumn) -> bool:
    return column.expression in context.group_by


def _groups(context: QueryContext, rows: pa.Table) -> Groups:
    keys = {expression: _in_one(rows.column(f"k{i}")) for i, expression in enumerate(context.group_by)}
    values, ranks = _finished(context, rows)
    return Groups(context, keys, tuple(values), rows.num_rows, tuple(ranks))


def _group_by(context: QueryContext, rows: pa.Table | None) -> ReducedResult:
    if rows is None:
        return _no_groups(context)
    groups = _groups(context, rows)
    if context.having is not None:
        groups = _take(groups, np.flatnonzero(select_groups(context.having, groups)))
    if has_own_lists(context):
        return ReducedResult(context.kind, (), tuple(_group_list(context, column, groups) for column in context.output))
    if context.dialect is Dialect.PQL:
        return _pql_in_common_order(context, groups)
    order = _ordered(context, groups)[context.offset :]
    return ReducedResult(context.kind, tuple(_output(context, column, groups, order) for column in context.output))


def _no_groups(context: QueryContext) -> ReducedResult:
    keys = {e: _empty(ResultType(result_type(e, context).data_type)) for e in context.group_by}
    values = tuple(_empty(type_of_aggregation(context, a)) for a in context.aggregations)
    groups = Groups(context, keys, values, 0)
    if has_own_lists(context):
        return ReducedResult(context.kind, (), tuple(_group_list(context, column, groups) for column in context.output))
    if context.dialect is Dialect.PQL:
        return _pql_in_common_order(context, groups)
    return ReducedResult(
        context.kind, tuple(_output(context, column, groups, slice(0, 0)) for column in context.output)
    )


def has_own_lists(context: QueryContext) -> bool:
    """PQL's own shape: one list of groups an aggregation."""
    options = context.options
    return context.dialect is Dialect.PQL and not options.group_by_mode_sql and not options.response_format_sql


def _take(groups: Groups, rows: Int64Array) -> Groups:
    indices = pa.array(rows)
    values, ranks = (tuple(v.take(indices) for v in columns) for columns in (groups.values, groups.ranks))
    return Groups(groups.context, {e: v.take(indices) for e, v in groups.keys.items()}, values, len(rows), ranks)


def _ordered(context: QueryContext, groups: Groups) -> Int64Array:
    """Row numbers of the first offset + limit groups. Without ORDER BY any groups are right: the first ones met."""
    limit = context.offset + context.limit
    if not context.order_by:
        return np.arange(min(limit, groups.num_rows))
    keys = [SortKey(evaluate(o.expression, groups), o.ascending, o.nulls_last) for o in context.order_by]
    return order_indices([*keys, *_key_order(groups)], groups.num_rows, limit)


def _key_order(groups: Groups) -> list[SortKey]:
    return [SortKey(values) for values in groups.keys.values()]


def _best(context: QueryContext, column: OutputColumn, groups: Groups) -> Int64Array:
    """PQL: the best groups of one aggregation, best first; ties by key."""
    if isinstance(column.expression, AggregationRef) and groups.ranks:
        index = column.expression.index
        value = SortKey(groups.ranks[index], ascending=context.aggregations[index].function in SMALLEST_FIRST)
    else:
        value = SortKey(evaluate(column.expression, groups), ascending=False)
    return order_indices([value, *_key_order(groups)], groups.num_rows, context.limit)


def _group_list(context: QueryContext, column: OutputColumn, groups: Groups) -> GroupList:
    order = pa.array(_best(context, column, groups))
    return GroupList(column.name, tuple(_keys(context, groups, order)), _output(context, column, groups, order))


def _keys(context: QueryContext, groups: Groups, order: Int64Array | pa.Array) -> list[ResultColumn]:
    names = [OutputColumn(print_expression(expression, context.dialect), expression) for expression in context.group_by]
    return [_output(context, column, groups, order) for column in names]


def _pql_in_common_order(context: QueryContext, groups: Groups) -> ReducedResult:
    """PQL under groupByMode=sql and/or responseFormat=sql: one order for all aggregations.

    As a table, `context.output` names the group columns first. Without groupByMode=sql their values are text, as in the
    reference, and several aggregations, each with an order of its own, make no table.
    """
    by_sql_mode = context.options.group_by_mode_sql
    shown = [column for column in context.output if isinstance(column.expression, AggregationRef)]
    if not by_sql_mode and len(shown) > 1:
        raise InvalidQueryError(
            "a GROUP BY with several aggregations has one list per aggregation in PQL and is no table: add the option "
            "groupByMode=sql, or ask one aggregation"
        )
    order = _ordered(context, groups)[: context.limit] if by_sql_mode else _best(context, shown[0], groups)
    if not context.options.response_format_sql:
        keys = tuple(_keys(context, groups, order))
        return ReducedResult(
            context.kind, (), tuple(GroupList(c.name, keys, _output(context, c, groups, order)) for c in shown)
        )
    columns = [_output(context, column, groups, order) for column in context.output]
    if not by_sql_mode:
        columns = [c if column in shown else _as_text(c) for column, c in zip(context.output, columns, strict=True)]
    return ReducedResult(context.kind, tuple(columns))


def _as_text(column: ResultColumn) -> ResultColumn:
    # As in the reference: without groupByMode=sql the groups of a table are text.
    from pinotpy.query.result.response.values import group_texts

    return ResultColumn(column.name, ResultType(DataType.STRING), pa.array(group_texts(column), pa.string()))
