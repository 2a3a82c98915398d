"""What an answer says of values of different types that were compared: texts with numbers, instants with numbers,
booleans with what is neither true nor false.

Each comparison is answered, as the reference answers it; most databases refuse it or convert the other side, so that a
reader may take the answer for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Final, NamedTuple

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import (
    AggregationRef,
    Comparison,
    ExpressionPredicate,
    Filter,
    LiteralValue,
    QueryContext,
)
from pinotpy.query.model.literals import nodes_of, predicate_literals, predicates_of
from pinotpy.query.model.result_types import ARITHMETIC, COMPARISONS, ExpressionTypes, columns_in, types_of
from pinotpy.query.model.stored_literals import literal_text

# More comparisons than these are not named.
_NAMES_MAX: Final = 10
# Of an expression that stands in a warning.
_CHARACTERS_MAX: Final = 60
# Numbers nearer to 0 are years, dates without quotes (2026-01-02 is 2023) or seconds: as milliseconds they end in April
# of 1970.
_INSTANTS_MIN: Final = 10**10
_LITERAL_NUMBERS: Final = frozenset({int, float, Decimal})
_KINDS: Final = {
    **dict.fromkeys((DataType.STRING, DataType.JSON), "texts"),
    **dict.fromkeys((DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL), "numbers"),
    DataType.TIMESTAMP: "instants",
    DataType.BOOLEAN: "booleans",
}
# How they are compared with numbers.
_AS_NUMBERS: Final = {"instants": "milliseconds since 1970", "booleans": "1 and 0"}
_TYPES: Final = {"numbers": "DOUBLE", "instants": "TIMESTAMP", "booleans": "BOOLEAN"}
_COMPARED: Final = COMPARISONS | {"is_distinct_from", "is_not_distinct_from"}
_CALLS_BY_VALUE: Final = _COMPARED | {"between", "not_between", "in", "not_in"}
_BY_VALUE: Final = frozenset({Comparison.EQ, Comparison.NOT_EQ, Comparison.IN, Comparison.NOT_IN, Comparison.RANGE})
# What is written of booleans, in any case in SQL.
_TRUTHS: Final = frozenset({"true", "false", "1", "0"})
_PQL_TRUTHS: Final = frozenset({"true", "false"})


class _Side(NamedTuple):
    """One side of a comparison that reads columns: what it is called, how CAST names it, the kind of its values, and
    whether they are numbers as they are stored (no instant in them, no function that makes one).
    """

    name: str
    short: str
    kind: str
    is_plain: bool


def type_warnings(context: QueryContext) -> list[str]:
    """That values of different types are compared: which columns, with what, and what to write instead."""
    kinds = {_KINDS.get(column.data_type, "") for column in context.columns}
    if not kinds & {"texts", "instants", "booleans"}:
        return []
    found = [
        *_literals_beside_texts(context),
        *_literals_beside_instants(context),
        *_literals_beside_booleans(context),
        *_columns_beside_columns(context),
    ]
    return list(islice(dict.fromkeys(found), _NAMES_MAX))


def _literals_beside_texts(context: QueryContext) -> list[str]:
    """Texts compared with a number letter by letter, as '9' > '10': which columns, with which literal."""
    texts = {column.name for column in context.columns if column.data_type is DataType.STRING}
    found = dict[str, object]()
    for condition in conditions_of(context):
        for predicate in predicates_of(condition):
            if isinstance(predicate.lhs, Identifier) and predicate.lhs.name in texts:
                literals = predicate_literals(predicate)
                if not _LITERAL_NUMBERS.isdisjoint(map(type, literals)):  # a list may have thousands
                    found.setdefault(predicate.lhs.name, next(one for one in literals if type(one) in _LITERAL_NUMBERS))
    return [
        f"column '{name}' holds texts and is compared with the number {value} as a text, letter by letter; write "
        f"'{value}' if that is meant, CAST({name} AS DOUBLE) to compare numbers"
        for name, value in found.items()
    ]


def _literals_beside_instants(context: QueryContext) -> list[str]:
    """Instants compared with a number that is hardly meant as milliseconds: which columns, with which literal."""
    instants = {column.name for column in context.columns if column.data_type is DataType.TIMESTAMP}
    found = dict[str, LiteralValue]()
    for predicate in (one for condition in conditions_of(context) for one in predicates_of(condition)):
        if isinstance(predicate.lhs, Identifier) and predicate.lhs.name in instants:
            numbers = (one for one in predicate_literals(predicate) if isinstance(one, int | float | Decimal))
            odd = next((one for one in numbers if one and -_INSTANTS_MIN < one < _INSTANTS_MIN), None)
            if odd is not None:
                found.setdefault(predicate.lhs.name, odd)
    return [
        f"column '{name}' holds instants and is compared with the number {value}, which is taken as "
        f"{_AS_NUMBERS['instants']}, a time about 1970; write a date in quotes ('2026-01-02'), seconds as "
        f"FROMEPOCHSECONDS(…)"
        for name, value in found.items()
    ]


def _literals_beside_booleans(context: QueryContext) -> list[str]:
    """Booleans compared with what is neither true nor false: which columns, with which literal."""
    booleans = {column.name for column in context.columns if column.data_type is DataType.BOOLEAN}
    if not booleans:
        return []
    is_sql = context.dialect is Dialect.SQL
    found = dict[str, str]()

    def compared(name: str, literals: Iterable[LiteralValue]) -> None:
        texts = (literal_text(value) for value in literals)
        odd = next(
            (text for text in texts if (text.lower() not in _TRUTHS if is_sql else text not in _PQL_TRUTHS)), None
        )
        if odd is not None:
            found.setdefault(name, odd if len(odd) <= _CHARACTERS_MAX else f"{odd[:_CHARACTERS_MAX]}…")

    for predicate in (one for condition in conditions_of(context) for one in predicates_of(condition)):
        if (
            isinstance(predicate.lhs, Identifier)
            and predicate.lhs.name in booleans
            and predicate.comparison in _BY_VALUE
        ):
            compared(predicate.lhs.name, predicate_literals(predicate))
    for call in calls_in(expressions_of(context)):
        if call.name in _CALLS_BY_VALUE:
            literals = [arg.value for arg in call.args if isinstance(arg, Literal) and arg.value is not None]
            for arg in call.args:
                if isinstance(arg, Identifier) and arg.name in booleans:
                    compared(arg.name, literals)
    if is_sql:
        said = "counts as false, as everything does but 'true' and '1'; write TRUE or FALSE"
    else:
        said = "is neither of the texts 'true' and 'false' that PQL has for them"
    return [
        f"column '{name}' holds booleans and is compared with '{text}', which {said}" for name, text in found.items()
    ]


def _columns_beside_columns(context: QueryContext) -> list[str]:
    compared = [call for call in calls_in(expressions_of(context)) if call.name in _COMPARED and len(call.args) == 2]
    if not compared:
        return []  # nearly all queries
    types = types_of(context)
    found = []
    for call in compared:
        left, right = (_side(arg, types) for arg in call.args)
        if left is not None and right is not None:
            found += _said_of(left, right, types.dialect) or _said_of(right, left, types.dialect)
    return found


def _side(expression: Expression, types: ExpressionTypes) -> _Side | None:
    """None for what reads no column, and for what has no single type here (aggregations in HAVING)."""
    names = columns_in(expression)
    try:
        data_type = types.of(expression).data_type if names else None
        read = {types.columns[name].data_type for name in names}
    except (InvalidQueryError, QueryExecutionError, KeyError):
        return None
    kind = _KINDS.get(data_type, "") if data_type is not None else ""
    if not kind:
        return None
    is_column = isinstance(expression, Identifier)
    is_plain = DataType.TIMESTAMP not in read and all(call.name in ARITHMETIC for call in calls_in([expression]))
    name = short_name(expression, types.dialect)
    return _Side(f"column '{name}'" if is_column else name, name if is_column else "…", kind, is_plain)


def short_name(expression: Expression, dialect: Dialect) -> str:
    """The expression as it is printed, cut where that is long."""
    shown = print_expression(expression, dialect)
    return shown if len(shown) <= _CHARACTERS_MAX else f"{shown[:_CHARACTERS_MAX]}…"


def _said_of(one: _Side, other: _Side, dialect: Dialect) -> list[str]:
    if one.kind == "texts" and other.kind in ("numbers", *_AS_NUMBERS):
        detail = f" ({_AS_NUMBERS[other.kind]})" if other.kind in _AS_NUMBERS else ""
        said = (
            f"{one.name} holds texts, {other.name} {other.kind}: they are compared as numbers{detail}, and a text that "
            "is no number ends the query"
        )
        numbers = f"CAST({one.short} AS {_TYPES[other.kind]}) to compare {other.kind}"
        remedy = f"; write {numbers}, CAST({other.short} AS VARCHAR) to compare texts"
    elif one.kind == "instants" and other.kind == "numbers" and other.is_plain:
        said = f"{one.name} holds instants, {other.name} numbers: these are taken as {_AS_NUMBERS['instants']}"
        remedy = (
            f"; write CAST({other.short} AS TIMESTAMP) if that is meant, FROMEPOCHSECONDS({other.short}) or its like "
            "for another unit"
        )
    else:
        return []
    return [said + (remedy if dialect is Dialect.SQL else "")]


def conditions_of(context: QueryContext) -> list[Filter]:
    every = (context.filter, context.having, *(one.filter for one in context.aggregations))
    return [condition for condition in every if condition is not None]


def _parts_of(conditions: Iterable[Filter]) -> Iterator[Filter]:
    for condition in conditions:
        yield from nodes_of(condition)


def expressions_of(context: QueryContext) -> Iterator[Expression]:
    """Every expression of a query."""
    for part in _parts_of(conditions_of(context)):
        if isinstance(part, ExpressionPredicate):
            yield part.expression
    for predicate in (one for condition in conditions_of(context) for one in predicates_of(condition)):
        yield predicate.lhs
    for output in context.output:
        if not isinstance(output.expression, AggregationRef):
            yield output.expression
    for key in context.order_by:
        if not isinstance(key.expression, AggregationRef):
            yield key.expression
    yield from context.group_by
    for aggregation in context.aggregations:
        yield from aggregation.args


def calls_in(expressions: Iterable[Expression]) -> Iterator[Call]:
    stack = [one for one in expressions if isinstance(one, Call)]
    while stack:
        call = stack.pop()
        yield call
        stack += [arg for arg in call.args if isinstance(arg, Call)]
