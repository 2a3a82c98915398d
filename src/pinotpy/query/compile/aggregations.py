"""Aggregation calls of a statement, each once, with canonical names and checked arguments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, ParseError, QueryExecutionError
from pinotpy.functions.spec import aggregation_function, function_named, functions
from pinotpy.pql.aggregation_names import COUNTED_ROWS, AggregationName, find_aggregation, is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star
from pinotpy.pql.literals import double_literal, integer_literal, string_literal
from pinotpy.pql.printer import print_pql_aggregation, print_sql_aggregation
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.compile.rewrite.filter_text import print_filter
from pinotpy.query.compile.rewrite.map_items import items_in
from pinotpy.query.model.conditions import FilterCompiler, parse_error
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    Comparison,
    Constant,
    Filter,
    Predicate,
    QueryOptions,
)
from pinotpy.query.model.options import with_counted_columns
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.result_types import argument_of, columns_with_nulls_in, types_of_columns

AGGREGATION_CALL: Final = "$agg"
# PQL functions that dictionaries answer for multi-value columns too; the rest fail there (pql-live §1.16).
_MULTI_VALUE_IN_PQL: Final = frozenset({"min", "max", "minmaxrange", "distinctcount"})

_KEEP_TIMES: Final = frozenset({"min", "max", "minmv", "maxmv"})


def aggregations_in(expression: Expression) -> Iterator[Call]:
    """The outermost aggregation calls of an expression, left to right."""
    if isinstance(expression, Call):
        if is_aggregation(expression.name):
            yield expression
            return
        for arg in expression.args:
            if isinstance(arg, Call):
                yield from aggregations_in(arg)


def has_aggregation(expression: Expression) -> bool:
    """Whether an aggregation stands anywhere in the expression."""
    return next(aggregations_in(expression), None) is not None


class AggregationCollector:
    """Numbers the aggregations of one query in order of appearance, equal ones once."""

    def __init__(
        self,
        dialect: Dialect,
        resolver: ColumnResolver,
        filters: FilterCompiler,
        *,
        null_handling: bool,
        sql_names: bool,
    ) -> None:
        self._dialect = dialect
        self._resolver = resolver
        self._filters = filters
        self._null_handling = null_handling
        self._sql_names = sql_names
        self._aggregations: list[Aggregation] = []
        self._counted: list[dict[str, None]] = []
        self._indexes: dict[tuple[str, tuple[Expression, ...], Filter | None], int] = {}

    @property
    def aggregations(self) -> tuple[Aggregation, ...]:
        return tuple(self._aggregations)

    def add(self, call: Call) -> tuple[int, str]:
        """Index of the aggregation that a call means, and its printed name. Raises for wrong arguments: ParseError
        (150) for their number, InvalidQueryError (700) for their values, QueryExecutionError (200) where PQL's
        reference does.
        """
        implementation = find_aggregation(call.name)
        assert implementation is not None, call.name
        entry, percentile = implementation
        if self._dialect is Dialect.PQL and (entry.name not in functions() or functions()[entry.name].sql_only):
            # In SQL the name is read all the same, and refused with 700 when it shall run.
            whose = "of SQL" if entry.name in functions() else "that pinotpy does not have"
            raise QueryExecutionError(
                f"Unsupported function: {call.name.upper()} is an aggregation {whose}{position_text(call.position)}"
            )
        function = entry.name
        if function == "distinctcount" and len(call.args) > 1 and self._dialect is Dialect.SQL:
            entry, function = COUNTED_ROWS, COUNTED_ROWS.name
        args = self._arguments(call, entry, percentile)
        # COUNT counts rows whatever stands in it, so that its column is checked and not read.
        condition = None if call.filter is None else self._filters.compile(self._resolver.resolve(call.filter))
        if function == "count" or (
            function == "countmv" and self._dialect is Dialect.SQL and self._is_single_column(args[0])
        ):
            args, function = self._count(args)
        args = tuple([self._resolver.resolve(arg) for arg in args])
        function = self._by_shape(call, entry, function, args)
        shown = replace(call, args=self._shown_arguments(call, entry, args, function), filter=None)
        args = self._as_times(function, self._as_argument_type(function, self._as_numbers(function, args)))
        name = print_sql_aggregation(shown) if self._sql_names else print_pql_aggregation(shown)
        if call.filter is not None:
            name = f"{name} FILTER(WHERE {'true' if condition is None else print_filter(condition)})"
        condition = self._only_present(function, args, condition)
        if function == "count" and self._is_null(args[0]):
            args, condition = (Star(),), Constant(False)  # COUNT(NULL) counts no row
        key = (function, args, condition)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = len(self._aggregations)
            self._aggregations.append(Aggregation(function, args, name, condition))
            self._counted.append({})
        if function == "count" and isinstance(args[0], Star):
            self._counted[index].update(dict.fromkeys(self._counted_columns(call)))
        return index, name

    def with_counted_columns(self, options: QueryOptions) -> QueryOptions:
        """The options with what COUNT counts without reading it."""
        return with_counted_columns(options, [list(names) for names in self._counted])

    def _counted_columns(self, call: Call) -> Iterator[str]:
        """The columns of a COUNT that counts rows, those that may have nulls."""
        for arg in call.args:
            for name in columns_with_nulls_in(arg):
                column = self._resolver.find(name)
                if column is not None and column.default_null is not None:
                    yield column.name

    def place(self, expression: Expression) -> Expression | AggregationRef:
        """The expression over aggregations: AggregationRef for one alone, else with Call('$agg', (index,)) in their
        place.
        """
        if isinstance(expression, Call) and is_aggregation(expression.name):
            return AggregationRef(self.add(expression)[0])
        return self.place_inside(expression)

    def place_inside(self, expression: Expression) -> Expression:
        """Like `place`, with Call('$agg', (index,)) for one alone too: for conditions."""
        if not isinstance(expression, Call):
            return self._resolver.resolve(expression)
        if is_aggregation(expression.name):
            index = self.add(expression)[0]
            return Call(AGGREGATION_CALL, (integer_literal(index, expression.position),), position=expression.position)
        return replace(expression, args=tuple([self.place_inside(arg) for arg in expression.args]))

    def _only_present(self, function: str, args: tuple[Expression, ...], condition: Filter | None) -> Filter | None:
        """A key that a MAP lacks has no value in both null modes: its default would be added up."""
        if function == "count" or self._null_handling or isinstance(args[0], Star) or not (items := items_in(args[0])):
            return condition
        present = [Predicate(item, Comparison.IS_NOT_NULL) for item in dict.fromkeys(items)]
        return (
            And((*([] if condition is None else [condition]), *present))
            if condition is not None or len(present) > 1
            else present[0]
        )

    # --- arguments -------------------------------------------------------------------------------------------------

    def _arguments(self, call: Call, entry: AggregationName, percentile: int | None) -> tuple[Expression, ...]:
        args = call.args
        is_count = entry.name == "count"
        if is_count and self._dialect is Dialect.PQL and not args:
            args = (Star(call.position),)
        for arg in args:
            if isinstance(arg, Star) and not is_count:
                raise parse_error(
                    f"expected a column or an expression in {call.name.upper()}, found *; only COUNT takes *",
                    arg.position,
                )
            inner = next(aggregations_in(arg), None)
            if inner is not None:
                message = (
                    f"Unsupported function: {inner.name} inside {call.name}: aggregations do not nest"
                    + position_text(inner.position)
                )
                raise QueryExecutionError(message) if self._dialect is Dialect.PQL else InvalidQueryError(message)
        if entry.is_percentile:
            return self._percentile(call, entry, args, percentile)
        if len(args) > entry.arguments_max and self._dialect is Dialect.PQL:
            args = args[: entry.arguments_max]
        if not entry.arguments_min <= len(args) <= entry.arguments_max:
            raise self._wrong_count(call, entry.arguments_min, entry.arguments_max, len(args))
        return args

    def _percentile(
        self, call: Call, entry: AggregationName, args: tuple[Expression, ...], percentile: int | None
    ) -> tuple[Expression, ...]:
        if percentile is not None:
            if not args or (len(args) > 1 and self._dialect is Dialect.SQL):
                raise self._wrong_count(call, 1, 1, len(args))
            args = (args[0], integer_literal(percentile, call.position))
        if not 2 <= len(args) <= entry.arguments_max:
            raise self._wrong_count(call, 2, entry.arguments_max, len(args), f"; write {call.name.upper()}(x, 95)")
        level = args[1]
        value: float | None = None
        if isinstance(level, Literal) and not isinstance(level.value, bool):
            try:
                value = float(level.text)
            except ValueError:
                value = None
        if value is None or not 0 <= value <= 100:
            shown = f"'{level.text[:40]}'" if isinstance(level, Literal) else "an expression"
            raise InvalidQueryError(
                f"expected a number from 0 to 100 as percentile of {call.name.upper()}, found "
                f"{shown}{position_text(level.position)}"
            )
        whole = value == int(value)
        exact = integer_literal(int(value), level.position) if whole else double_literal(value, level.position)
        return (args[0], exact, *args[2:])

    def _wrong_count(self, call: Call, low: int, high: int, found: int, hint: str = "") -> ParseError:
        expected = f"{low}" if low == high else f"{low} to {high}" if high < 100 else f"at least {low}"
        return parse_error(
            f"expected {expected} argument{'s' if expected != '1' else ''} of {call.name.upper()}, found {found}{hint}",
            call.position,
        )

    def _count(self, args: tuple[Expression, ...]) -> tuple[tuple[Expression, ...], str]:
        """COUNT of what is never null counts rows: all but, under null handling, COUNT(expression)."""
        argument = args[0]
        if isinstance(argument, Star) or (isinstance(argument, Literal) and not self._is_null(argument)):
            return (Star(),), "count"
        if self._dialect is Dialect.SQL and self._null_handling:
            return args, "count"
        self._resolver.spell(argument)
        return (Star(),), "count"

    def _is_null(self, argument: Expression) -> bool:
        """Whether the argument is a constant that no row has a value of."""
        in_sql = self._dialect is Dialect.SQL and self._null_handling
        return in_sql and isinstance(argument, Literal) and argument.value is None

    def _by_shape(self, call: Call, entry: AggregationName, function: str, args: tuple[Expression, ...]) -> str:
        """The single- or multi-value twin that the column asks for."""
        argument = args[0]
        if function == "count" or not isinstance(argument, Identifier):
            return function
        multi_value = self._resolver.is_multi_value(argument)
        if multi_value == entry.is_multi_value or (multi_value and entry.multi_value is None):
            return function
        if self._dialect is Dialect.SQL or (multi_value and entry.name in _MULTI_VALUE_IN_PQL):
            twin = entry.multi_value if multi_value else entry.name.removesuffix("mv")
            assert twin is not None
            return twin
        shape, hint = (
            ("multi", f"{call.name.upper()}MV") if multi_value else ("single", call.name.upper().removesuffix("MV"))
        )
        raise QueryExecutionError(
            f"{call.name.upper()} does not work on a {shape}-value column; write "
            f"{hint}{position_text(argument.position)}"
        )

    def _as_numbers(self, function: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """PQL computes with text that is numbers, and fails (200) at the first that is none (pql-live §4)."""
        if self._dialect is Dialect.SQL or isinstance(args[0], Star) or function not in functions():
            return args
        argument = argument_of(args, types_of_columns(self._resolver.read_columns(), self._dialect))
        if argument.data_type not in (DataType.STRING, DataType.JSON, DataType.BOOLEAN) or not argument.single_value:
            return args
        try:
            function_named(function).check([argument], self._dialect)
        except QueryExecutionError:
            text = (
                args[0]
                if argument.data_type is not DataType.BOOLEAN
                else Call("cast", (args[0], string_literal("STRING", args[0].position)))
            )
            return (
                Call("cast", (text, string_literal("DOUBLE", args[0].position)), position=args[0].position),
                *args[1:],
            )
        return args

    def _as_argument_type(self, function: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The first argument cast to the type that the call names: ARRAYAGG(x, 'STRING')."""
        if function not in functions():
            return args
        wanted = aggregation_function(function, args).argument_type
        if wanted is None:
            return args
        argument = argument_of(args, types_of_columns(self._resolver.read_columns(), self._dialect))
        if argument.data_type is wanted or not argument.single_value:
            return args
        return (
            Call("cast", (args[0], string_literal(wanted.value, args[0].position)), position=args[0].position),
            *args[1:],
        )

    def _as_times(self, function: str, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """SQL's MIN and MAX of TIMESTAMP are one: MIN(x, 'TIMESTAMP'), which servers compute as they do MIN(x)."""
        if self._dialect is not Dialect.SQL or function not in _KEEP_TIMES:
            return args
        argument = argument_of(args, types_of_columns(self._resolver.read_columns(), self._dialect))
        if argument.data_type is not DataType.TIMESTAMP:
            return args
        return (*args, string_literal(DataType.TIMESTAMP.value, args[0].position))

    def _is_single_column(self, argument: Expression) -> bool:
        return isinstance(argument, Identifier) and not self._resolver.is_multi_value(argument)

    def _shown_arguments(
        self, call: Call, entry: AggregationName, args: tuple[Expression, ...], function: str
    ) -> tuple[Expression, ...]:
        """As written, in the schema's spelling; COUNT of a column that counts rows is count(*)."""
        if function == "count" and not entry.is_multi_value:
            return args
        return tuple([self._resolver.spell(arg) for arg in call.args])
