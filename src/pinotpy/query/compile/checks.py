"""What a compiled query must fulfil before a server is asked: every function exists and takes its arguments."""

from __future__ import annotations

from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.pql.ast import Call, Dialect, Expression
from pinotpy.query.model.conditions import FilterCompiler
from pinotpy.query.model.context import (
    AggregationRef,
    And,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.model.result_types import PREDICATES, ExpressionTypes, expressions_of, types_of
from pinotpy.query.result.post_aggregation import as_rows_of_groups, filter_over_groups, type_of_groups

# Every different key takes a register of the kernels, and the number of the group one more
# (kernels/runtime/abi.NUM_REGISTERS, which brokers do not load). Nulls and multi-values take registers too: fewer keys
# with them can be too many for servers.
GROUP_KEYS_MAX: Final = 23
# Rows of groups (operators/layout.ROW_WORDS_MAX) have room for more, but planning and merging them take time that no
# deadline ends.
AGGREGATIONS_MAX: Final = 1_024


def check_expressions(context: QueryContext, check: Check = no_deadline) -> None:
    """Find functions that do not exist or do not take their arguments, and more keys or aggregations than a query may
    have.

    Raises: QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL; InvalidQueryError for too many; what
        `check`, the query's deadline, raises.
    """
    _check_group_keys(context)
    if len(context.aggregations) > AGGREGATIONS_MAX:
        raise InvalidQueryError(
            f"a query computes at most {AGGREGATIONS_MAX} different aggregations, found {len(context.aggregations)}: "
            "split it"
        )
    types = types_of(context)
    expressions = [
        *context.group_by,
        *(arg for aggregation in context.aggregations for arg in expressions_of(aggregation)),
    ]
    if context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT):
        expressions += [
            column.expression for column in context.output if not isinstance(column.expression, AggregationRef)
        ]
        expressions += [by.expression for by in context.order_by if not isinstance(by.expression, AggregationRef)]
    elif context.dialect is Dialect.SQL:
        for over_groups in [
            *(column.expression for column in context.output),
            *(by.expression for by in context.order_by),
        ]:
            check()
            if isinstance(over_groups, Call) and over_groups not in context.group_by:
                type_of_groups(over_groups, context)
    for by in context.order_by:
        if isinstance(by.expression, AggregationRef) and not type_of_groups(by.expression, context).single_value:
            name = context.aggregations[by.expression.index].name
            raise InvalidQueryError(f"ORDER BY needs single values: {name} is a list")
    checked = CheckedExpressions(types, check, null_handling=context.null_handling)
    for expression in expressions:
        checked.value(expression)
    for condition in [context.filter, *(aggregation.filter for aggregation in context.aggregations)]:
        if condition is not None:
            checked.filter(condition)
    if context.having is not None and context.dialect is Dialect.SQL:
        CheckedExpressions(types_of(as_rows_of_groups(context)), check, null_handling=context.null_handling).filter(
            filter_over_groups(context.having, context)
        )


def _check_group_keys(context: QueryContext) -> None:
    """Servers would compute all keys before they find that these are too many."""
    keys = (
        {column.expression for column in context.output}
        if context.kind is QueryKind.DISTINCT
        else set(context.group_by)
    )
    if len(keys) > GROUP_KEYS_MAX:
        where = "DISTINCT" if context.kind is QueryKind.DISTINCT else "GROUP BY"
        raise InvalidQueryError(
            f"{where} takes at most {GROUP_KEYS_MAX} different columns and expressions, found {len(keys)}: name fewer"
        )


class CheckedExpressions:
    """Checks expressions over columns of these types."""

    def __init__(self, types: ExpressionTypes, check: Check = no_deadline, *, null_handling: bool) -> None:
        self._types = types
        self._check = check
        self._conditions = FilterCompiler(types.dialect, self._type_of, null_handling=null_handling)

    def _type_of(self, name: str) -> DataType | None:
        column = self._types.columns.get(name)
        return None if column is None else column.data_type

    def value(self, expression: Expression) -> None:
        """An expression, with what stands in its conditions: those have a type whatever is in them."""
        self._check()
        self._types.of(expression)
        if isinstance(expression, Call) and self._types.dialect is Dialect.SQL:
            if expression.name in PREDICATES:
                self._conditions.compile(expression)
            for arg in expression.args:
                if isinstance(arg, Call):
                    self.value(arg)

    def filter(self, condition: Filter) -> None:
        match condition:
            case And(children=children) | Or(children=children):
                for child in children:
                    self.filter(child)
            case Not(child=child):
                self.filter(child)
            case Predicate(lhs=expression) | ExpressionPredicate(expression=expression):
                self.value(expression)
