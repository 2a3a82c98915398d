"""SQL statements to QueryContexts: aliases and ordinals replaced, SQL's rules of grouping, SQL's names.

Aliases stand for their expression in GROUP BY, HAVING and ORDER BY, where they beat columns of the same name; nowhere
else. A query groups, aggregates, is DISTINCT or selects; HAVING and OFFSET hold for all rows. Source: sql-live.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, OrderItem, SelectItem, Statement
from pinotpy.pql.printer import print_expression
from pinotpy.query.compile.aggregations import AggregationCollector, aggregations_in, has_aggregation
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.compile.names import check_names
from pinotpy.query.compile.rewrite.aggregations import rewrite_aggregations
from pinotpy.query.compile.rewrite.constants import fold_functions
from pinotpy.query.compile.rewrite.json_fields import with_json_fields
from pinotpy.query.compile.rewrite.map_items import with_value_types
from pinotpy.query.compile.select_list import aliases_of, expanded, field_names, groups_of_all, shown_names
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
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.unknown_function import check_functions

DEFAULT_ROWS: Final = 10


class SqlCompiler:
    """Compiles one SQL statement."""

    def __init__(
        self, statement: Statement, resolver: ColumnResolver, options: QueryOptions, *, null_handling: bool
    ) -> None:
        self._statement = statement
        self._resolver = resolver
        self._options = options
        self._null_handling = null_handling
        self._filters = FilterCompiler(Dialect.SQL, self._type_of, null_handling=null_handling, check=resolver.check)
        self._items: list[SelectItem] = []
        self._fields: list[str | None] = []
        self._aliases: dict[str, Expression] = {}

    def _type_of(self, name: str) -> DataType | None:
        column = self._resolver.find(name)
        return None if column is None else column.data_type

    def compile(self) -> QueryContext:
        """The context; raises the UserErrors of compile_query."""
        statement = self._statement
        check_names(statement, self._resolver)
        written = list(expanded(statement.select, self._resolver))
        self._fields = field_names(written, self._resolver)
        self._items = [replace(item, expression=self._prepared(item.expression)) for item in written]
        self._aliases = aliases_of(self._items)
        groups = (
            groups_of_all(self._items)
            if statement.group_by_all
            else [self._group(expression) for expression in statement.group_by]
        )
        having = None if statement.having is None else self._prepared(self._substituted(statement.having))
        order = self._order_items()
        aggregates = any(has_aggregation(item.expression) for item in self._items)
        if statement.distinct:
            return self._distinct(groups, having, order, aggregates)
        conditions = [] if having is None else [having]
        if groups:
            aggregates = aggregates or any(
                has_aggregation(expression) for expression in [*conditions, *(item.expression for item in order)]
            )
            return self._grouped(groups, having, order, aggregates)
        if aggregates or any(has_aggregation(condition) for condition in conditions):
            return self._aggregation(having, order)
        return self._selection(having, order)

    # --- preparing -------------------------------------------------------------------------------------------------

    def _prepared(self, expression: Expression) -> Expression:
        """Constants folded, known names in the schema's spelling, aggregations rewritten; unknown names are left for
        `resolve`.
        """
        self._resolver.check()
        expression = self._spelled(self._with_fields(expression))
        expression = self._typed(fold_functions(expression, null_handling=self._null_handling))
        return rewrite_aggregations(expression, self._resolver.is_multi_value)

    def _with_fields(self, expression: Expression) -> Expression:
        resolver = self._resolver
        return with_json_fields(expression, resolver.field, self._type_of) if resolver.json_columns else expression

    def _typed(self, expression: Expression) -> Expression:
        return with_value_types(expression, self._resolver.map_values.get) if self._resolver.map_values else expression

    def _spelled(self, expression: Expression) -> Expression:
        if isinstance(expression, Identifier):
            column = self._resolver.find(expression.name)
            return (
                expression
                if column is None or column.name == expression.name
                else Identifier(column.name, expression.position)
            )
        if not isinstance(expression, Call):
            return expression
        condition = None if expression.filter is None else self._spelled(expression.filter)
        return replace(expression, args=tuple([self._spelled(arg) for arg in expression.args]), filter=condition)

    def _substituted(self, expression: Expression) -> Expression:
        """Aliases replaced by what they stand for, once."""
        if isinstance(expression, Identifier):
            return self._aliases.get(expression.name, expression)
        if isinstance(expression, Call):
            condition = None if expression.filter is None else self._substituted(expression.filter)
            return replace(
                expression, args=tuple([self._substituted(arg) for arg in expression.args]), filter=condition
            )
        return expression

    def _by_ordinal(self, expression: Expression) -> Expression:
        if (
            isinstance(expression, Literal)
            and isinstance(expression.value, int)
            and not isinstance(expression.value, bool)
        ):
            if not 1 <= expression.value <= len(self._items):
                raise parse_error(
                    f"Expected Ordinal value to be between 1 and {len(self._items)}., found {expression.value}",
                    expression.position,
                )
            return self._items[expression.value - 1].expression
        return self._prepared(self._substituted(expression))

    def _group(self, written: Expression) -> Expression:
        expression = self._by_ordinal(written)
        inner = next(aggregations_in(expression), None)
        if inner is not None:
            what = "Aggregate expression"
            if isinstance(written, Literal):
                what = f"column {written.text} of the select list is an aggregation;"
            text = print_expression(inner, Dialect.SQL)
            raise parse_error(f"{what} '{text}' is not allowed in GROUP BY clause.", written.position)
        return expression

    def _order_items(self) -> list[OrderItem]:
        items: dict[Expression, OrderItem] = {}
        for item in self._statement.order_by:
            expression = self._by_ordinal(item.expression)
            if not isinstance(expression, Literal):  # a constant orders nothing
                items.setdefault(expression, replace(item, expression=expression))
        return list(items.values())

    # --- kinds -----------------------------------------------------------------------------------------------------

    def _selection(self, having: Expression | None, order: list[OrderItem]) -> QueryContext:
        if having is not None:
            raise parse_error(
                "expected GROUP BY or an aggregation beside HAVING; conditions on rows go to WHERE", having.position
            )
        for item in order:
            if has_aggregation(item.expression):
                text = print_expression(item.expression, Dialect.SQL)
                raise InvalidQueryError(
                    f"expected GROUP BY beside ORDER BY {text}{position_text(item.expression.position)}"
                )
        output = [
            OutputColumn(name, self._resolver.resolve(item.expression))
            for name, item in zip(self._names(), self._items, strict=True)
        ]
        condition = self._where()
        order_by = tuple([self._sort_key(self._resolver.resolve(item.expression), item) for item in order])
        for key in order_by:
            if not isinstance(key.expression, AggregationRef) and self._resolver.is_multi_value(key.expression):
                text = f"{print_expression(key.expression, Dialect.SQL)} {'ASC' if key.ascending else 'DESC'}"
                raise InvalidQueryError(f"MV expression: {text} should not be included in the ORDER-BY clause")
        return self._context(QueryKind.SELECTION, output, condition, order_by=order_by)

    def _distinct(
        self, groups: list[Expression], having: Expression | None, order: list[OrderItem], aggregates: bool
    ) -> QueryContext:
        statement = self._statement
        position = self._items[0].expression.position
        if aggregates:
            raise parse_error(
                "Syntax error: Use of DISTINCT with aggregation functions is not supported; GROUP BY gives distinct "
                "rows",
                position,
            )
        if groups or having is not None:
            raise parse_error("DISTINCT beside GROUP BY is not answered: leave DISTINCT away", position)
        if statement.limit == 0:
            raise parse_error("expected LIMIT 1 or more beside DISTINCT", position)
        selected = [item.expression for item in self._items]
        for item in order:
            if item.expression not in selected:
                raise parse_error(
                    "ORDER-BY columns should be included in the DISTINCT columns", item.expression.position
                )
        output = [
            OutputColumn(name, self._resolver.resolve(expression))
            for name, expression in zip(self._names(), selected, strict=True)
        ]
        order_by = tuple([self._sort_key(self._resolver.resolve(item.expression), item) for item in order])
        return self._context(QueryKind.DISTINCT, output, self._where(), order_by=order_by)

    def _aggregation(self, having: Expression | None, order: list[OrderItem]) -> QueryContext:
        for item in self._items:
            if not _depends_on(item.expression, frozenset()):
                check_functions(item.expression)  # perhaps an aggregation is misspelt
                raise parse_error(
                    "Columns and Aggregate functions can't co-exist without GROUP BY clause", item.expression.position
                )
        collector = self._collector()
        output = self._aggregated_output(collector)
        condition = self._where()
        placed = None if having is None else self._filters.compile(collector.place_inside(having))
        for key in order:  # one row has no order; its names are checked
            self._resolver.spell(key.expression)
        return self._context(QueryKind.AGGREGATION, output, condition, collector=collector, having=placed)

    def _grouped(
        self, groups: list[Expression], having: Expression | None, order: list[OrderItem], aggregates: bool
    ) -> QueryContext:
        selected = [item.expression for item in self._items]
        known = frozenset(groups)
        clauses: list[Expression] = [
            *selected,
            *([] if having is None else [having]),
            *(item.expression for item in order),
        ]
        for expression in clauses:
            if not _depends_on(expression, known):
                for written in [expression, *groups]:
                    check_functions(written)  # perhaps an aggregation is misspelt
                text = print_expression(_first_column(expression, known), Dialect.SQL)
                raise parse_error(
                    f"'{text}' should be functionally dependent on the columns used in GROUP BY clause.",
                    expression.position,
                )
        if (
            not aggregates
            and having is None
            and set(selected) == known
            and all(item.expression in known for item in order)
        ):
            output = [
                OutputColumn(name, self._resolver.resolve(expression))
                for name, expression in zip(self._names(), selected, strict=True)
            ]
            order_by = tuple([self._sort_key(self._resolver.resolve(item.expression), item) for item in order])
            return self._context(QueryKind.DISTINCT, output, self._where(), order_by=order_by)
        collector = self._collector()
        output = self._aggregated_output(collector)
        condition = self._where()
        group_by = tuple([self._resolver.resolve(expression) for expression in dict.fromkeys(groups)])
        placed = None if having is None else self._filters.compile(collector.place_inside(having))
        order_by = tuple([self._sort_key(collector.place(item.expression), item) for item in order])
        return self._context(
            QueryKind.GROUP_BY,
            output,
            condition,
            collector=collector,
            group_by=group_by,
            having=placed,
            order_by=order_by,
        )

    # --- parts -----------------------------------------------------------------------------------------------------

    def _collector(self) -> AggregationCollector:
        return AggregationCollector(
            Dialect.SQL, self._resolver, self._filters, null_handling=self._null_handling, sql_names=True
        )

    def _aggregated_output(self, collector: AggregationCollector) -> list[OutputColumn]:
        output = []
        for item, name in zip(self._items, self._names(), strict=True):
            if isinstance(item.expression, Call) and is_aggregation(item.expression.name):
                index, name_of_call = collector.add(item.expression)
                output.append(OutputColumn(name_of_call if item.alias is None else item.alias, AggregationRef(index)))
            else:
                output.append(OutputColumn(name, collector.place(item.expression)))
        return output

    def _names(self) -> list[str]:
        return shown_names(self._items, self._fields)

    def _where(self) -> Filter | None:
        if self._statement.where is None:
            return None
        where = self._with_fields(self._statement.where)
        inner = next(aggregations_in(where), None)
        if inner is not None:
            raise QueryExecutionError(
                f"Unsupported function: {inner.name} in WHERE: conditions on aggregations go to "
                f"HAVING{position_text(inner.position)}"
            )
        return self._filters.compile(
            self._typed(fold_functions(self._resolver.resolve(where), null_handling=self._null_handling))
        )

    def _sort_key(self, expression: Expression | AggregationRef, item: OrderItem) -> OrderBy:
        return OrderBy(expression, item.ascending, item.nulls_last)

    def _context(
        self,
        kind: QueryKind,
        output: Iterable[OutputColumn],
        condition: Filter | None,
        *,
        collector: AggregationCollector | None = None,
        group_by: tuple[Expression, ...] = (),
        having: Filter | None = None,
        order_by: tuple[OrderBy, ...] = (),
    ) -> QueryContext:
        statement = self._statement
        return QueryContext(
            dialect=Dialect.SQL,
            kind=kind,
            table=statement.table,
            output=tuple(output),
            filter=condition,
            group_by=group_by,
            aggregations=() if collector is None else collector.aggregations,
            having=having,
            order_by=order_by,
            limit=DEFAULT_ROWS if statement.limit is None else statement.limit,
            offset=0 if kind is QueryKind.AGGREGATION else statement.offset or 0,
            null_handling=self._null_handling,
            columns=self._resolver.read_columns(),
            options=self._options if collector is None else collector.with_counted_columns(self._options),
            explain=statement.explain,
        )


def _depends_on(expression: Expression, groups: frozenset[Expression]) -> bool:
    """Whether groups, literals and aggregations suffice to compute the expression."""
    if expression in groups or isinstance(expression, Literal):
        return True
    if not isinstance(expression, Call):
        return False
    return is_aggregation(expression.name) or all(_depends_on(arg, groups) for arg in expression.args)


def _first_column(expression: Expression, groups: frozenset[Expression]) -> Expression:
    """The first part that neither groups nor aggregations give."""
    while isinstance(expression, Call) and expression not in groups:
        inner = next((arg for arg in expression.args if not _depends_on(arg, groups)), None)
        if inner is None:
            break
        expression = inner
    return expression
