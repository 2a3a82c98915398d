"""Expressions and conditions over finished groups: HAVING, ORDER BY and selected expressions such as SUM(a)/COUNT(*).

Evaluated once per answer over whole columns, with Arrow's three-valued logic; a condition that is unknown is not true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.errors import InvalidQueryError
from pinotpy.functions.patterns import like_pattern, regexp_pattern
from pinotpy.pql.ast import Call, Expression, Literal
from pinotpy.query.context import AggregationRef, And, Comparison, Constant, ExpressionPredicate, Filter, Not, Or, Predicate
from pinotpy.query.predicate import as_double
from pinotpy.query.result_types import ARITHMETIC, COMPARISONS

# Names that the rewriting of SUM(a + 1) and its kin uses.
_ALIASES = {"add": "plus", "sub": "minus", "mult": "times", "div": "divide"}
_COMPARE = {
    "equals": pc.equal,
    "not_equals": pc.not_equal,
    "greater_than": pc.greater,
    "greater_than_or_equal": pc.greater_equal,
    "less_than": pc.less,
    "less_than_or_equal": pc.less_equal,
}


@dataclass(frozen=True, slots=True)
class Groups:
    """Finished groups: key columns by expression, aggregation values by index, all `num_rows` long; `ranks`: by index what
    PQL orders groups by."""

    keys: Mapping[Expression, pa.Array]
    values: tuple[pa.Array, ...]
    num_rows: int
    ranks: tuple[pa.Array, ...] = ()


def evaluate(expression: Expression | AggregationRef, groups: Groups) -> pa.Array:
    """The values of an expression over the groups. Arithmetic is done in doubles (sql-live §3)."""
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return groups.values[index]
        case _ if expression in groups.keys:
            return groups.keys[expression]
        case Literal(value=value):
            return pa.array([_plain(value)] * groups.num_rows) if value is not None else pa.nulls(groups.num_rows)
        case Call(name=name, args=(left, right)) if _ALIASES.get(name, name) in ARITHMETIC:
            return _arithmetic(_ALIASES.get(name, name), evaluate(left, groups), evaluate(right, groups))
        case Call(name=name, args=(left, right)) if name in COMPARISONS:
            return _COMPARE[name](*_comparable(evaluate(left, groups), evaluate(right, groups)))
        case Call(name="and", args=args):
            return _fold(pc.and_kleene, [evaluate(arg, groups) for arg in args])
        case Call(name="or", args=args):
            return _fold(pc.or_kleene, [evaluate(arg, groups) for arg in args])
        case Call(name="not", args=(arg,)):
            return pc.invert(evaluate(arg, groups))
        case Call(name="is_null", args=(arg,)):
            return pc.is_null(evaluate(arg, groups))
        case Call(name="is_not_null", args=(arg,)):
            return pc.is_valid(evaluate(arg, groups))
        case Call(name=name):
            raise InvalidQueryError(f"unsupported function over aggregations: '{name}'; use + - * / %, comparisons, AND, OR, NOT", function=name)
        case _:
            raise InvalidQueryError(f"'{expression}' is neither grouped nor an aggregation")


def select_groups(condition: Filter, groups: Groups) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which groups a HAVING keeps, bool[num_rows]."""
    kept = pc.fill_null(_condition(condition, groups), False)
    return np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)


def _condition(condition: Filter, groups: Groups) -> pa.Array:
    match condition:
        case And(children=children):
            return _fold(pc.and_kleene, [_condition(child, groups) for child in children])
        case Or(children=children):
            return _fold(pc.or_kleene, [_condition(child, groups) for child in children])
        case Not(child=child):
            return pc.invert(_condition(child, groups))
        case Constant(value=value):
            return pa.array(np.full(groups.num_rows, value))
        case ExpressionPredicate(expression=expression):
            return evaluate(expression, groups)
        case Predicate():
            return _predicate(condition, evaluate(condition.lhs, groups))


def _predicate(predicate: Predicate, values: pa.Array) -> pa.Array:
    def compare(operation: Any, literal: Any) -> pa.Array:
        return operation(*_comparable(values, pa.array([_plain(literal)])))

    match predicate.comparison:
        case Comparison.EQ:
            return compare(_broadcast(pc.equal), predicate.values[0])
        case Comparison.NOT_EQ:
            return compare(_broadcast(pc.not_equal), predicate.values[0])
        case Comparison.IN:
            return _fold(pc.or_kleene, [compare(_broadcast(pc.equal), value) for value in predicate.values])
        case Comparison.NOT_IN:
            return pc.invert(_fold(pc.or_kleene, [compare(_broadcast(pc.equal), value) for value in predicate.values]))
        case Comparison.RANGE:
            ends = []
            if predicate.lower is not None:
                ends.append(compare(_broadcast(pc.greater_equal if predicate.lower.inclusive else pc.greater), predicate.lower.value))
            if predicate.upper is not None:
                ends.append(compare(_broadcast(pc.less_equal if predicate.upper.inclusive else pc.less), predicate.upper.value))
            return _fold(pc.and_kleene, ends)
        case Comparison.IS_NULL:
            return pc.is_null(values)
        case Comparison.IS_NOT_NULL:
            return pc.is_valid(values)
        case Comparison.LIKE | Comparison.NOT_LIKE | Comparison.REGEXP_LIKE if pa.types.is_string(values.type):
            return _matches(predicate, values)
        case other:
            raise InvalidQueryError(f"HAVING takes {other.value} on text only, found {values.type}; compare numbers with < = > BETWEEN IN")


def _matches(predicate: Predicate, values: pa.Array) -> pa.Array:
    written, ignore_case = str(predicate.values[0]), "i" in predicate.flags
    if predicate.comparison is Comparison.REGEXP_LIKE:
        pattern = regexp_pattern(written, ignore_case=ignore_case)
    else:
        pattern = like_pattern(written, ignore_case=ignore_case, escape=predicate.escape)
    found = pattern.matches(pc.fill_null(values, ""))
    return pa.array(~found if predicate.comparison is Comparison.NOT_LIKE else found, mask=values.is_null().to_numpy(zero_copy_only=False))


def _broadcast(operation: Any) -> Any:
    return lambda values, one: operation(values, one[0])


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    too_large = isinstance(value, int) and not -(2**63) <= value < 2**63
    return as_double(value) if too_large else value


def _comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both sides in one type: numbers by value, else text; comparing a number with text that is none is refused."""
    if left.type == right.type or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return left, right
    numeric = [_is_number(side.type) for side in (left, right)]
    if all(numeric):
        return left, right
    try:
        return (left, right.cast(left.type)) if numeric[0] or not numeric[1] else (left.cast(right.type), right)
    except pa.ArrowException as error:
        raise InvalidQueryError(f"cannot compare {left.type} with {right.type} in HAVING: {error}") from error


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _arithmetic(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    valid = pc.and_(left.is_valid(), right.is_valid())
    try:
        a, b = (pc.fill_null(side.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False) for side in (left, right))
    except pa.ArrowException as error:
        raise InvalidQueryError(f"cannot compute with {left.type} and {right.type}: {error}") from error
    with np.errstate(all="ignore"):
        match name:
            case "plus":
                out = a + b
            case "minus":
                out = a - b
            case "times":
                out = a * b
            case "divide":
                out = a / b
            case _:
                out = np.fmod(a, b)
    return pa.array(out, mask=~np.asarray(valid.to_numpy(zero_copy_only=False), np.bool_))


def _fold(operation: Any, parts: list[pa.Array]) -> pa.Array:
    folded = parts[0]
    for part in parts[1:]:
        folded = operation(folded, part)
    return folded
