"""PQL statements to QueryContexts: PQL's defaults, its silences and its kinds.

Any aggregation makes an aggregation; plain columns beside it are dropped. TOP (default 10, TOP 0 is 50) counts groups,
LIMIT counts rows; clauses that a kind does not use are checked and ignored. Source: pql.md §1, pql-live.md §1 and §2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Expression, Literal, Star, Statement
from pinotpy.pql.literals import double_literal
from pinotpy.pql.printer import print_expression
from pinotpy.query.compile.aggregations import AggregationCollector, aggregations_in, has_aggregation
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.model.conditions import FilterCompiler, parse_error
from pinotpy.query.model.context import (
    AggregationRef,
    Filter,
    OrderBy,
    OutputColumn,
    QueryContext,
    QueryKind,
    QueryOptions,
)
from pinotpy.query.model.fold import fold_constants
from pinotpy.query.model.positions import position_text

DEFAULT_ROWS: Final = 10
DEFAULT_GROUPS: Final = 10
TOP_ZERO_GROUPS: Final = 50
_INFIX: Final = frozenset({"plus", "minus", "times", "divide", "mod", "concat"})


class PqlCompiler:
    """Compiles one PQL statement."""

    def __init__(
        self, statement: Statement, resolver: ColumnResolver, options: QueryOptions, *, null_handling: bool
    ) -> None:
        self._statement = statement
        self._resolver = resolver
        self._options = options
        self._null_handling = null_handling
        self._dialect = statement.dialect
        self._filters = FilterCompiler(self._dialect, self._type_of, null_handling=null_handling, check=resolver.check)

    def _type_of(self, name: str) -> DataType | None:
        column = self._resolver.find(name)
        return None if column is None else column.data_type

    def compile(self) -> QueryContext:
        """The context; raises the UserErrors of compile_query."""
        statement = self._statement
        items = [item.expression for item in statement.select]
        distinct = [item for item in items if isinstance(item, Call) and item.name == "distinct"]
        calls = [call for item in items if item not in distinct for call in self._aggregation_of(item)]
        if distinct:
            return self._distinct(distinct, calls, items)
        if calls:
            return self._aggregation(calls, items)
        return self._selection(items)

    def _aggregation_of(self, item: Expression) -> list[Call]:
        """The aggregation of a select item: add(SUM(x),1) counts as SUM(x), as in the reference; infix arithmetic is
        refused.
        """
        aggregations = list(aggregations_in(item))
        if (
            aggregations
            and isinstance(item, Call)
            and item is not aggregations[0]
            and (len(aggregations) > 1 or item.name in _INFIX)
        ):
            raise parse_error(
                "expected one aggregation without arithmetic around it; SQL computes with aggregations", item.position
            )
        return aggregations

    # --- the three kinds -------------------------------------------------------------------------------------------

    def _selection(self, items: list[Expression]) -> QueryContext:
        statement, resolver = self._statement, self._resolver
        if statement.having is not None:
            raise parse_error("expected an aggregation in the select list beside HAVING", statement.having.position)
        if len(items) == 1 and isinstance(items[0], Star):
            selected: list[Expression] = list(resolver.physical_columns())
            selected = [resolver.resolve(column) for column in selected]
        else:
            selected = [self._value(item) for item in items]
            for item, expression in zip(items, selected, strict=True):
                if isinstance(expression, Literal):
                    raise parse_error("expected a column or a function, found a constant", item.position)
        condition = self._where()
        self._check_ignored(statement.group_by)
        order_by = self._order_by_columns()
        limit, offset = self._rows(sorts=bool(statement.order_by))
        output = tuple(
            [OutputColumn(print_expression(expression, self._dialect), expression) for expression in selected]
        )
        return self._context(QueryKind.SELECTION, output, condition, order_by=order_by, limit=limit, offset=offset)

    def _distinct(self, distinct: list[Call], calls: list[Call], items: list[Expression]) -> QueryContext:
        statement = self._statement
        if calls or len(distinct) > 1:
            raise InvalidQueryError(
                f"Aggregation functions cannot be used with DISTINCT{position_text(distinct[0].position)}"
            )
        if statement.group_by:
            raise InvalidQueryError(
                f"DISTINCT cannot be used with GROUP BY{position_text(statement.group_by[0].position)}"
            )
        if statement.having is not None:
            raise parse_error("expected no HAVING beside DISTINCT", statement.having.position)
        if statement.limit == 0:
            raise InvalidQueryError("DISTINCT must have positive LIMIT; write LIMIT 1 or more")
        arguments = distinct[0].args
        if not arguments or any(isinstance(argument, Star) for argument in arguments):
            raise parse_error("expected columns in DISTINCT, such as DISTINCT(a, b)", distinct[0].position)
        selected = list(dict.fromkeys(self._value(argument) for argument in arguments))
        for expression in selected:
            if self._resolver.is_multi_value(expression):
                hint = "SQL's SELECT DISTINCT can"
                raise QueryExecutionError(
                    f"DISTINCT does not work on multi-value columns in PQL; {hint}{position_text(expression.position)}"
                )
        self._check_ignored(tuple(item for item in items if item is not distinct[0]))
        condition = self._where()
        order_by = self._order_by_columns()
        for key in order_by:
            if key.expression not in selected:
                raise InvalidQueryError(
                    "ORDER By should be only on some/all of the columns passed as arguments to DISTINCT"
                )
        limit, offset = self._rows(sorts=False)
        output = tuple(
            [OutputColumn(print_expression(expression, self._dialect), expression) for expression in selected]
        )
        return self._context(QueryKind.DISTINCT, output, condition, order_by=order_by, limit=limit, offset=offset)

    def _aggregation(self, calls: list[Call], items: list[Expression]) -> QueryContext:
        statement, options = self._statement, self._options
        grouped = bool(statement.group_by)
        sql_table = options.response_format_sql
        sql_names = sql_table or (grouped and options.group_by_mode_sql)
        collector = AggregationCollector(
            self._dialect, self._resolver, self._filters, null_handling=self._null_handling, sql_names=sql_names
        )
        folded = [fold_constants(call) for call in calls]
        selected = [collector.add(call) for call in folded if isinstance(call, Call)]  # an aggregation never folds away
        output = [OutputColumn(name, AggregationRef(index)) for index, name in selected]
        self._check_ignored(tuple(item for item in items if not has_aggregation(item)))
        condition = self._where()
        if not grouped:
            self._check_ignored(tuple(item.expression for item in statement.order_by))
            if statement.having is not None:
                raise parse_error("expected GROUP BY beside HAVING", statement.having.position)
            return self._context(QueryKind.AGGREGATION, tuple(output), condition, collector=collector)
        groups = tuple([self._value(expression) for expression in statement.group_by])
        if sql_table:
            if len(selected) > 1 and not options.group_by_mode_sql:
                message = (
                    "The results of a GROUP BY query with multiple aggregations in PQL is not tabular, and "
                    "cannot be returned in SQL response format"
                )
                raise InvalidQueryError(f"{message}; set groupByMode=sql")
            output = [
                OutputColumn(print_expression(expression, self._dialect), expression) for expression in groups
            ] + output
        having = self._having(collector)
        order_by: tuple[OrderBy, ...] = ()
        if options.group_by_mode_sql:
            order_by = self._order_by_groups(groups, collector)
        else:
            self._check_ignored(tuple(item.expression for item in statement.order_by))
        return self._context(
            QueryKind.GROUP_BY,
            tuple(output),
            condition,
            collector=collector,
            group_by=groups,
            having=having,
            order_by=order_by,
            limit=self._num_groups(),
            offset=0,
        )

    # --- clauses ---------------------------------------------------------------------------------------------------

    def _value(self, expression: Expression) -> Expression:
        """A select item, group or sort key without aggregation, resolved."""
        inner = next(aggregations_in(expression), None)
        if inner is not None:
            raise QueryExecutionError(
                f"Unsupported function: {inner.name} here: an aggregation is no column{position_text(inner.position)}"
            )
        return self._resolver.resolve(fold_constants(expression))

    def _where(self) -> Filter | None:
        where = self._statement.where
        if where is None:
            return None
        inner = next(aggregations_in(where), None)
        if inner is not None:
            raise QueryExecutionError(
                f"Unsupported function: {inner.name} in WHERE: conditions on aggregations go to "
                f"HAVING{position_text(inner.position)}"
            )
        return self._filters.compile(self._resolver.resolve(where))

    def _having(self, collector: AggregationCollector) -> Filter | None:
        having = self._statement.having
        return None if having is None else self._filters.compile(collector.place_inside(_numbers(having)))

    def _check_ignored(self, expressions: tuple[Expression, ...]) -> None:
        """An unknown column is an error anywhere, also in a clause that this kind of query ignores."""
        for expression in expressions:
            self._resolver.spell(expression)

    def _order_by_columns(self) -> tuple[OrderBy, ...]:
        keys: dict[Expression, OrderBy] = {}
        for item in self._statement.order_by:
            expression = self._value(item.expression)
            if isinstance(expression, Literal):
                continue  # 'runs' is a constant here: it orders nothing
            if self._resolver.is_multi_value(expression):
                raise QueryExecutionError(
                    f"ORDER BY does not work on multi-value columns{position_text(expression.position)}"
                )
            keys.setdefault(expression, OrderBy(expression, item.ascending))
        return tuple(keys.values())

    def _order_by_groups(self, groups: tuple[Expression, ...], collector: AggregationCollector) -> tuple[OrderBy, ...]:
        keys: dict[Expression | AggregationRef, OrderBy] = {}
        for item in self._statement.order_by:
            expression = item.expression
            key: Expression | AggregationRef
            if isinstance(expression, Call) and is_aggregation(expression.name):
                key = AggregationRef(collector.add(expression)[0])
            else:
                key = self._value(expression)
                if isinstance(key, Literal):
                    continue
                if key not in groups:
                    raise InvalidQueryError(
                        "expected ORDER BY to name group expressions or "
                        f"aggregations{position_text(expression.position)}"
                    )
            keys.setdefault(key, OrderBy(key, item.ascending))
        return tuple(keys.values())

    def _rows(self, *, sorts: bool) -> tuple[int, int]:
        """LIMIT [offset,] n of selections and DISTINCT: negative counts mean the default, negative offsets 0 (an error
        when sorting). Source: pql-live §1.13.
        """
        statement = self._statement
        limit = DEFAULT_ROWS if statement.limit is None or statement.limit < 0 else statement.limit
        offset = statement.offset or 0
        if offset < 0 and sorts:
            raise QueryExecutionError(f"expected an offset of 0 or more in LIMIT, found {offset}")
        if max(offset, 0) + limit > 2**31 - 1:
            raise QueryExecutionError(f"expected offset and count of LIMIT to sum up to at most {2**31 - 1}")
        return limit, max(offset, 0)

    def _num_groups(self) -> int:
        statement = self._statement
        if statement.top is not None:
            return statement.top or TOP_ZERO_GROUPS
        return statement.limit if statement.limit is not None and statement.limit > 0 else DEFAULT_GROUPS

    def _context(
        self,
        kind: QueryKind,
        output: tuple[OutputColumn, ...],
        condition: Filter | None,
        *,
        collector: AggregationCollector | None = None,
        group_by: tuple[Expression, ...] = (),
        having: Filter | None = None,
        order_by: tuple[OrderBy, ...] = (),
        limit: int = DEFAULT_ROWS,
        offset: int = 0,
    ) -> QueryContext:
        return QueryContext(
            dialect=self._dialect,
            kind=kind,
            table=self._statement.table,
            output=output,
            filter=condition,
            group_by=group_by,
            aggregations=() if collector is None else collector.aggregations,
            having=having,
            order_by=order_by,
            limit=limit,
            offset=offset,
            null_handling=self._null_handling,
            columns=self._resolver.read_columns(),
            options=self._options if collector is None else collector.with_counted_columns(self._options),
            explain=self._statement.explain,
        )


def _numbers(having: Expression) -> Expression:
    """HAVING compares with numbers, quoted or not."""
    if isinstance(having, Literal) and having.is_string:
        return double_literal(float(having.text), having.position)
    if isinstance(having, Call) and not is_aggregation(having.name):
        return replace(having, args=tuple([_numbers(arg) for arg in having.args]))
    return having
