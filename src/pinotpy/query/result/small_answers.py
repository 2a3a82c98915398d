"""Small answers of one server: finished, ordered and written from Python values, without Arrow.

`reduce` calls a vectorised function for every step, and each call costs more than ten rows do. This is a second reduce
that gives the same bytes, kept because of what it saves per query (median of 150 calls with warm caches):

    one row of aggregations        13 µs beside   96 µs of combine, reduce and response
    10, 100, 600 groups    42, 118, 508 µs beside 258, 413, 773 µs
    10, 100, 600 rows      32, 118, 544 µs beside 183, 290, 514 µs

A trivial group-by takes about 280 µs as a whole. Everything that depends on the query alone (functions, types, names)
is resolved once per cached plan. HAVING, expressions over aggregations and sketches go through `reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import Any, Final

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateFunction, aggregation_function
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import AggregationRef, QueryContext, QueryKind
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.result_types import result_type
from pinotpy.query.result.combine import sort_columns, state_names
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.post_aggregation import type_of_aggregation
from pinotpy.query.result.reduce import SMALLEST_FIRST, has_own_lists
from pinotpy.query.result.response import values

# From here on vectorised functions are as fast, with caches that are warm; with cold ones they cost 0.5 ms more at 600
# rows.
SHORT_ROWS_MAX: Final = 700
SHORT_BYTES_MAX: Final = 64 << 10

# Columns of a partial result by name: Python's values, as `Array.to_pylist` gives them.
RowValues = dict[str, list[Any]]
# Values of one column as values of JSON.
Show = Callable[[list[Any]], list[Any]]
# The keys of the answer that hold its rows, as `result_keys` of response/pql.py and response/sql.py; None: the long
# way.
SmallAnswer = Callable[[RowValues, int], dict[str, Any] | None]


def shown_small(answer: SmallAnswer, result: PartialResult) -> dict[str, Any] | None:
    """What `answer` makes of the only partial result of a query; None if it has to go the long way."""
    num_rows = result.num_rows
    if num_rows > SHORT_ROWS_MAX or not result.has_rows or result.num_bytes > SHORT_BYTES_MAX:
        return None
    if result.few is not None:
        return answer(result.few.to_lists(), num_rows)
    rows = result.rows
    assert rows is not None
    return answer(dict(zip(rows.column_names, [column.to_pylist() for column in rows.columns], strict=True)), num_rows)


def small_answer_of(context: QueryContext) -> SmallAnswer | None:
    """How few rows become the answer to queries that differ from this one in the literals of their filter; None: the
    long way.
    """
    if (
        context.explain
        or context.options.trace
        or context.having is not None
        or context.options.num_groups_limit is not None
    ):
        return None
    match context.kind:
        case QueryKind.SELECTION | QueryKind.DISTINCT:
            return _rows(context)
        case QueryKind.AGGREGATION:
            return _aggregation(context)
        case QueryKind.GROUP_BY:
            return (
                _own_lists(context)
                if has_own_lists(context)
                else _groups(context)
                if context.dialect is Dialect.SQL
                else None
            )


# --- columns -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Output:
    """A column of the answer: the number of an aggregation, or of a group expression."""

    name: str
    aggregation: int | None
    key: int | None
    data_type: DataType


def _output(context: QueryContext, name: str, expression: Expression | AggregationRef) -> _Output | None:
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            kind = type_of_aggregation(context, context.aggregations[index])
            return (
                _Output(name, index, None, kind.data_type) if kind.data_type is not None and kind.single_value else None
            )
        case Identifier() | Call() if expression in context.group_by:
            data_type = result_type(expression, context).data_type
            return None if data_type is None else _Output(name, None, context.group_by.index(expression), data_type)
        case _:
            return None


def _outputs(context: QueryContext) -> list[_Output] | None:
    outputs = [_output(context, column.name, column.expression) for column in context.output]
    known = [output for output in outputs if output is not None]
    return known if len(known) == len(outputs) else None


@dataclass(slots=True)
class _Finishing:
    """Finishes every aggregation. States are found by the names of the columns, which are the same in every answer."""

    functions: list[AggregateFunction]
    null_handling: bool
    names: tuple[str, ...] = ()
    states: tuple[tuple[str, ...], ...] = ()

    def __call__(self, rows: RowValues) -> list[list[Any]] | None:
        names = tuple(rows)
        if names != self.names:
            self.states = tuple(map(tuple, state_names(names, len(self.functions))))
            self.names = names
        finished = []
        for function, states in zip(self.functions, self.states, strict=True):
            results = function.finish_values([rows[name] for name in states], null_handling=self.null_handling)
            if results is None:
                return None
            finished.append(results)
        return finished


def _finishing(context: QueryContext) -> _Finishing | None:
    functions = [aggregation_function(aggregation.function, aggregation.args) for aggregation in context.aggregations]
    has_short_way = all(
        type(function).finish_values is not AggregateFunction.finish_values
        and type(function).order_values is AggregateFunction.order_values
        for function in functions
    )
    return _Finishing(functions, context.null_handling) if has_short_way else None


def _type_name(data_type: DataType | None, *, single_value: bool = True, pql: bool = False) -> str:
    if pql and data_type is DataType.BOOLEAN:
        data_type = DataType.STRING
    return ResultType(data_type, single_value).name


def _native(data_type: DataType | None, *, pql: bool) -> Show:
    return partial(values.native_values, data_type=data_type, pql=pql)


def _of_lists(show: Show) -> Show:
    """Shows the values of every list of a multi-value column."""
    return lambda lists: [None if items is None else show(items) for items in lists]


# --- order ---------------------------------------------------------------------------------------------------------


def _sort(order: list[int], column: list[Any], *, ascending: bool = True, nulls_last: bool | None = None) -> None:
    """Sort row numbers by a column, as query/result/ordering.py does; rows with equal values keep their order, so the
    first key is sorted by last.
    """
    keys = column
    has_nulls = None in column
    if has_nulls or (column and isinstance(column[0], float) and any(map(isnan, column))):
        last = ascending if nulls_last is None else nulls_last
        null = (2,) if last == ascending else (-1,)
        # NaN is above all numbers.
        keys = [
            null if value is None else (1,) if isinstance(value, float) and isnan(value) else (0, value)
            for value in column
        ]
    order.sort(key=keys.__getitem__, reverse=not ascending)


# --- kinds of queries ----------------------------------------------------------------------------------------------


def _aggregation(context: QueryContext) -> SmallAnswer | None:
    outputs, finishing = _outputs(context), _finishing(context)
    if outputs is None or finishing is None or (context.dialect is Dialect.SQL and context.limit == 0):
        return None
    indexes = [output.aggregation for output in outputs]
    if context.dialect is Dialect.SQL or context.options.response_format_sql:
        return _table_of_aggregations(context, outputs, finishing)
    shows = [_shown_aggregation(context, output.data_type) for output in outputs]
    names = [output.name for output in outputs]

    def answer(rows: RowValues, num_rows: int) -> dict[str, Any] | None:
        finished = finishing(rows)
        if finished is None or num_rows != 1:
            return None
        shown = [
            {"function": name, "value": show(finished[index])[0]}  # type: ignore[index]
            for name, index, show in zip(names, indexes, shows, strict=True)
        ]
        return {"aggregationResults": shown}

    return answer


def _shown_aggregation(context: QueryContext, data_type: DataType) -> Show:
    return (
        _native(data_type, pql=True)
        if context.options.preserve_type
        else partial(values.aggregation_values, data_type=data_type)
    )


def _table_of_aggregations(context: QueryContext, outputs: list[_Output], finishing: _Finishing) -> SmallAnswer:
    write = _table_writer(context, [(output.name, output.data_type, True) for output in outputs])

    def answer(rows: RowValues, num_rows: int) -> dict[str, Any] | None:
        finished = finishing(rows)
        if finished is None or num_rows != 1:
            return None
        return write([finished[output.aggregation] for output in outputs], 1)  # type: ignore[index]

    return answer


def _table_writer(
    context: QueryContext, columns: Sequence[tuple[str, DataType | None, bool]]
) -> Callable[[list[list[Any]], int], dict[str, Any]]:
    """Writes a `resultTable`: columns by name, type, and whether they have one value a row."""
    pql = context.dialect is Dialect.PQL
    shows = [_native(data_type, pql=pql) for _, data_type, _ in columns]
    shows = [
        show if single_value else _of_lists(show) for show, (_, _, single_value) in zip(shows, columns, strict=True)
    ]
    schema = {
        "columnNames": [name for name, _, _ in columns],
        "columnDataTypes": [
            _type_name(data_type, single_value=single_value, pql=pql) for _, data_type, single_value in columns
        ],
    }

    def write(found: list[list[Any]], num_rows: int) -> dict[str, Any]:
        shown = [show(column) for show, column in zip(shows, found, strict=True)]
        table = {"dataSchema": schema, "rows": list(zip(*shown, strict=True))}
        return {"resultTable": table} if pql else {"resultTable": table, "numRowsResultSet": num_rows}

    return write


def _own_lists(context: QueryContext) -> SmallAnswer | None:
    """PQL: a list for each aggregation, its best groups first, ties by key."""
    outputs, finishing = _outputs(context), _finishing(context)
    keys = [
        _output(context, print_expression(expression, context.dialect), expression) for expression in context.group_by
    ]
    known = [key for key in keys if key is not None]
    if (
        outputs is None
        or finishing is None
        or len(known) < len(keys)
        or any(output.aggregation is None for output in outputs)
    ):
        return None
    show_keys = [partial(values.group_values, data_type=key.data_type) for key in known]
    key_columns = [f"k{i}" for i in range(len(known))]
    names = [key.name for key in known]
    lists = [
        (
            output.name,
            output.aggregation,
            _shown_aggregation(context, output.data_type),
            context.aggregations[output.aggregation].function in SMALLEST_FIRST,  # type: ignore[index]
        )
        for output in outputs
    ]
    limit = context.limit

    def answer(rows: RowValues, num_rows: int) -> dict[str, Any] | None:
        finished = finishing(rows)
        if finished is None:
            return None
        by_key = list(range(num_rows))
        for column in reversed(key_columns):
            _sort(by_key, rows[column])
        shown = []
        for name, index, show, is_smallest_first in lists:
            values = finished[index]  # type: ignore[index]
            order = by_key.copy()
            _sort(order, values, ascending=is_smallest_first)
            del order[limit:]
            texts = show([values[row] for row in order])
            groups = [
                show_key([rows[column][row] for row in order])
                for show_key, column in zip(show_keys, key_columns, strict=True)
            ]
            best = [
                {"value": value, "group": group} for value, group in zip(texts, zip(*groups, strict=True), strict=True)
            ]
            shown.append({"groupByResult": best, "function": name, "groupByColumns": names})
        return {"aggregationResults": shown}

    return answer


def _groups(context: QueryContext) -> SmallAnswer | None:
    """SQL: groups in the order of ORDER BY, ties by key; without ORDER BY the first ones."""
    outputs, finishing = _outputs(context), _finishing(context)
    by = [_output(context, "", key.expression) for key in context.order_by]
    if outputs is None or finishing is None or None in by:
        return None
    key_columns = [f"k{i}" for i, expression in enumerate(context.group_by) if context.group_by.index(expression) == i]
    sorts = [(output, key) for output, key in zip(by, context.order_by, strict=True) if output is not None]
    offset, end = context.offset, context.offset + context.limit
    write = _table_writer(context, [(output.name, output.data_type, True) for output in outputs])

    def answer(rows: RowValues, num_rows: int) -> dict[str, Any] | None:
        finished = finishing(rows)
        if finished is None:
            return None

        def column_of(output: _Output) -> list[Any]:
            return rows[f"k{output.key}"] if output.aggregation is None else finished[output.aggregation]

        order = list(range(num_rows))
        if sorts:
            for name in reversed(key_columns):
                _sort(order, rows[name])
            for output, key in reversed(sorts):
                _sort(order, column_of(output), ascending=key.ascending, nulls_last=key.nulls_last)
        order = order[offset:end]
        return write([[column[row] for row in order] for column in map(column_of, outputs)], len(order))

    return answer


def _rows(context: QueryContext) -> SmallAnswer | None:
    """Selections and DISTINCT."""
    types = [result_type(column.expression, context) for column in context.output]
    is_distinct = context.kind is QueryKind.DISTINCT
    if is_distinct and any(kind.data_type in (None, DataType.FLOAT, DataType.DOUBLE) for kind in types):
        return None
    names = [f"o{i}" for i in range(len(types))]
    # DISTINCT shows a multi-value column one value a row.
    single = [is_distinct or kind.single_value for kind in types]
    sorts = list(zip(sort_columns(context), context.order_by, strict=True))
    offset, end = context.offset, context.offset + context.limit
    write = _rows_writer(
        context, [(c.name, kind.data_type, one) for c, kind, one in zip(context.output, types, single, strict=True)]
    )

    def answer(rows: RowValues, num_rows: int) -> dict[str, Any] | None:
        if is_distinct:
            distinct = list(dict.fromkeys(zip(*rows.values(), strict=True)))
            num_rows = len(distinct)
            rows = dict(zip(rows, map(list, zip(*distinct, strict=True)), strict=True)) if distinct else rows
        columns = [rows[name] for name in names]
        if num_rows == 0:
            return write(columns, 0)
        if sorts:
            order = list(range(num_rows))
            # Rows equal in all keys: by their other values (combine.py).
            for column in reversed(rows.values()):
                if not any(isinstance(value, list) for value in column):
                    _sort(order, column)
            for name, key in reversed(sorts):
                _sort(order, rows[name], ascending=key.ascending, nulls_last=key.nulls_last)
            order = order[offset:end]
            columns = [[column[row] for row in order] for column in columns]
        else:
            columns = [column[offset:end] for column in columns]
        return write(columns, len(columns[0]))

    return answer


def _rows_writer(
    context: QueryContext, columns: Sequence[tuple[str, DataType | None, bool]]
) -> Callable[[list[list[Any]], int], dict[str, Any]]:
    if context.dialect is Dialect.SQL or context.options.response_format_sql:
        return _table_writer(context, columns)
    is_native = context.options.preserve_type or context.kind is QueryKind.DISTINCT
    shows: list[Show] = []
    for _, data_type, single_value in columns:
        show = _native(data_type, pql=True) if is_native else partial(values.selection_values, data_type=data_type)
        shows.append(show if single_value else _of_lists(show))
    names = [name for name, _, _ in columns]

    def write(found: list[list[Any]], num_rows: int) -> dict[str, Any]:
        shown = [show(column) for show, column in zip(shows, found, strict=True)]
        return {"selectionResults": {"columns": names, "results": list(zip(*shown, strict=True))}}

    return write
