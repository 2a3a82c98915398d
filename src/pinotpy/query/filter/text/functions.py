"""Conditions that are calls of CONTAINS, STARTSWITH and ENDSWITH with a constant: patterns on a column, answered as
LIKE is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.functions.text.patterns import TextPattern, literal_pattern
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.function_names import canonical_function
from pinotpy.query.model.context import ColumnRef, Comparison, ExpressionPredicate, Predicate
from pinotpy.query.model.predicate import TextTest, TypedPredicate

# Longer ones are left to Arrow, whose search never takes more than a step a byte.
_BYTES_MAX: Final = 1 << 10
_PATTERNS: Final[dict[str, Callable[[str], TextPattern]]] = {
    "contains": literal_pattern,
    "startswith": lambda text: literal_pattern(text, start=True),
    "endswith": lambda text: literal_pattern(text, end=True),
}


def text_predicate(
    condition: Predicate | ExpressionPredicate, columns: Mapping[str, ColumnRef]
) -> TypedPredicate | None:
    """The predicate of `contains(column, 'text')`, and of `contains(…) = true`; None for what is no such condition."""
    if isinstance(condition, ExpressionPredicate):
        return _predicate_of(condition.expression, condition, columns)
    if condition.comparison is Comparison.EQ and len(condition.values) == 1 and isinstance(condition.values[0], bool):
        bound = _predicate_of(condition.lhs, condition, columns)
        return bound if bound is None or condition.values[0] else bound.inverse()
    return None


def _predicate_of(
    expression: Expression, condition: Predicate | ExpressionPredicate, columns: Mapping[str, ColumnRef]
) -> TypedPredicate | None:
    if not isinstance(expression, Call) or len(expression.args) != 2:
        return None
    pattern, (operand, text) = _PATTERNS.get(canonical_function(expression.name)), expression.args
    if pattern is None or not isinstance(operand, Identifier) or not isinstance(text, Literal) or not text.is_string:
        return None
    column = columns.get(operand.name)
    if column is None or column.data_type is not DataType.STRING or not column.single_value:
        return None
    if len(text.text) > _BYTES_MAX or any("\ud800" <= character <= "\udfff" for character in text.text):
        return None
    return TypedPredicate(column.name, TextTest(pattern(text.text)), source=condition)
